//! Why a cell is not a script.

use oxc::diagnostics::OxcDiagnostic;

use crate::position::{Anchor, LineIndex, under};

/// A cell that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({line}:{column})")]
pub struct SyntaxError {
    /// What is wrong and, where the parser knows, what to do about it.
    pub message: String,
    /// Line in the user's source, from 1.
    pub line: u32,
    /// Column in the user's source, in characters from 1.
    pub column: u32,
    /// The source ends where more is expected: a REPL asks for another line instead of reporting it.
    pub at_end: bool,
}

impl SyntaxError {
    /// An error at a byte of `source`.
    pub(crate) fn at(source: &str, offset: usize, message: impl Into<String>) -> Self {
        let (line, column) = LineIndex::new(source).position(source, offset);
        Self { message: message.into(), line, column, at_end: false }
    }

    /// The same where it came from: it was told of `text`, which was made of `source`.
    pub(crate) fn over(self, source: &str, text: &str, anchors: &[Anchor]) -> Self {
        let offset = under(anchors, LineIndex::new(text).offset(text, self.line, self.column)).min(source.len());
        Self { at_end: self.at_end, ..Self::at(source, offset, self.message) }
    }

    /// The first of the parser's findings. `prefix` bytes stand before the user's source in what was parsed.
    pub(crate) fn from_diagnostics(source: &str, prefix: usize, diagnostics: &[OxcDiagnostic]) -> Self {
        let Some(first) = diagnostics.iter().min_by_key(|d| offset_of(d).unwrap_or(usize::MAX)) else {
            return Self::at(source, 0, "the cell cannot be parsed");
        };
        let offset = offset_of(first).unwrap_or(0).saturating_sub(prefix).min(source.len());
        let end = source.trim_end().len();
        let message = match &first.help {
            Some(help) => format!("{}. {help}", first.message),
            None => first.message.to_string(),
        };
        let is_open = |d: &OxcDiagnostic| {
            let at = offset_of(d).unwrap_or(0).saturating_sub(prefix);
            at >= end || is_unterminated(d, source.as_bytes().get(at).copied())
        };
        let at_end = diagnostics.iter().any(is_open);
        Self { at_end, ..Self::at(source, offset, message) }
    }
}

fn offset_of(diagnostic: &OxcDiagnostic) -> Option<usize> {
    diagnostic.labels.first().map(|label| label.offset() as usize)
}

/// Templates and comments may go on over a line's end; an unterminated string or regular expression may not.
fn is_unterminated(diagnostic: &OxcDiagnostic, first: Option<u8>) -> bool {
    let message = diagnostic.message.to_ascii_lowercase();
    message.contains("unterminated") && (message.contains("comment") || message.contains("template") || matches!(first, Some(b'`' | b'}')))
}
