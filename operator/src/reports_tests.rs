use super::*;

fn report(namespace: &str, name: &str, epoch: u64, state: State) -> ReportLine {
    ReportLine::Session(Box::new(SessionReport {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        epoch,
        state,
        failure: None,
        generation: 1,
        heap_bytes: 0,
        snapshot: None,
        last_active_time: None,
        next_wake_time: None,
        cells: 0,
        tool_calls: 0,
        approvals: 0,
    }))
}

fn pod(boot: &str) -> ReportLine {
    ReportLine::Pod(PodInfo {
        pod: "p".to_owned(),
        namespace: "team".to_owned(),
        boot: boot.to_owned(),
        slots: 10,
        used: 0,
        engine_digest: String::new(),
        draining: false,
    })
}

fn hub() -> (Hub, mpsc::Receiver<ObjectRef<KernelSession>>) {
    let (tx, rx) = mpsc::channel(16);
    let hub = Hub::new(tx);
    let view = PodView {
        namespace: "team".to_owned(),
        pool: "default".to_owned(),
        open_since: None,
        info: None,
        sessions: HashMap::new(),
        bytes: 0,
        stop: CancellationToken::new(),
    };
    hub.with(|pods| pods.insert("pod-uid".to_owned(), view));
    (hub, rx)
}

#[tokio::test]
async fn the_newest_report_counts_while_the_process_lives() {
    let (hub, mut told) = hub();
    assert_eq!(hub.told("pod-uid", "uid-a"), None, "no stream yet");
    hub.take("pod-uid", "team", pod("one")).await;
    hub.take("pod-uid", "team", report("team", "a", 1, State::Idle)).await;
    hub.take("pod-uid", "team", report("team", "b", 1, State::Hibernated)).await;
    assert_eq!(told.recv().await.map(|r| r.name), Some("a".to_owned()));
    let seen = hub.told("pod-uid", "uid-a").unwrap();
    assert_eq!((seen.boot.as_str(), seen.report.unwrap().state), ("one", State::Idle));
    assert_eq!(hub.live("team", "default"), 1, "a sleeping session holds no slot");
    assert_eq!(hub.live("other", "default"), 0);

    hub.take("pod-uid", "team", pod("two")).await;
    assert_eq!(hub.told("pod-uid", "uid-a").unwrap().report, None, "another process knows nothing of it");
    assert!(hub.told("pod-uid", "uid-a").unwrap().open_for.is_some());
    hub.closed("pod-uid");
    assert_eq!(hub.told("pod-uid", "uid-a").unwrap().open_for, None, "what was heard last is kept, and said to be that");
}

#[tokio::test]
async fn a_pool_is_looked_at_when_a_slot_is_taken_or_freed() {
    let (hub, _told) = hub();
    hub.take("pod-uid", "team", pod("one")).await;
    for (state, looked_at) in [(State::Running, true), (State::Idle, false), (State::Hibernated, true), (State::Hibernated, false)] {
        assert_eq!(hub.take("pod-uid", "team", report("team", "a", 1, state)).await, looked_at, "{state}");
    }
}

#[tokio::test]
async fn a_pod_is_believed_for_its_own_namespace_only() {
    let (hub, _told) = hub();
    hub.take("pod-uid", "team", pod("one")).await;
    hub.take("pod-uid", "team", report("victim", "a", 1, State::Idle)).await;
    assert_eq!(hub.told("pod-uid", "uid-a").unwrap().report, None);
}

#[tokio::test]
async fn forgetting_an_older_epoch_keeps_the_newer_report() {
    let (hub, _told) = hub();
    hub.take("pod-uid", "team", pod("one")).await;
    hub.take("pod-uid", "team", report("team", "a", 3, State::Idle)).await;
    hub.take("pod-uid", "team", ReportLine::Forgotten { uid: "uid-a".to_owned(), epoch: 2 }).await;
    assert!(hub.told("pod-uid", "uid-a").unwrap().report.is_some());
    hub.take("pod-uid", "team", ReportLine::Forgotten { uid: "uid-a".to_owned(), epoch: 3 }).await;
    assert!(hub.told("pod-uid", "uid-a").unwrap().report.is_none());
}

#[test]
fn lines_are_cut_where_they_end() {
    let mut lines = Lines::default();
    lines.push(b"{\"a\"").unwrap();
    assert_eq!(lines.next_line(), None);
    lines.push(b":1}\n\n{}\n").unwrap();
    assert_eq!(lines.next_line(), Some(b"{\"a\":1}".to_vec()));
    assert_eq!(lines.next_line(), Some(b"{}".to_vec()));
    assert_eq!(lines.next_line(), None);
    assert!(lines.push(&vec![b'x'; LINE_BYTES_MAX]).is_ok());
    assert!(lines.push(b"x").is_err());
}

#[test]
fn ipv6_addresses_get_brackets() {
    assert_eq!(address_of("10.0.0.1", 7443), "10.0.0.1:7443");
    assert_eq!(address_of("fd00::1", 7443), "[fd00::1]:7443");
}

#[tokio::test]
async fn what_is_kept_of_one_pod_is_bounded() {
    let (tx, mut told) = mpsc::channel(1 << 20);
    let (mut hub, _none) = hub();
    hub.sessions = tx;
    hub.take("pod-uid", "team", pod("one")).await;
    let large = |name: String| match report("team", &name, 1, State::Failed) {
        ReportLine::Session(mut report) => {
            report.failure = Some(ApiError::new(dormouse_protocol::ErrorCode::Internal, "x".repeat(LINE_BYTES_MAX)));
            ReportLine::Session(report)
        }
        other => other,
    };
    for number in 0..2_000 {
        hub.take("pod-uid", "team", large(format!("s{number}"))).await;
    }
    let (sessions, bytes) = hub.with(|pods| (pods["pod-uid"].sessions.len(), pods["pod-uid"].bytes));
    assert!(bytes <= TOLD_BYTES_MAX && sessions > 400 && sessions < 600, "{sessions} sessions, {bytes} bytes");
    let mut heard = 0;
    while told.try_recv().is_ok() {
        heard += 1;
    }
    assert_eq!(heard, sessions);
    for number in 0..2_000 {
        hub.take("pod-uid", "team", ReportLine::Forgotten { uid: format!("uid-s{number}"), epoch: 1 }).await;
    }
    assert_eq!(hub.with(|pods| (pods["pod-uid"].sessions.len(), pods["pod-uid"].bytes)), (0, 0));
}
