//! What changed between two states of a session: each is laid into a throw-away instance of its own engine, asked what it has, and dropped.
//!
//! Nothing is committed and nothing leaves: the instances have no way to tools, no timers, no slot, and a seed instead of entropy. It must
//! not know who runs the session.

mod compare;
mod inventory;

use std::collections::HashMap;
use std::sync::Arc;

use dormouse_engine::Engine;
use dormouse_lifecycle::{Head, SessionKey};
use dormouse_protocol::history::{Checkpoint, Difference};
use dormouse_protocol::kernel::DifferenceCall;
use dormouse_protocol::{ApiError, ErrorCode};

use tokio::sync::{Mutex, Semaphore};

use crate::contents::Contents;
use crate::record::SessionState;
use crate::session::{self, Host};
use crate::storage::Storage;
use crate::stored::{self, Stored};
use inventory::{Inventory, Looked};

/// Comparisons at the same time. Each holds two heaps beside those that have a slot.
const DIFFERENCES_MAX: usize = 2;

/// Times that a state is read before what it names and is not there is believed to be lost: the session may commit meanwhile.
const READ_ATTEMPTS_MAX: u32 = 3;

/// Changed globals that are told with previews; of those beyond, the names.
const PREVIEWS_MAX: usize = 1000;

/// What comparisons share.
pub(crate) struct Differences {
    turns: Semaphore,
    /// What a new session has, by the engine's digest.
    new: Mutex<HashMap<String, Arc<Inventory>>>,
}

impl Default for Differences {
    fn default() -> Self {
        Self { turns: Semaphore::new(DIFFERENCES_MAX), new: Mutex::default() }
    }
}

impl Differences {
    async fn new_session(&self, engine: &Engine) -> Result<Arc<Inventory>, ApiError> {
        let mut known = self.new.lock().await;
        let digest = engine.digest().as_str();
        if let Some(new) = known.get(digest) {
            return Ok(Arc::clone(new));
        }
        let new = Arc::new(inventory::of_new(engine).await?);
        known.insert(digest.to_owned(), Arc::clone(&new));
        Ok(new)
    }

    /// What changed from one checkpoint of a session to another, or to its last commit.
    pub(crate) async fn between(&self, host: &Host, key: &SessionKey, call: &DifferenceCall) -> Result<Difference, ApiError> {
        let _turn = self.turns.acquire().await.map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
        host.storage.ready().await?;
        let (from, mut before) = self.look(host, key, call, Some(&call.from)).await?;
        let (to, mut after) = self.look(host, key, call, call.to.as_deref()).await?;
        let globals = compare::changed_globals(&before.has, &after.has);
        let shown: Vec<&String> = globals.iter().take(PREVIEWS_MAX).map(|(name, _)| *name).collect();
        Ok(Difference {
            from,
            to,
            globals: compare::globals(&globals, before.instance.show(&shown).await?, after.instance.show(&shown).await?),
            files: compare::files(&before.has.files, &after.has.files),
            unsure: compare::unsure(&before.has, &after.has),
            partial: before.has.partial || after.has.partial,
        })
    }

    /// A state of the session, in an instance: a checkpoint, or the last commit.
    async fn look(
        &self,
        host: &Host,
        key: &SessionKey,
        call: &DifferenceCall,
        wanted: Option<&str>,
    ) -> Result<(Checkpoint, Looked), ApiError> {
        for _ in 0..READ_ATTEMPTS_MAX {
            let Some(stored) = stored::read(&host.storage, key, u64::MAX, call.session.anchor).await? else {
                let message = format!("session `{}` has stored nothing that could be compared: run a cell in it", key.name);
                return Err(ApiError::new(ErrorCode::Conflict, message));
            };
            let Some(head) = state(&host.storage, key, stored, wanted).await? else { continue };
            let engine = session::engine_of(host, &head).await.map_err(|fault| fault.error())?;
            let Some(segments) = host.storage.segments(&head).await? else { continue };
            let image = session::image(&head, &segments).map_err(|fault| fault.error())?;
            let state = SessionState::decode(&head.state).map_err(|error| corrupt(&error.to_string()))?;
            let new = self.new_session(&engine).await?;
            let contents = Arc::new(Contents::new(host.backing(), key.clone(), head.epoch, Some(&head)));
            let looked = Looked::at(&engine, &new, &image, state.spec.limits.heap_bytes, contents).await?;
            return Ok((view(&head), looked));
        }
        Err(corrupt(&format!("{} names an object that is not in the store", wanted.unwrap_or("the last commit"))))
    }
}

/// The head of a state. `None`: its object is not there.
async fn state(storage: &Storage, key: &SessionKey, stored: Stored, wanted: Option<&str>) -> Result<Option<Head>, ApiError> {
    match (wanted, stored.damage) {
        (Some(wanted), _) => session::checkpoint(storage, key, Some(&stored.head), wanted).await.map_err(|fault| fault.error()),
        (None, Some(damage)) => Err(corrupt(&damage)),
        (None, None) => Ok(Some(stored.head)),
    }
}

/// A state as clients see it, be it a checkpoint or not.
fn view(head: &Head) -> Checkpoint {
    Checkpoint {
        id: head.sequence.to_string(),
        label: head.label.clone(),
        sequence: head.sequence,
        time: head.time.clone(),
        bytes: head.snapshot_bytes(),
    }
}

fn corrupt(why: &str) -> ApiError {
    ApiError::new(ErrorCode::SnapshotCorrupt, format!("the stored session does not verify: {why}"))
}
