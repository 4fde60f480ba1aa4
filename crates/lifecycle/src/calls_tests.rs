use serde_json::json;

use super::*;

fn session() -> SessionKey {
    SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: "u".into(), name: "n".into() }
}

fn asked(epoch: u64, call: u64, attempt: &'static str) -> Asked<'static> {
    Asked { epoch, call, settled_below: 1, fingerprint: "f", attempt, repeated: false, take_over: None }
}

/// A page that has been stored once, so that calls which are not on it were never let go.
fn page() -> CallPage {
    let mut page = CallPage::new(&session());
    page.first = 1;
    stored(&mut page)
}

fn stored(page: &mut CallPage) -> CallPage {
    CallPage::decode(&page.encode().unwrap(), &session()).unwrap()
}

#[test]
fn a_call_is_made_once_and_then_answered() {
    let mut page = page();
    assert_eq!(page.admit(&asked(1, 7, "a")), Admission::Make);
    assert_eq!(page.admit(&asked(1, 7, "a")), Admission::Make, "its own intent, after a reply that was lost");
    assert_eq!(page.admit(&asked(2, 7, "b")), Admission::UnderWay { attempt: "a".into() });
    page.settle(7, "b", &json!("not b's"));
    assert_eq!(page.admit(&asked(2, 7, "b")), Admission::UnderWay { attempt: "a".into() });
    page.settle(7, "a", &json!({"value": 1}));
    page.settle(7, "a", &json!("twice"));
    let mut page = stored(&mut page);
    assert_eq!(page.admit(&asked(2, 7, "c")), Admission::Answered(json!({"value": 1})));
    let other = Asked { fingerprint: "g", ..asked(2, 7, "d") };
    assert_eq!(page.admit(&other), Admission::Refused(Refusal::AnotherCall));
}

#[test]
fn an_epoch_that_is_over_is_refused_whatever_it_asks() {
    let mut page = page();
    assert_eq!(page.admit(&asked(3, 1, "a")), Admission::Make);
    let before = page.clone();
    for call in [1, 2] {
        assert_eq!(page.admit(&asked(2, call, "b")), Admission::Refused(Refusal::EpochOver { highest: 3 }));
    }
    assert_eq!(page, before, "nothing of it is written down");
    page.settle(1, "a", &json!(1));
    assert_eq!(page.admit(&asked(4, 1, "c")), Admission::Answered(json!(1)));
    assert_eq!(page.epoch(), 4);
}

#[test]
fn an_epoch_that_no_owner_can_have_shuts_nobody_out() {
    let mut page = page();
    assert_eq!(page.admit(&asked(u64::MAX, 1, "lie")), Admission::Refused(Refusal::EpochTooFar));
    assert_eq!(page.admit(&asked(3, 1, "a")), Admission::Make);
    assert_eq!(page.admit(&asked(u64::MAX, 2, "lie")), Admission::Refused(Refusal::EpochTooFar));
    assert_eq!((page.admit(&asked(3, 2, "b")), page.epoch()), (Admission::Make, 3));
}

#[test]
fn an_intent_whose_epoch_ended_before_its_broker_had_the_word_is_taken_back() {
    let mut page = page();
    assert_eq!(page.admit(&asked(1, 1, "a")), Admission::Make, "stored, and the reply was lost");
    assert_eq!(page.admit(&asked(2, 1, "b")), Admission::UnderWay { attempt: "a".into() });
    let over = Admission::Refused(Refusal::EpochOver { highest: 2 });
    assert_eq!(page.admit(&asked(1, 1, "c")), over);
    assert_eq!(page.admit(&asked(2, 1, "b")), Admission::UnderWay { attempt: "a".into() }, "another attempt says nothing of it");
    assert_eq!(page.admit(&asked(1, 1, "a")), over);
    let repeated = Asked { repeated: true, ..asked(2, 1, "b") };
    assert_eq!(page.admit(&repeated), Admission::Make);
    page.settle(1, "b", &json!(1));
    assert_eq!(page.admit(&asked(1, 1, "b")), over);
    assert_eq!(page.admit(&asked(2, 1, "d")), Admission::Answered(json!(1)), "an outcome is never taken back");
}

#[test]
fn an_intent_below_a_forgotten_number_is_not_taken_back() {
    let mut page = page();
    assert_eq!(page.admit(&asked(1, 1, "a")), Admission::Make);
    for call in 2..=u64::try_from(CALLS_MAX).unwrap() + 1 {
        assert_eq!(page.admit(&asked(2, call, "b")), Admission::Make);
        page.settle(call, "b", &json!(0));
    }
    assert_eq!(page.forgotten_through, 2);
    assert_eq!(page.admit(&asked(1, 1, "a")), Admission::Refused(Refusal::EpochOver { highest: 2 }));
    assert_eq!(page.admit(&asked(2, 1, "b")), Admission::UnderWay { attempt: "a".into() }, "not: its answer is no longer kept");
}

#[test]
fn a_call_that_a_broker_without_pages_may_have_made_is_not_made() {
    let mut page = CallPage::new(&session());
    let repeated = |call| Asked { repeated: true, ..asked(1, call, "a") };
    assert_eq!(page.admit(&repeated(5)), Admission::Refused(Refusal::Unknown));
    assert_eq!(page.admit(&asked(1, 5, "late")), Admission::Refused(Refusal::Unknown), "the first sending, late");
    let mut page = stored(&mut page);
    assert_eq!(page.admit(&repeated(4)), Admission::Refused(Refusal::Unknown));
    assert_eq!(page.admit(&repeated(6)), Admission::Make, "from here on an intent would be on the page");
}

#[test]
fn what_is_settled_goes_and_is_never_made_again() {
    let mut page = page();
    for call in 1..=4 {
        assert_eq!(page.admit(&asked(1, call, "a")), Admission::Make);
        page.settle(call, "a", &json!(call));
    }
    assert_eq!(page.admit(&Asked { settled_below: 4, ..asked(1, 6, "a") }), Admission::Make);
    assert_eq!(page.calls.keys().copied().collect::<Vec<_>>(), [4, 6]);
    assert_eq!(page.admit(&asked(1, 3, "a")), Admission::Refused(Refusal::Unkept));
    assert_eq!(page.admit(&asked(1, 4, "b")), Admission::Answered(json!(4)));
    assert_eq!(page.admit(&asked(1, 5, "a")), Admission::Make, "it was issued before and arrives after");
}

#[test]
fn an_intent_is_taken_over_only_when_that_is_asked() {
    let mut page = page();
    assert_eq!(page.admit(&asked(1, 1, "a")), Admission::Make);
    assert_eq!(page.admit(&Asked { take_over: Some("a"), ..asked(1, 1, "b") }), Admission::Make);
    let second = Asked { take_over: Some("a"), ..asked(1, 1, "c") };
    assert_eq!(page.admit(&second), Admission::UnderWay { attempt: "b".into() }, "somebody else was first");
    page.settle(1, "a", &json!("the first one's, late"));
    assert_eq!(page.admit(&asked(1, 1, "c")), Admission::UnderWay { attempt: "b".into() });
}

#[test]
fn an_answer_of_the_largest_size_is_kept_and_one_byte_more_is_not() {
    let mut page = page();
    // Two quotation marks.
    for (call, bytes) in [(1, ANSWER_BYTES_MAX - 2), (2, ANSWER_BYTES_MAX - 1)] {
        assert_eq!(page.admit(&asked(1, call, "a")), Admission::Make);
        page.settle(call, "a", &json!("x".repeat(bytes)));
    }
    assert!(matches!(page.admit(&asked(1, 1, "b")), Admission::Answered(_)));
    assert_eq!(page.admit(&asked(1, 2, "b")), Admission::Refused(Refusal::Unkept));
}

#[test]
fn answers_are_bounded_together() {
    let mut page = page();
    let fit = u64::try_from(ANSWERS_BYTES_MAX / ANSWER_BYTES_MAX).unwrap();
    for call in 1..=fit + 1 {
        assert_eq!(page.admit(&asked(1, call, "a")), Admission::Make);
        page.settle(call, "a", &json!("x".repeat(ANSWER_BYTES_MAX - 2)));
        let first = page.admit(&asked(1, 1, "b"));
        assert_eq!(matches!(first, Admission::Answered(_)), call <= fit, "{call}");
    }
    assert_eq!(page.admit(&asked(1, 1, "b")), Admission::Refused(Refusal::Unkept));
    assert!(matches!(page.admit(&asked(1, 2, "b")), Admission::Answered(_)));
    assert!(page.encode().unwrap().len() < PAGE_BYTES_MAX);
}

#[test]
fn calls_are_bounded_and_an_intent_never_gives_way() {
    let mut page = page();
    let max = u64::try_from(CALLS_MAX).unwrap();
    for call in 1..=max {
        assert_eq!(page.admit(&asked(1, call, "a")), Admission::Make);
    }
    assert_eq!(page.admit(&asked(1, max + 1, "a")), Admission::Refused(Refusal::TooMany));
    page.settle(2, "a", &json!(2));
    assert_eq!(page.admit(&asked(1, max + 1, "a")), Admission::Make);
    assert_eq!(page.admit(&asked(1, 2, "b")), Admission::Refused(Refusal::Unkept));
    assert_eq!(page.admit(&asked(1, 1, "b")), Admission::UnderWay { attempt: "a".into() });
}

#[test]
fn a_page_is_never_stored_with_the_bytes_of_an_earlier_one() {
    let mut page = page();
    let (one, two) = (page.encode().unwrap(), page.encode().unwrap());
    assert_ne!(one, two);
}

#[test]
fn what_is_not_this_sessions_page_is_not_believed() {
    let mut page = page();
    page.admit(&asked(1, 1, "a"));
    let bytes = page.encode().unwrap();
    assert_eq!(CallPage::decode(&bytes, &session()).unwrap(), page);
    let other = SessionKey { uid: "v".into(), ..session() };
    assert!(matches!(CallPage::decode(&bytes, &other), Err(PageError::Foreign { .. })));
    for at in 0..bytes.len() {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 0x10;
        assert!(CallPage::decode(&flipped, &session()).is_err(), "byte {at}");
        assert!(CallPage::decode(&bytes[..at], &session()).is_err(), "cut at {at}");
    }
}

#[test]
fn a_fingerprint_tells_calls_apart() {
    assert_eq!(fingerprint("t", "{}"), fingerprint("t", "{}"));
    assert_ne!(fingerprint("t", "{}"), fingerprint("u", "{}"));
    assert_ne!(fingerprint("a\nb", "c"), fingerprint("a", "b\nc"));
}

#[test]
fn a_page_that_was_put_back_is_not_gone_on_from() {
    let mut page = CallPage::new(&session());
    assert_eq!(page.admit(&asked(1, 1, "a")), Admission::Make);
    let old = stored(&mut page);
    let mut page = old.clone();
    assert_eq!(page.admit(&asked(1, 2, "b")), Admission::Make);
    let page = stored(&mut page);
    for known in [old.anchor(), page.anchor(), String::new(), "nonsense".to_owned()] {
        assert!(page.believe(&known).is_ok(), "{known}");
    }
    assert!(matches!(old.believe(&page.anchor()), Err(PageError::RolledBack { known: 2, found: 1 })));
    // A page that is gone begins anew, and lets nothing go again that its predecessor may have.
    let mut anew = CallPage::new(&session());
    assert!(anew.believe(&page.anchor()).is_ok() && anew.is_another(&page.anchor()));
    assert_eq!(anew.admit(&Asked { repeated: true, ..asked(1, 2, "c") }), Admission::Refused(Refusal::Unknown));
    assert!(stored(&mut anew).is_another(&page.anchor()), "it never becomes the lost one's successor");
}

fn approved(id: &str, arguments: Option<serde_json::Value>) -> Decision {
    Decision { id: id.to_owned(), epoch: 1, verdict: Verdict::Approved { digest: "d".to_owned(), arguments }, by: "anna".to_owned() }
}

#[test]
fn the_first_decision_about_a_call_stands() {
    let mut page = CallPage::new(&session());
    let first = approved("one", None);
    assert_eq!(page.decide(3, &first), Ok(first.clone()));
    let denied = Decision { id: "two".to_owned(), epoch: 1, verdict: Verdict::Denied { reason: None }, by: "ben".to_owned() };
    assert_eq!(page.decide(3, &denied), Ok(first.clone()), "neither another verdict");
    assert_eq!(
        page.decide(3, &Decision { id: "three".to_owned(), epoch: 1, verdict: Verdict::Expired, by: String::new() }),
        Ok(first.clone()),
        "nor time"
    );
    let bytes = page.encode().unwrap();
    let read = CallPage::decode(&bytes, &session()).unwrap();
    assert_eq!((read.decision(3), read.decision(4)), (Some(&first), None));
}

#[test]
fn a_decision_is_for_a_call_that_waits_and_goes_with_it() {
    let mut page = CallPage::new(&session());
    let asked = Asked { epoch: 1, call: 1, settled_below: 0, fingerprint: "f", attempt: "a", repeated: false, take_over: None };
    assert_eq!(page.admit(&asked), Admission::Make);
    assert_eq!(page.decide(1, &approved("late", None)), Err(Undecided::Over), "it is being made");
    page.decide(2, &approved("two", None)).unwrap();
    let mut page = stored(&mut page);
    // It was asked for before the decision, so it says that it may have been sent: the page knows that it was not made.
    assert_eq!(page.admit(&Asked { call: 2, repeated: true, fingerprint: "g", attempt: "b", ..asked }), Admission::Make);
    page.settle(2, "b", &serde_json::json!(1));
    assert_eq!(page.admit(&Asked { call: 3, settled_below: 3, fingerprint: "h", attempt: "c", ..asked }), Admission::Make);
    assert_eq!(page.decision(2), None, "its answer is in the heap");
    assert_eq!(page.decide(2, &approved("again", None)), Err(Undecided::Over));
}

#[test]
fn a_page_that_begins_with_a_decision_lets_that_call_be_made() {
    let mut page = CallPage::new(&session());
    page.decide(7, &approved("one", None)).unwrap();
    let bytes = page.encode().unwrap();
    let mut page = CallPage::decode(&bytes, &session()).unwrap();
    let asked = Asked { epoch: 1, call: 7, settled_below: 3, fingerprint: "f", attempt: "a", repeated: true, take_over: None };
    assert_eq!(page.admit(&asked), Admission::Make);
    page.decide(3, &approved("an earlier call, decided about later", None)).unwrap();
    assert_eq!(page.admit(&Asked { call: 3, attempt: "b", ..asked }), Admission::Make);
    assert_eq!(page.admit(&Asked { call: 4, attempt: "c", ..asked }), Admission::Refused(Refusal::Unknown), "nobody knows of that one");
}

#[test]
fn what_was_told_to_wait_is_known_to_until_it_is_made_or_over() {
    let mut page = CallPage::new(&session());
    page.park(2, 1, "f", "a").unwrap();
    page.park(2, 1, "g", "b").unwrap();
    let mut page = stored(&mut page);
    assert!(page.is_parked(2, "f") && !page.is_parked(2, "g") && !page.is_parked(3, "f"), "the first one stands, and for this very call");
    let asked = Asked { epoch: 1, call: 1, settled_below: 0, fingerprint: "e", attempt: "c", repeated: true, take_over: None };
    assert_eq!(page.admit(&asked), Admission::Refused(Refusal::Unknown), "nobody knows of an earlier one");
    page.decide(2, &approved("two", None)).unwrap();
    assert_eq!(page.admit(&Asked { call: 2, fingerprint: "f", attempt: "d", ..asked }), Admission::Make);
    assert!(!page.is_parked(2, "f"), "it is made");
    page.park(2, 1, "f", "e").unwrap();
    assert!(!page.is_parked(2, "f"), "and does not wait again");
    page.park(3, 1, "h", "f").unwrap();
    assert_eq!(page.admit(&Asked { call: 5, settled_below: 4, attempt: "g", repeated: false, ..asked }), Admission::Make);
    assert!(!page.is_parked(3, "h"), "it is over");
    page.park(3, 1, "h", "h").unwrap();
    assert!(!page.is_parked(3, "h"));
}

#[test]
fn a_decision_is_about_the_epoch_in_which_the_call_was_made() {
    let mut page = CallPage::new(&session());
    page.park(2, 3, "f", "a").unwrap();
    // The session is another process's by now, which asks anew.
    page.park(2, 4, "f", "b").unwrap();
    let mut page = stored(&mut page);
    assert_eq!(page.made_in(2), Some(3));
    for epoch in [2, 4] {
        let other = Decision { epoch, ..approved("other", None) };
        assert_eq!(page.decide(2, &other), Err(Undecided::AnotherEpoch { made_in: 3 }), "{epoch}");
        let over = Decision { epoch, verdict: Verdict::Expired, ..approved("over", None) };
        assert_eq!(page.decide(2, &over), Err(Undecided::AnotherEpoch { made_in: 3 }), "{epoch}");
    }
    assert_eq!(page.decision(2), None);
    let own = Decision { epoch: 3, ..approved("own", None) };
    assert_eq!(page.decide(2, &own), Ok(own.clone()));
    assert_eq!(stored(&mut page).decision(2), Some(&own), "its epoch is stored with it");
}

#[test]
fn calls_that_wait_are_bounded() {
    let mut page = CallPage::new(&session());
    let max = u64::try_from(PARKED_MAX).unwrap();
    for call in 1..=max {
        page.park(call, 1, "0123456789abcdef0123456789abcdef", "a").unwrap();
    }
    assert_eq!(page.park(max + 1, 1, "f", "a"), Err(Refusal::TooMany));
    assert_eq!(page.park(max, 1, "f", "a"), Ok(()), "it does already");
    assert!(page.encode().is_ok());
}

#[test]
fn decisions_are_bounded() {
    let mut page = CallPage::new(&session());
    let text = |bytes: usize| Some(serde_json::json!("x".repeat(bytes)));
    assert_eq!(page.decide(1, &approved("large", text(DECISION_BYTES_MAX))), Err(Undecided::TooLarge));
    for call in 1..=DECISIONS_MAX as u64 {
        page.decide(call, &approved("small", None)).unwrap();
    }
    assert_eq!(page.decide(DECISIONS_MAX as u64 + 1, &approved("one more", None)), Err(Undecided::TooMany));
    let mut page = CallPage::new(&session());
    let large = DECISION_BYTES_MAX - 200;
    for call in 1..=(DECISIONS_BYTES_MAX / DECISION_BYTES_MAX) as u64 {
        page.decide(call, &approved("large", text(large))).unwrap();
    }
    assert_eq!(page.decide(100, &approved("large", text(large))), Err(Undecided::TooMany));
    assert!(page.encode().is_ok());
}

#[test]
fn a_call_that_waits_is_not_pushed_off_the_page_by_those_after_it() {
    let mut page = CallPage::new(&session());
    let max = u64::try_from(CALLS_MAX).unwrap();
    let asked = Asked { epoch: 1, call: 1, settled_below: 1, fingerprint: "f", attempt: "a", repeated: true, take_over: None };
    let others = |page: &mut CallPage, from: u64| {
        for call in from..from + max + 1 {
            assert_eq!(page.admit(&Asked { call, repeated: false, ..asked }), Admission::Make);
            page.settle(call, "a", &serde_json::json!(call));
        }
    };
    // Call 1 waits; it has no entry.
    others(&mut page, 2);
    page.decide(1, &approved("one", None)).unwrap();
    assert_eq!(page.admit(&asked), Admission::Make);
    page.settle(1, "a", &serde_json::json!("paid"));
    others(&mut page, 2 + max + 1);
    assert!(matches!(page.admit(&asked), Admission::Answered(_)), "it is not made again");
    assert_eq!(page.decide(1, &approved("two", None)).unwrap().id, "one");
}
