//! One session's running heap.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use wasmtime::{Extern, Memory, ModuleExport, Store, TypedFunc, WasmParams};

use crate::{
    Blobs, Budget, CellEnd, CellError, CellSource, Delta, Engine, EngineError, EngineErrorCode, HostState, Image, InterruptHandle,
    OpResult, Outlet, PAGE_BYTES, Page, Settings, Turn,
    engine::{Instantiated, MutableGlobals, raw_bits},
    host::{Host, Stop},
    message,
    slice::SliceEnd,
    tracking::{Look, Tracker, Writes, ZERO},
};

/// Largest script or answer in bytes; the slack of linear memory has room for it twice.
const INPUT_BYTES_MAX: usize = 32 << 20;

/// Instead of an operation's id.
const NO_OPERATION: f64 = 0.0;
/// Instead of an answer's status: the bytes are a request.
const SERVE: i32 = 3;

/// The only mutable global of the module.
const STACK_POINTER: &str = "__stack_pointer";
/// Pages that are compared, copied or written at once: about as much work as a slice of code. What takes longer lets others go on in between.
const PAGES_AT_ONCE: usize = 256;
/// Pages that no frame skips: below such a run of zeros the stack was not used.
const UNTOUCHED_PAGES: usize = 16;

/// Parameters of the guest's `eval`: bytes of name and code, async, reseed, heap limit, operations that may wait.
type Eval = TypedFunc<(u32, u32, i32, i32, u32, i32), u32>;
/// Parameters of the guest's `deliver`: operation, status, bytes, reseed, heap limit, operations that may wait.
type Deliver = TypedFunc<(f64, i32, u32, i32, u32, i32), u32>;

/// One session's heap. `Send`; its futures yield to the runtime while code runs. The future of a turn that is dropped before its end poisons the instance.
pub struct Instance {
    store: Store<Host>,
    memory: Memory,
    writes: Writes,
    eval: Eval,
    deliver: Deliver,
    abandon: TypedFunc<(i32, u32, i32), u32>,
    engine: Engine,
    globals: MutableGlobals,
    heap_limit: u64,
    memory_bytes_max: usize,
    tracker: Tracker,
    /// Pages of the dead stack that are zeros.
    dead: Range<usize>,
    poisoned: bool,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("poisoned", &self.poisoned).field("state", &self.store.data().state).finish_non_exhaustive()
    }
}

impl Instance {
    /// One that has run nothing.
    ///
    /// # Errors
    /// [`EngineError::Create`] when the process has no room for one more.
    pub(crate) fn new(engine: &Engine, settings: &Settings) -> Result<Self, EngineError> {
        let Instantiated { mut store, instance, memory, globals, heap_limit, memory_bytes_max } = engine.instantiate(settings)?;
        let exports = engine.exports();
        let eval = function(&mut store, &instance, &exports.eval)?;
        let deliver = function(&mut store, &instance, &exports.deliver)?;
        let abandon = function(&mut store, &instance, &exports.abandon)?;
        let writes = Writes::of(&mut store, memory, memory_bytes_max);
        Ok(Self {
            store,
            memory,
            writes,
            eval,
            deliver,
            abandon,
            engine: engine.clone(),
            globals,
            heap_limit,
            memory_bytes_max,
            tracker: Tracker::new(),
            dead: 0..0,
            poisoned: false,
        })
    }

    /// Grows memory to `bytes`, if it has fewer.
    pub(crate) fn reach(&mut self, bytes: u64) -> Result<(), EngineError> {
        if bytes > self.memory_bytes_max as u64 {
            return Err(EngineError::Image("the memory is larger than the heap limit allows".to_owned()));
        }
        let missing = bytes.saturating_sub(self.memory.data_size(&self.store) as u64) / self.memory.page_size(&self.store);
        if missing > 0 {
            self.memory.grow(&mut self.store, missing).map_err(|error| EngineError::Create(format!("{error:#}")))?;
        }
        Ok(())
    }

    /// Lays differences to the base over memory, and takes that for committed.
    pub(crate) async fn apply(&mut self, pages: &BTreeMap<u32, Page>, state: HostState) {
        let pages: Vec<(&u32, &Page)> = pages.iter().collect();
        for (part, pages) in pages.chunks(PAGES_AT_ONCE).enumerate() {
            others_before(part).await;
            let base = self.engine.base();
            let (memory, _) = self.memory.data_mut(&mut self.store).as_chunks_mut();
            self.writes.note(|| {
                for (number, page) in pages {
                    if let Some(to) = memory.get_mut(**number as usize) {
                        base.apply(**number as usize, page, to);
                        self.tracker.restored(base, **number, to);
                    }
                }
            });
        }
        self.store.data_mut().state = state;
    }

    /// Runs a cell until it ends or awaits the world. A cell that was still pending is abandoned: its end is never reported.
    ///
    /// # Errors
    /// Any error poisons the instance: discard it. A script's own failure is no error.
    pub async fn eval(&mut self, cell: &CellSource, budget: &Budget) -> Result<Turn, EngineError> {
        if cell.code.len() + cell.filename.len() > INPUT_BYTES_MAX {
            return Ok(too_large(cell.code.len()));
        }
        let input = [cell.filename.as_bytes(), cell.code.as_bytes()].concat();
        let (name_bytes, code_bytes) = (size(cell.filename.len()), size(cell.code.len()));
        let (reseed, heap, pending) = self.begin(budget, input)?;
        self.store.data_mut().begin_cell(&cell.filename);
        let args = (name_bytes, code_bytes, i32::from(cell.is_async), reseed, heap, pending);
        let used = self.writes.watch(self.eval.call_async(&mut self.store, args)).await;
        self.end(used)
    }

    /// Delivers the answer of operation `op` and runs what waits for it. An unknown `op` does nothing.
    ///
    /// # Errors
    /// Any error poisons the instance: discard it.
    pub async fn deliver(&mut self, op: u64, result: &OpResult, budget: &Budget) -> Result<Turn, EngineError> {
        let too_large = OpResult::Err { name: "RangeError".to_owned(), message: "the answer is too large for a session".to_owned() };
        let (mut status, mut input) = answer(result)?;
        if input.len() > INPUT_BYTES_MAX {
            (status, input) = answer(&too_large)?;
        }
        let bytes = size(input.len());
        let (reseed, heap, pending) = self.begin(budget, input)?;
        #[expect(clippy::cast_precision_loss, reason = "ids count operations of one session, far below 2^53")]
        let used = self.writes.watch(self.deliver.call_async(&mut self.store, (op as f64, status, bytes, reseed, heap, pending))).await;
        self.end(used)
    }

    /// Asks what no cell asks: about the session's files. [`Turn::answer`] is what the guest says.
    ///
    /// # Errors
    /// Any error poisons the instance: discard it.
    pub async fn serve(&mut self, request: &serde_json::Value, budget: &Budget) -> Result<Turn, EngineError> {
        let input = serde_json::to_vec(request).map_err(|error| EngineError::Protocol(error.to_string()))?;
        let bytes = size(input.len());
        let (reseed, heap, pending) = self.begin(budget, input)?;
        let used = self.writes.watch(self.deliver.call_async(&mut self.store, (NO_OPERATION, SERVE, bytes, reseed, heap, pending))).await;
        self.end(used)
    }

    /// Ends the pending cell, if there is one, with `code`. Nothing of it goes on, its timers are gone, and [`OpKind::Cancel`](crate::OpKind::Cancel) says
    /// what else it does not wait for any more.
    ///
    /// # Errors
    /// Any error poisons the instance: discard it.
    pub async fn abandon(&mut self, code: EngineErrorCode, budget: &Budget) -> Result<Turn, EngineError> {
        let (reseed, heap, pending) = self.begin(budget, Vec::new())?;
        let used = self.writes.watch(self.abandon.call_async(&mut self.store, (reseed, heap, pending))).await;
        let mut turn = self.end(used)?;
        if let Some(cell) = &mut turn.cell {
            message::stopped(cell, code);
        }
        Ok(turn)
    }

    /// The engine that runs this instance.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What changed since the last [`Self::mark_committed`], or since create or restore. Nothing of a poisoned instance. Others get their turns in
    /// between, as with code that runs.
    pub async fn delta(&mut self) -> Delta {
        let pages = if self.poisoned { Vec::new() } else { self.changed().await };
        Delta {
            memory_pages: size(self.memory.data_size(&self.store) / PAGE_BYTES),
            globals: self.engine.globals().clone(),
            host: self.store.data().state.clone(),
            pages,
        }
    }

    async fn changed(&mut self) -> Vec<(u32, Page)> {
        let mut suspects = self.writes.since_commit(self.memory.data_size(&self.store) / PAGE_BYTES);
        // Zeros they were in every image, too: an instance looks at no more than it has to after each cell.
        let (dead, base) = (&self.dead, self.engine.base());
        suspects.retain(|page| !dead.contains(page) || !base.begins_with_zeros(*page) || self.tracker.differed(*page));
        let mut look = Look::default();
        for (part, suspects) in suspects.chunks(PAGES_AT_ONCE).enumerate() {
            others_before(part).await;
            self.tracker.look(&mut look, self.engine.base(), self.memory.data(&self.store), suspects);
        }
        self.tracker.looked(look)
    }

    /// The state of the last [`Self::delta`] is stored now: the next delta is relative to it.
    pub fn mark_committed(&mut self) {
        self.tracker.commit();
        if self.poisoned {
            return;
        }
        // The dead stack is cleared outside of turns.
        self.writes.committed(self.tracker.committed_pages(), self.memory.data_size(&self.store), self.stack_bytes());
    }

    /// Gives back to the system what the instance holds and does not need: pages that are as in the base image again, the dead stack among them. They
    /// cost a fault each when they are next written, so this is for an instance that will rest for a while. Changes nothing that can be seen.
    /// Answers how many pages; none where the kernel does not tell which pages are the instance's own.
    pub fn give_back(&mut self) -> usize {
        if self.poisoned {
            return 0;
        }
        let memory = self.memory.data(&self.store);
        let Some(own) = self.writes.own(memory.len() / PAGE_BYTES) else { return 0 };
        let unused = self.tracker.unused(self.engine.base(), memory, own.into_iter());
        for run in runs(&unused) {
            self.writes.give_back(run);
        }
        unused.len()
    }

    /// The whole state. Of a poisoned instance, nothing. Others get their turns in between, as with code that runs.
    pub async fn image(&mut self) -> Image {
        let all = self.memory.data_size(&self.store) / PAGE_BYTES;
        let ever = if self.poisoned { Vec::new() } else { self.writes.ever(all) };
        let mut pages = BTreeMap::new();
        for (part, ever) in ever.chunks(PAGES_AT_ONCE).enumerate() {
            others_before(part).await;
            pages.extend(self.engine.base().differing(self.memory.data(&self.store), ever));
        }
        Image { memory_pages: size(all), globals: self.engine.globals().clone(), host: self.store.data().state.clone(), pages }
    }

    /// Bytes in use in the JavaScript heap after the last turn; 0 before the first.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        self.store.data().state.heap_bytes
    }

    /// Bytes that its memory has grown by, where [`Growth`](crate::Growth) is asked for them. They are given back when the instance is gone, not before.
    #[must_use]
    pub fn grown_bytes(&self) -> u64 {
        self.store.data().limits.taken()
    }

    /// A handle with which another task interrupts running code. What was asked for before it is taken is forgotten; what is asked for
    /// afterwards ends the next turn, also when that has not begun.
    #[must_use]
    pub fn interrupt_handle(&self) -> InterruptHandle {
        let handle = self.store.data().interrupt.clone();
        handle.forget();
        handle
    }

    /// Whether somebody asked for the end of the last turn so late that it had ended by then. Answers once.
    pub fn missed_interrupt(&mut self) -> bool {
        self.store.data().interrupt.take()
    }

    /// Who sees output while code runs, besides the [`Turn`] that collects it.
    pub fn set_outlet(&mut self, outlet: Option<Outlet>) {
        self.store.data_mut().outlet = outlet;
    }

    /// Who keeps what the session has outside its heap. Not part of any snapshot: who restores an instance sets it anew.
    pub fn set_blobs(&mut self, blobs: Option<Arc<dyn Blobs>>) {
        self.store.data_mut().blobs = blobs;
    }

    /// Begins a turn; poisoned until [`Self::end`] says otherwise.
    fn begin(&mut self, budget: &Budget, input: Vec<u8>) -> Result<(i32, u32, i32), EngineError> {
        if std::mem::replace(&mut self.poisoned, true) {
            return Err(EngineError::Poisoned);
        }
        let heap = u32::try_from(self.heap_limit).unwrap_or(u32::MAX);
        let host = self.store.data_mut();
        host.begin(budget, input);
        Ok((i32::from(!host.deterministic()), heap, i32::try_from(budget.pending_operations).unwrap_or(i32::MAX)))
    }

    /// The stack lies first in memory and grows down, so at a boundary everything below its pointer is dead.
    fn stack_bytes(&self) -> usize {
        self.engine.globals().get(STACK_POINTER).and_then(|top| usize::try_from(*top).ok()).unwrap_or(0)
    }

    /// As zeros the dead stack costs no page.
    fn clear_stack(&mut self) {
        let top = self.stack_bytes();
        if let Some(stack) = self.memory.data_mut(&mut self.store).get_mut(..top) {
            self.dead = self.writes.note(|| clear_down(stack));
        }
    }

    fn end(&mut self, used: wasmtime::Result<u32>) -> Result<Turn, EngineError> {
        match self.store.data().overrun {
            Some(Stop::Requested) => return Err(EngineError::Interrupted),
            Some(_) => return Err(EngineError::Overrun),
            None if self.store.data().unfinished => return Err(EngineError::Overrun),
            None => {}
        }
        let used = used.map_err(|error| EngineError::Trap(format!("{error:#}")))?;
        if let Some(fault) = self.store.data_mut().fault.take() {
            return Err(EngineError::Protocol(fault));
        }
        for (name, global) in &self.globals {
            if Some(&raw_bits(name, *global, &mut self.store)?) != self.engine.globals().get(name) {
                return Err(EngineError::Protocol("a turn ended with something left on the stack".to_owned()));
            }
        }
        self.clear_stack();
        let host = self.store.data_mut();
        host.state.heap_bytes = u64::from(used);
        self.poisoned = false;
        Ok(host.end())
    }
}

/// Lets others go on before every part of a long work but the first.
async fn others_before(part: usize) {
    if part > 0 {
        SliceEnd::default().await;
    }
}

fn function<P: WasmParams>(
    store: &mut Store<Host>,
    instance: &wasmtime::Instance,
    export: &ModuleExport,
) -> Result<TypedFunc<P, u32>, EngineError> {
    let found = instance.get_module_export(&mut *store, export).and_then(Extern::into_func);
    let found = found.ok_or_else(|| EngineError::Create("an export is no function".to_owned()))?;
    found.typed(&*store).map_err(|error| EngineError::Create(format!("{error:#}")))
}

/// Ascending numbers as ranges.
fn runs(numbers: &[usize]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some(run) if run.end == number => run.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}

/// Zeroes what a turn has left on its dead stack, from the top down to the first run of untouched pages. Answers which pages are zeros now.
fn clear_down(stack: &mut [u8]) -> Range<usize> {
    let (all, mut cleared, mut untouched) = (stack.len() / PAGE_BYTES, 0, 0);
    for page in stack.rchunks_mut(PAGE_BYTES) {
        if page == ZERO {
            untouched += 1;
            if untouched == UNTOUCHED_PAGES {
                break;
            }
        } else {
            untouched = 0;
            page.fill(0);
        }
        cleared += 1;
    }
    // Of a stack that ends inside a page, the chunks are no pages.
    if stack.len().is_multiple_of(PAGE_BYTES) { all - cleared..all } else { 0..0 }
}

/// The guest's status number and the JSON that goes with it.
fn answer(result: &OpResult) -> Result<(i32, Vec<u8>), EngineError> {
    let json = |value: &serde_json::Value| serde_json::to_vec(value).map_err(|error| EngineError::Protocol(error.to_string()));
    Ok(match result {
        OpResult::Ok(value) => (0, json(value)?),
        OpResult::Err { name, message } => (1, json(&serde_json::json!({ "name": name, "message": message }))?),
        OpResult::Fired => (2, Vec::new()),
    })
}

fn too_large(bytes: usize) -> Turn {
    let error = CellError {
        code: EngineErrorCode::SyntaxError,
        name: "SyntaxError".to_owned(),
        message: format!("the cell has {bytes} bytes; at most {INPUT_BYTES_MAX} fit"),
        stack: String::new(),
        line: 0,
        column: 0,
    };
    let cell = CellEnd { ok: false, value: None, value_type: "undefined".to_owned(), preview: String::new(), error: Some(error) };
    Turn { cell: Some(cell), ..Turn::default() }
}

/// Sizes inside a 32-bit memory.
fn size(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
