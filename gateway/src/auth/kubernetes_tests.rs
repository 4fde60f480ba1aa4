use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::http::{Request, Response};
use dormouse_protocol::{ApiError, ErrorCode};
use futures::StreamExt as _;
use kube::client::Body;

use super::*;

/// An API server to which only what begins with `good` is a token, and what it was asked how often.
fn authority() -> (KubernetesAuthenticator, Arc<AtomicUsize>) {
    let (authenticator, asked, answers) = slow_authority();
    answers.add_permits(Semaphore::MAX_PERMITS);
    (authenticator, asked)
}

/// The same that answers as often as it may.
fn slow_authority() -> (KubernetesAuthenticator, Arc<AtomicUsize>, Arc<Semaphore>) {
    let (asked, answers) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (counting, answering) = (Arc::clone(&asked), Arc::clone(&answers));
    let service = tower::service_fn(move |request: Request<Body>| {
        counting.fetch_add(1, Ordering::Relaxed);
        let answering = Arc::clone(&answering);
        async move {
            answering.acquire_owned().await.unwrap().forget();
            let body = request.into_body().collect_bytes().await.unwrap();
            let mut review: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let good = review["spec"]["token"].as_str().unwrap().starts_with("good");
            review["status"] = serde_json::json!({ "authenticated": good, "audiences": ["dormouse"], "user": { "username": "somebody" } });
            Ok::<_, tower::BoxError>(Response::new(Body::from(serde_json::to_vec(&review).unwrap())))
        }
    });
    (KubernetesAuthenticator::new(Client::new(service, "default"), "dormouse".to_owned()), asked, answers)
}

#[tokio::test]
async fn a_flood_of_bad_tokens_makes_no_good_one_forgotten() {
    let (authenticator, asked) = authority();
    assert_eq!(authenticator.authenticate(Some("good")).await.unwrap().user, "somebody");
    for number in 0..TOKENS_MAX {
        let refused = authenticator.authenticate(Some(&format!("bad {number}"))).await;
        assert!(matches!(refused, Err(AuthError::Unauthenticated)), "{refused:?}");
    }
    let before = asked.load(Ordering::Relaxed);
    assert!(before > TOKENS_MAX);
    assert!(authenticator.authenticate(Some("good")).await.is_ok());
    assert_eq!(asked.load(Ordering::Relaxed), before, "the good token was asked about again");
}

/// Tokens that nobody knows, at once.
const FLOOD: usize = 200;

#[tokio::test(start_paused = true)]
async fn a_flood_of_new_tokens_at_a_slow_api_server_is_refused_beyond_what_it_is_asked_at_once() {
    let (authenticator, asked, answers) = slow_authority();
    answers.add_permits(1);
    authenticator.authenticate(Some("good")).await.unwrap();
    let tokens: Vec<String> = (0..FLOOD).map(|number| format!("bad {number}")).collect();
    let mut flood: futures::stream::FuturesUnordered<_> = tokens.iter().map(|token| authenticator.authenticate(Some(token))).collect();
    for _ in REVIEWS_AT_ONCE_MAX..FLOOD {
        let refused = flood.next().await.unwrap();
        assert!(matches!(refused, Err(AuthError::Busy)), "{refused:?}");
        let told = ApiError::from(refused.unwrap_err());
        assert_eq!((told.code, told.retryable), (ErrorCode::CapacityExhausted, true));
        assert_eq!(
            authenticator.authenticate(Some("good")).await.unwrap().user,
            "somebody",
            "a token that is known is asked about nowhere"
        );
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1 + REVIEWS_AT_ONCE_MAX);
    answers.add_permits(FLOOD);
    while let Some(refused) = flood.next().await {
        assert!(matches!(refused, Err(AuthError::Unauthenticated)), "{refused:?}");
    }
    assert_eq!(authenticator.authenticate(Some("good, and new")).await.unwrap().user, "somebody");
}

/// An API server that lets `all` do everything in the namespace and everybody else what is named `own`, and how often it was asked.
fn reviewer() -> (KubernetesAuthenticator, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        counting.fetch_add(1, Ordering::Relaxed);
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let mut review: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let (user, name) = (&review["spec"]["user"], &review["spec"]["resourceAttributes"]["name"]);
            review["status"] = serde_json::json!({ "allowed": user == "all" || name == "own" });
            Ok::<_, tower::BoxError>(Response::new(Body::from(serde_json::to_vec(&review).unwrap())))
        }
    });
    (KubernetesAuthenticator::new(Client::new(service, "default"), "dormouse".to_owned()), asked)
}

#[tokio::test]
async fn who_may_do_it_to_all_is_asked_about_once_and_who_may_to_one_is_refused_the_others() {
    let (authenticator, asked) = reviewer();
    let to = |name: Option<&str>| Access {
        namespace: "team".to_owned(),
        name: name.map(str::to_owned),
        verb: crate::auth::Verb::Create,
        part: crate::auth::Part::Eval,
    };
    let caller = |user: &str| Caller { user: user.to_owned(), ..Caller::default() };
    for number in 0..100 {
        authenticator.authorize(&caller("all"), &to(Some(&format!("s{number}")))).await.unwrap();
    }
    assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
    for _ in 0..100 {
        authenticator.authorize(&caller("some"), &to(Some("own"))).await.unwrap();
        for other in [Some("other"), None] {
            assert!(matches!(authenticator.authorize(&caller("some"), &to(other)).await, Err(AuthError::Forbidden { .. })), "{other:?}");
        }
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3, "about all, about its own, and about the other");
}
