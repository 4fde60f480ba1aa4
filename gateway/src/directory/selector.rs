//! Label selectors as Kubernetes writes them: `a=b,c!=d,e,!f,g in (h,i),j notin (k)`.

use std::collections::{BTreeMap, BTreeSet};

/// Requirements, all of which labels must meet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, BTreeSet<String>),
    /// Also met where the label is absent.
    NotIn(String, BTreeSet<String>),
    Exists(String),
    Absent(String),
}

/// Why a selector cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{term}` is no requirement of a label selector: write KEY, !KEY, KEY=VALUE, KEY!=VALUE, KEY in (A,B) or KEY notin (A,B)")]
pub struct SelectorError {
    term: String,
}

impl Selector {
    /// Reads a selector; an empty one fits all.
    ///
    /// # Errors
    /// One of its requirements is none.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let terms = terms(text).map(str::trim).filter(|term| !term.is_empty());
        terms.map(requirement).collect::<Result<_, _>>().map(Self)
    }

    /// Whether labels meet all of it.
    #[must_use]
    pub fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
        })
    }
}

/// The parts between commas that stand in no parentheses.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |character| {
        match character {
            '(' => inside = true,
            ')' => inside = false,
            _ => {}
        }
        character == ',' && !inside
    })
}

fn requirement(term: &str) -> Result<Requirement, SelectorError> {
    let refused = || SelectorError { term: term.to_owned() };
    let key = |key: &str| {
        let key = key.trim();
        let bytes = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        if !key.is_empty() && key.bytes().all(bytes) { Ok(key.to_owned()) } else { Err(refused()) }
    };
    let value = |value: &str| {
        let value = value.trim();
        if value.contains(['(', ')', '=', '!', ' ']) { Err(refused()) } else { Ok(value.to_owned()) }
    };
    let one = |text: &str| value(text).map(|value| BTreeSet::from([value]));
    if let Some((name, rest)) = term.split_once("!=") {
        return Ok(Requirement::NotIn(key(name)?, one(rest)?));
    }
    if let Some((name, rest)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Requirement::In(key(name)?, one(rest)?));
    }
    if let Some(name) = term.strip_prefix('!') {
        return Ok(Requirement::Absent(key(name)?));
    }
    let Some((name, set)) = term.split_once(char::is_whitespace) else { return Ok(Requirement::Exists(key(term)?)) };
    let (operator, values) = set.trim().split_once('(').ok_or_else(refused)?;
    let values = values.strip_suffix(')').ok_or_else(refused)?.split(',').map(value).collect::<Result<BTreeSet<_>, _>>()?;
    match operator.trim() {
        "in" => Ok(Requirement::In(key(name)?, values)),
        "notin" => Ok(Requirement::NotIn(key(name)?, values)),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_selector_knows_equality_sets_and_presence() {
        let labels = BTreeMap::from([("app".to_owned(), "a".to_owned()), ("tier".to_owned(), "x".to_owned())]);
        let fits = |selector: &str| Selector::parse(selector).unwrap().fits(&labels);
        for good in [
            "",
            "app=a,tier",
            "app==a,!missing,tier!=y",
            "app in (a, b),tier notin (y,z)",
            "missing notin (a)",
            "app in(a)",
            "missing!=a",
            ",",
        ] {
            assert!(fits(good), "{good}");
        }
        for bad in ["app=b", "!tier", "app=a,tier!=x", "app in (b,c)", "tier notin (x)", "missing in (a)", "app in (b),tier"] {
            assert!(!fits(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_no_requirement_is_refused() {
        for bad in ["app in a", "app in (a", "app of (a)", "a b", "app=a=b", "=a", "in (a)", "app in (a) b"] {
            assert!(Selector::parse(bad).is_err(), "{bad}");
        }
    }
}
