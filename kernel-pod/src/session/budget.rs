//! From a spec to what the engine is given.

use std::time::Duration;

use dormouse_crds::session::KernelSessionSpec;
use dormouse_engine::{Budget, Determinism, Settings};
use dormouse_protocol::{ApiError, ErrorCode};

use crate::modules;
use crate::record::RunningCell;

/// What an instance of this spec is made with.
pub(super) fn settings(spec: &KernelSessionSpec) -> Result<Settings, ApiError> {
    modules::check(spec)?;
    let determinism = match &spec.determinism {
        None => None,
        Some(wanted) => {
            let epoch: jiff::Timestamp = wanted.epoch.parse().map_err(|error| {
                ApiError::new(ErrorCode::InvalidRequest, format!("spec.determinism.epoch is not an RFC 3339 time: {error}"))
            })?;
            #[expect(clippy::cast_precision_loss, reason = "milliseconds of any year that a timestamp can hold fit a float exactly")]
            let epoch_ms = epoch.as_millisecond() as f64;
            Some(Determinism { seed: wanted.seed, epoch_ms })
        }
    };
    Ok(Settings { heap_bytes: spec.limits.heap_bytes, determinism })
}

/// What the next turn may use: of the running cell's budget, what is left.
pub(super) fn budget(spec: &KernelSessionSpec, running: Option<&RunningCell>) -> Budget {
    let limits = &spec.limits;
    let asked_ms = running.and_then(|cell| cell.request.timeout_ms).unwrap_or(u64::MAX);
    let used_ticks = running.map_or(0, |cell| cell.ticks);
    // 0 means no limit to the engine, so a used up budget leaves one tick.
    let ticks = if limits.eval_ticks == 0 { 0 } else { limits.eval_ticks.saturating_sub(used_ticks).max(1) };
    Budget {
        wall: Duration::from_millis(limits.eval_timeout_ms.min(asked_ms)),
        ticks,
        output_bytes: limits.output_bytes.saturating_sub(running.map_or(0, |cell| cell.output_bytes)),
        pending_operations: limits.pending_operations,
    }
}
