//! Answers as people read them.

use std::io;

use dormouse_protocol::{
    eval::{CellError, ConsoleLine, Display, EvalResult},
    session::Session,
};

use crate::screen::{Output, Screen, Tone};

/// A console line: warnings and errors to standard error.
pub(crate) fn console(screen: &mut Screen, line: &ConsoleLine) -> io::Result<()> {
    match line.level.as_str() {
        "error" => screen.error_line(Tone::Error, &line.text),
        "warn" => screen.error_line(Tone::Warning, &line.text),
        "debug" => screen.line(Tone::Faint, &line.text),
        _ => screen.line(Tone::Plain, &line.text),
    }
}

/// The end of a cell, without its console lines. `source` is the cell.
pub(crate) fn end(screen: &mut Screen, source: &str, result: &EvalResult) -> io::Result<()> {
    for rendering in &result.display {
        display(screen, rendering)?;
    }
    if let Some(failure) = &result.error {
        return error(screen, source, failure);
    }
    if result.value_type != "undefined" && !result.preview.is_empty() {
        screen.line(Tone::Value, &result.preview)?;
    }
    Ok(())
}

fn display(screen: &mut Screen, rendering: &Display) -> io::Result<()> {
    if rendering.mime_type.starts_with("text/plain") {
        return screen.line(Tone::Plain, &rendering.data);
    }
    let note = format!("[{}, {} bytes]", rendering.mime_type, rendering.data.len());
    screen.line(Tone::Faint, &note)
}

fn error(screen: &mut Screen, source: &str, failure: &CellError) -> io::Result<()> {
    screen.error_line(Tone::Error, &format!("{}: {}", failure.name, failure.message))?;
    if let Some((line, caret)) = excerpt(source, failure.line, failure.column) {
        screen.error_line(Tone::Plain, &format!("{:>5} | {line}", failure.line))?;
        screen.error_line(Tone::Error, &format!("{:>5} | {caret}", ""))?;
    }
    // The first lines of a stack repeat the error.
    for frame in failure.stack.lines().map(str::trim).filter(|line| line.starts_with("at ")) {
        screen.error_line(Tone::Faint, &format!("    {frame}"))?;
    }
    Ok(())
}

/// The line that an error is in, and a caret below its column; both count from 1.
fn excerpt(source: &str, line: u32, column: u32) -> Option<(String, String)> {
    let text = source.lines().nth(line.checked_sub(1)? as usize)?;
    let before = text.chars().take(column.checked_sub(1)? as usize);
    let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    Some((text.to_owned(), format!("{indent}^")))
}

/// A session in the form that was asked for.
pub(crate) fn one(answer: &Session, output: Output, screen: &mut Screen) -> anyhow::Result<()> {
    match output {
        Output::Text => session(screen, answer)?,
        Output::Json => screen.line(Tone::Plain, &serde_json::to_string(answer)?)?,
    }
    Ok(())
}

/// A session in some lines.
pub(crate) fn session(screen: &mut Screen, session: &Session) -> io::Result<()> {
    let status = &session.status;
    let snapshot = status.snapshot.as_ref().map(|it| format!("sequence {}, {} bytes, {}", it.sequence, it.bytes, it.time));
    let placement = status.placement.as_ref().map(|it| format!("{}, epoch {}", it.pod, it.epoch));
    let fields = [
        ("session", Some(format!("{}/{}", session.namespace, session.name))),
        ("id", Some(session.id.clone())),
        ("state", Some(session.state.to_string())),
        ("pod", placement),
        ("heap", status.heap.clone()),
        ("snapshot", snapshot),
        ("cells", status.cells.map(|cells| cells.to_string())),
        ("tool calls", status.tool_calls.map(|calls| calls.to_string())),
        ("next wake", status.next_wake_time.clone()),
        ("sleeps after", Some(format!("{} s without a request", session.spec.idle_seconds))),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            let name = screen.paint(Tone::Faint, &format!("{name:>12}"));
            screen.line(Tone::Plain, &format!("{name}  {value}"))?;
        }
    }
    Ok(())
}

/// Rows below a heading, in columns.
pub(crate) fn table(screen: &mut Screen, heading: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        cells.chain(heading.get(column).copied()).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    screen.line(Tone::Strong, &line(&mut heading.iter().copied()))?;
    for row in rows {
        screen.line(Tone::Plain, &line(&mut row.iter().map(String::as_str)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_below_the_column() {
        assert_eq!(excerpt("a\n\tb(c)", 2, 3), Some(("\tb(c)".to_owned(), "\t ^".to_owned())));
        assert_eq!(excerpt("a", 0, 0), None);
        assert_eq!(excerpt("a", 5, 1), None);
    }
}
