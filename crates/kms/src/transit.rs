//! The wire contract of the Transit engine of Vault and OpenBao: `POST /v1/<mount>/encrypt/<key>` and `/decrypt/<key>`, JSON with everything in
//! base64, the token in a header, errors as `{"errors": […]}`. See <https://openbao.org/api-docs/secret/transit/>.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use dormouse_seal::{KeyService, KeyServiceError, keys::KEY_BYTES, service::SERVICE_NAME_BYTES_MAX};
use dormouse_service::url::{is_safe, plain};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::credentials::Credentials;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A whole question. A wake or a first commit may wait so long, twice.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Times that a question is put: a connection that was open too long costs one.
const ATTEMPTS_MAX: u32 = 2;
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes that are told of a refusal.
const REASON_BYTES_MAX: usize = 512;

/// Why a place cannot be a service's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyLocationError {
    /// Keys would travel in clear, or there is no URL at all.
    #[error("`{url}` cannot be used: write the https:// URL of the KMS, without user, query and fragment; http:// is for loopback only")]
    Url {
        /// What was given.
        url: String,
    },
    /// The mount or the key.
    #[error(
        "`{name}` cannot be used: write a mount and a key of A-Z, a-z, 0-9, '-', '_' and '.', a mount with '/' between its parts, both together at most {SERVICE_NAME_BYTES_MAX} bytes"
    )]
    Name {
        /// What was given.
        name: String,
    },
}

/// A key of an engine of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLocation {
    url: String,
    mount: String,
    key: String,
    /// `<mount>/<key>`: what objects call it. The URL is not in it, as a service may move.
    name: String,
}

impl KeyLocation {
    /// The key `key` of the engine at `mount` of the service at `url`.
    ///
    /// # Errors
    /// See [`KeyLocationError`].
    pub fn new(url: &str, mount: &str, key: &str) -> Result<Self, KeyLocationError> {
        let bad = || KeyLocationError::Url { url: url.to_owned() };
        let parsed = plain(url).ok_or_else(bad)?;
        if !is_safe(&parsed) {
            return Err(bad());
        }
        let name = format!("{mount}/{key}");
        let fits = |part: &str| {
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        if name.len() > SERVICE_NAME_BYTES_MAX || !mount.split('/').all(fits) || !fits(key) {
            return Err(KeyLocationError::Name { name });
        }
        Ok(Self { url: url.trim_end_matches('/').to_owned(), mount: mount.to_owned(), key: key.to_owned(), name })
    }
}

/// The service, asked over HTTP.
#[derive(Debug)]
pub struct Transit {
    place: KeyLocation,
    credentials: PathBuf,
    /// The client that believes these certificates.
    client: Mutex<Option<(Option<Vec<u8>>, Client)>>,
}

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

#[derive(Deserialize)]
struct Encrypted {
    ciphertext: String,
}

#[derive(Deserialize)]
struct Decrypted {
    plaintext: String,
}

#[derive(Deserialize, Default)]
struct Refusal {
    #[serde(default)]
    errors: Vec<String>,
}

/// A question without its answer.
enum Failed {
    /// Asked again, it may be answered.
    Perhaps(String),
    /// It will not.
    Surely(String),
    /// The ciphertext is not this key's.
    NotIts,
}

impl Transit {
    /// With the credentials in this folder. Nothing is asked yet.
    #[must_use]
    pub fn new(place: KeyLocation, credentials: impl Into<PathBuf>) -> Self {
        dormouse_service::telemetry::install_tls_provider();
        Self { place, credentials: credentials.into(), client: Mutex::default() }
    }

    async fn ask<T: for<'de> Deserialize<'de>>(&self, what: &str, body: &serde_json::Value) -> Result<T, KeyServiceError> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            match self.ask_once(what, body).await {
                Ok(answer) => return Ok(answer),
                Err(Failed::NotIts) => return Err(KeyServiceError::NotIts),
                Err(Failed::Surely(reason)) => return Err(self.unavailable(reason)),
                Err(Failed::Perhaps(reason)) => last = reason,
            }
        }
        Err(self.unavailable(last))
    }

    fn unavailable(&self, reason: String) -> KeyServiceError {
        KeyServiceError::Unavailable { service: format!("{} at {}", self.place.name, self.place.url), reason }
    }

    async fn ask_once<T: for<'de> Deserialize<'de>>(&self, what: &str, body: &serde_json::Value) -> Result<T, Failed> {
        let credentials = Credentials::read(&self.credentials).map_err(|error| Failed::Surely(format!("its credentials: {error}")))?;
        let client = self.client(&credentials).map_err(|error| Failed::Surely(error.to_string()))?;
        let KeyLocation { url, mount, key, .. } = &self.place;
        let request = client.post(format!("{url}/v1/{mount}/{what}/{key}")).header("X-Vault-Token", credentials.token).json(body);
        let mut answer = request.send().await.map_err(|error| perhaps(&error))?;
        let (status, mut bytes) = (answer.status(), Vec::new());
        while let Some(chunk) = answer.chunk().await.map_err(|error| perhaps(&error))? {
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Failed::Surely(format!("its answer is longer than {ANSWER_BYTES_MAX} bytes: is this a KMS?")));
            }
            bytes.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            return Err(self.refused(what, status, &bytes));
        }
        let read = serde_json::from_slice::<Answer<T>>(&bytes);
        read.map(|answer| answer.data).map_err(|_| Failed::Surely(format!("its answer is not one of a Transit engine ({status})")))
    }

    fn client(&self, credentials: &Credentials) -> Result<Client, reqwest::Error> {
        let mut known = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((ca, client)) = &*known
            && *ca == credentials.ca
        {
            return Ok(client.clone());
        }
        let mut builder = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(QUESTION_TIMEOUT);
        if let Some(ca) = &credentials.ca {
            builder = builder.tls_certs_only(reqwest::Certificate::from_pem_bundle(ca)?);
        } else if self.place.url.starts_with("http://") {
            // Where nothing is verified, no certificates of public authorities need to be there.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build()?;
        *known = Some((credentials.ca.clone(), client.clone()));
        Ok(client)
    }

    fn refused(&self, what: &str, status: StatusCode, body: &[u8]) -> Failed {
        let said = serde_json::from_slice::<Refusal>(body).unwrap_or_default().errors.join("; ");
        // Of all refusals, these alone speak of the ciphertext: of its form, and of the tag that no version of the key makes.
        let not_its = said.contains("invalid ciphertext") || said.contains("message authentication failed");
        if what == "decrypt" && status == StatusCode::BAD_REQUEST && not_its {
            return Failed::NotIts;
        }
        let KeyLocation { mount, key, .. } = &self.place;
        let hint = match status {
            StatusCode::FORBIDDEN => format!(
                ". Write a token that has not expired and whose policy allows `update` of {mount}/encrypt/{key} and {mount}/decrypt/{key}"
            ),
            StatusCode::NOT_FOUND => format!(". Is a Transit engine mounted at {mount}?"),
            _ => String::new(),
        };
        let reason = format!("{what} is answered with {status}: {}{hint}", clip(&said));
        let passing = status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::PRECONDITION_FAILED);
        if passing { Failed::Perhaps(reason) } else { Failed::Surely(reason) }
    }
}

#[async_trait]
impl KeyService for Transit {
    fn name(&self) -> &str {
        &self.place.name
    }

    async fn encrypt(&self, data_key: &[u8; KEY_BYTES], binding: &[u8]) -> Result<Vec<u8>, KeyServiceError> {
        let body = json!({ "plaintext": BASE64_STANDARD.encode(data_key), "associated_data": BASE64_STANDARD.encode(binding) });
        Ok(self.ask::<Encrypted>("encrypt", &body).await?.ciphertext.into_bytes())
    }

    async fn decrypt(&self, wrapped: &[u8], binding: &[u8]) -> Result<Vec<u8>, KeyServiceError> {
        let ciphertext = std::str::from_utf8(wrapped).map_err(|_| KeyServiceError::NotIts)?;
        let body = json!({ "ciphertext": ciphertext, "associated_data": BASE64_STANDARD.encode(binding) });
        let plaintext = self.ask::<Decrypted>("decrypt", &body).await?.plaintext;
        BASE64_STANDARD.decode(plaintext).map_err(|_| self.unavailable("its plaintext is not base64".to_owned()))
    }
}

/// Why there is no answer, with its causes: reqwest names the first only.
fn perhaps(error: &reqwest::Error) -> Failed {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    let text = format!("it does not answer: {}", clip(&text));
    // Who has waited once need not wait again.
    if error.is_timeout() { Failed::Surely(text) } else { Failed::Perhaps(text) }
}

fn clip(text: &str) -> &str {
    text.get(..text.floor_char_boundary(REASON_BYTES_MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_keys_from_travelling_in_clear() {
        for url in
            ["https://vault.example:8200", "https://vault.example/behind/", "http://127.0.0.1:8200", "http://localhost", "http://[::1]:1"]
        {
            assert!(KeyLocation::new(url, "transit", "sessions").is_ok(), "{url}");
        }
        for url in [
            "",
            "vault",
            "http://vault.example:8200",
            "http://10.0.0.1",
            "https://u:p@vault",
            "https://vault?a",
            "https://vault#a",
            "ftp://vault",
        ] {
            assert!(matches!(KeyLocation::new(url, "transit", "sessions"), Err(KeyLocationError::Url { .. })), "{url}");
        }
        assert_eq!(KeyLocation::new("https://v/", "team/transit", "k").unwrap().name, "team/transit/k");
        for (mount, key) in
            [("", "k"), ("transit", ""), ("/transit", "k"), ("transit/", "k"), ("transit", "a/b"), ("..", "k"), ("a", "k?v"), ("a", "k%2f")]
        {
            assert!(matches!(KeyLocation::new("https://v", mount, key), Err(KeyLocationError::Name { .. })), "{mount} {key}");
        }
        let longest = "k".repeat(SERVICE_NAME_BYTES_MAX - "transit/".len());
        assert!(KeyLocation::new("https://v", "transit", &longest).is_ok());
        assert!(KeyLocation::new("https://v", "transit", &format!("{longest}k")).is_err());
    }
}
