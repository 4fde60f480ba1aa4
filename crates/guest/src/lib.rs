//! QuickJS as a hibernatable guest: linear memory and `__stack_pointer` are the whole state between two calls.
//!
//! Every export is one turn. What a turn says goes out through [`boundary`]; nothing here reads a clock, draws entropy or keeps a handle by
//! itself. The build runs [`compile`] for each module in one instance and [`init`] in another,
//! and bakes the memory that [`init`] leaves into the module.

mod blobs;
mod boundary;
mod bytes;
mod ciphers;
mod compression;
mod crypto;
mod curves;
mod deflating;
mod encodings;
mod ends;
mod exit;
mod heap;
mod inflating;
mod modules;
mod natives;
mod packages;
mod parts;
mod random;
mod rejections;
mod rsa;
mod segments;
mod session;
mod single;
mod url;

use single::Single;

/// Stack that scripts may use. The wasm stack must be at least sixteen times as large, so that recursion throws before it traps.
const SCRIPT_STACK_BYTES: usize = 256 * 1024;

static SESSION: Single<Option<session::Session>> = Single::new(None);

/// Makes the runtime and evaluates the prelude. The input is the bytecode of all modules. 0 when it worked.
#[no_mangle]
pub extern "C" fn init(module_bytes: usize) -> i32 {
    if modules::keep(boundary::input(module_bytes)).is_none() {
        return -1;
    }
    match session::Session::new(SCRIPT_STACK_BYTES) {
        Some(session) => {
            *SESSION.get() = Some(session);
            0
        }
        None => -1,
    }
}

/// Emits the bytecode of a module, while the engine is built. The input is its name and its script. 0 when it worked.
#[no_mangle]
pub extern "C" fn compile(name_bytes: usize, code_bytes: usize) -> i32 {
    let Some(session) = SESSION.get() else { return -1 };
    let mut input = boundary::input(name_bytes + code_bytes);
    let code = input.split_off(name_bytes);
    session.compile(&String::from_utf8_lossy(&input), code)
}

/// Runs a cell. The input is `name_bytes` of file name and `code_bytes` of script. Answers the bytes in use in the heap.
#[no_mangle]
pub extern "C" fn eval(name_bytes: usize, code_bytes: usize, is_async: i32, reseed: i32, heap_bytes: usize, pending: i32) -> usize {
    let Some(session) = SESSION.get() else { return 0 };
    let mut input = boundary::input(name_bytes + code_bytes);
    let mut code = Vec::with_capacity(code_bytes + 2);
    code.push(b' ');
    code.extend_from_slice(&input[name_bytes..]);
    input.truncate(name_bytes);
    session.enter(reseed != 0, heap_bytes, pending);
    session.eval(input, code, is_async != 0);
    heap::used()
}

/// Delivers an answer: `status` 0 a JSON value, 1 a JSON error, 2 a timer, 3 a request of the host's. Answers the bytes in use in the heap.
#[no_mangle]
pub extern "C" fn deliver(op: f64, status: i32, bytes: usize, reseed: i32, heap_bytes: usize, pending: i32) -> usize {
    let Some(session) = SESSION.get() else { return 0 };
    let input = boundary::input(bytes);
    session.enter(reseed != 0, heap_bytes, pending);
    session.deliver(op, status, input);
    heap::used()
}

/// Ends the pending cell with the host's reason. Answers the bytes in use in the heap.
#[no_mangle]
pub extern "C" fn abandon(reseed: i32, heap_bytes: usize, pending: i32) -> usize {
    if let Some(session) = SESSION.get() {
        session.enter(reseed != 0, heap_bytes, pending);
        session.abandon();
    }
    heap::used()
}
