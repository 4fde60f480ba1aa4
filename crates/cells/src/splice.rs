//! Edits of a text, and the way back from the edited text to the original.

use crate::position::Anchor;

/// One edit. Byte offsets into the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Where it begins.
    pub(crate) at: usize,
    /// Where it ends.
    pub(crate) end: usize,
    /// What stands there now. `None`: blanks, of the same length and with the same lines.
    pub(crate) text: Option<String>,
    /// The first blank is a semicolon, so that what follows is a statement of its own.
    pub(crate) separates: bool,
}

/// Applies edits that are sorted by their beginning; one that begins inside of an earlier one is left out. The anchors say where each stretch
/// of the result came from.
pub(crate) fn apply(text: &str, edits: &[Edit]) -> (String, Vec<Anchor>) {
    let mut script = String::with_capacity(text.len() + 64);
    let mut anchors = vec![Anchor { script: 0, source: 0 }];
    let mut from = 0;
    for edit in edits {
        if edit.at < from {
            continue;
        }
        script.push_str(text.get(from..edit.at).unwrap_or(""));
        from = edit.end;
        let erased = text.get(edit.at..edit.end).unwrap_or("");
        match &edit.text {
            None => blank(&mut script, erased, edit.separates),
            Some(new) => {
                anchors.push(Anchor { script: script.len(), source: edit.at });
                script.push_str(new);
                if new.len() != erased.len() {
                    anchors.push(Anchor { script: script.len(), source: edit.end });
                }
            }
        }
    }
    script.push_str(text.get(from..).unwrap_or(""));
    (script, anchors)
}

/// A blank for each byte, so that columns stay; lines end where they ended.
fn blank(script: &mut String, erased: &str, separates: bool) {
    let mut first = separates;
    for c in erased.chars() {
        match c {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => script.push(c),
            _ => {
                for _ in 0..c.len_utf8() {
                    script.push(if std::mem::take(&mut first) { ';' } else { ' ' });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_keep_lines_and_bytes() {
        let text = "let x: é\n| b = 1";
        let edits =
            [Edit { at: 0, end: 3, text: Some("var".to_owned()), separates: false }, Edit { at: 5, end: 13, text: None, separates: true }];
        let (script, anchors) = apply(text, &edits);
        assert_eq!(script, "var x;   \n    = 1");
        assert_eq!(script.len(), text.len());
        assert_eq!(anchors.len(), 2);
    }
}
