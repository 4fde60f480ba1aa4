//! The broker itself: what it is made of, and the spec in force.

mod audited;
mod calls;
mod fetch;
mod gate;
mod jobs;
mod models;
mod modules;
mod serve;
mod webhooks;

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use dormouse_crds::broker::ToolBrokerSpec;
use dormouse_protocol::{ApiError, broker::ToolDescription};
use dormouse_service::{Clock, Ids, Metrics, wire::Http};
use tokio::sync::Semaphore;

use crate::{
    ConfigError, Secrets,
    audit::Audit,
    callee::Callee,
    catalog::Catalog,
    egress::{BrokerRules, Egress},
    jobs::{Jobs, RunnerTool},
    ledger::{BrokerStore, Ledger},
    meters::{EgressMeters, Meters},
    models::Spending,
    modules::{Modules, Source},
    net::{self, FetchClients, Names},
    recent::{Limits, RecentCalls},
    sources::{self, Found},
    uploads::Uploads,
    webhooks::{Hook, Queue},
};

/// Calls that are being made at one time; further ones wait within their own timeout.
const CALLS_IN_FLIGHT_MAX: usize = 256;
/// What a broker that makes a call may take beyond the time that it waits for a slot and for the service.
const OUTCOME_SLACK: Duration = Duration::from_secs(1);

/// What a broker runs in.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// How its tools reach their services.
    pub http: Http,
    /// How its sessions' fetches and packages get out.
    pub fetches: FetchClients,
    /// Names its attempts.
    pub ids: Ids,
    /// Its time.
    pub clock: Clock,
}

/// A ToolBroker at work. Clones share everything.
#[derive(Debug, Clone)]
pub struct Broker {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    catalog: RwLock<Arc<Catalog>>,
    /// The spec in force, and what was found for it elsewhere. Whoever changes either holds it.
    sources: tokio::sync::Mutex<(ToolBrokerSpec, Found)>,
    /// Where documents of a bucket are.
    place: Option<BrokerStore>,
    secrets: Secrets,
    http: Http,
    /// Whose addresses may be private.
    names: Names,
    clock: Clock,
    recent: RecentCalls,
    ledger: Option<Ledger>,
    audit: Option<Audit>,
    queue: Option<Queue>,
    jobs: Option<Jobs>,
    spending: Spending,
    meters: Meters,
    slots: Semaphore,
    egress: Egress,
    uploads: Uploads,
    modules: Modules,
}

impl Broker {
    /// A broker of this spec, whose metrics nobody sees.
    ///
    /// # Errors
    /// Everything that is wrong with the spec and its Secrets.
    pub fn new(spec: ToolBrokerSpec, secrets: Secrets) -> Result<Self, ConfigError> {
        Self::with_store(&spec, secrets, &Metrics::new(), None)
    }

    /// A broker of this spec. With a `place` for what it stores, calls that are not safe to repeat are journaled there.
    ///
    /// # Errors
    /// Everything that is wrong with the spec and its Secrets.
    pub fn with_store(spec: &ToolBrokerSpec, secrets: Secrets, metrics: &Metrics, place: Option<BrokerStore>) -> Result<Self, ConfigError> {
        let names = Names::default();
        let world = Surroundings {
            http: Http::new(net::client(&names)?),
            fetches: FetchClients::new()?,
            ids: Ids::random(),
            clock: Clock::system(),
        };
        Self::build(spec, secrets, metrics, place, (world, names))
    }

    /// The same, in surroundings that a test may have made.
    ///
    /// # Errors
    /// Everything that is wrong with the spec and its Secrets.
    pub fn over(
        spec: &ToolBrokerSpec,
        secrets: Secrets,
        metrics: &Metrics,
        place: Option<BrokerStore>,
        world: Surroundings,
    ) -> Result<Self, ConfigError> {
        Self::build(spec, secrets, metrics, place, (world, Names::default()))
    }

    fn build(
        spec: &ToolBrokerSpec,
        secrets: Secrets,
        metrics: &Metrics,
        place: Option<BrokerStore>,
        (world, names): (Surroundings, Names),
    ) -> Result<Self, ConfigError> {
        let Surroundings { http, fetches, ids, clock } = world;
        let catalog = Catalog::compile(spec, (&secrets, &names), &Found::default())?;
        catalog.egress.tell(&names);
        let catalog = RwLock::new(Arc::new(catalog));
        let sources = tokio::sync::Mutex::new((spec.clone(), Found::default()));
        let meters = Meters::new(metrics)?;
        let recent = RecentCalls::new(Limits::default());
        let slots = Semaphore::new(CALLS_IN_FLIGHT_MAX);
        let audit = place.clone().map(|place| Audit::new(place, ids.next().simple().to_string(), meters.clone()));
        let spending = Spending::new(place.clone(), ids.clone(), meters.clone());
        let queue = place.clone().map(|place| Queue::new(place, &ids, clock, meters.clone()));
        let jobs = place.clone().map(|place| Jobs::new(place, ids.clone()));
        let ledger = place.clone().map(|place| Ledger::new(place, meters.clone(), &ids));
        let egress = Egress::new(fetches.clone(), EgressMeters::new(metrics)?);
        let modules = Modules::new(fetches);
        let inner = Inner {
            catalog,
            sources,
            place,
            secrets,
            http,
            names,
            clock,
            recent,
            ledger,
            audit,
            queue,
            jobs,
            spending,
            meters,
            slots,
            egress,
            uploads: Uploads::default(),
            modules,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Takes another spec, and looks for what it names elsewhere; what was made stays known.
    ///
    /// # Errors
    /// Everything that is wrong with it; then the old one stays in force.
    pub async fn reconfigure(&self, spec: &ToolBrokerSpec) -> Result<(), ConfigError> {
        self.take(Some(spec)).await.map(drop)
    }

    /// Looks again for the tools that the spec names elsewhere. Answers what cannot be had; what was had of it stays in force.
    ///
    /// # Errors
    /// What was found cannot be served together with the rest; then the old tools stay in force.
    pub async fn look_for_tools(&self) -> Result<Vec<String>, ConfigError> {
        self.take(None).await
    }

    async fn take(&self, other: Option<&ToolBrokerSpec>) -> Result<Vec<String>, ConfigError> {
        let mut sources = self.inner.sources.lock().await;
        let spec = other.unwrap_or(&sources.0);
        let Inner { secrets, names, http, place, .. } = &*self.inner;
        if let Some(other) = other {
            // What the new rules let be inside may be asked for documents already.
            BrokerRules::compile(other.egress.as_ref(), &mut Vec::new()).tell(names);
        }
        let (found, missing) = sources::find(spec, (secrets, names), http, place.as_ref(), &sources.1).await;
        if other.is_some() || found != sources.1 {
            let catalog = Catalog::compile(spec, (secrets, names), &found).inspect_err(|_| self.broker_rules().tell(names))?;
            let (catalog, spec) = (Arc::new(catalog), spec.clone());
            *self.inner.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
            *sources = (spec, found);
        }
        Ok(missing)
    }

    /// What may be called.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolDescription> {
        self.catalog().descriptions()
    }

    /// What names the page of calls of a session that was stored or seen last; `None` where none is stored.
    #[must_use]
    pub fn page(&self, session_uid: &str) -> Option<String> {
        self.inner.ledger.as_ref()?.anchor(session_uid)
    }

    /// Asks the journal's store whether it keeps its promises, so that the first call need not wait for that. A broker without one is always well.
    ///
    /// # Errors
    /// It does not, or cannot be reached: calls that are not safe to repeat are refused for as long.
    pub async fn probe_store(&self) -> Result<(), ApiError> {
        match &self.inner.ledger {
            Some(ledger) => ledger.probe().await,
            None => Ok(()),
        }
    }

    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.inner.audit.as_ref()
    }

    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.inner.ledger.as_ref()
    }

    pub(crate) fn callee(&self, tool: &str, args: &serde_json::Value) -> Option<Callee> {
        self.catalog().callee(tool, args)
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.inner.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn uploads(&self) -> &Uploads {
        &self.inner.uploads
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.inner.egress
    }

    pub(crate) fn broker_rules(&self) -> Arc<BrokerRules> {
        self.catalog().egress.clone()
    }

    pub(crate) fn module_loads(&self) -> &Modules {
        &self.inner.modules
    }

    pub(crate) fn module_source(&self) -> Option<Arc<Source>> {
        self.catalog().modules.clone()
    }

    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.inner.queue.as_ref()
    }

    pub(crate) fn jobs(&self) -> Option<&Jobs> {
        self.inner.jobs.as_ref()
    }

    pub(crate) fn runner_tool(&self, name: &str) -> Option<Arc<RunnerTool>> {
        self.catalog().runner(name)
    }

    pub(crate) fn hooks(&self) -> Arc<Vec<Hook>> {
        self.catalog().hooks.clone()
    }

    pub(crate) fn spending(&self) -> &Spending {
        &self.inner.spending
    }

    pub(crate) fn names(&self) -> &Names {
        &self.inner.names
    }

    pub(crate) fn http(&self) -> &Http {
        &self.inner.http
    }

    pub(crate) fn clock(&self) -> Clock {
        self.inner.clock
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    pub(crate) fn count_load(&self, outcome: &str) {
        self.inner.meters.loads.with_label_values(&[outcome]).inc();
    }
}
