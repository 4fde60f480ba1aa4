//! The allocator of the JavaScript heap: libc's, with a limit, and what is freed is zero, in it and in Rust's.
//!
//! A page is stored as its difference to the base image, so what lies dead in it costs as much as what lives.

use std::alloc::{GlobalAlloc, Layout, System};

use rquickjs::{allocator::Allocator, qjs, Ctx};

use crate::single::Single;

extern "C" {
    fn malloc(size: usize) -> *mut u8;
    fn calloc(count: usize, size: usize) -> *mut u8;
    fn realloc(ptr: *mut u8, size: usize) -> *mut u8;
    fn free(ptr: *mut u8);
    fn malloc_usable_size(ptr: *mut u8) -> usize;
}

/// What reporting a failure may use beyond the limit, in bytes.
const REPORT_BYTES: usize = 2 * 1024 * 1024;

/// The largest request that QuickJS serves from its own arenas; their blocks differ by at least [`ARENA_STEP_BYTES`].
const ARENA_REQUEST_BYTES_MAX: usize = 504;
const ARENA_STEP_BYTES: usize = 8;
/// The largest blocks that most cells take.
const ARENA_KEPT_BYTES_MAX: usize = 128;

/// What a turn has at least, beyond the limit if need be: enough to let go of what fills the heap.
const TIDYING_BYTES: usize = 256 * 1024;

/// More than any gap has.
const FRESH_BYTES: usize = 256 * 1024;
/// Smaller gaps stay.
const GAP_BYTES_MIN: usize = 16;

struct State {
    /// In use in the base image, which a session shares: on top of its limit, and not said to be used.
    base: usize,
    used: usize,
    limit: usize,
    reserve: usize,
    denied: bool,
    oversize: bool,
}

static STATE: Single<State> = Single::new(State { base: 0, used: 0, limit: usize::MAX / 2, reserve: 0, denied: false, oversize: false });

/// Bytes in use beyond the base image's.
pub fn used() -> usize {
    let state = STATE.get();
    state.used.saturating_sub(state.base)
}

/// What is in use is the base image.
pub fn end_base() {
    let state = STATE.get();
    state.base = state.used;
}

/// Begins a turn with this limit. Where the heap is all but full it is a little more, so that a script can still put it in order.
pub fn begin(limit: usize) {
    let state = STATE.get();
    let limit = limit.saturating_add(state.base);
    state.limit = limit.max(state.used.min(limit).saturating_add(TIDYING_BYTES));
    state.reserve = 0;
    state.denied = false;
    state.oversize = false;
}

/// Lets the rest of the turn use a little more, so that the turn can say what happened.
pub fn open_reserve() {
    STATE.get().reserve = REPORT_BYTES;
}

/// Whether an allocation was refused in this turn.
pub fn denied() -> bool {
    STATE.get().denied
}

/// Whether one allocation was larger than the limit in this turn.
pub fn oversize() -> bool {
    STATE.get().oversize
}

/// Takes what lies free in QuickJS's arenas, zeroed and for good, without letting an arena be added. What a session allocates lies in arenas of its
/// own then, side by side, and not one block in each page of the base image: it changes fewer pages, and what it stores compresses better.
pub fn fill_arenas(ctx: &Ctx<'_>) {
    let limit = std::mem::replace(&mut STATE.get().limit, 0);
    for size in (ARENA_STEP_BYTES..=ARENA_REQUEST_BYTES_MAX).step_by(ARENA_STEP_BYTES) {
        loop {
            // SAFETY: each block has `size` bytes, and is nobody else's.
            unsafe {
                let block = qjs::js_malloc_rt(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), size as _).cast::<u8>();
                if block.is_null() {
                    break;
                }
                block.write_bytes(0, size);
            }
        }
    }
    STATE.get().limit = limit;
    // An arena of each size that cells use, whose first block keeps it: what a cell needs for itself is taken from there and given back, and the pages
    // are those of the base image again.
    for size in (ARENA_STEP_BYTES..=ARENA_KEPT_BYTES_MAX).step_by(ARENA_STEP_BYTES) {
        // SAFETY: the block is nobody else's, and is never freed.
        unsafe { std::hint::black_box(qjs::js_malloc_rt(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), size as _)) };
    }
    begin(limit);
}

/// The same for what lies free between blocks of the allocator itself, below where it goes on into fresh memory.
pub fn fill_gaps() {
    // SAFETY: each block that is written is nobody else's, and one that is freed is not used again.
    unsafe {
        let fresh = malloc(FRESH_BYTES);
        if fresh.is_null() {
            return;
        }
        free(std::hint::black_box(fresh));
        let mut size = FRESH_BYTES / 2;
        while size >= GAP_BYTES_MIN {
            loop {
                let block = malloc(size);
                if block.is_null() || block >= fresh {
                    free(block);
                    break;
                }
                block.write_bytes(0, size);
            }
            size = size / 4 * 3;
        }
    }
}

/// Frees a block as zeros.
///
/// # Safety
/// `ptr` came from libc's allocator, is not used again, and has `size` bytes.
unsafe fn release(ptr: *mut u8, size: usize) {
    ptr.write_bytes(0, size);
    // Hidden from the optimizer, which knows `free` and that nobody may read what was written just before it.
    free(std::hint::black_box(ptr));
}

/// Rust's own allocator: what is freed is zero, too. A block that grows is moved by the trait's own `realloc`, which frees the old one here.
struct Zeroing;

#[global_allocator]
static RUST: Zeroing = Zeroing;

// SAFETY: all of it is `System`'s; a block is written to only while it is still the caller's.
unsafe impl GlobalAlloc for Zeroing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        System.alloc(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        System.alloc_zeroed(layout)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        ptr.write_bytes(0, layout.size());
        System.dealloc(std::hint::black_box(ptr), layout);
    }
}

/// An allocator that refuses what would exceed the limit.
pub struct Limited;

impl Limited {
    fn admit(size: usize, instead_of: usize) -> bool {
        let state = STATE.get();
        let fits = (state.used - instead_of).saturating_add(size) <= state.limit.saturating_add(state.reserve);
        if !fits {
            state.denied = true;
            state.oversize |= size > state.limit - state.base;
        }
        fits
    }

    fn account(ptr: *mut u8) -> *mut u8 {
        if ptr.is_null() {
            STATE.get().denied = true;
        } else {
            // SAFETY: `ptr` came from this allocator.
            STATE.get().used += unsafe { malloc_usable_size(ptr) };
        }
        ptr
    }
}

// SAFETY: every block comes from libc's malloc family, which aligns to 8 and knows the size of its blocks.
unsafe impl Allocator for Limited {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !Self::admit(size, 0) {
            return std::ptr::null_mut();
        }
        Self::account(unsafe { malloc(size) })
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        match count.checked_mul(size) {
            Some(total) if Self::admit(total, 0) => Self::account(unsafe { calloc(count, size) }),
            _ => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        let size = malloc_usable_size(ptr);
        STATE.get().used -= size;
        release(ptr, size);
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        let old = if ptr.is_null() { 0 } else { malloc_usable_size(ptr) };
        if !Self::admit(new_size, old) {
            return std::ptr::null_mut();
        }
        let moved = match old.checked_sub(new_size) {
            _ if ptr.is_null() => malloc(new_size),
            // Never moves: what does not fit any more is given back, as zeros.
            Some(rest) => {
                ptr.add(new_size).write_bytes(0, rest);
                realloc(ptr, new_size)
            }
            // libc would move a block without a look at what it leaves behind.
            None => {
                let moved = malloc(new_size);
                if !moved.is_null() {
                    moved.copy_from_nonoverlapping(ptr, old);
                    release(ptr, old);
                }
                moved
            }
        };
        if moved.is_null() {
            STATE.get().denied = true;
        } else {
            STATE.get().used = STATE.get().used - old + malloc_usable_size(moved);
        }
        moved
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        malloc_usable_size(ptr)
    }
}
