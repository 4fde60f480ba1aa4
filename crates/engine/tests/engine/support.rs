//! A session as a test drives it.

use std::{sync::LazyLock, time::Duration};

use dormouse_engine::{
    Budget, CellEnd, CellSource, Determinism, Engine, EngineOptions, Image, Instance, Op, OpKind, OpResult, Settings, Turn,
};
use serde_json::Value;

/// One engine for all tests: compiling takes a second.
pub static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(EngineOptions::for_user()).unwrap());

pub const HEAP_BYTES: u64 = 64 << 20;

pub fn real() -> Settings {
    Settings { heap_bytes: HEAP_BYTES, determinism: None }
}

pub fn seeded(seed: u64) -> Settings {
    Settings { heap_bytes: HEAP_BYTES, determinism: Some(Determinism { seed, epoch_ms: 1_767_225_600_000.0 }) }
}

pub struct Session {
    pub instance: Instance,
    pub settings: Settings,
    pub budget: Budget,
}

impl Session {
    pub fn new(settings: Settings) -> Self {
        let budget = Budget { wall: Duration::from_secs(60), ..Budget::default() };
        Self { instance: ENGINE.create(&settings).unwrap(), settings, budget }
    }

    pub async fn turn(&mut self, code: &str, is_async: bool) -> Turn {
        let cell = CellSource { code: code.to_owned(), filename: "cell-1.ts".to_owned(), is_async };
        self.instance.eval(&cell, &self.budget).await.unwrap_or_else(|error| panic!("{code}: {error}"))
    }

    pub async fn cell(&mut self, code: &str) -> CellEnd {
        self.turn(code, false).await.cell.unwrap_or_else(|| panic!("{code}: no end"))
    }

    pub async fn value(&mut self, code: &str) -> Value {
        let cell = self.cell(code).await;
        assert!(cell.ok, "{code}: {:?}", cell.error);
        cell.value.unwrap_or_else(|| panic!("{code}: {} is not JSON", cell.preview))
    }

    pub async fn deliver(&mut self, op: u64, result: OpResult) -> Turn {
        self.instance.deliver(op, &result, &self.budget).await.unwrap()
    }

    /// The same session in another process, as far as the engine can tell.
    pub async fn hibernate(mut self) -> Self {
        let image = self.instance.image().await;
        drop(self.instance);
        Self { instance: restore(&image, &self.settings).await, ..self }
    }
}

pub async fn restore(image: &Image, settings: &Settings) -> Instance {
    ENGINE.restore(image, settings).await.unwrap()
}

pub fn timer(op: &Op) -> f64 {
    match op.kind {
        OpKind::Timer { delay_ms } => delay_ms,
        ref other => panic!("{other:?} is no timer"),
    }
}
