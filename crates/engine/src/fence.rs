//! The protection of one linear memory: which parts of it a turn writes, and how a turn that never polls is ended.
//!
//! Two uses of `mprotect` on nothing but the memory's own mapping, and one handler of the faults that they cause:
//!
//! - **Armed.** After a commit of a large memory its chunks are read-only. The first write to one faults; the handler notes the chunk and opens it.
//!   So the next commit looks at the noted chunks only.
//! - **Condemned.** [`crate::backstop`] takes all access away from a turn that is over its time. The next access of compiled code is a fault that
//!   wasmtime turns into a trap, as it does for an access out of bounds. Host code on the turn's thread (wasmtime's copies and fills, our imports) has no
//!   trap to go to: its fault opens that chunk again and goes on, and the backstop takes access away again a moment later.
//!
//! Nothing but the handler may meet a protected page. It runs only while compiled code is on the thread's stack, so outside a turn this crate
//! reads an armed memory, writes only what [`Fence::armed_from`] leaves out, and touches a condemned one never again.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use rustix::mm::{Advice, MprotectFlags};

use crate::{PAGE_BYTES, compiled::RESERVATION_BYTES};

/// What is protected and noted as one. A page of WebAssembly, so a memory's size is a multiple of it.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Chunks that a turn may open one by one. Each is a fault and up to two more mappings; after so many the whole memory is opened.
const OPENED_MAX: usize = 256;

const CHUNKS_PER_WORD: usize = 64;

/// The protection of one linear memory. Shared by its instance, its fault handler and the backstop.
pub(crate) struct Fence {
    base: usize,
    /// Where the module's compiled code lies.
    code: Range<usize>,
    /// Chunks that may be written though they lie in the armed range. A bit each.
    open: Box<[AtomicU64]>,
    opened: AtomicUsize,
    armed_from: AtomicUsize,
    armed_to: AtomicUsize,
    condemned: AtomicBool,
}

impl Fence {
    /// The fence of a memory that is readable and writable as far as its size goes, at most `bytes_max`.
    ///
    /// # Safety
    /// `base` is the address of a linear memory whose mapping covers [`RESERVATION_BYTES`] from there. No method that changes its protection is
    /// called once the memory is gone.
    #[expect(unsafe_code, reason = "the caller vouches for the mapping")]
    pub(crate) unsafe fn new(base: *mut u8, bytes_max: usize, code: Range<usize>) -> Self {
        let words = bytes_max.div_ceil(CHUNK_BYTES * CHUNKS_PER_WORD);
        Self {
            base: base.addr(),
            code,
            open: (0..words).map(|_| AtomicU64::new(0)).collect(),
            opened: AtomicUsize::new(0),
            armed_from: AtomicUsize::new(0),
            armed_to: AtomicUsize::new(0),
            condemned: AtomicBool::new(false),
        }
    }

    /// The chunks that are read-only unless opened; empty when the memory is not armed.
    pub(crate) fn armed(&self) -> Range<usize> {
        self.armed_from.load(Ordering::Acquire)..self.armed_to.load(Ordering::Acquire)
    }

    /// Whether a chunk of the armed range was opened since the last [`Self::arm`].
    pub(crate) fn is_open(&self, chunk: usize) -> bool {
        self.open.get(chunk / CHUNKS_PER_WORD).is_none_or(|word| word.load(Ordering::Acquire) & bit(chunk) != 0)
    }

    /// Makes the chunks of `range` read-only. Not while code runs. When the system refuses, the memory is left open, and so it says.
    pub(crate) fn arm(&self, range: Range<usize>) {
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
        self.opened.store(0, Ordering::Release);
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
        done
    }

    /// Takes all access away. Called by the backstop only while it knows that the turn goes on.
    pub(crate) fn condemn(&self) {
        // First the word, then the deed: a fault that this causes finds the word.
        self.condemned.store(true, Ordering::SeqCst);
        let all = usize::try_from(RESERVATION_BYTES).map_or(0, |bytes| bytes / CHUNK_BYTES);
        if !self.protect(0..all, MprotectFlags::empty()) {
            tracing::error!("a turn that is over its time cannot be stopped: its memory cannot be protected");
        }
    }

    /// Whether the memory is lost.
    pub(crate) fn is_condemned(&self) -> bool {
        self.condemned.load(Ordering::SeqCst)
    }

    /// Deals with a fault of the thread that runs the instance. False: it is none of ours. Async-signal-safe: atomics and one system call.
    pub(crate) fn on_fault(&self, address: usize, pc: usize) -> bool {
        let Some(offset) = address.checked_sub(self.base).filter(|offset| (*offset as u64) < RESERVATION_BYTES) else { return false };
        let chunk = offset / CHUNK_BYTES;
        let writable = MprotectFlags::READ | MprotectFlags::WRITE;
        if self.is_condemned() {
            return !self.code.contains(&pc) && self.protect(chunk..chunk + 1, writable);
        }
        let Some(word) = self.open.get(chunk / CHUNKS_PER_WORD).filter(|_| self.armed().contains(&chunk)) else { return false };
        if word.fetch_or(bit(chunk), Ordering::AcqRel) & bit(chunk) != 0 {
            return false;
        }
        let few = self.opened.fetch_add(1, Ordering::AcqRel) < OPENED_MAX;
        (few && self.protect(chunk..chunk + 1, writable)) || self.disarm()
    }

    /// Gives the memory of `pages` back to the system: what they hold is again what the mapping says, the base image or zeros. Not while code runs.
    pub(crate) fn give_back(&self, pages: Range<usize>) {
        if self.is_condemned() || pages.end * PAGE_BYTES > usize::try_from(RESERVATION_BYTES).unwrap_or(usize::MAX) {
            return;
        }
        let at = std::ptr::with_exposed_provenance_mut::<u8>(self.base + pages.start * PAGE_BYTES);
        // SAFETY: the pages lie in the reservation of a memory that is still there (see `new`), which is a private mapping of the base image and of
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
        // SAFETY: the chunks lie in the reservation of a memory that is still there (see `new`): either below `RESERVATION_BYTES` as a whole, or
        // in the armed range, which lay inside the memory, or where host code that wasmtime or a slice has bounds-checked meant to access it. A
        // read-only or inaccessible page is met by the handler or by nobody (see the module).
        #[expect(unsafe_code, reason = "protecting a memory is the purpose of the fence")]
        unsafe {
            rustix::mm::mprotect(at.cast(), chunks.len() * CHUNK_BYTES, flags).is_ok()
        }
    }
}

fn bit(chunk: usize) -> u64 {
    1 << (chunk % CHUNKS_PER_WORD)
}

/// Lets `fence` deal with the faults of the code that runs in `store`.
pub(crate) fn handle_faults<T: 'static>(store: &mut wasmtime::Store<T>, fence: std::sync::Arc<Fence>) {
    let handler = move |signal: libc::c_int, info: *const libc::siginfo_t, context: *const libc::c_void| {
        if signal != libc::SIGSEGV || info.is_null() || context.is_null() {
            return false;
        }
        // SAFETY: wasmtime hands on what the kernel gave its SIGSEGV handler under SA_SIGINFO: a fault's `siginfo_t` and a `ucontext_t`.
        #[expect(unsafe_code, reason = "reading what the kernel says of a fault")]
        let (address, context) = unsafe { ((*info).si_addr().addr(), &*context.cast::<libc::ucontext_t>()) };
        fence.on_fault(address, program_counter(context))
    };
    // SAFETY: the handler is async-signal-safe: it reads its arguments, uses atomics and makes one system call; it neither allocates nor locks.
    #[expect(unsafe_code, reason = "a fault handler is how armed memory is written")]
    unsafe {
        wasmtime::unix::StoreExt::set_signal_handler(store, handler);
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn program_counter(context: &libc::ucontext_t) -> usize {
    usize::try_from(context.uc_mcontext.gregs[libc::REG_RIP as usize]).unwrap_or(0)
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn program_counter(context: &libc::ucontext_t) -> usize {
    usize::try_from(context.uc_mcontext.pc).unwrap_or(0)
}
