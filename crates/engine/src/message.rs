//! What the guest says, read.

use serde::Deserialize;
use serde_json::Value;

use crate::{CellEnd, CellError, ConsoleLine, Display, EngineErrorCode, Op, Progress};

/// The kinds of messages, by the guest's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Operation,
    Console,
    Display,
    Cell,
    Value,
    Unfinished,
    Answer,
    Progress,
}

impl Kind {
    pub(crate) fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::Operation,
            1 => Self::Console,
            2 => Self::Display,
            3 => Self::Cell,
            4 => Self::Value,
            5 => Self::Unfinished,
            6 => Self::Answer,
            7 => Self::Progress,
            _ => return None,
        })
    }
}

/// A message.
pub(crate) enum Message {
    Operation(Op),
    Console(ConsoleLine),
    Display(Display),
    Cell(Box<CellEnd>),
    /// `None`: nested deeper than JSON parsers accept, so it is not shown as JSON.
    Value(Option<Value>),
    /// Jobs are left after the turn was stopped.
    Unfinished,
    /// The answer to a request of the host's.
    Answer(Value),
    Progress(Progress),
}

#[derive(Deserialize)]
struct RawLine {
    level: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCell {
    ok: bool,
    value: Option<Value>,
    value_type: String,
    preview: String,
    error: Option<RawError>,
}

#[derive(Deserialize)]
struct RawError {
    code: String,
    name: String,
    message: String,
    stack: String,
}

pub(crate) fn read(kind: Kind, bytes: &[u8]) -> Result<Message, serde_json::Error> {
    Ok(match kind {
        Kind::Operation => Message::Operation(serde_json::from_slice(bytes)?),
        Kind::Console => {
            let raw: RawLine = serde_json::from_slice(bytes)?;
            Message::Console(ConsoleLine { level: raw.level, text: raw.text, at_ms: 0.0 })
        }
        Kind::Display => Message::Display(serde_json::from_slice(bytes)?),
        Kind::Value => Message::Value(serde_json::from_slice(bytes).ok()),
        Kind::Unfinished => Message::Unfinished,
        Kind::Answer => Message::Answer(serde_json::from_slice(bytes)?),
        Kind::Progress => Message::Progress(serde_json::from_slice(bytes)?),
        Kind::Cell => {
            let raw: RawCell = serde_json::from_slice(bytes)?;
            let error = raw.error.map(|error| {
                let code = code(&error.code);
                let own = code != EngineErrorCode::UncaughtException && code != EngineErrorCode::SyntaxError;
                CellError {
                    code,
                    name: if own { code.as_str().to_owned() } else { error.name },
                    message: if own { advice(code).to_owned() } else { error.message },
                    stack: error.stack,
                    line: 0,
                    column: 0,
                }
            });
            Message::Cell(Box::new(CellEnd { ok: raw.ok, value: raw.value, value_type: raw.value_type, preview: raw.preview, error }))
        }
    })
}

fn code(name: &str) -> EngineErrorCode {
    match name {
        "MemoryLimitError" => EngineErrorCode::MemoryLimitError,
        "NativeAllocLimitError" => EngineErrorCode::NativeAllocLimitError,
        "StackOverflow" => EngineErrorCode::StackOverflow,
        "SyntaxError" => EngineErrorCode::SyntaxError,
        "Stopped" => EngineErrorCode::Interrupted,
        _ => EngineErrorCode::UncaughtException,
    }
}

/// What happened and what to do about it.
fn advice(code: EngineErrorCode) -> &'static str {
    match code {
        EngineErrorCode::TimeoutError => {
            "the cell ran longer than its time budget; split the work, or raise timeoutMs or limits.evalTimeoutMs"
        }
        EngineErrorCode::TickBudgetExceeded => "the cell used more ticks than its budget; split the work or raise limits.evalTicks",
        EngineErrorCode::MemoryLimitError => {
            "the heap limit is reached; drop references to what is no longer needed or raise limits.heapBytes"
        }
        EngineErrorCode::NativeAllocLimitError => "one allocation is larger than the heap limit; make it smaller or raise limits.heapBytes",
        EngineErrorCode::OutputLimitError => "the cell wrote more output than its limit; print less or raise limits.outputBytes",
        EngineErrorCode::StackOverflow => "the script recursed deeper than the stack; make it iterate",
        EngineErrorCode::Interrupted => "the cell was interrupted by request",
        EngineErrorCode::UncaughtException | EngineErrorCode::SyntaxError => "",
    }
}

/// Rewrites the end of a cell that the host stopped.
pub(crate) fn stopped(cell: &mut CellEnd, code: EngineErrorCode) {
    let (stack, line, column) = cell.error.take().map_or((String::new(), 0, 0), |error| (error.stack, error.line, error.column));
    cell.ok = false;
    cell.value = None;
    "undefined".clone_into(&mut cell.value_type);
    cell.preview.clear();
    cell.error = Some(CellError { code, name: code.as_str().to_owned(), message: advice(code).to_owned(), stack, line, column });
}

/// The console line for code that the host stopped outside a cell.
pub(crate) fn stopped_line(code: EngineErrorCode, at_ms: f64) -> ConsoleLine {
    ConsoleLine { level: "error".to_owned(), text: format!("{}: {}", code.as_str(), advice(code)), at_ms: at_ms.max(0.0) }
}

/// Takes line and column from the first frame in the cell's own file, else from the first frame.
pub(crate) fn locate(error: &mut CellError, filename: &str) {
    let frames = || error.stack.lines().filter_map(frame);
    let found = frames().find(|(file, _, _)| *file == filename).or_else(|| frames().next());
    if let Some((_, line, column)) = found {
        (error.line, error.column) = (line, column);
    }
}

/// `    at name (file:line:column)` or `    at file:line:column`.
fn frame(text: &str) -> Option<(&str, u32, u32)> {
    let place = text.trim().strip_prefix("at ")?;
    let place = place.rsplit_once('(').map_or(place, |(_, inside)| inside.trim_end_matches(')'));
    let mut parts = place.rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    Some((parts.next()?, line, column))
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn frames_are_read_with_and_without_a_function() {
        assert_eq!(frame("    at f (cell-1.ts:3:14)"), Some(("cell-1.ts", 3, 14)));
        assert_eq!(frame("    at cell-1.ts:1:5"), Some(("cell-1.ts", 1, 5)));
        assert_eq!(frame("    at map (native)"), None);
    }
}
