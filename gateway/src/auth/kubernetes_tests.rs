use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::http::{Request, Response};
use kube::client::Body;

use super::*;

/// An API server to which only `good` is a token, and what it was asked how often.
fn authority() -> (KubernetesAuthenticator, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        counting.fetch_add(1, Ordering::Relaxed);
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let mut review: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let good = review["spec"]["token"] == "good";
            review["status"] = serde_json::json!({ "authenticated": good, "audiences": ["dormouse"], "user": { "username": "somebody" } });
            Ok::<_, tower::BoxError>(Response::new(Body::from(serde_json::to_vec(&review).unwrap())))
        }
    });
    (KubernetesAuthenticator::new(Client::new(service, "default"), "dormouse".to_owned()), asked)
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
