//! Whether a process can do its work, and if not, why.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use dormouse_protocol::{ApiError, ErrorCode};
use serde::{Deserialize, Serialize};

/// One reason for not being ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The gate that is shut.
    pub gate: String,
    /// The error that shut it; none while it is merely waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Why, for a person.
    pub reason: String,
}

/// Why a gate is shut.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shut {
    code: Option<ErrorCode>,
    reason: String,
}

/// The gates of a process; it is ready when all are open. Clones share the gates.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    gates: Arc<Mutex<BTreeMap<&'static str, Option<Shut>>>>,
}

impl Readiness {
    /// No gates yet, so ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The gate of this name, shut with the reason `starting` when it is new.
    #[must_use]
    pub fn gate(&self, name: &'static str) -> Gate {
        self.lock().entry(name).or_insert_with(|| Some(Shut { code: None, reason: "starting".to_owned() }));
        Gate { readiness: self.clone(), name }
    }

    /// Shuts the gate `shutdown`: the process finishes what it has and takes nothing new.
    pub fn stopping(&self) {
        self.gate("shutdown").not_ready("the process is stopping");
    }

    /// Whether every gate is open.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.lock().values().all(Option::is_none)
    }

    /// The shut gates, by name.
    #[must_use]
    pub fn reasons(&self) -> Vec<Reason> {
        let shut = |(gate, shut): (&&str, &Option<Shut>)| {
            let Shut { code, reason } = shut.clone()?;
            Some(Reason { gate: (*gate).to_owned(), code, reason })
        };
        self.lock().iter().filter_map(shut).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Option<Shut>>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, name: &'static str, shut: Option<Shut>) {
        let before = self.lock().insert(name, shut.clone());
        if before.as_ref() == Some(&shut) {
            return;
        }
        match shut {
            None => tracing::info!(gate = name, "ready"),
            Some(Shut { reason, .. }) => tracing::warn!(gate = name, reason, "not ready"),
        }
    }
}

/// One condition of being ready.
#[derive(Debug, Clone)]
pub struct Gate {
    readiness: Readiness,
    name: &'static str,
}

impl Gate {
    /// Opens the gate.
    pub fn ready(&self) {
        self.readiness.set(self.name, None);
    }

    /// Shuts the gate. `reason` says what is wrong and what to do; it is served on /readyz and logged when it changes.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.readiness.set(self.name, Some(Shut { code: None, reason: reason.into() }));
    }

    /// Shuts the gate for an error, whose code is served beside its text.
    pub fn failed(&self, error: &ApiError) {
        self.readiness.set(self.name, Some(Shut { code: Some(error.code), reason: error.to_string() }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_must_be_open() {
        let readiness = Readiness::new();
        assert!(readiness.is_ready());
        let (store, tls) = (readiness.gate("store"), readiness.gate("tls"));
        assert_eq!(readiness.reasons().len(), 2);
        store.ready();
        tls.not_ready("no certificate");
        assert_eq!(readiness.reasons(), vec![Reason { gate: "tls".to_owned(), code: None, reason: "no certificate".to_owned() }]);
        tls.failed(&ApiError::new(ErrorCode::StorageUnsafe, "two won"));
        let told = serde_json::to_value(readiness.reasons()).unwrap();
        assert_eq!((&told[0]["code"], readiness.reasons().len()), (&"StorageUnsafe".into(), 1));
        readiness.gate("tls").ready();
        assert!(readiness.is_ready());
        readiness.stopping();
        assert!(!readiness.is_ready());
    }
}
