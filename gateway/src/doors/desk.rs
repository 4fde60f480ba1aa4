//! What one caller may do to sessions, in the words of the API: each verb checks the right, then does it.

use std::time::Duration;

use axum::{extract::FromRequestParts, http::request::Parts};
use bytes::{Bytes, BytesMut};
use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{ApprovalList, Decide},
    broker::ToolAnswer,
    eval::{EvalRequest, EvalResult},
    file::{FileEntry, FileList, Preconditions},
    history::{Checkpoint, ForkSession, JournalPage},
    kernel::EvalCall,
    run::{Run, RunList},
    session::{CreateSession, Session, SessionList},
};
use dormouse_service::room::json_weight;
use futures::StreamExt as _;

use crate::{
    approvals,
    auth::{Caller, Part, Verb},
    directory::Key,
    files, history,
    in_flight::{Asleep, InFlight},
    metrics::Source,
    problem::{Problem, RequestId},
    quota,
    routes::{App, namespace_of},
    runs,
    service::{self, Created, Existing, check_name},
    stream::{self, Frames, Framing, Wanted},
};

/// Largest answer of a cell that a door reads as a whole, in bytes, with what its values take.
pub(crate) const RESULT_BYTES_MAX: usize = 32 << 20;
/// Largest file that a door reads as a whole, in bytes.
pub(crate) const FILE_BYTES_MAX: usize = 4 << 20;

fn too_large() -> ApiError {
    let message = format!(
        "the answer has more than {RESULT_BYTES_MAX} bytes, with 32 for each value in it: put what is large into a file, or read it over HTTP"
    );
    ApiError::new(ErrorCode::OutputLimitError, message)
}

/// One caller, with a request.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) app: App,
    pub(crate) caller: Caller,
    pub(crate) request_id: String,
    /// The namespace of sessions that are named without one.
    pub(crate) namespace: String,
}

impl FromRequestParts<App> for Desk {
    type Rejection = Problem;

    /// The desk of a request whose path names no namespace.
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let Ok(RequestId(request_id)) = RequestId::from_request_parts(parts, app).await;
        let namespace = namespace_of(&parts.headers, &caller);
        Ok(Self { app: app.clone(), caller, request_id, namespace })
    }
}

impl Desk {
    /// The session of this name in the desk's namespace.
    pub(crate) fn key(&self, name: &str) -> Result<Key, ApiError> {
        check_name(&self.namespace, "namespace")?;
        for label in name.split('.') {
            check_name(label, "session")?;
        }
        Ok(Key::new(&self.namespace, name))
    }

    pub(crate) async fn may(&self, verb: Verb, key: &Key, part: Part) -> Result<(), ApiError> {
        self.app.allow(&self.caller, verb, &key.namespace, Some(&key.name), part).await.map_err(|problem| problem.0)
    }

    /// Makes a session, or answers with the one that has the name.
    pub(crate) async fn create(&self, body: CreateSession, existing: Existing) -> Result<Session, ApiError> {
        self.app.allow_create(&self.caller, &self.namespace, &body.labels).await.map_err(|problem| problem.0)?;
        let broker = body.spec.tool_broker_ref.as_ref().map(|broker| broker.name.as_str());
        self.app.allow_broker(&self.caller, &self.namespace, broker).await.map_err(|problem| problem.0)?;
        if let Some(source) = &body.spec.source {
            self.may(Verb::Create, &Key::new(&self.namespace, &source.session), Part::Eval).await?;
        }
        let may_read = match &body.name {
            Some(name) => self.may(Verb::Get, &Key::new(&self.namespace, name), Part::Session).await.is_ok(),
            None => true,
        };
        let existing = if may_read { existing } else { Existing::Refuse };
        match service::create(&self.app.router, &self.namespace, body, existing).await? {
            Created::New(session) | Created::Old(session) => Ok(session),
        }
    }

    /// Reads a session.
    pub(crate) async fn get(&self, key: &Key) -> Result<Session, ApiError> {
        self.may(Verb::Get, key, Part::Session).await?;
        service::get(&self.app.router, key).await
    }

    /// Reads a session for whoever may run cells in it.
    pub(crate) async fn get_to_run(&self, key: &Key) -> Result<Session, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        service::get(&self.app.router, key).await
    }

    /// A page of the sessions of the namespace.
    pub(crate) async fn list(&self, limit: Option<usize>, after: Option<&str>, selector: &str) -> Result<SessionList, ApiError> {
        check_name(&self.namespace, "namespace")?;
        self.app.allow(&self.caller, Verb::List, &self.namespace, None, Part::Session).await.map_err(|problem| problem.0)?;
        let own = self.caller.grant.as_ref().map(|grant| grant.selector.as_str()).unwrap_or_default();
        service::list(&self.app.router, &self.namespace, limit, after, &[own, selector].join(",")).await
    }

    /// Begins to delete a session.
    pub(crate) async fn delete(&self, key: &Key) -> Result<(), ApiError> {
        self.may(Verb::Delete, key, Part::Session).await?;
        service::delete(&self.app.router, key).await
    }

    /// Puts a session to sleep.
    pub(crate) async fn hibernate(&self, key: &Key) -> Result<Session, ApiError> {
        self.may(Verb::Update, key, Part::Session).await?;
        service::hibernate(&self.app.router, key).await
    }

    /// Ends the running cell.
    pub(crate) async fn interrupt(&self, key: &Key) -> Result<(), ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        service::interrupt(&self.app.router, key).await
    }

    /// Runs a cell and waits for its answer.
    pub(crate) async fn eval(&self, key: &Key, eval: EvalRequest) -> Result<EvalResult, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        quota::admit_cell(&self.app.router, &key.namespace).await?;
        let (router, eval) = (&self.app.router, &self.with_key(eval));
        let mut in_flight = InFlight::new(Asleep::Refuse, Source::Request);
        let sent = router.send_claiming(&mut in_flight, key, |pod, assignment, unwritten| async move {
            let call = EvalCall { assignment, eval: eval.clone(), request_id: self.request_id.clone(), run: false };
            router.kernels().eval(&pod, &call, unwritten).await
        });
        let (answer, _) = sent.await?;
        let room = self.app.rooms.of_answer();
        let full = |error: ApiError| error.with_detail("idempotencyKey", eval.idempotency_key.clone());
        let mut body = BytesMut::from(answer.start);
        if let Some(mut rest) = answer.rest {
            while let Some(chunk) = rest.next().await {
                let chunk =
                    chunk.map_err(|_| ApiError::new(ErrorCode::SessionGone, "the answer was cut off: send the cell again with its key"))?;
                if body.len() + chunk.len() > RESULT_BYTES_MAX {
                    return Err(too_large());
                }
                room.grow_to(body.len() + chunk.len()).await.map_err(full)?;
                body.extend_from_slice(&chunk);
            }
        }
        let weight = json_weight(&body);
        if weight > RESULT_BYTES_MAX {
            return Err(too_large());
        }
        room.grow_to(weight).await.map_err(full)?;
        serde_json::from_slice(&body).map_err(|error| ApiError::new(ErrorCode::Internal, format!("a kernel pod's answer: {error}")))
    }

    /// Runs a cell and streams its events, a JSON object a line, up to `final`.
    pub(crate) async fn eval_events(&self, key: &Key, eval: EvalRequest) -> Result<Frames, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        quota::admit_cell(&self.app.router, &key.namespace).await?;
        stream::eval(&self.app.router, key, self.with_key(eval), self.request_id.clone()).await
    }

    /// Runs a cell as a run and streams its events, up to `final`. The first comes when it is stored that the cell will run to its end.
    pub(crate) async fn run_events(&self, key: &Key, eval: EvalRequest) -> Result<Frames, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        quota::admit_cell(&self.app.router, &key.namespace).await?;
        stream::run(&self.app.router, key, self.with_key(eval), self.request_id.clone()).await
    }

    /// Streams a session's events from behind `after`, a JSON object a line.
    pub(crate) async fn events(&self, key: &Key, after: Option<u64>, follow: bool) -> Result<Frames, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        let wanted = Wanted { after, follow, fresh: false, framing: Framing::Ndjson };
        stream::events(&self.app.router, key, wanted, self.app.shutdown.clone()).await
    }

    /// Streams what happens in a session from now on.
    pub(crate) async fn coming_events(&self, key: &Key) -> Result<Frames, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        let wanted = Wanted { after: None, follow: true, fresh: true, framing: Framing::Ndjson };
        stream::events(&self.app.router, key, wanted, self.app.shutdown.clone()).await
    }

    /// Accepts a cell as a run.
    pub(crate) async fn accept_run(&self, key: &Key, eval: EvalRequest) -> Result<Run, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        quota::admit_cell(&self.app.router, &key.namespace).await?;
        runs::accept(&self.app.router, key, &self.with_key(eval), &self.request_id).await
    }

    /// A run, when it has ended or `wait` is over.
    pub(crate) async fn run(&self, key: &Key, id: &str, wait: Duration) -> Result<Run, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        runs::get(&self.app.router, key, id, wait).await
    }

    /// The runs of a session.
    pub(crate) async fn runs(&self, key: &Key) -> Result<RunList, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        runs::list(&self.app.router, key, None, None).await
    }

    /// Ends a run.
    pub(crate) async fn cancel_run(&self, key: &Key, id: &str) -> Result<Run, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        runs::cancel(&self.app.router, key, id).await
    }

    /// Puts the present state aside under a label.
    pub(crate) async fn checkpoint(&self, key: &Key, label: &str) -> Result<Checkpoint, ApiError> {
        self.may(Verb::Update, key, Part::Session).await?;
        history::checkpoint(&self.app.router, key, label, &self.app.router.ids().next().to_string()).await
    }

    /// Goes back to a checkpoint.
    pub(crate) async fn restore(&self, key: &Key, checkpoint: &str) -> Result<Session, ApiError> {
        self.may(Verb::Update, key, Part::Session).await?;
        history::restore(&self.app.router, key, checkpoint, &self.app.router.ids().next().to_string()).await
    }

    /// Empties a session.
    pub(crate) async fn reset(&self, key: &Key) -> Result<Session, ApiError> {
        self.may(Verb::Update, key, Part::Session).await?;
        history::reset(&self.app.router, key, &self.app.router.ids().next().to_string()).await
    }

    /// Makes a session that begins as what this one is, or was.
    pub(crate) async fn fork(&self, key: &Key, body: ForkSession) -> Result<Session, ApiError> {
        let labels = std::collections::BTreeMap::new();
        self.app.allow_create(&self.caller, &key.namespace, &labels).await.map_err(|problem| problem.0)?;
        self.may(Verb::Create, key, Part::Eval).await?;
        self.app.allow_broker_of(&self.caller, key).await.map_err(|problem| problem.0)?;
        history::fork(&self.app.router, key, body).await
    }

    /// Entries of the journal behind one.
    pub(crate) async fn journal(&self, key: &Key, after: u64, limit: usize) -> Result<JournalPage, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        history::journal(&self.app.router, key, after, Some(limit)).await
    }

    /// Lists files.
    pub(crate) async fn files(&self, key: &Key, directory: &str, recursive: bool) -> Result<FileList, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        files::list(&self.app.router, key, directory, recursive).await
    }

    /// Reads a file of at most [`FILE_BYTES_MAX`].
    pub(crate) async fn read_file(&self, key: &Key, path: &str) -> Result<Bytes, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        let mut found = files::read(&self.app.router, key, path, &Preconditions::default()).await?;
        let (room, mut content) = (self.app.rooms.of_answer(), BytesMut::new());
        let cut_off = |_| ApiError::new(ErrorCode::SessionGone, "the file was cut off: read it again");
        while let Some(chunk) = found.chunk().await.map_err(cut_off)? {
            if content.len() + chunk.len() > FILE_BYTES_MAX {
                let message = format!("the file has more than {FILE_BYTES_MAX} bytes: read it over HTTP, or in parts by a cell");
                return Err(ApiError::new(ErrorCode::SizeAdmissionError, message));
            }
            room.grow_to(content.len() + chunk.len()).await?;
            content.extend_from_slice(&chunk);
        }
        Ok(content.freeze())
    }

    /// Writes a file.
    pub(crate) async fn write_file(&self, key: &Key, path: &str, content: Bytes) -> Result<FileEntry, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        let content = futures::stream::iter([Ok(content)]).boxed();
        Ok(files::write(&self.app.router, key, path, Preconditions::default(), content).await?.0)
    }

    /// The calls of a session that wait for a person.
    pub(crate) async fn approvals(&self, key: &Key) -> Result<ApprovalList, ApiError> {
        self.may(Verb::Get, key, Part::Approvals).await?;
        approvals::list(&self.app.router, key).await
    }

    /// Decides about one of them.
    pub(crate) async fn decide(&self, key: &Key, id: &str, body: Decide) -> Result<(), ApiError> {
        self.may(Verb::Update, key, Part::Approvals).await?;
        let decision = self.app.router.ids().next().to_string();
        approvals::decide(&self.app.router, key, id, body, &self.caller.user, decision).await.map(drop)
    }

    /// The calls of a session that wait for one of its clients.
    pub(crate) async fn hostcalls(&self, key: &Key) -> Result<ApprovalList, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        approvals::for_clients(&self.app.router, key).await
    }

    /// Delivers what a client says of one of them.
    pub(crate) async fn answer_call(&self, key: &Key, call: u64, answer: ToolAnswer) -> Result<(), ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        approvals::answer(&self.app.router, key, call, &answer).await
    }

    /// The cell under a key: the gateway may have to send it again.
    fn with_key(&self, mut eval: EvalRequest) -> EvalRequest {
        self.caller.sign(&mut eval);
        eval.idempotency_key.get_or_insert_with(|| self.app.router.ids().next().to_string());
        eval
    }
}
