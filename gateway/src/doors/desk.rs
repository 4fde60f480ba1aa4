//! What one caller may do to sessions, in the words of the API: each verb checks the right, then does it.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use bytes::{Bytes, BytesMut};
use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::ApprovalList,
    broker::ToolAnswer,
    eval::{EvalRequest, EvalResult},
    file::{FileEntry, Preconditions},
    history::Checkpoint,
    kernel::EvalCall,
    run::Run,
    session::{CreateSession, Session, SessionList},
};
use dormouse_service::room::json_weight;
use futures::StreamExt as _;

use crate::{
    access,
    app::{App, bearer, namespace_of},
    approvals,
    audit::{self, Act, Done},
    auth::{Caller, Part, Verb, review::Review},
    directory::Key,
    files, history,
    in_flight::InFlight,
    names::check_name,
    problem::{Problem, RequestId},
    quota, runs,
    service::{self, Created, Existing},
    stream::{self, Frames},
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
    /// The credential, for what goes on for long.
    pub(crate) review: Review,
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
        let review = Review::new(Arc::clone(&app.authenticator), bearer(&parts.headers));
        Ok(Self { app: app.clone(), caller, request_id, review, namespace })
    }
}

/// The session of this name in a namespace.
pub(crate) fn key_in(namespace: &str, name: &str) -> Result<Key, ApiError> {
    check_name(namespace, "namespace")?;
    for label in name.split('.') {
        check_name(label, "session")?;
    }
    Ok(Key::new(namespace, name))
}

impl Desk {
    /// The session of this name in the desk's namespace.
    pub(crate) fn key(&self, name: &str) -> Result<Key, ApiError> {
        key_in(&self.namespace, name)
    }

    pub(crate) async fn may(&self, verb: Verb, key: &Key, part: Part) -> Result<(), ApiError> {
        self.app.allow(&self.caller, verb, &key.namespace, Some(&key.name), part).await.map_err(|problem| problem.0)
    }

    /// Whether the caller may do anything at all to this session, or make one: whoever may not holds no connection for it. What each frame wants is
    /// looked at when it comes.
    pub(crate) async fn may_something(&self, key: &Key) -> Result<(), ApiError> {
        let Err(refused) = self.may(Verb::Create, key, Part::Eval).await else { return Ok(()) };
        if self.may(Verb::Get, key, Part::Session).await.is_ok() {
            return Ok(());
        }
        let makes = self.app.allow(&self.caller, Verb::Create, &key.namespace, None, Part::Session).await;
        makes.map_err(|_| refused)
    }

    /// Does what has to be found again later, and leaves a line of it in the audit trail.
    pub(crate) async fn audited<T>(
        &self,
        act: Act,
        key: &Key,
        part: &str,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        audit::audited(&self.caller.user, &self.request_id, (act, key, part), work).await
    }

    /// Does what a message of the caller's wants, and leaves a line of it in the access log. What is no session's has a key without a name.
    pub(crate) async fn logged<T>(
        &self,
        (verb, key, part): (&str, &Key, &str),
        work: impl Future<Output = T>,
        done: impl FnOnce(&T) -> Option<Done>,
    ) -> T {
        let object = key.to_string().trim_end_matches('/').to_owned();
        let message = access::Message { user: &self.caller.user, verb, object, part, request_id: &self.request_id };
        access::told(message, Box::pin(work), done).await
    }

    /// Makes a session, or answers with the one that has the name.
    pub(crate) async fn create(&self, body: CreateSession, existing: Existing) -> Result<Session, ApiError> {
        match self.make(body, existing).await? {
            Created::New(session) | Created::Old(session) => Ok(session),
        }
    }

    /// The same, and says which of both. One that begins as another is a fork.
    pub(crate) async fn make(&self, body: CreateSession, existing: Existing) -> Result<Created, ApiError> {
        match body.spec.source.as_ref().map(|source| Key::new(&self.namespace, &source.session)) {
            Some(source) => {
                let child = body.name.clone().unwrap_or_default();
                self.audited(Act::Fork, &source, &child, self.make_allowed(body, existing)).await
            }
            None => self.make_allowed(body, existing).await,
        }
    }

    async fn make_allowed(&self, mut body: CreateSession, existing: Existing) -> Result<Created, ApiError> {
        self.app.allow_create(&self.caller, &self.namespace, &body.labels).await.map_err(|problem| problem.0)?;
        if let Some(broker) = &mut body.spec.tool_broker_ref {
            self.app.allow_broker(&self.caller, &self.namespace, Some(&broker.name)).await.map_err(|problem| problem.0)?;
            broker.named_by = self.app.authenticator.subject(&self.caller);
        }
        if let Some(source) = &body.spec.source {
            // A fork holds what its parent's cells made.
            let source = Key::new(&self.namespace, &source.session);
            self.may(Verb::Create, &source, Part::Eval).await?;
            // One that is in the archive comes back for it; one that is not there is told of when the fork starts.
            let _ = self.app.router.find(&source).await;
        }
        // The answer may be an existing session: whoever may only create must not learn of it.
        let may_read = match &body.name {
            Some(name) if existing == Existing::Return => {
                self.may(Verb::Get, &Key::new(&self.namespace, name), Part::Session).await.is_ok()
            }
            _ => true,
        };
        let existing = if may_read { existing } else { Existing::Refuse };
        service::create(&self.app.router, &self.namespace, body, existing).await
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
        let mut in_flight = InFlight::of_cell();
        let sent = router.send_claiming(&mut in_flight, key, |pod, assignment, unwritten, lost| async move {
            let call = EvalCall { assignment, eval: eval.clone(), request_id: self.request_id.clone(), run: false, lost };
            router.kernels().eval(&pod, &call, unwritten).await
        });
        let (answer, _) = self.review.clone().until(Box::pin(sent)).await??;
        let room = self.app.rooms.of_task(&self.caller.user);
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
        stream::eval(&self.app.router, key, self.with_key(eval), self.request_id.clone(), self.review.clone()).await
    }

    /// Runs a cell as a run and streams its events, up to `final`. The first comes when it is stored that the cell will run to its end.
    pub(crate) async fn run_events(&self, key: &Key, eval: EvalRequest) -> Result<Frames, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        quota::admit_cell(&self.app.router, &key.namespace).await?;
        stream::run(&self.app.router, key, self.with_key(eval), self.request_id.clone(), self.review.clone()).await
    }

    /// Accepts a cell as a run.
    pub(crate) async fn accept_run(&self, key: &Key, eval: EvalRequest) -> Result<Run, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        quota::admit_cell(&self.app.router, &key.namespace).await?;
        runs::accept(&self.app.router, key, &self.with_key(eval), &self.request_id).await
    }

    /// Ends a run.
    pub(crate) async fn cancel_run(&self, key: &Key, id: &str) -> Result<Run, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        runs::cancel(&self.app.router, key, id).await
    }

    /// Puts the present state aside under a label.
    pub(crate) async fn checkpoint(&self, key: &Key, label: &str) -> Result<Checkpoint, ApiError> {
        self.may(Verb::Update, key, Part::Session).await?;
        history::checkpoint(&self.app.router, key, label, &self.operation()).await
    }

    /// Writes a file, if what is there is what these say.
    pub(crate) async fn write_file(
        &self,
        key: &Key,
        path: &str,
        preconditions: Preconditions,
        content: Bytes,
    ) -> Result<FileEntry, ApiError> {
        self.may(Verb::Create, key, Part::Eval).await?;
        let content = futures::stream::iter([Ok(content)]).boxed();
        Ok(files::write(&self.app.router, key, path, preconditions, content).await?.0)
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

    /// An idempotency key for what a client has sent without one.
    pub(crate) fn operation(&self) -> String {
        self.app.router.ids().next().to_string()
    }

    /// The cell under a key: the gateway may have to send it again.
    fn with_key(&self, mut eval: EvalRequest) -> EvalRequest {
        self.caller.sign(&mut eval);
        eval.idempotency_key.get_or_insert_with(|| self.operation());
        eval
    }
}
