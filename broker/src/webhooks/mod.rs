//! Messages about what happened in sessions: taken from kernel pods, stored, and delivered to whoever is to be told, as Standard Webhooks 1.0.0 has it.
//!
//! A message is stored before its event is taken, so it outlives this process. It is delivered at least once, under one id for an event and a URL.
//! Replicas share what is stored: who tries a message leases it, and the lease of one that has ended runs out.

mod message;
mod queue;

use std::sync::Arc;

use dormouse_crds::{
    KeyRef,
    webhooks::{EventHook, EventKind},
};

pub(crate) use message::{Message, Order, Sent, Verdict, time};
pub(crate) use queue::Queue;

use crate::{
    Problem, Secrets,
    net::Names,
    service::{self, Service},
};

/// Who is told of events.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) service: Arc<Service>,
    pub(crate) url: String,
    events: Vec<EventKind>,
    pub(crate) secret: KeyRef,
}

impl Hook {
    /// Whether it is told of this event.
    pub(crate) fn wants(&self, event: EventKind) -> bool {
        self.events.contains(&event)
    }

    /// What a spec says, checked.
    pub(crate) fn compile(spec: &EventHook, path: &str, from: (&Secrets, &Names), problems: &mut Vec<Problem>) -> Option<Self> {
        let service = spec.service()?;
        let service = Arc::new(service::compile(&service, path, from, problems));
        Some(Self { service, url: spec.url.clone(), events: spec.events.clone(), secret: spec.secret_ref.clone() })
    }
}
