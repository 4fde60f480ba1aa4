//! A test in our engine.

use std::{fmt::Write as _, time::Duration};

use dormouse_engine::{CellSource, Settings, Turn};

use super::{Case, Outcome, Program, host::End};
use crate::session::Session;

const HEAP_BYTES: u64 = 256 << 20;
const WALL: Duration = Duration::from_secs(30);
/// Timers that are delivered after the script.
const DELIVERIES_MAX: usize = 100;
/// The suite prints by `print`.
const PRINT: &str = "globalThis.print = (text) => console.log(`${text}`);\n";

/// Runs the harness, then the test, in a fresh session.
pub(super) async fn run(case: &Case, harness: &str, program: &Program) -> anyhow::Result<Outcome> {
    let mut session = Session::new(Settings { heap_bytes: HEAP_BYTES, determinism: None })?;
    session.budget.wall = WALL;
    session.budget.output_bytes = 8 << 20;
    let mut end = End::default();
    let test = if program.is_module { format!("await {}", program.source) } else { program.source.clone() };
    let cells =
        [("files.js", files(program)?, false), ("harness.js", format!("{PRINT}{harness}"), false), ("test.js", test, program.is_module)];
    for (filename, code, is_async) in cells {
        let cell = CellSource { code, filename: filename.to_owned(), is_async };
        match session.eval(&cell).await {
            Ok(turn) => take(&mut end, turn),
            Err(error) => return Ok(Err(format!("the instance is lost: {error:#}"))),
        }
        if end.thrown.is_some() {
            return Ok(case.judge(&end));
        }
    }
    for _ in 0..DELIVERIES_MAX {
        match session.fire().await {
            Ok(Some(turn)) => take(&mut end, turn),
            Ok(None) => break,
            Err(error) => return Ok(Err(format!("the instance is lost: {error:#}"))),
        }
    }
    Ok(case.judge(&end))
}

/// A script that writes the modules into the session's files, all of them as ES modules.
fn files(program: &Program) -> anyhow::Result<String> {
    if program.modules.is_empty() {
        return Ok(String::new());
    }
    let mut script = "require('fs').writeFileSync('/package.json', '{\"type\":\"module\"}');\n".to_owned();
    for (name, text) in &program.modules {
        let (name, text) = (serde_json::to_string(&format!("/{name}"))?, serde_json::to_string(text)?);
        writeln!(script, "require('fs').writeFileSync({name}, {text});")?;
    }
    Ok(script)
}

fn take(end: &mut End, turn: Turn) {
    for line in turn.console {
        end.printed.push_str(&line.text);
        end.printed.push('\n');
    }
    if let Some(error) = turn.cell.and_then(|cell| cell.error) {
        end.thrown = Some((error.name, error.message));
    }
}
