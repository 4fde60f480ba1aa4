//! The S3 store over a network that fails: what each failure is called, and that the next request is none the worse for it.

use bytes::Bytes;
use dormouse_store::{Condition, PutError, S3, S3Options, SnapshotStore as _};
use dormouse_testkit::minio::Minio;
use dormouse_testkit::proxy::{Fault, FaultProxy, Rule};

#[tokio::test(flavor = "multi_thread")]
async fn a_put_that_failed_is_unknown_and_the_next_one_is_answered() {
    let minio = Minio::start().await.unwrap();
    minio.create_bucket("sessions").await.unwrap();
    let proxy = FaultProxy::start(&minio.endpoint()).await.unwrap();
    let store = S3::new(&S3Options { endpoint: proxy.endpoint(), ..minio.options("sessions") });
    // More than a service reads ahead of a refusal.
    let bytes = Bytes::from(vec![7; 200 << 10]);
    for (at, fault) in [Fault::Unavailable, Fault::ErrorAfter, Fault::Reset, Fault::LostReply, Fault::Late].into_iter().enumerate() {
        for round in 0..3 {
            let key = format!("t/a/s/{at}-{round}/head");
            let put = || store.put(&key, bytes.clone(), Condition::Absent);
            proxy.set(1, vec![Rule::any(fault, 1000)]);
            let unknown = put().await;
            assert!(matches!(unknown, Err(PutError::Unknown(_))), "{fault:?}: {unknown:?}");
            proxy.set(1, Vec::new());
            assert_eq!(proxy.injected()[&fault], round + 1, "a PUT is sent once");
            let again = put().await;
            assert!(matches!(again, Ok(_) | Err(PutError::Refused)), "after {fault:?}: {again:?}");
            assert!(store.get(&key).await.unwrap().is_some(), "after {fault:?}");
        }
    }
}
