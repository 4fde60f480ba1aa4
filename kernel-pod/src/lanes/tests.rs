//! What lanes promise, with futures that hold, yield or wait.

use std::{
    future::poll_fn,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::Poll,
    time::{Duration, Instant},
};

use dormouse_engine::{
    Budget, CellSource, Engine, EngineError, EngineOptions, Instance, Settings,
    cpu_clock::CpuTimer,
    preempt::{OnThisThread, State},
    thread_priority::ThreadId,
};

use super::{Lanes, held::Held, meter::BURST, spared::SPARED_MAX, sparing, watch};

/// What the threads share.
fn shared(lanes: &Lanes) -> &Arc<super::Shared> {
    &lanes.threads.as_ref().unwrap().shared
}

/// `SCHED_IDLE`.
const IDLE: u32 = 5;

/// The policy of the calling thread: field 41 of its `stat`.
fn policy() -> u32 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().parse().unwrap()
}

/// The lane that the calling thread was started for; on a busy machine it may have been lowered since.
fn lane() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

/// Uses so much of a processor.
fn spin(time: Duration) {
    let used = CpuTimer::of(ThreadId::current());
    while used.ran() < time {
        std::hint::spin_loop();
    }
}

/// Uses a bit more than a slice, as code does between two polls of the interrupt handler.
fn slice() {
    spin(BURST + Duration::from_micros(10));
}

async fn yielded() {
    let mut once = false;
    poll_fn(|context| {
        if std::mem::replace(&mut once, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[tokio::test]
async fn what_begins_is_on_trial_and_what_yields_late_goes_on_in_the_slow_lane() {
    let lanes = Lanes::start().unwrap();
    let (before, after, policy) = lanes
        .run(async {
            let before = lane();
            slice();
            yielded().await;
            (before, lane(), policy())
        })
        .await
        .unwrap();
    assert_eq!((before.as_str(), after.as_str(), policy), ("lane-trial", "lane-slow", IDLE));
}

#[tokio::test]
async fn work_of_the_hosts_own_makes_no_task_slow_up_to_its_limit() {
    let lanes = Lanes::start().unwrap();
    let after = async |work| {
        let task = async move {
            sparing(async { spin(work) }).await;
            let policy = policy();
            yielded().await;
            (policy, lane())
        };
        lanes.run(task).await.unwrap()
    };
    let (policy, lane) = after(SPARED_MAX).await;
    assert_eq!(lane, "lane-trial");
    assert_ne!(policy, IDLE, "its thread has kept its place");
    assert_eq!(after(SPARED_MAX + BURST + Duration::from_micros(10)).await.1, "lane-slow");
}

#[tokio::test]
async fn work_inside_work_of_the_hosts_own_is_spared_once() {
    let lanes = Lanes::start().unwrap();
    let task = async {
        sparing(sparing(async { spin(SPARED_MAX / 2) })).await;
        spin(SPARED_MAX / 2);
        yielded().await;
        lane()
    };
    assert_eq!(lanes.run(task).await.as_deref(), Some("lane-slow"));
}

/// More tasks that do not yield than there are threads: each thread is replaced, and lowered while it still runs its task.
#[tokio::test]
async fn a_task_that_does_not_yield_keeps_nobody_waiting_and_its_thread_is_lowered() {
    let lanes = Lanes::start().unwrap();
    let holders = std::thread::available_parallelism().unwrap().get() + 2;
    let release = Arc::new(AtomicBool::new(false));
    let held: Vec<_> = (0..holders)
        .map(|_| {
            let release = Arc::clone(&release);
            tokio::spawn(lanes.run(async move {
                while !release.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                policy()
            }))
        })
        .collect();
    let replaced = || shared(&lanes).watch.seats().iter().filter(|seat| seat.is_replaced()).count();
    while replaced() < holders {
        assert_eq!(lanes.run(async { lane() }).await.as_deref(), Some("lane-trial"));
    }
    release.store(true, Ordering::Relaxed);
    for task in held {
        assert_eq!(task.await.unwrap(), Some(IDLE));
    }
}

/// One whose thread waits in the middle of a poll, for a processor or for the machine's host, has used nothing, however late it is.
#[tokio::test]
async fn a_task_that_waits_for_its_processor_keeps_its_thread() {
    let lanes = Lanes::start().unwrap();
    let gate = Arc::new(Barrier::new(2));
    let waits = Arc::clone(&gate);
    let task = tokio::spawn(lanes.run(async move {
        waits.wait();
        waits.wait();
        policy()
    }));
    gate.wait();
    watch::look(shared(&lanes), Instant::now() + Duration::from_secs(3600));
    assert!(!shared(&lanes).watch.seats().iter().any(|seat| seat.is_replaced()));
    gate.wait();
    assert_ne!(task.await.unwrap(), Some(IDLE));
}

#[tokio::test]
async fn tasks_use_the_runtime_and_its_timers() {
    let lanes = Lanes::start().unwrap();
    let answered = lanes.run(async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tokio::spawn(async { 7 }).await.unwrap()
    });
    assert_eq!(answered.await, Some(7));
}

#[tokio::test]
async fn a_panic_is_the_answers_and_the_lanes_go_on() {
    let lanes = Lanes::start().unwrap();
    let failing = tokio::spawn(lanes.run(async { panic!("on purpose") }));
    assert!(failing.await.unwrap_err().is_panic());
    assert_eq!(lanes.run(async { 1 }).await, Some(1));
}

/// A session whose cell is one builtin that does not poll and does not end: the backstop ends it.
fn endless(engine: &Engine) -> impl Future<Output = Result<(), EngineError>> + Send + 'static {
    let instance = engine.create(&Settings { heap_bytes: 64 << 20, determinism: None });
    async move {
        let cell = CellSource { code: "new Array(4e9).join('')".to_owned(), ..CellSource::default() };
        let budget = Budget { wall: Duration::from_millis(200), ..Budget::default() };
        let mut instance: Instance = instance?;
        instance.eval(&cell, &budget).await.map(drop)
    }
}

/// One that is stopped holds up neither the quick nor the slow, and none of them is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn builtins_that_do_not_yield_wait_for_each_other_and_all_come_to_their_end() {
    let (engine, lanes) = (Engine::new(EngineOptions::default()).unwrap(), Lanes::start().unwrap());
    let endless: Vec<_> =
        (0..std::thread::available_parallelism().unwrap().get() + 3).map(|_| tokio::spawn(lanes.run(endless(&engine)))).collect();
    let waits = || {
        let seats = shared(&lanes).watch.seats();
        seats.iter().any(|seat| seat.is_held() && seat.thread().state() == State::Stopped)
    };
    while !waits() {
        assert!(endless.iter().any(|task| !task.is_finished()), "none had to wait");
        assert_eq!(lanes.run(async { lane() }).await.as_deref(), Some("lane-trial"));
    }
    let slow = lanes.run(async {
        slice();
        yielded().await;
        lane()
    });
    assert_eq!(slow.await.as_deref(), Some("lane-slow"));
    for task in endless {
        let ended = task.await.unwrap();
        assert!(matches!(ended, Some(Err(EngineError::Overrun))), "{ended:?}");
    }
}

#[test]
fn a_held_thread_runs_a_slice_at_a_time_and_runs_on_when_it_is_let_go() {
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let here = OnThisThread::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        here.running(|| {
            tell.send(Arc::clone(here.shared())).unwrap();
            runtime.block_on(endless(&engine))
        })
    });
    let shared = told.recv().unwrap();
    let mut held = Held::new(Arc::clone(&shared));
    for _ in 0..5 {
        held = held.run().expect("the builtin takes longer than some slices");
        assert_eq!(shared.state(), State::Stopped);
    }
    drop(held);
    assert_eq!(shared.state(), State::Running);
    assert!(matches!(thread.join().unwrap(), Err(EngineError::Overrun)));
    assert!(Held::new(shared).run().is_none(), "its poll has ended");
}

/// Says when it is dropped.
struct Told(mpsc::Sender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn dropping_the_answer_drops_the_future() {
    let lanes = Lanes::start().unwrap();
    let (told, dropped) = mpsc::channel();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let task = lanes.run(async move {
        let _told = Told(told);
        let _ = begun.send(());
        std::future::pending::<()>().await;
    });
    begins.await.unwrap();
    drop(task);
    dropped.recv().unwrap();
}

/// The end of the lanes reaches tasks that run and tasks that wait for a thread.
#[tokio::test]
async fn the_end_of_the_lanes_drops_what_still_waits() {
    let lanes = Lanes::start().unwrap();
    let gate = Arc::new(Barrier::new(2));
    let (told, dropped) = mpsc::channel();
    let held = Arc::clone(&gate);
    let task = tokio::spawn(lanes.run(async move {
        let _told = Told(told);
        held.wait();
        held.wait();
        yielded().await;
        std::future::pending::<()>().await;
    }));
    gate.wait();
    drop(lanes);
    gate.wait();
    assert_eq!(task.await.unwrap(), None);
    dropped.recv().unwrap();
}
