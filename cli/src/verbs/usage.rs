//! `dormouse usage`.

use std::collections::BTreeMap;

use dormouse_client::Client;
use dormouse_protocol::usage::{UsageItem, UsageReport, UsageSum};

use crate::{
    screen::{Output, Screen, Tone},
    show,
};

/// Flags of `dormouse usage`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The first day, such as 2026-01-31, in UTC; the last one when absent.
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// The last day; today when absent.
    #[arg(long, value_name = "DAY")]
    to: Option<String>,
    /// What each row is about.
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// What a row of the table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum By {
    /// A session.
    #[default]
    Session,
    /// An API key; `-` for callers without one.
    Key,
    /// A day.
    Day,
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    let report = client.usage(args.from.as_deref(), args.to.as_deref()).await?;
    if args.output == Output::Json {
        screen.line(Tone::Plain, &serde_json::to_string(&report)?)?;
        return Ok(true);
    }
    let heading = match args.by {
        By::Session => "SESSION",
        By::Key => "KEY",
        By::Day => "DAY",
    };
    let mut rows: Vec<Vec<String>> = grouped(&report, args.by).iter().map(|(name, sum)| row(name, sum)).collect();
    rows.push(row("total", &report.total));
    show::table(screen, &[heading, "EVALS", "CPU", "WAKES", "HEAP MiB·h", "STORED MiB", "CALLS", "EGRESS MiB"], &rows)?;
    for why in &report.missing {
        screen.error_line(Tone::Warning, &format!("this may not be all: {why}"))?;
    }
    Ok(true)
}

fn grouped(report: &UsageReport, by: By) -> BTreeMap<String, UsageSum> {
    let mut groups: BTreeMap<String, UsageSum> = BTreeMap::new();
    for item in &report.items {
        match by {
            By::Session => add(groups.entry(item.session.clone()).or_default(), &item.sum),
            By::Day => add(groups.entry(item.day.clone()).or_default(), &item.sum),
            By::Key => {
                for (key, sum) in by_key(item) {
                    add(groups.entry(key).or_default(), &sum);
                }
            }
        }
    }
    groups
}

/// A session's day by key: what no key's cells used is `-`, and so is what the session took of machine and store.
fn by_key(item: &UsageItem) -> Vec<(String, UsageSum)> {
    let mut rest = item.sum.clone();
    let mut keys: Vec<(String, UsageSum)> = Vec::new();
    for (key, counts) in &item.keys {
        rest.counts.evals = rest.counts.evals.saturating_sub(counts.evals);
        rest.counts.cpu_ms = (rest.counts.cpu_ms - counts.cpu_ms).max(0.0);
        rest.counts.tool_calls = rest.counts.tool_calls.saturating_sub(counts.tool_calls);
        rest.counts.egress_bytes = rest.counts.egress_bytes.saturating_sub(counts.egress_bytes);
        keys.push((key.clone(), UsageSum { counts: *counts, ..UsageSum::default() }));
    }
    keys.push(("-".to_owned(), rest));
    keys
}

fn add(sum: &mut UsageSum, more: &UsageSum) {
    sum.counts.evals += more.counts.evals;
    sum.counts.cpu_ms += more.counts.cpu_ms;
    sum.counts.tool_calls += more.counts.tool_calls;
    sum.counts.egress_bytes += more.counts.egress_bytes;
    sum.wakes += more.wakes;
    sum.heap_byte_seconds = sum.heap_byte_seconds.saturating_add(more.heap_byte_seconds);
    sum.stored_bytes = sum.stored_bytes.max(more.stored_bytes);
}

fn row(name: &str, sum: &UsageSum) -> Vec<String> {
    const MIB_HOUR: u64 = 3600 << 20;
    vec![
        name.to_owned(),
        sum.counts.evals.to_string(),
        format!("{:.1} s", sum.counts.cpu_ms / 1000.0),
        sum.wakes.to_string(),
        parts(sum.heap_byte_seconds, MIB_HOUR),
        parts(sum.stored_bytes, 1 << 20),
        sum.counts.tool_calls.to_string(),
        parts(sum.counts.egress_bytes, 1 << 20),
    ]
}

/// A number of units with two digits after the point.
fn parts(amount: u64, unit: u64) -> String {
    format!("{}.{:02}", amount / unit, amount % unit * 100 / unit)
}

#[cfg(test)]
mod tests {
    use dormouse_protocol::usage::UsageCounts;

    use super::*;

    #[test]
    fn what_no_key_has_used_is_the_rest() {
        let counts = |evals| UsageCounts { evals, cpu_ms: 1.0, ..UsageCounts::default() };
        let item = UsageItem {
            sum: UsageSum { counts: UsageCounts { evals: 5, cpu_ms: 4.0, ..UsageCounts::default() }, wakes: 2, ..UsageSum::default() },
            keys: BTreeMap::from([("a".to_owned(), counts(1)), ("b".to_owned(), counts(2))]),
            ..UsageItem::default()
        };
        let groups = grouped(&UsageReport { items: vec![item.clone(), item], ..UsageReport::default() }, By::Key);
        let evals: Vec<_> = groups.iter().map(|(key, sum)| (key.as_str(), sum.counts.evals, sum.wakes)).collect();
        assert_eq!(evals, [("-", 4, 4), ("a", 2, 0), ("b", 4, 0)]);
        assert_eq!(parts(3 << 19, 1 << 20), "1.50");
    }
}
