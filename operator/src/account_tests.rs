use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use dormouse_store::Credentials;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::storage::{Access, Target, data_of};

const FAR: &str = "2999-01-01T00:00:00Z";

/// Serves these routes. Answers their URL.
async fn serve(routes: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}

/// An API server that answers a request for a token like this, and has this kept in the operator's namespace.
async fn api_server(code: u16, message: &'static str, kept: Option<Credentials>) -> Client {
    dormouse_service::telemetry::install_tls_provider();
    let refused = move |code: u16, message: &str| -> Response {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message,
            "reason": match code { 404 => "NotFound", 403 => "Forbidden", 422 => "Invalid", _ => "InternalError" } });
        (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
    };
    let token = move || async move {
        if code != 201 {
            return refused(code, message);
        }
        let answer = json!({ "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": { "audiences": [] },
            "status": { "token": "t", "expirationTimestamp": FAR } });
        (StatusCode::CREATED, Json(answer)).into_response()
    };
    let secret = move || async move {
        match kept {
            Some(credentials) => Json(Secret { data: Some(data_of(&credentials)), ..Secret::default() }).into_response(),
            None => refused(404, "no such Secret"),
        }
    };
    let routes = Router::new()
        .route("/api/v1/namespaces/team/serviceaccounts/dormouse-storage/token", post(token))
        .route("/api/v1/namespaces/dormouse-system/secrets/{name}", get(secret));
    Client::try_from(kube::Config::new(serve(routes).await.parse().unwrap())).unwrap()
}

/// An STS service that answers like this.
async fn sts(code: u16, body: String) -> String {
    serve(Router::new().route("/", post(move || async move { (StatusCode::from_u16(code).unwrap(), body) }))).await
}

fn given(id: &str, expiration: &str) -> String {
    format!(
        "<Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
         <Expiration>{expiration}</Expiration></Credentials>"
    )
}

fn target(sts: String) -> (Target, Account) {
    let role = Role { endpoint: sts, region: "us-east-1".to_owned(), arn: Some("arn:r".to_owned()) };
    let account = Account { role, audience: "sts".to_owned() };
    let target = Target {
        endpoint: "http://minio:9000".to_owned(),
        bucket: "theirs".to_owned(),
        region: "us-east-1".to_owned(),
        prefix: String::new(),
        shared: false,
        access: Access::Account(account.clone()),
        cluster: "c".to_owned(),
    };
    (target, account)
}

fn until(expiration: &str) -> Credentials {
    Credentials { session_token: Some("t".to_owned()), expiration: Some(expiration.to_owned()), ..Credentials::new("kept", "s") }
}

/// What the operator gets for deletions: whose key, or why none.
async fn for_deletions(accounts: &Accounts, client: &Client, sts: &str) -> Result<String, Refusal> {
    let (target, account) = target(sts.to_owned());
    match accounts.for_deletions(client, &StorageArgs::default(), &target.place_of("team"), &account).await {
        Ok(credentials) => Ok(credentials.access_key_id),
        Err(StorageError::Refused(refusal)) => Err(refusal),
        Err(error) => panic!("{error}"),
    }
}

fn accounts() -> Accounts {
    Accounts::new("dormouse-system".to_owned())
}

#[tokio::test]
async fn what_deletions_got_serves_until_it_is_due_and_of_a_namespace_that_goes_until_it_ends() {
    let sts = sts(200, given("minted", FAR)).await;
    let (up, gone) = (api_server(201, "", None).await, api_server(404, "not found", None).await);
    let accounts = accounts();
    assert!(for_deletions(&accounts, &gone, &sts).await.unwrap_err().message.contains("ServiceAccount dormouse-storage does not exist"));
    assert_eq!(for_deletions(&accounts, &up, &sts).await.unwrap(), "minted");
    assert_eq!(for_deletions(&accounts, &gone, &sts).await.unwrap(), "minted", "it is not due");
    let (kept, (target, _)) = (until(FAR), target(sts.clone()));
    let due = Assumed { credentials: kept, due: Timestamp::MIN };
    accounts.put(target.kept_as("team").unwrap(), due, Timestamp::now());
    assert_eq!(for_deletions(&accounts, &gone, &sts).await.unwrap(), "kept", "due, and good");
}

#[tokio::test]
async fn what_is_kept_in_the_operators_namespace_serves_while_it_is_good_and_then_the_refusal_says_what_to_do() {
    let (sts, terminating) = (sts(200, given("minted", FAR)).await, "because it is being terminated");
    let kept = api_server(403, terminating, Some(until(FAR))).await;
    assert_eq!(for_deletions(&accounts(), &kept, &sts).await.unwrap(), "kept");
    let forever = api_server(403, terminating, Some(Credentials::new("by hand", "s"))).await;
    assert_eq!(for_deletions(&accounts(), &forever, &sts).await.unwrap(), "by hand", "as the refusal says");
    for client in [api_server(403, terminating, Some(until("2000-01-01T00:00:00Z"))).await, api_server(403, terminating, None).await] {
        let refusal = for_deletions(&accounts(), &client, &sts).await.unwrap_err();
        assert_eq!(refusal.reason, PoolReason::StorageCredentialsInvalid);
        let name = target(sts.clone()).0.kept_as("team").unwrap();
        for word in [terminating, "put the accessKeyId and the secretAccessKey", "bucket `theirs`", &name, "namespace dormouse-system"] {
            assert!(refusal.message.contains(word), "{word}: {}", refusal.message);
        }
    }
}

#[tokio::test]
async fn whoever_refuses_has_a_reason_and_the_message_says_what_to_do() {
    let refuses = sts(403, "<Error><Code>AccessDenied</Code><Message>not you</Message></Error>".to_owned()).await;
    let empty = sts(200, String::new()).await;
    let leads_on = sts(307, String::new()).await;
    let gone = "http://127.0.0.1:1".to_owned();
    let (invalid, unavailable) = (PoolReason::StorageCredentialsInvalid, PoolReason::StorageUnavailable);
    for (code, message, sts, reason, words) in [
        (404, "", &gone, invalid, ["ServiceAccount dormouse-storage does not exist", "make it in the namespace team"]),
        (403, "rbac says no", &gone, invalid, ["rbac says no", "The chart of this version lets it ask"]),
        (422, "too long", &gone, invalid, ["too long", "correct storage.webIdentity.audience"]),
        (201, "", &gone, unavailable, ["does not answer", "storage.webIdentity.stsEndpoint"]),
        (201, "", &empty, unavailable, ["answers without credentials", "storage.webIdentity.stsEndpoint"]),
        (201, "", &leads_on, invalid, ["refuses credentials with 307", "correct storage.webIdentity"]),
        (201, "", &refuses, invalid, ["AccessDenied: not you", "trust system:serviceaccount:team:dormouse-storage with the audience sts"]),
    ] {
        let refusal = for_deletions(&accounts(), &api_server(code, message, None).await, sts).await.unwrap_err();
        assert_eq!(refusal.reason, reason, "{}", refusal.message);
        for word in words {
            assert!(refusal.message.contains(word), "{word}: {}", refusal.message);
        }
    }
}
