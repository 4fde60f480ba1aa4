//! Jobs in virtual time: runners that are lost, that come together, and brokers that end in between.

use std::{sync::Arc, time::Duration};

use dormouse_broker::{Broker, BrokerStore, FetchClients, Secrets, Surroundings};
use dormouse_protocol::{
    ErrorCode,
    broker::{AnswerJobCall, ClaimJobCall, ClaimedJob, DecideCall, HeartbeatJobCall, ToolAnswer, ToolCall, Waits, WaitsFor, digest},
    job::Job,
};
use dormouse_seal::Seal;
use dormouse_service::{Clock, Ids, Metrics, wire::Http};
use dormouse_store::{Memory, SnapshotStore};
use serde_json::{Value, json};

use crate::world::call;

struct World {
    store: Arc<Memory>,
    clock: Clock,
}

impl World {
    fn new() -> Self {
        dormouse_service::telemetry::install_tls_provider();
        Self { store: Arc::default(), clock: Clock::following_runtime("2030-01-01T00:00:00Z".parse().unwrap()) }
    }

    fn broker(&self) -> Broker {
        let tool = |name: &str, approval: Value| json!({ "name": name, "runner": { "capability": "browser", "expiresSeconds": 3_600 }, "approval": approval });
        let spec = json!({ "tools": [tool("render", json!("Never")), tool("print", json!({ "editable": true }))] });
        let place = BrokerStore {
            store: Arc::clone(&self.store) as Arc<dyn SnapshotStore>,
            prefix: "p/".to_owned(),
            namespace: "team-a".to_owned(),
            broker: "tools".to_owned(),
            seal: Arc::new(Seal::none()),
        };
        let world = Surroundings {
            http: Http::new(reqwest::Client::builder().build().unwrap()),
            fetches: FetchClients::new().unwrap(),
            ids: Ids::random(),
            clock: self.clock,
        };
        Broker::over(&serde_json::from_value(spec).unwrap(), Secrets::memory(Default::default()), &Metrics::new(), Some(place), world)
            .unwrap()
    }
}

async fn claim(broker: &Broker) -> ClaimedJob {
    let call = ClaimJobCall { namespace: "team-a".to_owned(), capabilities: vec!["browser".to_owned()], runner: "r".to_owned() };
    broker.claim_job(&call).await.unwrap()
}

fn answer(number: u64, job: &Job, value: Value) -> AnswerJobCall {
    AnswerJobCall {
        namespace: "team-a".to_owned(),
        session_uid: "u-1".to_owned(),
        call: number,
        lease: job.lease.clone(),
        answer: ToolAnswer::Ok { value },
        by: "key".to_owned(),
    }
}

async fn ask(broker: &Broker, call: ToolCall) -> ToolAnswer {
    ToolAnswer::clone(&*broker.call(call).await.unwrap())
}

fn parked(answer: &ToolAnswer) -> WaitsFor {
    match answer {
        ToolAnswer::Parked { parked } => parked.waits_for,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_runner_says_nothing_is_offered_again_and_so_often_only() {
    let world = World::new();
    let broker = world.broker();
    assert_eq!(parked(&ask(&broker, call(1, "render", json!({ "url": "a" }))).await), WaitsFor::Runner);
    let first = claim(&broker).await.job.unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    let keep = HeartbeatJobCall { namespace: "team-a".to_owned(), session_uid: "u-1".to_owned(), call: 1, lease: first.lease.clone() };
    broker.keep_job(&keep).await.unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    // Another broker, which has not seen the lease.
    let other = world.broker();
    assert!(claim(&other).await.job.is_none() && claim(&broker).await.job.is_none(), "it lives");
    tokio::time::sleep(Duration::from_secs(11)).await;
    let second = claim(&other).await.job.unwrap();
    assert_eq!((second.id == first.id, second.attempt, second.lease == first.lease), (true, 2, false));
    assert_eq!(broker.keep_job(&keep).await.unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(broker.answer_job(&answer(1, &first, json!(1))).await.unwrap_err().code, ErrorCode::Conflict, "it was given away");
    for attempt in 3..=5 {
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(claim(&broker).await.job.unwrap().attempt, attempt);
    }
    tokio::time::sleep(Duration::from_secs(61)).await;
    let over = claim(&broker).await;
    assert!(over.job.is_none() && over.ended.len() == 1 && over.ended[0].call == 1, "{over:?}");
    let again = ToolCall { waits: Waits::Job, repeated: true, ..call(1, "render", json!({ "url": "a" })) };
    assert!(matches!(ask(&broker, again).await, ToolAnswer::Err { error } if error.code == ErrorCode::ToolResultInvalid));
}

#[tokio::test(start_paused = true)]
async fn of_runners_that_come_together_one_gets_a_job_and_its_answer_is_told_by_every_broker() {
    let world = World::new();
    let brokers: Vec<Broker> = (0..4).map(|_| world.broker()).collect();
    for number in 1..=20 {
        ask(&brokers[0], call(number, "render", json!({ "n": number }))).await;
        // Another sending of the call makes no second job.
        assert_eq!(
            parked(&ask(&brokers[1], ToolCall { repeated: true, ..call(number, "render", json!({ "n": number })) }).await),
            WaitsFor::Runner
        );
    }
    let claims = brokers.iter().cycle().take(40).map(claim);
    let jobs: Vec<Job> = futures::future::join_all(claims).await.into_iter().filter_map(|claimed| claimed.job).collect();
    let mut ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), jobs.len(), "no job is two runners'");
    assert!(!jobs.is_empty());
    let job = &jobs[0];
    let number = job.arguments["n"].as_u64().unwrap();
    brokers[2].answer_job(&answer(number, job, json!({ "done": number }))).await.unwrap();
    brokers[3].answer_job(&answer(number, job, json!({ "done": "otherwise" }))).await.unwrap();
    for broker in &brokers {
        let again = ToolCall { waits: Waits::Job, repeated: true, ..call(number, "render", json!({ "n": number })) };
        assert_eq!(ask(broker, again).await, ToolAnswer::Ok { value: json!({ "done": number }) }, "the first one stands");
    }
    let another = ToolCall { waits: Waits::Job, ..call(number, "render", json!({ "n": "x" })) };
    assert_eq!(brokers[0].call(another).await.unwrap_err().code, ErrorCode::Conflict);
    let older = ToolCall { waits: Waits::Job, epoch: 0, ..call(number, "render", json!({ "n": number })) };
    assert_eq!(brokers[0].call(older).await.unwrap_err().code, ErrorCode::SessionGone);
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_job_goes_with_the_job_though_no_runner_asks() {
    let world = World::new();
    let broker = world.broker();
    for number in 1..=2 {
        ask(&broker, call(number, "render", json!({ "n": number }))).await;
    }
    let names = async || world.store.list("p/t/team-a/jobs/").await.unwrap();
    let cleaning = tokio::spawn(broker.clone().keep_jobs_clean());
    tokio::time::sleep(Duration::from_secs(3_700)).await;
    assert_eq!(names().await.len(), 2);
    // As the deletion of its session does.
    world.store.delete("p/t/team-a/b/u-1/job-1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_700)).await;
    let left = names().await;
    assert!(left.len() == 1 && left[0].ends_with("_u-1_2"), "{left:?}");
    cleaning.abort();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_person_must_agree_to_is_offered_with_what_was_agreed_to_and_ends_in_time() {
    let world = World::new();
    let broker = world.broker();
    assert_eq!(parked(&ask(&broker, call(1, "print", json!({ "pages": 100 }))).await), WaitsFor::Person);
    assert!(claim(&broker).await.job.is_none(), "nobody has agreed");
    let decision = DecideCall {
        namespace: "team-a".to_owned(),
        session: "analyst".to_owned(),
        session_uid: "u-1".to_owned(),
        epoch: 1,
        call: 1,
        tool: "print".to_owned(),
        digest: digest("print", &json!({ "pages": 100 })),
        id: "d".to_owned(),
        approve: true,
        reason: None,
        arguments: Some(json!({ "pages": 2 })),
        by: "somebody".to_owned(),
    };
    broker.decide(decision).await.unwrap();
    let agreed = ToolCall { waits: Waits::Decision, repeated: true, ..call(1, "print", json!({ "pages": 100 })) };
    assert_eq!(parked(&ask(&broker, agreed).await), WaitsFor::Runner);
    assert_eq!(claim(&broker).await.job.unwrap().arguments, json!({ "pages": 2 }));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let over = ToolCall { waits: Waits::JobOver, repeated: true, ..call(1, "print", json!({ "pages": 100 })) };
    assert!(matches!(ask(&broker, over).await, ToolAnswer::Err { error } if error.code == ErrorCode::TimeoutError));
    // What is settled is forgotten with the next.
    ask(&broker, ToolCall { settled_below: 2, ..call(2, "render", json!({})) }).await;
    let keys = world.store.list("p/t/team-a/b/u-1/job-").await.unwrap();
    assert_eq!(keys, ["p/t/team-a/b/u-1/job-2"]);

    // The audit tells who answered a job.
    let job = claim(&broker).await.job.unwrap();
    broker.answer_job(&answer(2, &job, json!("done"))).await.unwrap();
    broker.store_audit().await;
    let mut told = Vec::new();
    for key in world.store.list("p/t/team-a/audit/").await.unwrap() {
        let body = world.store.get(&key).await.unwrap().unwrap().bytes;
        let lines = std::str::from_utf8(&body).unwrap().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        told.extend(lines.filter(|line| line["kind"] == "job"));
    }
    let [line] = &told[..] else { panic!("{told:?}") };
    assert_eq!(
        (&line["by"], &line["session"], &line["call"], &line["status"]),
        (&json!("key"), &json!("analyst"), &json!(2), &json!("ok"))
    );
}
