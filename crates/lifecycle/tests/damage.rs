//! Whatever happens to stored bytes, a restore refuses them or gets exactly what was stored.
//!
//! `DORMOUSE_DAMAGES` says how many.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, io::Write as _, sync::Arc};

use bytes::Bytes;
use dormouse_lifecycle::{Acquire, Change, Commit, Head, Owned, PAGE_BYTES, Page, Reply, SessionKey, Step, TopLayer, acquire, assemble};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Damages unless `DORMOUSE_DAMAGES` says otherwise.
const DAMAGES: u32 = 5_000;

/// What is known to have been stored: the head of the third commit.
const ANCHOR: (u64, u64) = (1, 3);

type Objects = BTreeMap<String, Bytes>;

fn session(uid: &str) -> SessionKey {
    SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: uid.into(), name: "n".into() }
}

fn noise(seed: u32) -> Page {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    Arc::new(std::array::from_fn::<u8, PAGE_BYTES, _>(|_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    }))
}

/// A session with two segments and inline pages, its pages, and the heads that it had before.
fn stored(uid: &str, salt: u32) -> (Objects, BTreeMap<u32, Page>, Vec<Bytes>) {
    let (mut objects, mut image, mut older) = (Objects::new(), BTreeMap::new(), Vec::new());
    let mut owned = Owned { session: session(uid), epoch: 1, head: None, etag: None, top_layer: TopLayer::default() };
    for (commit, count) in [20_u32, 18, 2].into_iter().enumerate() {
        let pages: Vec<(u32, Page)> = (0..count).map(|n| (n * 2, noise(salt + 100 * commit as u32 + n))).collect();
        image.extend(pages.iter().cloned());
        let change = Change {
            full: commit == 0,
            pages,
            memory_pages: 4,
            globals: serde_json::json!([salt]).into(),
            state: serde_json::json!({ "cells": commit }).into(),
            engine_digest: "e".into(),
            time: String::new(),
        };
        let (mut machine, mut step) = Commit::begin(&owned, change, commit.to_string());
        loop {
            step = match step {
                Step::PutSegment { key, bytes } | Step::PutHead { key, bytes, .. } => {
                    older.extend(objects.insert(key, bytes));
                    machine.on(Reply::Stored { etag: commit.to_string() })
                }
                Step::Committed(next) => break owned = next,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(objects.len() == 3 && !owned.head.unwrap().inline.is_empty());
    (objects, image, older)
}

#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Append(Vec<u8>),
    SwapBytes(prop::sample::Index, prop::sample::Index),
    Overwrite(prop::sample::Index, Vec<u8>),
    /// The bytes of another object: of this session, of another one, or the head that was there before.
    Other(prop::sample::Index),
    Lost,
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = || any::<prop::sample::Index>();
    prop_oneof![
        4 => (index(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        2 => index().prop_map(Damage::Cut),
        1 => proptest::collection::vec(any::<u8>(), 1..64).prop_map(Damage::Append),
        2 => (index(), index()).prop_map(|(a, b)| Damage::SwapBytes(a, b)),
        2 => (index(), proptest::collection::vec(any::<u8>(), 1..64)).prop_map(|(at, bytes)| Damage::Overwrite(at, bytes)),
        2 => index().prop_map(Damage::Other),
        1 => Just(Damage::Lost),
    ]
}

fn apply(damage: &Damage, bytes: &Bytes, others: &[Bytes]) -> Option<Bytes> {
    let mut out = bytes.to_vec();
    match damage {
        Damage::Flip(at, bit) => out[at.index(bytes.len())] ^= 1 << bit,
        Damage::Cut(at) => out.truncate(at.index(bytes.len())),
        Damage::Append(more) => out.extend(more),
        Damage::SwapBytes(a, b) => out.swap(a.index(bytes.len()), b.index(bytes.len())),
        Damage::Overwrite(at, with) => {
            let at = at.index(bytes.len());
            let end = bytes.len().min(at + with.len());
            out[at..end].copy_from_slice(&with[..end - at]);
        }
        Damage::Other(which) => return Some(others[which.index(others.len())].clone()),
        Damage::Lost => return None,
    }
    Some(out.into())
}

/// What a restore makes of the objects: pages, or a refusal in words.
fn restore(objects: &Objects) -> Result<BTreeMap<u32, Page>, String> {
    let bytes = objects.get(&session("u").head());
    match acquire::acquire(session("u"), 2, Some(ANCHOR), bytes.map(|bytes| (Head::decode(bytes), "etag".to_owned()))) {
        Acquire::Restore(owned) => {
            let head = owned.head.unwrap();
            let segments: Option<Vec<Bytes>> = head.segments.iter().map(|segment| objects.get(&segment.key).cloned()).collect();
            assemble(&head, &segments.ok_or("a segment is lost")?).map_err(|error| error.to_string())
        }
        Acquire::Corrupt(error) => Err(error.to_string()),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn damage_is_refused_and_never_read_as_something_else() {
    let cases = std::env::var("DORMOUSE_DAMAGES").ok().map_or(DAMAGES, |text| text.parse().expect("a number"));
    let ((whole, image, older), (foreign, ..)) = (stored("u", 1), stored("v", 9_000));
    assert_eq!(restore(&whole).unwrap(), image);
    let keys: Vec<&String> = whole.keys().collect();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let which = any::<prop::sample::Index>();
    runner
        .run(&(which, damage()), |(which, damage)| {
            let key = keys[which.index(keys.len())];
            let others = whole.iter().chain(&foreign).filter(|(k, _)| *k != key).map(|(_, bytes)| bytes);
            let others: Vec<Bytes> = others.chain(&older).cloned().collect();
            let mut objects = whole.clone();
            match apply(&damage, &whole[key], &others) {
                Some(bytes) => drop(objects.insert(key.clone(), bytes)),
                None => drop(objects.remove(key)),
            }
            match restore(&objects) {
                Ok(pages) => prop_assert!(objects == whole && pages == image, "{key} was believed"),
                Err(_) => prop_assert!(objects != whole),
            }
            Ok(())
        })
        .unwrap();
    let _ = writeln!(std::io::stderr(), "soak: {cases} flips, cuts, swaps and losses of stored bytes, 0 believed, 0 panics");
}
