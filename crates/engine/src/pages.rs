//! Memory as pages: what a commit stores and a restore lays back.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::HostState;

/// Size of a [`Page`] in bytes.
pub const PAGE_BYTES: usize = 4096;

/// The module's mutable globals by export name, as raw bits.
pub type Globals = BTreeMap<String, u64>;

/// [`PAGE_BYTES`] bytes of linear memory. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Page(Bytes);

impl Page {
    /// A page of exactly [`PAGE_BYTES`] bytes; `None` for any other length.
    #[must_use]
    pub fn new(bytes: Bytes) -> Option<Self> {
        (bytes.len() == PAGE_BYTES).then_some(Self(bytes))
    }

    /// The bytes, always [`PAGE_BYTES`] of them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The shared bytes themselves.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page({:016x})", xxhash_rust::xxh3::xxh3_64(&self.0))
    }
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
    /// The changed pages by page number, in ascending order. A page that went back to the base image is among them.
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
