//! Which calls were made, and what came of them: in memory, for the life of the process. [`crate::ledger`] has what outlives it.
//!
//! A call that arrives for the first time says so; whoever sends one again, says that. So a process that began after a call was made
//! still does not let it be made twice.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dormouse_lifecycle::{attempts::may_follow, json};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{ToolAnswer, ToolCall},
};
use tokio::sync::watch;

/// What is kept, at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Sessions; the one unused for longest goes first, unless a call of it is running.
    pub(crate) sessions_max: usize,
    /// Calls of a session; the lowest number goes first.
    pub(crate) session_calls_max: usize,
    /// Bytes of a session's answers; the lowest number goes first.
    pub(crate) session_bytes_max: usize,
    /// Bytes of all answers; those of the session unused for longest go first.
    pub(crate) bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions_max: 20_000, session_calls_max: 1_024, session_bytes_max: 16 << 20, bytes_max: 128 << 20 }
    }
}

/// What whoever waits for a call hears.
type Ended = Option<Result<Arc<ToolAnswer>, ApiError>>;
type Pending = watch::Receiver<Ended>;

/// The calls that this process has made or makes, with their answers. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct RecentCalls {
    state: Arc<Mutex<State>>,
    limits: Limits,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<String, Session>,
    bytes: usize,
    /// Counts claims: the order in which sessions were used.
    clock: u64,
}

#[derive(Debug, Default)]
struct Session {
    epoch: u64,
    calls: BTreeMap<u64, Entry>,
    /// Calls up to this number may have been made and are no longer known.
    forgotten_through: u64,
    bytes: usize,
    used: u64,
}

#[derive(Debug)]
struct Entry {
    /// Tells a repeated call from another one with the same number.
    fingerprint: String,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    Running(Pending),
    Done(Arc<ToolAnswer>, usize),
    /// It was made, and its answer had to go.
    Dropped,
}

/// What to do about a call.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It is new: make it, and finish the ticket.
    Run(Ticket),
    /// It is being made.
    Wait(Pending),
    /// It was made.
    Answered(Arc<ToolAnswer>),
}

/// The duty to finish a call. Dropped unfinished, it finishes with `OutcomeUnknown`, as the call may have had its effect.
#[derive(Debug)]
pub(crate) struct Ticket {
    recent: RecentCalls,
    session_uid: String,
    call: u64,
    answer: Option<watch::Sender<Ended>>,
}

impl RecentCalls {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { state: Arc::default(), limits }
    }

    /// Claims a call; `safe` when one that is not known here may be made though it was sent before: making it twice does no harm,
    /// or somebody else knows.
    ///
    /// # Errors
    /// `SessionGone` below the session's highest epoch, `Conflict` when the number belongs to another call, `OutcomeUnknown` when its answer is
    /// gone, or it was sent before and what became of it is not known here.
    pub(crate) fn claim(&self, call: &ToolCall, safe: bool) -> Result<Claim, ApiError> {
        if call.call == 0 {
            return Err(ApiError::new(ErrorCode::InvalidRequest, "calls are numbered from 1"));
        }
        let mut state = self.lock();
        let known = state.sessions.contains_key(&call.session_uid);
        if !known && state.sessions.len() >= self.limits.sessions_max {
            state.forget_oldest_session();
        }
        state.clock += 1;
        let used = state.clock;
        let session = state.sessions.entry(call.session_uid.clone()).or_default();
        if call.epoch < session.epoch {
            let message = format!("the session is at epoch {}; {} is over", session.epoch, call.epoch);
            return Err(ApiError::new(ErrorCode::SessionGone, message).with_detail("epoch", session.epoch));
        }
        if !may_follow(session.epoch, call.epoch) {
            return Err(ApiError::new(ErrorCode::InvalidRequest, "the caller's epoch is further ahead than any owner's"));
        }
        session.epoch = call.epoch;
        session.used = used;
        let fingerprint = fingerprint(call);
        match session.calls.get(&call.call) {
            Some(entry) if entry.fingerprint != fingerprint => {
                Err(ApiError::new(ErrorCode::Conflict, format!("call {} of this session was another one", call.call)))
            }
            Some(Entry { progress: Progress::Running(pending), .. }) => Ok(Claim::Wait(pending.clone())),
            Some(Entry { progress: Progress::Done(answer, _), .. }) => Ok(Claim::Answered(answer.clone())),
            Some(Entry { progress: Progress::Dropped, .. }) => Err(forgotten(call.call)),
            None if call.call <= session.forgotten_through => Err(forgotten(call.call)),
            None if call.repeated && !safe => {
                // Its number is taken from now on: an owner that was replaced may still come with the first sending.
                session.calls.insert(call.call, Entry { fingerprint, progress: Progress::Dropped });
                let freed = session.trim(&self.limits);
                state.bytes = state.bytes.saturating_sub(freed);
                Err(unknown(call.call))
            }
            None => {
                let (sender, receiver) = watch::channel(None);
                session.calls.insert(call.call, Entry { fingerprint, progress: Progress::Running(receiver) });
                let (recent, session_uid) = (self.clone(), call.session_uid.clone());
                Ok(Claim::Run(Ticket { recent, session_uid, call: call.call, answer: Some(sender) }))
            }
        }
    }

    fn finish(&self, session_uid: &str, call: u64, answer: &Arc<ToolAnswer>) {
        let bytes = json::bytes(answer.as_ref());
        let mut state = self.lock();
        let Some(session) = state.sessions.get_mut(session_uid) else { return };
        if let Some(entry) = session.calls.get_mut(&call) {
            entry.progress = Progress::Done(answer.clone(), bytes);
            session.bytes += bytes;
        }
        let freed = session.trim(&self.limits);
        state.bytes = (state.bytes + bytes).saturating_sub(freed);
        state.trim(&self.limits);
    }

    /// Forgets a call that was not made.
    fn withdraw(&self, session_uid: &str, call: u64) {
        let mut state = self.lock();
        if let Some(session) = state.sessions.get_mut(session_uid) {
            session.calls.remove(&call);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What comes of a call that is being made.
pub(crate) async fn ended(pending: Option<Pending>) -> Result<Arc<ToolAnswer>, ApiError> {
    let lost = || ApiError::new(ErrorCode::Internal, "the call was lost");
    let mut pending = pending.ok_or_else(lost)?;
    let ended = pending.wait_for(Option::is_some).await.map_err(|_| lost())?.clone();
    ended.ok_or_else(lost)?
}

fn forgotten(call: u64) -> ApiError {
    ApiError::new(
        ErrorCode::OutcomeUnknown,
        format!("call {call} was made long ago and its answer is no longer kept; it is not made again"),
    )
}

fn unknown(call: u64) -> ApiError {
    let message = format!(
        "call {call} may have been made through a broker that has ended since; what came of it is not known, and it is not made again"
    );
    ApiError::new(ErrorCode::OutcomeUnknown, message)
}

/// What two sendings of the same call have in common.
pub(crate) fn fingerprint(call: &ToolCall) -> String {
    dormouse_lifecycle::calls::fingerprint(&call.tool, &call.args.to_string())
}

impl Session {
    /// Keeps the session within its limits; returns the bytes that became free.
    fn trim(&mut self, limits: &Limits) -> usize {
        let before = self.bytes;
        while self.bytes > limits.session_bytes_max && self.drop_oldest_answer() {}
        while self.calls.len() > limits.session_calls_max {
            let settled = |entry: &Entry| !matches!(entry.progress, Progress::Running(_));
            let Some(call) = self.calls.iter().find(|(_, entry)| settled(entry)).map(|(call, _)| *call) else { break };
            if let Some(Entry { progress: Progress::Done(_, bytes), .. }) = self.calls.remove(&call) {
                self.bytes = self.bytes.saturating_sub(bytes);
            }
            self.forgotten_through = self.forgotten_through.max(call);
        }
        before - self.bytes
    }

    fn drop_oldest_answer(&mut self) -> bool {
        for entry in self.calls.values_mut() {
            if let Progress::Done(_, bytes) = entry.progress {
                entry.progress = Progress::Dropped;
                self.bytes = self.bytes.saturating_sub(bytes);
                return true;
            }
        }
        false
    }

    fn running(&self) -> bool {
        self.calls.values().any(|entry| matches!(entry.progress, Progress::Running(_)))
    }
}

impl State {
    fn trim(&mut self, limits: &Limits) {
        while self.bytes > limits.bytes_max {
            let Some(session) = self.sessions.values_mut().filter(|session| session.bytes > 0).min_by_key(|session| session.used) else {
                return;
            };
            let before = session.bytes;
            while session.drop_oldest_answer() {}
            self.bytes = self.bytes.saturating_sub(before);
        }
    }

    fn forget_oldest_session(&mut self) {
        let idle = self.sessions.iter().filter(|(_, session)| !session.running());
        let Some(uid) = idle.min_by_key(|(_, session)| session.used).map(|(uid, _)| uid.clone()) else { return };
        if let Some(session) = self.sessions.remove(&uid) {
            self.bytes = self.bytes.saturating_sub(session.bytes);
        }
    }
}

impl Ticket {
    /// The place where the answer will appear.
    pub(crate) fn pending(&self) -> Option<Pending> {
        self.answer.as_ref().map(watch::Sender::subscribe)
    }

    /// Journals the answer and gives it to everybody who waits.
    pub(crate) fn finish(mut self, answer: Arc<ToolAnswer>) {
        self.settle(answer);
    }

    /// Gives everybody who waits an answer that can be had once, of a call that may be made again: the next sending claims it anew.
    pub(crate) fn hand_over(mut self, answer: ToolAnswer) {
        if let Some(sender) = self.answer.take() {
            self.recent.withdraw(&self.session_uid, self.call);
            sender.send_replace(Some(Ok(Arc::new(answer))));
        }
    }

    /// Tells everybody who waits that the call is not made. The next sending claims it anew.
    pub(crate) fn refuse(mut self, error: ApiError) {
        if let Some(sender) = self.answer.take() {
            self.recent.withdraw(&self.session_uid, self.call);
            sender.send_replace(Some(Err(error)));
        }
    }

    fn settle(&mut self, answer: Arc<ToolAnswer>) {
        if let Some(sender) = self.answer.take() {
            self.recent.finish(&self.session_uid, self.call, &answer);
            sender.send_replace(Some(Ok(answer)));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let error = ApiError::new(ErrorCode::OutcomeUnknown, "the broker failed during this call; it may or may not have been made");
        self.settle(Arc::new(ToolAnswer::Err { error }));
    }
}

#[cfg(test)]
#[path = "recent_tests.rs"]
mod tests;
