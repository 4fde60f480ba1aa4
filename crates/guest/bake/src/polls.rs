//! Polls in a module's loops: code that runs for long asks the host, again and again, whether it may.
//!
//! Going back to the beginning of a loop takes what a round of it costs from a counter; when the counter is used up, the import `host.poll` is called, in which the host may
//! suspend the code or end it. A round costs the number of its instructions, so that polls come at about the same time apart whatever the loop does.
//! Copies and fills cost by their bytes, and large ones are made in chunks. Functions that call each other in a circle in which there is no loop
//! pay when they are entered.
//!
//! The counter is a global that is not exported: no part of a session's state, and nothing that a script can see.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{ensure, Result};
use wasm_encoder::{
    reencode::{self, utils, Reencode},
    BlockType, CodeSection, ConstExpr, EntityType, Function, FunctionSection, GlobalSection, GlobalType, ImportSection, Instruction,
    Module, TypeSection, ValType,
};
use wasmparser::{
    CodeSectionReader, FunctionBody, FunctionSectionReader, GlobalSectionReader, ImportSectionReader, Operator, Parser, Payload, TypeRef,
    TypeSectionReader,
};

/// What may be spent between two polls: instructions, some 30 to 100 µs of them.
const SPENT_MAX: i32 = 100_000;
/// What a round of a loop costs that chooses among many branches: it runs one of them, not all.
const DISPATCH_COST: i32 = 8;
/// A loop with so many branches is QuickJS's interpreter.
const INTERPRETER_BRANCHES_MIN: u32 = 200;
/// What a function costs that may be called in a circle.
const ENTRY_COST: i32 = 16;
/// Copies and fills: what each costs, and how many bytes cost one more.
const BULK_COST: i32 = 16;
const BULK_BYTES_PER_COST_LOG2: i32 = 2;
/// Bytes that are copied or filled between two polls.
const BULK_BYTES_MAX: i32 = 64 << 10;
/// A copy or fill of so many bytes, known beforehand, costs nothing.
const SMALL_BYTES_MAX: i32 = 256;

/// The module with polls. It imports `host.poll` besides what it did.
pub fn insert(wasm: &[u8]) -> Result<Vec<u8>> {
    let mut polls = Polls::of(wasm)?;
    let mut module = Module::new();
    polls.parse_core_module(&mut module, Parser::new(0), wasm).map_err(|error| anyhow::anyhow!("{error}"))?;
    println!("polls: {} loops, {} copies and fills, {} recursive functions", polls.loops, polls.bulk, polls.recursive.len());
    Ok(module.finish())
}

/// What is known of the module, by its own numbers, and what was done.
struct Polls {
    types: u32,
    imported: u32,
    functions: u32,
    globals: u32,
    /// Functions that pay when they are entered.
    recursive: BTreeSet<u32>,
    /// The number of the body that comes next.
    next_body: u32,
    loops: usize,
    bulk: usize,
}

impl Polls {
    fn of(wasm: &[u8]) -> Result<Self> {
        let mut polls =
            Self { types: 0, imported: 0, functions: 0, globals: 0, recursive: BTreeSet::new(), next_body: 0, loops: 0, bulk: 0 };
        let mut calls = BTreeMap::new();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(section) => polls.types = u32::try_from(section.into_iter_err_on_gc_types().count())?,
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        ensure!(matches!(import?.ty, TypeRef::Func(_)), "only functions are imported");
                        polls.imported += 1;
                    }
                }
                Payload::FunctionSection(section) => polls.functions = section.count(),
                Payload::GlobalSection(section) => polls.globals = section.count(),
                Payload::CodeSectionEntry(body) => {
                    let number = polls.imported + u32::try_from(calls.len())?;
                    calls.insert(number, loopless_calls(&body)?);
                }
                _ => {}
            }
        }
        ensure!(polls.imported > 0 && polls.globals > 0, "a module without imports or globals");
        polls.recursive = circles(&calls);
        polls.next_body = polls.imported;
        Ok(polls)
    }

    /// Types, by the new numbers: of a poll, and of a copy or fill.
    fn poll_type(&self) -> u32 {
        self.types
    }

    fn bulk_type(&self) -> u32 {
        self.types + 1
    }

    /// Functions, by the new numbers: the import comes after the others, what is added after everything.
    fn import(&self) -> u32 {
        self.imported
    }

    fn poll(&self) -> u32 {
        self.imported + 1 + self.functions
    }

    fn copy(&self) -> u32 {
        self.poll() + 1
    }

    fn fill(&self) -> u32 {
        self.poll() + 2
    }

    /// The counter.
    fn counter(&self) -> u32 {
        self.globals
    }

    /// Takes from the counter what `cost` leaves on the stack, and polls when nothing is left.
    fn spend(&self, to: &mut Function, cost: &[Instruction<'_>]) {
        to.instruction(&Instruction::GlobalGet(self.counter()));
        for instruction in cost {
            to.instruction(instruction);
        }
        to.instruction(&Instruction::I32Sub)
            .instruction(&Instruction::GlobalSet(self.counter()))
            .instruction(&Instruction::GlobalGet(self.counter()))
            .instruction(&Instruction::I32Const(0))
            .instruction(&Instruction::I32LtS)
            .instruction(&Instruction::If(BlockType::Empty))
            .instruction(&Instruction::Call(self.poll()))
            .instruction(&Instruction::End);
    }

    /// Fills the counter and asks the host. Apart from the loops, so that they stay small.
    fn poll_body(&self) -> Function {
        let mut body = Function::new([]);
        body.instruction(&Instruction::I32Const(SPENT_MAX))
            .instruction(&Instruction::GlobalSet(self.counter()))
            .instruction(&Instruction::Call(self.import()))
            .instruction(&Instruction::End);
        body
    }

    /// Copies or fills (to, from or value, bytes) chunk by chunk: from the end if `backwards`, so that a copy onto what lies above its source reads
    /// before it writes.
    fn chunks(&self, body: &mut Function, chunk: &Instruction<'_>, copies: bool, backwards: bool) {
        use Instruction::{Br, BrIf, End, I32Add, I32Const, I32LeU, I32Sub, LocalGet, LocalSet, Loop};
        const TO: u32 = 0;
        const FROM: u32 = 1;
        const BYTES: u32 = 2;
        let offset = |body: &mut Function, local: u32| {
            body.instruction(&LocalGet(local));
            if backwards {
                body.instruction(&LocalGet(BYTES)).instruction(&I32Add);
            }
        };
        let step = |body: &mut Function, local: u32, by: &Instruction<'_>| {
            body.instruction(&LocalGet(local)).instruction(&I32Const(BULK_BYTES_MAX)).instruction(by).instruction(&LocalSet(local));
        };
        body.instruction(&Instruction::Block(BlockType::Empty)).instruction(&Loop(BlockType::Empty));
        body.instruction(&LocalGet(BYTES)).instruction(&I32Const(BULK_BYTES_MAX)).instruction(&I32LeU).instruction(&BrIf(1));
        step(body, BYTES, &I32Sub);
        offset(body, TO);
        if copies {
            offset(body, FROM);
        } else {
            body.instruction(&LocalGet(FROM));
        }
        body.instruction(&I32Const(BULK_BYTES_MAX)).instruction(chunk);
        if !backwards {
            step(body, TO, &I32Add);
            if copies {
                step(body, FROM, &I32Add);
            }
        }
        self.spend(body, &[I32Const(BULK_BYTES_MAX >> BULK_BYTES_PER_COST_LOG2)]);
        body.instruction(&Br(0)).instruction(&End).instruction(&End);
    }

    fn bulk_body(&self, chunk: &Instruction<'_>, copies: bool) -> Function {
        use Instruction::{Else, End, I32Add, I32Const, I32GtU, I32LeU, I32ShrU, If, LocalGet};
        let mut body = Function::new([]);
        body.instruction(&LocalGet(2)).instruction(&I32Const(BULK_BYTES_MAX)).instruction(&I32GtU).instruction(&If(BlockType::Empty));
        if copies {
            body.instruction(&LocalGet(0)).instruction(&LocalGet(1)).instruction(&I32LeU).instruction(&If(BlockType::Empty));
            self.chunks(&mut body, chunk, copies, false);
            body.instruction(&Else);
            self.chunks(&mut body, chunk, copies, true);
            body.instruction(&End);
        } else {
            self.chunks(&mut body, chunk, copies, false);
        }
        body.instruction(&End);
        // What is left, or all of it.
        body.instruction(&LocalGet(0)).instruction(&LocalGet(1)).instruction(&LocalGet(2)).instruction(chunk);
        self.spend(&mut body, &[LocalGet(2), I32Const(BULK_BYTES_PER_COST_LOG2), I32ShrU, I32Const(BULK_COST), I32Add]);
        body.instruction(&End);
        body
    }
}

impl Reencode for Polls {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, reencode::Error> {
        Ok(if function < self.imported { function } else { function + 1 })
    }

    fn parse_type_section(&mut self, types: &mut TypeSection, section: TypeSectionReader<'_>) -> Result<(), reencode::Error> {
        utils::parse_type_section(self, types, section)?;
        types.ty().function([], []);
        types.ty().function([ValType::I32; 3], []);
        Ok(())
    }

    fn parse_import_section(&mut self, imports: &mut ImportSection, section: ImportSectionReader<'_>) -> Result<(), reencode::Error> {
        utils::parse_import_section(self, imports, section)?;
        imports.import("host", "poll", EntityType::Function(self.poll_type()));
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), reencode::Error> {
        utils::parse_function_section(self, functions, section)?;
        functions.function(self.poll_type()).function(self.bulk_type()).function(self.bulk_type());
        Ok(())
    }

    fn parse_global_section(&mut self, globals: &mut GlobalSection, section: GlobalSectionReader<'_>) -> Result<(), reencode::Error> {
        utils::parse_global_section(self, globals, section)?;
        globals.global(GlobalType { val_type: ValType::I32, mutable: true, shared: false }, &ConstExpr::i32_const(SPENT_MAX));
        Ok(())
    }

    fn parse_code_section(&mut self, code: &mut CodeSection, section: CodeSectionReader<'_>) -> Result<(), reencode::Error> {
        utils::parse_code_section(self, code, section)?;
        code.function(&self.poll_body());
        code.function(&self.bulk_body(&Instruction::MemoryCopy { src_mem: 0, dst_mem: 0 }, true));
        code.function(&self.bulk_body(&Instruction::MemoryFill(0), false));
        Ok(())
    }

    fn parse_function_body(&mut self, code: &mut CodeSection, body: FunctionBody<'_>) -> Result<(), reencode::Error> {
        let operators = body.get_operators_reader()?.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut costs = loop_costs(&operators).into_iter();
        let mut function = self.new_function_with_parsed_locals(&body)?;
        if self.recursive.contains(&self.next_body) {
            self.spend(&mut function, &[Instruction::I32Const(ENTRY_COST)]);
        }
        self.next_body += 1;
        // What it costs to go back to each open block: nothing unless it is a loop.
        let mut open = vec![0];
        let mut bytes = None;
        for operator in operators {
            let small = bytes.is_some_and(|bytes| (0..=SMALL_BYTES_MAX).contains(&bytes));
            bytes = if let Operator::I32Const { value } = operator { Some(value) } else { None };
            let back = |depth: u32| open.iter().rev().nth(depth as usize).copied().filter(|cost| *cost > 0);
            match &operator {
                Operator::Br { relative_depth } => {
                    if let Some(cost) = back(*relative_depth) {
                        self.spend(&mut function, &[Instruction::I32Const(cost)]);
                    }
                }
                Operator::BrIf { relative_depth } => {
                    if let Some(cost) = back(*relative_depth) {
                        function.instruction(&Instruction::If(BlockType::Empty));
                        self.spend(&mut function, &[Instruction::I32Const(cost)]);
                        function.instruction(&Instruction::Br(*relative_depth + 1)).instruction(&Instruction::End);
                        continue;
                    }
                }
                Operator::BrTable { targets } => {
                    let depths = targets.targets().collect::<Result<Vec<_>, _>>()?.into_iter().chain([targets.default()]);
                    if let Some(cost) = depths.filter_map(back).max() {
                        self.spend(&mut function, &[Instruction::I32Const(cost)]);
                    }
                }
                Operator::Loop { .. } => {
                    self.loops += 1;
                    open.push(costs.next().unwrap_or_default());
                }
                Operator::Block { .. } | Operator::If { .. } => open.push(0),
                Operator::End => drop(open.pop()),
                _ => {}
            }
            self.bulk += usize::from(!small && matches!(operator, Operator::MemoryCopy { .. } | Operator::MemoryFill { .. }));
            function.instruction(&match operator {
                Operator::MemoryCopy { .. } if !small => Instruction::Call(self.copy()),
                Operator::MemoryFill { .. } if !small => Instruction::Call(self.fill()),
                other => self.instruction(other)?,
            });
        }
        code.function(&function);
        Ok(())
    }
}

/// What a round of each loop costs, in order: its instructions without those of loops inside it. Nothing of the interpreter's, which polls by itself.
fn loop_costs(operators: &[Operator<'_>]) -> Vec<i32> {
    let mut costs: Vec<(i32, u32)> = Vec::new();
    // The loop that each open block belongs to.
    let mut open: Vec<Option<usize>> = vec![None];
    for operator in operators {
        let innermost = open.last().copied().flatten();
        if let Some((cost, branches)) = innermost.and_then(|inside| costs.get_mut(inside)) {
            *cost += 1;
            if let Operator::BrTable { targets } = operator {
                *branches = targets.len().max(*branches);
            }
        }
        match operator {
            Operator::Loop { .. } => {
                costs.push((1, 0));
                open.push(Some(costs.len() - 1));
            }
            Operator::Block { .. } | Operator::If { .. } => open.push(innermost),
            Operator::End => drop(open.pop()),
            _ => {}
        }
    }
    // Of the interpreter no loop costs anything: those inside are short, and it is the one function whose speed is everybody's.
    let interpreter = costs.iter().any(|(_, branches)| *branches >= INTERPRETER_BRANCHES_MIN);
    let cost = |(cost, branches): (i32, u32)| match branches {
        _ if interpreter => 0,
        0 => cost,
        _ => cost.min(DISPATCH_COST),
    };
    costs.into_iter().map(cost).collect()
}

/// What a function calls; nothing when it has a loop, in which it pays.
fn loopless_calls(body: &FunctionBody<'_>) -> Result<Vec<u32>> {
    let mut calls = Vec::new();
    for operator in body.get_operators_reader()? {
        match operator? {
            Operator::Loop { .. } => return Ok(Vec::new()),
            Operator::Call { function_index } => calls.push(function_index),
            _ => {}
        }
    }
    Ok(calls)
}

/// The functions that can come back to themselves.
fn circles(calls: &BTreeMap<u32, Vec<u32>>) -> BTreeSet<u32> {
    let comes_back = |start: u32| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![start]);
        while let Some(function) = left.pop() {
            for called in calls.get(&function).into_iter().flatten() {
                if *called == start {
                    return true;
                }
                if seen.insert(*called) {
                    left.push(*called);
                }
            }
        }
        false
    };
    calls.keys().copied().filter(|function| comes_back(*function)).collect()
}
