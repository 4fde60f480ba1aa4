//! When to stop.

use tokio::signal::unix::{SignalKind, signal as unix_signal};
use tokio_util::sync::CancellationToken;

/// Exit status after a second SIGINT or SIGTERM, which does not wait for anything.
const IMPATIENT_EXIT_STATUS: i32 = 130;

/// A token that is cancelled by the first SIGTERM or SIGINT; the second one ends the process on the spot.
/// Must be called inside a tokio runtime.
#[must_use]
pub fn signal() -> CancellationToken {
    let token = CancellationToken::new();
    let (terminate, interrupt) = match (unix_signal(SignalKind::terminate()), unix_signal(SignalKind::interrupt())) {
        (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "signals cannot be received; the process will stop only by force");
            return token;
        }
    };
    tokio::spawn(watch(terminate, interrupt, token.clone()));
    token
}

async fn watch(mut terminate: tokio::signal::unix::Signal, mut interrupt: tokio::signal::unix::Signal, token: CancellationToken) {
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if token.is_cancelled() {
            impatient();
        }
        tracing::info!("stopping");
        token.cancel();
    }
}

#[expect(clippy::disallowed_methods, reason = "whoever signals twice does not want to wait for what returning from main would finish")]
fn impatient() -> ! {
    std::process::exit(IMPATIENT_EXIT_STATUS)
}
