//! `dev` on a machine whose power fails: what was answered is there when it comes back, whichever step of the disk was the last.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use dormouse_testkit::{power::Power, soak};
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::seconds;
use crate::{
    chaos::Rates,
    client::{BUDGET, Client},
    dev::Dev,
    random::Random,
    world::{self, PREFIX, TEAM, World, spec},
};

/// When the timer that the script sets is due.
const TIMER: Duration = Duration::from_secs(60);

/// What a machine that lives has answered.
#[derive(Debug, Default)]
struct Told {
    answers: BTreeMap<&'static str, Value>,
    timer_set_at: Option<Instant>,
    /// How often the far side has made each call.
    calls: BTreeMap<String, u64>,
    /// The power failed before the timer was due.
    ended_before_the_timer: bool,
}

impl Told {
    fn count(&mut self, world: &World) {
        for (id, times) in world.service.done() {
            *self.calls.entry(id).or_default() += times;
        }
    }
}

/// One life of the machine.
struct Life {
    client: Client,
    dev: Dev,
    disk: Arc<Power>,
    told: Arc<Mutex<Told>>,
}

impl Life {
    /// Keeps what was answered, if it was before the power failed; what was answered in an earlier life is answered again.
    async fn told(&self, step: &'static str, answer: Result<Value, String>) {
        if self.disk.has_failed() {
            std::future::pending::<()>().await;
        }
        let answer = answer.unwrap_or_else(|refusal| panic!("{step}: {refusal}"));
        let mut told = self.told.lock().unwrap();
        let before = told.answers.entry(step).or_insert_with(|| answer.clone());
        assert_eq!(*before, answer, "{step} was answered otherwise before the power failed");
    }

    async fn cell(&self, session: &str, step: &'static str, code: &str) {
        let answer = self.client.eval(&self.dev.door, session, step, code).await;
        let ended_well = answer.status == 200 && answer.json["ok"] == true;
        let value = if ended_well { Ok(answer.value().clone()) } else { Err(format!("{} {}", answer.status, answer.json)) };
        self.told(step, value).await;
    }

    async fn ask(&self, step: &'static str, method: Method, path: &str, body: Option<&[u8]>) {
        let answer = self.client.insist(&self.dev.door, method.clone(), path, body.map(<[u8]>::to_vec), BUDGET).await;
        // What was done before the power failed is a conflict now, or gone.
        let done = answer.is_ok() || answer.code() == "Conflict" || (method == Method::DELETE && answer.status == 404);
        self.told(step, if done { Ok(Value::Null) } else { Err(format!("{} {}", answer.status, answer.json)) }).await;
    }

    /// Everything that a client does: each step under the key or the name that it had before.
    async fn script(&self) {
        let created = json!({"name": "s", "spec": spec()}).to_string();
        self.ask("create", Method::POST, "", Some(created.as_bytes())).await;
        self.cell("s", "k1", "globalThis.log = ['k1']; log.join()").await;
        self.cell("s", "k2", "log.push('k2'); log.join()").await;
        self.ask("upload", Method::PUT, "/s/files/a.txt", Some(b"first")).await;
        self.ask("checkpoint", Method::POST, "/s/checkpoints", Some(br#"{"label":"then"}"#)).await;
        self.ask("sleep", Method::POST, "/s/hibernate", None).await;
        let pays =
            "let paid = 'paid'; try { await callTool('charge', {id: 'paid'}) } catch (e) { paid = 'lost' } log.push(paid); log.join()";
        self.cell("s", "k3", pays).await;
        // Before there is a timer: a fork would have it, too.
        self.ask("fork", Method::POST, "/s/fork", Some(br#"{"name":"f"}"#)).await;
        self.cell("f", "k5", "log.push('forked'); log.length").await;
        self.cell("s", "k4", "setTimeout(() => callTool('charge', {id: 'timer'}), 60000); log.push('k4'); log.length").await;
        self.told.lock().unwrap().timer_set_at.get_or_insert_with(Instant::now);
        let deleted = self.told.lock().unwrap().answers.contains_key("delete");
        if !deleted {
            self.ask("create another", Method::POST, "", Some(br#"{"name":"t"}"#)).await;
            self.ask("delete", Method::DELETE, "/t", None).await;
        }
        self.ask("sleep again", Method::POST, "/s/hibernate", None).await;
        seconds(120).await;
        self.cell("s", "k6", "log.push('k6'); log.length").await;
    }

    /// Once everything has been done, and time has passed.
    async fn is_whole(&self) {
        let of = |code: &'static str| self.client.value(&self.dev.door, "s", code, code);
        let log = of("log.join()").await;
        assert!(log == "k1,k2,paid,k4,k6" || log == "k1,k2,lost,k4,k6", "each once, and in order: {log}");
        let read = self.client.send(&self.dev.door, Method::GET, "/s/files/a.txt", None, BUDGET).await;
        assert_eq!(read.body, b"first");
        let listed = self.client.send(&self.dev.door, Method::GET, "/s/checkpoints", None, BUDGET).await;
        assert!(listed.json.to_string().contains("\"then\""), "{}", listed.json);
        let gone = self.client.send(&self.dev.door, Method::GET, "/t", None, BUDGET).await;
        assert_eq!(gone.status, 404, "what was deleted is gone");
        let sessions = format!("{PREFIX}t/{TEAM}/s/default/");
        let keys = self.dev.store.list(&sessions).await.unwrap();
        let stored: BTreeSet<&str> = keys.iter().filter_map(|key| key.strip_prefix(&sessions)?.split('/').next()).collect();
        assert_eq!(stored.len(), 2, "of two sessions something is stored: {stored:?}");
        let told = self.told.lock().unwrap();
        let calls = |id: &str| told.calls.get(id).copied().unwrap_or(0);
        assert!(calls("paid") <= 1 && calls("timer") <= 1, "a call has one effect: {:?}", told.calls);
        assert!(calls("paid") == 1 || log == "k1,k2,lost,k4,k6", "what was done was done: {:?}", told.calls);
        if told.ended_before_the_timer {
            assert_eq!(calls("timer"), 1, "a timer fires although the power failed");
        }
    }
}

/// A life over this folder, until the script is through or the power fails; what it came to is in `told`.
fn live(folder: &Path, disk: &Arc<Power>, told: &Arc<Mutex<Told>>, days: i64) {
    let (folder, disk, told) = (folder.to_owned(), Arc::clone(disk), Arc::clone(told));
    world::run(1, Rates::QUIET, None, move |world: World| async move {
        let world = world.later(days);
        let begun = Instant::now();
        let whole = async {
            let client = Client::new(&world, "client");
            let dev = match world.dev(&format!("dev{days}"), Arc::clone(&disk) as _, &folder).await {
                Ok(dev) => dev,
                Err(_) if disk.has_failed() => return,
                Err(error) => panic!("it does not start: {error:#}"),
            };
            let life = Life { client, dev, disk: Arc::clone(&disk), told: Arc::clone(&told) };
            life.script().await;
            if days > 0 {
                seconds(400).await;
            }
            told.lock().unwrap().count(&world);
            if days > 0 {
                life.is_whole().await;
            }
        };
        let fails = async {
            while !disk.has_failed() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            biased;
            () = fails => {
                let mut told = told.lock().unwrap();
                told.count(&world);
                let set_at = told.timer_set_at;
                told.ended_before_the_timer = set_at.is_none_or(|at| begun <= at && at.elapsed() + Duration::from_secs(5) < TIMER);
                told.timer_set_at = None;
            }
            () = whole => {}
        }
    });
}

/// A life that ends before step `fails_before`, and one after it. `seed`: which folders keep what was not synced; `None`: none does.
fn fails_and_comes_back(disk: impl FnOnce(&Path) -> std::io::Result<Power>, seed: Option<u64>) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let told = Arc::new(Mutex::new(Told::default()));
    let disk = Arc::new(disk(folder.path()).unwrap());
    live(folder.path(), &disk, &told, 0);
    let steps = disk.steps();
    let mut random = seed.map(|seed| Random::of(seed, &"power"));
    disk.fail(|_| random.as_mut().is_some_and(|random| random.one_in(2))).unwrap();
    live(folder.path(), &Arc::new(Power::new(folder.path(), None).unwrap()), &told, 1);
    steps
}

#[test]
fn whatever_was_answered_is_there_when_the_power_failed_before_any_step_of_the_disk() {
    let all = fails_and_comes_back(|folder| Power::new(folder, None), None);
    assert!(all > 100, "it does something: {all} steps");
    soak::report(&format!("the power fails before each of {all} steps of the disk"));
    let broken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let broken = &broken;
            scope.spawn(move || {
                for step in (worker..all).step_by(2) {
                    let survives = (step % 3 == 0).then_some(Some(step));
                    for seed in [None].into_iter().chain(survives) {
                        let run = || fails_and_comes_back(|folder| Power::new(folder, Some(step)), seed);
                        if let Err(panic) = std::panic::catch_unwind(run) {
                            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                            broken.lock().unwrap().push(format!("before step {step} of {all}, {seed:?}: {text}"));
                        }
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_disk_that_does_not_sync_what_it_renames_is_noticed() {
    assert!(std::panic::catch_unwind(|| fails_and_comes_back(Power::careless, None)).is_err());
}
