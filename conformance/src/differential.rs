//! Programs that must print in a cell what they print in Node, byte for byte, and the list of those that are known not to.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use dormouse_cells::Language;
use tokio::task::JoinSet;

use crate::{known::Known, node, session};

/// Where the programs are: `<area>/<name>.js`.
pub const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");
/// Lines of a difference that are shown.
const SHOWN_LINES_MAX: usize = 12;
/// Programs that run at once.
const AT_ONCE: usize = 2;

/// What a comparison came to.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Programs that were compared.
    pub compared: usize,
    /// Those that are listed and differ.
    pub known: usize,
    /// What is wrong, a text for each.
    pub failures: Vec<String>,
}

/// Compares every program whose name contains `only`.
///
/// # Errors
/// When Node, the engine or a file cannot be used at all.
pub async fn compare(only: &str) -> anyhow::Result<Comparison> {
    let folder = Path::new(PROGRAMS);
    let mut programs = programs(folder)?;
    programs.retain(|path| node::name_of(folder, path).contains(only));
    ensure!(!programs.is_empty(), "no program is called like {only:?}");
    let listed = programs.clone();
    let theirs = tokio::task::spawn_blocking(move || node::run(&listed));
    let ours = in_cells(&programs).await?;
    let theirs = theirs.await??;

    let list = Known::read()?;
    let known = list.differences()?;
    let mut result = Comparison { compared: programs.len(), ..Comparison::default() };
    let mut names = BTreeSet::new();
    for path in &programs {
        let name = node::name_of(folder, path);
        let expected = theirs.get(path).with_context(|| format!("node said nothing of {name}"))?;
        if let Some(error) = &expected.error {
            result.failures.push(format!("{name}: the program fails in node: {error}"));
            continue;
        }
        let difference = difference(&expected.stdout, ours.get(path).context("a program was lost")?);
        match (difference, known.get(name.as_str())) {
            (None, None) => {}
            (None, Some(_)) => result.failures.push(format!("{name}: prints the same as node now: take it out of known.toml")),
            (Some(_), Some(_)) => result.known += 1,
            (Some(difference), None) => result.failures.push(format!("{name}:\n{difference}")),
        }
        names.insert(name);
    }
    let gone = known.keys().filter(|name| name.contains(only) && !names.contains(**name));
    result.failures.extend(gone.map(|name| format!("{name}: known.toml names it, but there is no such program")));
    Ok(result)
}

/// Every program, in order of its name.
fn programs(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for area in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let area = area?.path();
        if !area.is_dir() {
            continue;
        }
        for program in fs::read_dir(&area)? {
            let program = program?.path();
            if program.extension().is_some_and(|extension| extension == "js") {
                found.push(program);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Each program's output in a fresh session, or why it has none.
async fn in_cells(programs: &[PathBuf]) -> anyhow::Result<BTreeMap<PathBuf, Result<String, String>>> {
    session::engine()?;
    let mut results = BTreeMap::new();
    let mut running = JoinSet::new();
    let mut waiting = programs.iter().cloned();
    loop {
        while running.len() < AT_ONCE
            && let Some(path) = waiting.next()
        {
            running.spawn(async move {
                let output = in_cell(&path).await.map_err(|error| format!("{error:#}"));
                (path, output)
            });
        }
        let Some(done) = running.join_next().await else { return Ok(results) };
        let (path, output) = done?;
        results.insert(path, output);
    }
}

/// What the program prints in a fresh session.
pub(crate) async fn in_cell(path: &Path) -> anyhow::Result<String> {
    let source = fs::read_to_string(path)?;
    let is_typed = path.extension().is_some_and(|extension| extension == "ts");
    let language = if is_typed { Language::Typescript } else { Language::Javascript };
    let transcript = session::Session::new(session::settings())?.run_as(&source, language).await?;
    let mut stdout = transcript.stdout;
    match transcript.end {
        None => stdout.push_str("<the cell never ended>\n"),
        Some(end) => {
            if let Some(error) = end.error {
                let _ = writeln!(stdout, "<the cell ended with {:?} {}: {}>\n{}", error.code, error.name, error.message, error.stack);
            }
        }
    }
    Ok(stdout)
}

/// What differs, for a person; `None` when nothing does.
pub(crate) fn difference(expected: &str, got: &Result<String, String>) -> Option<String> {
    let got = match got {
        Ok(got) if got == expected => return None,
        Ok(got) => got,
        Err(error) => return Some(format!("  it did not run: {error}")),
    };
    let (expected, got): (Vec<&str>, Vec<&str>) = (expected.split('\n').collect(), got.split('\n').collect());
    let same = expected.iter().zip(&got).take_while(|(a, b)| a == b).count();
    let mut text = format!("  the first {same} lines are the same, then\n");
    for (sign, lines) in [("node", &expected), ("cell", &got)] {
        for line in lines.iter().skip(same).take(SHOWN_LINES_MAX) {
            let _ = writeln!(text, "  {sign} | {line}");
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_difference_begins_at_the_first_line_that_differs() {
        assert_eq!(difference("a\nb\n", &Ok("a\nb\n".to_owned())), None);
        let shown = difference("a\nb\n", &Ok("a\nc\n".to_owned()));
        assert_eq!(shown.as_deref(), Some("  the first 1 lines are the same, then\n  node | b\n  node | \n  cell | c\n  cell | \n"));
        assert!(difference("", &Err("why".to_owned())).is_some_and(|text| text.contains("why")));
    }
}
