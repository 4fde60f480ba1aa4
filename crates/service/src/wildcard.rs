//! Patterns in which `*` stands for any run of characters, and nothing else is special.

/// Whether the pattern covers the whole text.
#[must_use]
pub fn covers(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_and_each_character_is_used_once() {
        for (pattern, text) in [
            ("*", ""),
            ("a", "a"),
            ("a*", "a"),
            ("*a", "ba"),
            ("a*c*e", "abcde"),
            ("**", "x"),
            ("a*b", "aab"),
            ("a#*", "a#"),
            ("a#*b*", "a#wrap b by"),
        ] {
            assert!(covers(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", "ab"), ("ab*b", "ab"), ("a*c*e", "aed"), ("*a", "ab"), ("a*a", "a"), ("a*bc*c", "abc")] {
            assert!(!covers(pattern, text), "{pattern} {text}");
        }
    }
}
