//! Which pages of a mapping were ever written, as the kernel's page tables say.

use std::{fs::File, ops::Range, os::unix::fs::FileExt as _, sync::LazyLock};

use crate::PAGE_BYTES;

/// `/proc/self/pagemap`, where there is one and its pages are ours.
static PAGEMAP: LazyLock<Option<File>> = LazyLock::new(|| {
    let known = rustix::param::page_size() == PAGE_BYTES;
    known.then(|| File::open("/proc/self/pagemap").ok()).flatten()
});

const ENTRY_BYTES: usize = 8;

/// Bits of an entry, from Documentation/admin-guide/mm/pagemap.rst: present, swapped out, and a page of a file or shared.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

/// The pages of `pages` that may have been written, `base` being the address of page 0: a private page of a private mapping was written once, a
/// page of the image behind the mapping never. `None` where the kernel does not say.
pub(crate) fn written(base: *const u8, pages: Range<usize>) -> Option<Vec<usize>> {
    let map = PAGEMAP.as_ref()?;
    let mut entries = vec![0; pages.len() * ENTRY_BYTES];
    let first = base.addr() / PAGE_BYTES + pages.start;
    map.read_exact_at(&mut entries, (first * ENTRY_BYTES) as u64).ok()?;
    let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
    let private = |entry: &[u8; ENTRY_BYTES]| {
        let entry = u64::from_le_bytes(*entry);
        entry & (PRESENT | SWAPPED) != 0 && entry & OF_FILE == 0
    };
    Some(pages.zip(entries).filter(|(_, entry)| private(entry)).map(|(page, _)| page).collect())
}
