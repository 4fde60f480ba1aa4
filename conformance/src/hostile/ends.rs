//! How each script ends: `hostile-ends.toml`, which the test writes when it is asked to.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
};

use anyhow::Context as _;

/// Where the table is.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hostile-ends.toml");
/// Between two ends of a script that has more than one.
const OR: &str = " or ";
const COLUMNS_MAX: usize = 120;
const HEAD: &str = "\
# How each hostile script ends, by family. Most have one end. Those with several need so much time that it depends on the machine whether their budget is
# enough. Written by
#
#   WRITE_ENDS=1 cargo test --release --workspace --test hostile
";

/// To be over its time is one end, wherever a script is at that moment: the first is said of who is inside a builtin then.
const OVER_TIME: (&str, &str) = ("Overrun", "TimeoutError");

fn told(outcome: &str) -> &str {
    if outcome == OVER_TIME.0 { OVER_TIME.1 } else { outcome }
}

/// The ends that each script may have, see [`super::Verdict::outcome`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    by_script: BTreeMap<String, BTreeSet<String>>,
}

impl Ends {
    /// Reads the table.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read() -> anyhow::Result<Self> {
        Self::parse(&fs::read_to_string(FILE).context(FILE)?)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let families: BTreeMap<String, BTreeMap<String, Vec<String>>> = toml::from_str(text)?;
        let mut ends = Self::default();
        for (family, by_end) in families {
            for (end, numbers) in by_end {
                for number in numbers {
                    end.split(OR).for_each(|end| ends.add(&format!("{family}/{number}"), end));
                }
            }
        }
        Ok(ends)
    }

    /// Says that the script of this name may end so.
    pub fn add(&mut self, script: &str, outcome: &str) {
        self.by_script.entry(script.to_owned()).or_default().insert(told(outcome).to_owned());
    }

    /// How the script may end, with `or` between. `None`: the table does not know it.
    #[must_use]
    pub fn of(&self, script: &str) -> Option<String> {
        Some(self.by_script.get(script)?.iter().map(String::as_str).collect::<Vec<_>>().join(OR))
    }

    /// Whether it may end so.
    #[must_use]
    pub fn allow(&self, script: &str, outcome: &str) -> bool {
        self.by_script.get(script).is_some_and(|ends| ends.contains(told(outcome)))
    }

    /// The names of all scripts that the table knows.
    pub fn scripts(&self) -> impl Iterator<Item = &str> {
        self.by_script.keys().map(String::as_str)
    }

    /// Scripts with one end.
    #[must_use]
    pub fn certain(&self) -> usize {
        self.by_script.values().filter(|ends| ends.len() == 1).count()
    }

    /// Writes the table.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        fs::write(FILE, self.text()).context(FILE)
    }

    fn text(&self) -> String {
        let mut families: BTreeMap<&str, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
        for name in self.scripts() {
            let (family, number) = name.split_once('/').unwrap_or((name, ""));
            families.entry(family).or_default().entry(self.of(name).unwrap_or_default()).or_default().push(number);
        }
        let mut text = HEAD.to_owned();
        for (family, by_end) in families {
            let _ = write!(text, "\n[{family}]\n");
            for (end, mut numbers) in by_end {
                numbers.sort_by_key(|number| number.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>());
                let _ = write!(text, "{end:?} = [");
                let mut column = COLUMNS_MAX;
                for number in numbers {
                    let item = format!("{number:?},");
                    if column + item.len() + 1 > COLUMNS_MAX {
                        text.push_str("\n ");
                        column = 1;
                    }
                    text.push(' ');
                    text.push_str(&item);
                    column += item.len() + 1;
                }
                text.push_str("\n]\n");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Ends;

    #[test]
    fn a_table_that_was_written_is_read_as_it_was() {
        let mut ends = Ends::default();
        for (script, end) in [("a/0.1.0", "value"), ("a/0.0.0", "value"), ("a/0.0.0", "Overrun"), ("b/1.0.0", "waits")] {
            ends.add(script, end);
        }
        let read = Ends::parse(&ends.text()).unwrap();
        assert_eq!((&read, read.certain(), read.of("a/0.0.0").unwrap().as_str()), (&ends, 2, "TimeoutError or value"));
        assert!(
            read.allow("a/0.0.0", "Overrun")
                && read.allow("a/0.0.0", "TimeoutError")
                && !read.allow("a/0.1.0", "Overrun")
                && read.of("c/0.0.0").is_none()
        );
    }
}
