//! SIGKILL of gateway, kernel pod and operator in turns, beside clients that count and clients that read: every cell runs once, and is told of once.

use std::time::Duration;

use dormouse_client::Client;
use dormouse_protocol::{ErrorCode, eval::EvalRequest, event::EventBody};
use dormouse_testkit::{random::Random, soak, wait::eventually};
use futures::StreamExt as _;
use serde_json::json;
use tokio::{
    sync::watch::{self, Receiver, Sender},
    task::JoinSet,
    time::Instant,
};

use crate::support::{
    attacks::{self, Honest, patient},
    fleet::Fleet,
};

/// Sessions, each with one who counts and one who reads.
const SESSIONS_SMALL: u64 = 3;
const SESSIONS: u64 = 20;
/// Kills, and in a soak the seconds from one to the next; else the next comes as soon as everybody has gone on.
const KILLS_SMALL: u64 = 3;
const KILLS: u64 = 120;
const PERIOD_SECONDS: u64 = 10;
/// The longest pause between two cells of a session.
const THINKING_MAX: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn whoever_counts_and_whoever_reads_misses_nothing_while_everything_is_killed() {
    let mut fleet = Fleet::start(&attacks::outside().await.0).await;
    let (client, sessions, kills) = (fleet.client(), soak::count(SESSIONS_SMALL, SESSIONS), soak::count(KILLS_SMALL, KILLS));
    let (over, _) = watch::channel(false);
    let (mut counting, mut reading, mut heard) = (JoinSet::new(), JoinSet::new(), Vec::new());
    for number in 0..sessions {
        let name = format!("counter-{number}");
        let session = Honest::new(&client, &name).await;
        let (tell, told) = watch::channel(0);
        heard.push(told.clone());
        counting.spawn(count(session, number, over.subscribe()));
        reading.spawn(read(client.clone(), name, tell));
    }
    let began = Instant::now();
    for kill in 0..kills {
        everybody_goes_on(&heard).await;
        tokio::time::sleep_until(began + Duration::from_secs((kill + 1) * soak::count(0, PERIOD_SECONDS))).await;
        let victim = match kill % 3 {
            0 => &mut fleet.gateway,
            1 => &mut fleet.kernel,
            _ => &mut fleet.operator,
        };
        victim.kill();
        victim.ready().await;
    }
    everybody_goes_on(&heard).await;
    over.send_replace(true);
    let (mut cells, mut longest) = (0, Duration::ZERO);
    while let Some(counted) = counting.join_next().await {
        let (count, most) = counted.expect("every value is right");
        cells += count;
        longest = longest.max(most);
    }
    let told = || heard.iter().map(|heard| *heard.borrow()).sum::<u64>();
    eventually("every cell is told of", async || told() == cells).await;
    assert!(reading.try_join_next().is_none(), "a reader has found something wrong");
    soak::report(&format!(
        "{kills} kills of gateway, kernel pod or operator in {} s, beside {sessions} sessions: {cells} cells, each ran once and was told of once, \
         in order and without a gap; the longest took {:.1} s with all its retries",
        began.elapsed().as_secs(),
        longest.as_secs_f64(),
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_runs_again_says_that_what_it_has_shown_does_not_hold() {
    let mut fleet = Fleet::start(&attacks::outside().await.0).await;
    let client = fleet.client();
    attacks::create(&client, "again", json!({})).await;
    // It ends by request only, and nothing of it is stored before.
    let cell = EvalRequest { code: "console.log(crypto.randomUUID()); for (;;) {}".to_owned(), ..EvalRequest::default() };
    let events = patient(|| client.eval_events("again", &cell)).await;
    let mut events = std::pin::pin!(events);
    let mut shown = Vec::new();
    let end = loop {
        let event = events.next().await.expect("its end comes").unwrap();
        match event.body {
            EventBody::Log { text, .. } => {
                shown.push(Some(text));
                if shown.len() == 1 {
                    fleet.kernel.kill();
                    fleet.kernel.ready().await;
                } else {
                    client.interrupt("again").await.unwrap();
                }
            }
            EventBody::Restarted {} => shown.push(None),
            EventBody::Final { result } => break result,
            EventBody::Error { code, message } => panic!("{code}: {message}"),
            _ => {}
        }
    };
    assert!(matches!(&shown[..], [Some(first), None, Some(second)] if first != second), "it prints otherwise each time: {shown:?}");
    assert_eq!(end.error.unwrap().code, ErrorCode::Interrupted);
    assert_eq!(end.console.iter().map(|line| Some(line.text.clone())).collect::<Vec<_>>(), shown[2..], "what comes last is what was");
}

/// Until each session has been told of one more cell.
async fn everybody_goes_on(heard: &[Receiver<u64>]) {
    let before: Vec<u64> = heard.iter().map(|heard| *heard.borrow()).collect();
    let went_on = async || heard.iter().zip(&before).all(|(heard, before)| *heard.borrow() > *before);
    eventually("every session goes on, and its reader hears it", went_on).await;
}

/// Counts until it is `over`; answers how many cells, and how long the longest took.
async fn count(mut session: Honest, number: u64, over: Receiver<bool>) -> (u64, Duration) {
    let (mut random, mut cells, mut longest) = (Random::new(number + 1), 0, Duration::ZERO);
    while !*over.borrow() {
        tokio::time::sleep(random.duration(THINKING_MAX)).await;
        let asked = Instant::now();
        session.count().await;
        cells += 1;
        longest = longest.max(asked.elapsed());
    }
    (cells, longest)
}

/// Follows the session's events wherever they were cut off, and tells how many cells it has heard of.
async fn read(client: Client, name: String, tell: Sender<u64>) {
    let (mut after, mut cells) = (None, 0);
    loop {
        let events = patient(|| client.events(&name, after, true)).await;
        let mut events = std::pin::pin!(events);
        while let Some(Ok(event)) = events.next().await {
            assert_eq!(event.seq, after.map_or(1, |after| after + 1), "{name}: no event is left out or told twice");
            after = Some(event.seq);
            if let EventBody::Log { text, .. } = event.body {
                cells += 1;
                assert_eq!(text, cells.to_string(), "{name}");
                tell.send_replace(cells);
            }
        }
    }
}
