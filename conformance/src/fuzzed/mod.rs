//! What a fuzzer calls with arbitrary bytes: everything that reads what a tenant, a client, a store or the guest may have made.
//!
//! A target neither panics nor hangs; what it asserts beyond that stands in it. `fuzz/` drives them with libFuzzer, and a test of this crate
//! runs the corpus that is kept in `fuzz/corpus`.

mod bytes;
mod cells;
mod image;
mod imports;
pub mod nesting;
mod shelf;
mod stored;
mod wire;

/// A target.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: [(&str, Target); 9] = [
    ("head", stored::head),
    ("segment", stored::segment),
    ("journal", stored::journal),
    ("recover", stored::recover),
    ("image", image::image),
    ("imports", imports::imports),
    ("cells", cells::cells),
    ("nesting", nesting::nesting),
    ("wire", wire::wire),
];

/// The first bytes of every target's corpus, beside what a fuzzer has found: something of each kind that is right.
///
/// # Errors
/// When a right thing cannot be made.
pub fn seeds(target: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    Ok(match target {
        "head" => stored::head_seeds()?,
        "segment" => stored::segment_seeds()?,
        "journal" => stored::journal_seeds(),
        "recover" => stored::recover_seeds(),
        "image" => image::seeds(),
        "imports" => imports::seeds(),
        "cells" => cells::seeds(),
        "nesting" => nesting::seeds(),
        "wire" => wire::seeds()?,
        _ => Vec::new(),
    })
}
