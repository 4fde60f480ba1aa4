use dormouse_protocol::{ApiError, kernel::PodInfo, session::State};
use tokio_util::sync::CancellationToken;

use super::{views::KEPT_BYTES_MAX, *};

fn report(namespace: &str, name: &str, epoch: u64, state: State) -> ReportLine {
    ReportLine::Session(Box::new(SessionReport {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        epoch,
        state,
        holds_slot: !matches!(state, State::Hibernated | State::Failed),
        failure: None,
        generation: 1,
        heap_bytes: 0,
        snapshot: None,
        last_active_time: None,
        next_wake_time: None,
        cells: 0,
        tool_calls: 0,
        approvals: 0,
        jobs: 0,
        hostcalls: 0,
        mcp_tools: 0,
    }))
}

fn pod(boot: &str) -> ReportLine {
    ReportLine::Pod(info(boot))
}

fn info(boot: &str) -> PodInfo {
    PodInfo {
        pod: "p".to_owned(),
        namespace: "team".to_owned(),
        boot: boot.to_owned(),
        slots: 10,
        used: 0,
        idle: 0,
        engine_digest: String::new(),
        draining: false,
        exhausted: false,
    }
}

fn hub() -> (Hub, mpsc::Receiver<ObjectRef<KernelSession>>) {
    let (tx, rx) = mpsc::channel(16);
    let hub = Hub::new(tx, None);
    let view = PodView::new("team".to_owned(), "default".to_owned(), CancellationToken::new());
    hub.with(|views| views.pods.insert("pod-uid".to_owned(), view));
    (hub, rx)
}

#[tokio::test]
async fn the_newest_report_counts_while_the_process_lives() {
    let (hub, mut told) = hub();
    assert_eq!(hub.report_of("pod-uid", "default", "uid-a"), None, "no stream yet");
    hub.take("pod-uid", "team", pod("one")).await;
    hub.take("pod-uid", "team", report("team", "a", 1, State::Idle)).await;
    hub.take("pod-uid", "team", report("team", "b", 1, State::Hibernated)).await;
    assert_eq!(told.recv().await.map(|r| r.name), Some("a".to_owned()));
    let seen = hub.report_of("pod-uid", "default", "uid-a").unwrap();
    assert_eq!((seen.boot.as_str(), seen.report.unwrap().state), ("one", State::Idle));
    assert_eq!(hub.live("team", "default"), 1, "a sleeping session holds no slot");
    assert_eq!(hub.live("other", "default"), 0);

    hub.take("pod-uid", "team", pod("two")).await;
    assert_eq!(hub.report_of("pod-uid", "default", "uid-a").unwrap().report, None, "another process knows nothing of it");
    assert!(hub.report_of("pod-uid", "default", "uid-a").unwrap().open);
    hub.closed("pod-uid");
    assert!(!hub.report_of("pod-uid", "default", "uid-a").unwrap().open, "what was heard last is kept, and said to be that");
}

#[tokio::test]
async fn a_pool_is_looked_at_when_a_slot_is_taken_or_freed() {
    let (hub, _told) = hub();
    hub.take("pod-uid", "team", pod("one")).await;
    for (state, effect) in
        [(State::Running, Effect::Load), (State::Idle, Effect::None), (State::Hibernated, Effect::Load), (State::Hibernated, Effect::None)]
    {
        assert_eq!(hub.take("pod-uid", "team", report("team", "a", 1, state)).await, effect, "{state}");
    }
}

#[tokio::test]
async fn a_pod_is_believed_for_its_own_namespace_only() {
    let (hub, _told) = hub();
    hub.take("pod-uid", "team", pod("one")).await;
    hub.take("pod-uid", "team", report("victim", "a", 1, State::Idle)).await;
    assert_eq!(hub.report_of("pod-uid", "default", "uid-a").unwrap().report, None);
}

#[tokio::test]
async fn forgetting_an_older_epoch_keeps_the_newer_report() {
    let (hub, _told) = hub();
    hub.take("pod-uid", "team", pod("one")).await;
    hub.take("pod-uid", "team", report("team", "a", 3, State::Idle)).await;
    hub.take("pod-uid", "team", ReportLine::Forgotten { uid: "uid-a".to_owned(), epoch: 2 }).await;
    assert!(hub.report_of("pod-uid", "default", "uid-a").unwrap().report.is_some());
    hub.take("pod-uid", "team", ReportLine::Forgotten { uid: "uid-a".to_owned(), epoch: 3 }).await;
    assert!(hub.report_of("pod-uid", "default", "uid-a").unwrap().report.is_none());
}

const LARGE_BYTES: usize = 64 << 10;

#[tokio::test]
async fn what_is_kept_of_one_pod_is_bounded() {
    let (tx, mut told) = mpsc::channel(1 << 20);
    let (mut hub, _none) = hub();
    hub.sessions = tx;
    hub.take("pod-uid", "team", pod("one")).await;
    let large = |name: String| match report("team", &name, 1, State::Failed) {
        ReportLine::Session(mut report) => {
            report.failure = Some(ApiError::new(dormouse_protocol::ErrorCode::Internal, "x".repeat(LARGE_BYTES)));
            ReportLine::Session(report)
        }
        other => other,
    };
    for number in 0..2_000 {
        hub.take("pod-uid", "team", large(format!("s{number}"))).await;
    }
    let (sessions, bytes) = hub.with(|views| (views.pods["pod-uid"].sessions.len(), views.pods["pod-uid"].bytes));
    assert!(bytes <= KEPT_BYTES_MAX && sessions > 400 && sessions < 600, "{sessions} sessions, {bytes} bytes");
    let mut heard = 0;
    while told.try_recv().is_ok() {
        heard += 1;
    }
    assert_eq!(heard, sessions);
    for number in 0..2_000 {
        hub.take("pod-uid", "team", ReportLine::Forgotten { uid: format!("uid-s{number}"), epoch: 1 }).await;
    }
    assert_eq!(hub.with(|views| (views.pods["pod-uid"].sessions.len(), views.pods["pod-uid"].bytes)), (0, 0));
}

#[tokio::test]
async fn what_is_kept_of_all_pods_is_bounded_and_given_back() {
    // Room for 64 KiB of reports of more than 1 KiB each, of which one namespace has half.
    let hub = Hub::new(mpsc::channel(1 << 10).0, Some(128 << 10));
    for (uid, namespace) in [("greedy-1", "greedy"), ("greedy-2", "greedy"), ("honest", "team")] {
        let view = PodView::new(namespace.to_owned(), "default".to_owned(), CancellationToken::new());
        hub.with(|views| views.pods.insert(uid.to_owned(), view));
        hub.take(uid, namespace, ReportLine::Picture).await;
        hub.take(uid, namespace, pod("one")).await;
    }
    for number in 0..200 {
        hub.take(["greedy-1", "greedy-2"][number % 2], "greedy", report("greedy", &format!("s{number}"), 1, State::Idle)).await;
    }
    let kept = |uid: &str| hub.with(|views| views.pods[uid].sessions.len());
    let all = kept("greedy-1") + kept("greedy-2");
    assert!((20..32).contains(&all), "{all}");
    hub.take("honest", "team", report("team", "a", 1, State::Idle)).await;
    assert_eq!(kept("honest"), 1);

    for uid in ["greedy-1", "honest"] {
        hub.take(uid, "", ReportLine::Complete).await;
    }
    let is_complete = |uid: &str| hub.report_of(uid, "default", "uid-other").unwrap().complete;
    assert!(is_complete("honest") && !is_complete("greedy-1"), "silence of a pod that was not heard out means nothing");
    // The last words of a pod are kept for a while, and count for as long.
    hub.take("honest", "team", ReportLine::Drained).await;
    for uid in ["greedy-1", "greedy-2", "honest"] {
        hub.with(|views| views.remove(uid));
    }
    let weighs = hub.with(|views| views.room.kept());
    assert!((1_024..2_048).contains(&weighs), "{weighs}");
    hub.forget_last_word("honest", "uid-a");
    assert_eq!(hub.with(|views| views.room.kept()), 0);
}

#[tokio::test]
async fn silence_means_something_once_the_picture_is_complete_and_what_it_does_not_name_is_gone() {
    let (hub, mut told) = hub();
    hub.take("pod-uid", "team", ReportLine::Picture).await;
    hub.take("pod-uid", "team", pod("one")).await;
    hub.take("pod-uid", "team", report("team", "a", 1, State::Idle)).await;
    hub.take("pod-uid", "team", report("team", "b", 1, State::Idle)).await;
    assert!(!hub.is_complete("pod-uid"));
    assert_eq!(hub.take("pod-uid", "team", ReportLine::Complete).await, Effect::Picture);
    assert!(hub.is_complete("pod-uid"));
    while told.try_recv().is_ok() {}
    // The pod's reader fell behind, and begins anew.
    hub.take("pod-uid", "team", ReportLine::Picture).await;
    assert!(!hub.is_complete("pod-uid"));
    hub.take("pod-uid", "team", report("team", "b", 1, State::Idle)).await;
    hub.take("pod-uid", "team", ReportLine::Complete).await;
    assert_eq!(hub.report_of("pod-uid", "default", "uid-a").unwrap().report, None);
    assert_eq!(hub.live("team", "default"), 1);
    let heard: Vec<String> = std::iter::from_fn(|| told.try_recv().ok()).map(|session| session.name).collect();
    assert_eq!(heard, ["b", "a"], "somebody looks at what is gone");
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_counted_until_it_has_a_slot_or_is_not_told_of_any_more() {
    let (hub, _told) = hub();
    let waiting = || {
        hub.waiting("team", "default", |mut uids, served| {
            uids.sort();
            uids.retain(|uid| !served(uid));
            u32::try_from(uids.len()).unwrap()
        })
    };
    let wait = |name: &str| ReportLine::Waiting { uid: format!("uid-{name}") };
    hub.take("pod-uid", "team", pod("one")).await;
    assert_eq!(hub.take("pod-uid", "team", wait("a")).await, Effect::Load);
    assert_eq!(hub.take("pod-uid", "team", wait("a")).await, Effect::None);
    hub.take("pod-uid", "team", wait("b")).await;
    assert_eq!(waiting(), 2);
    hub.take("pod-uid", "team", report("team", "a", 1, State::Waking)).await;
    assert_eq!((waiting(), hub.live("team", "default")), (1, 1));
    tokio::time::advance(WAITING_BELIEVED).await;
    assert_eq!((waiting(), hub.anybody_waits("team", "default")), (0, false));
    hub.with(|views| views.remove("pod-uid"));
    assert_eq!(hub.live("team", "default"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_memory_has_no_free_slots_and_its_pool_stays_as_large_for_a_while() {
    const SLOTS: u32 = 10;
    let (hub, _told) = hub();
    let counted = || (hub.live("team", "default"), hub.blocked("team", "default", SLOTS), hub.was_exhausted("team", "default"));
    let says = |exhausted, draining| ReportLine::Pod(PodInfo { exhausted, draining, ..info("one") });
    hub.take("pod-uid", "team", says(false, false)).await;
    for name in ["a", "b"] {
        hub.take("pod-uid", "team", report("team", name, 1, State::Idle)).await;
    }
    assert_eq!(counted(), (2, 0, false));
    assert_eq!(hub.take("pod-uid", "team", says(true, false)).await, Effect::Picture, "its pool is looked at");
    assert_eq!(hub.take("pod-uid", "team", says(true, false)).await, Effect::None);
    assert_eq!(counted(), (2, SLOTS - 2, true));
    hub.take("pod-uid", "team", report("team", "b", 1, State::Hibernated)).await;
    assert_eq!(counted(), (1, SLOTS - 1, true), "what sleeps leaves a slot that nobody can have");
    assert_eq!(hub.blocked("team", "other", SLOTS), 0);
    assert_eq!(hub.take("pod-uid", "team", says(false, false)).await, Effect::Picture);
    assert_eq!(counted(), (1, 0, true));
    tokio::time::advance(exhausted::REMEMBERED).await;
    assert_eq!(counted(), (1, 0, false));
    hub.take("pod-uid", "team", says(true, false)).await;
    hub.take("pod-uid", "team", says(true, true)).await;
    assert_eq!(counted(), (1, 0, true), "one that is about to go is not counted");
    hub.take("pod-uid", "team", says(true, false)).await;
    hub.with(|views| views.remove("pod-uid"));
    assert_eq!(hub.blocked("team", "default", SLOTS), 0, "nor is one that is gone");
}

#[tokio::test]
async fn a_session_that_could_not_begin_is_no_live_one() {
    let (hub, _told) = hub();
    hub.take("pod-uid", "team", pod("one")).await;
    assert_eq!(hub.take("pod-uid", "team", report("team", "a", 1, State::Waking)).await, Effect::Load);
    assert_eq!((hub.live("team", "default"), hub.sessions_of("pod-uid")), (1, (1, 0)));
    let ReportLine::Session(mut refused) = report("team", "a", 1, State::Waking) else { unreachable!() };
    refused.holds_slot = false;
    assert_eq!(hub.take("pod-uid", "team", ReportLine::Session(refused)).await, Effect::Load);
    assert_eq!((hub.live("team", "default"), hub.sessions_of("pod-uid")), (0, (0, 1)));
}

/// It may have slept again before its pod's stream was open, which then tells of nobody who has a slot.
#[tokio::test(start_paused = true)]
async fn who_has_a_place_is_not_believed_to_wait_for_one_much_longer() {
    let (hub, _told) = hub();
    let waits = || hub.anybody_waits("team", "default") && hub.waiting("team", "default", |uids, _| uids.len() as u32) == 1;
    let says = |believed| hub.requested("team", "default", "uid-a", believed);
    says(None);
    assert!(!waits());
    says(Some(WAITING_BELIEVED * 36));
    tokio::time::advance(WAITING_BELIEVED * 2).await;
    assert!(waits(), "a pod may take long to start");
    says(None);
    assert!(waits(), "its pod has yet to tell that it is live");
    tokio::time::advance(WAITING_BELIEVED / 2).await;
    says(None);
    tokio::time::advance(WAITING_BELIEVED / 2).await;
    assert!(!waits(), "however often its status says so");
    says(Some(WAITING_BELIEVED * 36));
    hub.take("pod-uid", "team", pod("one")).await;
    hub.take("pod-uid", "team", report("team", "a", 1, State::Waking)).await;
    assert!(!waits(), "it is live");
}

#[tokio::test]
async fn who_has_a_session_under_an_epoch_that_is_over_is_a_stray() {
    let (hub, _told) = hub();
    for (uid, pool) in [("other-uid", "default"), ("closed-uid", "default"), ("foreign-uid", "foreign")] {
        let view = PodView::new("team".to_owned(), pool.to_owned(), CancellationToken::new());
        hub.with(|views| views.pods.insert(uid.to_owned(), view));
    }
    for uid in ["pod-uid", "other-uid", "closed-uid", "foreign-uid"] {
        hub.take(uid, "team", pod(&format!("boot-{uid}"))).await;
    }
    let strays = |owner: Option<&str>, below: u64| -> Vec<(String, u64)> {
        hub.strays("team", "default", "uid-a", owner, below).into_iter().map(|stray| (stray.boot, stray.epoch)).collect()
    };
    hub.take("pod-uid", "team", report("team", "a", 1, State::Idle)).await;
    assert_eq!(strays(Some("pod-uid"), 1), [], "its owner");
    assert_eq!(strays(None, 1), [], "it may just be beginning");
    assert_eq!(strays(Some("other-uid"), 2), [("boot-pod-uid".to_owned(), 1)], "whose owner has not told of it yet");
    assert_eq!(strays(None, 2), [("boot-pod-uid".to_owned(), 1)], "whose owner is gone");
    hub.take("other-uid", "team", report("team", "a", 2, State::Idle)).await;
    assert_eq!(strays(Some("other-uid"), 2), [("boot-pod-uid".to_owned(), 1)]);
    hub.take("other-uid", "team", report("team", "a", 2, State::Hibernated)).await;
    assert_eq!(strays(Some("other-uid"), 2), [("boot-pod-uid".to_owned(), 1)], "whose owner has it asleep");
    hub.take("pod-uid", "team", report("team", "a", 1, State::Hibernated)).await;
    assert_eq!(strays(Some("other-uid"), 2), [], "one that sleeps holds no slot");
    for uid in ["closed-uid", "foreign-uid"] {
        hub.take(uid, "team", report("team", "a", 1, State::Idle)).await;
    }
    hub.closed("closed-uid");
    assert_eq!(strays(Some("other-uid"), 2), [], "nobody is told whose stream is not open, or who is of another pool");
}
