//! The process: probes, the lease, then the reconcilers until the end.

use std::{
    sync::{Arc, Mutex, RwLock},
    time::Duration,
};

use anyhow::Context as _;
use dormouse_control::writes::Writes;
use dormouse_crds::{broker::ToolBroker, labels::MANAGER, pool::KernelPool, quota::KernelQuota, session::KernelSession};
use dormouse_service::{Gate, Metrics, Readiness, admin::AdminServer, memory::Memory, tls::PeerClient};
use dormouse_watch::{Shard, WatchScope};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Client,
    core::PartialObjectMeta,
    runtime::{
        events::{Recorder, Reporter},
        reflector::store::Writer,
        watcher,
    },
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    admission, broker,
    ca::Authority,
    certificates,
    checked::CheckedSecrets,
    config::Config,
    context::{Caches, Context, OperatorMetrics},
    controller::{self, Reconciler, generation, unseen, watched},
    hub::Hub,
    leader::Candidate,
    orphans,
    owned::Owned,
    pool, reports,
    revision::Revisions,
    session,
    storage::Stores,
    triggers::{TRIGGERS_MAX, queued},
    trim,
};

/// How long reconciliations that run may take to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the operator until `shutdown`.
///
/// # Errors
/// The API server cannot be reached at start, or the lease is lost: the process must end.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let (metrics, readiness) = (Metrics::new(), Readiness::new());
    let lease = readiness.gate("lease");
    let gates = Gates { caches: readiness.gate("caches"), sessions: readiness.gate("sessions") };
    let operator_metrics = OperatorMetrics::register(&metrics)?;
    let _admin = AdminServer::start(&config.admin, readiness.clone(), metrics).await.context("the admin port")?;
    let client = Client::try_default().await.context("the Kubernetes API")?;
    // Connections of its own: no answer about the lease comes behind what watches bring.
    let of_lease = Client::try_default().await.context("the Kubernetes API")?;
    let candidate = Candidate::new(of_lease, &config.system_namespace, &config.pod, config.shards);
    lease.not_ready("the API server has not told yet who holds the lease dormouse-operator");
    let won = candidate.acquire(&shutdown, |holder| {
        // A standby has nothing to wait for: it is ready to take over.
        tracing::debug!(holder, "standing by");
        lease.ready();
        gates.caches.ready();
        gates.sessions.ready();
    });
    let Some(leader) = won.await else { return Ok(()) };
    let shard = leader.shard();
    tracing::info!(pod = config.pod, shard = shard.index, of = shard.of, "leading");
    operator_metrics.leader.set(1);
    lease.ready();
    gates.sessions.not_ready("the API server has not told yet whether it takes sessions");
    gates.caches.not_ready("the watches have not brought every object yet");
    // And a task of its own: it renews the lease however much the others have to read.
    let mut holding = tokio::spawn({
        let leader = leader.clone();
        async move { leader.hold().await }
    });
    let worked = tokio::select! {
        lost = &mut holding => match lost? {
            Err(lost) => return Err(lost.into()),
            Ok(never) => match never {},
        },
        worked = work(config, shard, client, operator_metrics, gates, shutdown) => worked,
    };
    readiness.stopping();
    holding.abort();
    // What is under way has been given up before the lease is given back.
    let _ = holding.await;
    leader.release().await;
    worked
}

/// What the leader needs to be ready.
struct Gates {
    caches: Gate,
    sessions: Gate,
}

/// Everything that only the leader does, of its shard.
async fn work(
    mut config: Config,
    shard: Shard,
    client: Client,
    metrics: OperatorMetrics,
    gates: Gates,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let whole = WatchScope::from(&config.scope);
    let scope = whole.clone().shard(shard);
    if config.storage.cluster.as_ref().is_none_or(String::is_empty) {
        config.storage.cluster = Some(orphans::cluster(client.clone()).await.context("the name of this cluster in object stores")?);
    }
    let authority =
        Authority::load(client.clone(), &config.system_namespace, whole, config.certificates).await.context("the certificate authority")?;
    if shard.is_first() {
        authority.ensure_gateway(&config.door_names).await.context("the gateways' certificate")?;
    }
    let (tls, tls_due) = authority.operator_tls().context("the operator's certificate")?;
    let peers = PeerClient::new(tls.clone()).context("the operator's client")?;
    let mut without_retries = kube::Config::infer().await.context("the Kubernetes API")?;
    without_retries.default_retry = false;
    let without_retries = Client::try_from(without_retries).context("the Kubernetes API")?;
    let memory = Memory::of_process(&config.memory);
    let (session_triggers, session_queue) = mpsc::channel(TRIGGERS_MAX);
    let (pool_triggers, pool_queue) = mpsc::channel(TRIGGERS_MAX);
    let sessions: Writer<KernelSession> = Writer::default();
    let pools: Writer<KernelPool> = Writer::default();
    let brokers: Writer<ToolBroker> = Writer::default();
    let pods: Writer<Pod> = Writer::default();
    let quotas: Writer<KernelQuota> = Writer::default();
    let revisions = Arc::<Revisions>::default();
    let (of_pools, mut pool_others) = Owned::watch::<KernelPool>(&revisions, &scope, &client, "kernel");
    let (of_brokers, mut broker_others) = Owned::watch::<ToolBroker>(&revisions, &scope, &client, "broker");
    let caches = Caches {
        sessions: sessions.as_reader(),
        pools: pools.as_reader(),
        brokers: brokers.as_reader(),
        pods: pods.as_reader(),
        quotas: quotas.as_reader(),
        of_pools,
        of_brokers,
    };
    let reporter = Reporter { controller: MANAGER.to_owned(), instance: Some(config.pod.clone()) };
    let system_namespace = config.system_namespace.clone();
    let context = Arc::new(Context {
        client: client.clone(),
        config,
        scope: scope.clone(),
        shard,
        authority,
        peers: RwLock::new(peers),
        tls: watch::Sender::new(tls),
        checked: CheckedSecrets::default(),
        stores: Stores::new(system_namespace),
        hub: Hub::new(session_triggers, memory.limit()),
        http: reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?,
        recorder: Recorder::new(client.clone(), reporter),
        metrics,
        revisions,
        caches: caches.clone(),
        pool_triggers,
        writes: Writes::share_of(shard.of),
        index: Mutex::default(),
        sizes: Mutex::default(),
        unread: Default::default(),
        grants: Default::default(),
    });
    let (brokers_cache, seeing) = (caches.brokers.clone(), Arc::clone(&context));
    let saw = move |event: &watcher::Event<PartialObjectMeta<Secret>>| seeing.checked.saw(event);
    let secrets = watched(&context.revisions, (&scope, &client), watcher::Config::default(), saw);
    let secrets = secrets.flat_map(move |secret| futures::stream::iter(broker::referring(&brokers_cache, &secret))).boxed();
    pool_others.push(queued(pool_queue));
    broker_others.push(secrets);
    let stop = || shutdown.clone();

    let reports = reports::run(context.clone(), pods, stop());
    let all = futures::future::join5(
        after(
            caches.clone(),
            controller::run(
                "KernelPool",
                pools,
                pool_others,
                Reconciler { trim: trim::pool, seen: unseen, matters: Some(generation), reconcile: pool::reconcile },
                context.clone(),
                stop(),
            ),
        ),
        controller::run(
            "ToolBroker",
            brokers,
            broker_others,
            Reconciler { trim: trim::broker, seen: unseen, matters: Some(generation), reconcile: broker::reconcile },
            context.clone(),
            stop(),
        ),
        controller::run(
            "KernelSession",
            sessions,
            vec![queued(session_queue)],
            Reconciler { trim: trim::session, seen: session::seen, matters: None, reconcile: session::reconcile },
            context.clone(),
            stop(),
        ),
        reports,
        certificates::run(context.clone(), tls_due, stop()),
    );
    let sessions_in = scope.named().and_then(<[_]>::first).unwrap_or(&context.config.system_namespace);
    let told = futures::future::join(
        tell_when_ready(caches, gates.caches),
        admission::tell_when_sessions_are_taken(without_retries, sessions_in, gates.sessions),
    );
    let swept = futures::future::join4(
        controller::kept(&context.revisions, (&scope, &client), quotas, stop()),
        orphans::run(context.clone(), stop()),
        context.revisions.run(scope.apis(&client), stop()),
        session::archive::server::run(context.clone(), stop()),
    );
    let drained = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        _ = futures::future::join3(all, told, swept) => {}
        () = drained => tracing::warn!("reconciliations were still running when the time to stop was over"),
    }
    Ok(())
}

/// `then`, once the caches that sizing a pool counts with are filled.
async fn after(caches: Caches, then: impl Future<Output = ()>) {
    // An error means that the writer is gone, and with it this process.
    let _ = caches.sessions.wait_until_ready().await;
    let _ = caches.pods.wait_until_ready().await;
    then.await;
}

async fn tell_when_ready(caches: Caches, gate: Gate) {
    let _ = caches.sessions.wait_until_ready().await;
    let _ = caches.pools.wait_until_ready().await;
    let _ = caches.brokers.wait_until_ready().await;
    let _ = caches.pods.wait_until_ready().await;
    gate.ready();
}
