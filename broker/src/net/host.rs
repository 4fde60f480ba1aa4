//! The hosts that a rule names.

use super::address;

/// The hosts of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Any,
    /// Names that end in this, which begins with a dot.
    Below(String),
    Exactly(String),
}

impl Host {
    /// Whether it is this one, as a URL shows it.
    pub(crate) fn holds(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Below(suffix) => address::literal(host).is_none() && host.ends_with(suffix),
            Self::Exactly(name) => host == name,
        }
    }
}
