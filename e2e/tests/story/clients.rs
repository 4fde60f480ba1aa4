//! Clients that do nothing but run cells, each in a session of its own, whatever happens meanwhile.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use dormouse_protocol::event::{Event, EventBody};
use futures::future::{join, try_join_all};
use serde_json::json;

use super::world::{WAIT_SECONDS, World};

/// How often it is looked whether they have been answered.
const POLL: Duration = Duration::from_millis(100);

/// What a client does about a request that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Sends it again under its key, as long as that may help.
    Insists,
    /// Nothing: it takes that for a failure of the service.
    None,
}

/// A client, and what it was answered.
pub struct Client<'a> {
    world: &'a World,
    session: String,
    patience: Patience,
    answered: AtomicU64,
}

impl<'a> Client<'a> {
    /// One with a session of its own, which it makes.
    pub async fn new(world: &'a World, session: String, patience: Patience) -> Result<Self> {
        world.api.create(&session, json!({})).await?;
        Ok(Self { world, session, patience, answered: AtomicU64::default() })
    }

    /// Its session's name.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// How many cells it was answered.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    /// Runs one cell after the other until it is told to stop. Each must be answered in time, and find what all before it did, once.
    pub async fn work(&self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::SeqCst) {
            let number = self.answered();
            let code = format!("globalThis.log ??= []; log.push({number}); console.log('cell {number}'); log.length");
            let value = match self.patience {
                Patience::Insists => {
                    self.world.api.insist(&self.session, &code, &format!("cell-{number}"), u64::from(WAIT_SECONDS)).await?
                }
                Patience::None => self.world.api.value(&self.session, &code).await?,
            };
            ensure!(value == number + 1, "{}: cell {number} found {value} where it should be the {}th", self.session, number + 1);
            self.answered.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// The session has each cell once, in order; and so do its events, as far back as they are kept.
    pub async fn check(&self) -> Result<()> {
        let cells = self.answered();
        let log = self.world.api.value(&self.session, "log").await?;
        ensure!(log == json!((0..cells).collect::<Vec<_>>()), "{}: {log}", self.session);
        let told = self.world.api.events(&self.session).await?;
        let seqs: Vec<u64> = told.iter().map(|event| event.seq).collect();
        let first = *seqs.first().context("no event")?;
        ensure!(seqs.iter().zip(first..).all(|(seq, expected)| *seq == expected), "{}: a gap or a double in {seqs:?}", self.session);
        let printed = |event: &Event| match &event.body {
            EventBody::Log { text, .. } => Some(text.clone()),
            _ => None,
        };
        let printed: Vec<String> = told.iter().filter_map(printed).collect();
        let expected: Vec<String> = (0..cells).map(|number| format!("cell {number}")).collect();
        ensure!(!printed.is_empty() && expected.ends_with(&printed), "{}: {printed:?}", self.session);
        Ok(())
    }
}

/// Until each of them has been answered so many cells more.
pub async fn wait_for_cells(clients: &[Client<'_>], cells: u64) -> Result<()> {
    let before: Vec<u64> = clients.iter().map(Client::answered).collect();
    let deadline = Instant::now() + Duration::from_secs(u64::from(WAIT_SECONDS));
    while clients.iter().zip(&before).any(|(client, before)| client.answered() < before + cells) {
        ensure!(Instant::now() < deadline, "no {cells} cells in {WAIT_SECONDS} s");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Runs `change` while all of them work; then each session is looked at. Answers how many cells there were.
pub async fn work_during(clients: &[Client<'_>], change: impl Future<Output = Result<()>>) -> Result<u64> {
    let stop = AtomicBool::new(false);
    let changing = async {
        let changed = change.await;
        stop.store(true, Ordering::SeqCst);
        changed
    };
    let (changed, worked) = join(changing, try_join_all(clients.iter().map(|client| client.work(&stop)))).await;
    worked?;
    changed?;
    for client in clients {
        client.check().await?;
    }
    Ok(clients.iter().map(Client::answered).sum())
}
