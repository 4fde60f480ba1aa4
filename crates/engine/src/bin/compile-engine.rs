//! `compile-engine FOLDER`: compiles all engines of this build into a folder, for processors like this one. An image is made with it, so that a pod
//! starts at once, and a session of an earlier engine does not wait.

use std::{path::PathBuf, process::ExitCode};

use dormouse_engine::{EngineError, EngineOptions, Engines};

#[expect(clippy::print_stderr, reason = "a program says what it was asked wrongly")]
fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: compile-engine FOLDER");
        return ExitCode::FAILURE;
    };
    match compile(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compile-engine: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compile(folder: PathBuf) -> Result<(), EngineError> {
    let engines = Engines::new(EngineOptions { cache_dir: Some(folder), ..EngineOptions::default() })?;
    Engines::digests().try_for_each(|digest| engines.get(&digest).map(drop))
}
