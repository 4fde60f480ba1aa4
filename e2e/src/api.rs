//! The gateway's HTTP API, as a client with a bearer token sees it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use dormouse_protocol::{ApiError, error::ErrorBody, eval::EvalResult, session::Session};

/// How long one request may take: a session may have to move, and a pod to start.
const REQUEST_SECONDS: u64 = 90;

/// A client of one namespace.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    token: String,
}

/// What came back instead of an answer.
#[derive(Debug)]
pub struct Refusal {
    /// HTTP status.
    pub status: StatusCode,
    /// The typed error.
    pub error: ApiError,
}

impl Api {
    /// A client of the sessions of `namespace` on the gateway at `url`.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(url: &str, namespace: &str, token: &str) -> Result<Self> {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(REQUEST_SECONDS)).build()?;
        Ok(Self { http, base: format!("{url}/v1/namespaces/{namespace}/sessions"), token: token.to_owned() })
    }

    /// The same client with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    /// Creates a session.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn create(&self, name: &str, spec: Value) -> Result<Session> {
        self.ask(Method::POST, "", Some(json!({ "name": name, "spec": spec }))).await
    }

    /// Reads a session.
    ///
    /// # Errors
    /// When there is none.
    pub async fn session(&self, name: &str) -> Result<Session> {
        self.ask(Method::GET, &format!("/{name}"), None).await
    }

    /// Deletes a session; the objects in storage go after the answer.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let response = self.send(Method::DELETE, &format!("/{name}"), None).await?;
        ensure!(response.status() == StatusCode::ACCEPTED, "DELETE {name}: {}", response.status());
        Ok(())
    }

    /// Runs a cell.
    ///
    /// # Errors
    /// When the service refuses; a script's own failure is an answer.
    pub async fn eval(&self, name: &str, code: &str) -> Result<EvalResult> {
        self.ask(Method::POST, &format!("/{name}/eval"), Some(json!({ "code": code }))).await
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

    /// Runs a cell that the service must refuse.
    ///
    /// # Errors
    /// When it does not.
    pub async fn refused(&self, name: &str, code: &str) -> Result<Refusal> {
        let response = self.send(Method::POST, &format!("/{name}/eval"), Some(json!({ "code": code }))).await?;
        let status = response.status();
        let text = response.text().await?;
        ensure!(!status.is_success(), "{code} was not refused: {text}");
        let body: ErrorBody = serde_json::from_str(&text).with_context(|| format!("{status} {text}"))?;
        Ok(Refusal { status, error: body.error })
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<Value>) -> Result<T> {
        let shown = format!("{method} {}{path} {}", self.base, body.as_ref().map(Value::to_string).unwrap_or_default());
        let response = self.send(method, path, body).await.with_context(|| shown.clone())?;
        let status = response.status();
        let text = response.text().await?;
        ensure!(status.is_success(), "{shown}: {status} {text}");
        serde_json::from_str(&text).with_context(|| format!("{shown}: {text}"))
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<reqwest::Response> {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        Ok(request.send().await?)
    }
}
