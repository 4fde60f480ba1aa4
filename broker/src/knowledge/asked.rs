//! What a call asks of bases of documents, and of which of them its session may.

use serde::Deserialize;

use super::{LIST, READ, SEARCH};

/// A call of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Search,
    Read,
    List,
}

impl Verb {
    /// The call of this name.
    pub(crate) fn named(tool: &str) -> Option<Self> {
        match tool {
            SEARCH => Some(Self::Search),
            READ => Some(Self::Read),
            LIST => Some(Self::List),
            _ => None,
        }
    }

    /// The name of its call.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Search => SEARCH,
            Self::Read => READ,
            Self::List => LIST,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Search {
    pub(super) query: String,
    pub(super) base: Option<String>,
    #[serde(default)]
    pub(super) bases: Vec<String>,
    pub(super) limit: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct Read {
    /// As a search answers it, in place of the next three.
    pub(super) r#ref: Option<String>,
    #[serde(default)]
    pub(super) base: String,
    #[serde(default)]
    pub(super) document: String,
    pub(super) section: Option<String>,
    pub(super) start: Option<usize>,
    pub(super) end: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct List {
    pub(super) base: Option<String>,
}

/// Which documents a session may search and read: those below one of these, each `BASE` or `BASE/FOLDER`; without a list, all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a>(pub(crate) Option<&'a [String]>);

impl Scope<'_> {
    /// Whether anything of a base is in it.
    pub(super) fn has_base(self, base: &str) -> bool {
        self.0.is_none_or(|named| named.iter().any(|entry| entry.split_once('/').map_or(entry.as_str(), |(of, _)| of) == base))
    }

    /// Whether a document of a base is.
    pub(super) fn has(self, base: &str, document: &str) -> bool {
        self.0.is_none_or(|named| named.iter().any(|entry| holds(entry, base, document)))
    }
}

fn holds(entry: &str, base: &str, document: &str) -> bool {
    match entry.split_once('/') {
        None => entry == base,
        Some((of, folder)) => {
            // A folder's name ends where its document's name has a `/`.
            let folder = folder.trim_end_matches('/');
            let below = document.strip_prefix(folder).is_some_and(|rest| folder.is_empty() || rest.is_empty() || rest.starts_with('/'));
            of == base && below
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_ends_where_its_name_does() {
        let names = |entry: &str| {
            let named = [entry.to_owned()];
            let scope = Scope(Some(&named));
            let all = [("hr", "a.md"), ("hr", "leave/a.md"), ("hr", "leave/more/b.md"), ("hr", "leave-secret/c.md"), ("law", "leave/d.md")];
            all.iter().filter(|(base, document)| scope.has(base, document)).map(|(_, document)| *document).collect::<Vec<_>>()
        };
        assert_eq!(names("hr"), ["a.md", "leave/a.md", "leave/more/b.md", "leave-secret/c.md"]);
        assert_eq!(names("hr/"), names("hr"));
        assert_eq!(names("hr/leave"), ["leave/a.md", "leave/more/b.md"]);
        assert_eq!(names("hr/leave/"), names("hr/leave"));
        assert_eq!(names("hr/leave/a.md"), ["leave/a.md"], "a document is one, too");
        for nothing in ["h", "hr/leave/a", "hr/../law", "", "/", "*"] {
            assert!(names(nothing).is_empty(), "{nothing}");
        }
        assert!(Scope(None).has("law", "x") && Scope(None).has_base("law"));
        assert!(!Scope(Some(&[])).has("law", "x") && !Scope(Some(&[])).has_base("law"));
    }
}
