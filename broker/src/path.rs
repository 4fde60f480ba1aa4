//! Paths of tools: templates, their expansion, and what a service allows. Pure.

use std::collections::BTreeSet;

use dormouse_service::wildcard;

/// Longest argument in a path, in bytes. Servers refuse longer paths anyway, and the checks below read an argument many times.
const ARGUMENT_BYTES_MAX: usize = 1_024;

/// A tool's path, such as `/widgets/{id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Argument(String),
}

/// Why an argument cannot stand in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error("the path needs this argument as a text, a number or a boolean")]
    Missing,
    #[error("an argument in a path must not be empty")]
    Empty,
    #[error("an argument in a path must not be longer than {ARGUMENT_BYTES_MAX} bytes")]
    TooLong,
    #[error("an argument in a path must not hold slashes, dot segments or control characters, encoded or not")]
    Unsafe,
}

impl Template {
    /// Parses a path. The error says what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if !text.starts_with('/') {
            return Err("must begin with `/`");
        }
        if text.contains(['?', '#']) {
            return Err("must not hold a query: arguments that the path does not name go there by themselves");
        }
        if !text.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'\\') {
            return Err("must be printable ASCII without blanks and backslashes; percent-encode the rest");
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((literal, tail)) = rest.split_once('{') {
            let (name, tail) = tail.split_once('}').ok_or("holds a `{` without its `}`")?;
            if name.is_empty() || name.contains('{') || literal.contains('}') {
                return Err("holds braces that are not `{argument}`");
            }
            pieces.push(Piece::Literal(literal.to_owned()));
            pieces.push(Piece::Argument(name.to_owned()));
            rest = tail;
        }
        if rest.contains('}') {
            return Err("holds a `}` without its `{`");
        }
        pieces.push(Piece::Literal(rest.to_owned()));
        let template = Self { pieces };
        let without_arguments = template.join(|_| "x".to_owned());
        if has_dot_segment(&fully_decoded(&without_arguments)) {
            return Err("must not hold `.` or `..` segments");
        }
        Ok(template)
    }

    /// The names of the arguments in it.
    pub(crate) fn arguments(&self) -> BTreeSet<&str> {
        self.pieces.iter().filter_map(|piece| if let Piece::Argument(name) = piece { Some(name.as_str()) } else { None }).collect()
    }

    /// The path with these arguments in place, percent-encoded. On failure the name of the argument is told.
    pub(crate) fn expand(&self, argument: impl Fn(&str) -> Option<String>) -> Result<String, (String, ArgumentError)> {
        for name in self.arguments() {
            let value = argument(name).ok_or((name.to_owned(), ArgumentError::Missing))?;
            check(&value).map_err(|error| (name.to_owned(), error))?;
        }
        let path = self.join(|name| encode(&argument(name).unwrap_or_default()));
        // Two arguments side by side may spell what neither of them does.
        if has_dot_segment(&fully_decoded(&path)) {
            let name = self.arguments().into_iter().next().unwrap_or_default();
            return Err((name.to_owned(), ArgumentError::Unsafe));
        }
        Ok(path)
    }

    fn join(&self, argument: impl Fn(&str) -> String) -> String {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => text.clone(),
                Piece::Argument(name) => argument(name),
            })
            .collect()
    }
}

/// Refuses what some server might read as more than one segment: it may decode more often than the standard says.
fn check(value: &str) -> Result<(), ArgumentError> {
    if value.is_empty() {
        return Err(ArgumentError::Empty);
    }
    if value.len() > ARGUMENT_BYTES_MAX {
        return Err(ArgumentError::TooLong);
    }
    let decoded = fully_decoded(value);
    let split = |text: &str| text.contains(['/', '\\']) || text.chars().any(char::is_control);
    if split(value) || split(&decoded) || has_dot_segment(&decoded) {
        return Err(ArgumentError::Unsafe);
    }
    Ok(())
}

/// A path of a request in the ways that servers may read it, read once for all the patterns that it is compared with.
#[derive(Debug)]
pub(crate) struct Spelled<'a> {
    path: &'a str,
    /// Decoded once, as patterns are.
    once: String,
    is_plain: bool,
    /// No further decoding makes slashes.
    is_one_reading: bool,
}

impl<'a> Spelled<'a> {
    /// Reads a path, in time that is linear in its length.
    pub(crate) fn of(path: &'a str) -> Self {
        let decoded = fully_decoded(path);
        let slashes = |text: &str| text.matches(['/', '\\']).count();
        let name = |segment: &str| segment.split(';').next().is_some_and(|name| name == "." || name == "..");
        let is_plain = !decoded.chars().any(char::is_control) && !decoded.split(['/', '\\']).any(name);
        Self { path, once: decode(path), is_plain, is_one_reading: slashes(&decoded) == slashes(path) }
    }

    /// Whether no server can read the path as another one, however often it decodes: no dot segments, no control characters. Some servers end
    /// a segment at a `;`.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }
}

fn has_dot_segment(decoded: &str) -> bool {
    decoded.split(['/', '\\']).any(|segment| segment == "." || segment == "..")
}

/// A pattern of allowed paths, where `*` matches any run of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(String);

impl Pattern {
    /// Parses a pattern. The error says what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if !text.starts_with('/') && text != "*" {
            return Err("must begin with `/`");
        }
        Ok(Self(decode(text)))
    }

    /// A pattern of names, in which nothing is encoded.
    pub(crate) fn of_names(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether it matches a name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.covers(name)
    }

    /// Whether it matches a path, both decoded once: servers may see either form.
    pub(crate) fn matches(&self, path: &Spelled<'_>) -> bool {
        self.covers(&path.once)
    }

    /// Whether it matches in every reading: a path with encoded slashes must match with them as slashes and as they are.
    pub(crate) fn allows(&self, path: &Spelled<'_>) -> bool {
        self.matches(path) && (path.is_one_reading || self.covers(path.path))
    }

    fn covers(&self, path: &str) -> bool {
        wildcard::covers(&self.0, path)
    }
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn decode(text: &str) -> String {
    count_work(text);
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        let escape = (*byte == b'%').then(|| tail.split_at_checked(2)).flatten();
        let value = escape.and_then(|(hex, tail)| Some((hex_value(hex)?, tail)));
        let (value, tail) = value.unwrap_or((*byte, tail));
        decoded.push(value);
        rest = tail;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Decodes until nothing is left to decode, in one pass: what an escape stands for may end an escape that begins before it, and no two escapes
/// overlap, so their order does not matter.
fn fully_decoded(text: &str) -> String {
    count_work(text);
    let mut decoded: Vec<u8> = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        decoded.push(byte);
        while let Some((b'%', hex)) = decoded.last_chunk::<3>().and_then(|end| end.split_first()).map(|(first, hex)| (*first, hex)) {
            let Some(value) = hex_value(hex) else { break };
            decoded.truncate(decoded.len() - 3);
            decoded.push(value);
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn hex_value(hex: &[u8]) -> Option<u8> {
    let is_hex = hex.len() == 2 && hex.iter().all(u8::is_ascii_hexdigit);
    is_hex.then(|| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()).flatten()
}

#[cfg(test)]
thread_local! {
    /// Bytes that were decoded.
    pub(crate) static WORK_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn count_work(text: &str) {
    WORK_BYTES.set(WORK_BYTES.get() + text.len());
}

#[cfg(not(test))]
fn count_work(_text: &str) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(template: &str, value: &str) -> Result<String, ArgumentError> {
        let template = Template::parse(template).unwrap();
        template.expand(|_| Some(value.to_owned())).map_err(|(_, error)| error)
    }

    #[test]
    fn arguments_are_encoded() {
        assert_eq!(expand("/w/{id}", "a b?c#d&ü"), Ok("/w/a%20b%3Fc%23d%26%C3%BC".to_owned()));
        assert_eq!(expand("/w/{id}.json", "..."), Ok("/w/....json".to_owned()));
        assert_eq!(expand("/w/{id}", "100%"), Ok("/w/100%25".to_owned()));
    }

    #[test]
    fn arguments_stay_in_their_segment() {
        for value in ["..", ".", "a/b", "../admin", "..%2fadmin", "%2e%2e", "%252e%252e", "a%5cb", "a\\b", "a%00", "a\nb", "%25252f"] {
            assert_eq!(expand("/w/{id}", value), Err(ArgumentError::Unsafe), "{value}");
        }
        assert_eq!(expand("/w/{id}", ""), Err(ArgumentError::Empty));
        assert_eq!(expand("/w/{a}{a}", "."), Err(ArgumentError::Unsafe));
        assert_eq!(expand("/w/.{a}", ".x"), Ok("/w/..x".to_owned()));
    }

    #[test]
    fn neighbours_cannot_spell_a_dot_segment() {
        let template = Template::parse("/w/{a}{b}").unwrap();
        assert!(template.expand(|name| Some(if name == "a" { "%2" } else { "e" }.to_owned())).is_err());
    }

    #[test]
    fn bad_templates_are_refused() {
        for text in ["w", "", "/a?b=c", "/a#b", "/a/../b", "/a/%2e%2e/b", "/{", "/}", "/{}", "/{a{b}}", "/a b", "/a\\b", "/ü"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
        assert_eq!(Template::parse("/a/{b}/c-{d}").unwrap().arguments().into_iter().collect::<Vec<_>>(), ["b", "d"]);
    }

    #[test]
    fn patterns_match_runs() {
        let matches = |pattern: &str, path: &str| Pattern::parse(pattern).unwrap().matches(&Spelled::of(path));
        assert!(matches("/widgets/*", "/widgets/1"));
        assert!(matches("/widgets/*", "/widgets/1/parts"));
        assert!(!matches("/widgets/*", "/widgets"));
        assert!(!matches("/widgets/*", "/other/1"));
        assert!(matches("/widgets", "/widgets"));
        assert!(!matches("/widgets", "/widgets/1"));
        assert!(matches("/*/parts/*/x", "/w/parts/3/x"));
        assert!(!matches("/*/parts/*/x", "/w/parts/x"));
        assert!(!matches("/a*a", "/a"));
        assert!(matches("*", "/anything"));
        assert!(matches("/a b", "/a%20b"));
    }
    #[test]
    fn decoding_all_at_once_is_decoding_again_and_again() {
        let again_and_again = |text: &str| {
            let mut current = text.to_owned();
            loop {
                let next = decode(&current);
                if next == current {
                    return current;
                }
                current = next;
            }
        };
        let pieces = ["%", "2", "5", "%25", "%2", "%32", "%35", "e", "%2e", "/", "g", "%5c", "+1"];
        let mut seed = 1_u32;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            assert_eq!(fully_decoded(&text), again_and_again(&text), "{text}");
        }
    }
}
