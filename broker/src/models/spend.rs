//! What was spent on models, counted in the bucket: it outlives brokers and is shared by replicas.
//!
//! Before a question its largest price is added, afterwards what was not used is taken away again. So a broker that ends in between leaves too
//! much, never too little. A number is replaced by compare-and-swap, and remembers the names of the last changes: one of which nobody heard
//! whether it was stored is looked for there.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use dormouse_lifecycle::keys;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::Ids;
use dormouse_store::{Condition, ETag, PutError};
use serde::{Deserialize, Serialize};

use super::{Budget, Budgets};
use crate::{BrokerStore, meters::Meters};

/// Attempts to replace a number that others replace, too.
const ATTEMPTS_MAX: usize = 12;
const WAIT_FIRST: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Changes whose names a number remembers.
const REMEMBERED_MAX: usize = 32;
/// Numbers that are kept in memory.
const KNOWN_MAX: usize = 1_024;
/// Digits of a change's name.
const NAME_DIGITS: usize = 16;

/// Tokens, and money in millionths of millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Spent {
    pub(super) tokens: u64,
    pub(super) cost: u64,
}

/// As it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Count {
    /// By model.
    models: BTreeMap<String, Spent>,
    /// Names of the last changes.
    last: VecDeque<String>,
}

type Known = Arc<tokio::sync::Mutex<Option<(Count, Option<ETag>)>>>;

/// Counts what is spent.
#[derive(Debug)]
pub(crate) struct Spending {
    place: Option<BrokerStore>,
    known: Mutex<HashMap<String, Known>>,
    ids: Ids,
    meters: Meters,
}

/// What was reserved for a question, by whom it is counted for.
#[derive(Debug)]
pub(crate) struct Reserved {
    model: String,
    keys: Vec<String>,
    reserve: Spent,
}

enum Change {
    /// Within this budget.
    Add(Spent, Budget),
    Remove(Spent),
}

impl Spending {
    /// In this store; without one, nothing can be budgeted.
    pub(crate) fn new(place: Option<BrokerStore>, ids: Ids, meters: Meters) -> Self {
        Self { place, known: Mutex::default(), ids, meters }
    }

    /// Counts tokens for whoever looks at metrics.
    pub(crate) fn count(&self, model: &str, sent: u64, come: u64) {
        for (direction, tokens) in [("input", sent), ("output", come)] {
            self.meters.tokens.with_label_values(&[model, direction]).inc_by(tokens);
        }
    }

    /// Adds what a question may cost.
    ///
    /// # Errors
    /// `ModelBudgetExceeded`; `StorageUnavailable`, and nothing is asked then.
    pub(crate) async fn reserve(&self, model: &str, session_uid: &str, budgets: &Budgets, reserve: Spent) -> Result<Reserved, ApiError> {
        let mut reserved = Reserved { model: model.to_owned(), keys: Vec::new(), reserve };
        if budgets.is_none() {
            return Ok(reserved);
        }
        let Some(place) = &self.place else {
            let message = "budgets of models need a journal that is stored: give the ToolBroker a pool in spec.journal";
            return Err(ApiError::new(ErrorCode::NotSupported, message));
        };
        let wanted = [(session_uid, budgets.session), (keys::ALL, budgets.namespace)];
        for (whom, budget) in wanted.into_iter().filter_map(|(whom, budget)| Some((whom, budget?))) {
            let key = keys::spent(&place.prefix, &place.namespace, whom);
            if let Err(error) = self.change(place, &key, model, &Change::Add(reserve, budget)).await {
                self.settle(reserved, Spent::default()).await;
                return Err(error);
            }
            reserved.keys.push(key);
        }
        Ok(reserved)
    }

    /// Leaves what was used. What cannot be taken away now stays counted, and so does all of a reserve that nobody settles.
    pub(crate) async fn settle(&self, Reserved { model, keys, reserve }: Reserved, used: Spent) {
        let Some(place) = &self.place else { return };
        // Of a question that cost more than was thought, the rest is added without asking.
        let less = Spent { tokens: reserve.tokens.saturating_sub(used.tokens), cost: reserve.cost.saturating_sub(used.cost) };
        let more = Spent { tokens: used.tokens.saturating_sub(reserve.tokens), cost: used.cost.saturating_sub(reserve.cost) };
        const ANY: Budget = Budget { tokens: u64::MAX, cost: u64::MAX };
        for key in &keys {
            for change in [Change::Remove(less), Change::Add(more, ANY)].into_iter().filter(|change| !change.is_nothing()) {
                if let Err(error) = self.change(place, key, &model, &change).await {
                    tracing::warn!(%error, key, "what a question did not use stays counted");
                }
            }
        }
    }

    async fn change(&self, place: &BrokerStore, key: &str, model: &str, change: &Change) -> Result<(), ApiError> {
        let known = self.known(key);
        let mut known = known.lock().await;
        let name = self.ids.digits(NAME_DIGITS);
        let mut waits = ExponentialBuilder::default()
            .with_min_delay(WAIT_FIRST)
            .with_max_delay(WAIT_MAX)
            .with_max_times(ATTEMPTS_MAX)
            .with_jitter()
            .build();
        loop {
            let (count, etag) = match known.take() {
                Some(known) => known,
                None => read(place, key).await?,
            };
            if count.last.contains(&name) {
                *known = Some((count, etag));
                return Ok(());
            }
            let next = match count.clone().with(model, change, name.clone()) {
                Ok(next) => next,
                Err(error) => {
                    *known = Some((count, etag));
                    return Err(error);
                }
            };
            let condition = etag.clone().map_or(Condition::Absent, Condition::Matches);
            let body = serde_json::to_vec(&next).map_err(|error| unavailable(&error))?;
            match place.store.put(key, body.into(), condition).await {
                Ok(etag) => {
                    *known = Some((next, Some(etag)));
                    return Ok(());
                }
                // Another broker's, or of unknown outcome: read again.
                Err(PutError::Refused | PutError::Conflicted | PutError::Unknown(_)) => {}
                Err(PutError::Failed(error)) => return Err(unavailable(&error)),
            }
            let Some(wait) = waits.next() else { return Err(unavailable(&"others change it all the time")) };
            tokio::time::sleep(wait).await;
        }
    }

    fn known(&self, key: &str) -> Known {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX && !known.contains_key(key) {
            known.retain(|_, number| Arc::strong_count(number) > 1);
        }
        Arc::clone(known.entry(key.to_owned()).or_default())
    }
}

impl Count {
    fn with(mut self, model: &str, change: &Change, name: String) -> Result<Self, ApiError> {
        let spent = self.models.entry(model.to_owned()).or_default();
        match change {
            Change::Add(more, budget) => {
                let Spent { tokens, cost } = *spent;
                if tokens >= budget.tokens || cost >= budget.cost {
                    let message = format!(
                        "the budget of the model is spent: {tokens} tokens, and {} of money, with what is reserved for questions under way",
                        money(cost)
                    );
                    return Err(ApiError::new(ErrorCode::ModelBudgetExceeded, message));
                }
                *spent = Spent { tokens: tokens.saturating_add(more.tokens), cost: cost.saturating_add(more.cost) };
            }
            Change::Remove(less) => {
                let Spent { tokens, cost } = *spent;
                *spent = Spent { tokens: tokens.saturating_sub(less.tokens), cost: cost.saturating_sub(less.cost) };
            }
        }
        self.last.push_back(name);
        while self.last.len() > REMEMBERED_MAX {
            self.last.pop_front();
        }
        Ok(self)
    }
}

impl Change {
    fn is_nothing(&self) -> bool {
        let (Self::Add(by, _) | Self::Remove(by)) = self;
        *by == Spent::default()
    }
}

async fn read(place: &BrokerStore, key: &str) -> Result<(Count, Option<ETag>), ApiError> {
    let Some(object) = place.store.get(key).await.map_err(|error| unavailable(&error))? else { return Ok((Count::default(), None)) };
    let corrupt = |error| ApiError::new(ErrorCode::SnapshotCorrupt, format!("what was spent on models cannot be read ({key}): {error}"));
    Ok((serde_json::from_slice(&object.bytes).map_err(corrupt)?, Some(object.etag)))
}

fn unavailable(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::StorageUnavailable, format!("what was spent on models cannot be counted now: {error}"))
}

/// As an amount is written.
fn money(cost: u64) -> String {
    let millionths = cost / 1_000_000;
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}
