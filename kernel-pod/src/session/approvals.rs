//! Calls that wait for a person or a runner: the record keeps them, and no process is needed for them.

use dormouse_protocol::ApiError;
use dormouse_protocol::broker::Parked;
use dormouse_protocol::event::EventBody;

use super::Fault;
use super::actor::Actor;
use super::phase::Moved;
use crate::record::{ParkedCall, Pending, shown};

impl Actor {
    /// A broker does not make the call before somebody agrees, or a runner makes it. What waits is stored, so that whoever decides sees it.
    pub(super) async fn park(&mut self, op: u64, parked: Parked) -> Result<(), Fault> {
        let (caller, epoch) = (self.caller(), self.assignment.epoch);
        let Some(live) = self.phase.live_mut() else { return Ok(()) };
        let now_ms = live.clock.now_ms();
        let asked = match live.state.pending.get_mut(&op) {
            // It waits already, and still does.
            Some(Pending::Parked(waiting)) if waiting.waits_for == parked.waits_for => {
                waiting.looked(now_ms);
                let look_ms = waiting.look_ms;
                if !live.in_flight.rest(op, look_ms) {
                    self.release();
                }
                return Ok(());
            }
            // Of one that a person has agreed to, a runner may be waited for.
            Some(Pending::Parked(waiting)) => {
                let agreed = ParkedCall { editable: parked.editable, waits_for: parked.waits_for, ..ParkedCall::clone(waiting) };
                agreed.within(parked.expires_seconds, now_ms)
            }
            Some(Pending::Tool { call, name, args, fetch, reference }) => {
                let asked = ParkedCall {
                    call: *call,
                    name: name.clone(),
                    args: args.clone(),
                    fetch: *fetch,
                    reference: *reference,
                    waits_for: parked.waits_for,
                    epoch: parked.made_in.unwrap_or(epoch),
                    editable: parked.editable,
                    since_ms: now_ms,
                    until_ms: now_ms,
                    look_ms: 0,
                };
                asked.within(parked.expires_seconds, now_ms)
            }
            _ => return Ok(()),
        };
        let person = asked.waits_for.is_person();
        if person {
            live.state.notice_approval(&asked, live.clock.now(), |event| caller.is_none_or(|caller| caller.wants(event)));
        }
        let view = asked.view();
        let args = if asked.fetch { shown(&view.args) } else { view.args };
        let rests = live.in_flight.rest(op, asked.look_ms);
        live.state.pending.insert(op, Pending::Parked(Box::new(asked)));
        live.moved = Moved::Ran;
        if person {
            self.show(EventBody::ApprovalRequired {
                approval_id: view.id,
                call_id: view.call_id,
                tool_name: view.tool_name,
                args,
                epoch: view.epoch,
                expires_at: view.expires_at,
            });
        }
        self.show_state(self.state(true));
        self.commit().await?;
        if !rests {
            self.release();
        }
        Ok(())
    }

    /// Somebody has decided about a call: it is asked for again.
    pub(super) fn on_decided(&mut self, call: u64) -> Result<(), ApiError> {
        if let Some(live) = self.phase.live_mut() {
            let waiting = |pending: &Pending| matches!(pending, Pending::Parked(parked) if parked.call == call);
            let op = live.state.pending.iter().find(|(_, pending)| waiting(pending)).map(|(op, _)| *op);
            if let Some(op) = op {
                live.in_flight.look(op);
            }
        }
        self.release();
        Ok(())
    }
}
