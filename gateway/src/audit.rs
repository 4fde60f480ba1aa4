//! The audit trail: a line for each act that has to be found again later, whichever door it came through: reads of what cells wrote, copies, ways
//! back, deletions, decisions and changes of keys. It says who did what to which session and what came of it. Never a body or a credential.

use std::future::Future;

use dormouse_protocol::{ApiError, ErrorCode};

use crate::directory::Key;

/// The target of the trail's lines, for filters and collectors.
pub const TARGET: &str = "dormouse::audit";
/// Characters of what an act is about beside its session; what is longer is cut.
const PART_CHARS_MAX: usize = 256;

/// What is audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Reads what cells wrote: files, events, the journal, runs, differences, arguments of calls that wait for a person.
    Read,
    /// Makes a session out of one.
    Fork,
    /// Goes back to a checkpoint.
    Restore,
    /// Empties a session.
    Reset,
    /// Runs a session's cells again on another engine.
    Migrate,
    /// Puts a session to sleep before its time.
    Hibernate,
    /// Deletes a session or a file of it.
    Delete,
    /// Decides about a call that waits for a person.
    Decide,
    /// Makes a link with which its holder decides.
    Link,
    /// Makes an API key.
    CreateKey,
    /// Revokes one.
    RevokeKey,
}

impl Act {
    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Fork => "fork",
            Self::Restore => "restore",
            Self::Reset => "reset",
            Self::Migrate => "migrate",
            Self::Hibernate => "hibernate",
            Self::Delete => "delete",
            Self::Decide => "decide",
            Self::Link => "link",
            Self::CreateKey => "create-key",
            Self::RevokeKey => "revoke-key",
        }
    }
}

/// The line of an act under way. Dropped before its result is known, it says so: a client that leaves takes no line with it.
struct Line<'a> {
    user: &'a str,
    act: Act,
    key: &'a Key,
    part: &'a str,
    request_id: &'a str,
    result: Option<Done>,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let Self { user, key, request_id, .. } = self;
        let result = outcome(self.result);
        let (verb, object) = (self.act.as_str(), key.to_string());
        // What is no session's is its namespace's.
        let object = object.trim_end_matches('/');
        let part = shortened(self.part);
        tracing::info!(target: TARGET, user, verb, object, part, result, request_id, "audit");
    }
}

/// What came of something.
pub(crate) type Done = Result<(), ErrorCode>;

/// That of what an API answers.
pub(crate) fn done<T>(answered: &Result<T, ApiError>) -> Done {
    answered.as_ref().map(drop).map_err(|error| error.code)
}

/// How a line says what came of it; `None`: nobody knows.
pub(crate) fn outcome(done: Option<Done>) -> String {
    match done {
        Some(Ok(())) => "ok".to_owned(),
        Some(Err(code)) => code.to_string(),
        None => "unknown".to_owned(),
    }
}

/// What a line says of a part.
pub(crate) fn shortened(part: &str) -> String {
    part.chars().take(PART_CHARS_MAX).collect()
}

/// A file of a session, as a line names it.
pub(crate) fn file(path: &str) -> String {
    format!("files/{}", path.trim_start_matches('/'))
}

/// Does `work` for `user`, and writes the line when its result is known. `part`: what of the session it is about.
pub(crate) async fn audited<T>(
    user: &str,
    request_id: &str,
    (act, key, part): (Act, &Key, &str),
    work: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let mut line = Line { user, act, key, part, request_id, result: None };
    let answered = work.await;
    line.result = Some(done(&answered));
    answered
}
