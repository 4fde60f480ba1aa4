//! Logs, and the process-wide things that must exist before anything else runs.

use std::io::IsTerminal as _;

use tracing_subscriber::{
    EnvFilter, Layer, filter::filter_fn, layer::SubscriberExt as _, registry::LookupSpan, util::SubscriberInitExt as _,
};

use crate::traces;

/// The environment variable that holds the log filter, such as `info,dormouse_gateway=debug`.
pub const LOG_ENV: &str = "DORMOUSE_LOG";

/// Starts logging on standard error (JSON unless it is a terminal), makes panics log lines, and installs the TLS provider.
/// Calling it again changes nothing. Inside a tokio runtime, which sends [`traces`] where they are wanted.
pub fn init(process: &'static str) {
    install_tls_provider();
    let filter = std::env::var(LOG_ENV).ok().and_then(|value| EnvFilter::try_new(value).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new("info"));
    let terminal = std::io::stderr().is_terminal();
    let registry = tracing_subscriber::registry();
    let installed = match traces::tracer(process) {
        None => registry.with(filter).with(lines(terminal)).try_init(),
        // Log lines and traces are wanted each on its own. A trace has the spans of this project, and no lines.
        Some(tracer) => {
            let spans = tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false);
            let spans = spans.with_filter(filter_fn(|about| about.is_span() && about.target().starts_with("dormouse")));
            registry.with(spans).with(lines(terminal).with_filter(filter)).try_init()
        }
    };
    if installed.is_err() {
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

/// Log lines: text on a terminal, else JSON.
fn lines<S: tracing::Subscriber + for<'span> LookupSpan<'span>>(terminal: bool) -> impl Layer<S> {
    // The list has the span that a line is in, too.
    let json = tracing_subscriber::fmt::layer().json().flatten_event(true).with_current_span(false).with_writer(std::io::stderr);
    let json = (!terminal).then_some(json);
    let text = terminal.then(|| tracing_subscriber::fmt::layer().with_target(false).with_writer(std::io::stderr));
    Layer::and_then(json, text)
}

/// Makes aws-lc-rs the one TLS provider of the process. `init` does it; tests and libraries may do it again.
pub fn install_tls_provider() {
    // A second installation is refused by rustls and means that it is there already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
