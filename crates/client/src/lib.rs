//! Client of the gateway's HTTP API: sessions, cells, events.
//!
//! It knows the public wire types only, and repeats nothing by itself: whether a request may be sent again is in [`Error::retryable`]. Of what a
//! newer server says it passes over what it does not know. The process that uses it installs a rustls provider first, as every Dormouse process does.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

mod answer;
mod error;
mod history;
mod lines;
mod mcp;
mod newer;

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use dormouse_protocol::{
    approval::{ApprovalList, Decide, Decided},
    eval::{EvalRequest, EvalResult},
    event::Event,
    file::{FileEntry, FileList},
    key::{CreateKey, KeyList, NewKey},
    run::{Run, RunList, RunState},
    session::{CreateSession, Session, SessionList},
    usage::UsageReport,
};
use futures::Stream;
use reqwest::{
    Certificate, Method, RequestBuilder, Url,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, IF_NONE_MATCH},
};
use serde::{Deserialize, Serialize};

pub use error::Error;
pub use mcp::{McpAnswer, McpHeaders};

/// Longest wait for a connection, in seconds.
pub const CONNECT_TIMEOUT_SECONDS: u64 = 10;
/// Bytes that one answer, or one line of a stream, may have.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Sessions that are asked for at once.
const PAGE_SESSIONS: usize = 200;

const NDJSON: &str = "application/x-ndjson";

/// What to change of a session: merge patches.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Patch {
    /// Of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<serde_json::Value>,
    /// Of the labels; `None` removes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, Option<String>>>,
}

/// What is answered to a cell that nobody waits for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// The run's id.
    pub run: String,
    /// Where it is.
    pub state: RunState,
    /// Its path on the server.
    pub url: String,
    /// The key under which the cell is recorded.
    pub idempotency_key: String,
}

/// A namespace of a gateway. Clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    sessions: Url,
    server: Url,
    namespace: String,
}

impl Client {
    /// A client of the gateway at `server` (`http://127.0.0.1:7777`), for one namespace; `token` is sent as a bearer.
    ///
    /// # Errors
    /// When `server` is no http(s) URL or `token` no header value.
    pub fn new(server: &str, namespace: &str, token: Option<&str>) -> Result<Self, Error> {
        Self::trusting(server, namespace, token, None)
    }

    /// The same, which believes the certificates of `authorities`, in PEM, and no others.
    ///
    /// # Errors
    /// Those of [`Client::new`], and when `authorities` holds no certificate.
    pub fn trusting(server: &str, namespace: &str, token: Option<&str>, authorities: Option<&[u8]>) -> Result<Self, Error> {
        let server = Url::parse(server).map_err(|error| Error::Address(format!("{server}: {error}")))?;
        if !matches!(server.scheme(), "http" | "https") || server.host().is_none() {
            return Err(Error::Address(format!("{server}: an http:// or https:// URL is needed")));
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| Error::Address("the token is no header value".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(CONNECT_TIMEOUT_SECONDS))
            .tcp_nodelay(true)
            .default_headers(headers);
        if let Some(pem) = authorities {
            let certificates = Certificate::from_pem_bundle(pem).ok().filter(|certificates| !certificates.is_empty());
            let certificates =
                certificates.ok_or_else(|| Error::Address("there is no certificate of an authority in the PEM".to_owned()))?;
            http = http.tls_certs_only(certificates);
        }
        let http = http.build().map_err(Error::from)?;
        let sessions = below(&server, &["v1", "namespaces", namespace, "sessions"])?;
        Ok(Self { http, sessions, server, namespace: namespace.to_owned() })
    }

    /// The gateway's URL.
    #[must_use]
    pub fn server(&self) -> &Url {
        &self.server
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Makes a session; one that exists is answered as it is.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create(&self, session: &CreateSession) -> Result<Session, Error> {
        answer::json(self.http.post(self.sessions.clone()).json(session)).await
    }

    /// Makes a session; a name that exists is a `Conflict`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create_new(&self, session: &CreateSession) -> Result<Session, Error> {
        answer::json(self.http.post(self.sessions.clone()).header(IF_NONE_MATCH, "*").json(session)).await
    }

    /// One session.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get(&self, name: &str) -> Result<Session, Error> {
        answer::json(self.request(Method::GET, &[name])?).await
    }

    /// One page of sessions. `after` is the `continue` of the page before, `selector` such as `app=a,tier!=x`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_page(&self, after: Option<&str>, selector: Option<&str>) -> Result<SessionList, Error> {
        let mut query = vec![("limit", PAGE_SESSIONS.to_string())];
        query.extend(after.map(|token| ("continue", token.to_owned())));
        query.extend(selector.map(|selector| ("labelSelector", selector.to_owned())));
        answer::json(self.http.get(self.sessions.clone()).query(&query)).await
    }

    /// All sessions, page after page.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list(&self, selector: Option<&str>) -> Result<Vec<Session>, Error> {
        let mut page = self.list_page(None, selector).await?;
        let mut sessions = std::mem::take(&mut page.items);
        while let Some(token) = page.continue_token.take() {
            page = self.list_page(Some(&token), selector).await?;
            sessions.append(&mut page.items);
        }
        Ok(sessions)
    }

    /// Changes spec or labels.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn patch(&self, name: &str, patch: &Patch) -> Result<Session, Error> {
        answer::json(self.request(Method::PATCH, &[name])?.json(patch)).await
    }

    /// Deletes a session and all that is stored of it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        answer::empty(self.request(Method::DELETE, &[name])?).await
    }

    /// Runs a cell. A script's own failure is an answer with `ok: false`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn eval(&self, name: &str, cell: &EvalRequest) -> Result<EvalResult, Error> {
        answer::json(self.request(Method::POST, &[name, "eval"])?.json(cell)).await
    }

    /// Runs a cell and gives its events as they happen, up to `final`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn eval_events(&self, name: &str, cell: &EvalRequest) -> Result<impl Stream<Item = Result<Event, Error>> + use<>, Error> {
        answer::events(self.request(Method::POST, &[name, "eval"])?.header(ACCEPT, NDJSON).json(cell)).await
    }

    /// The session's events with a greater `seq` than `after`, or all that are kept; goes on with live ones when `follow` is set.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn events(
        &self,
        name: &str,
        after: Option<u64>,
        follow: bool,
    ) -> Result<impl Stream<Item = Result<Event, Error>> + use<>, Error> {
        let after = after.map(|after| ("after", after.to_string()));
        let query: Vec<_> = after.into_iter().chain([("follow", follow.to_string())]).collect();
        answer::events(self.request(Method::GET, &[name, "events"])?.header(ACCEPT, NDJSON).query(&query)).await
    }

    /// Puts a session to sleep; answers when it is so.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn hibernate(&self, name: &str) -> Result<Session, Error> {
        answer::json(self.request(Method::POST, &[name, "hibernate"])?).await
    }

    /// Wakes a session; answers when it is so.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn wake(&self, name: &str) -> Result<Session, Error> {
        answer::json(self.request(Method::POST, &[name, "wake"])?).await
    }

    /// Ends the running cell with `Interrupted`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn interrupt(&self, name: &str) -> Result<(), Error> {
        answer::empty(self.request(Method::POST, &[name, "interrupt"])?).await
    }

    /// Names below a directory of the session's file system; all levels of it, if `recursive`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn files(&self, name: &str, directory: &str, recursive: bool) -> Result<FileList, Error> {
        let query = [("path", directory), ("recursive", if recursive { "true" } else { "false" })];
        answer::json(self.request(Method::GET, &[name, "files"])?.query(&query)).await
    }

    /// A file's content, chunk by chunk.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn read_file(&self, name: &str, path: &str) -> Result<impl Stream<Item = Result<Bytes, Error>> + use<>, Error> {
        answer::bytes(self.file(Method::GET, name, path)?).await
    }

    /// Writes a file; answers when it is committed.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn write_file(
        &self,
        name: &str,
        path: &str,
        content: impl Stream<Item = Result<Vec<u8>, std::io::Error>> + Send + 'static,
    ) -> Result<FileEntry, Error> {
        answer::json(self.file(Method::PUT, name, path)?.body(reqwest::Body::wrap_stream(content))).await
    }

    /// Removes a file, or a directory with all that is in it if `recursive`; answers when that is committed.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn remove_file(&self, name: &str, path: &str, recursive: bool) -> Result<(), Error> {
        let query = [("recursive", if recursive { "true" } else { "false" })];
        answer::empty(self.file(Method::DELETE, name, path)?.query(&query)).await
    }

    /// Leaves a cell to run by itself; `wait_for_run` tells what has become of it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn eval_later(&self, name: &str, cell: &EvalRequest) -> Result<Accepted, Error> {
        answer::json(self.request(Method::POST, &[name, "eval"])?.header("prefer", "respond-async").json(cell)).await
    }

    /// The runs of a session, newest first: one page of at most 64.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn runs(&self, name: &str) -> Result<RunList, Error> {
        answer::json(self.request(Method::GET, &[name, "runs"])?).await
    }

    /// A run, when it has ended or so many seconds have passed.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn wait_for_run(&self, name: &str, run: &str, wait_seconds: u64) -> Result<Run, Error> {
        answer::json(self.request(Method::GET, &[name, "runs", run])?.query(&[("waitSeconds", wait_seconds)])).await
    }

    /// Ends a run.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cancel_run(&self, name: &str, run: &str) -> Result<Run, Error> {
        answer::json(self.request(Method::POST, &[name, "runs", run, "cancel"])?).await
    }

    /// The calls that wait for a person: of a session, or of all in the namespace.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn approvals(&self, name: Option<&str>) -> Result<ApprovalList, Error> {
        match name {
            Some(name) => answer::json(self.request(Method::GET, &[name, "approvals"])?).await,
            None => answer::json(self.http.get(self.beside("approvals", &[])?)).await,
        }
    }

    /// Decides about a call that waits.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn decide(&self, name: &str, approval: &str, decide: &Decide) -> Result<Decided, Error> {
        answer::json(self.request(Method::POST, &[name, "approvals", approval])?.json(decide)).await
    }

    /// Makes an API key for the namespace. Its secret is in this answer and nowhere else.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create_key(&self, key: &CreateKey) -> Result<NewKey, Error> {
        answer::json(self.http.post(self.keys(&[])?).json(key)).await
    }

    /// What the sessions of the namespace have used from one day to another, today when absent.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn usage(&self, from: Option<&str>, to: Option<&str>) -> Result<UsageReport, Error> {
        let days: Vec<(&str, &str)> = [("from", from), ("to", to)].into_iter().filter_map(|(name, day)| Some((name, day?))).collect();
        answer::json(self.http.get(self.beside("usage", &[])?).query(&days)).await
    }

    /// The API keys of the namespace.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_keys(&self) -> Result<KeyList, Error> {
        answer::json(self.http.get(self.keys(&[])?)).await
    }

    /// Revokes an API key.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn revoke_key(&self, name: &str) -> Result<(), Error> {
        answer::empty(self.http.delete(self.keys(&[name])?)).await
    }

    fn keys(&self, path: &[&str]) -> Result<Url, Error> {
        self.beside("keys", path)
    }

    /// What the namespace has beside its sessions.
    fn beside(&self, what: &str, path: &[&str]) -> Result<Url, Error> {
        let segments: Vec<&str> = ["v1", "namespaces", &self.namespace, what].into_iter().chain(path.iter().copied()).collect();
        below(&self.server, &segments)
    }

    fn file(&self, method: Method, name: &str, path: &str) -> Result<RequestBuilder, Error> {
        let names = path.strip_prefix('/').unwrap_or(path).split('/');
        let segments: Vec<&str> = [name, "files"].into_iter().chain(names).collect();
        self.request(method, &segments)
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, Error> {
        Ok(self.http.request(method, below(&self.sessions, path)?))
    }
}

/// `base` with segments, each escaped. A segment that would climb is refused: URLs drop `.` and `..` before they are sent.
fn below(base: &Url, segments: &[&str]) -> Result<Url, Error> {
    if let Some(bad) = segments.iter().find(|segment| matches!(**segment, "" | "." | "..")) {
        return Err(Error::Address(format!("{bad:?} is no name")));
    }
    let mut url = base.clone();
    url.path_segments_mut().map_err(|()| Error::Address(format!("{base} has no path")))?.pop_if_empty().extend(segments);
    Ok(url)
}

#[cfg(test)]
mod tests;
