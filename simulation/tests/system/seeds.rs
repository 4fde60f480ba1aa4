//! Schedules by seed: what clients do, what dies, what is lost and late, until faults stop; then everything must be as it was answered.

use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dormouse_crds::session::{Durability, KernelSessionSpec};
use dormouse_lifecycle::{Head, sweep};
use http::Method;
use tokio::time::sleep;

use crate::{
    chaos::{Chaos, Fate, Rates},
    client::{BUDGET, Client},
    model::Model,
    mutant::Mutant,
    node::Node,
    player::{Kind, LOOKS, Player},
    random::Random,
    status::Backup,
    world::{self, GatewayHandle, PREFIX, PodHandle, TEAM, World, key, session_key},
};

/// Seeds unless `DORMOUSE_SEEDS` says otherwise.
const SEEDS: u64 = 2_000;

/// What clients do, and how often beside each other. What is too large takes half a second of a processor each time.
const KINDS: [(Kind, u64); 23] = [
    (Kind::Push, 80),
    (Kind::Await, 48),
    (Kind::Run, 24),
    (Kind::Ask, 12),
    (Kind::Charge, 48),
    (Kind::Throw, 16),
    (Kind::Overrun, 8),
    (Kind::ChargeAndOverrun, 8),
    (Kind::TooLarge, 1),
    (Kind::WriteFile, 24),
    (Kind::Upload, 16),
    (Kind::Uploads, 8),
    (Kind::ReadFile, 24),
    (Kind::Events, 24),
    (Kind::Timer, 24),
    (Kind::Retry, 32),
    (Kind::Checkpoint, 16),
    (Kind::Restore, 8),
    (Kind::Fork, 8),
    (Kind::Sleep, 24),
    (Kind::Wake, 8),
    (Kind::Interrupt, 8),
    (Kind::Wedge, 8),
];

/// The gateways that a client may use, and how many processes were lost so far. Clones are the same.
#[derive(Clone, Default)]
pub struct Gateways {
    all: Arc<Mutex<Vec<GatewayHandle>>>,
    losses: Arc<AtomicU64>,
    rollbacks: Arc<AtomicU64>,
}

impl Gateways {
    pub fn pick(&self, random: &mut Random) -> GatewayHandle {
        random.pick(&self.all.lock().unwrap()).clone()
    }

    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    /// Whether status was ever put back: then nobody knows of timers that were set since.
    pub fn status_went_back(&self) -> bool {
        self.rollbacks.load(Ordering::SeqCst) > 0
    }

    fn lost(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
    }
}

/// What dies and fails beside the clients.
struct Fates {
    world: World,
    gateways: Gateways,
    random: Random,
    pods: Vec<PodHandle>,
    brokers: Vec<Node>,
    client: Client,
    sessions: Vec<String>,
    made: u64,
    backup: Option<Backup>,
}

impl Fates {
    async fn next(&mut self) {
        match self.random.below(20) {
            0..=3 => self.replace_pod(true).await,
            4 | 5 => self.replace_pod(false).await,
            6 | 7 => {
                let name = self.random.pick(&self.sessions).clone();
                self.world.chaos.note(format!("the placement of {name} is cleared"));
                self.gateways.lost();
                self.world.operator.clear(&key(&name));
            }
            8 => self.replace_broker(),
            9 => self.outage("store", "put"),
            10 => self.outage("store", "get"),
            11 => self.outage("status", "assign"),
            12 => self.replace_gateway(),
            13 | 14 => {
                let held = Duration::from_millis(self.random.between(500, 40_000));
                self.gateways.pick(&mut self.random).seen.hold_back(held);
            }
            15 | 16 => self.order("hibernate").await,
            17 => self.order("wake").await,
            18 => self.status_goes_back(),
            _ => {}
        }
    }

    /// A pod dies, or is only believed dead; another one comes.
    async fn replace_pod(&mut self, dies: bool) {
        self.made += 1;
        let name = format!("p{}", 10 + self.made);
        let Ok(next) = tokio::time::timeout(Duration::from_secs(120), self.world.pod_with(&name, 4)).await else { return };
        let at = self.random.below(self.pods.len() as u64) as usize;
        let gone = std::mem::replace(&mut self.pods[at], next);
        self.gateways.lost();
        if dies {
            self.world.kill(&gone);
        } else {
            self.world.chaos.note(format!("{} is believed dead", gone.node.name()));
            self.world.operator.drop_pod(&gone.entry.uid);
        }
    }

    fn replace_broker(&mut self) {
        self.made += 1;
        let at = self.random.below(self.brokers.len() as u64) as usize;
        let next = self.world.broker(&format!("b{}", 10 + self.made));
        std::mem::replace(&mut self.brokers[at], next).kill();
    }

    fn replace_gateway(&mut self) {
        self.made += 1;
        let next = self.world.gateway(&format!("g{}", 10 + self.made));
        let mut all = self.gateways.all.lock().unwrap();
        let at = self.random.below(all.len() as u64) as usize;
        std::mem::replace(&mut all[at], next).node.kill();
    }

    /// Status is put back from a backup, unless that would take a session away that was made since: nobody could say what is right then.
    fn status_goes_back(&mut self) {
        match self.backup.take() {
            Some(backup) if backup.has_the_sessions_of(&self.world.status) => {
                self.world.chaos.note("status is put back from a backup");
                self.gateways.lost();
                self.gateways.rollbacks.fetch_add(1, Ordering::SeqCst);
                self.world.status.restore(&backup);
            }
            _ => self.backup = Some(self.world.status.backup()),
        }
    }

    fn outage(&mut self, what: &'static str, verb: &'static str) {
        let length = Duration::from_millis(self.random.between(200, 45_000));
        let fate = *self.random.pick(&[Fate::Busy, Fate::RequestLost, Fate::Refused]);
        self.world.chaos.note(format!("{what} {verb} is out for {length:?}: {fate:?}"));
        let begun = tokio::time::Instant::now();
        self.world.chaos.rule(move |act| (act.to == what && act.verb == verb && begun.elapsed() < length).then_some(fate));
    }

    async fn order(&mut self, order: &str) {
        let (name, gateway) = (self.random.pick(&self.sessions).clone(), self.gateways.pick(&mut self.random));
        self.client.order(&gateway, &name, order).await;
    }
}

/// What a seed came to.
#[derive(Debug, Default, Clone)]
pub struct Summary {
    pub acked: u64,
    pub effects: u64,
    pub trace: Vec<String>,
}

fn rates(random: &mut Random) -> Rates {
    let mut up_to = |most: u64| if random.one_in(3) { 0 } else { random.below(most + 1) };
    Rates {
        request_lost: up_to(12),
        reply_lost: up_to(40),
        late: up_to(20),
        busy: up_to(40),
        conflict: up_to(15),
        delay_ms_max: 2 + up_to(60),
    }
}

async fn explore(world: World, seed: u64) -> Summary {
    let mut random = Random::of(seed, &"schedule");
    let durability =
        *random.pick(&[Durability::PerEval, Durability::PerEval, Durability::PerEval, Durability::Batched, Durability::OnIdle]);
    let mut spec = KernelSessionSpec { durability, idle_seconds: *random.pick(&[5, 30, 3_600]), ..world::spec() };
    spec.limits.eval_ticks = 4;
    spec.checkpoints.keep = random.below(4) as u32;
    let pods = random.between(1, 3);
    let mut fates = Fates {
        world: world.clone(),
        gateways: Gateways::default(),
        random: Random::of(seed, &"fates"),
        pods: Vec::new(),
        brokers: vec![world.broker("b1"), world.broker("b2")],
        client: Client::new(&world, "order"),
        sessions: vec!["s".to_owned()],
        made: 0,
        backup: None,
    };
    for n in 0..pods {
        let pod = world.pod_with(&format!("p{n}"), 4).await;
        fates.pods.push(pod);
    }
    for n in 0..2 {
        let gateway = world.gateway(&format!("g{n}"));
        fates.gateways.all.lock().unwrap().push(gateway);
    }
    let client = Client::new(&world, "client");
    let gateways = fates.gateways.clone();
    let mut player = Player {
        name: "s".to_owned(),
        world: world.clone(),
        client: client.clone(),
        gateways: gateways.clone(),
        random: Random::of(seed, &"player"),
        model: Model::default(),
        durability,
        made: 0,
        answered: Vec::new(),
        labels: BTreeMap::new(),
        timers: Vec::new(),
        straight: true,
        losses_seen: 0,
        outdated_until: tokio::time::Instant::now(),
        forks: Vec::new(),
        wedged: Vec::new(),
        acked: 0,
        events: BTreeMap::new(),
    };
    let first = gateways.pick(&mut random);
    client.create(&first, "s", &spec).await;
    let things = random.between(4, 14);
    let failing = tokio::spawn(async move {
        loop {
            let pause = fates.random.between(100, 8_000);
            sleep(Duration::from_millis(pause)).await;
            fates.next().await;
        }
    });
    let all: u64 = KINDS.iter().map(|(_, weight)| weight).sum();
    let chaos = world.chaos.clone();
    // Faults stop, whether clients have got on or not.
    let calm = tokio::spawn(async move {
        sleep(Duration::from_secs(600)).await;
        chaos.calm();
    });
    for _ in 0..things {
        let mut drawn = random.below(all);
        let kind = KINDS.iter().find(|(_, weight)| match drawn.checked_sub(*weight) {
            Some(left) => {
                drawn = left;
                false
            }
            None => true,
        });
        player.play(kind.expect("weights add up").0).await;
    }
    failing.abort();
    calm.abort();
    settle(&world).await;
    player.finish().await;
    nothing_unnamed(&world, &client, &gateways).await;
    let effects = world.service.done();
    for (id, times) in effects.iter().filter(|(id, _)| !id.starts_with(LOOKS)) {
        assert_eq!(*times, 1, "one key, one effect: {id}");
    }
    Summary { acked: player.acked, effects: effects.len() as u64, trace: world.chaos.trace() }
}

/// Faults have stopped: whoever is alive sees what is true, and what was under way comes to its end.
async fn settle(world: &World) {
    world.chaos.calm();
    world.network.mend();
    if world.status.pods().is_empty() {
        world.pod("last").await;
    }
    // Timers of two minutes at most, and the longest pauses of whoever tries again.
    sleep(Duration::from_secs(420)).await;
}

/// Every object of a session is named by its head, once its next owner has committed; and nothing is left of one that is deleted.
async fn nothing_unnamed(world: &World, client: &Client, gateways: &Gateways) {
    let gateway = gateways.all.lock().unwrap()[0].clone();
    for at in world.status.keys() {
        // Twice: an owner that does not know yet that it was replaced may still put something behind the first one's sweep.
        for turn in 0..2 {
            client.order(&gateway, &at.name, "hibernate").await;
            sleep(Duration::from_secs(30)).await;
            world.operator.clear(&at);
            sleep(Duration::from_secs(2)).await;
            client.value(&gateway, &at.name, &format!("last-{turn}"), "1").await;
            sleep(Duration::from_secs(30)).await;
        }
        let uid = world.status.get(&at).expect("it is there").uid;
        let session = session_key(&uid, &at.name);
        let head = Head::decode(&world.disk.get(&session.head()).expect("a head")).expect("a head that verifies");
        let keys = world.disk.keys(&session.prefix());
        let unnamed = sweep::deletable(&keys, &head);
        assert!(unnamed.is_empty(), "garbage goes to zero: {unnamed:?}");
        let listed: std::collections::BTreeSet<&str> = keys.iter().map(String::as_str).collect();
        let missing: Vec<&str> = head.named_keys().filter(|key| !listed.contains(key)).collect();
        assert!(missing.is_empty(), "what a head names is there: {missing:?}");
    }
    for at in world.status.keys() {
        let uid = world.status.get(&at).expect("it is there").uid;
        assert!(client.insist(&gateway, Method::DELETE, &format!("/{}", at.name), None, BUDGET).await.is_ok());
        sleep(Duration::from_secs(60)).await;
        let left: Vec<String> = world.disk.keys(&format!("{PREFIX}t/{TEAM}/")).into_iter().filter(|key| key.contains(&uid)).collect();
        assert!(left.is_empty(), "nothing of a deleted session is left: {left:?}");
    }
}

/// Runs a seed; what is broken comes back as the sentence that says so.
pub fn run_seed(seed: u64, mutant: Option<Mutant>) -> Result<Summary, (String, Vec<String>)> {
    let kept: Arc<Mutex<Option<Chaos>>> = Arc::default();
    let keeps = Arc::clone(&kept);
    let rates = rates(&mut Random::of(seed, &"rates"));
    let run = std::panic::AssertUnwindSafe(move || {
        world::run(seed, rates, mutant, move |world| {
            *keeps.lock().unwrap() = Some(world.chaos.clone());
            explore(world, seed)
        })
    });
    std::panic::catch_unwind(run).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let trace = kept.lock().unwrap().as_ref().map(Chaos::trace).unwrap_or_default();
        (text.unwrap_or_default(), trace)
    })
}

fn say(text: &str) {
    // Past the test harness, which would swallow it: a soak's report is made of these lines.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_promise_holds_under_every_fault() {
    if let Some(seed) = number("DORMOUSE_SEED") {
        match run_seed(seed, None) {
            Ok(summary) => say(&format!("{}\nseed {seed}: {} acked, {} effects", summary.trace.join("\n"), summary.acked, summary.effects)),
            Err((broken, trace)) => panic!("{}\nseed {seed}: {broken}", trace.join("\n")),
        }
        return;
    }
    if let Some(seeds) = number("DORMOUSE_UNTIL_BROKEN") {
        let run = |seed| {
            say(&format!("soak: seed {seed}"));
            Some((seed, run_seed(seed, None).err()?))
        };
        match (1..=seeds).find_map(run) {
            Some((seed, (broken, _))) => say(&format!("soak: broken by seed {seed}: {}", broken.lines().next().unwrap_or_default())),
            None => say(&format!("soak: not broken by {seeds} seeds")),
        }
        return;
    }
    let (seeds, threads) = (number("DORMOUSE_SEEDS").unwrap_or(SEEDS), std::thread::available_parallelism().map_or(1, |n| n.get() as u64));
    let first = number("DORMOUSE_FIRST_SEED").unwrap_or(1);
    let (total, broken) = (Mutex::new((0, 0)), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let (total, broken) = (&total, &broken);
            scope.spawn(move || {
                for seed in (first + worker..first + seeds).step_by(threads as usize) {
                    match run_seed(seed, None) {
                        Ok(summary) => {
                            let mut total = total.lock().unwrap();
                            *total = (total.0 + summary.acked, total.1 + summary.effects);
                        }
                        Err((text, _)) => broken.lock().unwrap().push((seed, text)),
                    }
                }
            });
        }
    });
    let (acked, effects) = total.into_inner().unwrap();
    let mut broken = broken.into_inner().unwrap();
    broken.sort();
    for (seed, text) in broken.iter().take(40) {
        say(&format!("seed {seed}: {}", text.chars().take(400).collect::<String>()));
    }
    say(&format!("soak: {seeds} seeds, {} violations; {acked} things acked, {effects} effects", broken.len()));
    assert!(broken.is_empty(), "{} of {seeds} seeds are broken", broken.len());
    assert!(acked > seeds * 3, "it is worth something only if it gets somewhere: {acked} acked");
}

/// Seeds within which what is wrong must be noticed.
const MUTANT_SEEDS_MAX: u64 = 200;

/// The same for what is subtle, in a soak.
const SUBTLE_SEEDS_MAX: u64 = 5_000;

#[test]
fn surroundings_that_are_wrong_in_one_place_are_noticed() {
    let mut missed = Vec::new();
    let subtle: &[Mutant] = if number("DORMOUSE_SEEDS").is_some_and(|seeds| seeds >= SUBTLE_SEEDS_MAX) { &Mutant::SUBTLE } else { &[] };
    let subtle = subtle.iter().map(|mutant| (*mutant, SUBTLE_SEEDS_MAX));
    for (mutant, seeds) in Mutant::PLAIN.map(|mutant| (mutant, MUTANT_SEEDS_MAX)).into_iter().chain(subtle) {
        match (1..=seeds).find_map(|seed| Some((seed, run_seed(seed, Some(mutant)).err()?))) {
            Some((seed, (broken, _))) => {
                say(&format!("soak: {mutant:?}: noticed by seed {seed}: {}", broken.chars().take(120).collect::<String>()))
            }
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

/// The trace without the digests in keys: what they are made of holds how long code ran, by the real clock.
fn named(trace: &[String]) -> Vec<String> {
    let digest = |part: &str| part.len() == 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    trace
        .iter()
        .map(|line| {
            line.split('-')
                .map(|part| part.split(' ').map(|word| if digest(word) { "#" } else { word }).collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
                .join("-")
        })
        .collect()
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in 1..6 {
        let of = |run: Result<Summary, (String, Vec<String>)>| match run {
            Ok(summary) => summary.trace,
            Err((_, trace)) => trace,
        };
        let (once, twice) = (of(run_seed(seed, None)), of(run_seed(seed, None)));
        let (once, twice) = (named(&once), named(&twice));
        let differs = once.iter().zip(&twice).position(|(a, b)| a != b);
        assert!(once == twice, "seed {seed} is another run from line {differs:?} on: {:?}", differs.map(|at| (&once[at], &twice[at])));
    }
}
