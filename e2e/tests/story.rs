//! First light: a session sleeps in S3 and wakes with its closures alive, on a real Kubernetes.
//!
//! `cargo xtask test` builds what this needs (a Kubernetes, the images) and says where it is; without that the story fails, it
//! does not skip. Logs of a failed run are in `target/e2e-logs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod story {
    pub mod account;
    pub mod bad_input;
    pub mod broker;
    pub mod burst;
    pub mod cells;
    pub mod clients;
    pub mod dedicated;
    pub mod defaults;
    pub mod door;
    pub mod files;
    pub mod install;
    pub mod kills;
    pub mod leaving;
    pub mod lifetime;
    pub mod network;
    pub mod nodes;
    pub mod outside;
    pub mod quota;
    pub mod releases;
    pub mod removal;
    pub mod scene;
    pub mod upgrades;
    pub mod world;
}

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};

use dormouse_e2e::{
    cluster::{Cluster, log_folder},
    kube::Kube,
    steps::{Steps, say},
};
use dormouse_testkit::soak;
use story::{
    account, bad_input, broker, burst, cells, dedicated,
    defaults::{self, Installed},
    files, install, kills, leaving, lifetime, network, nodes, outside, quota, releases, removal, scene, upgrades,
    world::World,
};

/// Names the folder of the images; `cargo xtask test` sets it.
const IMAGES_DIR_ENV: &str = "DORMOUSE_E2E_IMAGES";

#[test]
fn a_session_sleeps_in_s3_and_wakes_with_its_closures_alive() {
    on_a_cluster(1, async |cluster, kube, steps| tell(cluster, kube, steps).await);
}

#[test]
fn a_node_is_drained_and_later_lost_and_no_cell_is() {
    if is_soak("a_node_is_drained_and_later_lost_and_no_cell_is") {
        on_a_cluster(nodes::NODES, async |cluster, kube, steps| nodes::come_and_go(cluster, kube, steps).await);
    }
}

#[test]
fn sessions_that_need_a_pod_each_begin_at_once() {
    if is_soak("sessions_that_need_a_pod_each_begin_at_once") {
        on_a_cluster(1, async |cluster, kube, steps| burst::begins(cluster, kube, steps).await);
    }
}

#[test]
fn a_release_follows_the_one_before_and_comes_back_and_no_request_fails() {
    let name = "a_release_follows_the_one_before_and_comes_back_and_no_request_fails";
    let images = std::env::var_os(IMAGES_DIR_ENV).map(PathBuf::from);
    let Some(releases) = images.and_then(|images| releases::Releases::found(&images)) else {
        return say(&format!("SKIPPED {name}: cargo xtask soak upgrade makes the release before and runs it\n"));
    };
    on_a_cluster(1, async |cluster, kube, steps| releases::follow(&releases, cluster, kube, steps).await);
}

/// Whether a story of some minutes is told.
fn is_soak(story: &str) -> bool {
    let is_soak = soak::is_whole();
    if !is_soak {
        say(&format!("SKIPPED {story}: cargo xtask soak story runs it\n"));
    }
    is_soak
}

/// Tells a story on a cluster of its own. One at a time: each has a machine's worth of processes.
fn on_a_cluster(nodes: u32, tell: impl AsyncFnOnce(&Cluster, Kube, &mut Steps) -> Result<()> + Send) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let images = std::env::var_os(IMAGES_DIR_ENV).map(PathBuf::from).expect("the story needs a cluster and images: run `cargo xtask test`");
    dormouse_service::telemetry::install_tls_provider();
    let begin = std::time::Instant::now();
    let cluster = Cluster::up(&images, nodes).unwrap();
    let mut steps = Steps::default();
    steps.add("a Kubernetes", begin.elapsed());
    // One thread that lives in the cluster's network, with all that it starts.
    let outcome = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                cluster.enter()?;
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
                    let kube = Kube::new(cluster.kubeconfig());
                    let outcome = tell(&cluster, kube.clone(), &mut steps).await;
                    if outcome.is_err() {
                        say(&scene::describe(&kube).await);
                    }
                    outcome
                })
            })
            .join()
            .unwrap_or_else(|_| Err(anyhow::anyhow!("a step panicked")))
    });
    cluster.collect_logs().unwrap();
    cluster.down().unwrap();
    say(&format!("\n{}\n", steps.table()));
    if let Err(error) = outcome {
        panic!("{error:?}\nlogs: {}", log_folder().display());
    }
}

async fn tell(cluster: &Cluster, kube: Kube, steps: &mut Steps) -> Result<()> {
    steps.run("an S3 store and an HTTP service", install::surroundings(&kube)).await?;
    steps.run("1 helm install", install::helm(&kube, "")).await?;
    steps.run("1 CRDs are served and explained", install::crds(&kube)).await?;
    steps.run("2 kubectl apply of the README's files, Ready", install::apply_examples(&kube)).await?;
    let world = World::new(cluster, kube).await.context("a client of the gateway")?;
    steps.run("3 who may call the gateway", bad_input::strangers_are_refused(&world)).await?;
    steps.run("3 cells", cells::define(&world)).await?;
    steps.run("3 callTool", cells::call_tool(&world)).await?;
    steps.run("3 fetch, where both lists agree", outside::fetches(&world)).await?;
    steps.run("3 files and context", files::written(&world)).await?;
    steps.run("3 the token is nowhere", cells::token_is_nowhere(&world)).await?;
    steps.run("3 the network is closed", network::is_closed(&world)).await?;
    steps.run("bad cells get typed errors", bad_input::cells_that_fail(&world)).await?;
    steps.run("4 idle for 2 s, Hibernated, the head is in the bucket", lifetime::falls_asleep(&world)).await?;
    let pod = steps.run("4 the slot is free, as the pool's status says", lifetime::slot_is_free(&world)).await?;
    steps.run("4 the kernel pod is deleted", lifetime::delete_pod(&world, &pod)).await?;
    steps.run("5 the next request wakes it on another pod", lifetime::wakes_elsewhere(&world, &pod)).await?;
    steps.run("5 the rest of the heap is there", lifetime::heap_is_whole(&world)).await?;
    steps.run("5 the files and the context are there", files::are_whole(&world)).await?;
    steps.run("5 fetch from there", outside::fetches_again(&world)).await?;
    steps.run("5 operatingMode Hibernated and back", lifetime::operating_mode(&world)).await?;
    steps.run("6 SIGKILL after an ack", lifetime::survives_sigkill(&world)).await?;
    steps.run("6 rolling restart", lifetime::survives_rolling_restart(&world)).await?;
    steps.run("6 a pool without pods makes one for a request, and goes back to none", lifetime::scales_to_zero_and_back(&world)).await?;
    steps.run("6 two gateways let through as many cells a second as a quota allows", quota::is_exact(&world)).await?;
    steps.run("6 a second broker", broker::opens(&world)).await?;
    steps.run("6 kubectl decides a call whose session sleeps", broker::kubectl_decides(&world)).await?;
    steps.run("6 a session's own Secret, and a new value in it", broker::rotates(&world)).await?;
    steps.run("6 the second broker goes", broker::closes(&world)).await?;
    steps.run("6 a pool whose pods run one session each", dedicated::opens(&world)).await?;
    steps.run("6 each pod has what reaches its session", dedicated::has_its_own(&world)).await?;
    steps.run("6 one sleeps, and is read", dedicated::sleeps(&world)).await?;
    steps.run("6 it wakes in another pod", dedicated::wakes(&world)).await?;
    steps.run("6 which is its own", dedicated::is_itself(&world)).await?;
    steps.run("6 one whose process is killed goes on in another", dedicated::survives_sigkill(&world)).await?;
    steps.run("6 that pool goes", dedicated::closes(&world)).await?;
    steps.run("6 kills under load", kills::nothing_is_lost(&world)).await?;
    steps.run("6 helm upgrade and rollback under load", upgrades::nobody_notices(&world)).await?;
    steps.run("7 delete leaves nothing", lifetime::delete_leaves_nothing(&world)).await?;
    steps.run("7 nor does what comes after", lifetime::nothing_stays_of_the_dead(&world)).await?;
    steps.run("invalid objects are refused with a sentence", bad_input::invalid_objects(&world)).await?;
    steps.run("a missing bucket, wrong credentials and an unsafe store are reasons", bad_input::unusable_storage(&world)).await?;
    steps.run("8 a namespace goes with all that it has", removal::a_tenant_goes_with_its_namespace(&world)).await?;
    steps.run("9 everything goes, as the page says", removal::everything_goes(&world.kube, &world.bucket)).await?;
    tell_defaults(&world.kube, steps).await
}

/// The chart with what it has by default, in a cluster that has nothing of it any more.
async fn tell_defaults(kube: &Kube, steps: &mut Steps) -> Result<()> {
    steps.run("10 helm install with the defaults, in a restricted namespace", defaults::install(kube)).await?;
    steps.run("10 helm test", defaults::helm_test(kube)).await?;
    steps.run("11 restricted namespaces of two shards: sessions and brokers", defaults::teams(kube)).await?;
    steps.run("11 an app's account, as the page says", account::as_the_page_says(kube)).await?;
    let installed = Installed::new(kube).await.context("clients of the installation")?;
    steps.run("11 HTTPS, and nothing else", defaults::https(&installed)).await?;
    steps.run("12 sessions leave etcd, each by its operator", defaults::archived(&installed)).await?;
    steps.run("12 and come back with their heaps", defaults::returned(&installed)).await?;
    steps.run("13 tenants that store in a bucket that their pools name", leaving::come(&installed)).await?;
    steps.run("13 their namespaces go together", leaving::go_together(&installed)).await?;
    steps.run("14 the release goes first: what is deleted then stays", leaving::release_goes_first(&installed)).await?;
    steps.run("14 it is installed again: the deletions end", leaving::release_is_back(&installed)).await?;
    steps.run("14 everything goes, as the page says", removal::everything_goes(kube, &installed.bucket)).await
}
