//! Pass rates by area.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Ran, Suite};

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    runs: usize,
    ours: usize,
    native: usize,
}

impl Count {
    fn add(&mut self, ran: &Ran) {
        self.runs += 1;
        self.ours += usize::from(ran.ours.is_ok());
        self.native += usize::from(ran.native.is_ok());
    }
}

/// A table of the first folders below `built-ins` and `language`, and of `annexB`, those that both engines pass whole in one row.
#[must_use]
pub fn markdown(suite: &Suite, results: &[Ran]) -> String {
    let mut areas: BTreeMap<String, Count> = BTreeMap::new();
    let mut total = Count::default();
    for ran in results {
        let mut folders = ran.path.split('/');
        let top = folders.next().unwrap_or_default();
        let area = if top == "annexB" { top.to_owned() } else { format!("{top}/{}", folders.next().unwrap_or_default()) };
        areas.entry(area).or_default().add(ran);
        total.add(ran);
    }
    let mut whole = Count::default();
    let mut whole_areas = 0;
    let mut text = String::from("| area | runs | ours | native |\n|---|---:|---:|---:|\n");
    for (area, count) in &areas {
        if count.ours == count.runs && count.native == count.runs {
            whole_areas += 1;
            whole.runs += count.runs;
        } else {
            row(&mut text, area, *count);
        }
    }
    (whole.ours, whole.native) = (whole.runs, whole.runs);
    row(&mut text, &format!("{whole_areas} other areas"), whole);
    row(&mut text, "**all**", total);
    for (reason, tests) in &suite.skipped {
        let _ = writeln!(text, "\n{tests} tests not run: {reason}.");
    }
    text
}

fn row(text: &mut String, area: &str, count: Count) {
    let _ = writeln!(text, "| {area} | {} | {} | {} |", count.runs, percent(count.ours, count.runs), percent(count.native, count.runs));
}

/// Rounded down, so that 100 % means all of them.
fn percent(part: usize, of: usize) -> String {
    let hundredths = part * 10_000 / of.max(1);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_hundred_percent_is_all() {
        assert_eq!(percent(9999, 10_000), "99.99 %");
        assert_eq!(percent(99_999, 100_000), "99.99 %");
        assert_eq!(percent(3, 3), "100.00 %");
        assert_eq!(percent(0, 0), "0.00 %");
    }
}
