//! SIGKILL of gateway, kernel pod and broker while a call waits for a person: one effect, one result, always an answer.

use std::time::Duration;

use crate::support::{
    attacks::{self, patient},
    fleet::Fleet,
};
use dormouse_client::Client;
use dormouse_protocol::{
    ErrorCode,
    approval::{Decide, Verdict},
    eval::EvalRequest,
    run::RunState,
};
use dormouse_testkit::{random::Random, soak, wait::eventually};
use serde_json::json;

/// Who dies.
const VICTIMS: [&[Victim]; 5] = [
    &[Victim::Gateway],
    &[Victim::Kernel],
    &[Victim::Broker],
    &[Victim::Gateway, Victim::Kernel],
    &[Victim::Gateway, Victim::Kernel, Victim::Broker],
];
/// The longest time between a decision that leaves and the kill.
const DECIDING_MAX: Duration = Duration::from_millis(40);
/// How long one look at a run waits for its end, in seconds.
const LOOK_SECONDS: u64 = 20;

#[derive(Debug, Clone, Copy)]
enum Victim {
    Gateway,
    Kernel,
    Broker,
}

/// What the session was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// The result.
    Done,
    /// That nobody knows whether the call was made.
    Unknown,
}

/// When they die.
#[derive(Debug, Clone, Copy)]
enum When {
    /// While the call waits.
    Waiting,
    /// A moment after somebody has agreed.
    Deciding,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_while_gateway_pod_and_broker_are_killed_is_made_once_and_answered() {
    let (outside, paid) = attacks::outside().await;
    let mut fleet = Fleet::start(&outside).await;
    let (client, rounds, mut random) = (fleet.client(), soak::count(1, 50), Random::new(7));
    let (mut amount, mut unknown) = (0, 0);
    for _ in 0..rounds {
        for victims in VICTIMS {
            for when in [When::Waiting, When::Deciding] {
                amount += 1;
                let told = round(&mut fleet, &client, victims, when, amount, &mut random).await;
                let times = paid.lock().unwrap().get(&amount).copied();
                match told {
                    Told::Done => assert_eq!(times, Some(1), "{victims:?} {when:?}: one effect"),
                    Told::Unknown => assert!(times.is_none_or(|times| times == 1), "{victims:?} {when:?}: {times:?}"),
                }
                unknown += u64::from(told == Told::Unknown);
            }
        }
    }
    assert!(paid.lock().unwrap().keys().all(|paid| *paid <= amount), "and no other");
    soak::report(&format!(
        "SIGKILL while a call waits: {amount} times of gateway, kernel pod or broker, or several of them, each with one effect and one result; \
         of {unknown} the broker died while it was making the call, and the answer says so"
    ));
}

async fn round(fleet: &mut Fleet, client: &Client, victims: &[Victim], when: When, amount: u64, random: &mut Random) -> Told {
    let name = format!("payer-{amount}");
    attacks::create(client, &name, json!({})).await;
    let code = format!("globalThis.receipt = await callTool('pay', {{ amount: {amount} }}); receipt.times");
    let cell = EvalRequest { code, idempotency_key: Some("pay".to_owned()), ..EvalRequest::default() };
    let run = patient(|| client.eval_later(&name, &cell)).await.run;
    let mut waiting = Vec::new();
    eventually("the call waits", async || {
        waiting = patient(|| client.approvals(Some(&name))).await.items;
        !waiting.is_empty()
    })
    .await;
    let id = waiting.remove(0).id;
    let agree =
        Decide { decision: Verdict::Approve, reason: None, epoch: None, arguments: None, idempotency_key: Some("agree".to_owned()) };
    let deciding = match when {
        When::Waiting => None,
        When::Deciding => {
            let (client, name, id, agree) = (client.clone(), name.clone(), id.clone(), agree.clone());
            Some(tokio::spawn(async move { client.decide(&name, &id, &agree).await }))
        }
    };
    if deciding.is_some() {
        tokio::time::sleep(random.duration(DECIDING_MAX)).await;
    }
    for victim in victims {
        match victim {
            Victim::Gateway => fleet.gateway.kill(),
            Victim::Kernel => fleet.kernel.kill(),
            Victim::Broker => fleet.broker.kill(),
        }
    }
    fleet.broker.ready().await;
    fleet.gateway.ready().await;
    fleet.kernel.ready().await;
    if let Some(deciding) = deciding {
        // It may have been cut off.
        let _ = deciding.await.unwrap();
    }
    let decide = async |client: &Client| match client.decide(&name, &id, &agree).await {
        // It has been decided about, and the call was made.
        Err(error) if error.code() == Some(ErrorCode::ApprovalNotFound) => Ok(()),
        decided => decided.map(drop),
    };
    patient(|| decide(client)).await;
    let ended = loop {
        let run = patient(|| client.wait_for_run(&name, &run, LOOK_SECONDS)).await;
        if run.ended_at.is_some() {
            break run;
        }
    };
    let result = ended.result.expect("an answer");
    // A broker that died while it made the call has left its intent. The far side honours no key, so the call is not made again.
    let may_be_unknown = matches!(when, When::Deciding) && victims.iter().any(|victim| matches!(victim, Victim::Broker));
    if may_be_unknown && result.error.as_ref().is_some_and(|error| error.name == "OutcomeUnknown") {
        return Told::Unknown;
    }
    assert_eq!((ended.state, &result.value), (RunState::Succeeded, &Some(json!(1))), "{victims:?} {when:?}: {result:?}");
    let look = EvalRequest { code: "receipt".to_owned(), idempotency_key: Some("look".to_owned()), ..EvalRequest::default() };
    let kept = patient(|| client.eval(&name, &look)).await;
    assert_eq!(kept.value, Some(json!({ "paid": amount, "times": 1 })), "{victims:?} {when:?}: one result");
    Told::Done
}
