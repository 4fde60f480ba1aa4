//! Whether a client wants its events encrypted, and with which key.

use axum::http::HeaderMap;
use dormouse_protocol::{ApiError, ErrorCode};
use serde::{Deserialize, Serialize};

use crate::doors::sealed::ClientHello;

/// Header of a request that has no body.
const HELLO_HEADER: &str = "dormouse-client-hello";

/// What a client says of encryption.
#[derive(Debug, Default, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Encryption {
    mode: Mode,
    /// Its half of the exchange of keys; with every mode but `disabled`.
    client_hello: Option<ClientHello>,
}

/// Whether it wants any.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Disabled,
    /// As `required`: the gateway always can.
    Optional,
    Required,
}

impl Encryption {
    /// The client's half, if it wants any.
    pub(super) fn hello(&self) -> Result<Option<&ClientHello>, ApiError> {
        match (self.mode, &self.client_hello) {
            (Mode::Disabled, _) => Ok(None),
            (_, Some(hello)) => Ok(Some(hello)),
            (_, None) => {
                let message = "encryption.clientHello: the exchange of keys begins with it; or write the mode `disabled`";
                Err(ApiError::new(ErrorCode::InvalidRequest, message).with_detail("path", "encryption.clientHello"))
            }
        }
    }
}

/// The client's half in a header.
pub(super) fn hello_of(headers: &HeaderMap) -> Result<Option<ClientHello>, ApiError> {
    let said = headers.get(HELLO_HEADER).map(|value| value.to_str().unwrap_or_default());
    said.map(ClientHello::read).transpose()
}
