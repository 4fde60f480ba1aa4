//! Which engine runs a session: the one that its head names, whichever is the current one.

use dormouse_engine::{Engine, EngineError, Image, Instance, Settings};
use dormouse_lifecycle::Head;
use dormouse_protocol::{ApiError, ErrorCode};

use super::wake::internal;
use super::{Fault, Host};

/// Lays a memory back in the engine that its head names.
pub(super) async fn restore(host: &Host, head: Option<&Head>, image: &Image, settings: &Settings) -> Result<Instance, EngineError> {
    let engine = match head {
        Some(head) => by_digest(host, &head.engine_digest).await?,
        None => host.engines.current().clone(),
    };
    engine.restore(image, settings).await
}

/// The engine that a head names.
pub(crate) async fn of(host: &Host, head: &Head) -> Result<Engine, Fault> {
    by_digest(host, &head.engine_digest).await.map_err(|error| match error {
        EngineError::UnknownEngine { digest } => {
            let message =
                format!("the snapshot was made by engine {digest}, which this pod does not have; run a kernel pod image that has it");
            Fault::Failed(ApiError::new(ErrorCode::EngineMismatch, message))
        }
        error => Fault::Unavailable(internal(&error)),
    })
}

/// The engine of this digest; compiled aside when it is an earlier one that no session has needed yet.
async fn by_digest(host: &Host, digest: &str) -> Result<Engine, EngineError> {
    if let Some(engine) = host.engines.loaded(digest) {
        return Ok(engine);
    }
    let (engines, wanted) = (host.engines.clone(), digest.to_owned());
    let compiled = host.environment.threads.blocking(move || engines.get(&wanted)).await;
    compiled.map_err(|error| EngineError::Load(error.to_string()))?
}
