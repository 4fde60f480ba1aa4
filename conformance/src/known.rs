//! What is known to be otherwise than it should be, each with its reason. A list that cannot hide: an entry that does not hold fails its test.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// Where the list is.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/known.toml");
/// A reason is a sentence.
const REASON_CHARS_MIN: usize = 20;

/// The list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    #[serde(default)]
    difference: Vec<Difference>,
    #[serde(default)]
    hostile: Vec<Entry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// `area/name`.
    program: String,
    reason: String,
}

/// Hostile scripts that share a reason.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// `family/template.a.b`.
    names: Vec<String>,
    reason: String,
}

impl Known {
    /// Reads the list.
    ///
    /// # Errors
    /// When it cannot be read, or an entry has no reason.
    pub fn read() -> anyhow::Result<Self> {
        let known: Self = toml::from_str(&fs::read_to_string(FILE)?).context(FILE)?;
        let scripts = known.hostile.iter().map(|entry| &entry.reason);
        for reason in known.difference.iter().map(|entry| &entry.reason).chain(scripts) {
            ensure!(reason.len() >= REASON_CHARS_MIN, "{reason:?} is no reason");
        }
        Ok(known)
    }

    /// Programs that print something else than in Node, with their reasons.
    ///
    /// # Errors
    /// When one is named twice.
    pub fn differences(&self) -> anyhow::Result<BTreeMap<&str, &str>> {
        by_name(self.difference.iter().map(|entry| (entry.program.as_str(), entry.reason.as_str())))
    }

    /// Hostile scripts that do harm, with their reasons.
    ///
    /// # Errors
    /// When one is named twice.
    pub fn hostile(&self) -> anyhow::Result<BTreeMap<&str, &str>> {
        by_name(scripts(&self.hostile))
    }
}

fn scripts(entries: &[Entry]) -> impl Iterator<Item = (&str, &str)> {
    entries.iter().flat_map(|entry| entry.names.iter().map(|name| (name.as_str(), entry.reason.as_str())))
}

fn by_name<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> anyhow::Result<BTreeMap<&'a str, &'a str>> {
    let mut found = BTreeMap::new();
    for (name, reason) in all {
        ensure!(found.insert(name, reason).is_none(), "{name} is twice in known.toml");
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::by_name;

    #[test]
    fn a_name_stands_once() {
        assert_eq!(by_name([("a", "why"), ("b", "why")].into_iter()).unwrap().len(), 2);
        assert!(by_name([("a", "why"), ("b", "why"), ("a", "because")].into_iter()).is_err());
    }
}
