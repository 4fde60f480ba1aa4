//! The configuration of wasmtime, and `engine.wasm` as native code.

use std::{fs::DirBuilder, io, os::unix::fs::DirBuilderExt as _, path::Path};

use sha2::{Digest as _, Sha256};
use wasmtime::{Config, Engine, Module, OptLevel};

use crate::{
    EngineError,
    vault::{Vault, nobody_elses},
};

/// A build of `engine.wasm`.
pub(crate) struct Wasm<'a> {
    /// First hex digits of its digest; empty for the current one.
    pub(crate) prefix: &'a str,
    pub(crate) bytes: &'a [u8],
}

/// What new sessions run.
pub(crate) const CURRENT: Wasm<'static> = Wasm { prefix: "", bytes: include!("../engine/current.rs") };

/// Earlier builds, whose sessions may still be asleep somewhere.
pub(crate) const KEPT: &[Wasm<'static>] = include!("../engine/kept.rs");

/// Wasm stack: sixteen times the stack that scripts may use, so that recursion throws before it traps.
const WASM_STACK_BYTES: usize = 4 << 20;
/// Fiber stack: the wasm stack and the host's frames above it. Only what is touched takes memory.
const FIBER_STACK_BYTES: usize = 8 << 20;
/// Address space of one memory: a memory never moves, and no access needs a bounds check.
pub(crate) const RESERVATION_BYTES: u64 = 4 << 30;
/// Largest base image that is mapped copy-on-write instead of being copied.
const IMAGE_BYTES_MAX: u64 = 64 << 20;
/// Part of the cache file's name: code of another wasmtime is never tried.
const WASMTIME_VERSION: &str = "48.0.8";

pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        .memory_reservation(RESERVATION_BYTES)
        .memory_init_cow(true)
        .memory_guaranteed_dense_image_size(IMAGE_BYTES_MAX)
        .signals_based_traps(true)
        .parallel_compilation(true)
        .cranelift_opt_level(OptLevel::Speed);
    config
}

impl Wasm<'_> {
    /// sha256 of the module in hex.
    pub(crate) fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.bytes))
    }
}

/// The module, compiled, or taken from the cache when that is given and can be trusted.
pub(crate) fn module(engine: &Engine, wasm: &Wasm<'_>, digest: &str, cache_dir: Option<&Path>) -> Result<Module, EngineError> {
    let Some(dir) = cache_dir else { return compile(engine, wasm, digest) };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| failed(dir, &error))?;
    nobody_elses(dir)?;
    let file = dir.join(format!("{digest}-{WASMTIME_VERSION}.cwasm"));
    let vault = match Vault::open(dir) {
        Ok(vault) => vault,
        Err(error) => {
            tracing::warn!(%error, "compiled code is not cached");
            return compile(engine, wasm, digest);
        }
    };
    if file.exists() {
        nobody_elses(&file)?;
        if let Some(module) = load_cached(engine, &vault, &file) {
            return Ok(module);
        }
        tracing::warn!(file = %file.display(), "compiled code is damaged or does not fit this processor");
    }
    let module = compile(engine, wasm, digest)?;
    let stored = module.serialize().map_err(load).and_then(|code| vault.write(&file, &code).map_err(|error| failed(&file, &error)));
    if let Err(error) = stored {
        tracing::warn!(%error, "compiled code is not cached");
    }
    Ok(module)
}

fn compile(engine: &Engine, wasm: &Wasm<'_>, digest: &str) -> Result<Module, EngineError> {
    tracing::info!(engine = digest, "compiling the engine");
    Module::new(engine, wasm.bytes).map_err(load)
}

fn load(error: wasmtime::Error) -> EngineError {
    EngineError::Load(format!("{error:#}"))
}

fn failed(path: &Path, error: &io::Error) -> EngineError {
    EngineError::Load(format!("{}: {error}", path.display()))
}

/// What the file holds, if this machine's key vouches for every bit of it.
fn load_cached(engine: &Engine, vault: &Vault, file: &Path) -> Option<Module> {
    let code = vault.read(file).ok().flatten()?;
    // SAFETY: only who has the key can have written these bytes, and nobody but this user and root can have put the key there; they are a copy in
    // memory, so that nothing changes them between the check and the use.
    #[expect(unsafe_code, reason = "loading compiled code is the purpose of the cache")]
    let loaded = unsafe { Module::deserialize(engine, &code) };
    loaded.ok()
}
