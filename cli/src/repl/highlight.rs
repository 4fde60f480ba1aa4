//! Colours while a cell is typed.

use nu_ansi_term::{Color, Style};
use reedline::{Highlighter, StyledText};

use super::{
    command,
    lex::{Class, lex},
};

/// Paints TypeScript.
pub(super) struct TypeScript;

impl Highlighter for TypeScript {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut styled = StyledText::new();
        if command::is_command(line) {
            styled.push((Style::new().fg(Color::Cyan), line.to_owned()));
            return styled;
        }
        for token in lex(line) {
            styled.push((style(token.class), token.text.to_owned()));
        }
        styled
    }
}

fn style(class: Class) -> Style {
    match class {
        Class::Keyword => Style::new().fg(Color::Magenta),
        Class::Constant | Class::Number => Style::new().fg(Color::Yellow),
        Class::Type => Style::new().fg(Color::Cyan),
        Class::Text => Style::new().fg(Color::Green),
        Class::Pattern => Style::new().fg(Color::Red),
        Class::Comment => Style::new().fg(Color::DarkGray),
        Class::Name | Class::Sign | Class::Space => Style::new(),
    }
}
