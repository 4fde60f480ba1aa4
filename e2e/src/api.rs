//! The gateway, as an application with a bearer token meets it: the client library, and what the story asks of every answer.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt as _;
use serde_json::Value;

use dormouse_client::{Client, Error};
use dormouse_protocol::{
    ApiError,
    eval::{EvalRequest, EvalResult},
    event::Event,
    file::FileEntry,
    history::JournalEntry,
    session::{CreateSession, Session},
};

/// How long one request may take: a session may have to move, and a pod to start.
const REQUEST_SECONDS: u64 = 90;
/// Pause before a request is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A client of one namespace.
#[derive(Debug, Clone)]
pub struct Api {
    client: Client,
}

/// What came back instead of an answer.
#[derive(Debug)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// The typed error.
    pub error: ApiError,
}

impl Api {
    /// A client of the sessions of `namespace` on the gateway at `url`.
    ///
    /// # Errors
    /// When the URL or the token cannot be used.
    pub fn new(url: &str, namespace: &str, token: &str) -> Result<Self> {
        Ok(Self { client: Client::new(url, namespace, Some(token))? })
    }

    /// The same client with another token.
    ///
    /// # Errors
    /// When the token cannot be used.
    pub fn with_token(&self, token: &str) -> Result<Self> {
        Self::new(self.client.server().as_str(), self.client.namespace(), token)
    }

    /// Creates a session.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn create(&self, name: &str, spec: Value) -> Result<Session> {
        let session = CreateSession { name: Some(name.to_owned()), spec: serde_json::from_value(spec)?, ..CreateSession::default() };
        in_time(self.client.create(&session)).await
    }

    /// Reads a session.
    ///
    /// # Errors
    /// When there is none.
    pub async fn session(&self, name: &str) -> Result<Session> {
        in_time(self.client.get(name)).await
    }

    /// Deletes a session; the objects in storage go after the answer.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn delete(&self, name: &str) -> Result<()> {
        in_time(self.client.delete(name)).await
    }

    /// The first entries of a session's journal, as stored.
    ///
    /// # Errors
    /// When it is refused, or what is stored does not verify.
    pub async fn journal(&self, name: &str) -> Result<Vec<JournalEntry>> {
        let page = in_time(self.client.journal_page(name, 0)).await?;
        ensure!(page.damage.is_none(), "{name}: {page:?}");
        Ok(page.entries)
    }

    /// Puts a session to sleep.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn hibernate(&self, name: &str) -> Result<()> {
        in_time(self.client.hibernate(name)).await.map(drop)
    }

    /// The digest of the engine that a session has.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn engine(&self, name: &str) -> Result<String> {
        Ok(in_time(self.client.migrate(name, true)).await?.from)
    }

    /// Moves a session to the engine that new sessions get.
    ///
    /// # Errors
    /// When it is refused, or the session has that engine.
    pub async fn migrate(&self, name: &str) -> Result<()> {
        let report = in_time(self.client.migrate(name, false)).await?;
        ensure!(report.migrated, "{name}: {report:?}");
        Ok(())
    }

    /// Runs a cell.
    ///
    /// # Errors
    /// When the service refuses; a script's own failure is an answer.
    pub async fn eval(&self, name: &str, code: &str) -> Result<EvalResult> {
        in_time(self.client.eval(name, &cell(code))).await.with_context(|| format!("{name}: {code}"))
    }

    /// Runs a cell that must succeed and returns its value.
    ///
    /// # Errors
    /// When it fails, with the whole answer.
    pub async fn value(&self, name: &str, code: &str) -> Result<Value> {
        let result = self.eval(name, code).await?;
        ensure!(result.ok, "{code}: {:?}", result.error);
        ensure!(result.durable, "{code}: acked before it was in the store: {result:?}");
        Ok(result.value.unwrap_or(Value::Null))
    }

    /// Runs a cell that must succeed, under a key: sends it again as long as that may help, as a client does whose server is away at times.
    ///
    /// # Errors
    /// When it fails, is refused for good, or has no answer after `seconds`.
    pub async fn insist(&self, name: &str, code: &str, key: &str, seconds: u64) -> Result<Value> {
        let cell = EvalRequest { idempotency_key: Some(key.to_owned()), ..cell(code) };
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            let error = match in_time(self.client.eval(name, &cell)).await {
                Ok(result) => {
                    ensure!(result.ok && result.durable, "{key}: {result:?}");
                    return Ok(result.value.unwrap_or(Value::Null));
                }
                Err(error) => error,
            };
            if !error.downcast_ref::<Error>().is_some_and(may_be_sent_again) || Instant::now() >= deadline {
                return Err(error.context(format!("{name}: {key}")));
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// The session's events, all that are kept.
    ///
    /// # Errors
    /// When they cannot be read to their end.
    pub async fn events(&self, name: &str) -> Result<Vec<Event>> {
        let events = async { self.client.events(name, None, false).await?.try_collect().await };
        in_time(events).await.with_context(|| format!("{name}: events"))
    }

    /// Runs a cell that the service must refuse.
    ///
    /// # Errors
    /// When it does not.
    pub async fn refused(&self, name: &str, code: &str) -> Result<Refusal> {
        match tokio::time::timeout(Duration::from_secs(REQUEST_SECONDS), self.client.eval(name, &cell(code))).await? {
            Err(Error::Api { status: Some(status), error }) => Ok(Refusal { status, error: *error }),
            Err(error) => Err(error.into()),
            Ok(answer) => bail!("{code} was not refused: {answer:?}"),
        }
    }

    /// Writes a file of the session; the answer comes when it is committed.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn write_file(&self, name: &str, path: &str, content: Vec<u8>) -> Result<FileEntry> {
        let content = futures::stream::iter([Ok(content)]);
        in_time(self.client.write_file(name, path, content)).await.with_context(|| format!("{name}: write {path}"))
    }

    /// The content of a file of the session.
    ///
    /// # Errors
    /// When there is none, or its rest is lost on the way.
    pub async fn read_file(&self, name: &str, path: &str) -> Result<Vec<u8>> {
        let content = async {
            let chunks = self.client.read_file(name, path).await?;
            chunks.try_fold(Vec::new(), |read, chunk| async move { Ok([&read, chunk.as_ref()].concat()) }).await
        };
        in_time(content).await.with_context(|| format!("{name}: read {path}"))
    }
}

/// Whether a request that does no harm twice may be sent again: under a key also one that broke off, and may have been done.
#[must_use]
pub fn may_be_sent_again(error: &Error) -> bool {
    error.retryable() || matches!(error, Error::CutOff(_))
}

fn cell(code: &str) -> EvalRequest {
    EvalRequest { code: code.to_owned(), ..EvalRequest::default() }
}

async fn in_time<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T> {
    Ok(tokio::time::timeout(Duration::from_secs(REQUEST_SECONDS), request).await??)
}
