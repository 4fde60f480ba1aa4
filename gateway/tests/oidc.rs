//! Tokens of an OpenID Connect issuer, which is a real one in this process.

use std::sync::{Arc, atomic::Ordering};

use crate::support::issuer::{Issuer, SigningKey, forged, now};
use crate::support::{Client, Trust, directory, pass, serve_routes};
use async_trait::async_trait;
use aws_lc_rs::hmac;
use dormouse_gateway::{
    Gateway,
    auth::{
        Access, AuthError, Authenticator, Caller,
        oidc::{FETCH_INTERVAL_MIN, KEYS_FRESH, KEYS_KEPT_MAX, LEEWAY},
    },
};
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};

pub const SESSIONS: &str = "/v1/namespaces/default/sessions";

/// Knows no token, and lets the group `oidc:team` do everything in `default`, as a RoleBinding would.
pub struct Team;

#[async_trait]
impl Authenticator for Team {
    async fn authenticate(&self, _: Option<&str>) -> Result<Caller, AuthError> {
        Err(AuthError::Unauthenticated)
    }

    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AuthError> {
        if access.namespace == "default" && caller.groups.iter().any(|group| group == "oidc:team") {
            return Ok(());
        }
        let (user, namespace) = (caller.user.clone(), access.namespace.clone());
        Err(AuthError::Forbidden { user, verb: access.verb.as_str(), resource: access.part.resource(), namespace })
    }
}

async fn gateway(issuer: &Issuer) -> (tempfile::TempDir, Client) {
    let trust = Trust::new();
    let (folder, directory) = directory(&trust, &[]).await;
    let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Team)).with_oidc(issuer.settings()).unwrap();
    (folder, serve_routes(gateway).await)
}

async fn with_token(client: &Client, token: &str) -> (u16, Value) {
    let answer = client.request("GET", SESSIONS).bearer_auth(token).send().await.unwrap();
    let (status, challenge) = (answer.status().as_u16(), answer.headers().get("www-authenticate").cloned());
    assert_eq!(challenge.is_some(), status == 401, "{challenge:?}");
    (status, answer.json().await.unwrap())
}

async fn refused(client: &Client, what: &str, token: &str) {
    let (status, body) = with_token(client, token).await;
    assert_eq!((status, body["error"]["code"].as_str()), (401, Some("Unauthenticated")), "{what}: {body}");
}

#[tokio::test]
async fn a_token_of_the_issuer_is_its_user_and_their_groups() {
    let keys =
        [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA].map(|algorithm| SigningKey::new(&format!("{algorithm:?}"), algorithm));
    let issuer = Issuer::start(&keys.each_ref()).await;
    let (_folder, client) = gateway(&issuer).await;
    for key in &keys {
        let (status, body) = with_token(&client, &key.sign(&issuer.claims("ann"))).await;
        assert_eq!(status, 200, "{:?}: {body}", key.algorithm);
    }
    assert_eq!(issuer.asked.load(Ordering::SeqCst), 1, "its keys are asked for once");
    let mut claims = issuer.claims("ann");
    claims["aud"] = json!(["somebody", "https://dormouse.example/mcp"]);
    assert_eq!(with_token(&client, &keys[1].sign(&claims)).await.0, 200, "one audience of several");
    claims["groups"] = json!(["others"]);
    let (status, body) = with_token(&client, &keys[1].sign(&claims)).await;
    assert_eq!((status, body["error"]["code"].as_str()), (403, Some("Forbidden")), "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("`oidc:ann`"), "{body}");
}

#[tokio::test]
async fn no_other_token_is() {
    let key = SigningKey::new("one", Algorithm::RS256);
    let issuer = Issuer::start(&[&key]).await;
    let (_folder, client) = gateway(&issuer).await;
    let good = issuer.claims("ann");
    assert_eq!(with_token(&client, &key.sign(&good)).await.0, 200);
    let with = |field: &str, value: Value| {
        let mut claims = good.clone();
        claims[field] = value;
        claims
    };
    let leeway = i64::try_from(LEEWAY.as_secs()).unwrap();
    assert_eq!(with_token(&client, &key.sign(&with("exp", json!(now() - leeway + 20)))).await.0, 200, "clocks differ");
    assert_eq!(with_token(&client, &key.sign(&with("nbf", json!(now() + leeway - 20)))).await.0, 200, "clocks differ");
    let claims = [
        ("expired", with("exp", json!(now() - leeway - 1))),
        ("expired long ago", with("exp", json!(1))),
        ("not yet", with("nbf", json!(now() + leeway + 20))),
        ("a time as text", with("exp", json!((now() + 60).to_string()))),
        ("no end", with("exp", Value::Null)),
        ("foreign audience", with("aud", json!("kubernetes"))),
        ("foreign audiences", with("aud", json!(["kubernetes", "dormous"]))),
        ("no audience", with("aud", Value::Null)),
        ("foreign issuer", with("iss", json!("https://id.example"))),
        ("a longer issuer", with("iss", json!(format!("{}/", issuer.url)))),
        ("several issuers", with("iss", json!([issuer.url, "https://id.example"]))),
        ("nobody", with("sub", Value::Null)),
    ];
    for (what, claims) in claims {
        refused(&client, what, &key.sign(&claims)).await;
    }
    let named = |algorithm: &str| json!({ "alg": algorithm, "typ": "JWT", "kid": "one" });
    for none in ["none", "None", "NONE", "", "nOnE", "HS1", "RS1"] {
        refused(&client, none, &forged(&named(none), &good, |_| Vec::new())).await;
    }
    // The public key is everybody's: as a shared secret it would let everybody sign.
    let public = key.public();
    let modulus = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, public["n"].as_str().unwrap()).unwrap();
    for secret in [public["n"].as_str().unwrap().as_bytes(), &modulus, public.to_string().as_bytes()] {
        for (name, algorithm) in [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)] {
            let sign = |signed: &[u8]| hmac::sign(&hmac::Key::new(algorithm, secret), signed).as_ref().to_vec();
            refused(&client, name, &forged(&named(name), &good, sign)).await;
        }
    }
    let stranger = SigningKey::new("one", Algorithm::RS256);
    refused(&client, "another key of that name", &stranger.sign(&good)).await;
    let brought = stranger.sign_as(&good, |header| header.jwk = Some(serde_json::from_value(stranger.public()).unwrap()));
    refused(&client, "a key that the token brings", &brought).await;
    refused(&client, "another algorithm", &SigningKey::new("one", Algorithm::ES256).sign(&good)).await;
    refused(&client, "an algorithm that the key is not for", &key.sign_as(&good, |header| header.alg = Algorithm::PS256)).await;
    refused(&client, "a demand", &key.sign_as(&good, |header| header.crit = Some(vec!["exp".to_owned()]))).await;
    let token = key.sign(&good);
    let parts: Vec<_> = token.split('.').collect();
    let claims = forged(&json!({}), &with("sub", json!("root")), |_| Vec::new());
    let others = claims.split('.').nth(1).unwrap();
    refused(&client, "other claims", &format!("{}.{others}.{}", parts[0], parts[2])).await;
    refused(&client, "no signature", &format!("{}.{}.", parts[0], parts[1])).await;
    refused(&client, "two parts", &format!("{}.{}", parts[0], parts[1])).await;
    refused(&client, "a part more", &format!("{token}.x")).await;
    assert_eq!(with_token(&client, &token).await.0, 200);
}

#[tokio::test]
async fn new_keys_are_found_and_old_ones_forgotten() {
    let (first, second) = (SigningKey::new("first", Algorithm::ES256), SigningKey::new("second", Algorithm::ES256));
    let issuer = Issuer::start(&[&first]).await;
    let (_folder, client) = gateway(&issuer).await;
    let asked = || issuer.asked.load(Ordering::SeqCst);
    let token = |key: &SigningKey| key.sign(&issuer.claims("ann"));
    assert_eq!(with_token(&client, &token(&first)).await.0, 200);
    issuer.keys.lock().unwrap().push(second.public());
    for _ in 0..50 {
        refused(&client, "as many unknown keys as anybody likes", &token(&second)).await;
    }
    assert_eq!(asked(), 1, "the issuer has just been asked");
    pass(FETCH_INTERVAL_MIN).await;
    assert_eq!(with_token(&client, &token(&second)).await.0, 200);
    assert_eq!((with_token(&client, &token(&first)).await.0, asked()), (200, 2));
    // A key that leaked and was taken back.
    issuer.keys.lock().unwrap().remove(0);
    assert_eq!(with_token(&client, &token(&first)).await.0, 200);
    pass(KEYS_FRESH).await;
    refused(&client, "a key that is no more", &token(&first)).await;
    assert_eq!((with_token(&client, &token(&second)).await.0, asked()), (200, 3));
}

#[tokio::test]
async fn an_issuer_that_is_down_is_missed_after_an_hour() {
    let key = SigningKey::new("one", Algorithm::ES256);
    let issuer = Issuer::start(&[&key]).await;
    let (_folder, client) = gateway(&issuer).await;
    let token = key.sign(&issuer.claims("ann"));
    issuer.is_down.store(true, Ordering::SeqCst);
    let (status, body) = with_token(&client, &token).await;
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("StorageUnavailable")), "{body}");
    issuer.is_down.store(false, Ordering::SeqCst);
    pass(FETCH_INTERVAL_MIN).await;
    assert_eq!(with_token(&client, &token).await.0, 200);
    issuer.is_down.store(true, Ordering::SeqCst);
    pass(KEYS_KEPT_MAX - FETCH_INTERVAL_MIN).await;
    assert_eq!(with_token(&client, &token).await.0, 200, "its keys are kept");
    pass(FETCH_INTERVAL_MIN).await;
    assert_eq!(with_token(&client, &token).await.0, 503);
}

#[tokio::test]
async fn a_client_that_knows_nobody_finds_the_issuer() {
    let key = SigningKey::new("one", Algorithm::ES256);
    let issuer = Issuer::start(&[&key]).await;
    let (_folder, client) = gateway(&issuer).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let refused = client.request("POST", "/mcp").json(&ping).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    let about = challenge.strip_prefix("Bearer resource_metadata=\"").and_then(|rest| rest.strip_suffix('"')).unwrap();
    let about: Value = client.http.get(about).send().await.unwrap().json().await.unwrap();
    assert_eq!((&about["resource"], &about["authorization_servers"]), (&json!(format!("{}/mcp", client.base)), &json!([issuer.url])));
    let at = format!("{}/.well-known/openid-configuration", about["authorization_servers"][0].as_str().unwrap());
    let found: Value = client.http.get(at).send().await.unwrap().json().await.unwrap();
    assert_eq!(found["issuer"], issuer.url, "and there it signs in");
    let mut claims = issuer.claims("ann");
    claims["aud"] = json!("https://dormouse.example/mcp");
    let answer = client.request("POST", "/mcp").bearer_auth(key.sign(&claims)).json(&ping).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let refused = client.request("GET", SESSIONS).bearer_auth("nonsense").send().await.unwrap();
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    let root = format!("{}/.well-known/oauth-protected-resource", client.base);
    assert_eq!(challenge, format!("Bearer error=\"invalid_token\", resource_metadata=\"{root}\""));
    let about: Value = client.http.get(root).send().await.unwrap().json().await.unwrap();
    assert_eq!(about["resource"], client.base);
}

#[tokio::test]
async fn a_gateway_without_an_issuer_names_none() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let client = serve_routes(Gateway::new(directory, trust.kernels(), Arc::new(Team))).await;
    let refused = client.request("POST", "/mcp").json(&json!({})).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["www-authenticate"].to_str().unwrap()), (401, "Bearer"));
    assert_eq!(client.get("/.well-known/oauth-protected-resource/mcp").await.0, 404);
}
