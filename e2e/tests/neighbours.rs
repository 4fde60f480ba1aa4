//! A hundred sessions that behave beside a hundred that do not, for as long as one likes: `cargo xtask soak neighbours`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use dormouse_client::Client;
use dormouse_conformance::hostile::{self, Script};
use dormouse_protocol::eval::EvalRequest;
use dormouse_testkit::{random::Random, soak};
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{
    attacks::{self, Honest},
    fleet::Fleet,
};

/// Sessions of each kind in a soak, and in every other run.
const SESSIONS: u64 = 100;
const SESSIONS_SMALL: u64 = 8;
/// Cells of each honest session where no soak is wanted.
const CELLS_SMALL: u64 = 8;
/// How long a soak takes, in seconds, unless [`SECONDS_ENV`] says otherwise.
const SECONDS: u64 = 3_600;
const SECONDS_ENV: &str = "DORMOUSE_SOAK_SECONDS";
/// The longest pause of somebody who behaves between two cells.
const THINKING_MAX: Duration = Duration::from_secs(2);
/// How long a hostile client waits for its answer before it sends the next cell.
const HOSTILE_TIMEOUT: Duration = Duration::from_secs(10);

/// When somebody who behaves has done enough.
#[derive(Clone, Copy)]
enum Until {
    Cells(u64),
    Then(Instant),
}

impl Until {
    fn of_this_run() -> Self {
        let seconds = std::env::var(SECONDS_ENV).map_or(SECONDS, |text| text.parse().expect("DORMOUSE_SOAK_SECONDS is a number"));
        match soak::count(CELLS_SMALL, 0) {
            0 => Self::Then(Instant::now() + Duration::from_secs(seconds)),
            cells => Self::Cells(cells),
        }
    }

    fn is_over(self, cells: usize) -> bool {
        match self {
            Self::Cells(wanted) => cells as u64 >= wanted,
            Self::Then(end) => Instant::now() >= end,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_sessions_beside_hostile_ones_have_every_value_right() {
    let mut fleet = Fleet::start(&attacks::outside().await.0).await;
    let (client, sessions) = (fleet.client(), soak::count(SESSIONS_SMALL, SESSIONS));
    let scripts = Arc::new(hostile::scripts().unwrap());
    let (over, attacked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut hostile = JoinSet::new();
    let mut honest = JoinSet::new();
    for number in 0..sessions {
        attacks::create(&client, &format!("hostile-{number}"), json!({"evalTimeoutMs": 1_000})).await;
        let session = Honest::new(&client, &format!("honest-{number}")).await;
        hostile.spawn(attack(client.clone(), number, Arc::clone(&scripts), Arc::clone(&over), Arc::clone(&attacked)));
        honest.spawn(behave(session, number, Until::of_this_run()));
    }
    let began = Instant::now();
    let mut took = Vec::new();
    while let Some(session) = honest.join_next().await {
        took.extend(session.expect("every value is right"));
    }
    let seconds = began.elapsed().as_secs();
    over.store(true, Ordering::Relaxed);
    while let Some(session) = hostile.join_next().await {
        session.expect("hostile cells end in typed errors");
    }
    for shared in fleet.processes() {
        shared.assert_small();
    }
    took.sort_unstable();
    let part = |percent: usize| took[took.len() * percent / 100].as_secs_f64() * 1e3;
    let (p50, p99, most, cells) = (part(50), part(99), took[took.len() - 1].as_secs_f64() * 1e3, took.len());
    let hostile_cells = attacked.load(Ordering::Relaxed);
    assert!(hostile_cells > sessions, "only {hostile_cells} hostile cells ran");
    soak::report(&format!(
        "{sessions} hostile and {sessions} honest sessions, {seconds} s: {cells} honest cells, p50 {p50:.1} ms, p99 {p99:.1} ms, \
         at most {most:.0} ms, every value right; {hostile_cells} hostile cells"
    ));
}

/// Counts, with pauses; answers how long each cell took.
async fn behave(mut session: Honest, number: u64, until: Until) -> Vec<Duration> {
    let (mut random, mut took) = (Random::new(number + 1), Vec::new());
    while !until.is_over(took.len()) {
        tokio::time::sleep(random.duration(THINKING_MAX)).await;
        let asked = Instant::now();
        session.count().await;
        took.push(asked.elapsed());
    }
    took
}

/// Runs hostile scripts, one after the other, each session from another place among them.
async fn attack(client: Client, number: u64, scripts: Arc<Vec<Script>>, over: Arc<AtomicBool>, attacked: Arc<AtomicU64>) {
    let (name, first) =
        (format!("hostile-{number}"), usize::try_from(number).unwrap() * scripts.len() / usize::try_from(SESSIONS).unwrap());
    for script in scripts.iter().cycle().skip(first) {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let cell = EvalRequest { code: script.source.clone(), ..EvalRequest::default() };
        let Ok(ended) = tokio::time::timeout(HOSTILE_TIMEOUT, client.eval(&name, &cell)).await else { continue };
        attacked.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = ended {
            assert!(error.code().is_some(), "{}: {error}", script.name);
        }
    }
}
