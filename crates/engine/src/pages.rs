//! A session's state as a commit stores it and a restore lays it back: memory as pages, and what the host knows beside it.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

/// Size of a [`Page`] in bytes.
pub const PAGE_BYTES: usize = 4096;

/// The module's mutable globals by export name, as raw bits.
pub type Globals = BTreeMap<String, u64>;

/// The difference (exclusive or) of one page of linear memory to the same page of the engine's base image. Cloning shares the bytes.
///
/// Much of what a session changes are a few words of a page, so this compresses far better than the page, and stands for it as long as the
/// engine is the same.
pub type Page = Arc<[u8; PAGE_BYTES]>;

/// The host's part of a session's state. Travels with every image.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostState {
    /// Ticks in the session's life: the clock of a deterministic session.
    pub ticks: u64,
    /// Blocks drawn from the entropy stream of a deterministic session.
    pub entropy_blocks: u64,
    /// When the last cell began, in milliseconds of the session's clock.
    pub cell_began_ms: f64,
    /// File name of the last cell.
    pub cell_filename: String,
    /// Bytes in use in the JavaScript heap after the last turn.
    pub heap_bytes: u64,
}

/// What changed since the last [`crate::Instance::mark_committed`].
#[derive(Debug, Clone, PartialEq)]
pub struct Delta {
    /// Size of linear memory in pages of [`PAGE_BYTES`].
    pub memory_pages: u32,
    /// All mutable globals.
    pub globals: Globals,
    /// The host's part of the state.
    pub host: HostState,
    /// The changed pages by page number, in ascending order. A page that went back to the base image is among them, as zeros.
    pub pages: Vec<(u32, Page)>,
}

impl Delta {
    /// Bytes of the pages.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64
    }
}

/// A session's whole state, relative to the base image of its engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Size of linear memory in pages of [`PAGE_BYTES`].
    pub memory_pages: u32,
    /// All mutable globals.
    pub globals: Globals,
    /// The host's part of the state.
    pub host: HostState,
    /// The pages that differ from the base image, by page number.
    pub pages: BTreeMap<u32, Page>,
}

impl Image {
    /// Lays a delta over this image, so that it is the image at the delta's commit.
    pub fn apply(&mut self, delta: Delta) {
        self.memory_pages = delta.memory_pages;
        self.globals = delta.globals;
        self.host = delta.host;
        self.pages.extend(delta.pages);
    }

    /// Bytes of the pages.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64
    }
}

/// Gives memory that freed instances have left in the allocators back to the system; the instances' own mappings are gone with them anyway. There are two:
/// that of the process (`dormouse_service`), and that of the C library.
/// Takes milliseconds after thousands of instances, in which other threads may wait for memory: not for an async task.
pub fn give_back_freed() {
    // SAFETY: `mi_collect` has no precondition.
    #[expect(unsafe_code, reason = "a call into the allocator")]
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes the allocator's own locks and has no precondition.
    #[expect(unsafe_code, reason = "a call into the C library")]
    unsafe {
        libc::malloc_trim(0);
    }
}
