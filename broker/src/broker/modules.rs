//! Packages for sessions.

use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{ModulesAnswer, ModulesCall},
};
use tokio::time::Instant;

use super::Broker;

impl Broker {
    /// Finds a package and all that it needs.
    ///
    /// # Errors
    /// `EgressDenied` without a registry, `ModuleNotFound`, `ModuleUnavailable`, and `SizeAdmissionError` for what is too large.
    pub async fn modules(&self, call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        let started = Instant::now();
        let answer = match self.module_source() {
            Some(source) => self.module_loads().load(&source, self.secrets(), &call).await,
            None => {
                let message = "the session's ToolBroker has no registry: write one into its spec.modules.registry";
                Err(ApiError::new(ErrorCode::EgressDenied, message))
            }
        };
        let outcome = answer.as_ref().map_or_else(|error| error.code.to_string(), |_| "ok".to_owned());
        self.count_load(&outcome);
        tracing::info!(
            session = call.session,
            session_uid = call.session_uid,
            specifier = call.specifier,
            root = answer.as_ref().map_or("", |answer| answer.root.as_str()),
            packages = answer.as_ref().map_or(0, |answer| answer.packages.len()),
            outcome,
            milliseconds = started.elapsed().as_millis(),
            "modules",
        );
        answer
    }
}
