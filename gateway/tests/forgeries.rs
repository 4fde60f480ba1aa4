//! A thousand credentials that are none, and a thousand tries of other tenants, at every route there is. They go into the gateway without a connection:
//! so many of them take seconds.

use std::{collections::BTreeSet, sync::Arc};

use crate::adversary::{Credential, Route, SESSION, VICTIM, World, is_refused, key};
use crate::support::issuer::{SigningKey, forged, now};
use aws_lc_rs::hmac;
use axum::{
    body::{Body, to_bytes},
    http::{Request, header},
};
use dormouse_gateway::auth::keys::{KeyRecord, KeyStore as _};
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Tries of each kind at each route, at least.
const TRIES_MIN: usize = 1_000;
/// Keys of each kind that are kept, or were.
const KEYS: usize = 100;
const HEX: &[u8] = b"0123456789abcdef";
/// Ways to say whose it should be that a route might believe.
const NAMESPACES: [&str; 8] = [VICTIM, "VICTIM", "victim/../own", " victim", "own,victim", "victim.", "victim/", "%76ictim"];

/// One try: a credential, and what the namespace's header says.
struct Try {
    token: String,
    namespace: Option<&'static str>,
}

fn request(route: &Route, attempt: &Try) -> Request<Body> {
    let mut request = Request::builder().method(route.method.as_str()).uri(&route.path);
    if route.socket.is_some() {
        let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")];
        request = upgrade.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request = request.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    }
    request = match route.socket {
        Some(Credential::Subprotocol) => {
            request.header("sec-websocket-protocol", format!("dormouse.v1, dormouse.bearer.{}", attempt.token))
        }
        _ => request.header(header::AUTHORIZATION, format!("Bearer {}", attempt.token)),
    };
    request = attempt.namespace.iter().fold(request, |request, namespace| request.header("dormouse-namespace", *namespace));
    match &route.body {
        Some(body) => request.header(header::CONTENT_TYPE, "application/json").body(body.to_string().into()).unwrap(),
        None => request.body(Body::empty()).unwrap(),
    }
}

/// Tries all at each of these routes; gives what was not refused.
async fn attack<'a>(
    world: &World,
    routes: impl Iterator<Item = &'a Route>,
    tries: Vec<Try>,
    refused: fn(&Route, &Try, u16, &Value) -> bool,
) -> Vec<String> {
    let tries = Arc::new(tries);
    let attacks: Vec<_> = routes
        .cloned()
        .map(|route| {
            let (gateway, tries) = (world.inside.clone(), Arc::clone(&tries));
            tokio::spawn(async move {
                let mut accepted = Vec::new();
                for attempt in tries.iter() {
                    let answer = gateway.clone().oneshot(request(&route, attempt)).await.unwrap();
                    let status = answer.status().as_u16();
                    let media_type = answer.headers().get(header::CONTENT_TYPE).map_or("", |it| it.to_str().unwrap());
                    // A stream that was opened would have no end.
                    let is_whole = media_type.starts_with("application/json") || media_type.starts_with("application/problem+json");
                    let body = if is_whole { to_bytes(answer.into_body(), usize::MAX).await.unwrap() } else { Default::default() };
                    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                    if !refused(&route, attempt, status, &body) {
                        let (method, path, token) = (&route.method, &route.path, &attempt.token);
                        accepted.push(format!("{method} {path} with {token} as {:?}: {status} {body}", attempt.namespace));
                    }
                }
                accepted
            })
        })
        .collect();
    assert!(!attacks.is_empty());
    futures::future::join_all(attacks).await.into_iter().flat_map(Result::unwrap).collect()
}

/// `text` with the byte at `at` as `change` has it.
fn with(text: &str, at: usize, change: impl FnOnce(u8) -> u8) -> String {
    let mut bytes = text.as_bytes().to_vec();
    bytes[at] = change(bytes[at]);
    String::from_utf8(bytes).unwrap()
}

/// The claims of a token that is good for longer than the tests take.
fn claims(world: &World) -> Value {
    let mut claims = world.issuer.claims("ann");
    claims["exp"] = json!(now() + 3_600);
    claims
}

/// What is almost this key.
fn almost_key(good: &str) -> Vec<String> {
    let digits = "dmk_".len()..good.len();
    let turned = |digit: u8, by: usize| HEX[(HEX.iter().position(|it| *it == digit).unwrap() + by) % HEX.len()];
    let mut keys = Vec::new();
    for at in digits {
        keys.extend([1, 5, 9, 15].map(|by| with(good, at, |digit| turned(digit, by))));
        keys.push(good[..at].to_owned());
        keys.push(with(good, at, |digit| digit.to_ascii_uppercase()));
        let mut swapped = good.as_bytes().to_vec();
        swapped.swap(at - 1, at);
        keys.push(String::from_utf8(swapped).unwrap());
    }
    keys.extend(HEX.iter().map(|digit| format!("{good}{}", char::from(*digit))));
    keys
}

/// What is almost this token. Its last character also says bits that a reader may pass over.
fn almost_token(good: &str) -> Vec<String> {
    let places = (0..good.len() - 1).filter(|at| good.as_bytes()[*at] != b'.');
    let changed = places.map(|at| with(good, at, |it| if it == b'A' { b'B' } else { b'A' }));
    changed.chain((0..good.len() - 1).step_by(8).map(|length| good[..length].to_owned())).collect()
}

/// Tokens of the issuer that are over, or meant for others, and those of others.
fn wrong_tokens(world: &World) -> Vec<String> {
    let claims = claims(world);
    let with = |field: &str, value: Value| {
        let mut claims = claims.clone();
        claims[field] = value;
        claims
    };
    let mut wrong: Vec<Value> = (1..=60).map(|minutes| with("exp", json!(now() - 60 * minutes))).collect();
    wrong.extend((1..=20).map(|hours| with("nbf", json!(now() + 3_600 * hours))));
    let foreign =
        ["kubernetes", "https://kubernetes.default.svc", "Dormouse", " dormouse", "dormouse ", "dormous", "", "https://dormouse.example"];
    wrong.extend(foreign.map(|audience| with("aud", json!(audience))));
    wrong.extend(foreign.map(|audience| with("aud", json!([audience]))));
    wrong.extend((0..60).map(|n| with("aud", json!(format!("dormouse-{n}")))));
    wrong.extend([json!(null), json!(7), json!([]), json!({ "dormouse": true })].map(|audience| with("aud", audience)));
    let url = world.issuer.url.clone();
    let others = [format!("{url}/"), url.to_uppercase(), url.replace("http:", "https:"), url.replace("/test", "/tes"), String::new()];
    wrong.extend(others.map(|issuer| with("iss", json!(issuer))));
    let mut tokens: Vec<String> = wrong.iter().map(|claims| world.key.sign(claims)).collect();
    let stranger = SigningKey::new("one", Algorithm::ES256);
    tokens.extend((0..20).map(|n| stranger.sign(&with("sub", json!(format!("user-{n}"))))));
    tokens.extend((0..20).map(|n| world.key.sign_as(&claims, |header| header.kid = Some(format!("one-{n}")))));
    let public = world.key.public().to_string();
    let shared = |signed: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, public.as_bytes()), signed).as_ref().to_vec();
    for algorithm in ["none", "None", "NONE", "HS256", "HS384", "HS512", "ES256", "ES384", "RS256", "PS256", "EdDSA", ""] {
        let header = json!({ "alg": algorithm, "typ": "JWT", "kid": "one" });
        tokens.extend([
            forged(&header, &claims, |_| Vec::new()),
            forged(&header, &claims, |_| vec![0; 64]),
            forged(&header, &claims, shared),
        ]);
    }
    tokens
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_bad_credentials_none_opens_any_route() {
    let kept = |kind: &str, expires_at: Option<&str>| -> Vec<(String, KeyRecord)> {
        (0..KEYS).map(|n| key(VICTIM, &format!("{kind}-{n}"), None, expires_at)).collect()
    };
    let (expired, revoked) = (kept("expired", Some("2026-01-01T00:00:00Z")), kept("revoked", None));
    let records: Vec<_> = expired.iter().chain(&revoked).map(|(_, record)| record.clone()).collect();
    let world = World::with_keys(&records).await;
    for (_, record) in &revoked {
        assert!(world.keys.delete(VICTIM, &record.about.name).await.unwrap());
    }
    let good = [world.key_in(VICTIM, "good", None, None).await, world.key.sign(&claims(&world))];
    let over = expired.into_iter().chain(revoked).map(|(secret, _)| secret);
    let bad = almost_key(&good[0]).into_iter().chain(almost_token(&good[1])).chain(wrong_tokens(&world)).chain(over);
    let bad: BTreeSet<String> = bad.filter(|token| !good.contains(token)).collect();
    assert!(bad.len() >= TRIES_MIN, "{}", bad.len());
    let tries = bad.into_iter().map(|token| Try { token, namespace: None }).collect();
    let refused = |_: &Route, _: &Try, status: u16, body: &Value| status == 401 && body["error"]["code"] == "Unauthenticated";
    let accepted = attack(&world, world.routes.iter(), tries, refused).await;
    assert!(accepted.is_empty(), "{} accepted: {:?}", accepted.len(), accepted.first());
    world.is_untouched();
    let list = Route { path: format!("/v1/namespaces/{VICTIM}/sessions"), method: "GET".to_owned(), body: None, ..world.routes[0].clone() };
    let answers: Vec<_> = good.map(|token| Try { token, namespace: None }).into();
    let opened = attack(&world, [&list].into_iter(), answers, |_, _, status, _| status == 401).await;
    assert_eq!(opened.len(), 2, "good ones are known: {opened:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_tries_of_other_tenants_none_gets_at_anything() {
    let near = ["own", "default", "kube-system", "victi", "victimm", "ictim", "victim-", "-victim", "victim0", "v"].map(str::to_owned);
    let namespaces = near.into_iter().chain((0..TRIES_MIN / NAMESPACES.len()).map(|n| format!("tenant-{n}")));
    let others: Vec<_> = namespaces.map(|namespace| key(&namespace, "all", None, None)).collect();
    let selective: Vec<_> =
        (0..KEYS).map(|n| key(VICTIM, &format!("selective-{n}"), Some(&format!("app=a{n},tier in (x, y)")), None)).collect();
    let records: Vec<_> = others.iter().chain(&selective).map(|(_, record)| record.clone()).collect();
    let world = World::with_keys(&records).await;
    let tokens = others.into_iter().map(|(secret, _)| secret).chain([world.key.sign(&claims(&world))]);
    let tries: Vec<Try> =
        tokens.flat_map(|token| NAMESPACES.map(|namespace| Try { token: token.clone(), namespace: Some(namespace) })).collect();
    assert!(tries.len() >= TRIES_MIN, "{}", tries.len());
    let refused = |route: &Route, attempt: &Try, status: u16, body: &Value| {
        is_refused(route, &format!("Bearer {}", attempt.token), attempt.namespace, status, body)
    };
    let mut accepted = attack(&world, world.routes.iter(), tries, refused).await;
    // Keys of the namespace itself, for other sessions. A socket may be opened by who may make sessions.
    let session = format!("/v1/namespaces/{VICTIM}/sessions/{SESSION}");
    let of_session = world.routes.iter().filter(|route| route.path.starts_with(&session) && route.socket.is_none());
    let tries = selective.into_iter().map(|(token, _)| Try { token, namespace: None }).collect();
    accepted.extend(attack(&world, of_session, tries, refused).await);
    assert!(accepted.is_empty(), "{} accepted: {:?}", accepted.len(), accepted.first());
    world.is_untouched();
}
