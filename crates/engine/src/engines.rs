//! The engines of this build: the one that new sessions get, and those that a sleeping session may still need.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Engine, EngineError, EngineOptions, compiled::KEPT};

/// All engines of this build. An earlier one is compiled when a session first needs it. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Engines(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    current: Engine,
    options: EngineOptions,
    /// Earlier engines that were asked for. The lock is held while one is compiled, so that it is compiled once.
    earlier: Mutex<Vec<Engine>>,
}

impl Engines {
    /// Loads the current engine.
    ///
    /// # Errors
    /// As for [`Engine::new`].
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let current = Engine::new(options.clone())?;
        Ok(Self(Arc::new(Inner { current, options, earlier: Mutex::default() })))
    }

    /// The engine of new sessions.
    #[must_use]
    pub fn current(&self) -> &Engine {
        &self.0.current
    }

    /// An engine as the current one beside earlier ones.
    #[must_use]
    pub fn with_earlier(current: Engine, earlier: Vec<Engine>) -> Self {
        Self(Arc::new(Inner { current, options: EngineOptions::default(), earlier: Mutex::new(earlier) }))
    }

    /// The engine of this digest, if it needs no compiling.
    #[must_use]
    pub fn loaded(&self, digest: &str) -> Option<Engine> {
        let is = |engine: &&Engine| engine.digest().as_str() == digest;
        let earlier = || self.0.earlier.lock().unwrap_or_else(PoisonError::into_inner).iter().find(is).cloned();
        Some(&self.0.current).filter(is).cloned().or_else(earlier)
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
        let mut earlier = self.0.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = earlier.iter().find(|engine| engine.digest().as_str() == digest) {
            return Ok(known.clone());
        }
        let unknown = || EngineError::UnknownEngine { digest: digest.to_owned() };
        let wasm = KEPT.iter().find(|wasm| digest.starts_with(wasm.prefix) && wasm.digest() == digest).ok_or_else(unknown)?;
        let engine = Engine::load(wasm, &self.0.options)?;
        earlier.push(engine.clone());
        Ok(engine)
    }
}

impl From<Engine> for Engines {
    /// The engine as the current one. Earlier ones are compiled without a cache.
    fn from(current: Engine) -> Self {
        Self::with_earlier(current, Vec::new())
    }
}
