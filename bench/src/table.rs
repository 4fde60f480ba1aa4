//! Rows of the benchmark table and how they are printed.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

/// Sorted measurements of one thing.
pub struct Samples(Vec<Duration>);

impl Samples {
    /// Calls `f` `count` times, after a tenth as many calls that are not counted.
    pub fn take(count: usize, mut f: impl FnMut()) -> Self {
        for _ in 0..count.div_ceil(10) {
            f();
        }
        Self::of((0..count).map(|_| {
            let start = Instant::now();
            f();
            start.elapsed()
        }))
    }

    /// Of measurements taken elsewhere.
    pub fn of(measured: impl IntoIterator<Item = Duration>) -> Self {
        let mut sorted: Vec<_> = measured.into_iter().collect();
        sorted.sort_unstable();
        Self(sorted)
    }

    fn quantile(&self, q: f64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index into a short list"
        )]
        let index = ((self.0.len().saturating_sub(1)) as f64 * q) as usize;
        self.0.get(index).copied().unwrap_or_default()
    }

    /// The median.
    pub fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The 99th percentile.
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }
}

/// One line of the table: ours beside a floor or a peer, measured in the same run.
pub struct Row {
    what: &'static str,
    ours: String,
    p99: String,
    beside: &'static str,
    other: String,
    ratio: f64,
    aim: &'static str,
}

impl Row {
    /// Two durations.
    pub fn times(what: &'static str, ours: &Samples, beside: &'static str, other: &Samples, aim: &'static str) -> Self {
        let ratio = ours.p50().as_secs_f64() / other.p50().as_secs_f64().max(f64::MIN_POSITIVE);
        Self { what, ours: human(ours.p50()), p99: human(ours.p99()), beside, other: human(other.p50()), ratio, aim }
    }

    /// Two durations whose 99th percentiles are compared; ours with the 95th.
    pub fn tails(what: &'static str, ours: &Samples, beside: &'static str, other: &Samples, aim: &'static str) -> Self {
        let ratio = ours.p99().as_secs_f64() / other.p99().as_secs_f64().max(f64::MIN_POSITIVE);
        let other = format!("{} (p99 {})", human(other.p50()), human(other.p99()));
        let p99 = format!("{} (p95 {})", human(ours.p99()), human(ours.quantile(0.95)));
        Self { what, ours: human(ours.p50()), p99, beside, other, ratio, aim }
    }

    /// Two sizes in bytes.
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
    pub fn sizes(what: &'static str, ours: usize, beside: &'static str, other: usize, aim: &'static str) -> Self {
        Self { what, ours: size(ours), p99: "–".into(), beside, other: size(other), ratio: ours as f64 / (other.max(1)) as f64, aim }
    }

    /// How many of each were done a second. The ratio is of their times, as in the other rows.
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn rates(
        what: &'static str,
        (ours, took): (usize, Duration),
        beside: &'static str,
        (others, theirs): (usize, Duration),
        aim: &'static str,
    ) -> Self {
        let rate = |count: usize, took: Duration| count as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        let (ours, other) = (rate(ours, took), rate(others, theirs));
        Self { what, ours: format!("{ours:.0}/s"), p99: "–".into(), beside, other: format!("{other:.0}/s"), ratio: other / ours, aim }
    }

    /// A ratio that was computed elsewhere, such as a geometric mean.
    pub fn ratio(what: &'static str, ratio: f64, beside: &'static str, aim: &'static str) -> Self {
        Self { what, ours: "–".into(), p99: "–".into(), beside, other: "–".into(), ratio, aim }
    }
}

fn human(d: Duration) -> String {
    let us = d.as_secs_f64() * 1e6;
    if us < 10.0 {
        format!("{us:.2} µs")
    } else if us < 1000.0 {
        format!("{us:.0} µs")
    } else {
        format!("{:.2} ms", us / 1e3)
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn size(bytes: usize) -> String {
    format!("{:.1} KB", bytes as f64 / 1e3)
}

/// The rows as a Markdown table.
pub fn markdown(rows: &[Row]) -> String {
    let mut out = String::from("| what | ours p50 | ours p99 | beside | its p50 | ratio | aim |\n|---|---|---|---|---|---|---|\n");
    for r in rows {
        let _ = writeln!(out, "| {} | {} | {} | {} | {} | {:.2} | {} |", r.what, r.ours, r.p99, r.beside, r.other, r.ratio, r.aim);
    }
    out
}
