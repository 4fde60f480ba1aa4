//! Standard output and standard error, and whether they have colours.

use std::io::{self, IsTerminal as _, Write};

use nu_ansi_term::{Color, Style};

/// What a text is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// A value.
    Value,
    /// Beside the point.
    Faint,
    /// A heading.
    Strong,
    /// A warning.
    Warning,
    /// An error.
    Error,
}

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Where a command writes.
pub struct Screen {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    colour: bool,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("colour", &self.colour).finish_non_exhaustive()
    }
}

impl Screen {
    /// The process's own. Colours only on a terminal, and not where `NO_COLOR` is set.
    #[must_use]
    pub fn standard() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { out: Box::new(io::stdout()), err: Box::new(io::stderr()), colour: wanted && io::stdout().is_terminal() }
    }

    /// Whether colours are wanted.
    #[must_use]
    pub fn colour(&self) -> bool {
        self.colour
    }

    /// The text in its colour.
    #[must_use]
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colour || tone == Tone::Plain {
            return text.to_owned();
        }
        let style = match tone {
            Tone::Plain => Style::new(),
            Tone::Value => Style::new().fg(Color::Cyan),
            Tone::Faint => Style::new().fg(Color::DarkGray),
            Tone::Strong => Style::new().bold(),
            Tone::Warning => Style::new().fg(Color::Yellow),
            Tone::Error => Style::new().fg(Color::Red),
        };
        style.paint(text).to_string()
    }

    /// A line to standard output.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn line(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        let text = self.paint(tone, text);
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// Text without a line's end to standard output.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// A line to standard error.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn error_line(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        let text = self.paint(tone, text);
        writeln!(self.err, "{text}")?;
        self.err.flush()
    }
}
