//! SIGKILL of the broker's process at every step of a call that waits, for a person or for a runner: one decision, one effect, one result.

use std::{net::SocketAddr, sync::Arc};

use dormouse_lifecycle::keys::broker_name;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{AnswerJobCall, ClaimJobCall, ClaimedJob, DecideCall, ToolAnswer, ToolCall, Waits, WaitsFor, digest},
    job::Job,
};
use dormouse_testkit::{proxy::Hold, soak, wait::eventually};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    kills::{Far, Parts},
    world::call,
};

/// Calls that are at a step when the process dies, each of a session of its own.
const CALLS: u64 = 25;
/// The call's number: no other object's name ends so.
const NUMBER: u64 = 7_777;
/// How the name of its job ends.
const JOB_END: &str = "7777";

/// Where a call is whose PUT is under way; with `true` it is stored, and the broker does not know it yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is written down that it waits for a person.
    Park(bool),
    /// Somebody agrees.
    Decide(bool),
    /// It is let go, since somebody has agreed.
    Intent(bool),
    /// It becomes a job.
    Offer(bool),
    /// A runner takes it. What is stored is the lease of a runner that never heard of it, and ends after a minute: not tried.
    Claim,
    /// The runner answers.
    Answer(bool),
}

impl Step {
    const ALL: [Self; 11] = [
        Self::Park(false),
        Self::Park(true),
        Self::Decide(false),
        Self::Decide(true),
        Self::Intent(false),
        Self::Intent(true),
        Self::Offer(false),
        Self::Offer(true),
        Self::Claim,
        Self::Answer(false),
        Self::Answer(true),
    ];

    fn is_of_a_job(self) -> bool {
        matches!(self, Self::Offer(_) | Self::Claim | Self::Answer(_))
    }

    fn hold(self) -> Hold {
        let (path_end, forwarded) = match self {
            Self::Park(stored) | Self::Decide(stored) | Self::Intent(stored) => ("/calls", stored),
            Self::Offer(stored) | Self::Answer(stored) => (JOB_END, stored),
            Self::Claim => (JOB_END, false),
        };
        Hold { method: "PUT", path_end, nth: 1, forwarded }
    }
}

/// Everybody who has to do with one broker.
#[derive(Clone)]
struct Stage {
    far: Arc<Far>,
    address: SocketAddr,
}

impl Stage {
    async fn ask(&self, call: ToolCall) -> Option<Result<ToolAnswer, ErrorCode>> {
        self.far.ask(self.address, &call).await
    }

    async fn told(&self, call: ToolCall) -> ToolAnswer {
        match self.ask(call).await.expect("there is always an answer") {
            Ok(answer) => answer,
            Err(code) => ToolAnswer::Err { error: ApiError::new(code, "") },
        }
    }

    async fn order<A: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Option<A> {
        self.far.order(self.address, path, body).await
    }

    async fn decide(&self, of: &ToolCall) -> bool {
        let decision = DecideCall {
            namespace: of.namespace.clone(),
            session: of.session.clone(),
            session_uid: broker_name("default", &of.session_uid),
            epoch: of.epoch,
            call: of.call,
            tool: of.tool.clone(),
            digest: digest(&of.tool, &of.args),
            id: "agreed".to_owned(),
            approve: true,
            reason: None,
            arguments: None,
            by: "somebody".to_owned(),
        };
        self.order::<serde_json::Value>("/v1/decide", &decision).await.is_some()
    }

    async fn claim(&self) -> Option<Job> {
        let claim = ClaimJobCall { namespace: "team-a".to_owned(), capabilities: vec!["browser".to_owned()], runner: "r".to_owned() };
        self.order::<ClaimedJob>("/v1/jobs/claim", &claim).await?.job
    }

    async fn answer(&self, job: &Job) -> bool {
        let answer = AnswerJobCall {
            namespace: "team-a".to_owned(),
            session_uid: broker_name("default", job.arguments["uid"].as_str().unwrap()),
            call: NUMBER,
            lease: job.lease.clone(),
            answer: ToolAnswer::Ok { value: json!({ "receipt": "rendered" }) },
            by: "key".to_owned(),
        };
        self.order::<serde_json::Value>("/v1/jobs/answer", &answer).await.is_some()
    }
}

fn waits_for(answer: &ToolAnswer) -> Option<WaitsFor> {
    if let ToolAnswer::Parked { parked } = answer { Some(parked.waits_for) } else { None }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_at_any_step_of_a_call_that_waits_has_one_effect_and_one_result() {
    let Parts { proxy, effects, far, .. } = &Parts::start().await;
    let (mut broker, address) = far.start().await;
    let mut stage = Stage { far: Arc::clone(far), address };
    let rounds = soak::count(1, 50);
    for (round, step) in (0..rounds).flat_map(|round| Step::ALL.map(|step| (round, step))) {
        let tool = if step.is_of_a_job() { "render" } else { "transfer" };
        let calls: Vec<ToolCall> = (0..CALLS)
            .map(|number| format!("{}-{round}-{number}", format!("{step:?}").replace(['(', ')'], "-")))
            .map(|uid| ToolCall { session_uid: uid.clone(), ..call(NUMBER, tool, json!({ "uid": uid })) })
            .collect();
        effects.forget();
        // What comes before the step.
        let mut jobs = Vec::new();
        if !matches!(step, Step::Park(_) | Step::Offer(_)) {
            for one in &calls {
                let waits = if step.is_of_a_job() { WaitsFor::Runner } else { WaitsFor::Person };
                assert_eq!(waits_for(&stage.told(one.clone()).await), Some(waits), "{step:?}");
            }
        }
        if matches!(step, Step::Intent(_)) {
            for one in &calls {
                assert!(stage.decide(one).await, "{step:?}");
            }
        }
        if matches!(step, Step::Answer(_)) {
            for _ in &calls {
                jobs.push(stage.claim().await.expect("a job for each call"));
            }
        }
        proxy.hold(Some(step.hold()));
        let mut held = Vec::new();
        // A second runner would go on to where the first one is.
        let at_once = if step == Step::Claim { 1 } else { calls.len() };
        for (at, one) in calls.iter().take(at_once).enumerate() {
            let (stage, one, job) = (stage.clone(), one.clone(), jobs.get(at).cloned());
            held.push(tokio::spawn(async move {
                match step {
                    Step::Park(_) | Step::Offer(_) => stage.ask(one).await.is_some(),
                    Step::Decide(_) => stage.decide(&one).await,
                    Step::Intent(_) => stage.ask(ToolCall { waits: Waits::Decision, repeated: true, ..one }).await.is_some(),
                    Step::Claim => stage.claim().await.is_some(),
                    Step::Answer(_) => stage.answer(&job.expect("it was claimed")).await,
                }
            }));
        }
        eventually(&format!("calls are at {step:?}"), async || proxy.held() == at_once).await;
        broker.kill();
        proxy.hold(None);
        for one in held {
            assert!(!one.await.unwrap(), "{step:?}: nothing comes of one that was killed");
        }
        assert_eq!(effects.requests(), 0, "{step:?}: nothing was let go");

        (broker, stage.address) = stage.far.start().await;
        let again = |one: &ToolCall, waits: Waits| ToolCall { repeated: true, epoch: 2, waits, ..one.clone() };
        if step.is_of_a_job() {
            if matches!(step, Step::Offer(_)) {
                for one in &calls {
                    assert_eq!(waits_for(&stage.told(again(one, Waits::No)).await), Some(WaitsFor::Runner), "{step:?}");
                }
            }
            if !matches!(step, Step::Answer(_)) {
                while let Some(job) = stage.claim().await {
                    jobs.push(job);
                }
            }
            assert_eq!(jobs.len(), calls.len(), "{step:?}: each is a job, once");
            for job in &jobs {
                assert!(stage.answer(job).await, "{step:?}");
            }
            for one in &calls {
                let value = json!({ "receipt": "rendered" });
                assert_eq!(stage.told(again(one, Waits::Job)).await, ToolAnswer::Ok { value }, "{step:?}");
            }
            continue;
        }
        for one in &calls {
            // Where nobody had stored that it waits, it is the later epoch's.
            let mut made_in = one.epoch;
            if matches!(step, Step::Park(_)) {
                let ToolAnswer::Parked { parked } = stage.told(again(one, Waits::No)).await else { panic!("{step:?}: it waits") };
                made_in = parked.made_in.unwrap();
                assert_eq!((parked.waits_for, made_in), (WaitsFor::Person, if step == Step::Park(true) { 1 } else { 2 }), "{step:?}");
            }
            if !matches!(step, Step::Intent(_)) {
                let decided = stage.decide(&ToolCall { epoch: made_in, ..one.clone() }).await;
                assert!(decided, "{step:?}: whoever is not answered decides once more");
            }
        }
        let result = async |one: &ToolCall| {
            let first = stage.told(again(one, Waits::Decision)).await;
            assert_eq!(stage.told(again(one, Waits::Decision)).await, first, "{step:?}: there is one result");
            let unknown = matches!(&first, ToolAnswer::Err { error } if error.code == ErrorCode::OutcomeUnknown);
            assert_eq!(unknown, step == Step::Intent(true), "{step:?}: {first:?}");
        };
        futures::future::join_all(calls.iter().map(result)).await;
        let made = if step == Step::Intent(true) { 0 } else { calls.len() };
        assert_eq!(effects.requests(), made, "{step:?}: each is made once");
    }
    soak::report(&format!(
        "SIGKILL of the broker {rounds} times at each of {} steps of waiting, {CALLS} calls each time: one effect and one result each",
        Step::ALL.len(),
    ));
}
