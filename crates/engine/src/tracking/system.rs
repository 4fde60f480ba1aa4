//! What Linux knows of writes to one linear memory: its page tables, and the faults of a memory that is write-protected.
//!
//! After a commit of a large memory its chunks are *armed*: read-only. The first write to one faults; the handler notes the chunk and opens it. So the
//! next commit looks at the noted chunks only.
//!
//! Nothing but the handler may meet an armed page. It runs only while compiled code is on the thread's stack, so outside a turn this crate
//! reads an armed memory, and writes only what [`System::armed`] leaves out.

use std::{
    fs::File,
    ops::Range,
    os::unix::fs::FileExt as _,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use rustix::mm::{Advice, MprotectFlags};
use wasmtime::{Memory, Store};

use super::CHUNK_BYTES;
use crate::{PAGE_BYTES, compiled::RESERVATION_BYTES};

/// Chunks that a turn may open one by one. Each is a fault and up to two more mappings; after so many the whole memory is opened.
const OPENED_MAX: usize = 256;

/// Chunks that all memories of the process together may open one by one: half of the mappings that Linux allows a process (`vm.max_map_count`).
const OPENED_ALL_MAX: usize = 16 << 10;

/// Chunks that are open one by one.
static OPENED_ALL: AtomicUsize = AtomicUsize::new(0);

const CHUNKS_PER_WORD: usize = 64;

/// What the system notes of one linear memory. Cloning shares it.
#[derive(Clone)]
pub(crate) struct System(Arc<Guard>);

/// The protection of the memory. Shared by its instance and its fault handler.
struct Guard {
    base: usize,
    /// Chunks that may be written though they lie in the armed range. A bit each.
    open: Box<[AtomicU64]>,
    opened: AtomicUsize,
    armed_from: AtomicUsize,
    armed_to: AtomicUsize,
}

impl System {
    /// What the system notes of the only memory of this store, which has at most `bytes_max`. Goes no further than the store: neither the answer nor
    /// its clones may be used once that is gone.
    pub(crate) fn of<T: 'static>(store: &mut Store<T>, memory: Memory, bytes_max: usize) -> Option<Self> {
        let words = bytes_max.div_ceil(CHUNK_BYTES * CHUNKS_PER_WORD);
        let guard = Arc::new(Guard {
            base: memory.data_ptr(&*store).expose_provenance(),
            open: (0..words).map(|_| AtomicU64::new(0)).collect(),
            opened: AtomicUsize::new(0),
            armed_from: AtomicUsize::new(0),
            armed_to: AtomicUsize::new(0),
        });
        handle_faults(store, Arc::clone(&guard));
        Some(Self(guard))
    }

    /// The pages of `pages` that may have been written: a private page of a private mapping was written once, a page of the image behind the mapping
    /// never. `None` where the kernel does not say.
    pub(crate) fn written(&self, pages: Range<usize>) -> Option<Vec<usize>> {
        let map = PAGEMAP.as_ref()?;
        let mut entries = vec![0; pages.len() * ENTRY_BYTES];
        let first = self.0.base / PAGE_BYTES + pages.start;
        map.read_exact_at(&mut entries, (first * ENTRY_BYTES) as u64).ok()?;
        let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
        let private = |entry: &[u8; ENTRY_BYTES]| {
            let entry = u64::from_le_bytes(*entry);
            entry & (PRESENT | SWAPPED) != 0 && entry & OF_FILE == 0
        };
        Some(pages.zip(entries).filter(|(_, entry)| private(entry)).map(|(page, _)| page).collect())
    }

    /// The chunks that are read-only unless opened; empty when the memory is not armed.
    pub(crate) fn armed(&self) -> Range<usize> {
        self.0.armed()
    }

    /// Whether a chunk of the armed range was opened since the last [`Self::arm`].
    pub(crate) fn is_open(&self, chunk: usize) -> bool {
        self.0.is_open(chunk)
    }

    /// Makes the chunks of `range` read-only. Not while code runs. When the system refuses, the memory is left open, and so it says.
    pub(crate) fn arm(&self, range: Range<usize>) {
        self.0.arm(range);
    }

    /// Gives the memory of `pages` back to the system: what they hold is again what the mapping says, the base image or zeros. Not while code runs.
    pub(crate) fn give_back(&self, pages: Range<usize>) {
        self.0.give_back(pages);
    }
}

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

/// Whether the system counts page faults, which not all that are called Linux do: a page that nobody has touched costs one.
pub(crate) fn counts_faults() -> bool {
    static COUNTS: LazyLock<bool> = LazyLock::new(|| {
        let (flags, protection) = (rustix::mm::MapFlags::PRIVATE, rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE);
        // SAFETY: a new mapping of nothing, at an address that the system chooses.
        #[expect(unsafe_code, reason = "a page that nobody has touched is a mapping")]
        let Ok(page) = (unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), PAGE_BYTES, protection, flags) }) else { return false };
        let before = faults();
        // SAFETY: the mapping is ours alone, as long as a page, and may be written; it goes here and nowhere else.
        #[expect(unsafe_code, reason = "the page is touched, and given back")]
        let gone = unsafe {
            page.cast::<u8>().write_volatile(1);
            let touched = faults();
            rustix::mm::munmap(page, PAGE_BYTES).is_ok() && touched > before
        };
        gone
    });
    *COUNTS
}

/// Page faults of the calling thread so far, of which each was met and dealt with.
pub(crate) fn faults() -> u64 {
    // SAFETY: all bits zero is a `rusage`, which has numbers only; the call writes to it and keeps nothing.
    #[expect(unsafe_code, reason = "rustix has no getrusage")]
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    (usage.ru_minflt as u64).wrapping_add(usage.ru_majflt as u64)
}

impl Guard {
    fn armed(&self) -> Range<usize> {
        self.armed_from.load(Ordering::Acquire)..self.armed_to.load(Ordering::Acquire)
    }

    fn is_open(&self, chunk: usize) -> bool {
        self.open.get(chunk / CHUNKS_PER_WORD).is_none_or(|word| word.load(Ordering::Acquire) & bit(chunk) != 0)
    }

    fn arm(&self, range: Range<usize>) {
        let before = self.armed();
        let known = before.start == range.start && before.end <= range.end && !before.is_empty();
        let done = if known {
            let mut opened = before.clone().filter(|chunk| self.is_open(*chunk));
            opened.all(|chunk| self.protect(chunk..chunk + 1, MprotectFlags::READ))
                && self.protect(before.end..range.end, MprotectFlags::READ)
        } else {
            self.protect(range.clone(), MprotectFlags::READ)
        };
        for word in &self.open {
            word.store(0, Ordering::Release);
        }
        self.forget_opened();
        self.armed_from.store(range.start, Ordering::Release);
        self.armed_to.store(range.end, Ordering::Release);
        if !done {
            self.disarm();
        }
    }

    /// Makes everything writable again: one mapping, so the system has no reason to refuse.
    fn disarm(&self) -> bool {
        let done = self.protect(self.armed(), MprotectFlags::READ | MprotectFlags::WRITE);
        self.armed_to.store(0, Ordering::Release);
        self.armed_from.store(0, Ordering::Release);
        self.forget_opened();
        done
    }

    /// The chunks that were opened are one mapping with their neighbours again, or gone.
    fn forget_opened(&self) {
        OPENED_ALL.fetch_sub(self.opened.swap(0, Ordering::AcqRel), Ordering::AcqRel);
    }

    /// Deals with a fault of the thread that runs the instance. False: it is none of ours. Async-signal-safe: atomics and one system call.
    fn on_fault(&self, address: usize) -> bool {
        let Some(offset) = address.checked_sub(self.base).filter(|offset| (*offset as u64) < RESERVATION_BYTES) else { return false };
        let chunk = offset / CHUNK_BYTES;
        let writable = MprotectFlags::READ | MprotectFlags::WRITE;
        let Some(word) = self.open.get(chunk / CHUNKS_PER_WORD).filter(|_| self.armed().contains(&chunk)) else { return false };
        if word.fetch_or(bit(chunk), Ordering::AcqRel) & bit(chunk) != 0 {
            return false;
        }
        let few = self.opened.fetch_add(1, Ordering::AcqRel) < OPENED_MAX;
        let few = OPENED_ALL.fetch_add(1, Ordering::AcqRel) < OPENED_ALL_MAX && few;
        (few && self.protect(chunk..chunk + 1, writable)) || self.disarm()
    }

    fn give_back(&self, pages: Range<usize>) {
        if pages.end * PAGE_BYTES > usize::try_from(RESERVATION_BYTES).unwrap_or(usize::MAX) {
            return;
        }
        let at = std::ptr::with_exposed_provenance_mut::<u8>(self.base + pages.start * PAGE_BYTES);
        // SAFETY: the pages lie in the reservation of a memory that is still there (see `System::of`), which is a private mapping of the base image and of
        // nothing. No reference into it is alive, as the caller owns the instance and no code runs.
        #[expect(unsafe_code, reason = "giving back is advice on a mapping")]
        let done = unsafe { rustix::mm::madvise(at.cast(), pages.len() * PAGE_BYTES, Advice::LinuxDontNeed) };
        if let Err(error) = done {
            tracing::debug!(%error, "pages that hold nothing are kept");
        }
    }

    fn protect(&self, chunks: Range<usize>, flags: MprotectFlags) -> bool {
        if chunks.is_empty() {
            return true;
        }
        let at = std::ptr::with_exposed_provenance_mut::<u8>(self.base + chunks.start * CHUNK_BYTES);
        // SAFETY: the chunks lie in the reservation of a memory that is still there (see `System::of`): in the
        // armed range, which lay inside the memory. A read-only page is met by the handler or by nobody (see the module).
        #[expect(unsafe_code, reason = "write protection tells what is written")]
        unsafe {
            rustix::mm::mprotect(at.cast(), chunks.len() * CHUNK_BYTES, flags).is_ok()
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.forget_opened();
    }
}

fn bit(chunk: usize) -> u64 {
    1 << (chunk % CHUNKS_PER_WORD)
}

/// Lets `guard` deal with the faults of the code that runs in `store`.
fn handle_faults<T: 'static>(store: &mut Store<T>, guard: Arc<Guard>) {
    let handler = move |signal: libc::c_int, info: *const libc::siginfo_t, _: *const libc::c_void| {
        if signal != libc::SIGSEGV || info.is_null() {
            return false;
        }
        // SAFETY: wasmtime hands on what the kernel gave its SIGSEGV handler under SA_SIGINFO: a fault's `siginfo_t`.
        #[expect(unsafe_code, reason = "reading what the kernel says of a fault")]
        let address = unsafe { (*info).si_addr().addr() };
        guard.on_fault(address)
    };
    // SAFETY: the handler is async-signal-safe: it reads its arguments, uses atomics and makes one system call; it neither allocates nor locks.
    #[expect(unsafe_code, reason = "a fault handler is how armed memory is written")]
    unsafe {
        wasmtime::unix::StoreExt::set_signal_handler(store, handler);
    }
}
