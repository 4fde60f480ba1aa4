//! An OpenID Connect issuer: its documents over real HTTP, its tokens signed by real keys.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use aws_lc_rs::{
    encoding::AsDer as _,
    rand::SystemRandom,
    rsa::{KeyPair, KeySize},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair},
};
use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use base64::Engine as _;
use dormouse_gateway::auth::oidc::{Claim, Settings};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Bytes of PKCS #8 around the RSA key of 2,048 bits itself, which is what a signer reads.
const PKCS8_BYTES: usize = 26;

/// A key of an issuer.
pub struct SigningKey {
    pub id: String,
    pub algorithm: Algorithm,
    key: EncodingKey,
}

impl SigningKey {
    pub fn new(id: &str, algorithm: Algorithm) -> Self {
        let random = SystemRandom::new();
        let key = match algorithm {
            Algorithm::ES256 => {
                EncodingKey::from_ec_der(EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap().as_ref())
            }
            Algorithm::EdDSA => EncodingKey::from_ed_der(Ed25519KeyPair::generate_pkcs8v1(&random).unwrap().as_ref()),
            _ => {
                let pkcs8: aws_lc_rs::encoding::Pkcs8V1Der<'static> = KeyPair::generate(KeySize::Rsa2048).unwrap().as_der().unwrap();
                EncodingKey::from_rsa_der(&pkcs8.as_ref()[PKCS8_BYTES..])
            }
        };
        Self { id: id.to_owned(), algorithm, key }
    }

    /// As the issuer publishes it.
    pub fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.id.clone());
        serde_json::to_value(jwk).unwrap()
    }

    /// A token with these claims, under a header as `change` has it.
    pub fn sign_as(&self, claims: &Value, change: impl FnOnce(&mut Header)) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.clone());
        change(&mut header);
        encode(&header, claims, &self.key).unwrap()
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(claims, |_| ())
    }
}

/// A token of these parts, signed by whatever `signature` makes of the first two.
pub fn forged(header: &Value, claims: &Value, signature: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let part = |bytes: &[u8]| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    let signed = format!("{}.{}", part(header.to_string().as_bytes()), part(claims.to_string().as_bytes()));
    let signature = part(&signature(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// Seconds since the epoch.
pub fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

/// The issuer.
pub struct Issuer {
    pub url: String,
    /// What it publishes.
    pub keys: Mutex<Vec<Value>>,
    /// How often its keys were asked for.
    pub asked: AtomicUsize,
    pub is_down: AtomicBool,
}

impl Issuer {
    pub async fn start(keys: &[&SigningKey]) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = Arc::new(Self {
            url: format!("http://{}/realms/test", listener.local_addr().unwrap()),
            keys: Mutex::new(keys.iter().map(|key| key.public()).collect()),
            asked: AtomicUsize::new(0),
            is_down: AtomicBool::new(false),
        });
        let routes = Router::new()
            .route("/realms/test/.well-known/openid-configuration", get(discovery))
            .route("/realms/test/keys", get(published))
            .with_state(Arc::clone(&issuer));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        issuer
    }

    pub fn settings(&self) -> Settings {
        let claim = |name: &str| Claim { name: name.to_owned(), prefix: "oidc:".to_owned() };
        let audiences = vec!["dormouse".to_owned(), "https://dormouse.example/mcp".to_owned()];
        Settings { issuer: self.url.clone(), audiences, user: claim("sub"), groups: claim("groups"), authorities: None }
    }

    /// The claims of a token that is good for a minute, for `user`.
    pub fn claims(&self, user: &str) -> Value {
        json!({ "iss": self.url, "aud": "dormouse", "sub": user, "groups": ["team"], "iat": now(), "exp": now() + 60 })
    }
}

async fn discovery(State(issuer): State<Arc<Issuer>>) -> impl IntoResponse {
    if issuer.is_down.load(Ordering::SeqCst) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    Json(json!({ "issuer": issuer.url, "jwks_uri": format!("{}/keys", issuer.url) })).into_response()
}

async fn published(State(issuer): State<Arc<Issuer>>) -> impl IntoResponse {
    issuer.asked.fetch_add(1, Ordering::SeqCst);
    Json(json!({ "keys": issuer.keys.lock().unwrap().clone() }))
}
