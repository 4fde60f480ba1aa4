//! The imports: everything that the guest learns from and tells to the host, except the clock, which QuickJS imports by itself.

#[link(wasm_import_module = "host")]
extern "C" {
    #[link_name = "input"]
    fn host_input(ptr: *mut u8, len: usize);
    #[link_name = "emit"]
    fn host_emit(kind: i32, ptr: *const u8, len: usize) -> i32;
    #[link_name = "interrupt"]
    fn host_interrupt() -> i32;
    #[link_name = "stopped"]
    fn host_stopped() -> i32;
    #[link_name = "blob"]
    fn host_blob(verb: i32, name: *const u8, name_len: usize, option: f64, data: *mut u8, data_len: usize) -> f64;
    #[link_name = "entropy"]
    fn host_entropy(ptr: *mut u8, len: usize);
}

#[link(wasm_import_module = "env")]
extern "C" {
    #[link_name = "__rquickjs_host_now_us"]
    fn host_now_us() -> f64;
}

/// Kind of message: how a cell ended, as JSON.
pub const CELL: i32 = 3;
/// Kind of message: jobs are left though the host has said stop, so the turn cannot end.
pub const UNFINISHED: i32 = 5;
/// The bytecode of a module, while the engine is built.
pub const BYTECODE: i32 = 100;

/// The turn's input, of `len` bytes.
pub fn input(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: the host writes exactly `len` bytes.
    unsafe { host_input(bytes.as_mut_ptr(), len) };
    bytes
}

/// Tells the host something; not 0 when it refuses.
pub fn emit(kind: i32, bytes: &[u8]) -> i32 {
    // SAFETY: the host reads exactly these bytes.
    unsafe { host_emit(kind, bytes.as_ptr(), bytes.len()) }
}

/// Asks the host about a content that lies outside the heap. Below -1: an error of minus two minus that many bytes is the next [`input`]. The host may
/// suspend the turn in here.
///
/// # Safety
/// `data` names memory of the guest that may be written.
pub unsafe fn blob(verb: i32, name: &[u8], option: f64, data: (*mut u8, usize)) -> f64 {
    host_blob(verb, name.as_ptr(), name.len(), option, data.0, data.1)
}

/// Whether the running code must stop. The host may suspend the turn in here.
pub fn interrupt() -> bool {
    // SAFETY: no memory crosses.
    unsafe { host_interrupt() != 0 }
}

/// Whether [`interrupt`] has answered yes in this turn.
pub fn stopped() -> bool {
    // SAFETY: no memory crosses.
    unsafe { host_stopped() != 0 }
}

/// Fills `bytes` with entropy.
pub fn entropy(bytes: &mut [u8]) {
    // SAFETY: the host writes exactly these bytes.
    unsafe { host_entropy(bytes.as_mut_ptr(), bytes.len()) }
}

/// Milliseconds since 1970 by the session's clock.
pub fn now_ms() -> f64 {
    // SAFETY: no memory crosses.
    unsafe { host_now_us() / 1000.0 }
}
