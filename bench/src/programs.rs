//! Five small programs in the engine and in native QuickJS of the same version.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use dormouse_engine::{Budget, CellSource, Engine, EngineOptions, Settings};

use crate::table::{Row, Samples};

const PROGRAMS: [(&str, &str); 5] = [
    ("calls: fib(27)", "(function(){ function fib(n){return n<2?n:fib(n-1)+fib(n-2)} return fib(27) })()"),
    (
        "properties: 10⁶ reads and writes",
        "(function(){ const o={a:1,b:2,c:3}; let s=0; for(let i=0;i<1e6;i++){ o.a=o.b+i; s+=o.a+o.c } return s })()",
    ),
    ("strings: 300,000 appends", "(function(){ let s=''; for(let i=0;i<300000;i++) s+=i; return s.length })()"),
    (
        "objects: make, sort, stringify 200,000",
        "(function(){ let a=[]; for(let i=0;i<200000;i++) a.push({i,k:'v'+i}); a.sort((x,y)=>y.i-x.i); return JSON.stringify(a).length })()",
    ),
    ("floats: 10⁶ square roots", "(function(){ let s=0; for(let i=1;i<1e6;i++) s+=Math.sqrt(i)/i; return s })()"),
];

const RUNS: usize = 7;

/// A row a program, and their geometric mean.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let engine = Engine::new(EngineOptions::default())?;
    let mut rows = Vec::new();
    let mut product = 1.0;
    for (name, source) in PROGRAMS {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        // Interleaved, so that a noisy neighbour meets both.
        for _ in 0..RUNS {
            ours.push(in_engine(&engine, source).await?);
            theirs.push(native(source)?);
        }
        ensure!(ours.iter().all(|(_, v)| *v == theirs.first().map(|t| t.1).unwrap_or(f64::NAN)), "{name}: the two engines disagree");
        let (ours, theirs) = (Samples::of(ours.into_iter().map(|m| m.0)), Samples::of(theirs.into_iter().map(|m| m.0)));
        product *= ours.p50().as_secs_f64() / theirs.p50().as_secs_f64();
        rows.push(Row::times(name, &ours, "native QuickJS-NG", &theirs, "≤ 1.4"));
    }
    #[expect(clippy::cast_precision_loss, reason = "five")]
    let mean = product.powf(1.0 / PROGRAMS.len() as f64);
    rows.push(Row::ratio("the five programs, geometric mean", mean, "native QuickJS-NG", "≤ 1.4"));
    Ok(rows)
}

async fn in_engine(engine: &Engine, source: &str) -> anyhow::Result<(std::time::Duration, f64)> {
    let mut instance = engine.create(&Settings { heap_bytes: 256 << 20, determinism: None })?;
    let cell = CellSource { code: source.to_owned(), filename: "bench.js".to_owned(), is_async: false };
    let start = Instant::now();
    let turn = instance.eval(&cell, &Budget::default()).await?;
    let took = start.elapsed();
    let end = turn.cell.context("the program did not end")?;
    Ok((took, end.value.and_then(|v| v.as_f64()).context("the program has no value")?))
}

fn native(source: &str) -> anyhow::Result<(std::time::Duration, f64)> {
    let runtime = rquickjs::Runtime::new()?;
    let context = rquickjs::Context::full(&runtime)?;
    context.with(|ctx| {
        let start = Instant::now();
        let value: f64 = ctx.eval(source)?;
        Ok((start.elapsed(), value))
    })
}
