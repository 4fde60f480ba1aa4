use std::{
    convert::Infallible,
    sync::atomic::{AtomicU32, Ordering},
};

use super::*;

const TLS: Subject<'_> = Subject { namespace: "team", secrets: &["tls"], holder: "tls", wanted: "one" };
const COPY: Subject<'_> = Subject { namespace: "team", secrets: &["copy", "original"], holder: "copy", wanted: "of original" };

/// Checks, and how often anybody looked.
#[derive(Default)]
struct World {
    checked: CheckedSecrets,
    looks: AtomicU32,
}

impl World {
    /// How often it was looked when it is asked for the subject, which is good for an hour.
    async fn looks(&self, subject: Subject<'_>) -> u32 {
        self.finds(subject, Found::Good(in_seconds(3_600)), || ()).await
    }

    async fn finds(&self, subject: Subject<'_>, found: Found, meanwhile: impl Fn()) -> u32 {
        let before = self.looks.load(Ordering::Relaxed);
        let look = async {
            self.looks.fetch_add(1, Ordering::Relaxed);
            meanwhile();
            Ok::<_, Infallible>(found)
        };
        self.checked.due(subject, look).await.unwrap();
        self.looks.load(Ordering::Relaxed) - before
    }

    fn nothing_is_kept(&self) -> bool {
        self.checked.lock().is_empty()
    }
}

fn in_seconds(seconds: i64) -> Timestamp {
    Timestamp::now() + jiff::SignedDuration::from_secs(seconds)
}

fn secret(name: &str) -> PartialObjectMeta<Secret> {
    let mut secret = PartialObjectMeta::<Secret>::default();
    (secret.metadata.namespace, secret.metadata.name) = (Some("team".to_owned()), Some(name.to_owned()));
    secret
}

#[tokio::test(start_paused = true)]
async fn what_is_good_is_looked_at_when_it_is_due_to_be_something_else_or_was_believed_for_long() {
    let world = World::default();
    assert_eq!((world.looks(TLS).await, world.looks(TLS).await), (1, 0));
    let other = Subject { wanted: "two", ..TLS };
    assert_eq!((world.looks(other).await, world.looks(other).await, world.looks(TLS).await), (1, 0, 1));
    tokio::time::advance(BELIEVED_MAX).await;
    assert_eq!((world.looks(TLS).await, world.looks(TLS).await), (1, 0));
    let due = Subject { namespace: "other", ..TLS };
    assert_eq!(world.finds(due, Found::Good(in_seconds(-1)), || ()).await, 1);
    assert_eq!(world.looks(due).await, 1);
}

#[tokio::test]
async fn the_answer_is_when_it_is_due_whether_it_was_looked_at_or_not() {
    let (checked, due) = (CheckedSecrets::default(), in_seconds(60));
    for _ in 0..2 {
        assert_eq!(checked.due(TLS, async { Ok::<_, Infallible>(Found::Good(due)) }).await, Ok(due));
    }
}

#[tokio::test]
async fn a_secret_that_is_touched_is_looked_at_again_and_no_other() {
    let world = World::default();
    let shares = Subject { secrets: &["other", "original"], holder: "other", ..COPY };
    for subject in [TLS, COPY, shares] {
        assert_eq!(world.looks(subject).await, 1);
    }
    world.checked.saw(&Event::Apply(secret("original")));
    assert_eq!((world.looks(TLS).await, world.looks(COPY).await, world.looks(shares).await), (0, 1, 1));
    world.checked.saw(&Event::Delete(secret("copy")));
    assert_eq!((world.looks(TLS).await, world.looks(COPY).await, world.looks(shares).await), (0, 1, 0));
    world.checked.saw(&Event::InitApply(secret("tls")));
    assert_eq!(world.looks(TLS).await, 0, "the list may be older than the look");
    world.checked.saw(&Event::InitDone);
    assert_eq!((world.looks(TLS).await, world.looks(COPY).await), (1, 1), "what went before the list is not told");
    world.checked.forget("team");
    assert!(world.nothing_is_kept());
}

#[tokio::test]
async fn what_is_touched_while_it_is_looked_at_is_looked_at_again() {
    let world = World::default();
    for event in [Event::Apply(secret("original")), Event::Delete(secret("copy")), Event::InitDone] {
        let looks = world.finds(COPY, Found::Good(Timestamp::MAX), || world.checked.saw(&event)).await;
        assert_eq!(looks, 1);
        assert!(world.nothing_is_kept(), "{event:?}");
    }
    assert_eq!((world.looks(COPY).await, world.looks(COPY).await), (1, 0));
}

#[tokio::test]
async fn what_is_not_good_is_looked_at_each_time() {
    let world = World::default();
    let unfinished = Found::Unfinished(in_seconds(60));
    assert_eq!((world.finds(TLS, unfinished, || ()).await, world.finds(TLS, unfinished, || ()).await), (1, 1));
    assert_eq!(world.checked.due(TLS, async { Err::<Found, _>("no answer") }).await, Err("no answer"));
    assert!(world.nothing_is_kept());
}
