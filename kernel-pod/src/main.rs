//! `dormouse-kernel`: flags in, a pod out.

mod given;

use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser as _;
use dormouse_engine::{EngineOptions, Engines};
use dormouse_kernel::disk::DiskCacheMetrics;
use dormouse_kernel::{BrokerTools, Environment, Pod, config::Args, growth};
use dormouse_service::admin::AdminServer;
use dormouse_service::memory::Memory;
use dormouse_service::tls::{PeerClient, TlsFiles};
use dormouse_service::{shutdown, telemetry, traces};
use tokio::net::TcpListener;

use self::given::Given;

#[global_allocator]
static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;

fn main() -> anyhow::Result<()> {
    dormouse_kernel::runtime()?.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    telemetry::init("kernel");
    let args = Args::parse();
    let shutdown = shutdown::signal();
    let memory = Memory::of_process(&args.memory);
    let options = EngineOptions { cache_dir: args.engine_cache_dir.clone(), growth: Some(growth(memory.clone(), args.slots)) };
    let engine = args.engine.clone();
    let load = move || if engine.is_empty() { Engines::new(options) } else { Engines::beginning_with(&engine, options) };
    let engines = tokio::task::spawn_blocking(load).await?.context("loading the engine")?;
    let tls = TlsFiles::load(&args.tls.tls_dir).context("reading --tls-dir")?;
    let disk_metrics = DiskCacheMetrics::new()?;
    let Given { role, store, client } = Given::new(&args, &tls, &disk_metrics)?;
    let tools = BrokerTools::new(PeerClient::new(client)?, args.broker_address.clone());
    let environment = Environment { memory, ..Environment::default() };
    let pod = Pod::within(args.pod_config(role), engines, store, Arc::new(tools), args.seal()?, environment)?;
    disk_metrics.register(&pod.metrics())?;
    let _admin = AdminServer::start(&args.admin, pod.readiness(), pod.metrics()).await.context("listening on --admin-listen")?;
    let listener = TcpListener::bind(args.listen).await.context("listening on --listen")?;
    tracing::info!(pod = args.pod, namespace = args.namespace, pool = args.pool, boot = pod.info().boot, "serving");
    tokio::spawn({
        let (pod, shutdown) = (pod.clone(), shutdown.clone());
        async move {
            pod.spent().await;
            tracing::info!("the pod has done what it was for");
            shutdown.cancel();
        }
    });
    pod.serve(listener, tls, shutdown).await;
    tracing::info!("stopped");
    traces::finish().await;
    Ok(())
}
