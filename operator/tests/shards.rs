//! Several operators at work, each on a part of the namespaces.

use dormouse_testkit::process::Process;
use dormouse_watch::Shard;

use crate::support::{Cluster, SYSTEM, apply, start_operator};

/// An operator beside that of the cluster.
struct Operator {
    process: Process,
    admin: String,
    _folder: tempfile::TempDir,
}

impl Operator {
    fn start(cluster: &Cluster, pod: &str, shards: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags = [format!("--pod={pod}"), format!("--shards={shards}")];
        let (process, admin) = start_operator(&cluster.kubeconfig(), &cluster.minio, folder.path(), &flags.each_ref().map(String::as_str));
        Self { process, admin, _folder: folder }
    }

    async fn is_ready(&self) -> bool {
        reqwest::get(format!("http://{}/readyz", self.admin)).await.is_ok_and(|answer| answer.status().is_success())
    }
}

/// Who holds the lease of each shard, and what number of shards it says.
fn holders(cluster: &Cluster) -> Vec<String> {
    let path =
        r#"jsonpath={range .items[*]}{.metadata.name} {.spec.holderIdentity} {.metadata.annotations.dormouse\.dev/shards}{"\n"}{end}"#;
    let told = cluster.server.kubectl(&["get", "leases", "-n", SYSTEM, "-o", path]).unwrap();
    told.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn make_pool(cluster: &Cluster, namespace: &str, name: &str) {
    apply(
        &cluster.server,
        &format!("apiVersion: dormouse.dev/v1alpha1\nkind: KernelPool\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{}}\n"),
    );
}

/// Whether somebody has made what the pool is to have.
fn is_made(cluster: &Cluster, namespace: &str, name: &str) -> bool {
    let deployment = format!("dormouse-kernel-{name}");
    !cluster.server.kubectl(&["get", "deployment", &deployment, "-n", namespace, "--ignore-not-found", "-o", "name"]).unwrap().is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_namespace_is_one_operators_and_a_standby_takes_over_who_is_gone() {
    let cluster = Cluster::start(&["--pod=a", "--shards=2"]).await;
    let namespace = |index: u32| (0..).map(|n| format!("team-{n}")).find(|name| Shard { index, of: 2 }.has(name)).unwrap();
    let (first, second) = (namespace(0), namespace(1));
    [&first, &second].iter().for_each(|name| drop(cluster.server.kubectl(&["create", "namespace", name]).unwrap()));
    cluster.until("one leads", async || holders(&cluster) == ["dormouse-operator a 2"]).await;
    // Nobody has the second shard yet.
    make_pool(&cluster, &second, "one");
    make_pool(&cluster, &first, "one");
    cluster.until("the pool of the first shard", async || is_made(&cluster, &first, "one")).await;
    assert!(!is_made(&cluster, &second, "one"), "it was made before, and is nobody's");
    let mut other = Operator::start(&cluster, "b", 2);
    cluster.until("the pool of the second shard", async || is_made(&cluster, &second, "one")).await;
    assert_eq!(holders(&cluster), ["dormouse-operator a 2", "dormouse-operator-1 b 2"]);
    let standby = Operator::start(&cluster, "c", 2);
    cluster.until("the third is ready", async || standby.is_ready().await).await;
    assert_eq!(holders(&cluster).len(), 2);
    other.process.kill();
    make_pool(&cluster, &second, "two");
    cluster.until("the standby has taken over", async || is_made(&cluster, &second, "two")).await;
    assert_eq!(holders(&cluster), ["dormouse-operator a 2", "dormouse-operator-1 c 2"]);
}

/// A namespace may be in another shard then.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_works_beside_who_counts_another_number_of_shards() {
    let mut cluster = Cluster::start(&["--pod=a"]).await;
    cluster.until("one leads", async || holders(&cluster) == ["dormouse-operator a 1"]).await;
    let (one, other) = (Operator::start(&cluster, "b", 2), Operator::start(&cluster, "c", 2));
    cluster.until("they are ready", async || one.is_ready().await && other.is_ready().await).await;
    assert_eq!(holders(&cluster), ["dormouse-operator a 1"], "they stand by, although two shards are free");
    cluster.operator.kill();
    let counted = |held: &[String]| held.len() == 2 && held.iter().all(|lease| lease.ends_with(" 2"));
    cluster.until("both work when it is gone", async || counted(&holders(&cluster))).await;
    let who = |held: Vec<String>| {
        let mut who: Vec<String> = held.iter().filter_map(|lease| lease.split(' ').nth(1)).map(str::to_owned).collect();
        who.sort();
        who
    };
    assert_eq!(who(holders(&cluster)), ["b", "c"]);
}
