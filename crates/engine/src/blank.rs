//! An instance before it is anybody's: made ahead, while it is not known yet what it will be.

use crate::{Engine, EngineError, Image, Instance, PAGE_BYTES};

/// An instance that has run nothing.
#[derive(Debug)]
pub struct Blank(Instance);

impl Blank {
    pub(crate) fn new(instance: Instance) -> Self {
        Self(instance)
    }

    /// The engine that it is an instance of.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.0.engine()
    }

    /// A fresh session.
    #[must_use]
    pub fn fresh(self) -> Instance {
        self.0
    }

    /// A session as it was when `image` was taken. Sets memory and checks globals; nothing else of the image is believed.
    /// Others get their turns in between, as with code that runs.
    ///
    /// # Errors
    /// [`EngineError::Image`] when the image cannot be one of this engine, [`EngineError::Create`] when there is no room for it.
    pub async fn restore(self, image: &Image) -> Result<Instance, EngineError> {
        let Self(mut instance) = self;
        let engine = instance.engine().clone();
        engine.check(image)?;
        instance.reach(u64::from(image.memory_pages) * PAGE_BYTES as u64)?;
        instance.apply(&image.pages, image.host.clone()).await;
        Ok(instance)
    }
}
