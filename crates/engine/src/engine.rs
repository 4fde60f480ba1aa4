//! The compiled engine.
use std::path::PathBuf;
use crate::{EngineError, Image, Instance};

/// How an engine is loaded.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Keeps compiled code in this directory, so that the next process starts faster. The directory and its files must belong to this process's
    /// user and be writable by no one else: what lies there is run as native code. `None`: compile at every start.
    pub cache_dir: Option<PathBuf>,
}

/// sha256 of `engine.wasm`, in hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineDigest(String);

impl EngineDigest {
    /// The 64 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for EngineDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an instance is made with. Not part of its state: a restore gives it anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Limit of the JavaScript heap in bytes.
    pub heap_bytes: u64,
    /// Seeded time and entropy; `None` for the real ones.
    pub determinism: Option<Determinism>,
}

/// The seed of a deterministic session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Determinism {
    /// Seed of every random value.
    pub seed: u64,
    /// The clock's first reading in milliseconds since 1970; it advances 1 ms a tick.
    pub epoch_ms: f64,
}

/// The compiled engine. Cloning shares it.
#[derive(Clone)]
pub struct Engine {
    digest: EngineDigest,
}

impl Engine {
    /// Compiles `engine.wasm`.
    pub fn new(_options: EngineOptions) -> Result<Self, EngineError> {
        Err(EngineError::Load("not yet".into()))
    }
    /// sha256 of `engine.wasm`.
    #[must_use]
    pub fn digest(&self) -> &EngineDigest {
        &self.digest
    }
    /// A fresh session.
    pub fn create(&self, _settings: &Settings) -> Result<Instance, EngineError> {
        Err(EngineError::Create("not yet".into()))
    }
    /// A session as it was when `image` was taken.
    pub fn restore(&self, _image: &Image, _settings: &Settings) -> Result<Instance, EngineError> {
        Err(EngineError::Create("not yet".into()))
    }
}
