//! The host's side of the boundary: what the guest may ask for, and what a turn collects.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rand::RngCore as _;
use sha2::{Digest as _, Sha256};
use wasmtime::Memory;

use crate::{
    Budget, ConsoleLine, Determinism, Display, EngineErrorCode, HostState, Progress, Turn,
    blobs::Keeper,
    cpu_clock,
    growth::Limits,
    message::{self, Kind, Message},
    slice::SLICE,
};

/// What a turn may take beyond its wall-clock budget inside builtins, which cannot be ended by an exception: one part of the budget in so many. Then the
/// instance is given up.
const GRACE_SHARE: u32 = 2;

/// How long a builtin may go on that no exception ends, after somebody asked for its end, while it runs. Then the instance is given up.
const INTERRUPT_GRACE: Duration = Duration::from_millis(100);

/// Bytes of host operations that one turn may ask for.
const OPERATION_BYTES_MAX: usize = 64 << 20;
/// Bytes of a message beside the text that counts.
const MESSAGE_FRAME_BYTES_MAX: usize = 1_024;
/// Bytes that JSON writes for one byte of text at most.
const ESCAPED_BYTES_MAX: usize = 6;
/// In how many forms what a turn says is kept at a time: as JSON, parsed, in the turn, in the event, in the record.
const FORMS_OF_SAID: usize = 6;
/// What a word of progress takes from the output budget beside its note.
const PROGRESS_BYTES: usize = 16;

/// Interrupts running code from another task. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct InterruptHandle(Arc<AtomicBool>);

impl InterruptHandle {
    /// Ends the code that runs now, or the turn that begins next, with `Interrupted`.
    pub fn interrupt(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether somebody has asked, once.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }

    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What code writes while it runs.
#[derive(Debug, Clone, Copy)]
pub enum Output<'a> {
    /// A console line.
    Console(&'a ConsoleLine),
    /// A rendering.
    Display(&'a Display),
    /// How far the cell has come.
    Progress(&'a Progress),
}

/// Sees output when it is written. Must not block: the code waits.
pub type Outlet = Box<dyn FnMut(Output<'_>) + Send + Sync>;

/// Why running code must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Wall,
    Ticks,
    Requested,
    Output,
    Memory,
}

impl Stop {
    pub(crate) fn code(self) -> EngineErrorCode {
        match self {
            Self::Wall => EngineErrorCode::TimeoutError,
            Self::Ticks => EngineErrorCode::TickBudgetExceeded,
            Self::Requested => EngineErrorCode::Interrupted,
            Self::Output => EngineErrorCode::OutputLimitError,
            Self::Memory => EngineErrorCode::MemoryLimitError,
        }
    }
}

/// What the host knows of one instance.
pub(crate) struct Host {
    pub(crate) state: HostState,
    pub(crate) limits: Limits,
    pub(crate) memory: Option<Memory>,
    pub(crate) interrupt: InterruptHandle,
    pub(crate) stop: Option<Stop>,
    pub(crate) turn: Turn,
    pub(crate) fault: Option<String>,
    /// The turn was stopped and left jobs that would run for ever.
    pub(crate) unfinished: bool,
    /// Why the turn was ended where it stood, more than its grace after it should have ended.
    pub(crate) overrun: Option<Stop>,
    /// The time that had gone when a poll inside a builtin first saw that somebody asks for the end.
    asked_after: Option<Duration>,
    pub(crate) outlet: Option<Outlet>,
    pub(crate) blobs: Keeper,
    determinism: Option<Determinism>,
    input: Vec<u8>,
    value: Option<serde_json::Value>,
    budget: Budget,
    output_left: u64,
    operation_bytes: usize,
    slice_began: Instant,
    /// The thread's processor time then.
    slice_began_cpu: Duration,
    ran: Duration,
    /// Time for which code waited inside the turn.
    waited: Duration,
}

impl Host {
    pub(crate) fn new(determinism: Option<Determinism>, limits: Limits, state: HostState) -> Self {
        Self {
            state,
            limits,
            memory: None,
            interrupt: InterruptHandle::default(),
            stop: None,
            turn: Turn::default(),
            fault: None,
            unfinished: false,
            overrun: None,
            asked_after: None,
            outlet: None,
            blobs: None,
            determinism,
            input: Vec::new(),
            value: None,
            budget: Budget::default(),
            output_left: 0,
            operation_bytes: 0,
            slice_began: Instant::now(),
            slice_began_cpu: Duration::ZERO,
            ran: Duration::ZERO,
            waited: Duration::ZERO,
        }
    }

    pub(crate) fn deterministic(&self) -> bool {
        self.determinism.is_some()
    }

    /// Begins a turn.
    pub(crate) fn begin(&mut self, budget: &Budget, input: Vec<u8>) {
        self.stop = None;
        self.turn = Turn::default();
        self.fault = None;
        self.input = input;
        self.value = None;
        self.budget = *budget;
        self.output_left = budget.output_bytes;
        self.limits.give_back_said();
        self.operation_bytes = 0;
        self.asked_after = None;
        self.ran = Duration::ZERO;
        self.waited = Duration::ZERO;
        self.resume();
    }

    /// Begins a cell of this name.
    pub(crate) fn begin_cell(&mut self, filename: &str) {
        self.state.cell_began_ms = self.now_ms();
        filename.clone_into(&mut self.state.cell_filename);
    }

    /// Ends the turn and hands over what it collected.
    pub(crate) fn end(&mut self) -> Turn {
        self.pause();
        if self.stop == Some(Stop::Requested) {
            self.interrupt.forget();
        }
        let mut turn = std::mem::take(&mut self.turn);
        turn.cpu = self.ran;
        self.input = Vec::new();
        if let Some(stop) = self.stop {
            match &mut turn.cell {
                Some(cell) => message::stopped(cell, stop.code()),
                None => {
                    let line = message::stopped_line(stop.code(), self.now_ms() - self.state.cell_began_ms);
                    self.write(Output::Console(&line));
                    turn.console.push(line);
                }
            }
        }
        turn
    }

    /// Milliseconds since 1970 by the session's clock: a deterministic one advances 1 ms a tick.
    pub(crate) fn now_ms(&self) -> f64 {
        match self.determinism {
            #[expect(clippy::cast_precision_loss, reason = "a session's ticks stay far below 2^53")]
            Some(seeded) => seeded.epoch_ms + self.state.ticks as f64,
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1000.0),
        }
    }

    /// One poll of the interrupt handler: whether the code must stop.
    pub(crate) fn tick(&mut self) -> bool {
        self.state.ticks += 1;
        self.turn.ticks += 1;
        if self.stop.is_none() {
            self.stop = if self.interrupt.is_asked() {
                Some(Stop::Requested)
            } else if self.budget.ticks != 0 && self.turn.ticks > self.budget.ticks {
                Some(Stop::Ticks)
            } else if self.is_over(self.budget.wall) {
                Some(Stop::Wall)
            } else {
                None
            };
        }
        self.stop.is_some()
    }

    /// One poll inside a builtin: whether the turn must end here.
    pub(crate) fn overran(&mut self) -> bool {
        if self.is_over(self.budget.wall.saturating_add(self.budget.wall / GRACE_SHARE)) {
            self.overrun = Some(Stop::Wall);
        } else if self.stop.is_none() && self.interrupt.is_asked() {
            let gone = self.ran + self.waited + self.slice_ran();
            if gone.saturating_sub(*self.asked_after.get_or_insert(gone)) > INTERRUPT_GRACE {
                self.overrun = Some(Stop::Requested);
            }
        }
        self.overrun.is_some()
    }

    /// Whether the turn has taken longer than this.
    fn is_over(&self, most: Duration) -> bool {
        let before = self.ran + self.waited;
        before + self.slice_began.elapsed() > most && before + self.slice_ran() > most
    }

    /// Whether other sessions should have their turn now.
    pub(crate) fn slice_over(&self) -> bool {
        self.slice_began.elapsed() >= SLICE
    }

    /// Stops counting time.
    pub(crate) fn pause(&mut self) {
        self.ran += self.slice_ran();
        self.slice_began = Instant::now();
    }

    /// Counts time again, on whatever thread the turn goes on.
    pub(crate) fn resume(&mut self) {
        self.slice_began = Instant::now();
        self.slice_began_cpu = cpu_clock::now();
    }

    /// Counts time again after the code has waited for something: that is no work of its, but it spends its wall-clock budget.
    pub(crate) fn resume_after_wait(&mut self) {
        self.waited += self.slice_began.elapsed();
        self.resume();
    }

    /// Lays an answer ready for the guest to take as its input.
    pub(crate) fn give_input(&mut self, input: Vec<u8>) {
        self.input = input;
    }

    /// How long the code has run in this slice. A thread that had to wait for the processor has not run; of a short slice that does not matter, and
    /// to ask for it takes longer than many a cell.
    fn slice_ran(&self) -> Duration {
        let elapsed = self.slice_began.elapsed();
        if elapsed < SLICE { elapsed } else { elapsed.min(cpu_clock::now().saturating_sub(self.slice_began_cpu)) }
    }

    /// The turn's input, once.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Fills `bytes` with entropy; of a deterministic session, with the next blocks of sha256(seed, counter).
    pub(crate) fn entropy(&mut self, bytes: &mut [u8]) {
        let Some(seeded) = self.determinism else { return rand::rng().fill_bytes(bytes) };
        for chunk in bytes.chunks_mut(32) {
            let mut block = Sha256::new();
            block.update(seeded.seed.to_le_bytes());
            block.update(self.state.entropy_blocks.to_le_bytes());
            self.state.entropy_blocks += 1;
            let block = block.finalize();
            for (to, from) in chunk.iter_mut().zip(block) {
                *to = from;
            }
        }
    }

    /// Whether a message may be read at all: what is over a budget in any case is not parsed first.
    fn admits_reading(&mut self, kind: Kind, bytes: usize) -> bool {
        match kind {
            Kind::Operation => {
                self.operation_bytes = self.operation_bytes.saturating_add(bytes);
                self.operation_bytes <= OPERATION_BYTES_MAX
            }
            Kind::Console | Kind::Display | Kind::Value | Kind::Progress => {
                let least = bytes.saturating_sub(MESSAGE_FRAME_BYTES_MAX) / ESCAPED_BYTES_MAX;
                least as u64 <= self.output_left || self.admit(least)
            }
            Kind::Unfinished | Kind::Answer | Kind::Cell => true,
        }
    }

    /// A message from the guest. `false` when it is refused.
    pub(crate) fn told(&mut self, kind: Kind, bytes: &[u8]) -> bool {
        if !self.admits_reading(kind, bytes.len()) {
            return false;
        }
        let is_small = matches!(kind, Kind::Unfinished | Kind::Cell);
        if !is_small && !self.limits.take_said((bytes.len() * FORMS_OF_SAID) as u64) {
            if kind != Kind::Operation {
                self.stop.get_or_insert(Stop::Memory);
            }
            return false;
        }
        match message::read(kind, bytes) {
            Ok(Message::Operation(op)) => {
                self.turn.ops.push(op);
                true
            }
            Ok(Message::Console(mut line)) => {
                line.at_ms = (self.now_ms() - self.state.cell_began_ms).max(0.0);
                let fits = self.admit(line.text.len());
                if fits {
                    self.write(Output::Console(&line));
                    self.turn.console.push(line);
                }
                fits
            }
            Ok(Message::Display(display)) => {
                let fits = self.admit(display.data.len() + display.mime_type.len());
                if fits {
                    self.write(Output::Display(&display));
                    self.turn.display.push(display);
                }
                fits
            }
            Ok(Message::Progress(progress)) => {
                let fits = (0.0..=1.0).contains(&progress.fraction) && self.admit(PROGRESS_BYTES + progress.note.len());
                if fits {
                    self.write(Output::Progress(&progress));
                }
                fits
            }
            Ok(Message::Value(value)) => {
                let fits = self.admit(bytes.len());
                self.value = value.filter(|_| fits);
                fits
            }
            Ok(Message::Cell(mut cell)) => {
                cell.value = self.value.take().or(cell.value).filter(|_| cell.ok);
                if let Some(error) = &mut cell.error {
                    message::locate(error, &self.state.cell_filename);
                }
                self.turn.cell = Some(*cell);
                true
            }
            Ok(Message::Answer(answer)) => {
                self.turn.answer = Some(answer);
                true
            }
            Ok(Message::Unfinished) => {
                self.unfinished = true;
                true
            }
            Err(error) if kind == Kind::Operation => {
                tracing::debug!(%error, "an operation that cannot be read");
                false
            }
            Err(error) => {
                self.fault = Some(error.to_string());
                false
            }
        }
    }

    fn write(&mut self, output: Output<'_>) {
        if let Some(outlet) = &mut self.outlet {
            outlet(output);
        }
    }

    /// Takes `bytes` from the output budget; when it is used up, the code must stop.
    fn admit(&mut self, bytes: usize) -> bool {
        match self.output_left.checked_sub(bytes as u64) {
            Some(left) => {
                self.output_left = left;
                self.turn.output_bytes += bytes as u64;
                true
            }
            None => {
                self.output_left = 0;
                self.stop.get_or_insert(Stop::Output);
                false
            }
        }
    }
}
