//! `compile-engine FOLDER`: compiles the engine into a folder, for processors like this one. An image is made with it, so that a pod starts at once.

use std::{path::PathBuf, process::ExitCode};

use dormouse_engine::{Engine, EngineOptions};

#[expect(clippy::print_stderr, reason = "a program says what it was asked wrongly")]
fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: compile-engine FOLDER");
        return ExitCode::FAILURE;
    };
    match Engine::new(EngineOptions { cache_dir: Some(folder), ..EngineOptions::default() }) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compile-engine: {error}");
            ExitCode::FAILURE
        }
    }
}
