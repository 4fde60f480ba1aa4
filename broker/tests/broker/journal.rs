//! The journal in a store: replicas, restarts, brokers that end in the middle of a call, and stores that do not answer.
use std::sync::{Arc, atomic::Ordering::SeqCst};

use bytes::Bytes;
use dormouse_broker::{Broker, BrokerStore};
use dormouse_lifecycle::{SessionKey, calls::CallPage};
use dormouse_protocol::{
    ErrorCode,
    broker::{ToolAnswer, ToolCall},
};
use dormouse_seal::{Keyring, Keys, Seal};
use dormouse_service::Metrics;
use dormouse_store::{Condition, SnapshotStore};
use dormouse_testkit::store::Faulty;
use dormouse_testkit::wait::eventually;
use serde_json::json;

use crate::world::{TOKEN, World, call, failure, secrets, spec, value};

/// Turns that others have while something is put.
const TURNS: usize = 64;

struct Shared {
    world: World,
    base_url: String,
    store: Arc<Faulty>,
}

impl Shared {
    async fn start() -> Self {
        let world = World::default();
        let base_url = world.start().await;
        let store = Faulty::counting(|key| key.ends_with("/calls")).slow(TURNS);
        Self { world, base_url, store: Arc::new(store) }
    }

    /// Another broker over the same store: a replica, or the next process.
    fn broker(&self) -> Broker {
        self.sealing(Seal::none())
    }

    fn sealing(&self, seal: Seal) -> Broker {
        let place = BrokerStore {
            store: Arc::clone(&self.store) as Arc<dyn SnapshotStore>,
            prefix: "p/".to_owned(),
            namespace: "team-a".to_owned(),
            broker: "tools".to_owned(),
            seal: Arc::new(seal),
        };
        Broker::with_store(&spec(&self.base_url), secrets(), &Metrics::new(), Some(place)).unwrap()
    }

    /// The page as it is stored.
    async fn page(&self) -> CallPage {
        let page = self.store.get(&Self::session().calls()).await.unwrap().expect("a call was made");
        CallPage::decode(&page.bytes, &Self::session()).unwrap()
    }

    fn session() -> SessionKey {
        SessionKey { store_prefix: "p/".into(), tenant: "team-a".into(), pool: String::new(), uid: "u-1".into(), name: String::new() }
    }
}

fn make(number: u64, kind: &str) -> ToolCall {
    call(number, "make", json!({"kind": kind}))
}

fn repeated(call: ToolCall) -> ToolCall {
    ToolCall { repeated: true, epoch: call.epoch + 1, ..call }
}

#[tokio::test]
async fn another_broker_answers_from_the_stored_journal() {
    let shared = Shared::start().await;
    let first = value(&shared.broker(), make(1, "a")).await;
    assert_eq!(value(&shared.broker(), repeated(make(1, "a"))).await, first);
    let error = shared.broker().call(ToolCall { epoch: 2, ..make(1, "b") }).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Conflict, "the number is another call's");
    // A failure of the tool is an outcome, too.
    assert_eq!(failure(&shared.broker(), ToolCall { epoch: 2, ..make(2, "forbidden") }).await.code, ErrorCode::ToolDenied);
    assert_eq!(failure(&shared.broker(), repeated(make(2, "forbidden"))).await.code, ErrorCode::ToolDenied);
    assert_eq!(shared.world.seen().len(), 2);
}

#[tokio::test]
async fn a_call_that_never_left_is_made_by_the_next_broker() {
    let shared = Shared::start().await;
    value(&shared.broker(), make(1, "a")).await;
    // The first broker has ended before it got call 2, and nobody knows that but the journal.
    value(&shared.broker(), repeated(make(2, "b"))).await;
    assert_eq!(shared.world.seen().len(), 2);
    let fresh = ToolCall { session_uid: "u-2".to_owned(), ..repeated(make(1, "a")) };
    assert_eq!(
        shared.broker().call(fresh).await.unwrap_err().code,
        ErrorCode::OutcomeUnknown,
        "a broker without a stored journal may have had it"
    );
}

#[tokio::test]
async fn a_replica_waits_for_the_one_that_makes_the_call() {
    let shared = Shared::start().await;
    let (one, two) = (shared.broker(), shared.broker());
    let making = tokio::spawn(async move { value(&one, make(1, "slow")).await });
    shared.world.arrived.notified().await;
    let waiting = tokio::spawn(async move { value(&two, repeated(make(1, "slow"))).await });
    // So it knows that the call is under way.
    eventually("the other has read the page", async || shared.store.gets() >= 3).await;
    shared.world.go.notify_one();
    assert_eq!(making.await.unwrap(), json!({"id": "slow"}));
    assert_eq!(waiting.await.unwrap(), json!({"id": "slow"}));
    assert_eq!(shared.world.seen().len(), 1);
}

/// A broker that is gone with everything that it had under way.
fn ends_in_the_middle(shared: &Shared, call: ToolCall) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let broker = shared.broker();
    runtime.spawn(async move { broker.call(call).await });
    futures::executor::block_on(shared.world.arrived.notified());
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_broker_ended_in_the_middle_is_not_made_again() {
    let shared = Shared::start().await;
    let slow = call(1, "makeQuick", json!({"kind": "slow"}));
    tokio::task::block_in_place(|| ends_in_the_middle(&shared, slow.clone()));
    let next = shared.broker();
    for asked in [slow.clone(), repeated(slow)] {
        let error = next.call(asked).await.unwrap_err();
        assert!(error.code == ErrorCode::OutcomeUnknown && error.message.contains("not known"), "{error:?}");
    }
    value(&next, repeated(make(2, "b"))).await;
    assert_eq!(shared.world.seen().len(), 2, "the session goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_honours_the_key_gets_the_call_again_under_the_same_one() {
    let shared = Shared::start().await;
    let slow = call(1, "makeKeyed", json!({"kind": "slow"}));
    tokio::task::block_in_place(|| ends_in_the_middle(&shared, slow.clone()));
    let (one, two) = (shared.broker(), shared.broker());
    let release = async {
        shared.world.arrived.notified().await;
        // The service may still hold the request of the broker that ended.
        shared.world.go.notify_one();
        shared.world.go.notify_one();
    };
    let (one, two, ()) = tokio::join!(value(&one, repeated(slow.clone())), value(&two, repeated(slow)), release);
    let answers = (one, two);
    assert_eq!(answers, (json!({"id": "slow"}), json!({"id": "slow"})));
    let keys: Vec<_> = shared.world.seen().into_iter().map(|seen| seen.idempotency_key).collect();
    assert_eq!(keys.len(), 2, "of two brokers one took it over");
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn an_epoch_that_is_over_has_no_effect_through_any_replica() {
    let shared = Shared::start().await;
    let (one, two) = (shared.broker(), shared.broker());
    value(&one, make(1, "a")).await;
    value(&two, ToolCall { epoch: 2, ..make(2, "b") }).await;
    assert_eq!(one.call(make(3, "c")).await.unwrap_err().code, ErrorCode::SessionGone);
    assert_eq!(shared.world.seen().len(), 2);
    value(&one, ToolCall { epoch: 2, ..make(3, "c") }).await;
}

#[tokio::test]
async fn a_safe_call_asks_nothing_of_the_store_and_an_unsafe_one_two_puts() {
    let shared = Shared::start().await;
    let broker = shared.broker();
    for number in 1..=3 {
        value(&broker, call(number, "getWidget", json!({"id": "7"}))).await;
    }
    assert_eq!(failure(&broker, call(4, "nothing", json!({}))).await.code, ErrorCode::ToolNotFound);
    assert_eq!((shared.store.gets(), shared.store.puts()), (0, 0));
    value(&broker, make(5, "a")).await;
    assert_eq!((shared.store.gets(), shared.store.puts()), (1, 2), "it met the session for the first time");
    value(&broker, make(6, "a")).await;
    assert_eq!((shared.store.gets(), shared.store.puts()), (1, 4));
    let page = shared.store.get(&Shared::session().calls()).await.unwrap().unwrap();
    assert!(page.bytes.len() < 1_000, "{} bytes", page.bytes.len());
}

#[tokio::test]
async fn calls_of_one_session_at_the_same_time_share_their_puts() {
    const CALLS: u64 = 32;
    let shared = Shared::start().await;
    let broker = shared.broker();
    let calls = (1..=CALLS).map(|number| {
        let broker = broker.clone();
        tokio::spawn(async move { value(&broker, make(number, "a")).await })
    });
    futures::future::join_all(calls.collect::<Vec<_>>()).await.into_iter().for_each(|made| drop(made.unwrap()));
    assert_eq!(shared.world.seen().len(), 32);
    let (gets, puts) = (shared.store.gets(), shared.store.puts());
    assert!(gets == 1 && puts < 32, "{gets} GETs, {puts} PUTs");
}

#[tokio::test]
async fn what_the_session_has_is_forgotten() {
    let shared = Shared::start().await;
    let broker = shared.broker();
    value(&broker, make(1, "a")).await;
    value(&broker, ToolCall { settled_below: 2, ..make(2, "b") }).await;
    let page = format!("{:?}", shared.page().await);
    assert!(!page.contains("String(\"a\")") && page.contains("String(\"b\")"), "{page}");
    let stale = shared.broker().call(make(1, "a")).await.unwrap_err();
    assert!(stale.code == ErrorCode::OutcomeUnknown && stale.message.contains("not made again"), "{stale:?}");
    assert_eq!(shared.world.seen().len(), 2);
}

#[tokio::test]
async fn a_credential_is_not_stored() {
    let shared = Shared::start().await;
    value(&shared.broker(), make(1, "echo")).await;
    let page = format!("{:?}", shared.page().await);
    assert!(page.contains("[redacted]") && !page.contains(TOKEN), "{page}");
}

#[tokio::test]
async fn no_call_leaves_while_its_intent_is_not_known_to_be_stored() {
    let shared = Shared::start().await;
    let broker = shared.broker();
    broker.probe_store().await.unwrap();
    shared.store.down.store(true, SeqCst);
    let error = broker.call(make(1, "a")).await.unwrap_err();
    assert!(error.code == ErrorCode::StorageUnavailable && error.retryable, "{error:?}");
    shared.store.down.store(false, SeqCst);
    shared.store.lose_replies.store(true, SeqCst);
    // The intent is there and the reading says so: a lost reply is resolved.
    value(&broker, make(1, "a")).await;
    shared.store.lose_replies.store(false, SeqCst);
    assert_eq!(value(&shared.broker(), repeated(make(1, "a"))).await, json!({"id": "a", "price": 12}));
    assert_eq!(shared.world.seen().len(), 1);
}

#[tokio::test]
async fn an_intent_that_landed_although_nobody_was_told_is_this_brokers_own() {
    let shared = Shared::start().await;
    let broker = shared.broker();
    value(&broker, make(1, "a")).await;
    shared.store.falls.store(true, SeqCst);
    assert_eq!(broker.call(make(2, "b")).await.unwrap_err().code, ErrorCode::StorageUnavailable);
    assert_eq!((shared.world.seen().len(), shared.store.puts()), (1, 3));
    shared.store.down.store(false, SeqCst);
    value(&broker, repeated(make(2, "b"))).await;
    assert_eq!(shared.world.seen().len(), 2);
}

#[tokio::test]
async fn an_intent_that_landed_and_whose_epoch_ended_is_taken_back() {
    let shared = Shared::start().await;
    let (one, two) = (shared.broker(), shared.broker());
    value(&one, make(1, "a")).await;
    shared.store.falls.store(true, SeqCst);
    assert_eq!(one.call(make(2, "b")).await.unwrap_err().code, ErrorCode::StorageUnavailable);
    shared.store.down.store(false, SeqCst);
    let later = tokio::spawn(async move { value(&two, repeated(make(2, "b"))).await });
    eventually("the later epoch is stored, and waits for the outcome", async || shared.page().await.epoch() == 2).await;
    // Who sent it first sends it again, as nobody has told it that it is no owner any more.
    assert_eq!(one.call(make(2, "b")).await.unwrap_err().code, ErrorCode::SessionGone);
    later.await.unwrap();
    assert_eq!(shared.world.seen().len(), 2, "it is made once, by the later epoch");
}

#[tokio::test]
async fn a_later_epoch_that_meets_an_earlier_ones_asking_is_not_refused_with_it() {
    let shared = Shared::start().await;
    let (one, two) = (shared.broker(), shared.broker());
    value(&one, make(1, "a")).await;
    value(&two, ToolCall { epoch: 2, ..make(2, "b") }).await;
    // Its page is of before: the put of the first epoch fails, and then it learns that it is over.
    let mut over = std::pin::pin!(one.call(make(3, "c")));
    assert!(futures::poll!(over.as_mut()).is_pending());
    let third = ToolCall { epoch: 3, ..make(3, "c") };
    assert_eq!(value(&one, third).await, json!({"id": "c", "price": 12}));
    assert_eq!(over.await.unwrap_err().code, ErrorCode::SessionGone);
    assert_eq!(shared.world.seen().len(), 3);
}

#[tokio::test]
async fn a_damaged_page_stops_unsafe_calls_and_no_others() {
    let shared = Shared::start().await;
    value(&shared.broker(), make(1, "a")).await;
    shared.store.put(&Shared::session().calls(), Bytes::from_static(b"x"), Condition::None).await.unwrap();
    let broker = shared.broker();
    assert_eq!(broker.call(make(2, "a")).await.unwrap_err().code, ErrorCode::SnapshotCorrupt);
    value(&broker, call(3, "getWidget", json!({"id": "7"}))).await;
    let strange = ToolCall { session_uid: "../s/u-1/head".to_owned(), ..make(1, "a") };
    assert_eq!(broker.call(strange).await.unwrap_err().code, ErrorCode::InvalidRequest);
}

#[tokio::test]
async fn an_answer_is_what_it_was_whatever_it_holds() {
    let shared = Shared::start().await;
    for (number, kind) in (1..).zip(["empty", "text", "refused", "a"]) {
        let first = shared.broker().call(make(number, kind)).await.unwrap();
        let again: Arc<ToolAnswer> = shared.broker().call(ToolCall { repeated: true, ..make(number, kind) }).await.unwrap();
        assert_eq!(first, again, "{kind}");
    }
    assert_eq!(shared.world.seen().len(), 4);
}

fn sealed(tenant: &str, key: u8) -> Seal {
    let bytes = [0xa0 + key; 32];
    let entries: [(&str, &[u8]); 2] = [("k1", &bytes), ("current", b"k1")];
    Seal::new(tenant, Keys::fixed(Keyring::parse(entries).unwrap()))
}

#[tokio::test]
async fn a_page_is_encrypted_where_the_pool_has_keys() {
    let shared = Shared::start().await;
    let clear = value(&shared.broker(), make(1, "a")).await;
    let ours = || shared.sealing(sealed("team-a", 1));
    assert_eq!(value(&ours(), repeated(make(1, "a"))).await, clear, "a page from before there were keys is read");
    let secret = value(&ours(), ToolCall { epoch: 2, ..make(2, "a") }).await;
    let stored = shared.store.get(&Shared::session().calls()).await.unwrap().unwrap().bytes;
    assert!(CallPage::decode(&stored, &Shared::session()).is_err(), "the page lies in clear");
    assert_eq!(value(&ours(), repeated(ToolCall { epoch: 2, ..make(2, "a") })).await, secret);
    let without = shared.broker().call(ToolCall { epoch: 3, ..make(3, "a") }).await.unwrap_err();
    assert_eq!(without.code, ErrorCode::StorageUnavailable, "the keys are missing: {without}");
    for other in [sealed("team-a", 2), sealed("team-b", 1)] {
        let error = shared.sealing(other).call(ToolCall { epoch: 3, ..make(3, "a") }).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::SnapshotCorrupt, "{error}");
    }
    assert_eq!(shared.world.seen().len(), 2);
}

#[tokio::test]
async fn a_page_of_calls_that_was_put_back_is_noticed_and_nothing_is_made_again() {
    let shared = Shared::start().await;
    let broker = shared.broker();
    value(&broker, make(1, "a")).await;
    let key = Shared::session().calls();
    let old = shared.store.get(&key).await.unwrap().unwrap().bytes;
    let first = broker.page("u-1").unwrap();
    value(&broker, ToolCall { page: Some(first.clone()), ..make(2, "b") }).await;
    let known = broker.page("u-1");
    assert_ne!(known, Some(first.clone()));
    // A later process does not remember either, and the call may have been sent before.
    shared.store.put(&key, old, Condition::None).await.unwrap();
    let again = ToolCall { page: known.clone(), ..repeated(make(2, "b")) };
    let next = shared.broker();
    let error = next.call(again.clone()).await.unwrap_err();
    assert!(error.code == ErrorCode::SnapshotCorrupt && error.message.contains("rolled back"), "{error:?}");
    assert_eq!(shared.world.seen().len(), 2);
    // Without its page the call is unknown, and others go on.
    shared.store.delete(&key).await.unwrap();
    let error = shared.broker().call(again.clone()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::OutcomeUnknown, "{error:?}");
    value(&shared.broker(), ToolCall { page: known, epoch: again.epoch, ..make(3, "c") }).await;
    assert_eq!(shared.world.seen().len(), 3);
}

#[tokio::test]
async fn what_was_done_is_told_in_the_bucket_and_no_secret_with_it() {
    let shared = Shared::start().await;
    let (one, two) = (shared.broker(), shared.broker());
    let origin = dormouse_service::origin::Origin::default().or_id("r-1");
    origin.run(value(&one, make(1, "a"))).await;
    value(&one, call(2, "getWidget", json!({ "id": "canary-argument" }))).await;
    failure(&two, ToolCall { epoch: 2, ..make(3, "forbidden") }).await;
    one.store_audit().await;
    two.store_audit().await;
    value(&two, ToolCall { epoch: 2, ..make(4, "b") }).await;
    two.store_audit().await;
    let keys = shared.store.list("p/t/team-a/audit/").await.unwrap();
    assert_eq!(keys.len(), 3, "nobody writes an object again: {keys:?}");
    let mut lines = Vec::new();
    for key in keys {
        let body = shared.store.get(&key).await.unwrap().unwrap().bytes;
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(!text.contains(TOKEN) && !text.contains("canary-argument"), "{text}");
        lines.extend(text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()));
    }
    lines.sort_by_key(|line| line["call"].as_u64());
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line["kind"].as_str().unwrap(), line["tool"].as_str().unwrap(), line["status"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("call", "make", "ok"), ("call", "getWidget", "ok"), ("call", "make", "ToolDenied"), ("call", "make", "ok")]);
    let ids: Vec<_> = lines.iter().map(|line| line["requestId"].as_str()).collect();
    assert_eq!(ids, [Some("r-1"), None, None, None], "whose request it was");
    assert!(lines.iter().all(|line| line["sessionUid"] == "u-1" && line["digest"].as_str().unwrap().len() == 64), "{lines:?}");
}
