//! Random programs: a session that is restored at every boundary is, byte for byte, the session that went on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod program;

use dormouse_conformance::session::{HEAP_BYTES, Session, compile};
use dormouse_engine::{Determinism, Settings, Turn};
use proptest::{prelude::*, test_runner::Config};

/// Programs.
const CASES: u32 = 200;
/// Timers that are delivered after each cell.
const DELIVERIES_MAX: usize = 12;

fn settings(seed: u64) -> Settings {
    Settings { heap_bytes: HEAP_BYTES, determinism: Some(Determinism { seed, epoch_ms: 1_767_225_600_000.0 }) }
}

/// What a turn says, without how long it took.
fn said(turn: Turn) -> String {
    let Turn { cell, ops, console, display, ticks, cpu: _, answer: _, output_bytes: _ } = turn;
    format!("{cell:?}\n{ops:?}\n{console:?}\n{display:?}\n{ticks}")
}

/// Runs `cells`; `at_boundary` makes the session that goes on.
async fn run(seed: u64, cells: &[String], at_boundary: impl AsyncFn(Session) -> Session) -> (Vec<String>, Session) {
    let mut session = Session::new(settings(seed)).unwrap();
    let mut transcript = Vec::new();
    for cell in cells {
        // Two cells in one may declare a name twice.
        if let Err(refused) = compile(cell) {
            transcript.push(refused.to_string());
            continue;
        }
        transcript.push(said(session.begin(cell).await.unwrap_or_else(|error| panic!("{error:#}\n{cell}"))));
        session = at_boundary(session).await;
        for _ in 0..DELIVERIES_MAX {
            let Some(turn) = session.fire().await.unwrap() else { break };
            transcript.push(said(turn));
            session = at_boundary(session).await;
        }
    }
    (transcript, session)
}

proptest! {
    #![proptest_config(Config { cases: CASES, failure_persistence: None, max_shrink_iters: 500, ..Config::default() })]

    #[test]
    fn continued_is_restored_and_continued(seed in any::<u64>(), cells in program::cells()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (went_on, mut one) = run(seed, &cells, async |session| session).await;
            let (restored, mut other) = run(seed, &cells, async |session: Session| session.restored().await.unwrap()).await;
            prop_assert_eq!(went_on, restored, "{:#?}", cells);
            prop_assert!(one.instance.image().await == other.instance.image().await, "other bytes after\n{:#?}", cells);
            Ok(())
        })?;
    }
}

/// The generator must make programs that work: one that only throws would show nothing.
#[tokio::test]
async fn most_generated_cells_end_well() {
    use proptest::{strategy::ValueTree as _, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let (mut good, mut all, mut timers) = (0, 0, 0);
    for _ in 0..40 {
        let cells = program::cells().new_tree(&mut runner).unwrap().current();
        let mut session = Session::new(settings(1)).unwrap();
        for cell in &cells {
            let mut end = None;
            let mut turn = session.begin(cell).await.unwrap_or_else(|error| panic!("{error:#}\n{cell}"));
            for _ in 0..DELIVERIES_MAX {
                end = turn.cell.take().or(end);
                let Some(next) = session.fire().await.unwrap() else { break };
                timers += 1;
                turn = next;
            }
            end = turn.cell.take().or(end);
            all += 1;
            good += usize::from(end.is_some_and(|end| end.ok));
        }
    }
    assert!(good * 4 > all * 3, "{good} of {all} cells end well");
    assert!(timers > 50, "{timers} timers");
}
