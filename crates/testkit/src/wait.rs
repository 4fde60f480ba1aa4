//! Waiting for what nothing announces.

use std::time::Duration;

/// How long a test waits for what must come. Long cells run at the idle policy, which gives way to everything else on the machine, so on a busy one
/// what takes a second may take minutes.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Between two looks. A test that looks without a pause takes the processor from what it waits for.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until it holds.
///
/// # Panics
/// When it does not in [`PATIENCE`]; the message names `what`.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "not within {PATIENCE:?}: {what}");
}
