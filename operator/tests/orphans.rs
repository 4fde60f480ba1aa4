//! What is left of sessions that are gone is removed, and nothing else: the real operator, with the rights that its chart gives it, on a real API
//! server and a real MinIO.

use std::{collections::BTreeSet, time::Duration};

use crate::support::{Cluster, account, apply, between::Between, metrics::metric, start_operator, stores};
use bytes::Bytes;
use dormouse_erasure::clusters::TenantPrefix;
use dormouse_lifecycle::SessionKey;
use dormouse_store::{Condition, S3, SnapshotStore as _};
use dormouse_testkit::{apiserver::ApiServer, minio::Minio, process::Process};

/// How long anything may take on a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two looks.
const POLL: Duration = Duration::from_millis(50);
/// A uid that no API server of this test ever gave out.
const STRANGER: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01";

struct World {
    server: ApiServer,
    bucket: S3,
    theirs: S3,
    _minio: Minio,
    operator: Process,
    admin: String,
    _folder: tempfile::TempDir,
}

impl World {
    async fn start() -> Self {
        dormouse_service::telemetry::install_tls_provider();
        let (server, minio) = tokio::try_join!(ApiServer::start(), Minio::start()).unwrap();
        let (bucket, theirs) = (minio.create_bucket("sessions").await.unwrap(), minio.create_bucket("theirs").await.unwrap());
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = account(&server, folder.path());
        for namespace in ["team", "shared", "older", "own"] {
            server.kubectl(&["create", "namespace", namespace]).unwrap();
        }
        apply(&server, &pool_with_its_own_store(&minio));
        let (operator, admin) = start_operator(&kubeconfig, &minio, folder.path(), &["--orphan-sweep-interval-seconds=1"]);
        Self { server, bucket, theirs, _minio: minio, operator, admin, _folder: folder }
    }

    fn cluster(&self) -> String {
        self.server.kubectl(&["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]).unwrap()
    }

    /// Makes a session. Answers its uid.
    fn session(&self, name: &str, finalizers: &str) -> String {
        let object = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession";
        apply(&self.server, &format!("{object}\nmetadata: {{name: {name}, namespace: team, finalizers: [{finalizers}]}}\nspec: {{}}\n"));
        self.server.kubectl(&["get", "kernelsession", name, "-n", "team", "-o", "jsonpath={.metadata.uid}"]).unwrap()
    }

    async fn metric(&self, name: &str, with: &str) -> u64 {
        metric(&self.admin, name, with).await
    }

    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let wait = async {
            while !holds().await {
                tokio::time::sleep(POLL).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{what}: never\n{}", self.operator.output());
    }

    /// Until every store was swept at least once from its begin to its end: of two stores, the third sweep from now ends such a one, and two more
    /// are for one under way.
    async fn sweeps(&self) {
        let before = self.metric("orphan_sweeps_total", "done").await;
        self.until("five more sweeps", async || self.metric("orphan_sweeps_total", "done").await >= before + 5).await;
    }
}

/// The namespace `own` keeps its sessions in a bucket of its own, with credentials of its own.
fn pool_with_its_own_store(minio: &Minio) -> String {
    let (endpoint, credentials) = (minio.endpoint(), minio.credentials());
    format!(
        "\
apiVersion: v1
kind: Secret
metadata: {{name: s3, namespace: own}}
stringData: {{accessKeyId: {}, secretAccessKey: {}}}
---
apiVersion: dormouse.dev/v1alpha1
kind: KernelPool
metadata: {{name: default, namespace: own}}
spec:
  storage: {{bucket: theirs, endpoint: \"{endpoint}\", credentialsSecretRef: {{name: s3}}}}
",
        credentials.access_key_id, credentials.secret_access_key
    )
}

fn place(tenant: &str) -> TenantPrefix {
    TenantPrefix { store_prefix: String::new(), tenant: tenant.to_owned() }
}

/// What late commits and a late call leave. Answers the keys.
async fn store(bucket: &S3, tenant: &str, uid: &str) -> BTreeSet<String> {
    let key = SessionKey {
        store_prefix: String::new(),
        tenant: tenant.to_owned(),
        pool: "default".into(),
        uid: uid.to_owned(),
        name: String::new(),
    };
    let keys = BTreeSet::from([key.head(), key.segment(1, 1, "ab"), key.calls()]);
    for key in &keys {
        bucket.put(key, Bytes::from_static(b"x"), Condition::None).await.unwrap();
    }
    keys
}

async fn left(bucket: &S3, keys: &BTreeSet<String>) -> usize {
    bucket.list("t/").await.unwrap().into_iter().filter(|key| keys.contains(key)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_of_no_session_goes_and_what_may_be_somebodys_stays() {
    let world = World::start().await;
    let (bucket, cluster) = (&world.bucket, world.cluster());
    world.until("the operator sweeps", async || world.metric("orphan_sweeps_total", "done").await > 0).await;
    // What their pods do before they write anything.
    place("team").join(bucket, &cluster).await.unwrap();
    place("own").join(&world.theirs, &cluster).await.unwrap();
    place("shared").join(bucket, &cluster).await.unwrap();
    place("shared").join(bucket, "another").await.unwrap();

    let live = store(bucket, "team", &world.session("live", "")).await;
    let held = world.session("held", "example.com/held");
    world.server.kubectl(&["delete", "kernelsession", "held", "-n", "team", "--wait=false"]).unwrap();
    let finalizers = ["get", "kernelsession", "held", "-n", "team", "-o", "jsonpath={.metadata.finalizers}"];
    let only_held = async || world.server.kubectl(&finalizers).unwrap() == "[\"example.com/held\"]";
    world.until("its deletion has ended but for somebody else's part", only_held).await;
    let held = store(bucket, "team", &held).await;
    let shared = store(bucket, "shared", STRANGER).await;
    let older = store(bucket, "older", STRANGER).await;

    let gone = world.session("gone", "");
    let finalized = ["wait", "--for=jsonpath={.metadata.finalizers}", "kernelsession/gone", "-n", "team", "--timeout=120s"];
    world.server.kubectl(&finalized).unwrap();
    world.server.kubectl(&["delete", "kernelsession", "gone", "-n", "team", "--timeout=120s"]).unwrap();
    let erased = world.metric("orphans_erased_total", "").await;
    let late = store(bucket, "team", &gone).await;
    let theirs = store(&world.theirs, "own", STRANGER).await;
    let all_gone = async || left(bucket, &late).await + left(&world.theirs, &theirs).await == 0;
    world.until("what came after the end of a session is removed", all_gone).await;
    world.sweeps().await;
    for (keys, whose) in [(&live, "a session"), (&held, "one under deletion"), (&shared, "another cluster"), (&older, "an older version")] {
        assert_eq!(left(bucket, keys).await, keys.len(), "of {whose}");
    }
    assert!(world.metric("orphans_erased_total", "").await >= erased + 2);
    assert!(world.metric("orphan_objects_erased_total", "").await >= 2);
    assert_eq!(world.metric("orphans_left", "").await, 2, "the uid is unknown in two places");
    assert_eq!(world.metric("orphan_sweeps_total", "failed").await, 0, "{}", world.operator.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_after_some_namespaces_asks_each_for_its_own_sessions_and_once_a_visit() {
    const NAMESPACES: [&str; 2] = ["team", "second"];
    const CLUSTER: &str = "here";
    let flags = ["--orphan-sweep-interval-seconds=1", "--watch-namespaces=team,second", "--storage-cluster=here"];
    dormouse_service::telemetry::install_tls_provider();
    let (server, minio) = tokio::try_join!(ApiServer::start(), Minio::start()).unwrap();
    let between = Between::start(&server).await;
    let cluster = Cluster::start_with(server, minio, &NAMESPACES, &flags, Some(&between)).await;
    let (mut live, mut gone) = (BTreeSet::new(), BTreeSet::new());
    for namespace in NAMESPACES {
        // What their pods do before they write anything.
        place(namespace).join(&cluster.bucket, CLUSTER).await.unwrap();
        let object = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession";
        apply(&cluster.server, &format!("{object}\nmetadata: {{name: a, namespace: {namespace}}}\nspec: {{}}\n"));
        live.extend(stores(&cluster.server, &cluster.bucket, namespace, "a", "default").await);
        gone.extend(store(&cluster.bucket, namespace, STRANGER).await);
    }
    cluster.until("what is of no session is removed", async || left(&cluster.bucket, &gone).await == 0).await;

    let sweeps = async || metric(&cluster.admin, "orphan_sweeps_total", "done").await;
    // Watches list fewer at once.
    let lists = || between.reads("/kernelsessions?").into_iter().filter(|path| path.contains("limit=500")).collect::<Vec<_>>();
    let (since, before) = (sweeps().await, lists().len());
    cluster.until("six more visits", async || sweeps().await >= since + 6).await;
    let listed = lists().split_off(before);
    let visits = sweeps().await - since;
    assert!(listed.len() as u64 <= visits + 1, "one a visit, and one that is under way: {visits} visits, {listed:#?}");
    let of = |namespace: &str| listed.iter().filter(|path| path.contains(&format!("/namespaces/{namespace}/"))).count();
    assert!(NAMESPACES.iter().all(|namespace| of(namespace) > 0), "{listed:#?}");
    assert_eq!(left(&cluster.bucket, &live).await, live.len(), "of sessions");
    let failed = metric(&cluster.admin, "orphan_sweeps_total", "failed").await;
    assert_eq!(failed, 0, "{}", cluster.operator.output());
}
