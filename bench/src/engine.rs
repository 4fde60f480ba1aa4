//! Create, eval, resume, checkpoints and snapshot size, in one process and without a network.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use dormouse_engine::{Budget, CellSource, Engine, EngineError, EngineOptions, Image, Instance, Settings};
use dormouse_lifecycle::segment;

use crate::table::{Row, Samples};

/// The settings of every session that is measured.
pub const SETTINGS: Settings = Settings { heap_bytes: 64 << 20, determinism: None };

/// The session of the size rows: 50 variables, 20 closures, 1,000 objects.
pub const TYPICAL: &str = "for (let i = 0; i < 50; i++) globalThis['v' + i] = { i, name: 'variable ' + i };
var closures = Array.from({ length: 20 }, (_, i) => { let n = i; return () => ++n });
var objects = Array.from({ length: 1000 }, (_, i) => ({ i, s: 'str' + i })); 0";

/// The session of the size rows for a heap of some megabytes: lodash evaluated, and 10,000 objects.
const LARGE: &str = "var lodash = require('lodash'); var many = Array.from({ length: 10000 }, (_, i) => ({ i, s: 'str' + i })); 0";

const RUNS: usize = 2000;
/// Of the row whose every run takes more than a second.
const STOPS: usize = 10;

/// Runs `source`, which must end in the same turn.
pub async fn run(instance: &mut Instance, source: &str) -> anyhow::Result<()> {
    let script = dormouse_cells::compile(source, &dormouse_cells::Options::default()).map_err(|e| anyhow::anyhow!("{e:?}"))?;
    let cell = CellSource { code: script.code, filename: "bench.ts".to_owned(), is_async: script.is_async };
    let turn = instance.eval(&cell, &Budget::default()).await?;
    let end = turn.cell.context("the cell did not end")?;
    ensure!(end.ok, "{:?}", end.error);
    Ok(())
}

/// The engine that is measured: the one that is built in, or another's file.
pub fn made(file: Option<&Path>) -> anyhow::Result<Engine> {
    let Some(file) = file else { return Ok(Engine::new(EngineOptions::default())?) };
    let wasm = std::fs::read(file).with_context(|| format!("cannot read the engine {}", file.display()))?;
    Ok(Engine::of_module(&wasm)?)
}

/// All rows of this part.
pub async fn rows(engine: &Engine) -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![create(engine), eval(engine).await?];
    let mut typical = engine.create(&SETTINGS)?;
    run(&mut typical, TYPICAL).await?;
    let image = typical.image().await;
    rows.push(resume("resume from the pod's own copy, and `1+1`", engine, &image, "≤ 0.5 ms").await?);
    let mut large = engine.create(&SETTINGS)?;
    run(&mut large, "var big = new Uint8Array(5e6).map((_, i) => i * 31); 0").await?;
    rows.push(resume("the same with 5 MB of heap", engine, &large.image().await, "≤ 5 ms").await?);
    rows.extend(sizes(&mut typical, &image).await?);
    rows.extend(fixture_two(engine).await?);
    rows.push(checkpoint(engine).await?);
    rows.push(long_builtin(engine).await?);
    Ok(rows)
}

fn create(engine: &Engine) -> Row {
    let ours = Samples::take(RUNS, || drop(engine.create(&SETTINGS)));
    let boot = Samples::take(RUNS / 10, || {
        let made = rquickjs::Runtime::new().and_then(|runtime| rquickjs::Context::full(&runtime));
        drop(made);
    });
    Row::times("create a session", &ours, "boot a native QuickJS, no prelude", &boot, "≤ 0.05 ms")
}

async fn eval(engine: &Engine) -> anyhow::Result<Row> {
    let mut instance = engine.create(&SETTINGS)?;
    let cell = CellSource { code: "1+1".to_owned(), filename: "bench.js".to_owned(), is_async: false };
    let budget = Budget::default();
    let mut ours = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let start = Instant::now();
        instance.eval(&cell, &budget).await?;
        ours.push(start.elapsed());
    }
    let runtime = rquickjs::Runtime::new()?;
    let context = rquickjs::Context::full(&runtime)?;
    let native = Samples::take(RUNS, || {
        let _: rquickjs::Result<i32> = context.with(|ctx| ctx.eval("1+1"));
    });
    Ok(Row::times("`1+1` in the engine, with its preview", &Samples::of(ours), "native QuickJS eval, no preview", &native, "≤ 10 µs"))
}

/// Stored bytes of the larger fixture, and how long they take to become a session again.
async fn fixture_two(engine: &Engine) -> anyhow::Result<[Row; 2]> {
    let mut instance = engine.create(&SETTINGS)?;
    run(&mut instance, LARGE).await?;
    let image = instance.image().await;
    let pages: Vec<_> = image.pages.clone().into_iter().collect();
    let stored = segment::encode(&pages)?;
    let raw = pages.len() * dormouse_engine::PAGE_BYTES;
    let (mut ours, mut zeros) = (Vec::new(), Vec::new());
    for _ in 0..RUNS / 10 {
        let start = Instant::now();
        let pages = segment::decode(&stored)?.into_iter().collect();
        let restored = engine.restore(&Image { pages, ..image.clone() }, &SETTINGS).await?;
        ours.push(start.elapsed());
        drop(restored);
        let start = Instant::now();
        drop(std::hint::black_box(vec![1u8; raw]));
        zeros.push(start.elapsed());
    }
    Ok([
        Row::sizes("snapshot: lodash evaluated, 10,000 objects", stored.len(), "its pages, raw", raw, "≤ 0.4 MB"),
        Row::times(
            "restore of that from its stored bytes",
            &Samples::of(ours),
            "writing as many bytes to fresh memory",
            &Samples::of(zeros),
            "≤ 1 ms",
        ),
    ])
}

async fn resume(what: &'static str, engine: &Engine, image: &Image, aim: &'static str) -> anyhow::Result<Row> {
    let cell = CellSource { code: "1+1".to_owned(), filename: "bench.js".to_owned(), is_async: false };
    let mut ours = Vec::new();
    for _ in 0..RUNS / 10 {
        let start = Instant::now();
        let mut instance = engine.restore(image, &SETTINGS).await?;
        instance.eval(&cell, &Budget::default()).await?;
        ours.push(start.elapsed());
    }
    let bytes: Vec<u8> = image.pages.values().flat_map(|page| page.iter().copied()).collect();
    let copy = Samples::take(RUNS / 10, || drop(std::hint::black_box(bytes.clone())));
    Ok(Row::times(what, &Samples::of(ours), "copying as many bytes to fresh memory", &copy, aim))
}

/// How long a builtin in which no script runs goes on beyond its wall budget.
async fn long_builtin(engine: &Engine) -> anyhow::Result<Row> {
    const WALL: Duration = Duration::from_millis(800);
    let cell = CellSource { code: "new Array(4e9).join('')".to_owned(), ..CellSource::default() };
    let mut took = Vec::new();
    for _ in 0..STOPS {
        let mut instance = engine.create(&SETTINGS)?;
        let start = Instant::now();
        let ended = instance.eval(&cell, &Budget { wall: WALL, ..Budget::default() }).await;
        ensure!(matches!(ended, Err(EngineError::Overrun)), "it was not stopped: {ended:?}");
        took.push(start.elapsed());
    }
    Ok(Row::times("a long builtin, until it is ended", &Samples::of(took), "its wall budget", &Samples::of([WALL]), "ratio ≤ 2"))
}

/// What a commit costs the engine and the encoder, storage left out: large heap against small, one variable changed in each.
async fn checkpoint(engine: &Engine) -> anyhow::Result<Row> {
    const HEAP: &str = "var x = 0; var list = Array.from({ length: 100000 }, (_, i) => ({ i })); var big = new Uint8Array(45e6).fill(7); 0";
    let settings = Settings { heap_bytes: 128 << 20, determinism: None };
    let (mut small, mut large) = (engine.create(&settings)?, engine.create(&settings)?);
    run(&mut small, "var x = 0; 0").await?;
    run(&mut large, HEAP).await?;
    ensure!(large.heap_bytes() >= 50_000_000, "the heap has {} bytes only", large.heap_bytes());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run_number in 0..=RUNS / 10 {
        for (instance, times) in [(&mut large, &mut ours), (&mut small, &mut theirs)] {
            run(instance, "x++; 0").await?;
            let start = Instant::now();
            let delta = instance.delta().await;
            std::hint::black_box(segment::encode(&delta.pages)?);
            instance.mark_committed();
            // The first commit is that of the whole heap.
            if run_number > 0 {
                times.push(start.elapsed());
            }
        }
    }
    let (ours, theirs) = (Samples::of(ours), Samples::of(theirs));
    Ok(Row::times(
        "checkpoint: one variable of a 64 MiB memory, storage left out",
        &ours,
        "the same of an empty session",
        &theirs,
        "≤ 1 ms",
    ))
}

async fn sizes(instance: &mut Instance, image: &Image) -> anyhow::Result<Vec<Row>> {
    let pages: Vec<_> = image.pages.clone().into_iter().collect();
    let raw = pages.len() * dormouse_engine::PAGE_BYTES;
    let whole = segment::encode(&pages)?.len();
    instance.delta().await;
    instance.mark_committed();
    run(instance, "v7.name += '!'; closures[3](); 0").await?;
    let delta = instance.delta().await;
    let changed = delta.pages.len() * dormouse_engine::PAGE_BYTES;
    let small = segment::encode(&delta.pages)?.len();
    Ok(vec![
        Row::sizes("snapshot: 50 variables, 20 closures, 1,000 objects", whole, "its pages, raw", raw, "≤ 40 KB"),
        Row::sizes("commit of one more small cell", small, "its pages, raw", changed, "≤ 10 KB"),
    ])
}
