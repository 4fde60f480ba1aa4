//! How instances are made. One is blank before it is anybody's: made ahead, while it is not known yet what it will be.

use crate::{Engine, EngineError, Image, Instance, PAGE_BYTES, Settings};

impl Engine {
    /// A fresh session: a mapping of the base image.
    ///
    /// # Errors
    /// [`EngineError::Create`] when the process has no room for one more.
    pub fn create(&self, settings: &Settings) -> Result<Instance, EngineError> {
        self.blank(settings).map(Blank::fresh)
    }

    /// A session as it was when `image` was taken: see [`Blank::restore`].
    ///
    /// # Errors
    /// As for that and [`Self::create`].
    pub async fn restore(&self, image: &Image, settings: &Settings) -> Result<Instance, EngineError> {
        self.check(image)?;
        self.blank(settings)?.restore(image).await
    }

    /// An instance that may become either.
    ///
    /// # Errors
    /// As for [`Self::create`].
    pub fn blank(&self, settings: &Settings) -> Result<Blank, EngineError> {
        Instance::new(self, settings).map(Blank)
    }
}

/// An instance that has run nothing.
#[derive(Debug)]
pub struct Blank(Instance);

impl Blank {
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
