//! SIGKILL of all that sessions stand on, one after the other, beside clients that count, clients that pay and clients that read: every cell runs once and
//! is told of once, and no call is made twice.

use std::time::Duration;

use dormouse_client::{Client, Error};
use dormouse_e2e::api::may_be_sent_again;
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
    attacks::{self, Honest, insist, patient},
    fleet::Fleet,
};

/// Sessions, each with one who counts and one who reads.
const SESSIONS_SMALL: u64 = 3;
const SESSIONS: u64 = 20;
/// Sessions whose every cell calls a tool that pays, and what each has for the numbers of its calls.
const PAYERS_SMALL: u64 = 1;
const PAYERS: u64 = 5;
const PAYMENTS_MAX: u64 = 1_000_000;
/// Kills, and in a soak the seconds from one to the next; else the next comes as soon as everybody has gone on.
const KILLS_SMALL: u64 = VICTIMS.len() as u64;
const KILLS: u64 = 120;
const PERIOD_SECONDS: u64 = 10;
/// The longest pause between two cells of a session.
const THINKING_MAX: Duration = Duration::from_millis(100);

/// Who dies, in turns.
const VICTIMS: [Victim; 6] = [Victim::Gateway, Victim::Kernel, Victim::Operator, Victim::Broker, Victim::Store, Victim::ApiServer];

#[derive(Debug, Clone, Copy)]
enum Victim {
    Gateway,
    Kernel,
    Operator,
    Broker,
    /// MinIO.
    Store,
    /// And its etcd.
    ApiServer,
}

impl Victim {
    /// SIGKILL, and until it serves again over what it had stored.
    async fn kill(self, fleet: &mut Fleet) {
        // It ends by itself when it could not renew its lease for some seconds, and a kubelet would start it again.
        if !fleet.operator.process.is_alive() {
            fleet.operator.kill();
        }
        let process = match self {
            Self::Gateway => &mut fleet.gateway,
            Self::Kernel => &mut fleet.kernel,
            Self::Operator => &mut fleet.operator,
            Self::Broker => &mut fleet.broker,
            Self::Store => return fleet.minio.restart().await.unwrap(),
            Self::ApiServer => return fleet.server.restart().await.unwrap(),
        };
        process.kill();
        process.ready().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_counts_pays_or_reads_misses_nothing_while_everything_is_killed() {
    let (outside, paid) = attacks::outside().await;
    let mut fleet = Fleet::start(&outside).await;
    let (client, sessions, kills) = (fleet.client(), soak::count(SESSIONS_SMALL, SESSIONS), soak::count(KILLS_SMALL, KILLS));
    let (over, _) = watch::channel(false);
    let (mut counting, mut reading, mut heard) = (JoinSet::new(), JoinSet::new(), Vec::new());
    for number in 0..sessions {
        let name = format!("counter-{number}");
        let session = Honest::who_asks_again(&client, &name, may_be_allowed_later).await;
        let (tell, told) = watch::channel(0);
        heard.push(told);
        counting.spawn(count(session, number, over.subscribe()));
        reading.spawn(read(client.clone(), name, tell));
    }
    let (mut paying, mut everybody) = (JoinSet::new(), heard.clone());
    for number in 0..soak::count(PAYERS_SMALL, PAYERS) {
        attacks::create(&client, &payer(number), json!({})).await;
        let (tell, told) = watch::channel(0);
        everybody.push(told);
        paying.spawn(pay(client.clone(), number, over.subscribe(), tell));
    }
    let began = Instant::now();
    for kill in 0..kills {
        everybody_goes_on(&everybody).await;
        tokio::time::sleep_until(began + Duration::from_secs((kill + 1) * soak::count(0, PERIOD_SECONDS))).await;
        VICTIMS[usize::try_from(kill).unwrap() % VICTIMS.len()].kill(&mut fleet).await;
    }
    everybody_goes_on(&everybody).await;
    over.send_replace(true);
    let (mut cells, mut longest) = (0, Duration::ZERO);
    while let Some(counted) = counting.join_next().await {
        let (count, most) = counted.expect("every value is right");
        cells += count;
        longest = longest.max(most);
    }
    let (mut calls, mut answered) = (0, 0);
    while let Some(payments) = paying.join_next().await {
        let (made, known) = payments.expect("every value is right");
        calls += made;
        answered += known;
    }
    let told = || heard.iter().map(|heard| *heard.borrow()).sum::<u64>();
    eventually("every cell is told of", async || told() == cells).await;
    assert!(reading.try_join_next().is_none(), "a reader has found something wrong");
    let paid = paid.lock().unwrap().clone();
    assert!(paid.values().all(|times| *times == 1), "nothing is paid twice: {paid:?}");
    let paid = paid.len() as u64;
    assert!((answered..=calls).contains(&paid), "{paid} payments, {answered} answers, {calls} calls");
    soak::report(&format!(
        "{kills} kills of gateway, kernel pod, operator, broker, MinIO or API server with etcd in {} s, beside {sessions} sessions: {cells} cells, each \
         ran once and was told of once, in order and without a gap; the longest took {:.1} s with all its retries; {calls} calls, of which {paid} had \
         their effect once and {answered} were answered",
        began.elapsed().as_secs(),
        longest.as_secs_f64(),
    ));
}

/// Whether a request is sent again: an API server that has just begun knows neither accounts nor roles for a moment, and refuses what it allowed before.
fn may_be_allowed_later(error: &Error) -> bool {
    let refused = [ErrorCode::Unauthenticated, ErrorCode::Forbidden, ErrorCode::Internal];
    may_be_sent_again(error) || error.code().is_some_and(|code| refused.contains(&code))
}

fn payer(number: u64) -> String {
    format!("payer-{number}")
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

/// Pays until it is `over`, under another number each time. Answers how many calls there were, and of how many it is known that they were made.
async fn pay(client: Client, number: u64, over: Receiver<bool>, tell: Sender<u64>) -> (u64, u64) {
    let (mut random, mut calls, mut answered) = (Random::new(PAYMENTS_MAX + number), 0, 0);
    while !*over.borrow() {
        tokio::time::sleep(random.duration(THINKING_MAX)).await;
        calls += 1;
        let amount = number * PAYMENTS_MAX + calls;
        // Whoever died while the call was made may have left it unknown whether it was: then the code is told so.
        let code = format!(
            "globalThis.n = (globalThis.n ?? 0) + 1; globalThis.times = 0; \
             try {{ times = (await callTool('charge', {{ amount: {amount} }})).times }} catch (error) {{ globalThis.why = error.name }} [n, times]"
        );
        let cell = EvalRequest { code, idempotency_key: Some(format!("k{calls}")), ..EvalRequest::default() };
        let (client, name) = (&client, payer(number));
        let result = insist(may_be_allowed_later, || client.eval(&name, &cell)).await;
        let is_answered = result.value == Some(json!([calls, 1]));
        assert!(is_answered || result.value == Some(json!([calls, 0])), "{name}: {result:?}");
        if is_answered {
            answered += 1;
            tell.send_replace(answered);
        }
    }
    (calls, answered)
}

/// Follows the session's events wherever they were cut off, and tells how many cells it has heard of.
async fn read(client: Client, name: String, tell: Sender<u64>) {
    let (mut after, mut cells) = (None, 0);
    loop {
        let events = insist(may_be_allowed_later, || client.events(&name, after, true)).await;
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
