//! The broker itself: a call from claim to answer.

mod audited;
mod fetch;
mod gate;
mod jobs;
mod models;
mod modules;
mod serve;
mod webhooks;

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use dormouse_crds::broker::ToolBrokerSpec;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{StreamedAnswer, ToolAnswer, ToolCall, ToolDescription, Waits},
};
use dormouse_service::{Clock, Ids, Metrics, origin::Origin, wire::Http};
use serde_json::Value;
use tokio::sync::Semaphore;

use self::gate::Gate;
use crate::{
    ConfigError, Secrets,
    audit::{Audit, Line, is_idle_look},
    callee::{Callee, Means, Prepared, SERVICE},
    catalog::Catalog,
    declarations,
    egress::{BrokerRules, Egress},
    exchange::Answer,
    jobs::{Jobs, RunnerTool},
    ledger::{Admitted, BrokerStore, Ledger, NonIdempotent},
    meters::{EgressMeters, Meters},
    models::{SUB_LM, Spending},
    modules::{Modules, Source},
    net::{self, FetchClients, Names},
    recent::{Claim, Limits, RecentCalls, Ticket, ended},
    room,
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

    /// Makes a call, or joins one that is being made, or answers what it was answered before. The call goes on when the caller goes away:
    /// the session's next process asks for the same one.
    ///
    /// # Errors
    /// `SessionGone` for an epoch that is over, `Conflict` for a number that was used otherwise, `OutcomeUnknown` for a call whose outcome nobody knows
    /// any more. A tool's failure is an answer.
    pub async fn call(&self, call: ToolCall) -> Result<Arc<ToolAnswer>, ApiError> {
        let written = Arc::new(call);
        let answered = self.answer(Arc::clone(&written)).await;
        self.note_refusal("call", &written, &answered);
        answered
    }

    async fn answer(&self, written: Arc<ToolCall>) -> Result<Arc<ToolAnswer>, ApiError> {
        if matches!(written.waits, Waits::Job | Waits::JobOver) {
            return self.look_at_job(&written).await.map(Arc::new);
        }
        let args = written.arguments();
        let asked = args.as_ref().ok().and_then(|args| self.callee(&written.tool, args));
        let (call, agreed) = match self.gate(asked.as_ref(), &written, args.as_deref().ok()).await? {
            Gate::Open => (Arc::clone(&written), false),
            Gate::Approved(args) => (Arc::new(ToolCall { args, ..(*written).clone() }), true),
            Gate::Answer(answer) => {
                if !is_idle_look(&written, &answer) {
                    self.inner.meters.outcome(asked.as_ref().map(Callee::label).as_deref(), &answer);
                    self.note(&Line::call("call", &written, &answer, Duration::ZERO));
                }
                return Ok(Arc::new(answer));
            }
        };
        // Whoever agreed may have changed the arguments.
        let args = if agreed { call.arguments() } else { args };
        let (callee, prepared) = match args {
            Ok(args) => {
                let callee = if agreed { self.callee(&call.tool, &args) } else { asked };
                let prepared = callee.as_ref().map_or_else(|| Err(unknown(&call.tool)), |callee| callee.prepare(&args));
                if let (Some(Callee::Runner(tool)), Ok(_)) = (&callee, &prepared) {
                    // A job is known by what the code wrote, whatever somebody made of it.
                    return self.offer_job(tool, &written, args.into_owned()).await.map(Arc::new);
                }
                (callee, prepared)
            }
            Err(error) => (None, Err(error)),
        };
        // What cannot be made has no effect. What somebody agreed to is made once, whatever its method.
        let harms = agreed || prepared.as_ref().is_ok_and(|prepared| !prepared.is_safe());
        let non_idempotent = callee.as_ref().filter(|_| harms).map(|callee| NonIdempotent {
            wait: callee.timeout() * 2 + OUTCOME_SLACK,
            honours_key: callee.service().is_some_and(|service| service.honours_idempotency_key),
        });
        self.once(call, non_idempotent, |broker, call| async move { broker.make(callee, prepared, &call).await }).await
    }

    /// Claims a call and has it made, unless it was made before; without `non_idempotent`, making it twice does no harm.
    pub(crate) async fn once<Made>(
        &self,
        call: Arc<ToolCall>,
        non_idempotent: Option<NonIdempotent>,
        make: impl FnOnce(Self, Arc<ToolCall>) -> Made,
    ) -> Result<Arc<ToolAnswer>, ApiError>
    where
        Made: Future<Output = ToolAnswer> + Send + 'static,
    {
        let may_be_new = non_idempotent.is_none_or(|non_idempotent| self.inner.ledger.is_some() || non_idempotent.honours_key);
        loop {
            let claim = self.inner.recent.claim(&call, may_be_new).inspect_err(|error| self.inner.meters.refused(error))?;
            match claim {
                Claim::Answered(answer) => {
                    self.inner.meters.repeats.inc();
                    return Ok(answer);
                }
                Claim::Wait(pending) => match ended(Some(pending)).await {
                    // Of the epoch that was first to ask; this one may be a later one.
                    Err(error) if error.code == ErrorCode::SessionGone => {}
                    outcome => {
                        self.inner.meters.repeats.inc();
                        return outcome;
                    }
                },
                Claim::Run(ticket) => {
                    let pending = ticket.pending();
                    let (broker, made) = (self.clone(), make(self.clone(), Arc::clone(&call)));
                    let (origin, room) = (Origin::current(), room::current());
                    let carried_out = async move { broker.carry_out(&call, ticket, non_idempotent, made).await };
                    tokio::spawn(origin.run(room.around(carried_out)));
                    return ended(pending).await;
                }
            }
        }
    }

    /// Has a call made that this process has not made. One that is not safe to repeat first gets the ledger's word, and then tells it what came.
    async fn carry_out(
        &self,
        call: &ToolCall,
        ticket: Ticket,
        non_idempotent: Option<NonIdempotent>,
        made: impl Future<Output = ToolAnswer>,
    ) {
        let (Some(ledger), Some(non_idempotent)) = (&self.inner.ledger, non_idempotent) else {
            return match made.await {
                // It can be read once, and the call made again.
                answer @ ToolAnswer::Stream { .. } if non_idempotent.is_none() => ticket.hand_over(answer),
                answer => ticket.finish(Arc::new(answer)),
            };
        };
        match ledger.admit(call, non_idempotent).await {
            Ok(Admitted::Make(attempt)) => {
                let answer = Arc::new(made.await);
                ledger.settle(call, attempt, &answer).await;
                ticket.finish(answer);
            }
            Ok(Admitted::Answered(answer)) => {
                self.inner.meters.repeats.inc();
                ticket.finish(Arc::new(answer));
            }
            Err(error) => {
                self.inner.meters.refused(&error);
                ticket.refuse(error);
            }
        }
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

    async fn make(&self, callee: Option<Callee>, prepared: Result<Prepared, ApiError>, call: &ToolCall) -> ToolAnswer {
        let meters = &self.inner.meters;
        let started = Instant::now();
        meters.in_flight.inc();
        let repeatable = prepared.as_ref().is_ok_and(Prepared::is_safe);
        let result = match (&callee, prepared) {
            (_, Err(error)) => Err(error),
            (None, Ok(_)) => Err(unknown(&call.tool)),
            (Some(Callee::List), Ok(_)) => serde_json::to_value(self.tools())
                .map(Answer::from)
                .map_err(|error| ApiError::new(ErrorCode::Internal, format!("the list of tools cannot be written: {error}"))),
            (Some(Callee::Declarations), Ok(_)) => Ok(Value::from(declarations::of(&self.tools())).into()),
            (Some(callee), Ok(prepared)) => self.run(callee, prepared, call).await,
        };
        meters.in_flight.dec();
        if let Some(callee) = &callee {
            tracing::info!(
                tool = call.tool,
                service = callee.service().map(|service| service.name.as_str()),
                session = call.session,
                session_uid = call.session_uid,
                epoch = call.epoch,
                call = call.call,
                outcome = result.as_ref().map_or_else(|error| error.code.to_string(), |_| "ok".to_owned()),
                milliseconds = started.elapsed().as_millis(),
                "tool call",
            );
        }
        let answer = match result {
            Ok(Answer::Value(value)) => ToolAnswer::Ok { value },
            Ok(Answer::Open(reader, mime_type)) => match self.inner.egress.open(call, *reader) {
                Ok(()) => ToolAnswer::Stream { stream: StreamedAnswer { mime_type, repeatable } },
                Err(error) => ToolAnswer::Err { error },
            },
            Err(error) => ToolAnswer::Err { error },
        };
        self.made(callee.as_ref(), call, &answer, started.elapsed());
        answer
    }

    /// Counts a call that was made, and has it in the audit.
    pub(crate) fn made(&self, callee: Option<&Callee>, call: &ToolCall, answer: &ToolAnswer, took: Duration) {
        let label = callee.map(Callee::label);
        self.inner.meters.took(label.as_deref(), took);
        self.inner.meters.outcome(label.as_deref(), answer);
        let model = match callee {
            Some(Callee::Model(model)) => Some(model.name.as_str()),
            _ => None,
        };
        self.note(&Line::call("call", call, answer, took).about_model(model));
    }

    async fn run(&self, callee: &Callee, prepared: Prepared, call: &ToolCall) -> Result<Answer, ApiError> {
        let places = async {
            let permits = callee.enter(&call.session_uid).await;
            (permits, self.inner.slots.acquire().await)
        };
        let limited = |_| {
            let message = "there were more calls than the limits of the tool, its service or the broker allow: call again later";
            ApiError::new(ErrorCode::RateLimited, message)
        };
        let _places = tokio::time::timeout(callee.timeout(), places).await.map_err(limited)?;
        let Inner { http, secrets, spending, egress, uploads, .. } = &*self.inner;
        let received = &egress.received();
        callee.make(prepared, Means { http, secrets, spending, received, uploads }, call).await
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

/// The name is the caller's, and may be long.
fn unknown(tool: &str) -> ApiError {
    let message = match tool {
        SERVICE => "the broker has no such service that cells may call: `direct` is what lets them",
        SUB_LM => "the broker has no model of this name: name one of spec.models in `model`",
        _ => "the broker has no tool of this name; GET /v1/tools lists them",
    };
    ApiError::new(ErrorCode::ToolNotFound, message)
}
