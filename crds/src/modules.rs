//! Packages of npm in sessions: what a session may ask for, and where a broker finds it.

use serde::{Deserialize, Serialize};

use crate::service::Auth;

/// Packages that a session may allow.
pub const ALLOWED_MAX: usize = 64;

/// Bytes of one entry: npm's longest name, and room for a range.
pub const SPECIFIER_BYTES_MAX: usize = 300;

/// The packages of npm that a session may use beside those that every session has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::modules())))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Modules {
    /// `NAME` or `npm:NAME@RANGE`. What was loaded stays as it is, whatever is written here later.
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = ALLOWED_MAX), inner(length(min = 1, max = SPECIFIER_BYTES_MAX)), extend("x-kubernetes-list-type" = "set"))
    )]
    pub allow: Vec<String>,
}

/// The registry that a broker takes packages from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::registry())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Registry {
    /// `http` or `https` URL of a registry that speaks npm's protocol.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 2048)))]
    pub registry: String,
    /// Credentials that the broker adds to requests to it.
    #[serde(default)]
    pub auth: Auth,
}

/// An entry of [`Modules::allow`], or a package as a cell names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Specifier<'a> {
    /// The package.
    pub name: &'a str,
    /// Which versions: a range as npm has it, or a tag. Absent: the registry's latest.
    pub range: Option<&'a str>,
}

impl<'a> Specifier<'a> {
    /// `NAME`, `NAME@RANGE`, each with or without `npm:` before it. `None` when it is neither.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix("npm:").unwrap_or(text);
        if text.len() > SPECIFIER_BYTES_MAX {
            return None;
        }
        let scope = if text.starts_with('@') { text.find('/')? + 1 } else { 0 };
        let at = text.get(scope..)?.find('@').map(|at| at + scope);
        let (name, range) = at.and_then(|at| text.split_at_checked(at)).map_or((text, None), |(name, rest)| (name, rest.get(1..)));
        let (before, own) = name.split_at_checked(scope)?;
        let before = before.strip_prefix('@').and_then(|scope| scope.strip_suffix('/'));
        let plain = |part: &str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(fits)
        };
        let in_range = |range: &str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b" .^~<>=|*+-_".contains(&byte);
            !range.is_empty() && range.bytes().all(fits)
        };
        let fits = plain(own) && before.is_none_or(plain) && (scope == 0) == before.is_none() && range.is_none_or(in_range);
        fits.then_some(Self { name, range })
    }
}

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use crate::rules::{plain_url, rule, rules};

    pub(super) fn modules() -> Value {
        rules([rule(
            "self.allow.all(m, m.matches('^(npm:)?(@[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)?[A-Za-z0-9_~-][A-Za-z0-9._~-]*(@[A-Za-z0-9 .^~<>=|*+_-]+)?$'))",
            "modules.allow: write names of packages of npm, such as lodash, or npm:NAME@RANGE, such as npm:zod@^4",
        )])
    }

    pub(super) fn registry() -> Value {
        let message = "modules.registry: write the http:// or https:// URL of an npm registry, without user, password, query and fragment";
        rules([plain_url("registry", "https?", message)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specifier_is_a_name_and_perhaps_a_range() {
        let of = |text| Specifier::parse(text).map(|it| (it.name, it.range));
        assert_eq!(of("lodash"), Some(("lodash", None)));
        assert_eq!(of("npm:zod@^4"), Some(("zod", Some("^4"))));
        assert_eq!(of("zod@>=3 <4 || 5.x"), Some(("zod", Some(">=3 <4 || 5.x"))));
        assert_eq!(of("npm:@scope/name@next"), Some(("@scope/name", Some("next"))));
        assert_eq!(of("@scope/name"), Some(("@scope/name", None)));
        assert_eq!(of("JSONStream"), Some(("JSONStream", None)));
        let bad = [
            "",
            "npm:",
            "@",
            "@scope",
            "@/name",
            "@scope/",
            "a/b",
            "zod@",
            "../x",
            ".x",
            "a b",
            "zod@file:x",
            "zod@http://x",
            "@a/b/c",
            "é",
        ];
        for bad in bad {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_specifier_may_be_so_long_and_no_longer() {
        let of = |bytes: usize| Specifier::parse(&"x".repeat(bytes)).is_some();
        assert!(of(SPECIFIER_BYTES_MAX) && !of(SPECIFIER_BYTES_MAX + 1));
    }
}
