//! Why a request has no answer, in the terms that Node's `fetch` uses for its cause.

use std::{error::Error, io, time::Duration};

use dormouse_protocol::{ApiError, ErrorCode, broker::NetworkFailure};
use dormouse_service::wire::SendError;
use reqwest::Url;

use super::address::{Unreachable, Unresolved};

/// Why a request was not answered.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was not sent: a rule or a limit.
    Refused(ApiError),
    /// It failed on its way.
    Network(NetworkFailure),
}

pub(crate) fn network(code: &str, message: impl Into<String>) -> NetworkFailure {
    NetworkFailure { code: code.to_owned(), message: message.into() }
}

/// The head of the answer did not come in time.
pub(crate) fn no_head(waited: Duration) -> NetworkFailure {
    network("UND_ERR_HEADERS_TIMEOUT", format!("no answer within {} s", waited.as_secs()))
}

/// What became of sending a request to `url`. Addresses are not told: what a name stands for is nothing that a cell may learn here.
pub(crate) fn of_request(error: &reqwest::Error, url: &Url) -> Fault {
    let at = url.origin().ascii_serialization();
    if find::<Unreachable>(error).is_some() {
        return Fault::Refused(unreachable_address());
    }
    if find::<Unresolved>(error).is_some() {
        return Fault::Network(network("ENOTFOUND", format!("getaddrinfo ENOTFOUND {}", url.host_str().unwrap_or_default())));
    }
    if error.is_timeout() {
        return Fault::Network(network("UND_ERR_CONNECT_TIMEOUT", format!("connect timeout {at}")));
    }
    Fault::Network(of_connection(error, &at))
}

/// What became of a connection that was used.
pub(crate) fn of_connection(error: &reqwest::Error, at: &str) -> NetworkFailure {
    match find::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => network("ECONNREFUSED", format!("connect ECONNREFUSED {at}")),
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => network("ECONNRESET", format!("read ECONNRESET {at}")),
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            network("ENETUNREACH", format!("connect ENETUNREACH {at}"))
        }
        Some(io::ErrorKind::InvalidData) => network("ERR_TLS", format!("the certificate or the handshake of {at} is not acceptable")),
        _ if error.is_connect() => network("ERR_CONNECT", format!("no connection to {at}")),
        _ => network("UND_ERR_SOCKET", format!("other side closed {at}")),
    }
}

/// The host has no address that may be connected to.
pub(crate) fn unreachable_address() -> ApiError {
    denied(Unreachable.to_string())
}

/// A rule refuses it.
pub(crate) fn denied(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::EgressDenied, message)
}

/// That something which a ToolBroker names does not answer, and what to do if a rule is why.
pub(crate) fn silence(error: &SendError) -> String {
    find::<Unreachable>(error).map_or_else(|| "cannot be reached".to_owned(), |rule| format!("cannot be reached: {rule}"))
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref::<E>() {
            return Some(found);
        }
        // An I/O error shows its own cause's source, and not the cause.
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(found) = inner.and_then(|inner| inner.downcast_ref::<E>()) {
            return Some(found);
        }
        source = cause.source();
    }
    None
}
