//! The encrypted form of what two doors send: the exchange of keys and the envelope, in the names of the streaming protocol.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use dormouse_protocol::{ApiError, ErrorCode, event::PROTOCOL_VERSION};
use dormouse_seal::channel::{self, Accepted, ChannelError, HandshakeError, Opener, Sealer};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How long a client may take for its first frame.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Closed because keys were not exchanged.
const HANDSHAKE_FAILED: u16 = 4001;
/// Closed because a frame does not open.
const NOT_OPENED: u16 = 4002;
/// Closed because a frame is not the next one.
const OUT_OF_SEQUENCE: u16 = 4003;
/// Closed because the keys are used up.
const KEYS_USED_UP: u16 = 4004;

/// The only curve that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, utoipa::ToSchema)]
enum Curve {
    #[serde(rename = "P-256")]
    P256,
}

/// The only cipher that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, utoipa::ToSchema)]
enum Algorithm {
    #[serde(rename = "AES-GCM-256")]
    AesGcm256,
}

/// The only derivation of keys that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
enum Derivation {
    #[serde(rename = "HKDF-SHA-256")]
    HkdfSha256,
}

/// What a client begins the exchange of keys with.
#[derive(Debug, Clone, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClientHello {
    /// 1.
    protocol_version: u32,
    /// Its ephemeral public key: the uncompressed point, in base64.
    client_ephemeral_pub_key_b64: String,
    /// The key's curve.
    #[serde(rename = "curve")]
    _curve: Curve,
    /// The ciphers that it takes.
    supported_algorithms: Vec<Algorithm>,
}

/// What the gateway answers.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerHello {
    protocol_version: u32,
    server_ephemeral_pub_key_b64: String,
    curve: Curve,
    selected_algorithm: Algorithm,
    kdf: Derivation,
    key_id: String,
}

/// A sealed message.
#[derive(Debug, Clone, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Envelope {
    /// The key's id.
    kid: String,
    /// The nonce: 12 bytes that count messages, in base64.
    #[serde(rename = "nonceB64")]
    nonce: String,
    /// The ciphertext and, behind it, its tag of 16 bytes, in base64.
    #[serde(rename = "ciphertextB64")]
    ciphertext: String,
}

/// The keys of a connection.
pub(super) struct Keys {
    pub(super) hello: ServerHello,
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
}

impl ServerHello {
    pub(super) fn key_id(&self) -> &str {
        &self.key_id
    }
}

impl ClientHello {
    /// Reads one that travels as JSON in base64.
    pub(super) fn read(base64: &str) -> Result<Self, ApiError> {
        use base64::Engine as _;
        let bytes = base64::prelude::BASE64_STANDARD.decode(base64).map_err(|_| refused("it is no base64"))?;
        serde_json::from_slice(&bytes).map_err(|error| refused(&error.to_string()))
    }

    /// Makes the keys. `salt` tells the connection from others; without one it is the keys' id.
    pub(super) fn accept(&self, salt: Option<&str>) -> Result<Keys, ApiError> {
        if self.protocol_version != PROTOCOL_VERSION {
            return Err(refused(&format!("protocolVersion is {PROTOCOL_VERSION}")));
        }
        if !self.supported_algorithms.contains(&Algorithm::AesGcm256) {
            return Err(refused("supportedAlgorithms has AES-GCM-256"));
        }
        let Accepted { public_key, key_id, sealer, opener } =
            channel::accept(&self.client_ephemeral_pub_key_b64, salt).map_err(|error| match error {
                HandshakeError::PublicKey => refused(&error.to_string()),
                HandshakeError::Failed => ApiError::new(ErrorCode::Internal, error.to_string()),
            })?;
        let hello = ServerHello {
            protocol_version: PROTOCOL_VERSION,
            server_ephemeral_pub_key_b64: public_key,
            curve: Curve::P256,
            selected_algorithm: Algorithm::AesGcm256,
            kdf: Derivation::HkdfSha256,
            key_id,
        };
        Ok(Keys { hello, sealer, opener })
    }
}

fn refused(why: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, format!("clientHello: {why}")).with_detail("path", "clientHello")
}

impl Envelope {
    pub(super) fn seal(sealer: &mut Sealer, message: &[u8]) -> Result<Self, ChannelError> {
        let channel::Message { key_id, nonce, ciphertext } = sealer.seal(message)?;
        Ok(Self { kid: key_id, nonce, ciphertext })
    }

    fn open(self, opener: &mut Opener) -> Result<Vec<u8>, ChannelError> {
        opener.open(&channel::Message { key_id: self.kid, nonce: self.nonce, ciphertext: self.ciphertext })
    }
}

/// A frame of a socket whose keys are exchanged.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "t", rename_all = "lowercase", deny_unknown_fields)]
enum Frame {
    Encrypted { payload: Envelope },
}

/// The first frame of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "t", rename_all = "lowercase", deny_unknown_fields)]
enum First {
    Hello {
        #[serde(rename = "clientHello")]
        client_hello: ClientHello,
    },
}

/// Exchanges keys over a socket that has just been opened. `None`: it is closed, and says why.
pub(super) async fn handshake(socket: &mut WebSocket) -> Option<(Box<Sealer>, Box<Opener>)> {
    let came = tokio::time::timeout(HANDSHAKE_TIMEOUT, socket.recv()).await;
    let keys = match &came {
        Ok(Some(Ok(Message::Text(text)))) => serde_json::from_str(text)
            .map_err(|error| refused(&format!("the first frame is {{\"t\":\"hello\",\"clientHello\":…}}: {error}")))
            .and_then(|First::Hello { client_hello }| client_hello.accept(None)),
        Ok(Some(Ok(_))) => Err(refused("the first frame is text")),
        Ok(_) => return None,
        Err(_) => Err(refused(&format!("it did not come within {} s", HANDSHAKE_TIMEOUT.as_secs()))),
    };
    match keys {
        Ok(Keys { hello, sealer, opener }) => {
            let answer = json!({ "t": "hello-result", "ok": true, "serverHello": hello });
            socket.send(Message::Text(answer.to_string().into())).await.ok()?;
            Some((Box::new(sealer), Box::new(opener)))
        }
        Err(error) => {
            let _ = socket.send(Message::Close(Some(close(HANDSHAKE_FAILED, &error.message)))).await;
            None
        }
    }
}

/// The longest reason that a close has room for, in bytes.
const REASON_BYTES_MAX: usize = 123;

fn close(code: u16, reason: &str) -> CloseFrame {
    let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    CloseFrame { code, reason: reason.into() }
}

/// A text as it travels.
pub(super) fn seal(sealer: &mut Sealer, text: &str) -> Result<String, CloseFrame> {
    let payload = Envelope::seal(sealer, text.as_bytes()).map_err(|error| closes(&error))?;
    serde_json::to_string(&Frame::Encrypted { payload }).map_err(|_| closes(&ChannelError::Altered))
}

/// What a client has sealed.
pub(super) fn open(opener: &mut Opener, frame: &str) -> Result<String, CloseFrame> {
    let Ok(Frame::Encrypted { payload }) = serde_json::from_str(frame) else {
        return Err(close(NOT_OPENED, "a frame is {\"t\":\"encrypted\",\"payload\":{kid, nonceB64, ciphertextB64}}"));
    };
    let opened = payload.open(opener).map_err(|error| closes(&error))?;
    String::from_utf8(opened).map_err(|_| close(NOT_OPENED, "what is sealed is JSON in UTF-8"))
}

fn closes(error: &ChannelError) -> CloseFrame {
    let code = match error {
        ChannelError::OtherKey | ChannelError::Altered => NOT_OPENED,
        ChannelError::Sequence => OUT_OF_SEQUENCE,
        ChannelError::Exhausted => KEYS_USED_UP,
    };
    close(code, &error.to_string())
}
