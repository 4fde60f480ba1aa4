//! What libraries draw from the system: hashes of maps, the order in which `select!` looks, uuids. On a thread that runs a seed they are drawn from the
//! seed, so that it is the same run every time; on every other thread from the system.

use std::cell::RefCell;

use crate::random::Random;

thread_local! {
    static SEEDED: RefCell<Option<Random>> = const { RefCell::new(None) };
}

/// From here on the calling thread draws from `seed`. Before its first map, or that has been drawn already.
pub fn seed_thread(seed: u64) {
    SEEDED.with(|seeded| *seeded.borrow_mut() = Some(Random::of(seed, &"entropy")));
}

/// Stands in for the C library's function of this name, in this test only.
///
/// # Safety
/// As for the function that it stands in for: `buffer` has room for `length` bytes.
#[expect(unsafe_code, reason = "the one way to give libraries another source of chance without changing the product; in a test only")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller gives a buffer of that length that nobody else uses meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    let seeded = SEEDED.try_with(|seeded| match seeded.borrow_mut().as_mut() {
        Some(random) => {
            for chunk in bytes.chunks_mut(8) {
                let drawn = random.next().to_le_bytes();
                chunk.copy_from_slice(&drawn[..chunk.len()]);
            }
            true
        }
        None => false,
    });
    if !seeded.unwrap_or(false) {
        use std::io::Read as _;
        let Ok(mut system) = std::fs::File::open("/dev/urandom") else { return -1 };
        if system.read_exact(bytes).is_err() {
            return -1;
        }
    }
    isize::try_from(length).unwrap_or(-1)
}
