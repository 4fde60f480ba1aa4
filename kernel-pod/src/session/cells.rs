//! The scripts of recent cells, and the way back from their positions to the user's source.

use std::collections::{BTreeSet, VecDeque};

use dormouse_cells::{Declared, Language, Options, Script, compile};
use dormouse_engine as engine;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::eval::{self, CellError, EvalRequest};

/// Scripts that are kept: an error may pass through functions of earlier cells.
const SCRIPTS_KEPT_MAX: usize = 16;

/// The most recent scripts.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    kept: VecDeque<Script>,
}

impl Scripts {
    /// Compiles a cell and keeps its script. `constants` are the names that earlier cells have declared as such.
    pub(super) fn compile(
        &mut self,
        request: &EvalRequest,
        filename: &str,
        constants: BTreeSet<String>,
    ) -> Result<engine::CellSource, CellError> {
        let script = script(request, filename, constants)?;
        Ok(self.keep(script))
    }

    /// Keeps a script. Answers it as the engine takes it.
    pub(super) fn keep(&mut self, script: Script) -> engine::CellSource {
        let source = engine::CellSource { code: script.code.clone(), filename: script.filename.clone(), is_async: script.is_async };
        self.kept.retain(|kept| kept.filename != script.filename);
        if self.kept.len() == SCRIPTS_KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(script);
        source
    }

    /// What the script of this name declares; nothing when it is not kept.
    pub(super) fn declared(&self, filename: &str) -> &[Declared] {
        self.kept.iter().find(|script| script.filename == filename).map_or(&[], |script| &script.declared)
    }

    /// Whether the script of this name is kept.
    pub(super) fn has(&self, filename: &str) -> bool {
        self.kept.iter().any(|script| script.filename == filename)
    }

    /// The engine's error, with the positions of the user's source.
    pub(super) fn error(&self, error: engine::CellError, filename: &str) -> CellError {
        let script = self.kept.iter().find(|script| script.filename == filename);
        let (line, column) =
            script.and_then(|script| script.original_position(error.line, error.column)).unwrap_or((error.line, error.column));
        CellError {
            code: code(error.code),
            name: error.name,
            message: error.message,
            stack: error.stack.lines().map(|frame| self.frame(frame)).collect::<Vec<_>>().join("\n"),
            line,
            column,
        }
    }

    /// A line of a stack, its `name:line:column` led back.
    fn frame(&self, frame: &str) -> String {
        for script in &self.kept {
            let Some((at, rest)) = find_position(frame, &script.filename) else { continue };
            let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
            let line_digits = digits(rest);
            let (line, after) = rest.split_at(line_digits);
            let (column, after) = match after.strip_prefix(':') {
                Some(tail) => tail.split_at(digits(tail)),
                None => ("", after),
            };
            let Ok(line) = line.parse() else { continue };
            let Some((line, column)) = script.original_position(line, column.parse().unwrap_or(1)) else { continue };
            let before = frame.get(..at).unwrap_or_default();
            return format!("{before}{}:{line}:{column}{after}", script.filename);
        }
        frame.to_owned()
    }
}

/// Compiles a cell.
pub(super) fn script(request: &EvalRequest, filename: &str, constants: BTreeSet<String>) -> Result<Script, CellError> {
    let language = match request.language {
        eval::Language::Typescript => Language::Typescript,
        eval::Language::Javascript => Language::Javascript,
        eval::Language::Tsx => Language::Tsx,
        eval::Language::Jsx => Language::Jsx,
    };
    let options = Options { language, filename: filename.to_owned(), constants };
    compile(&request.code, &options).map_err(|error| CellError {
        code: ErrorCode::SyntaxError,
        name: "SyntaxError".to_owned(),
        message: error.message,
        stack: String::new(),
        line: error.line,
        column: error.column,
    })
}

/// Where `filename:` stands in `frame`, and what follows it.
fn find_position<'a>(frame: &'a str, filename: &str) -> Option<(usize, &'a str)> {
    let at = frame.find(filename)?;
    let starts_a_word = at == 0 || frame.get(..at).is_some_and(|before| before.ends_with(['(', ' ', '@']));
    let rest = frame.get(at + filename.len()..)?.strip_prefix(':')?;
    starts_a_word.then_some((at, rest))
}

fn code(code: engine::EngineErrorCode) -> ErrorCode {
    use engine::EngineErrorCode as E;
    match code {
        E::UncaughtException => ErrorCode::UncaughtException,
        E::TimeoutError => ErrorCode::TimeoutError,
        E::TickBudgetExceeded => ErrorCode::TickBudgetExceeded,
        E::MemoryLimitError => ErrorCode::MemoryLimitError,
        E::NativeAllocLimitError => ErrorCode::NativeAllocLimitError,
        E::OutputLimitError => ErrorCode::OutputLimitError,
        E::StackOverflow => ErrorCode::StackOverflow,
        E::Interrupted => ErrorCode::Interrupted,
        E::SyntaxError => ErrorCode::SyntaxError,
    }
}
