//! Create, eval, resume and snapshot size, in one process and without a network.

use std::{sync::Arc, time::Instant};

use anyhow::{Context as _, ensure};
use dormouse_engine::{Budget, CellSource, Engine, EngineOptions, Image, Instance, Page, Settings};
use dormouse_lifecycle::segment;

use crate::table::{Row, Samples};

/// The settings of every session that is measured.
pub const SETTINGS: Settings = Settings { heap_bytes: 64 << 20, determinism: None };

/// The session of the size rows: 50 variables, 20 closures, 1,000 objects.
pub const TYPICAL: &str = "for (let i = 0; i < 50; i++) globalThis['v' + i] = { i, name: 'variable ' + i };
var closures = Array.from({ length: 20 }, (_, i) => { let n = i; return () => ++n });
var objects = Array.from({ length: 1000 }, (_, i) => ({ i, s: 'str' + i })); 0";

const RUNS: usize = 2000;

/// Runs `source`, which must end in the same turn.
pub async fn run(instance: &mut Instance, source: &str) -> anyhow::Result<()> {
    let script = dormouse_cells::compile(source, &dormouse_cells::Options::default()).map_err(|e| anyhow::anyhow!("{e:?}"))?;
    let cell = CellSource { code: script.code, filename: "bench.ts".to_owned(), is_async: script.is_async };
    let turn = instance.eval(&cell, &Budget::default()).await?;
    let end = turn.cell.context("the cell did not end")?;
    ensure!(end.ok, "{:?}", end.error);
    Ok(())
}

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let engine = Engine::new(EngineOptions::default())?;
    let mut rows = vec![create(&engine), eval(&engine).await?];
    let mut typical = engine.create(&SETTINGS)?;
    run(&mut typical, TYPICAL).await?;
    let image = typical.image();
    rows.push(resume("resume from the pod's own copy, and `1+1`", &engine, &image, "≤ 0.5 ms").await?);
    rows.extend(sizes(&mut typical, &image).await?);
    let mut large = engine.create(&SETTINGS)?;
    run(&mut large, "var big = new Uint8Array(5e6).map((_, i) => i * 31); 0").await?;
    rows.push(resume("the same with 5 MB of heap", &engine, &large.image(), "≤ 5 ms").await?);
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

async fn resume(what: &'static str, engine: &Engine, image: &Image, aim: &'static str) -> anyhow::Result<Row> {
    let cell = CellSource { code: "1+1".to_owned(), filename: "bench.js".to_owned(), is_async: false };
    let mut ours = Vec::new();
    for _ in 0..RUNS / 10 {
        let start = Instant::now();
        let mut instance = engine.restore(image, &SETTINGS)?;
        instance.eval(&cell, &Budget::default()).await?;
        ours.push(start.elapsed());
    }
    let bytes: Vec<u8> = image.pages.values().flat_map(|page| page.as_bytes().iter().copied()).collect();
    let copy = Samples::take(RUNS / 10, || drop(std::hint::black_box(bytes.clone())));
    Ok(Row::times(what, &Samples::of(ours), "copying as many bytes to fresh memory", &copy, aim))
}

async fn sizes(instance: &mut Instance, image: &Image) -> anyhow::Result<Vec<Row>> {
    let pages = stored(image.pages.iter().map(|(&number, page)| (number, page)));
    let raw = pages.len() * dormouse_engine::PAGE_BYTES;
    let whole = segment::encode(&pages)?.len();
    instance.delta();
    instance.mark_committed();
    run(instance, "v7.name += '!'; closures[3](); 0").await?;
    let delta = instance.delta();
    let changed = delta.pages.len() * dormouse_engine::PAGE_BYTES;
    let small = segment::encode(&stored(delta.pages.iter().map(|(number, page)| (*number, page))))?.len();
    Ok(vec![
        Row::sizes("snapshot: 50 variables, 20 closures, 1,000 objects", whole, "its pages, raw", raw, "≤ 40 KB"),
        Row::sizes("commit of one more small cell", small, "its pages, raw", changed, "≤ 10 KB"),
    ])
}

/// The pages as `lifecycle` stores them.
pub fn stored<'a>(pages: impl Iterator<Item = (u32, &'a Page)>) -> Vec<(u32, dormouse_lifecycle::Page)> {
    let copy = |page: &Page| {
        let mut bytes = [0; dormouse_lifecycle::PAGE_BYTES];
        bytes.copy_from_slice(page.as_bytes());
        Arc::new(bytes)
    };
    pages.map(|(number, page)| (number, copy(page))).collect()
}
