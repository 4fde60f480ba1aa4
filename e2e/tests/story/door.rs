//! The gateway as the chart installs it by default: HTTPS, with a certificate of the operator's authority.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{Certificate, Client, RequestBuilder};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use dormouse_e2e::kube::Kube;
use dormouse_protocol::{
    eval::EvalResult,
    session::{Session, SessionList},
};

use super::world::{SYSTEM, service_address};

/// How long one request may take: a session may have to come back, and a pod to start.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// A client that trusts the operator's authority, and nobody else.
pub struct Door {
    http: Client,
    address: SocketAddr,
    host: String,
    token: String,
}

impl Door {
    /// By the Service's name, with what its Secret says of the authority, as the account `app`.
    pub async fn new(kube: &Kube) -> Result<Self> {
        let address: SocketAddr = service_address(kube, SYSTEM, "dormouse-gateway").await?.parse()?;
        let host = format!("dormouse-gateway.{SYSTEM}.svc");
        let secret = kube.get(&format!("secret dormouse-gateway-door -n {SYSTEM}")).await?;
        let authority = STANDARD.decode(secret["data"]["ca.crt"].as_str().context("ca.crt")?)?;
        let builder = Client::builder().no_proxy().timeout(REQUEST_TIMEOUT).resolve(&host, address);
        let http = builder.tls_certs_only(Certificate::from_pem_bundle(&authority)?).build()?;
        let token = kube.kubectl("create token app --audience dormouse").await?.trim().to_owned();
        Ok(Self { http, address, host, token })
    }

    /// Runs a cell that must succeed and returns its value.
    pub async fn value(&self, namespace: &str, session: &str, code: &str) -> Result<Value> {
        let url = self.url(namespace, &format!("/{session}/eval"));
        let result: EvalResult = self.ask(self.http.post(url).json(&json!({ "code": code }))).await.with_context(|| code.to_owned())?;
        ensure!(result.ok && result.durable, "{code}: {result:?}");
        Ok(result.value.unwrap_or(Value::Null))
    }

    /// Reads a session.
    pub async fn session(&self, namespace: &str, session: &str) -> Result<Session> {
        self.ask(self.http.get(self.url(namespace, &format!("/{session}")))).await
    }

    /// The first page of the sessions of a namespace.
    pub async fn list(&self, namespace: &str) -> Result<Vec<Session>> {
        let page: SessionList = self.ask(self.http.get(self.url(namespace, ""))).await?;
        Ok(page.items)
    }

    /// The same port does not answer a client that speaks plain HTTP.
    pub async fn refuses_plain_http(&self) -> Result<()> {
        let http = Client::builder().no_proxy().timeout(REQUEST_TIMEOUT).build()?;
        let answer = http.get(format!("http://{}/openapi.json", self.address)).send().await;
        let error = answer.err().context("plain HTTP was answered")?;
        ensure!(!error.is_connect() && !error.is_timeout(), "nobody was there to refuse it: {error:?}");
        Ok(())
    }

    fn url(&self, namespace: &str, below: &str) -> String {
        format!("https://{}:{}/v1/namespaces/{namespace}/sessions{below}", self.host, self.address.port())
    }

    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let answer = request.bearer_auth(&self.token).send().await?;
        let (status, body) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{status}: {body}");
        Ok(serde_json::from_str(&body)?)
    }
}
