//! A TypeScript or JavaScript cell becomes a plain script for the engine, with every position leading back to the user's source.
//!
//! The script is for global scope, not strict, and its completion value is the cell's value: top-level `let`, `const` and `class` become
//! `var`, so that the next cell sees them and may declare them again. Nothing is renamed, wrapped or minified. Most cells keep their text,
//! so that the script's positions are the cell's; one with syntax that makes code (enums, namespaces, decorators, parameter properties, JSX)
//! is printed anew. Pure: no I/O, no clock; this crate does not know the engine that runs the script, nor the session that the cell belongs to.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

mod accessors;
mod check;
mod compile;
mod constants;
mod cost;
mod decorate;
#[cfg(test)]
mod decorate_tests;
mod deep;
#[cfg(test)]
mod edit_tests;
mod ends;
mod erase;
mod imports;
mod language;
mod lower;
mod lowered;
mod modular;
mod namespaces;
mod position;
mod reach;
mod splice;
mod syntax_error;
#[cfg(test)]
mod tests;

pub use compile::{Declared, Options, Script, compile};
pub use cost::{HEAP_BYTES_MAX, LEVELS_MAX};
pub use deep::{NESTING_MAX, SOURCE_BYTES_MAX};
pub use language::Language;
pub use syntax_error::SyntaxError;
