//! A broker for each ToolBroker manifest.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use axum::{Router, http::Uri, response::IntoResponse as _};
use dormouse_broker::{Broker, BrokerStore};
use dormouse_crds::manifest::Document;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::{
    ApiErrorResponse, Metrics,
    in_process::InProcess,
    tls::{Identity, Process},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{sessions, values};

/// How long calls may go on after the end began.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(30);

/// The brokers of the files.
pub(super) struct Brokers {
    /// Their names, for people.
    pub(super) names: Vec<String>,
    /// What each of them counts.
    pub(super) metrics: Vec<Metrics>,
}

/// Serves the brokers of the files, which store what outlives them where `store` says.
pub(super) async fn start(
    files: &[PathBuf],
    namespace: &str,
    store: &BrokerStore,
    within: &InProcess,
    shutdown: &CancellationToken,
    tasks: &TaskTracker,
) -> anyhow::Result<Brokers> {
    let documents = sessions::read(files, namespace)?;
    let secrets = values::following(files, namespace, &documents);
    let mut brokers = Brokers { names: Vec::new(), metrics: Vec::new() };
    for document in documents {
        let Document::Broker(metadata, spec) = document else { continue };
        let store = BrokerStore { broker: metadata.name.clone(), ..store.clone() };
        let metrics = Metrics::of_part("broker", &metadata.name)?;
        let broker =
            Broker::with_store(&spec, secrets.clone(), &metrics, Some(store)).with_context(|| format!("ToolBroker {}", metadata.name))?;
        broker.look_now().await;
        tasks.spawn(shutdown.clone().run_until_cancelled_owned(broker.clone().keep_looking()));
        let identity = Identity::new(Process::Broker, namespace, &metadata.name);
        within.serve(&identity, broker.router(namespace));
        let (within, shutdown) = (within.clone(), shutdown.clone());
        tasks.spawn(broker.work_beside(async move {
            shutdown.cancelled().await;
            within.end(&identity, LAST_CALLS_TIMEOUT).await;
        }));
        brokers.names.push(metadata.name);
        brokers.metrics.push(metrics);
    }
    brokers.names.sort_unstable();
    Ok(brokers)
}

/// Answers what is sent to a broker that no manifest has.
pub(super) fn unknown() -> Router {
    Router::new().fallback(async |uri: Uri| {
        let name = uri.host().and_then(|host| host.parse().ok()).map(|Identity { name, .. }| name).unwrap_or_default();
        let message = format!("there is no ToolBroker {name}: start `dormouse dev` with a --broker FILE.yaml that has it");
        ApiErrorResponse(ApiError::new(ErrorCode::ToolNotFound, message)).into_response()
    })
}
