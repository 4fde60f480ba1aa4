//! Host operations in flight: timers, tool calls and fetches of one live instance. All of it is rebuilt from the record after a restore.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dormouse_protocol::broker::{BodyCall, CloseCall, FetchCall, ToolAnswer, ToolCall, Waits, WaitsFor};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::Clock;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::contents::Contents;
use crate::record::{Pending, SessionState};
use crate::references;
use crate::streamed::{self, Came, Received};
use crate::tools::Caller;

/// The longest that a timer sleeps before it looks at the clock again.
const TIMER_SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// In place of a notice's number: the question of which events the broker tells anybody.
const LEARNING: u64 = 0;

/// An operation that can be delivered.
#[derive(Debug)]
pub(crate) enum Settled {
    /// A timer is due.
    Timer {
        /// The engine's number.
        op: u64,
    },
    /// A call that waits for a person is to be asked for again, or the broker to be told something again.
    Look,
    /// The broker has a notice, or does not take it now.
    Noticed {
        /// Its number in the session.
        number: u64,
        /// Whether it has it.
        taken: bool,
    },
    /// The broker has said of which events it tells anybody, or does not say it now.
    Learnt,
    /// This process refuses a call.
    Refused {
        /// The engine's number.
        op: u64,
        /// The error's name.
        name: String,
        /// The error's message.
        message: String,
    },
    /// A broker has answered, or the call failed for good.
    Tool {
        /// The engine's number.
        op: u64,
        /// The call's number in the session; a part of a body has none.
        call: Option<u64>,
        /// What came.
        answer: Result<ToolAnswer, ApiError>,
    },
    /// A large answer has come, outside the heap.
    Received {
        /// The engine's number.
        op: u64,
        /// The call's number in the session.
        call: Option<u64>,
        /// What came.
        received: Received,
    },
}

/// One call, as it leaves.
struct Sending {
    call: u64,
    tool: String,
    args: serde_json::Value,
    fetch: bool,
    repeated: bool,
    settled_below: u64,
    page: Option<String>,
    waits: Waits,
    /// The epoch in which it was made, if it waits.
    made_in: Option<u64>,
    /// Whether its answer is to stay outside the heap, if the code has said so.
    reference: Option<bool>,
}

/// A call that is under way: its operation, its number, and what came.
type Called = (u64, Option<u64>, Result<Came, ApiError>);

/// What is under way. Dropping it ends the waits; a call that has left is asked for again, by its number, after a restore.
pub(crate) struct InFlight {
    /// What references among arguments stand for.
    contents: Arc<Contents>,
    timers: BTreeMap<(Instant, u64), ()>,
    due: BTreeMap<u64, Instant>,
    calls: JoinSet<Called>,
    called: BTreeSet<u64>,
    /// Calls that wait for a person, and were decided about while they were asked for.
    told: BTreeSet<u64>,
    /// Notices on their way to the broker.
    notices: JoinSet<(u64, bool)>,
    /// Their numbers.
    noticing: BTreeSet<u64>,
    /// When the next of the others is due.
    notice_at: Option<Instant>,
    /// What may be given up: fetches, and parts of bodies.
    abortable: BTreeMap<u64, AbortHandle>,
    /// Calls that the record already held: an earlier owner may have sent them.
    inherited: BTreeSet<u64>,
    clock: Clock,
}

impl InFlight {
    /// What a record that was restored holds, under way again.
    pub(crate) fn resume(state: &SessionState, contents: Arc<Contents>, clock: Clock, caller: Option<&Caller>) -> Self {
        let mut in_flight = Self {
            contents,
            timers: BTreeMap::new(),
            due: BTreeMap::new(),
            calls: JoinSet::new(),
            called: BTreeSet::new(),
            told: BTreeSet::new(),
            notices: JoinSet::new(),
            noticing: BTreeSet::new(),
            notice_at: None,
            abortable: BTreeMap::new(),
            inherited: state.pending.keys().copied().collect(),
            clock,
        };
        // What is restored may already be less than what is committed, so nothing is said about what is settled.
        in_flight.follow(state, caller, 0);
        in_flight
    }

    /// Arms every timer and sends every call of `state` that is not under way, and drops the timers that are not there any more.
    /// Calls below `settled_below` have their answers in a committed state.
    pub(crate) fn follow(&mut self, state: &SessionState, caller: Option<&Caller>, settled_below: u64) {
        let gone: Vec<(u64, Instant)> =
            self.due.iter().filter(|(op, _)| !state.pending.contains_key(op)).map(|(op, at)| (*op, *at)).collect();
        for (op, at) in gone {
            self.due.remove(&op);
            self.timers.remove(&(at, op));
        }
        self.abortable.retain(|op, task| {
            let wanted = state.pending.contains_key(op);
            if !wanted {
                task.abort();
            }
            wanted
        });
        // Overdue timers fire in the order of their deadlines, so they are armed in it.
        let mut timers: Vec<(i64, u64)> = Vec::new();
        for (&op, pending) in &state.pending {
            match pending {
                Pending::Parked(parked) if parked.waits_for == WaitsFor::Client => {
                    if !self.due.contains_key(&op) {
                        timers.push((parked.until_ms, op));
                    }
                }
                Pending::Parked(parked) => {
                    if let Some(caller) = caller
                        && self.called.insert(op)
                    {
                        let page = caller.tools.page(&caller.uid).or_else(|| state.page.clone());
                        let waits = match (parked.waits_for.is_person(), self.clock.now_ms() < parked.until_ms) {
                            (true, true) => Waits::Decision,
                            (true, false) => Waits::Over,
                            (false, true) => Waits::Job,
                            (false, false) => Waits::JobOver,
                        };
                        let (tool, args, fetch, reference) = (parked.name.clone(), parked.args.clone(), parked.fetch, parked.reference);
                        // It may have been made after a decision that this heap does not know.
                        let repeated = true;
                        let (call, made_in) = (parked.call, Some(parked.epoch));
                        self.send(
                            op,
                            caller,
                            Sending { call, tool, args, fetch, repeated, settled_below, page, waits, made_in, reference },
                        );
                    }
                }
                Pending::Timer { due_ms } if !self.due.contains_key(&op) => timers.push((*due_ms, op)),
                Pending::Timer { .. } => {}
                Pending::Tool { call, name, args, fetch, reference } => {
                    if let Some(caller) = caller
                        && self.called.insert(op)
                    {
                        let repeated = self.inherited.contains(&op);
                        let page = caller.tools.page(&caller.uid).or_else(|| state.page.clone());
                        let sending = Sending {
                            call: *call,
                            tool: name.clone(),
                            args: args.clone(),
                            fetch: *fetch,
                            repeated,
                            settled_below,
                            page,
                            waits: Waits::No,
                            made_in: None,
                            reference: *reference,
                        };
                        self.send(op, caller, sending);
                    }
                }
                Pending::Body { stream, part } => {
                    if let Some(caller) = caller
                        && self.called.insert(op)
                    {
                        self.ask_for_part(op, caller, *stream, *part);
                    }
                }
                Pending::Refused { .. } => {}
            }
        }
        timers.sort_unstable();
        for (due_ms, op) in timers {
            self.arm(op, due_ms);
        }
        self.follow_notices(state, caller);
    }

    /// Tells the broker what is due, and notes when the rest is.
    fn follow_notices(&mut self, state: &SessionState, caller: Option<&Caller>) {
        let now_ms = self.clock.now_ms();
        let Some(caller) = caller else { return };
        for number in state.notices.due(now_ms) {
            let Some(notice) = state.notice(number, &caller.uid).filter(|_| self.noticing.insert(number)) else { continue };
            let (tools, broker) = (Arc::clone(&caller.tools), caller.broker.clone());
            self.notices.spawn(async move {
                let taken = tools.notify(&broker, notice).await;
                if let Err(error) = &taken {
                    tracing::warn!(broker, number, %error, "the ToolBroker does not take a notice now");
                }
                (number, taken.is_ok())
            });
        }
        let later = state.notices.due_ms().filter(|due_ms| *due_ms > now_ms);
        self.notice_at = later.map(|due_ms| {
            let wait_ms = u64::try_from(due_ms.saturating_sub(now_ms)).unwrap_or(0);
            Instant::now() + Duration::from_millis(wait_ms).min(TIMER_SLEEP_MAX)
        });
    }

    fn arm(&mut self, op: u64, due_ms: i64) {
        let wait_ms = u64::try_from(due_ms.saturating_sub(self.clock.now_ms())).unwrap_or(0);
        let at = Instant::now() + Duration::from_millis(wait_ms).min(TIMER_SLEEP_MAX);
        self.due.insert(op, at);
        self.timers.insert((at, op), ());
    }

    fn send(&mut self, op: u64, caller: &Caller, sending: Sending) {
        let Caller { tools, broker, namespace, session, uid, epoch, allow, service_secrets, knowledge, origin, by } = caller.clone();
        let Sending { call, tool, args, fetch, repeated, settled_below, page, waits, made_in, reference } = sending;
        let offload = caller.offload();
        let contents = Arc::clone(&self.contents);
        let task = self.calls.spawn(origin.run(async move {
            let body = if fetch { None } else { references::large_body(&contents, &tool, &args).await };
            let references = match fetch {
                true => Ok(BTreeMap::new()),
                false => references::values(&contents, &args, body.as_ref()).await,
            };
            let references = match references {
                Ok(references) => references,
                // What an earlier process has sent, this one cannot take back.
                Err(error) if repeated && error.code == ErrorCode::RefNotFound => {
                    let message = format!("the call may have been made, and cannot be asked for again: {}", error.message);
                    return (op, Some(call), Err(ApiError::new(ErrorCode::OutcomeUnknown, message)));
                }
                Err(error) => return (op, Some(call), Err(error)),
            };
            let request = ToolCall {
                references,
                namespace,
                session,
                session_uid: uid,
                epoch,
                call,
                tool,
                args,
                repeated,
                settled_below,
                page,
                waits,
                made_in,
                service_secrets,
                knowledge,
                body,
                stream_above: references::streamed_above(reference, offload).filter(|_| !fetch),
                by,
            };
            let answer = match fetch {
                true => tools.fetch(&broker, FetchCall { call: request, allow }).await.map(Came::Answer),
                false => streamed::call(&tools, &broker, request, &contents, offload.preview_chars).await,
            };
            (op, Some(call), answer)
        }));
        if fetch {
            self.abortable.insert(op, task);
        }
    }

    fn ask_for_part(&mut self, op: u64, caller: &Caller, stream: u64, part: u64) {
        let Caller { tools, broker, namespace, uid, epoch, origin, .. } = caller.clone();
        let task = self.calls.spawn(origin.run(async move {
            let answer = tools.body(&broker, BodyCall { namespace, session_uid: uid, epoch, stream, part }).await;
            let unreadable = |error| ApiError::new(ErrorCode::Internal, format!("a part of a body cannot be read: {error}"));
            let value = answer.and_then(|answer| serde_json::to_value(answer).map_err(unreadable));
            (op, None, value.map(|value| Came::Answer(ToolAnswer::Ok { value })))
        }));
        self.abortable.insert(op, task);
    }

    /// Tells the broker that nobody waits for a fetch or its body any more. It may not hear of it.
    pub(crate) fn close(caller: &Caller, call: u64) {
        let Caller { tools, broker, namespace, uid, epoch, .. } = caller.clone();
        tokio::spawn(async move { tools.close(&broker, CloseCall { namespace, session_uid: uid, epoch, call }).await });
    }

    /// Asks the broker of which events it tells anybody.
    pub(crate) fn learn(&mut self, caller: &Caller) {
        if self.noticing.insert(LEARNING) {
            let Caller { tools, broker, namespace, .. } = caller.clone();
            self.notices.spawn(async move { (LEARNING, tools.learn_events(&namespace, &broker).await) });
        }
    }

    /// The call waits for a person: it is asked for again at that time, or when somebody tells.
    /// False: somebody has told meanwhile, and it is asked for with the next [`Self::follow`].
    pub(crate) fn rest(&mut self, op: u64, look_ms: i64) -> bool {
        if self.told.remove(&op) {
            self.called.remove(&op);
            return false;
        }
        self.arm(op, look_ms);
        true
    }

    /// The call that waits is asked for now, with the next [`Self::follow`].
    pub(crate) fn look(&mut self, op: u64) {
        if let Some(at) = self.due.remove(&op) {
            self.timers.remove(&(at, op));
            self.called.remove(&op);
        } else {
            // The answer that is under way may be from before the decision.
            self.told.insert(op);
        }
    }

    /// Whether this operation has left this process.
    pub(crate) fn has_left(&self, op: u64) -> bool {
        self.called.contains(&op)
    }

    /// Whether a call, or a notice, is under way.
    pub(crate) fn calls(&self) -> bool {
        !self.calls.is_empty() || !self.notices.is_empty()
    }

    /// The next operation to deliver; never ends while nothing is under way. Safe to drop at any moment.
    pub(crate) async fn next(&mut self, state: &SessionState) -> Settled {
        loop {
            let refused = state.pending.iter().find_map(|(op, pending)| match pending {
                Pending::Refused { name, message } => Some(Settled::Refused { op: *op, name: name.clone(), message: message.clone() }),
                Pending::Timer { .. } | Pending::Tool { .. } | Pending::Parked(_) | Pending::Body { .. } => None,
            });
            if let Some(refused) = refused {
                return refused;
            }
            let first = self.timers.keys().next().copied();
            let timer = async {
                match first {
                    Some((at, op)) => {
                        tokio::time::sleep_until(at).await;
                        (at, op)
                    }
                    None => std::future::pending().await,
                }
            };
            let notice_at = self.notice_at;
            let notice = async {
                match notice_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Answers are as many as calls were made; timers of zero milliseconds would never end.
                biased;
                Some(joined) = self.calls.join_next(), if !self.calls.is_empty() => {
                    match joined {
                        Ok((op, call, Ok(Came::Received(received)))) => return Settled::Received { op, call, received },
                        Ok((op, call, Ok(Came::Answer(answer)))) => return Settled::Tool { op, call, answer: Ok(answer) },
                        Ok((op, call, Err(error))) => return Settled::Tool { op, call, answer: Err(error) },
                        Err(_) => {}
                    }
                }
                Some(joined) = self.notices.join_next(), if !self.notices.is_empty() => {
                    if let Ok((number, taken)) = joined {
                        // It is asked once, whatever comes of it: what is not known when the session falls asleep is asked then.
                        if number == LEARNING {
                            return Settled::Learnt;
                        }
                        self.noticing.remove(&number);
                        return Settled::Noticed { number, taken };
                    }
                }
                () = notice => {
                    self.notice_at = None;
                    return Settled::Look;
                }
                (at, op) = timer => {
                    self.timers.remove(&(at, op));
                    self.due.remove(&op);
                    match state.pending.get(&op) {
                        Some(Pending::Timer { due_ms }) if due_ms.saturating_sub(self.clock.now_ms()) > sleep_max_ms() / 2 => self.arm(op, *due_ms),
                        Some(Pending::Timer { .. }) => return Settled::Timer { op },
                        Some(Pending::Parked(parked)) if parked.look_ms > self.clock.now_ms() => self.arm(op, parked.look_ms),
                        Some(Pending::Parked(parked)) if parked.waits_for == WaitsFor::Client => {
                            let message = "no client of the session answered in time; make the call again if it is still wanted";
                            let answer = Ok(ToolAnswer::Err { error: ApiError::new(ErrorCode::TimeoutError, message) });
                            return Settled::Tool { op, call: Some(parked.call), answer };
                        }
                        Some(Pending::Parked(_)) => {
                            self.called.remove(&op);
                            return Settled::Look;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

fn sleep_max_ms() -> i64 {
    i64::try_from(TIMER_SLEEP_MAX.as_millis()).unwrap_or(i64::MAX)
}
