//! What a commit is made of.

use std::sync::Arc;

use crate::{Head, Json, Page, SessionKey, blobs::Table, checkpoint::Mark, inline::TopLayer};

/// What this process believes is stored, and by what right it writes.
#[derive(Debug, Clone, PartialEq)]
pub struct Owned {
    /// Which session.
    pub session: SessionKey,
    /// The epoch of the assignment.
    pub epoch: u64,
    /// The head that was restored or last committed; `None` before the first commit of a new session.
    pub head: Option<Arc<Head>>,
    /// Its ETag.
    pub etag: Option<String>,
    /// Its topmost layer of pages, if that is at hand. It costs memory and spares time: who rests drops it.
    pub top_layer: TopLayer,
}

/// What has changed since the head of the [`Owned`].
#[derive(Debug, Clone)]
pub struct Change {
    /// Whether `pages` is the whole image (see [`wants_full_image`](super::wants_full_image)) and not only what changed. A new session's first change is both.
    pub full: bool,
    /// The pages, ascending by number.
    pub pages: Vec<(u32, Page)>,
    /// Size of linear memory in pages of WebAssembly (64 KiB).
    pub memory_pages: u32,
    /// The engine's globals.
    pub globals: Json,
    /// The kernel pod's own state of the session.
    pub state: Json,
    /// Hex sha256 of the engine.
    pub engine_digest: String,
    /// RFC 3339, now.
    pub time: String,
}

/// What a commit carries beside its change.
#[derive(Debug, Clone, Default)]
pub struct Attachments {
    /// The change lies over the pages of this head, not of the one that is replaced: the session goes on from another state. Its segments
    /// must be in the store, under keys of the session that commits.
    pub base: Option<Arc<Head>>,
    /// What to put aside.
    pub mark: Option<Mark>,
    /// Entries at the end of the journal.
    pub journal: Vec<Json>,
    /// Entries at the end of the events.
    pub events: Vec<Json>,
    /// Whether what is put is encrypted on its way; see [`Head::sealed`].
    pub sealed: bool,
    /// What the session has outside its heap, if that has changed. Its pieces must be in the store.
    pub blobs: Option<Table>,
}
