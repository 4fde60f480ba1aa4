use serde_json::json;

use super::*;

fn session() -> SessionKey {
    SessionKey { store_prefix: "p/".into(), tenant: "team".into(), uid: "u".into(), name: "n".into() }
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
