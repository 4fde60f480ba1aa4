use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use dormouse_store::{Condition, ETag, KeyPage, ListFrom, Memory, Object, PutError};

use super::*;

const LIVE: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01";
const GONE: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e02";

fn key(tenant: &str, uid: &str) -> SessionKey {
    SessionKey {
        store_prefix: "p/".to_owned(),
        tenant: tenant.to_owned(),
        pool: "default".into(),
        uid: uid.to_owned(),
        name: String::new(),
    }
}

async fn put(store: &Memory, key: &str) {
    store.put(key, Bytes::from_static(b"x"), Condition::None).await.unwrap();
}

fn team() -> TenantPrefix {
    TenantPrefix { store_prefix: "p/".to_owned(), tenant: "team".to_owned() }
}

fn known(sessions: &[&str]) -> Known {
    Known { sessions: sessions.iter().map(|uid| (*uid).to_owned()).collect(), ..Known::default() }
}

fn scope(tenant: Option<&str>) -> Scope<'_> {
    Scope { store_prefix: "p/", tenant, is_ours: &|_| true, now_ms: 2_000_000_000_000 }
}

async fn swept(store: &Memory, cluster: &str, sessions: &[&str]) -> Swept {
    sweep(store, scope(None), cluster, async || Ok(known(sessions))).await.unwrap()
}

/// What a late first commit, a late segment and a late page of calls leave.
async fn litter(store: &Memory) {
    put(store, &key("team", GONE).head()).await;
    put(store, &key("team", GONE).segment(1, 1, "ab")).await;
    put(store, &key("team", GONE).calls()).await;
    put(store, &key("team", LIVE).head()).await;
    put(store, &key("team", LIVE).calls()).await;
}

async fn left(store: &Memory) -> usize {
    store.list(&key("team", GONE).prefix()).await.unwrap().len()
        + usize::from(store.get(&key("team", GONE).calls()).await.unwrap().is_some())
}

#[tokio::test]
async fn what_is_of_no_session_goes_and_nothing_else() {
    let store = Memory::new();
    team().join(&store, "a").await.unwrap();
    litter(&store).await;
    assert_eq!(swept(&store, "a", &[LIVE]).await, Swept { sessions: 1, objects: 3, ..Swept::default() });
    let mut keys = store.list("").await.unwrap();
    keys.sort_unstable();
    assert_eq!(keys, [key("team", LIVE).calls(), "p/t/team/clusters".to_owned(), key("team", LIVE).head()]);
    assert_eq!(swept(&store, "a", &[LIVE]).await, Swept::default());
}

#[tokio::test]
async fn where_another_cluster_stores_sessions_nothing_goes() {
    let store = Memory::new();
    for joined in ["b", "a"] {
        team().join(&store, joined).await.unwrap();
        litter(&store).await;
        assert_eq!(swept(&store, "a", &[LIVE]).await.left, [("team".to_owned(), Left::Shared, 1)], "after {joined}");
        assert_eq!(left(&store).await, 3);
    }
}

#[tokio::test]
async fn what_was_there_before_the_first_name_stays_until_somebody_has_looked() {
    let store = Memory::new();
    litter(&store).await;
    assert_eq!(swept(&store, "a", &[LIVE]).await.left, [("team".to_owned(), Left::Unclaimed, 1)]);
    team().join(&store, "a").await.unwrap();
    assert_eq!(swept(&store, "a", &[LIVE]).await.left, [("team".to_owned(), Left::Unaccounted, 1)]);
    assert_eq!(left(&store).await, 3);
    // Somebody knows better and removes it.
    erase(&store, &key("team", GONE)).await.unwrap();
    assert_eq!(swept(&store, "a", &[LIVE]).await, Swept::default());
    litter(&store).await;
    assert_eq!(swept(&store, "a", &[LIVE]).await.sessions, 1, "from here on it is this cluster's own");
}

#[tokio::test]
async fn who_does_not_know_which_sessions_there_are_removes_nothing() {
    let store = Memory::new();
    team().join(&store, "a").await.unwrap();
    litter(&store).await;
    let outcome = sweep(&store, scope(Some("team")), "a", async || Err("no answer".into())).await;
    assert!(matches!(outcome, Err(OrphansError::Sessions(_))), "{outcome:?}");
    assert_eq!(left(&store).await, 3);
    // A session that is made after the listing is not looked at, whoever knows it.
    let late = async || {
        put(&store, &key("team", "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e03").head()).await;
        Ok(known(&[LIVE]))
    };
    assert_eq!(sweep(&store, scope(Some("team")), "a", late).await.unwrap().sessions, 1);
    assert!(store.get(&key("team", "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e03").head()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_session_that_is_archived_after_the_listing_stays() {
    let store = Memory::new();
    team().join(&store, "a").await.unwrap();
    litter(&store).await;
    // It leaves the API server while the sweep is under way: marked first, unknown then.
    let archived = async || {
        put(&store, &key("team", LIVE).archived()[0]).await;
        Ok(known(&[]))
    };
    let swept = sweep(&store, scope(None), "a", archived).await.unwrap();
    assert_eq!(swept, Swept { sessions: 1, objects: 3, ..Swept::default() });
    let mut keys = store.list("").await.unwrap();
    keys.sort_unstable();
    let live = key("team", LIVE);
    assert_eq!(keys, [live.calls(), "p/t/team/clusters".to_owned(), live.archived()[0].clone(), live.head()]);
}

#[tokio::test]
async fn anothers_tenants_are_left_to_it() {
    let store = Memory::new();
    team().join(&store, "a").await.unwrap();
    litter(&store).await;
    let mut scope = Scope { is_ours: &|tenant| tenant != "team", ..scope(None) };
    let nobody_is_asked = async || panic!("nothing that was listed is its own");
    assert_eq!(sweep(&store, scope, "a", nobody_is_asked).await.unwrap(), Swept::default());
    assert_eq!(left(&store).await, 3);
    scope.is_ours = &|tenant| tenant == "team";
    assert_eq!(sweep(&store, scope, "a", async || Ok(known(&[LIVE]))).await.unwrap().sessions, 1);
}

#[tokio::test]
async fn one_tenant_may_be_swept_alone() {
    let store = Memory::new();
    for tenant in ["team", "other"] {
        TenantPrefix { tenant: tenant.to_owned(), ..team() }.join(&store, "a").await.unwrap();
        put(&store, &key(tenant, GONE).head()).await;
    }
    let swept = sweep(&store, scope(Some("team")), "a", async || Ok(Known::default())).await.unwrap();
    assert_eq!((swept.sessions, left(&store).await), (1, 0));
    assert!(store.get(&key("other", GONE).head()).await.unwrap().is_some());
}

/// It runs beside everything else, on whichever thread.
#[tokio::test]
async fn a_sweep_may_be_a_task_of_its_own() {
    let store = std::sync::Arc::new(Memory::new());
    team().join(&*store, "a").await.unwrap();
    litter(&store).await;
    let task = tokio::spawn({
        let store: std::sync::Arc<dyn SnapshotStore> = std::sync::Arc::clone(&store) as _;
        async move { sweep(store.as_ref(), scope(Some("team")), "a", async || Ok(known(&[LIVE]))).await }
    });
    assert_eq!(task.await.unwrap().unwrap().sessions, 1);
    assert_eq!(left(&store).await, 0);
}

/// A store that lists everything of a tenant, or of all, in parts only; and how many it was asked for.
#[derive(Default)]
struct Paged(Memory, AtomicUsize);

#[async_trait::async_trait]
impl SnapshotStore for Paged {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        self.0.get(key).await
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        self.0.put(key, bytes, condition).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.0.delete(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let of_one_session = prefix.contains("/s/") || prefix.contains(GONE);
        assert!(of_one_session, "{prefix} may hold millions of keys");
        self.0.list(prefix).await
    }

    async fn list_page(&self, prefix: &str, from: ListFrom<'_>, _: Option<u16>) -> Result<KeyPage, StoreError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let mut keys = self.0.list(prefix).await?;
        keys.sort_unstable();
        let after = match from {
            ListFrom::Start => "",
            ListFrom::Next(key) | ListFrom::After(key) => key,
        };
        let mut rest = keys.into_iter().filter(|key| key.as_str() > after);
        let keys: Vec<String> = rest.by_ref().take(2).collect();
        let next = rest.next().and(keys.last().cloned());
        Ok(KeyPage { keys, next })
    }
}

#[tokio::test]
async fn what_is_stored_is_looked_at_in_parts_and_a_session_may_lie_in_several() {
    let store = Paged::default();
    litter(&store.0).await;
    team().join(&store, "a").await.unwrap();
    let unswept = sweep(&store, scope(None), "a", async || Ok(known(&[LIVE]))).await.unwrap().left;
    assert_eq!(unswept, [("team".to_owned(), Left::Unaccounted, 1)], "what was there before the name is seen wherever it is listed");
    store.0.delete("p/t/team/clusters").await.unwrap();
    for key in store.0.list("").await.unwrap() {
        store.0.delete(&key).await.unwrap();
    }
    team().join(&store, "a").await.unwrap();
    litter(&store.0).await;
    let swept = sweep(&store, scope(None), "a", async || Ok(known(&[LIVE]))).await.unwrap();
    assert_eq!(swept, Swept { sessions: 1, objects: 3, ..Swept::default() });
    assert_eq!(self::left(&store.0).await, 0);
}

#[tokio::test]
async fn of_anothers_tenant_no_more_is_listed_than_a_part_and_nobody_behind_it_is_missed() {
    let store = Paged::default();
    // The last but one begins as the one before it, and comes before that.
    let tenants = ["a", "big", "big-2", "ours", "z"];
    for tenant in tenants {
        TenantPrefix { tenant: tenant.to_owned(), ..team() }.join(&store, "a").await.unwrap();
        put(&store.0, &key(tenant, GONE).head()).await;
    }
    for number in 0..100 {
        put(&store.0, &key("big", LIVE).segment(1, number, "ab")).await;
    }
    let is_ours = |tenant: &str| tenant != "big" && tenant != "z";
    let scope = Scope { is_ours: &is_ours, ..scope(None) };
    store.1.store(0, Ordering::SeqCst);
    let swept = sweep(&store, scope, "a", async || Ok(Known::default())).await.unwrap();
    assert_eq!((swept.sessions, swept.objects), (3, 3));
    let parts = store.1.load(Ordering::SeqCst);
    assert!(parts <= 7, "{parts} parts of two keys");
    for tenant in tenants {
        assert_eq!(store.0.get(&key(tenant, GONE).head()).await.unwrap().is_none(), is_ours(tenant), "{tenant}");
    }
}

#[tokio::test]
async fn what_brokers_and_pods_keep_goes_with_the_broker_or_when_it_is_old_and_only_where_this_cluster_is_alone() {
    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    let store = Memory::new();
    team().join(&store, "a").await.unwrap();
    let now_ms = scope(None).now_ms;
    let done = |broker, days: i64| format!("{}{}-m", keys::webhooks_done("p/", "team", broker), keys::newest_first(now_ms - days * DAY_MS));
    let job = keys::jobs_open("p/", "team", "shop", "browser") + "1_u_2";
    let stays = [done("shop", 29), job, keys::usage("p/", "team", "2032-04-14", "x", 1), keys::audit("p/", "team", "2001-01-01", "x", 1)];
    let goes = [
        done("shop", 31),
        done("gone", 1),
        keys::webhooks_open("p/", "team", "gone") + "m",
        keys::jobs_open("p/", "team", "gone", "browser") + "1_u_2",
        keys::usage("p/", "team", "2032-04-11", "x", 1),
    ];
    for key in stays.iter().chain(&goes) {
        put(&store, key).await;
    }
    let shop = Known { brokers: HashSet::from([("team".to_owned(), "shop".to_owned())]), ..Known::default() };
    let sweep_as = async |cluster: &str| sweep(&store, scope(None), cluster, async || Ok(shop.clone())).await.unwrap();
    assert_eq!(sweep_as("b").await.leftovers, 0, "it is another cluster's");
    assert_eq!(sweep_as("a").await.leftovers, goes.len() as u64);
    let left = store.list("").await.unwrap();
    assert!(stays.iter().all(|key| left.contains(key)) && left.len() == stays.len() + 1, "{left:?}");
    assert_eq!(sweep_as("a").await.leftovers, 0);
}
