//! What a session was: its checkpoints and its journal, and how it goes back, begins anew, forks and moves to another engine.

use dormouse_protocol::{
    history::{
        Checkpoint, CheckpointList, Difference, ForkSession, JournalPage, MakeCheckpoint, MigrateSession, Migration, ResetSession,
        RestoreSession,
    },
    session::Session,
};
use reqwest::Method;

use crate::{Client, Error, answer};

impl Client {
    /// The session's checkpoints, oldest first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn checkpoints(&self, name: &str) -> Result<CheckpointList, Error> {
        answer::json(self.request(Method::GET, &[name, "checkpoints"])?).await
    }

    /// Puts the session's present state aside under a label.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn checkpoint(&self, name: &str, label: &str) -> Result<Checkpoint, Error> {
        let body = MakeCheckpoint { label: label.to_owned(), ..MakeCheckpoint::default() };
        answer::json(self.request(Method::POST, &[name, "checkpoints"])?.json(&body)).await
    }

    /// What changed from one checkpoint to another, by id or label; without `to`, to the last commit.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn difference(&self, name: &str, from: &str, to: Option<&str>) -> Result<Difference, Error> {
        let query = [Some(("from", from)), to.map(|to| ("to", to))];
        let query: Vec<_> = query.into_iter().flatten().collect();
        answer::json(self.request(Method::GET, &[name, "checkpoints", "diff"])?.query(&query)).await
    }

    /// Takes a session back to a checkpoint, by id or label.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn restore(&self, name: &str, checkpoint: &str) -> Result<Session, Error> {
        let body = RestoreSession { checkpoint: checkpoint.to_owned(), ..RestoreSession::default() };
        answer::json(self.request(Method::POST, &[name, "restore"])?.json(&body)).await
    }

    /// Empties a session: it goes on as a new one would. The state before stays as a checkpoint.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn reset(&self, name: &str) -> Result<Session, Error> {
        answer::json(self.request(Method::POST, &[name, "reset"])?.json(&ResetSession::default())).await
    }

    /// Makes a session that begins as what this one is, or was.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn fork(&self, name: &str, fork: &ForkSession) -> Result<Session, Error> {
        answer::json(self.request(Method::POST, &[name, "fork"])?.json(fork)).await
    }

    /// Moves the session to the current engine, or only tells what would come of it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn migrate(&self, name: &str, dry_run: bool) -> Result<Migration, Error> {
        answer::json(self.request(Method::POST, &[name, "migrate"])?.json(&MigrateSession { dry_run })).await
    }

    /// One page of the session's journal, of entries with a greater `seq` than `after`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn journal_page(&self, name: &str, after: u64) -> Result<JournalPage, Error> {
        answer::json(self.request(Method::GET, &[name, "journal"])?.query(&[("after", after)])).await
    }
}
