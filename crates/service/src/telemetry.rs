//! Logs, and the process-wide things that must exist before anything else runs.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// The environment variable that holds the log filter, such as `info,dormouse_gateway=debug`.
pub const LOG_ENV: &str = "DORMOUSE_LOG";

/// Starts logging on standard error (JSON unless it is a terminal), makes panics log lines, and installs the TLS provider.
/// Calling it again changes nothing.
pub fn init(process: &'static str) {
    install_tls_provider();
    let filter = std::env::var(LOG_ENV).ok().and_then(|value| EnvFilter::try_new(value).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new("info"));
    let terminal = std::io::stderr().is_terminal();
    let json = (!terminal).then(|| tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(std::io::stderr));
    let text = terminal.then(|| tracing_subscriber::fmt::layer().with_target(false).with_writer(std::io::stderr));
    if tracing_subscriber::registry().with(filter).with(json).with(text).try_init().is_err() {
        return;
    }
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // The payload may quote what a tenant sent, so only the place is logged.
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(process, %location, "panic");
        if terminal {
            previous(info);
        }
    }));
    tracing::debug!(process, version = env!("CARGO_PKG_VERSION"), "telemetry is up");
}

/// Makes aws-lc-rs the one TLS provider of the process. `init` does it; tests and libraries may do it again.
pub fn install_tls_provider() {
    // A second installation is refused by rustls and means that it is there already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
