use serde_json::json;

use super::*;

fn call(uid: &str, epoch: u64, call: u64) -> ToolCall {
    let args = json!({"n": call});
    ToolCall {
        namespace: "a".into(),
        session: "s".into(),
        session_uid: uid.into(),
        epoch,
        call,
        tool: "t".into(),
        args,
        references: std::collections::BTreeMap::new(),
        repeated: false,
        settled_below: 0,
        page: None,
        waits: Default::default(),
        made_in: None,
        service_secrets: Default::default(),
        knowledge: None,
        body: None,
        stream_above: None,
        by: None,
    }
}

fn answer(text: &str) -> ToolAnswer {
    ToolAnswer::Ok { value: json!(text) }
}

fn run(recent: &RecentCalls, call: &ToolCall, text: &str) {
    let Ok(Claim::Run(ticket)) = recent.claim(call, false) else { panic!("{call:?} is not new") };
    ticket.finish(Arc::new(answer(text)));
}

fn refused(recent: &RecentCalls, call: &ToolCall) -> ErrorCode {
    recent.claim(call, false).unwrap_err().code
}

#[test]
fn a_repeated_call_is_answered_and_another_one_refused() {
    let recent = RecentCalls::new(Limits::default());
    run(&recent, &call("u", 1, 1), "first");
    let Ok(Claim::Answered(again)) = recent.claim(&call("u", 2, 1), false) else { panic!("not answered") };
    assert_eq!(*again, answer("first"));
    let mut other = call("u", 2, 1);
    other.args = json!({});
    assert_eq!(refused(&recent, &other), ErrorCode::Conflict);
    assert_eq!(refused(&recent, &call("u", 1, 2)), ErrorCode::SessionGone);
    assert_eq!(refused(&recent, &call("u", 2, 0)), ErrorCode::InvalidRequest);
}

#[test]
fn a_call_that_was_given_up_is_not_made_again() {
    let recent = RecentCalls::new(Limits::default());
    drop(recent.claim(&call("u", 1, 1), false).unwrap());
    let Ok(Claim::Answered(again)) = recent.claim(&call("u", 1, 1), false) else { panic!("not answered") };
    assert!(matches!(again.as_ref(), ToolAnswer::Err { error } if error.code == ErrorCode::OutcomeUnknown));
}

#[test]
fn a_call_that_was_refused_before_it_was_made_is_claimed_anew() {
    let recent = RecentCalls::new(Limits::default());
    let Ok(Claim::Run(ticket)) = recent.claim(&call("u", 1, 1), false) else { panic!("it is new") };
    let waits = ticket.pending().unwrap();
    ticket.refuse(ApiError::new(ErrorCode::StorageUnavailable, "not now"));
    assert!(matches!(&*waits.borrow(), Some(Err(error)) if error.code == ErrorCode::StorageUnavailable));
    run(&recent, &call("u", 1, 1), "first");
}

#[test]
fn a_repeated_call_that_is_not_known_is_made_only_if_that_does_no_harm() {
    let recent = RecentCalls::new(Limits::default());
    let repeated = |number| ToolCall { repeated: true, ..call("u", 2, number) };
    assert_eq!(recent.claim(&repeated(1), false).unwrap_err().code, ErrorCode::OutcomeUnknown);
    assert_eq!(refused(&recent, &call("u", 2, 1)), ErrorCode::OutcomeUnknown, "the first sending, late");
    assert!(matches!(recent.claim(&repeated(2), true), Ok(Claim::Run(_))));
    run(&recent, &call("u", 2, 3), "third");
    assert!(matches!(recent.claim(&repeated(3), false), Ok(Claim::Answered(_))));
}

#[test]
fn a_session_keeps_a_bounded_number_of_calls() {
    let recent = RecentCalls::new(Limits { session_calls_max: 2, ..Limits::default() });
    let running = recent.claim(&call("u", 1, 1), false).unwrap();
    for number in 2..=4 {
        run(&recent, &call("u", 1, number), "x");
    }
    assert!(matches!(recent.claim(&call("u", 1, 1), false), Ok(Claim::Wait(_))), "a running call is never dropped");
    assert_eq!(refused(&recent, &call("u", 1, 2)), ErrorCode::OutcomeUnknown);
    assert_eq!(refused(&recent, &call("u", 1, 3)), ErrorCode::OutcomeUnknown);
    assert!(matches!(recent.claim(&call("u", 1, 4), false), Ok(Claim::Answered(_))));
    drop(running);
}

#[test]
fn a_session_keeps_a_bounded_number_of_calls_that_were_refused() {
    let recent = RecentCalls::new(Limits { session_calls_max: 2, ..Limits::default() });
    for number in 1..=4 {
        let repeated = ToolCall { repeated: true, ..call("u", 1, number) };
        assert_eq!(refused(&recent, &repeated), ErrorCode::OutcomeUnknown);
    }
    assert_eq!(recent.lock().sessions["u"].calls.len(), 2);
    assert_eq!(refused(&recent, &call("u", 1, 1)), ErrorCode::OutcomeUnknown, "its number stays taken");
}

#[test]
fn answers_are_bounded_by_bytes() {
    let text = "x".repeat(100);
    let recent = RecentCalls::new(Limits { session_bytes_max: 250, bytes_max: 300, ..Limits::default() });
    for number in 1..=3 {
        run(&recent, &call("u", 1, number), &text);
    }
    assert_eq!(refused(&recent, &call("u", 1, 1)), ErrorCode::OutcomeUnknown);
    assert!(matches!(recent.claim(&call("u", 1, 2), false), Ok(Claim::Answered(_))));
    run(&recent, &call("v", 1, 1), &text);
    assert_eq!(refused(&recent, &call("u", 1, 3)), ErrorCode::OutcomeUnknown, "the session used longest ago gave way");
    assert!(matches!(recent.claim(&call("v", 1, 1), false), Ok(Claim::Answered(_))));
    assert!(recent.lock().bytes <= 300);
}

#[test]
fn sessions_are_bounded() {
    let recent = RecentCalls::new(Limits { sessions_max: 2, ..Limits::default() });
    for uid in ["a", "b", "c"] {
        run(&recent, &call(uid, 1, 1), "x");
    }
    let state = recent.lock();
    assert!(!state.sessions.contains_key("a") && state.sessions.len() == 2);
}
