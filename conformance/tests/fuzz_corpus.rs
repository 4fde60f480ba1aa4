//! The corpus of the fuzzer, and mutants of it: none makes a target panic. What this cannot do is to learn where an input went; `fuzz/` does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says which input it was at"
)]

use std::{fs, path::Path};

use dormouse_conformance::fuzzed::{TARGETS, Target, seeds};
use peak_alloc::PeakAlloc;

/// Counts what is allocated, and the most that was at once: what nests is measured by it.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
/// Mutants of each target, unless [`MUTANTS_ENV`] says otherwise.
const MUTANTS: u64 = 300;
const MUTANTS_ENV: &str = "DORMOUSE_MUTANTS";
/// Changes that make one mutant.
const CHANGES_MAX: u64 = 5;
const MUTANT_BYTES_MAX: usize = 1 << 14;

/// xorshift64*: the same mutants in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) as usize % n.max(1)
    }
}

/// One of `inputs`, changed here and there: bits, bytes and numbers at the edges, pieces that go, come twice or come from another input.
fn mutant(random: &mut Random, inputs: &[Vec<u8>]) -> Vec<u8> {
    const EDGES: [u32; 10] = [0, 1, 127, 128, 255, 4096, 65535, 1 << 20, i32::MAX as u32, u32::MAX];
    let mut bytes = inputs[random.below(inputs.len())].clone();
    for _ in 0..=random.below(CHANGES_MAX as usize) {
        let at = random.below(bytes.len() + 1);
        let until = (at + random.below(32)).min(bytes.len());
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            2 => drop(bytes.drain(at..until)),
            3 => {
                let piece = bytes[at..until].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => {
                let other = &inputs[random.below(inputs.len())];
                let from = random.below(other.len() + 1);
                bytes.splice(at.., other[from..].iter().copied());
            }
            5 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                bytes.splice(at..until.min(at + edge.len()), edge);
            }
            _ => {
                let digits = EDGES[random.below(EDGES.len())].to_string();
                bytes.splice(at..until.min(at + 2), digits.into_bytes());
            }
        }
    }
    bytes.truncate(MUTANT_BYTES_MAX);
    bytes
}

/// Calls the target, and says what with when it panics.
fn call(name: &str, target: Target, input: &[u8]) {
    let outcome = std::panic::catch_unwind(|| target(input));
    assert!(outcome.is_ok(), "{name} panics at {}", input.escape_ascii());
}

/// `UPDATE=1` writes the seeds into the corpus. `ONLY=head` runs one target.
#[test]
fn no_input_of_the_corpus_and_no_mutant_of_it_makes_its_target_panic() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let wanted = std::env::var(MUTANTS_ENV).ok();
    let mutants = wanted.as_ref().map_or(MUTANTS, |count| count.parse().unwrap());
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
        let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut inputs: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        for seed in seeds {
            assert!(inputs.contains(&seed), "{name} lacks a seed in fuzz/corpus: run this test with UPDATE=1");
            inputs.push(seed);
        }
        for input in &inputs {
            call(name, target, input);
        }
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        for _ in 0..mutants {
            call(name, target, &mutant(&mut random, &inputs));
        }
        if wanted.is_some() {
            eprintln!("soak: {name}: {} inputs of the corpus and {mutants} mutants, no panic", inputs.len());
        }
    }
}
