//! Pods, gateways, brokers and an operator over one store, one status and one network, in virtual time.

use std::{
    net::SocketAddr,
    ops::Deref,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use dormouse_broker::{Broker, BrokerStore, FetchClients, Secrets, Surroundings};
use dormouse_crds::{
    broker::ToolBrokerSpec,
    session::{Determinism, KernelSessionSpec, ToolBrokerRef},
};
use dormouse_engine::{Engine, EngineOptions, Engines};
use dormouse_gateway::{
    Gateway, Kernels,
    auth::loopback::Loopback,
    directory::{Directory, KernelPod, Key, Role},
};
use dormouse_kernel::{BrokerTools, Environment, Pod, PodConfig, Threads};
use dormouse_lifecycle::SessionKey;
use dormouse_protocol::kernel::KERNEL_PORT;
use dormouse_seal::Seal;
use dormouse_service::{
    Clock, Ids, Metrics,
    tls::{Identity, PeerClient, PeerIdentity, Process},
    wire::Http,
};
use dormouse_store::SnapshotStore;
use tokio_util::sync::CancellationToken;

use crate::{
    chaos::{Chaos, Rates},
    mutant::Mutant,
    network::Network,
    node::Node,
    operator::Operator,
    random::Random,
    service::Service,
    status::{Seen, Status},
    store::{Disk, Reached},
};

/// The one namespace.
pub const TEAM: &str = "team";

/// Before every key in the store.
pub const PREFIX: &str = "p/";

/// When every run begins.
const BEGIN: &str = "2030-01-01T00:00:00Z";

/// How long, in real time, everything may stand at one moment of virtual time.
const STANDSTILL_MAX: Duration = Duration::from_secs(24);

/// What a run may take in virtual time.
const RUN_MAX: Duration = Duration::from_secs(48 * 3_600);

/// Engines of two builds before this one.
static EARLIER: LazyLock<[Engine; 2]> = LazyLock::new(|| [1, 2].map(|number| Engine::twin(number).expect("the engine loads")));

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(EngineOptions::for_user()).expect("the engine loads"));

/// Forms requests, and never sends one.
static FORMS: LazyLock<reqwest::Client> = LazyLock::new(|| {
    dormouse_service::telemetry::install_tls_provider();
    reqwest::Client::builder().build().expect("a client")
});

/// Nobody fetches here.
static FETCHES: LazyLock<FetchClients> = LazyLock::new(|| FetchClients::new().expect("clients"));

/// Where a session is stored.
pub fn session_key(uid: &str, name: &str) -> SessionKey {
    SessionKey {
        store_prefix: PREFIX.to_owned(),
        tenant: TEAM.to_owned(),
        pool: "default".into(),
        uid: uid.to_owned(),
        name: name.to_owned(),
    }
}

/// A spec whose cells are the same every time.
pub fn spec() -> KernelSessionSpec {
    KernelSessionSpec {
        idle_seconds: 3_600,
        tool_broker_ref: Some(ToolBrokerRef::new("tools")),
        determinism: Some(Determinism { seed: 7, epoch: BEGIN.to_owned() }),
        ..KernelSessionSpec::default()
    }
}

/// A kernel pod and its process.
#[derive(Clone)]
pub struct PodHandle {
    pub node: Node,
    pub pod: Pod,
    pub entry: KernelPod,
}

/// Where clients reach a gateway.
#[derive(Clone)]
pub struct Door {
    pub node: Node,
    pub host: String,
}

/// A gateway and its process.
#[derive(Clone)]
pub struct GatewayHandle {
    door: Door,
    pub seen: Arc<Seen>,
}

impl Deref for GatewayHandle {
    type Target = Door;

    fn deref(&self) -> &Door {
        &self.door
    }
}

/// Everything. Clones are the same world.
#[derive(Clone)]
pub struct World {
    pub chaos: Chaos,
    pub network: Network,
    pub disk: Disk,
    pub status: Status,
    pub service: Service,
    pub operator: Operator,
    pub clock: Clock,
    numbers: Arc<Mutex<u16>>,
}

/// Runs `scenario` in a world of its own: on a thread of its own, whose every source of chance is the seed.
pub fn run<T: Send + 'static, F: Future<Output = T>>(
    seed: u64,
    rates: Rates,
    mutant: Option<Mutant>,
    scenario: impl FnOnce(World) -> F + Send + 'static,
) -> T {
    // Compiled once, and before anybody's time stands still.
    LazyLock::force(&ENGINE);
    LazyLock::force(&FORMS);
    LazyLock::force(&FETCHES);
    let thread = std::thread::Builder::new().name(format!("seed {seed}")).stack_size(16 << 20);
    let running = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let done = runtime.block_on(async move {
            let world = World::new(seed, rates, mutant);
            let (chaos, network) = (world.chaos.clone(), world.network.clone());
            let done = tokio::select! {
                biased;
                done = tokio::time::timeout(RUN_MAX, scenario(world)) => {
                    done.unwrap_or_else(|_| panic!("not over after {} h: {:?}", RUN_MAX.as_secs() / 3_600, chaos.trace().last()))
                }
                () = no_time_passes() => panic!("somebody works without end, and no time passes: {:?}", chaos.trace().last()),
            };
            network.end();
            done
        });
        runtime.shutdown_background();
        done
    });
    match running.expect("a thread").join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Ends when everything stands at one moment for long: paused time goes on only when every task waits.
async fn no_time_passes() {
    let woken = Arc::new(tokio::sync::Notify::new());
    let weak = Arc::downgrade(&woken);
    std::thread::spawn(move || {
        while let Some(woken) = weak.upgrade() {
            woken.notify_one();
            drop(woken);
            std::thread::park_timeout(STANDSTILL_MAX / 4);
        }
    });
    let (mut last, mut same) = (tokio::time::Instant::now(), 0);
    while same < 4 {
        woken.notified().await;
        let now = tokio::time::Instant::now();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
}

impl World {
    fn new(seed: u64, rates: Rates, mutant: Option<Mutant>) -> Self {
        let chaos = Chaos::new(seed, rates, mutant);
        let network = Network::new(chaos.clone());
        let clock = Clock::following_runtime(BEGIN.parse().expect("a time"));
        let status = Status::default();
        let node = Node::new("operator");
        let kernels = Kernels::new(peer(&network, &node, Process::Operator));
        let operator = Operator { status: status.clone(), kernels, clock, deaf: Arc::default() };
        let disk = Disk::default();
        let service = Service::new(chaos.clone());
        operator.finish_deletions(Reached { node, disk: disk.clone(), chaos: chaos.clone() });
        Self { chaos, network, disk, status, service, operator, clock, numbers: Arc::default() }
    }

    /// The same world for processes that start so much later. Those of before have to be gone: their clocks go on as they did.
    pub fn later(&self, days: i64) -> Self {
        let clock = Clock::following_runtime(self.clock.now() + jiff::SignedDuration::from_hours(24 * days));
        let operator = Operator { clock, ..self.operator.clone() };
        Self { clock, operator, ..self.clone() }
    }

    fn number(&self) -> u16 {
        let mut numbers = self.numbers.lock().unwrap();
        *numbers += 1;
        *numbers
    }

    /// The names that a process gives.
    fn ids(&self, process: &str) -> Ids {
        Ids::seeded(Random::of(self.chaos.seed(), &("ids", process)).next())
    }

    /// The store as a process of this name reaches it.
    pub fn store(&self, node: &Node) -> Reached {
        Reached { node: node.clone(), disk: self.disk.clone(), chaos: self.chaos.clone() }
    }

    /// A new kernel pod of this name, once its store has passed its probe.
    pub async fn pod(&self, name: &str) -> PodHandle {
        self.pod_with(name, 8).await
    }

    pub async fn pod_with(&self, name: &str, slots: u32) -> PodHandle {
        self.pod_of(name, slots, ENGINE.clone()).await
    }

    /// A pod of a build so many before this one, which knows the engines of those before it.
    pub async fn earlier_pod(&self, name: &str, builds: usize) -> PodHandle {
        let mut engines: Vec<Engine> = EARLIER.iter().cloned().chain([ENGINE.clone()]).collect();
        engines.truncate(engines.len() - builds);
        let current = engines.pop().expect("a build");
        self.pod_of(name, 8, Engines::with_earlier(current, engines)).await
    }

    async fn pod_of(&self, name: &str, slots: u32, engines: impl Into<Engines>) -> PodHandle {
        let node = Node::new(name);
        let pod = self.serve_pod(&node, slots, engines, Arc::new(self.store(&node)));
        let number = self.number();
        let entry = KernelPod {
            pod: name.to_owned(),
            uid: format!("{name}-{number}"),
            namespace: TEAM.to_owned(),
            pool: "default".to_owned(),
            address: address(number),
            ready: true,
            role: Role::Both,
            given_to: None,
        };
        let handle = PodHandle { node, pod, entry };
        while !handle.pod.readiness().is_ready() {
            if handle.node.is_dead() {
                return handle;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.status.set_pods(|pods| pods.push(handle.entry.clone()));
        self.operator.follow(handle.entry.clone(), handle.pod.info().boot.into());
        handle
    }

    /// A kernel pod in this process, over this store; it listens.
    pub fn serve_pod(&self, node: &Node, slots: u32, engines: impl Into<Engines>, store: Arc<dyn SnapshotStore>) -> Pod {
        let name = node.name();
        let identity = PeerIdentity {
            process: Process::Kernel,
            namespace: TEAM.into(),
            pool: Some("default".into()),
            incarnation: None,
            session: None,
            name: Some(name.into()),
        };
        let client = PeerClient::over(FORMS.clone(), self.network.wire(node, Some(identity)));
        let tools = BrokerTools::new(client, "{name}.{namespace}:443");
        let config = PodConfig {
            pod: name.to_owned(),
            namespace: TEAM.to_owned(),
            pool: "default".to_owned(),
            slots,
            cache_bytes: 64 << 20,
            store_prefix: PREFIX.to_owned(),
            role: dormouse_kernel::Role::Shared,
        };
        let environment = Environment { clock: self.clock, threads: Threads::Inline, ids: self.ids(name), ..Environment::default() };
        let pod = Pod::within(config, engines, store, Arc::new(tools), Seal::none(), environment).expect("a pod");
        let host = Identity::kernel(TEAM, "default", name).dns_name();
        self.network.listen(&host, node, pod.routes(CancellationToken::new()));
        pod
    }

    /// A new gateway, which does its background wakes, too.
    pub fn gateway(&self, name: &str) -> GatewayHandle {
        let node = Node::new(name);
        let seen = Seen::new(&node, &self.status, &self.chaos);
        let door = self.serve_gateway(&node, Arc::clone(&seen) as Arc<dyn Directory>);
        GatewayHandle { door, seen }
    }

    /// A gateway in this process, over this directory; it listens.
    pub fn serve_gateway(&self, node: &Node, directory: Arc<dyn Directory>) -> Door {
        let name = node.name();
        let kernels = Kernels::new(peer(&self.network, node, Process::Gateway));
        let gateway = Gateway::new(directory, kernels, Arc::new(Loopback::default())).with_clock(self.clock).with_ids(self.ids(name));
        let host = format!("{name}.gateway");
        self.network.listen(&host, node, gateway.routes(CancellationToken::new()));
        let (wakes, ends) = (gateway.background_wakes(CancellationToken::new()), node.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = wakes => {},
                () = ends.died() => {},
            }
        });
        Door { node: node.clone(), host }
    }

    /// A new broker process.
    pub fn broker(&self, name: &str) -> Node {
        let node = Node::new(name);
        let own = self.chaos.is(Mutant::BrokersForThemselves);
        let disk = if own { Disk::default() } else { self.disk.clone() };
        self.serve_broker(&node, Arc::new(Reached { disk, ..self.store(&node) }));
        node
    }

    /// A broker in this process, over this store; it listens.
    pub fn serve_broker(&self, node: &Node, store: Arc<dyn SnapshotStore>) {
        let place = BrokerStore {
            store,
            prefix: PREFIX.to_owned(),
            namespace: TEAM.to_owned(),
            broker: "tools".to_owned(),
            seal: Arc::new(Seal::none()),
        };
        let http = Http::over(FORMS.clone(), Arc::new(self.service.clone()));
        let world = Surroundings { http, fetches: FETCHES.clone(), ids: self.ids(node.name()), clock: self.clock };
        let broker = Broker::over(&tools(), Secrets::memory(Default::default()), &Metrics::new(), Some(place), world).expect("a broker");
        let host = Identity::new(Process::Broker, TEAM, "tools").dns_name();
        self.network.listen(&host, node, broker.router(TEAM));
    }

    /// Kills a pod; the operator notices in a while.
    pub fn kill(&self, pod: &PodHandle) {
        self.chaos.note(format!("{} is killed", pod.node.name()));
        pod.node.kill();
        self.operator.pod_gone(&pod.entry.uid);
    }

    /// A client's process.
    pub fn wire(&self, name: &str) -> Arc<dyn dormouse_service::wire::Wire> {
        self.network.wire(&Node::new(name), None)
    }

    pub fn forms(&self) -> reqwest::Client {
        FORMS.clone()
    }
}

/// Where a pod of this number listens.
pub fn address(number: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], KERNEL_PORT))
}

/// Requests of a gateway or an operator.
pub fn peer(network: &Network, node: &Node, process: Process) -> PeerClient {
    let name = (process == Process::Gateway).then(|| node.name().into());
    let identity = PeerIdentity { process, namespace: "system".into(), pool: None, incarnation: None, session: None, name };
    PeerClient::over(FORMS.clone(), network.wire(node, Some(identity)))
}

/// This build's engine.
pub fn engine() -> Engine {
    ENGINE.clone()
}

/// `charge` is not safe to repeat, `look` is; `transfer` is `charge` once a person has agreed.
fn tools() -> ToolBrokerSpec {
    serde_json::from_value(serde_json::json!({
        "services": [{
            "name": "far", "baseUrl": "http://far.example/", "allowedMethods": ["GET", "POST"],
            "requestBytesMax": 16 << 20, "responseBytesMax": 1 << 20,
        }],
        "tools": [
            {"name": "charge", "service": "far", "method": "POST", "path": "/charge", "timeoutMs": 5_000},
            {"name": "look", "service": "far", "method": "GET", "path": "/look", "timeoutMs": 5_000},
            {
                "name": "transfer", "service": "far", "method": "POST", "path": "/charge", "timeoutMs": 5_000,
                "approval": {"expiresSeconds": 3 * 365 * 86_400},
            },
        ],
    }))
    .expect("a spec")
}

/// The name of a session as the gateway's directory has it.
pub fn key(name: &str) -> Key {
    Key::new(TEAM, name)
}
