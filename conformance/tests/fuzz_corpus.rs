//! The corpus that fuzzing has left: none of it makes a target panic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says at which input"
)]

use std::{fs, path::Path};

use dormouse_conformance::fuzzed::{TARGETS, seeds};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");

/// `UPDATE=1` writes the seeds into the corpus. `ONLY=head` runs one target.
#[test]
fn no_input_of_the_corpus_makes_its_target_panic() {
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, target) in TARGETS.into_iter().filter(|(name, _)| name.starts_with(&only)) {
        let folder = Path::new(CORPUS).join(name);
        let seeds = seeds(name).unwrap();
        assert!(!seeds.is_empty(), "{name} has no seeds");
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(&folder).unwrap();
            for (number, seed) in seeds.iter().enumerate() {
                fs::write(folder.join(format!("seed-{number:02}")), seed).unwrap();
            }
        }
        for seed in &seeds {
            target(seed);
        }
        let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            // What a panic prints says which input it was.
            println!("{}", file.display());
            target(&fs::read(&file).unwrap());
        }
    }
}
