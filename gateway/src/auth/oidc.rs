//! Tokens of an OpenID Connect issuer: signed JWTs, checked by the keys that the issuer publishes.
//!
//! [`Oidc`] stands before another authority: it looks at tokens that name its issuer, and hands over all others. What a caller may do, that other
//! authority says of the user and the groups that the token's claims name.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use dormouse_service::{answer::read_json, metadata::is_metadata_host, telemetry::install_tls_provider, url};
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, dangerous, decode, decode_header,
    errors::ErrorKind,
    jwk::{Jwk, PublicKeyUse},
};
use reqwest::Url;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tokio::{sync::Mutex, time::Instant};

use super::{Access, AuthError, Authenticator, CREDENTIAL_BYTES_MAX, Caller};

/// How long the issuer's keys are used without a look at whether there are others.
pub const KEYS_FRESH: Duration = Duration::from_secs(5 * 60);
/// How long they are used while the issuer does not answer.
pub const KEYS_KEPT_MAX: Duration = Duration::from_secs(60 * 60);
/// Least time between two questions to the issuer, whatever tokens come.
pub const FETCH_INTERVAL_MIN: Duration = Duration::from_secs(10);
/// How long the issuer may take for each of its two documents.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest document of an issuer, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 256 << 10;
/// Keys of an issuer that are looked at.
pub const KEYS_MAX: usize = 64;
/// How far the issuer's clock may differ from this one.
pub const LEEWAY: Duration = Duration::from_secs(30);
/// Most groups that a token may name.
pub const GROUPS_MAX: usize = 256;
/// Longest name of a user or a group with its prefix, in bytes.
pub const NAME_BYTES_MAX: usize = 512;

/// All of them have a public key: with a shared one, whoever knows the issuer's public keys could sign.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// What Kubernetes keeps for itself among users and groups.
const RESERVED: &str = "system:";

/// A claim, and what stands before what it says.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its name; with dots, the way through objects.
    pub name: String,
    /// Before each name that it has.
    pub prefix: String,
}

/// Whose tokens are taken.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The `iss` of tokens, and where the issuer's documents are. HTTPS, or HTTP on loopback.
    pub issuer: String,
    /// A token's `aud` names one of these.
    pub audiences: Vec<String>,
    /// Who the user is.
    pub user: Claim,
    /// Which groups they are in.
    pub groups: Claim,
    /// PEM of the authorities of the issuer's certificate, where they are no public ones.
    pub authorities: Option<Vec<u8>>,
}

/// Why an issuer cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The issuer's URL.
    #[error("the issuer `{0}` is no https URL: write it as its tokens do, without query and fragment")]
    Issuer(String),
    /// No audience.
    #[error("there is no audience: name at least one that tokens must be meant for")]
    Audience,
    /// The authorities, or the client.
    #[error("no HTTP client for the issuer: {0}")]
    Client(#[from] reqwest::Error),
}

/// An authority that knows an issuer's tokens, before one that knows other credentials.
pub struct Oidc {
    settings: Settings,
    http: reqwest::Client,
    keys: RwLock<Option<Arc<Keys>>>,
    /// When the issuer was asked last; held while it is.
    asked: Mutex<Option<Instant>>,
    others: Arc<dyn Authenticator>,
}

/// The keys of an issuer.
struct Keys {
    since: Instant,
    list: Vec<Key>,
}

struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

impl Keys {
    /// The key of this name, or the only one that fits where the token names none.
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let fits = |key: &&Key| key.key.family() == algorithm.family() && key.algorithm.is_none_or(|of| of == algorithm);
        let mut fitting = self.list.iter().filter(fits).filter(|key| id.is_none() || key.id.as_deref() == id);
        let first = fitting.next()?;
        (id.is_some() || fitting.next().is_none()).then(|| first.key.clone())
    }
}

/// What says whose a token is.
#[derive(Deserialize)]
struct Issued {
    iss: String,
}

/// The issuer's description of itself.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// The issuer's keys, of which some may be of kinds that are not known here.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl Oidc {
    /// Takes the tokens of this issuer; `others` is asked about everybody else, and about everybody's rights.
    ///
    /// # Errors
    /// The settings name no issuer that can be asked.
    pub fn new(settings: Settings, others: Arc<dyn Authenticator>) -> Result<Self, OidcError> {
        if !url::plain(&settings.issuer).is_some_and(|issuer| is_trusted(&issuer)) {
            return Err(OidcError::Issuer(settings.issuer));
        }
        if settings.audiences.iter().all(String::is_empty) {
            return Err(OidcError::Audience);
        }
        install_tls_provider();
        let mut http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(FETCH_TIMEOUT);
        if let Some(pem) = &settings.authorities {
            http = http.tls_certs_only(reqwest::Certificate::from_pem_bundle(pem)?);
        }
        Ok(Self { settings, http: http.build()?, keys: RwLock::default(), asked: Mutex::default(), others })
    }

    fn is_ours(&self, token: &str) -> bool {
        dangerous::insecure_decode_claims::<Issued>(token).is_ok_and(|claims| claims.iss == self.settings.issuer)
    }

    async fn check(&self, token: &str) -> Result<Caller, AuthError> {
        let header = decode_header(token).map_err(|_| AuthError::Token("it is signed in no way that is taken"))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(AuthError::Token("it is signed in no way that is taken"));
        }
        if header.crit.is_some() {
            return Err(AuthError::Token("it demands what is not known here (crit)"));
        }
        let key = self.key(header.kid.as_deref(), header.alg).await?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY.as_secs();
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.aud = Some(self.settings.audiences.iter().filter(|audience| !audience.is_empty()).cloned().collect());
        let token = decode::<Map<String, Value>>(token, &key, &validation).map_err(|error| AuthError::Token(why(error.kind())))?;
        self.caller(&token.claims)
    }

    /// Who a token's claims say that its holder is.
    fn caller(&self, claims: &Map<String, Value>) -> Result<Caller, AuthError> {
        let Settings { user, groups, .. } = &self.settings;
        let name = claim(claims, &user.name).and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or(AuthError::Token("it has no claim that names the user: see the gateway's --oidc-user-claim"))?;
        // Whoever may choose an address that nobody has verified is whoever they like.
        if user.name == "email" && claims.get("email_verified") != Some(&Value::Bool(true)) {
            return Err(AuthError::Token("its issuer has not verified the user's email address"));
        }
        let name = format!("{}{name}", user.prefix);
        if name.starts_with(RESERVED) || name.len() > NAME_BYTES_MAX {
            return Err(AuthError::Token("it names a user that it cannot name"));
        }
        let named = match claim(claims, &groups.name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err(AuthError::Token("the claim of its groups is no list of names")),
        };
        if named.len() > GROUPS_MAX {
            return Err(AuthError::Token("it names more than 256 groups: have its issuer name fewer"));
        }
        let prefixed = named.iter().map(|group| format!("{}{group}", groups.prefix));
        let groups = prefixed.filter(|group| !group.starts_with(RESERVED) && group.len() <= NAME_BYTES_MAX).collect();
        let uid = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Caller { user: name, uid, groups, ..Caller::default() })
    }

    fn known(&self) -> Option<Arc<Keys>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key that a token names, after a look at whether the issuer has others, if it is time for that or the key is not known.
    async fn key(&self, id: Option<&str>, algorithm: Algorithm) -> Result<DecodingKey, AuthError> {
        let fresh = || self.known().filter(|keys| keys.since.elapsed() < KEYS_FRESH).and_then(|keys| keys.find(id, algorithm));
        if let Some(key) = fresh() {
            return Ok(key);
        }
        let mut asked = self.asked.lock().await;
        // Somebody else may have asked meanwhile.
        if let Some(key) = fresh() {
            return Ok(key);
        }
        let mut failure = None;
        if asked.is_none_or(|at| at.elapsed() >= FETCH_INTERVAL_MIN) {
            *asked = Some(Instant::now());
            match self.fetch().await {
                Ok(list) => {
                    let keys = Keys { since: Instant::now(), list };
                    *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
                }
                Err(error) => {
                    tracing::warn!(issuer = self.settings.issuer, error = %crate::chain::chain(&*error), "the issuer's keys cannot be read");
                    failure = Some(error);
                }
            }
        }
        drop(asked);
        match self.known().filter(|keys| keys.since.elapsed() < KEYS_KEPT_MAX) {
            Some(keys) => keys.find(id, algorithm).ok_or(AuthError::Token("its issuer has no such key")),
            None => Err(AuthError::Unavailable(failure.unwrap_or_else(|| "the issuer did not answer".into()))),
        }
    }

    async fn fetch(&self) -> Result<Vec<Key>, Box<dyn std::error::Error + Send + Sync>> {
        let issuer = self.settings.issuer.trim_end_matches('/');
        let about: Discovery = self.read(&format!("{issuer}/.well-known/openid-configuration")).await?;
        if about.issuer != self.settings.issuer {
            return Err(format!("the issuer calls itself `{}`", about.issuer).into());
        }
        if !Url::parse(&about.jwks_uri).is_ok_and(|url| is_trusted(&url)) {
            return Err(format!("its keys are at `{}`, which is no https URL", about.jwks_uri).into());
        }
        let set: KeySet = self.read(&about.jwks_uri).await?;
        let known = set.keys.into_iter().take(KEYS_MAX).filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        Ok(known.filter_map(|key| read_key(&key)).collect())
    }

    async fn read<T: DeserializeOwned>(&self, url: &str) -> Result<T, Box<dyn std::error::Error + Send + Sync>> {
        let answer = self.http.get(url).send().await?.error_for_status()?;
        Ok(read_json(answer, DOCUMENT_BYTES_MAX).await?)
    }
}

/// A key that signs, if it is one.
fn read_key(jwk: &Jwk) -> Option<Key> {
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    // An algorithm that is not known here is no leave to use the key in another way.
    let algorithm = jwk.common.key_algorithm.map(|of| of.to_string().parse::<Algorithm>()).transpose().ok()?;
    let key = DecodingKey::from_jwk(jwk).ok()?;
    let taken = ALGORITHMS.iter().any(|taken| taken.family() == key.family());
    (signs && taken).then(|| Key { id: jwk.common.key_id.clone(), algorithm, key })
}

/// Whether keys may come from there.
fn is_trusted(url: &Url) -> bool {
    url::is_safe(url) && !url.host_str().is_some_and(is_metadata_host)
}

/// The claim of this name, or what the way of its parts leads to.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        claim(claims.get(first)?.as_object()?, rest)
    })
}

fn why(error: &ErrorKind) -> &'static str {
    match error {
        ErrorKind::ExpiredSignature => "it has expired: get a new one",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidAudience => "it is meant for somebody else: get one for this gateway's audience",
        ErrorKind::InvalidIssuer => "it is of another issuer",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "it lacks a claim, or has one of a wrong form: exp, iss, aud"
        }
        _ => "its signature is not its issuer's",
    }
}

#[async_trait]
impl Authenticator for Oidc {
    async fn authenticate(&self, bearer: Option<&str>) -> Result<Caller, AuthError> {
        match bearer.filter(|token| token.len() <= CREDENTIAL_BYTES_MAX && self.is_ours(token)) {
            Some(token) => self.check(token).await,
            None => self.others.authenticate(bearer).await,
        }
    }

    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AuthError> {
        self.others.authorize(caller, access).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::loopback::Loopback;

    fn settings(issuer: &str) -> Settings {
        let claim = |name: &str, prefix: &str| Claim { name: name.to_owned(), prefix: prefix.to_owned() };
        Settings {
            issuer: issuer.to_owned(),
            audiences: vec!["dormouse".to_owned()],
            user: claim("email", ""),
            groups: claim("realm_access.roles", ""),
            authorities: None,
        }
    }

    fn oidc(issuer: &str) -> Result<Oidc, OidcError> {
        Oidc::new(settings(issuer), Arc::new(Loopback::default()))
    }

    #[test]
    fn an_issuer_is_asked_over_https_only() {
        for good in ["https://id.example", "https://id.example/realms/a", "http://127.0.0.1:8080", "http://localhost/x"] {
            assert!(oidc(good).is_ok(), "{good}");
        }
        for bad in
            ["http://id.example", "https://id.example?x", "https://169.254.169.254", "id.example", "", "http://localhost.evil.example"]
        {
            assert!(matches!(oidc(bad), Err(OidcError::Issuer(_))), "{bad}");
        }
        let nobodys = Settings { audiences: vec![String::new()], ..settings("https://id.example") };
        assert!(matches!(Oidc::new(nobodys, Arc::new(Loopback::default())), Err(OidcError::Audience)));
    }

    #[test]
    fn claims_say_who_somebody_is_and_nothing_that_kubernetes_keeps_for_itself() {
        let oidc = oidc("https://id.example").unwrap();
        let caller = |claims: Value| oidc.caller(claims.as_object().unwrap());
        let named =
            |roles: Value| json!({ "sub": "7", "email": "a@b.example", "email_verified": true, "realm_access": { "roles": roles } });
        let found = caller(named(json!(["dev", "system:masters", 3]))).unwrap();
        assert_eq!((found.user.as_str(), found.uid.as_str(), found.groups), ("a@b.example", "7", vec!["dev".to_owned()]));
        assert_eq!(caller(named(json!("one"))).unwrap().groups, ["one"]);
        assert_eq!(caller(named(json!(vec!["g"; GROUPS_MAX]))).unwrap().groups.len(), GROUPS_MAX);
        let refused = [
            named(json!(vec!["g"; GROUPS_MAX + 1])),
            named(json!({ "a": 1 })),
            json!({ "email": "a@b.example" }),
            json!({ "email": "a@b.example", "email_verified": "true" }),
            json!({ "email": "", "email_verified": true }),
            json!({ "email": "system:admin", "email_verified": true }),
            json!({ "email": "x".repeat(NAME_BYTES_MAX + 1), "email_verified": true }),
        ];
        for claims in refused {
            assert!(matches!(caller(claims.clone()), Err(AuthError::Token(_))), "{claims}");
        }
        assert!(caller(json!({ "email": "x".repeat(NAME_BYTES_MAX), "email_verified": true })).is_ok());
    }
}
