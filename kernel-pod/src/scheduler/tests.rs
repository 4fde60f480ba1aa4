//! What the scheduler promises, with sessions that run for ever.

use std::{
    future::Future as _,
    task::{Context, Poll, Waker},
    time::Duration,
};

use dormouse_engine::{Budget, CellSource, Engine, EngineError, EngineOptions, Settings, Turn};
use tokio::{io::AsyncWriteExt as _, sync::oneshot, task::JoinHandle};

use super::Scheduler;

/// A session that runs one cell.
fn session(engine: &Engine, scheduler: &Scheduler, code: &str, wall: Duration) -> JoinHandle<Result<Turn, EngineError>> {
    let mut instance = engine.create(&Settings { heap_bytes: 512 << 20, determinism: None }).unwrap();
    let cell = CellSource { code: code.to_owned(), ..CellSource::default() };
    let budget = Budget { wall, ..Budget::default() };
    tokio::spawn(scheduler.run(async move { instance.eval(&cell, &budget).await }))
}

const LOOP: &str = "for (;;);";
const BUILTIN: &str = "new Array(4e9).join('')";

/// One thread for everything: what runs beside the loops runs because they let it.
#[tokio::test]
async fn requests_timers_and_short_cells_run_beside_loops_and_long_builtins() {
    let (engine, scheduler) = (Engine::new(EngineOptions::for_user()).unwrap(), Scheduler::new());
    let long: Vec<_> = [LOOP, BUILTIN, LOOP, BUILTIN].map(|code| session(&engine, &scheduler, code, Duration::from_secs(600))).into();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let (mut client, mut server) = tokio::io::duplex(16);
        let served = tokio::spawn(async move { server.write_all(b"answer").await });
        let ended = session(&engine, &scheduler, "1+1", Duration::from_secs(60)).await.unwrap().unwrap();
        assert!(ended.cell.unwrap().ok);
        client.shutdown().await.unwrap();
        served.await.unwrap().unwrap();
    }
    assert!(long.iter().all(|session| !session.is_finished()));
    long.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn long_cells_share_what_there_is_and_all_come_to_their_end() {
    let (engine, scheduler) = (Engine::new(EngineOptions::for_user()).unwrap(), Scheduler::with_permits(1));
    let wall = Duration::from_millis(40);
    let long: Vec<_> = [LOOP, BUILTIN, LOOP, BUILTIN, LOOP].map(|code| session(&engine, &scheduler, code, wall)).into();
    let mut ended = Vec::new();
    for session in long {
        ended.push(match session.await.unwrap() {
            Ok(turn) => turn.cell.unwrap().error.unwrap().code.as_str(),
            Err(EngineError::Overrun) => "Overrun",
            Err(error) => panic!("{error}"),
        });
    }
    assert_eq!(ended, ["TimeoutError", "Overrun", "TimeoutError", "Overrun", "TimeoutError"]);
}

/// The permit of a task that is gone, or that waits for the world, is another's.
#[tokio::test]
async fn a_permit_is_not_kept_by_who_does_not_run() {
    let (engine, scheduler) = (Engine::new(EngineOptions::for_user()).unwrap(), Scheduler::with_permits(1));
    let gone = session(&engine, &scheduler, LOOP, Duration::from_secs(600));
    let waits = session(&engine, &scheduler, LOOP, Duration::from_secs(600));
    while scheduler.0.as_ref().unwrap().waiting() == 0 {
        tokio::task::yield_now().await;
    }
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    let (begun, begins) = oneshot::channel();
    let mut instance = engine.create(&Settings { heap_bytes: 64 << 20, determinism: None }).unwrap();
    let pending = tokio::spawn(scheduler.run(async move {
        let cell = CellSource { code: LOOP.to_owned(), ..CellSource::default() };
        let budget = Budget { wall: Duration::from_millis(20), ..Budget::default() };
        let _ = begun.send(instance.eval(&cell, &budget).await);
        std::future::pending::<()>().await;
    }));
    assert!(begins.await.unwrap().is_ok());
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    let last = session(&engine, &scheduler, LOOP, Duration::from_millis(20)).await.unwrap().unwrap();
    assert!(!last.cell.unwrap().ok);
    pending.abort();
}

#[tokio::test]
async fn without_turns_a_cell_runs_on_to_its_end() {
    let (engine, scheduler) = (Engine::new(EngineOptions::for_user()).unwrap(), Scheduler::inline());
    let mut instance = engine.create(&Settings { heap_bytes: 64 << 20, determinism: None }).unwrap();
    let cell = CellSource { code: "for (let i = 0; i < 1e6; i++); 7".to_owned(), ..CellSource::default() };
    let mut session = std::pin::pin!(scheduler.run(async move { instance.eval(&cell, &Budget::default()).await }));
    let polled = session.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Ok(_))), "{polled:?}");
}

#[tokio::test]
async fn a_panic_is_the_answers() {
    let scheduler = Scheduler::new();
    let failing = tokio::spawn(scheduler.run(async { panic!("on purpose") }));
    assert!(failing.await.unwrap_err().is_panic());
    assert_eq!(scheduler.run(async { 1 }).await, 1);
}
