//! A guest that is not ours: it calls what the host offers with whatever numbers the input holds.
//!
//! The module has the exports of `engine.wasm`. Its `eval` takes the cell's code as a list of calls: an operation and three numbers each, little
//! endian, in [`CALL_BYTES`]. The code lies in its memory, so a call may point at it, as a message that the host has to read.

use std::{sync::LazyLock, time::Duration};

use dormouse_engine::{Budget, CellSource, Engine, EngineError, OpResult, Settings};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, EntityType, ExportKind, ExportSection, Function, FunctionSection, GlobalSection, GlobalType,
    ImportSection, InstructionSink, MemArg, MemorySection, MemoryType, Module, TypeSection, ValType,
};

use super::shelf::Shelf;

/// Bytes of one call: operation, and three numbers.
const CALL_BYTES: i32 = 13;
/// Where in a call to `blob` the byte lies that is the content's name.
const NAME_OFFSET: i32 = 2;
/// Where the input lies.
const INPUT_AT: i32 = 1024;
const PAGES: u64 = 2;
const BUDGET: Budget = Budget { wall: Duration::from_millis(20), ticks: 100, output_bytes: 1 << 12, pending_operations: 4 };
const INPUT_BYTES_MAX: usize = 1 << 16;

static ENGINE: LazyLock<Option<Engine>> = LazyLock::new(|| Engine::of_module(&module()).ok());

/// Runs the calls, as a cell and as an answer. Only typed errors come of it, and a lost instance stays lost.
pub(super) fn imports(data: &[u8]) {
    let Some(engine) = &*ENGINE else { unreachable!("the hostile module is no module") };
    let data = data.get(..INPUT_BYTES_MAX.min(data.len())).unwrap_or_default();
    // Code is text on its way in: each byte is a character of its own, whose low byte counts.
    let code: String = data.iter().map(|byte| char::from(byte & 0x7f)).collect();
    let determinism =
        data.first().filter(|byte| **byte & 0x80 != 0).map(|byte| dormouse_engine::Determinism { seed: u64::from(*byte), epoch_ms: 0.0 });
    let Ok(mut instance) = engine.create(&Settings { heap_bytes: 1 << 20, determinism }) else { return };
    instance.set_blobs(Some(Shelf::new()));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    runtime.block_on(async {
        let cell = CellSource { code, filename: String::new(), is_async: false };
        let first = instance.eval(&cell, &BUDGET).await;
        let lost = first.is_err();
        let second = instance.deliver(1, &OpResult::Fired, &BUDGET).await;
        assert!(!lost || matches!(second, Err(EngineError::Poisoned)), "a lost instance goes on");
        let _ = (instance.delta().await, instance.image().await, instance.heap_bytes());
    });
}

/// Imports, by the index of their function.
const INPUT: u32 = 0;
const ENTROPY: u32 = 1;
const EMIT: u32 = 2;
const INTERRUPT: u32 = 3;
const STOPPED: u32 = 4;
const NOW: u32 = 5;
const BLOB: u32 = 6;

fn module() -> Vec<u8> {
    use ValType::{F64, I32};
    let mut types = TypeSection::new();
    types.ty().function([I32, I32], []);
    types.ty().function([I32, I32, I32], [I32]);
    types.ty().function([], [I32]);
    types.ty().function([], [F64]);
    types.ty().function([I32, I32, I32, I32, I32, I32], [I32]);
    types.ty().function([F64, I32, I32, I32, I32, I32], [I32]);
    types.ty().function([I32, I32, I32, F64, I32, I32], [F64]);
    let mut imports = ImportSection::new();
    for (from, name, ty) in [
        ("host", "input", 0),
        ("host", "entropy", 0),
        ("host", "emit", 1),
        ("host", "interrupt", 2),
        ("host", "stopped", 2),
        ("env", "__rquickjs_host_now_us", 3),
        ("host", "blob", 6),
    ] {
        imports.import(from, name, EntityType::Function(ty));
    }
    let mut functions = FunctionSection::new();
    functions.function(4).function(5).function(1);
    let mut memories = MemorySection::new();
    memories.memory(MemoryType { minimum: PAGES, maximum: None, memory64: false, shared: false, page_size_log2: None });
    let mut globals = GlobalSection::new();
    globals.global(GlobalType { val_type: I32, mutable: true, shared: false }, &ConstExpr::i32_const(INPUT_AT));
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0).export("__stack_pointer", ExportKind::Global, 0);
    exports.export("eval", ExportKind::Func, 7).export("deliver", ExportKind::Func, 8).export("abandon", ExportKind::Func, 9);
    let mut code = CodeSection::new();
    code.function(&eval()).function(&deliver()).function(&abandon());
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&memories).section(&globals).section(&exports).section(&code);
    module.finish()
}

/// Locals of `eval` after its parameters: where the next call lies, and where the calls end.
const AT: u32 = 6;
const END: u32 = 7;

fn eval() -> Function {
    let mut function = Function::new([(2, ValType::I32)]);
    let mut body = function.instructions();
    // The whole input: the name's bytes and the code's.
    body.i32_const(INPUT_AT).local_tee(AT).local_get(0).local_get(1).i32_add().call(INPUT);
    body.local_get(AT).local_get(1).i32_add().local_set(END);
    body.block(BlockType::Empty).loop_(BlockType::Empty);
    body.local_get(AT).i32_const(CALL_BYTES).i32_add().local_get(END).i32_gt_u().br_if(1);
    operation(&mut body, 0, |body| {
        number(number(number(body, 1), 5), 9).call(EMIT).drop();
    });
    operation(&mut body, 1, |body| {
        number(number(body, 1), 5).call(ENTROPY);
    });
    operation(&mut body, 2, |body| {
        number(number(body, 1), 5).call(INPUT);
    });
    for (code, import) in [(3, INTERRUPT), (4, STOPPED), (5, NOW)] {
        operation(&mut body, code, |body| {
            body.call(import).drop();
        });
    }
    operation(&mut body, 6, |body| {
        number(body, 1).i32_const(0xff).i32_and().memory_grow(0).drop();
    });
    operation(&mut body, 7, |body| {
        number(number(body, 1), 5).i32_store(MemArg { offset: 0, align: 0, memory_index: 0 });
    });
    operation(&mut body, 8, |body| {
        number(body, 1).global_set(0);
    });
    operation(&mut body, 9, |body| {
        body.unreachable();
    });
    operation(&mut body, 10, |body| {
        number(body, 1).return_();
    });
    // A message that lies in the input: its place counts from there, so that the fuzzer need not find it.
    operation(&mut body, 11, |body| {
        number(body, 1).i32_const(7).i32_and();
        number(body, 5).i32_const(0xffff).i32_and().i32_const(INPUT_AT).i32_add();
        number(body, 9).i32_const(0xffff).i32_and().call(EMIT).drop();
    });
    operation(&mut body, 12, |body| {
        number(number(number(body, 1), 5), 9).local_get(AT).f64_convert_i32_s();
        number(number(body, 9), 5).call(BLOB).drop();
    });
    // One whose name and bytes lie where something is: a byte of the name, and then bytes of the input.
    operation(&mut body, 13, |body| {
        number(body, 1).i32_const(7).i32_and().local_get(AT).i32_const(NAME_OFFSET).i32_add().i32_const(1);
        number(body, 5).f64_convert_i32_s().i32_const(INPUT_AT);
        number(body, 9).i32_const(0xffff).i32_and().call(BLOB).drop();
    });
    body.local_get(AT).i32_const(CALL_BYTES).i32_add().local_set(AT).br(0).end().end();
    body.i32_const(0).end();
    function
}

/// Does `what` when the call at hand is `operation`.
fn operation(body: &mut InstructionSink<'_>, operation: i32, what: impl FnOnce(&mut InstructionSink<'_>)) {
    body.local_get(AT).i32_load8_u(MemArg { offset: 0, align: 0, memory_index: 0 }).i32_const(operation).i32_eq().if_(BlockType::Empty);
    what(body);
    body.end();
}

/// A number of the call at hand: four bytes of seven bits each, sign included.
fn number<'a, 'b>(body: &'a mut InstructionSink<'b>, offset: u64) -> &'a mut InstructionSink<'b> {
    let byte = |n: u64| MemArg { offset: offset + n, align: 0, memory_index: 0 };
    body.local_get(AT).i32_load8_u(byte(0));
    // Text has no byte above 127 in one piece: the last is shifted by one more, which makes the sign.
    for (n, shift) in [(1, 8), (2, 16), (3, 25)] {
        body.local_get(AT).i32_load8_u(byte(n)).i32_const(shift).i32_shl().i32_or();
    }
    body
}

fn deliver() -> Function {
    let mut function = Function::new([]);
    // Its input is of its third parameter's size; what it says is one interrupt.
    function.instructions().i32_const(INPUT_AT).local_get(2).call(INPUT).call(INTERRUPT).end();
    function
}

fn abandon() -> Function {
    let mut function = Function::new([]);
    function.instructions().i32_const(0).end();
    function
}

/// One call of each operation, and a message of each kind.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let call = |operation: u8, numbers: [u8; 3]| -> Vec<u8> {
        let mut call = vec![operation];
        for number in numbers {
            call.extend_from_slice(&[number, 0, 0, 0]);
        }
        call
    };
    let mut seeds: Vec<Vec<u8>> = (0..9).map(|operation| call(operation, [1, 64, 8])).collect();
    let messages = [
        r#"{"id":1,"kind":{"timer":{"delayMs":5}}}"#,
        r#"{"level":"log","text":"x"}"#,
        r#"{"mimeType":"text/plain","data":"x"}"#,
        r#"{"ok":true,"value":1,"valueType":"number","preview":"1","error":null}"#,
        "[1]",
        "",
        r#"{"answered":1}"#,
    ];
    for (kind, message) in messages.iter().enumerate() {
        let mut seed = call(11, [u8::try_from(kind).unwrap_or(0), 13, u8::try_from(message.len()).unwrap_or(0)]);
        seed.extend_from_slice(message.as_bytes());
        seeds.push(seed);
    }
    seeds.push(call(12, [2, 64, 8]));
    // Asked, put, appended to, read, listed and removed, one after the other.
    seeds.push([0, 2, 3, 1, 5, 4].into_iter().flat_map(|verb| call(13, [verb, 0, 40])).collect());
    seeds
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Runs calls as a cell.
    fn run(seed: &[u8]) -> Result<dormouse_engine::Turn, EngineError> {
        run_with(seed, &Shelf::new())
    }

    fn run_with(seed: &[u8], shelf: &Arc<Shelf>) -> Result<dormouse_engine::Turn, EngineError> {
        let mut instance = ENGINE.as_ref().unwrap().create(&Settings { heap_bytes: 1 << 20, determinism: None }).unwrap();
        instance.set_blobs(Some(Arc::<Shelf>::clone(shelf)));
        let cell = CellSource { code: String::from_utf8(seed.to_vec()).unwrap(), filename: String::new(), is_async: false };
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(instance.eval(&cell, &BUDGET))
    }

    /// A hostile module that reaches nothing would show nothing.
    #[test]
    fn the_hostile_guest_reaches_every_import() {
        let seeds = seeds();
        let messages = &seeds[9..];
        assert_eq!(run(&messages[1]).unwrap().console[0].text, "x");
        assert_eq!(run(&messages[2]).unwrap().display[0].data, "x");
        assert_eq!(run(&messages[3]).unwrap().cell.unwrap().preview, "1");
        assert!(matches!(run(&messages[5]), Err(EngineError::Overrun)));
        assert_eq!(run(&seeds[3]).unwrap().ticks, 1);
        assert!(matches!(run(&seeds[8]), Err(EngineError::Protocol(_))), "a stack pointer that is left elsewhere");
        let (shelf, blobs) = (Shelf::new(), &seeds[seeds.len() - 1]);
        run_with(&blobs[..3 * 13], &shelf).unwrap();
        assert_eq!(shelf.bytes(), [80], "40 were put and as many appended");
        run_with(blobs, &shelf).unwrap();
        assert!(shelf.bytes().is_empty(), "and removed");
        assert!(matches!(run(&[0; 13]), Ok(_) | Err(EngineError::Protocol(_))));
        let mut far = vec![1];
        far.extend_from_slice(&[127; 12]);
        assert!(matches!(run(&far), Err(EngineError::Trap(_))), "memory that is not there");
    }
}
