//! The pure decision core: what a session's stored form is, who may write it, and what to do when the store answers.
//!
//! Values go in, values come out. Nothing here does I/O, reads a clock, draws randomness or is async: times and put ids come from the
//! caller, bytes and replies too. It must not know the engine (a [`Page`] is 4 KiB of anything), nor any store, process or Kubernetes object.
//!
//! | module | decides |
//! |---|---|
//! | [`keys`] | where a session's objects lie |
//! | [`head`], [`segment`] | the bytes of those objects, and whether bytes that come back are to be believed |
//! | [`inline`] | which pages a commit compresses anew of those that ride in a head |
//! | [`stride`], `lines` | what is taken out of a page before it is compressed |
//! | `compression` | how |
//! | [`claim`] | what a process may do under an assignment that status does not have yet |
//! | [`blobs`] | what a session keeps outside its heap, and how long that must stay |
//! | [`checkpoint`] | which earlier states a session keeps, and how it lists them |
//! | [`calls`] | which calls a broker may make, and how it remembers them |
//! | [`json`] | how what is only carried travels |
//! | [`log`] | how journal and events grow and roll over |
//! | [`commit`] | the bytes and the steps of a commit, and what each reply of the store means |
//! | [`ends`] | how cells ended, by idempotency key |
//! | [`fork`] | what a child takes from its parent |
//! | [`recover`] | what is left of a session whose head is lost |
//! | [`acquire`] | whether a head that was read may be restored under an assignment |
//! | [`image`] | the pages of a session out of head and segments |
//! | [`attempts`] | what becomes of a request that a process did not carry out |
//! | [`lifetime`] | how long a session lives that nobody uses |
//! | [`usage`] | what sessions have used, and how it is summed |
//! | [`sweep`] | what deletion and garbage collection may remove |
//! | [`archive`] | how sessions are kept whose API object is gone |
//! | [`orphans`] | what is stored of sessions that do not exist any more |
//! | [`clusters`] | who stores sessions under a prefix, and who may therefore remove such |
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")
)]

pub mod acquire;
pub mod archive;
pub mod attempts;
pub mod blobs;
pub mod calls;
pub mod checkpoint;
pub mod claim;
pub mod clusters;
pub mod commit;
mod compression;
pub mod ends;
pub mod fork;
pub mod head;
pub mod image;
pub mod inline;
pub mod json;
pub mod keys;
pub mod lifetime;
mod lines;
pub mod log;
pub mod orphans;
pub mod recover;
pub mod runs;
pub mod segment;
pub mod stride;
pub mod sweep;
pub mod usage;

use std::sync::Arc;

pub use acquire::Acquire;
pub use commit::{Attachments, Change, Commit, Condition, Owned, Reply, Step};
pub use head::{Head, SegmentRef};
pub use image::assemble;
pub use inline::TopLayer;
pub use json::Json;
pub use keys::SessionKey;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Pages in one page of WebAssembly memory (64 KiB), the unit of `memory_pages`.
pub const PAGES_PER_MEMORY_PAGE: u32 = 16;

/// One page of linear memory, shared between the pod's own copy, a delta and a commit under way.
pub type Page = Arc<[u8; PAGE_BYTES]>;
