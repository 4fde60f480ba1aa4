//! The engines of this build: the one that new sessions get, and those that a sleeping session may still need.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Engine, EngineError, EngineOptions,
    compiled::{CURRENT, KEPT, Wasm},
};

/// All engines of this build. An earlier one is compiled when a session first needs it. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Engines(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    current: Engine,
    options: EngineOptions,
    /// Other engines that were asked for. The lock is held while one is compiled, so that it is compiled once.
    others: Mutex<Vec<Engine>>,
}

/// The newest engine of this build, and behind it those that are kept.
fn built() -> impl Iterator<Item = &'static Wasm<'static>> {
    std::iter::once(&CURRENT).chain(KEPT)
}

fn of_digest(digest: &str) -> Result<&'static Wasm<'static>, EngineError> {
    let is = |wasm: &&Wasm<'_>| digest.starts_with(wasm.prefix) && wasm.digest() == digest;
    built().find(is).ok_or_else(|| EngineError::UnknownEngine { digest: digest.to_owned() })
}

impl Engines {
    /// Loads the newest engine of this build, which new sessions get.
    ///
    /// # Errors
    /// As for [`Engine::new`].
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let current = Engine::new(options.clone())?;
        Ok(Self::of(current, options, Vec::new()))
    }

    /// The same, where new sessions get the engine of this digest: a release that may be gone back to has no newer one.
    ///
    /// # Errors
    /// [`EngineError::UnknownEngine`] when this build has none, and as for [`Engine::new`].
    pub fn beginning_with(digest: &str, options: EngineOptions) -> Result<Self, EngineError> {
        let current = Engine::load(of_digest(digest)?, &options)?;
        Ok(Self::of(current, options, Vec::new()))
    }

    fn of(current: Engine, options: EngineOptions, others: Vec<Engine>) -> Self {
        Self(Arc::new(Inner { current, options, others: Mutex::new(others) }))
    }

    /// Digests of the engines of this build, the newest first.
    pub fn digests() -> impl Iterator<Item = String> {
        built().map(Wasm::digest)
    }

    /// The engine of new sessions.
    #[must_use]
    pub fn current(&self) -> &Engine {
        &self.0.current
    }

    /// An engine as the current one beside earlier ones.
    #[must_use]
    pub fn with_earlier(current: Engine, earlier: Vec<Engine>) -> Self {
        Self::of(current, EngineOptions::default(), earlier)
    }

    /// The engine of this digest, if it needs no compiling.
    #[must_use]
    pub fn loaded(&self, digest: &str) -> Option<Engine> {
        let is = |engine: &&Engine| engine.digest().as_str() == digest;
        let other = || self.0.others.lock().unwrap_or_else(PoisonError::into_inner).iter().find(is).cloned();
        Some(&self.0.current).filter(is).cloned().or_else(other)
    }

    /// The engine of this digest. Compiles it when it is needed for the first time, which takes seconds of every core: not on a thread that
    /// must not block.
    ///
    /// # Errors
    /// [`EngineError::UnknownEngine`] when this build has none, [`EngineError::Load`] as for [`Engine::new`].
    pub fn get(&self, digest: &str) -> Result<Engine, EngineError> {
        if self.0.current.digest().as_str() == digest {
            return Ok(self.0.current.clone());
        }
        let mut others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = others.iter().find(|engine| engine.digest().as_str() == digest) {
            return Ok(known.clone());
        }
        let engine = Engine::load(of_digest(digest)?, &self.0.options)?;
        others.push(engine.clone());
        Ok(engine)
    }
}

impl From<Engine> for Engines {
    /// The engine as the current one. Earlier ones are compiled without a cache.
    fn from(current: Engine) -> Self {
        Self::with_earlier(current, Vec::new())
    }
}
