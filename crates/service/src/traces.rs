//! Traces: spans of what is done, sent to a collector by OTLP over HTTP, when an administrator names one. Until then no layer is there, and nothing
//! is made.
//!
//! The environment variables are OpenTelemetry's own: `OTEL_EXPORTER_OTLP_ENDPOINT` switches it on; sampler, headers, attributes and the exporter's
//! batches are as its specification has them.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    body::Bytes,
    http::{HeaderMap, Request, Response},
};
use opentelemetry::{propagation::TextMapPropagator as _, trace::TracerProvider as _};
use opentelemetry_http::{HeaderExtractor, HeaderInjector, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::answer::read_bytes;

/// Switches traces on: the URL of a collector.
pub const ENDPOINT_ENV: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The same, for traces only.
pub const TRACES_ENDPOINT_ENV: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Switches it off again.
const DISABLED_ENV: &str = "OTEL_SDK_DISABLED";
/// The same, for traces only: `none`.
const EXPORTER_ENV: &str = "OTEL_TRACES_EXPORTER";
/// What the process is called, unless somebody says so.
const SERVICE_ENV: &str = "OTEL_SERVICE_NAME";

/// How long a collector may take for a batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a process that ends waits for what has not been sent.
const LAST_EXPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of a collector's answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

static ON: AtomicBool = AtomicBool::new(false);
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Whether somebody wants traces.
#[must_use]
pub fn are_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// What makes spans, if an administrator wants traces. `process` names this one. Inside a tokio runtime, which sends them.
pub(crate) fn tracer(process: &'static str) -> Option<SdkTracer> {
    let said = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let wanted = said(ENDPOINT_ENV).or_else(|| said(TRACES_ENDPOINT_ENV)).is_some();
    let off = said(DISABLED_ENV).is_some_and(|off| off.eq_ignore_ascii_case("true")) || said(EXPORTER_ENV).is_some_and(|to| to == "none");
    if !wanted || off {
        return None;
    }
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    let client = reqwest::Client::builder().no_proxy().timeout(EXPORT_TIMEOUT).build().ok()?;
    let exporter = SpanExporter::builder().with_http().with_http_client(Sender { client, runtime }).build();
    let exporter = exporter.inspect_err(|error| tracing::error!(%error, "traces cannot be sent")).ok()?;
    let mut resource = Resource::builder();
    if said(SERVICE_ENV).is_none() {
        resource = resource.with_service_name(format!("dormouse-{process}"));
    }
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
    let tracer = provider.tracer("dormouse");
    PROVIDER.set(provider).ok()?;
    ON.store(true, Ordering::Relaxed);
    Some(tracer)
}

/// Sends what has not been sent. The last thing that a process does.
pub async fn finish() {
    let Some(provider) = PROVIDER.get() else { return };
    let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST_EXPORT_TIMEOUT)).await;
    if let Ok(Err(error)) = ended {
        tracing::warn!(%error, "the last spans were not sent");
    }
}

/// Makes the span, which is new, a part of the trace that a request's headers name.
pub fn follow(span: &Span, headers: &HeaderMap) {
    if are_on() {
        // Without a layer, or for a span that nobody samples, there is nothing to set.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&HeaderExtractor(headers)));
    }
}

/// What names the trace of the present span to whoever is asked next.
pub(crate) fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut HeaderInjector(&mut headers));
    headers
}

/// Sends batches by the process's own HTTP client: the thread that makes them is none of the runtime's.
#[derive(Debug)]
struct Sender {
    client: reqwest::Client,
    runtime: tokio::runtime::Handle,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, request) = (self.client.clone(), reqwest::Request::try_from(request)?);
        self.runtime
            .spawn(async move {
                let mut answer = client.execute(request).await?;
                let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
                let mut response = Response::new(Bytes::from(read_bytes(answer, ANSWER_BYTES_MAX).await?));
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                Ok(response)
            })
            .await?
    }
}
