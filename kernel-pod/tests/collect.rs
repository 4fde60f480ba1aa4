//! Garbage collection over a real MinIO: two pods take sessions from each other, and the one that has lost a session goes on writing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, World, assign, ready, try_eval};
use dormouse_kernel::Pod;
use dormouse_lifecycle::{Head, segment::sha256_hex};
use dormouse_protocol::ErrorCode;
use dormouse_store::{S3, SnapshotStore as _};
use dormouse_testkit::minio::Minio;
use dormouse_testkit::soak;

/// Sessions that are fought for at the same time.
const SESSIONS: u64 = 4;

/// Takeovers from one that races with the owner before to the next.
const RACE_EVERY: u64 = 4;

/// Pause between two looks at what is left.
const POLL: Duration = Duration::from_millis(20);

/// Too much to ride in a head, and never the same: each commit has a segment of its own.
const CELL: &str = "globalThis.n = (globalThis.n ?? 0) + 1; globalThis.noise = new Uint8Array(96 << 10); \
    for (let at = 0; at < noise.length; at += 65536) crypto.getRandomValues(noise.subarray(at, at + 65536)); n";

#[derive(Default)]
struct Count {
    cycles: u64,
    zombies: u64,
    put: BTreeSet<String>,
}

/// The keys that a session's head names, itself among them. Each of them must be there and be what it says.
async fn live(store: &S3, uid: &str) -> BTreeSet<String> {
    let key = format!("p/t/team/s/default/{uid}/head");
    // The head may be replaced between two reads, and what it named be gone with it.
    for _ in 0..20 {
        let object = store.get(&key).await.unwrap().expect("it has a head");
        let head = Head::decode(&object.bytes).unwrap();
        let mut named = BTreeSet::from([key.clone()]);
        let mut whole = true;
        for segment in &head.segments {
            let found = store.get(&segment.key).await.unwrap();
            whole &= found.is_some_and(|object| sha256_hex(&object.bytes) == segment.sha256);
            named.insert(segment.key.clone());
        }
        named.extend(head.checkpoints.iter().flat_map(|it| it.segments.iter().chain([&it.key]).cloned()));
        named.extend(head.journal.segments.iter().map(|it| it.key.clone()));
        if whole {
            return named;
        }
        assert_ne!(store.get(&key).await.unwrap().map(|now| now.etag), Some(object.etag), "the head of {uid} names what is not there");
    }
    panic!("the head of {uid} never stands still");
}

/// Takes the session back and forth. Every takeover lists and deletes; so does every commit, of what the one before named.
async fn fight(store: S3, pods: [Pod; 2], uid: String, cycles: u64) -> Count {
    let (mut count, mut epoch, mut last) = (Count::default(), 1_u64, 0);
    while count.cycles < cycles {
        let (owner, zombie) = (&pods[epoch as usize % 2], &pods[(epoch as usize + 1) % 2]);
        let (mine, lost) = (assign(owner, &uid, epoch), assign(zombie, &uid, epoch.saturating_sub(1)));
        // The first owner has none before it.
        let lost_write = || async { if epoch > 1 { try_eval(zombie, &lost, CELL).await.err() } else { None } };
        // Now and then the owner before writes while it is being replaced, which is its right; else when it has been.
        let (answer, early) = if epoch % RACE_EVERY == 0 {
            tokio::join!(try_eval(owner, &mine, CELL), lost_write())
        } else {
            (try_eval(owner, &mine, CELL).await, None)
        };
        count.put.extend(store.list(&format!("p/t/team/s/default/{uid}/")).await.unwrap());
        live(&store, &uid).await;
        let (again, late) = tokio::join!(try_eval(owner, &mine, CELL), lost_write());
        for answer in [answer, again] {
            let n = answer.unwrap_or_else(|error| panic!("{uid} under {epoch}: {error}")).value.unwrap().as_u64().unwrap();
            assert!(n > last, "{n} after {last}");
            last = n;
        }
        for refused in early.into_iter().chain(late) {
            assert_eq!(refused.code, ErrorCode::SessionGone, "{refused}");
            count.zombies += 1;
        }
        live(&store, &uid).await;
        count.cycles += 2;
        epoch += 1;
    }
    // Quiet: one more owner, whose first commit sweeps.
    let (owner, began) = (&pods[epoch as usize % 2], Instant::now());
    try_eval(owner, &assign(owner, &uid, epoch), CELL).await.unwrap();
    loop {
        let named = live(&store, &uid).await;
        let listed: BTreeSet<String> = store.list(&format!("p/t/team/s/default/{uid}/")).await.unwrap().into_iter().collect();
        if listed == named {
            return count;
        }
        assert!(began.elapsed() < PATIENCE, "left behind: {:?}", listed.difference(&named).collect::<Vec<_>>());
        tokio::time::sleep(POLL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn live_keys_stay_and_nothing_else_does() {
    let minio = Minio::start().await.unwrap();
    let store = minio.create_bucket("sessions").await.unwrap();
    let world = World::default();
    let pods = ["a", "b"].map(|name| world.pod_over(name, Arc::new(store.clone())));
    for pod in &pods {
        ready(pod).await;
    }
    let cycles = soak::count(80, 10_000) / SESSIONS;
    let fights = (0..SESSIONS).map(|n| tokio::spawn(fight(store.clone(), pods.clone(), format!("u{n}"), cycles)));
    let counts: Vec<Count> = futures::future::join_all(fights).await.into_iter().map(Result::unwrap).collect();
    let sum = |of: fn(&Count) -> u64| counts.iter().map(of).sum::<u64>();
    assert!(sum(|count| count.zombies) > cycles * SESSIONS / 8, "the owners that lost a session were hardly ever late");
    soak::report(&format!(
        "{} cycles of garbage collection over {SESSIONS} sessions, {} writes by owners that had lost theirs, {} keys seen: 0 live ones deleted, 0 left \
         after one sweep in quiet",
        sum(|count| count.cycles),
        sum(|count| count.zombies),
        sum(|count| count.put.len() as u64),
    ));
}
