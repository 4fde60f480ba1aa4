//! Calls that a client of the session makes: parked from the beginning, and answered by whoever of its clients comes first.

use dormouse_protocol::broker::{ToolAnswer, WaitsFor};
use dormouse_protocol::{ApiError, ErrorCode};

use super::Fault;
use super::actor::Actor;
use super::ops::Settled;
use super::phase::Live;
use crate::record::{ParkedCall, Pending};

/// How long a call waits for a client: a week.
const WAIT_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

impl Live {
    /// Whether a client of the session makes calls of this tool.
    pub(super) fn is_client_tool(&self, name: &str) -> bool {
        self.state.spec.client_tools.iter().any(|tool| tool.name == name)
    }

    /// A call that waits for a client.
    pub(super) fn for_client(&self, call: u64, name: String, args: serde_json::Value, reference: Option<bool>) -> Pending {
        let since_ms = self.clock.now_ms();
        let until_ms = since_ms.saturating_add(WAIT_MS);
        let (waits_for, editable, look_ms) = (WaitsFor::Client, false, until_ms);
        Pending::Parked(Box::new(ParkedCall {
            call,
            name,
            args,
            fetch: false,
            reference,
            waits_for,
            epoch: self.owned.epoch,
            editable,
            since_ms,
            until_ms,
            look_ms,
        }))
    }
}

impl Actor {
    /// Delivers what a client has answered; returns when that is stored.
    pub(super) async fn answer_call(&mut self, call: u64, answer: ToolAnswer) -> Result<(), Fault> {
        let waiting = |pending: &Pending| matches!(pending, Pending::Parked(it) if it.call == call && it.waits_for == WaitsFor::Client);
        let find = |this: &Self| this.phase.live()?.state.pending.iter().find(|(_, pending)| waiting(pending)).map(|(op, _)| *op);
        let mut found = find(self);
        if found.is_none() {
            self.catch_up().await?;
            found = find(self);
        }
        let Some(op) = found else {
            let message = format!("call {call} waits for no client: it was answered, or is over");
            return Err(Fault::Refused(ApiError::new(ErrorCode::Conflict, message)));
        };
        self.on_settled(Settled::Tool { op, call: Some(call), answer: Ok(answer) }).await?;
        // Whoever answered may forget it.
        if self.phase.live().is_some_and(Live::is_dirty) {
            self.commit().await?;
            self.release();
        }
        Ok(())
    }
}
