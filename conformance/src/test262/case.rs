//! One test: its text and what its front matter says.

use anyhow::Context as _;
use serde::Deserialize;

use super::{
    Outcome,
    host::{DONE, End},
};

/// Strict mode or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// As it stands.
    Sloppy,
    /// With a directive before it.
    Strict,
}

/// A test of the suite.
#[derive(Debug, Clone)]
pub struct Case {
    /// Path below `test/`.
    pub path: String,
    text: String,
    meta: Meta,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Meta {
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    includes: Vec<String>,
    #[serde(default)]
    features: Vec<String>,
    negative: Option<Negative>,
}

#[derive(Debug, Clone, Deserialize)]
struct Negative {
    phase: String,
    r#type: String,
}

impl Case {
    pub(super) fn parse(path: &str, text: String) -> anyhow::Result<Self> {
        let meta = match text.split_once("/*---").and_then(|(_, rest)| rest.split_once("---*/")) {
            Some((yaml, _)) => yaml_serde::from_str(&yaml.replace("\r\n", "\n").replace('\r', "\n")).context("the front matter")?,
            None => Meta::default(),
        };
        Ok(Self { path: path.to_owned(), text, meta })
    }

    /// Why it is not run at all.
    pub(super) fn skip(&self, absent: &[&str]) -> Option<&'static str> {
        if self.has("CanBlockIsTrue") {
            return Some("blocks its agent");
        }
        self.meta.features.iter().any(|feature| absent.contains(&feature.as_str())).then_some("a feature that QuickJS-NG does not have")
    }

    fn has(&self, flag: &str) -> bool {
        self.meta.flags.iter().any(|it| it == flag)
    }

    /// Whether it is a module, and no script.
    pub(super) fn is_module(&self) -> bool {
        self.has("module")
    }

    /// Its own name in its folder.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub(super) fn modes(&self) -> Vec<Mode> {
        if self.is_module() {
            return vec![Mode::Strict];
        }
        if self.has("raw") || self.has("noStrict") {
            vec![Mode::Sloppy]
        } else if self.has("onlyStrict") {
            vec![Mode::Strict]
        } else {
            vec![Mode::Sloppy, Mode::Strict]
        }
    }

    /// Files of the harness, in order.
    pub(super) fn harness(&self) -> Vec<String> {
        if self.has("raw") {
            return Vec::new();
        }
        let mut files = vec!["assert.js".to_owned(), "sta.js".to_owned()];
        if self.has("async") {
            files.push("doneprintHandle.js".to_owned());
        }
        files.extend(self.meta.includes.iter().cloned());
        files
    }

    pub(super) fn source(&self, mode: Mode) -> String {
        match mode {
            _ if self.is_module() => self.text.clone(),
            Mode::Sloppy => self.text.clone(),
            Mode::Strict => format!("\"use strict\";\n{}", self.text),
        }
    }

    /// Whether the end is what the test asks for.
    pub(super) fn judge(&self, end: &End) -> Outcome {
        match (&self.meta.negative, &end.thrown) {
            (Some(negative), Some((name, _))) if *name == negative.r#type => Ok(()),
            (Some(negative), thrown) => Err(format!("expected {} at {}, got {thrown:?}", negative.r#type, negative.phase)),
            (None, Some((name, message))) => Err(format!("{name}: {message}")),
            (None, None) if !self.has("async") => Ok(()),
            (None, None) if end.printed.contains(DONE) && !end.printed.contains("AsyncTestFailure") => Ok(()),
            (None, None) => Err(format!("printed {:?}", end.printed.trim())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::{Case, End, Mode};

    fn case(front: &str) -> Case {
        Case::parse("a.js", format!("/*---\n{front}\n---*/\n1")).unwrap()
    }

    #[test]
    fn flags_choose_modes_and_harness() {
        assert_eq!(case("flags: [onlyStrict]").modes(), [Mode::Strict]);
        assert_eq!(case("flags: [module]").modes(), [Mode::Strict]);
        assert!(!case("flags: [module]").source(Mode::Strict).contains("use strict"));
        assert_eq!(case("description: x").modes(), [Mode::Sloppy, Mode::Strict]);
        assert!(case("flags: [raw]").harness().is_empty());
        assert_eq!(case("flags: [async]\nincludes: [a.js]").harness(), ["assert.js", "sta.js", "doneprintHandle.js", "a.js"]);
    }

    #[test]
    fn a_negative_test_passes_by_its_error_only() {
        let negative = case("negative:\n  phase: parse\n  type: SyntaxError");
        let thrown = |name: &str| End { thrown: Some((name.to_owned(), String::new())), printed: String::new() };
        assert!(negative.judge(&thrown("SyntaxError")).is_ok());
        assert!(negative.judge(&thrown("Test262Error")).is_err());
        assert!(negative.judge(&End::default()).is_err());
        assert!(case("flags: [async]").judge(&End::default()).is_err());
    }
}
