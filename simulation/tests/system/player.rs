//! A client that does one thing after another in one session, each until it is answered for good, and holds every answer against its model.

mod files;
mod rest;
mod waits;

use std::{collections::BTreeMap, time::Duration};

use dormouse_crds::session::{Bootstrap, Durability, KernelSessionSpec};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::files::FILES;
use crate::{
    client::{Answer, BUDGET, Client, SPINS},
    model::{Model, Step},
    random::Random,
    seeds::Gateways,
    world::{World, key},
};

/// How long a client goes on with one thing: longer than faults last.
const PATIENCE: Duration = Duration::from_secs(3 * 3_600);

/// What looks and need not do so once.
pub const LOOKS: &str = "looks-";

/// How long a process may answer that has lost its session and does not know it, at most: as long as gateways see nothing new, and some.
const OUTDATED_MAX: Duration = Duration::from_secs(120);

/// Times that a key is sent once more of which nobody knows what came of it.
const RETRIES_MAX: u32 = 20;

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Push,
    Await,
    Run,
    Ask,
    Charge,
    Throw,
    Overrun,
    ChargeAndOverrun,
    TooLarge,
    WriteFile,
    Upload,
    Uploads,
    ReadFile,
    Events,
    Timer,
    Retry,
    Checkpoint,
    Restore,
    Fork,
    Sleep,
    Wake,
    Interrupt,
    Wedge,
}

pub struct Player {
    pub name: String,
    pub world: World,
    pub client: Client,
    pub gateways: Gateways,
    pub random: Random,
    pub model: Model,
    pub durability: Durability,
    pub made: u64,
    /// What was sent under each key, and its answer for good.
    pub answered: Vec<(String, String, Answer)>,
    /// The model at each label.
    pub labels: BTreeMap<String, Model>,
    /// Ids of timers that were acked and must fire.
    pub timers: Vec<String>,
    /// Whether timers and the journal can still be counted on: nothing went back.
    pub straight: bool,
    pub losses_seen: u64,
    /// Until when somebody may answer who has lost the session and does not know it.
    pub outdated_until: Instant,
    pub forks: Vec<Player>,
    /// Sessions whose bootstrap never ends, and that were deleted.
    pub wedged: Vec<String>,
    pub acked: u64,
    /// Every event that was ever read, by its number.
    pub events: BTreeMap<u64, Value>,
}

impl Player {
    fn id(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{}-{what}{}", self.name, self.made)
    }

    /// Does one thing.
    pub async fn play(&mut self, kind: Kind) {
        self.look_for_losses();
        self.world.chaos.note(format!("{} plays {kind:?}", self.name));
        match kind {
            Kind::Push => {
                let id = self.id("p");
                let code = format!("globalThis.log ??= []; log.push('{id}'); log.join()");
                self.cell(&id, &code, &[Step::Push(id.clone())]).await;
            }
            Kind::Await => {
                let (id, wait) = (self.id("a"), self.random.between(1, 4_000));
                let code = format!("globalThis.log ??= []; log.push('{id}'); await sleep({wait}); log.push('{id}+'); log.join()");
                self.cell(&id, &code, &[Step::Push(id.clone()), Step::Push(format!("{id}+"))]).await;
            }
            Kind::Run => self.background().await,
            Kind::Ask => self.ask().await,
            Kind::Charge => {
                let id = self.id("c");
                let code = format!(
                    "globalThis.log ??= []; log.push('{id}'); const r = await callTool('charge', {{id: '{id}'}}); if (r.times !== 1) throw new Error('twice'); log.join()"
                );
                let answer = self.cell(&id, &code, &[Step::Push(id.clone())]).await;
                if answer.json["ok"] == true {
                    assert_eq!(self.world.service.times(&id), 1, "a call that was answered was made once");
                }
            }
            Kind::Throw => {
                let id = self.id("t");
                let code = format!("globalThis.log ??= []; log.push('{id}'); throw new Error('{id}')");
                self.cell(&id, &code, &[Step::Push(id.clone())]).await;
            }
            Kind::Overrun => {
                let id = self.id("o");
                self.spins(&id).await;
                let code = format!("globalThis.log ??= []; log.push('{id}'); spin()");
                self.cell(&id, &code, &[Step::Push(id.clone())]).await;
            }
            Kind::ChargeAndOverrun => {
                let id = self.id("x");
                self.spins(&id).await;
                let code = format!("globalThis.log ??= []; await callTool('charge', {{id: '{id}'}}); log.push('{id}'); spin()");
                self.cell(&id, &code, &[Step::Push(id.clone())]).await;
            }
            Kind::TooLarge => {
                let id = self.id("l");
                // Each fits by itself.
                let calls = format!("callTool('look', {{id: '{id}', much: 'x'.repeat(9 << 20)}})");
                let code = format!("globalThis.log ??= []; log.push('{id}'); await sleep(1); {calls}; {calls}; await sleep(1); log.join()");
                self.cell(&id, &code, &[Step::Push(id.clone())]).await;
            }
            Kind::WriteFile => {
                let id = self.id("w");
                let code = format!(
                    "require('fs').writeFileSync('/f', '{id} '.repeat({})); globalThis.log ??= []; log.join()",
                    90_000 / (id.len() + 1)
                );
                self.cell(&id, &code, &[Step::Write("f".to_owned(), id.clone())]).await;
            }
            Kind::Upload => self.upload().await,
            Kind::Uploads => self.uploads().await,
            Kind::Interrupt => self.interrupt().await,
            Kind::Wedge => self.wedge().await,
            Kind::ReadFile => {
                let file = *self.random.pick(&FILES);
                self.read_file(file).await;
            }
            Kind::Events => {
                self.read_events().await;
            }
            Kind::Timer => {
                let (id, wait) = (self.id("s"), self.random.between(100, 120_000));
                // It looks until it is told: nobody has to wake the session for that.
                let code = format!(
                    "globalThis.fired ??= []; setTimeout(async () => {{ fired.push('{id}'); for (;;) {{ try {{ await callTool('look', {{id: '{LOOKS}{id}'}}); return }} catch {{ await sleep(1000) }} }} }}, {wait}); globalThis.log ??= []; log.join()"
                );
                if self.cell(&id, &code, &[]).await.json["ok"] == true {
                    self.timers.push(id);
                }
            }
            Kind::Retry => self.retry().await,
            Kind::Checkpoint => self.checkpoint().await,
            Kind::Restore => self.restore().await,
            Kind::Fork => self.fork().await,
            Kind::Sleep => drop(self.order("hibernate").await),
            Kind::Wake => drop(self.order("wake").await),
        }
    }

    /// Prepares for a cell that never ends, and takes its instance with it. What of this is lost makes it fail in another way.
    async fn spins(&mut self, id: &str) {
        self.run(&format!("{id}-spins"), SPINS).await;
        self.look_for_losses();
    }

    fn look_for_losses(&mut self) {
        // Whoever gives the session to somebody else takes its process for lost.
        let epoch = self.world.status.get(&key(&self.name)).and_then(|record| record.status.last_epoch).unwrap_or(0);
        let losses = self.gateways.losses() + epoch;
        if losses > self.losses_seen {
            self.losses_seen = losses;
            self.outdated_until = Instant::now() + OUTDATED_MAX;
            self.model.process_lost();
        }
    }

    async fn insist(&mut self, method: Method, path: &str, body: Option<Vec<u8>>) -> Answer {
        self.sender().insist(method, path, body, BUDGET).await
    }

    /// Sends what may take its time while the player does something else.
    fn sender(&mut self) -> Sender {
        Sender { client: self.client.clone(), gateways: self.gateways.clone(), random: Random::of(self.random.next(), &"sender") }
    }

    async fn order(&mut self, order: &str) -> Answer {
        let path = format!("/{}/{order}", self.name);
        let gateway = self.gateways.pick(&mut self.random);
        self.client.send(&gateway, Method::POST, &path, None, BUDGET).await
    }

    /// Runs a cell to its end, and takes that into the model.
    async fn cell(&mut self, key: &str, code: &str, steps: &[Step]) -> Answer {
        let answer = self.run(key, code).await;
        let durable = answer.json["durable"] != false;
        if self.durability != Durability::PerEval && !durable && self.client.may_still_arrive(key) {
            self.model.may_come_again(steps);
        }
        self.look_for_losses();
        // That is no end: pods died beneath the cell.
        if answer.code() != "OutcomeUnknown" {
            self.answered.push((key.to_owned(), code.to_owned(), answer.clone()));
        }
        // An answer ahead of storage may be of an owner that was replaced: then what it tells is lost with it.
        let outdated = !durable && Instant::now() < self.outdated_until;
        let thrown = answer.json["error"]["message"].as_str() == Some(key);
        if answer.status == 200 && (answer.json["ok"] == true || thrown) {
            self.acked += 1;
            if outdated {
                self.model.done_by_whoever(steps);
            } else {
                self.model.done(steps, durable);
            }
        } else {
            self.model.cut_short(steps);
        }
        if answer.json["ok"] == true && !outdated {
            self.saw_log(&answer);
        }
        answer
    }

    async fn run(&mut self, key: &str, code: &str) -> Answer {
        let body = json!({"code": code, "idempotencyKey": key}).to_string().into_bytes();
        self.insist(Method::POST, &format!("/{}/eval", self.name), Some(body)).await
    }

    fn saw_log(&mut self, answer: &Answer) {
        let Some(text) = answer.value().as_str() else { panic!("a log is text: {}", answer.json) };
        let log: Vec<String> = text.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
        let could = self.model.show();
        assert!(
            self.model.saw_log(&log),
            "what was acked is in every later state, and nothing is there twice: {} saw [{text}], and it could be [{could}]",
            self.name
        );
    }

    /// A session whose bootstrap never ends answers, and goes when it is told to.
    async fn wedge(&mut self) {
        let name = format!("{}w{}", self.name, self.wedged.len() + 1);
        let spec = KernelSessionSpec {
            bootstrap: Some(Bootstrap { code: "await sleep(1e12)".to_owned(), ..Bootstrap::default() }),
            ..crate::world::spec()
        };
        let body = json!({"name": name, "spec": spec}).to_string().into_bytes();
        let made = self.insist(Method::POST, "", Some(body)).await;
        assert!(made.is_ok() || made.code() == "Conflict", "a session can be made: {} {}", made.status, made.json);
        let gateway = self.gateways.pick(&mut self.random);
        let answer = self.client.try_eval(&gateway, &name, "w1", "1").await;
        assert!(!answer.is_ok(), "no cell runs before the bootstrap: {}", answer.json);
        self.client.order(&gateway, &name, "interrupt").await;
        let deleted = self.insist(Method::DELETE, &format!("/{name}"), None).await;
        assert!(deleted.is_ok() || deleted.status == 404, "a session can be deleted: {} {}", deleted.status, deleted.json);
        self.wedged.push(name);
    }

    /// Sends a key again that has its answer.
    async fn retry(&mut self) {
        // Of the last 32 every one is known.
        let recent = &self.answered[self.answered.len().saturating_sub(30)..];
        if recent.is_empty() || !self.straight {
            return;
        }
        let (key, code, first) = self.random.clone().pick(recent).clone();
        self.random.next();
        if self.durability != Durability::PerEval {
            return;
        }
        let mut again = self.run(&key, &code).await;
        // Two processes ended with it under way: under its key a cell may be sent again and again.
        for _ in 0..RETRIES_MAX {
            if again.code() != "OutcomeUnknown" {
                break;
            }
            again = self.run(&key, &code).await;
        }
        self.look_for_losses();
        let end = |answer: &Answer| {
            (answer.status, answer.json["ok"].clone(), answer.json["value"].clone(), answer.json["error"]["code"].clone())
        };
        assert_eq!(end(&again), end(&first), "one key, one answer: {key} of {}", self.name);
    }

    async fn checkpoint(&mut self) {
        let label = self.id("l");
        let body = json!({"label": label, "idempotencyKey": label}).to_string().into_bytes();
        let answer = self.insist(Method::POST, &format!("/{}/checkpoints", self.name), Some(body)).await;
        self.look_for_losses();
        if answer.is_ok() {
            self.model.done(&[], true);
            self.labels.insert(label, self.model.clone());
        }
    }

    async fn restore(&mut self) {
        let Some((label, then)) = self.labels.iter().next_back().map(|(label, then)| (label.clone(), then.clone())) else { return };
        let body = json!({"checkpoint": label, "idempotencyKey": self.id("b")}).to_string().into_bytes();
        self.straight = false;
        let answer = self.insist(Method::POST, &format!("/{}/restore", self.name), Some(body)).await;
        self.look_for_losses();
        self.model.went_back(&then, answer.is_ok());
    }

    async fn fork(&mut self) {
        let name = format!("{}f{}", self.name, self.forks.len() + 1);
        let body = json!({"name": name}).to_string().into_bytes();
        let answer = self.insist(Method::POST, &format!("/{}/fork", self.name), Some(body)).await;
        self.look_for_losses();
        if !answer.is_ok() {
            return;
        }
        let mut child = Player {
            name,
            world: self.world.clone(),
            client: self.client.clone(),
            gateways: self.gateways.clone(),
            random: Random::of(self.random.next(), &"fork"),
            model: self.model.clone(),
            durability: self.durability,
            made: 0,
            answered: Vec::new(),
            labels: BTreeMap::new(),
            timers: Vec::new(),
            straight: false,
            losses_seen: self.losses_seen,
            outdated_until: self.outdated_until,
            forks: Vec::new(),
            wedged: Vec::new(),
            acked: 0,
            events: BTreeMap::new(),
        };
        // What was answered ahead of its commit may not be in what was forked.
        child.model.process_lost();
        Box::pin(child.play(Kind::Push)).await;
        Box::pin(child.play(Kind::Push)).await;
        self.forks.push(child);
    }
}

/// Sends one thing to whatever gateway, until it is answered for good.
struct Sender {
    client: Client,
    gateways: Gateways,
    random: Random,
}

impl Sender {
    async fn insist(&mut self, method: Method, path: &str, body: Option<Vec<u8>>, budget: Duration) -> Answer {
        self.insist_with(method, path, body, budget, HeaderMap::new()).await
    }

    async fn insist_with(&mut self, method: Method, path: &str, body: Option<Vec<u8>>, budget: Duration, headers: HeaderMap) -> Answer {
        let until = Instant::now() + PATIENCE;
        let mut wait = Duration::from_millis(50);
        loop {
            let gateway = self.gateways.pick(&mut self.random);
            let answer = self.client.send_with(&gateway, method.clone(), path, body.clone(), budget, headers.clone()).await;
            // Two pods ended beneath it: whoever only reads asks again.
            let is_read = method == Method::GET && answer.code() == "OutcomeUnknown";
            let later = answer.may_be_repeated() || is_read;
            if !later || Instant::now() >= until {
                return answer;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }
}
