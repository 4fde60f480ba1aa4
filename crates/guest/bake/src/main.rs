//! `bake IN.wasm MODULES OUT.wasm`: compiles the modules' scripts, runs `init` with their bytecode and writes the module again, its data
//! segments being the memory that init left and its loops polling.
//!
//! The result exports no `init` and no `compile`, and is the same bytes for the same input: nothing here depends on time or place.

mod polls;

use std::borrow::Cow;

use anyhow::{bail, ensure, Context, Result};
use wasm_encoder::{
    ConstExpr, DataSection, DataSegment, DataSegmentMode, ExportKind, ExportSection, GlobalSection, GlobalType, MemorySection, MemoryType,
    RawSection, ValType,
};
use wasmparser::{Operator, Parser, Payload};

/// Pages of the host's copy-on-write mapping: a segment never begins or ends inside one.
/// Zeros that are worth a segment of their own behind them: one takes about ten bytes.
const ZEROS_MIN: usize = 48;
const WASM_PAGE_BYTES: usize = 65_536;

/// The state after init.
struct State {
    memory: Vec<u8>,
    stack_pointer: i32,
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(from), Some(scripts), Some(to)) = (args.next(), args.next(), args.next()) else {
        bail!("usage: bake IN.wasm MODULES OUT.wasm")
    };
    let wasm = std::fs::read(&from).with_context(|| format!("cannot read {from}"))?;
    let scripts = std::fs::read(&scripts).with_context(|| format!("cannot read {scripts}"))?;
    let bytecode = compile(&wasm, &scripts)?;
    println!("compiled {} bytes of script into {} bytes", scripts.len(), bytecode.len());
    let state = run_init(&wasm, bytecode)?;
    let baked = polls::insert(&rewrite(&wasm, &state)?)?;
    wasmparser::validate(&baked).context("the baked module is not valid")?;
    std::fs::write(&to, &baked).with_context(|| format!("cannot write {to}"))?;
    println!("baked {} bytes of memory into a module of {} bytes", state.memory.len(), baked.len());
    Ok(())
}

/// What the host of a build knows: the input of the next call, and the bytecode that the guest has said.
#[derive(Default)]
struct Host {
    input: Vec<u8>,
    bytecode: Vec<u8>,
}

/// The kind of message that carries bytecode.
const BYTECODE: i32 = 100;

/// An instance whose host has no clock and no entropy.
fn instantiate(wasm: &[u8]) -> Result<(wasmi::Store<Host>, wasmi::Instance)> {
    let engine = wasmi::Engine::default();
    let module = wasmi::Module::new(&engine, wasm)?;
    let mut store = wasmi::Store::new(&engine, Host::default());
    let mut linker = wasmi::Linker::<Host>::new(&engine);
    linker.func_wrap("env", "__rquickjs_host_now_us", || 0f64)?;
    linker.func_wrap("host", "interrupt", || 0i32)?;
    linker.func_wrap("host", "stopped", || 0i32)?;
    linker.func_wrap("host", "blob", |_: i32, _: i32, _: i32, _: f64, _: i32, _: i32| -1f64)?;
    linker.func_wrap("host", "entropy", |_: i32, _: i32| {})?;
    linker.func_wrap("host", "input", |mut caller: wasmi::Caller<'_, Host>, at: i32, len: i32| {
        let input = std::mem::take(&mut caller.data_mut().input);
        if let Some(memory) = caller.get_export("memory").and_then(wasmi::Extern::into_memory) {
            let _ = memory.write(&mut caller, at as usize, &input[..input.len().min(len as usize)]);
        }
    })?;
    linker.func_wrap("host", "emit", |mut caller: wasmi::Caller<'_, Host>, kind: i32, at: i32, len: i32| -> i32 {
        let memory = caller.get_export("memory").and_then(wasmi::Extern::into_memory);
        let said =
            memory.and_then(|m| m.data(&caller).get(at as usize..at as usize + len as usize).map(<[u8]>::to_vec)).unwrap_or_default();
        if kind == BYTECODE {
            caller.data_mut().bytecode = said;
        } else {
            eprintln!("the guest says: {}", String::from_utf8_lossy(&said));
        }
        0
    })?;
    let instance = linker.instantiate_and_start(&mut store, &module)?;
    Ok((store, instance))
}

/// The bytecode of the scripts; both are rows of `NAME LENGTH\n` and LENGTH bytes.
fn compile(wasm: &[u8], scripts: &[u8]) -> Result<Vec<u8>> {
    let (mut store, instance) = instantiate(wasm)?;
    ensure!(instance.get_typed_func::<i32, i32>(&store, "init")?.call(&mut store, 0)? == 0, "init failed");
    let compile = instance.get_typed_func::<(i32, i32), i32>(&store, "compile")?;
    let mut all = Vec::new();
    let mut rest = scripts;
    while let Some(line) = rest.iter().position(|byte| *byte == b'\n') {
        let (name, len) = std::str::from_utf8(&rest[..line])?.rsplit_once(' ').context("a module without a length")?;
        let len: usize = len.parse()?;
        let script = rest.get(line + 1..line + 1 + len).context("a module that is cut off")?;
        store.data_mut().input = [name.as_bytes(), script].concat();
        ensure!(compile.call(&mut store, (name.len() as i32, len as i32))? == 0, "{name} cannot be compiled");
        let bytecode = std::mem::take(&mut store.data_mut().bytecode);
        all.extend_from_slice(format!("{name} {}\n", bytecode.len()).as_bytes());
        all.extend_from_slice(&bytecode);
        rest = &rest[line + 1 + len..];
    }
    ensure!(rest.is_empty(), "the modules end in something else");
    Ok(all)
}

/// Runs `init` with the bytecode of all modules.
fn run_init(wasm: &[u8], bytecode: Vec<u8>) -> Result<State> {
    let (mut store, instance) = instantiate(wasm)?;
    let init = instance.get_typed_func::<i32, i32>(&store, "init")?;
    let len = bytecode.len() as i32;
    store.data_mut().input = bytecode;
    ensure!(init.call(&mut store, len)? == 0, "init failed");
    let memory = instance.get_memory(&store, "memory").context("no memory")?;
    let pointer = instance.get_global(&store, "__stack_pointer").context("no __stack_pointer")?;
    let wasmi::Val::I32(stack_pointer) = pointer.get(&store) else { bail!("__stack_pointer is not an i32") };
    let mut memory = memory.data(&store).to_vec();
    // The stack lies first and grows down: below its pointer nothing is alive.
    let dead = memory.get_mut(..stack_pointer as usize).context("the stack pointer lies outside the memory")?;
    dead.fill(0);
    Ok(State { memory, stack_pointer })
}

fn rewrite(wasm: &[u8], state: &State) -> Result<Vec<u8>> {
    let segments = segments(&state.memory);
    let mut module = wasm_encoder::Module::new();
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::MemorySection(section) => module.section(&memory(section, state)?),
            Payload::GlobalSection(section) => module.section(&globals(section, state)?),
            Payload::ExportSection(section) => module.section(&exports(section)?),
            Payload::DataCountSection { .. } => module.section(&wasm_encoder::DataCountSection { count: segments.len() as u32 }),
            Payload::DataSection(section) => {
                for data in section {
                    ensure!(matches!(data?.kind, wasmparser::DataKind::Active { .. }), "a passive segment would be lost");
                }
                let mut data = DataSection::new();
                for (at, bytes) in &segments {
                    let offset = ConstExpr::i32_const(*at as i32);
                    data.segment(DataSegment {
                        mode: DataSegmentMode::Active { memory_index: 0, offset: &offset },
                        data: bytes.iter().copied(),
                    });
                }
                module.section(&data)
            }
            Payload::StartSection { .. } => bail!("a start function would run again"),
            Payload::CustomSection(_) => continue,
            Payload::CodeSectionEntry(body) => {
                for operator in body.get_operators_reader()? {
                    let fixed = !matches!(
                        operator?,
                        Operator::TableSet { .. }
                            | Operator::TableGrow { .. }
                            | Operator::TableFill { .. }
                            | Operator::MemoryInit { .. }
                            | Operator::DataDrop { .. }
                    );
                    ensure!(fixed, "the module changes a table or uses passive data: memory is not its whole state");
                }
                continue;
            }
            other => match other.as_section() {
                Some((id, range)) => module.section(&RawSection { id, data: &wasm[range.start as usize..range.end as usize] }),
                None => continue,
            },
        };
    }
    Ok(module.finish())
}

fn memory(section: wasmparser::MemorySectionReader<'_>, state: &State) -> Result<MemorySection> {
    let mut memories = MemorySection::new();
    for memory in section {
        let memory = memory?;
        let minimum = (state.memory.len() / WASM_PAGE_BYTES) as u64;
        memories.memory(MemoryType { minimum, maximum: memory.maximum, memory64: false, shared: false, page_size_log2: None });
    }
    ensure!(memories.len() == 1, "one memory is expected");
    Ok(memories)
}

/// The globals with their values after init; only the stack pointer may be mutable.
fn globals(section: wasmparser::GlobalSectionReader<'_>, state: &State) -> Result<GlobalSection> {
    let mut globals = GlobalSection::new();
    let mut mutable = 0;
    for global in section {
        let global = global?;
        ensure!(global.ty.content_type == wasmparser::ValType::I32, "a global that is no i32");
        let value = if global.ty.mutable {
            mutable += 1;
            state.stack_pointer
        } else {
            match global.init_expr.get_operators_reader().read()? {
                Operator::I32Const { value } => value,
                other => bail!("a global begins as {other:?}"),
            }
        };
        globals.global(GlobalType { val_type: ValType::I32, mutable: global.ty.mutable, shared: false }, &ConstExpr::i32_const(value));
    }
    ensure!(mutable == 1, "the stack pointer must be the only mutable global, not one of {mutable}");
    Ok(globals)
}

fn exports(section: wasmparser::ExportSectionReader<'_>) -> Result<ExportSection> {
    let mut exports = ExportSection::new();
    for export in section {
        let export = export?;
        if matches!(export.name, "init" | "compile") {
            continue;
        }
        let kind = match export.kind {
            wasmparser::ExternalKind::Func => ExportKind::Func,
            wasmparser::ExternalKind::Memory => ExportKind::Memory,
            wasmparser::ExternalKind::Global => ExportKind::Global,
            wasmparser::ExternalKind::Table => ExportKind::Table,
            other => bail!("an export of kind {other:?}"),
        };
        exports.export(export.name, kind, export.index);
    }
    Ok(exports)
}

/// The runs of bytes between long runs of zeros.
fn segments(memory: &[u8]) -> Vec<(usize, Cow<'_, [u8]>)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in memory.iter().enumerate().filter(|(_, byte)| **byte != 0) {
        match runs.last_mut() {
            Some(run) if at - run.1 < ZEROS_MIN => run.1 = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs.into_iter().map(|(from, to)| (from, Cow::Borrowed(&memory[from..to]))).collect()
}
