//! Those verbs of a [`Desk`] that read what cells wrote, copy, take back, delete or decide, each with its line in the audit trail; and the same
//! reads for doors that only look.

use std::time::Duration;

use axum::http::header;
use bytes::{Bytes, BytesMut};
use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{ApprovalList, Decide, Decided},
    file::{FileList, Preconditions},
    history::{ForkSession, JournalPage},
    run::{Run, RunList},
    session::Session,
};

use super::desk::{Desk, FILE_BYTES_MAX};
use crate::{
    approvals,
    audit::{self, Act},
    auth::{Part, Verb},
    directory::{Key, selects},
    files, history, runs, service,
    stream::{self, Frames, Framing, Wanted},
};

impl Desk {
    /// Begins to delete a session.
    pub(crate) async fn delete(&self, key: &Key) -> Result<(), ApiError> {
        self.audited(Act::Delete, key, "", async {
            self.may(Verb::Delete, key, Part::Session).await?;
            service::delete(&self.app.router, key).await
        })
        .await
    }

    /// Puts a session to sleep.
    pub(crate) async fn hibernate(&self, key: &Key) -> Result<Session, ApiError> {
        self.audited(Act::Hibernate, key, "", async {
            self.may(Verb::Update, key, Part::Session).await?;
            service::hibernate(&self.app.router, key).await
        })
        .await
    }

    /// Goes back to a checkpoint.
    pub(crate) async fn restore(&self, key: &Key, checkpoint: &str, operation: &str) -> Result<Session, ApiError> {
        self.audited(Act::Restore, key, checkpoint, async {
            self.may(Verb::Update, key, Part::Session).await?;
            history::restore(&self.app.router, key, checkpoint, operation).await
        })
        .await
    }

    /// Empties a session.
    pub(crate) async fn reset(&self, key: &Key, operation: &str) -> Result<Session, ApiError> {
        self.audited(Act::Reset, key, "", async {
            self.may(Verb::Update, key, Part::Session).await?;
            history::reset(&self.app.router, key, operation).await
        })
        .await
    }

    /// Makes a session that begins as what this one is, or was.
    pub(crate) async fn fork(&self, key: &Key, body: ForkSession) -> Result<Session, ApiError> {
        let child = body.name.clone();
        self.audited(Act::Fork, key, &child, async {
            let labels = std::collections::BTreeMap::new();
            self.app.allow_create(&self.caller, &key.namespace, &labels).await.map_err(|problem| problem.0)?;
            self.may(Verb::Create, key, Part::Eval).await?;
            self.app.allow_broker_of(&self.caller, key).await.map_err(|problem| problem.0)?;
            history::fork(&self.app.router, key, body, self.app.authenticator.subject(&self.caller)).await
        })
        .await
    }

    /// Streams a session's events from behind `after`, a JSON object a line, to its caller.
    pub(crate) async fn events(&self, key: &Key, after: Option<u64>, follow: bool) -> Result<Frames, ApiError> {
        self.events_as(key, Wanted { after, follow, fresh: false, framing: Framing::Ndjson }).await
    }

    /// The same, as its caller wants them.
    pub(crate) async fn events_as(&self, key: &Key, wanted: Wanted) -> Result<Frames, ApiError> {
        self.audited(Act::Read, key, "events", self.frames(key, wanted)).await
    }

    /// The same for a door that looks when something has come, and passes none of it on.
    pub(crate) async fn events_to_look(&self, key: &Key, after: Option<u64>, follow: bool) -> Result<Frames, ApiError> {
        self.frames(key, Wanted { after, follow, fresh: false, framing: Framing::Ndjson }).await
    }

    /// Streams what happens in a session from now on, for a door that looks.
    pub(crate) async fn coming_events(&self, key: &Key) -> Result<Frames, ApiError> {
        self.frames(key, Wanted { after: None, follow: true, fresh: true, framing: Framing::Ndjson }).await
    }

    /// Events are what cells wrote: for those who may run cells, not for all who may see that the session exists.
    async fn frames(&self, key: &Key, wanted: Wanted) -> Result<Frames, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        stream::events(&self.app.router, key, wanted, self.review.clone(), self.app.shutdown.clone()).await
    }

    /// A run, when it has ended or `wait` is over.
    pub(crate) async fn run(&self, key: &Key, id: &str, wait: Duration) -> Result<Run, ApiError> {
        self.audited(Act::Read, key, &format!("runs/{id}"), async {
            self.may(Verb::Create, key, Part::Eval).await?;
            runs::get(&self.app.router, key, id, wait).await
        })
        .await
    }

    /// A page of the runs of a session.
    pub(crate) async fn runs(&self, key: &Key, limit: Option<usize>, after: Option<&str>) -> Result<RunList, ApiError> {
        self.audited(Act::Read, key, "runs", self.runs_of(key, limit, after)).await
    }

    /// The same for a door that looks whether one has changed: all of them.
    pub(crate) async fn runs_to_look(&self, key: &Key) -> Result<Vec<Run>, ApiError> {
        Ok(self.runs_of(key, None, None).await?.items)
    }

    async fn runs_of(&self, key: &Key, limit: Option<usize>, after: Option<&str>) -> Result<RunList, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        runs::list(&self.app.router, key, limit, after).await
    }

    /// The ids of those runs of a session that have not ended.
    pub(crate) async fn open_runs(&self, key: &Key) -> Result<Vec<String>, ApiError> {
        let all = self.runs_to_look(key).await?.into_iter();
        Ok(all.filter(|run| !run.state.is_end()).map(|run| run.id).collect())
    }

    /// Entries of the journal behind one.
    pub(crate) async fn journal(&self, key: &Key, after: u64, limit: Option<usize>) -> Result<JournalPage, ApiError> {
        self.audited(Act::Read, key, "journal", self.journal_to_look(key, after, limit)).await
    }

    /// The same for a door that looks which cells ended, and passes none of their sources on.
    pub(crate) async fn journal_to_look(&self, key: &Key, after: u64, limit: Option<usize>) -> Result<JournalPage, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        history::journal(&self.app.router, key, after, limit).await
    }

    /// Lists files.
    pub(crate) async fn files(&self, key: &Key, directory: &str, recursive: bool) -> Result<FileList, ApiError> {
        self.audited(Act::Read, key, &audit::file(directory), self.files_to_look(key, directory, recursive)).await
    }

    /// The same for a door that looks whether one has changed.
    pub(crate) async fn files_to_look(&self, key: &Key, directory: &str, recursive: bool) -> Result<FileList, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        files::list(&self.app.router, key, directory, recursive).await
    }

    /// Reads a file of at most [`FILE_BYTES_MAX`].
    pub(crate) async fn read_file(&self, key: &Key, path: &str) -> Result<Bytes, ApiError> {
        Ok(self.read_tagged(key, path).await?.0)
    }

    /// The same, with the tag under which it may be replaced.
    pub(crate) async fn read_tagged(&self, key: &Key, path: &str) -> Result<(Bytes, Option<String>), ApiError> {
        self.audited(Act::Read, key, &audit::file(path), async {
            self.may(Verb::Create, key, Part::Eval).await?;
            let mut found = files::read(&self.app.router, key, path, &Preconditions::default()).await?;
            let tag = found.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
            let (room, mut content) = (self.app.rooms.of_task(&self.caller.user), BytesMut::new());
            let cut_off = |_| ApiError::new(ErrorCode::SessionGone, "the file was cut off: read it again");
            while let Some(chunk) = found.chunk().await.map_err(cut_off)? {
                if content.len() + chunk.len() > FILE_BYTES_MAX {
                    let message = format!("the file has more than {FILE_BYTES_MAX} bytes: read it over HTTP, or in parts by a cell");
                    return Err(ApiError::new(ErrorCode::SizeAdmissionError, message));
                }
                room.grow_to(content.len() + chunk.len()).await?;
                content.extend_from_slice(&chunk);
            }
            Ok((content.freeze(), tag))
        })
        .await
    }

    /// The calls of a session that wait for a person.
    pub(crate) async fn approvals(&self, key: &Key) -> Result<ApprovalList, ApiError> {
        self.audited(Act::Read, key, "approvals", async {
            self.may(Verb::Get, key, Part::Approvals).await?;
            approvals::list(&self.app.router, key).await
        })
        .await
    }

    /// Those of the sessions of the desk's namespace that the caller sees.
    pub(crate) async fn all_approvals(&self) -> Result<ApprovalList, ApiError> {
        let namespace = &self.namespace;
        self.audited(Act::Read, &Key::new(namespace, ""), "approvals", async {
            self.app.allow(&self.caller, Verb::List, namespace, None, Part::Approvals).await.map_err(|problem| problem.0)?;
            let directory = self.app.router.directory();
            let visible = |key: &Key| {
                let grant = self.caller.grant.as_ref();
                grant.is_none_or(|grant| directory.get(key).is_some_and(|record| selects(&grant.selector, &record.labels)))
            };
            approvals::list_all(&self.app.router, namespace, visible).await
        })
        .await
    }

    /// Decides about one of them.
    pub(crate) async fn decide(&self, key: &Key, id: &str, body: Decide, operation: &str) -> Result<Decided, ApiError> {
        self.audited(Act::Decide, key, id, async {
            self.may(Verb::Update, key, Part::Approvals).await?;
            approvals::decide(&self.app.router, key, id, body, &self.caller.user, operation.to_owned()).await
        })
        .await
    }
}
