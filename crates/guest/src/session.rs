//! The turns of a session.

use rquickjs::{qjs, Context, Function, Object, Persistent, Runtime, Value};

use crate::{
    boundary,
    ends::{classify, emit_end, is_same, say_exception, stack_of, threw, Kept, Outcome},
    exit, heap, modules, natives, random, rejections,
    single::Single,
};

const PRELUDE: &str = concat!(
    "(function (native) { 'use strict';\n",
    include_str!("prelude/primordials.js"),
    include_str!("prelude/errors.js"),
    include_str!("prelude/inspect.js"),
    include_str!("prelude/layout.js"),
    include_str!("prelude/shapes.js"),
    include_str!("prelude/format.js"),
    include_str!("prelude/table.js"),
    include_str!("prelude/console.js"),
    include_str!("prelude/operations.js"),
    include_str!("prelude/web.js"),
    include_str!("prelude/context.js"),
    include_str!("prelude/display.js"),
    include_str!("prelude/modules.js"),
    include_str!("prelude/cell.js"),
    "})"
);

/// Jobs that may still run after the host has said stop: enough to let a chain of promises settle, few enough to end. A session with more
/// would never be rid of them: the next turn would begin with them.
const JOBS_AFTER_STOP_MAX: u32 = 10_000;

/// Rejections that one turn reports.
const REJECTIONS_REPORTED_MAX: usize = 20;

/// Cells that every base image has run: source, and whether it awaits. The last one takes back what they leave to see, and leaves room for the first
/// names of a session.
const WARM_UP: [(&str, bool); 4] = [
    ("await 0; ({ a: [1, 'x'] })", true),
    ("console.log('x', [1], { a: 1 }); throw new Error('x')", false),
    ("1 + 1", false),
    ("delete globalThis._; for (let i = 0; i < 40; i++) globalThis['w' + i] = 0; for (let i = 0; i < 40; i++) delete globalThis['w' + i]; void 0", false),
];

static PENDING_MAX: Single<i32> = Single::new(0);

/// Host operations that may wait at once, as the host said for this turn.
pub fn pending_max() -> i32 {
    *PENDING_MAX.get()
}

/// The runtime, the prelude's functions and the pending cell.
pub struct Session {
    rt: Runtime,
    ctx: Context,
    boot: Persistent<Function<'static>>,
    begin: Persistent<Function<'static>>,
    finish: Persistent<Function<'static>>,
    fail: Persistent<Function<'static>>,
    deliver: Persistent<Function<'static>>,
    give_up_stopped: Persistent<Function<'static>>,
    unhandled: Persistent<Function<'static>>,
    cell: Option<Kept>,
    /// The last cell's, until that is stopped.
    life: Option<Kept>,
    /// Whether the end of the last cell is still to be told.
    owes_end: bool,
    /// Whether the host is still to be told what a stopped cell waited for.
    owes_cancels: bool,
    booted: bool,
}

impl Session {
    /// A runtime with the prelude evaluated.
    pub fn new(stack_bytes: usize) -> Option<Self> {
        let rt = Runtime::new_with_alloc(heap::Limited).ok()?;
        rt.set_max_stack_size(stack_bytes);
        rt.set_interrupt_handler(Some(Box::new(exit::interrupt)));
        rt.set_host_promise_rejection_tracker(Some(Box::new(rejections::track)));
        let ctx = Context::full(&rt).ok()?;
        let functions = ctx.with(|ctx| -> rquickjs::Result<_> {
            let mut options = rquickjs::context::EvalOptions::default();
            options.filename = Some("dormouse:prelude".into());
            let prelude: Function = ctx.eval_with_options(PRELUDE, options)?;
            let made: Object = prelude.call((natives::object(&ctx)?,))?;
            modules::answer_imports(&ctx, made.get("moduleExports")?, made.get("resolveModule")?);
            let keep = |name: &str| -> rquickjs::Result<_> { Ok(Persistent::save(&ctx, made.get::<_, Function>(name)?)) };
            let all = ["boot", "begin", "finish", "fail", "deliver", "giveUpStopped", "unhandled"].map(keep);
            all.into_iter().collect::<rquickjs::Result<Vec<_>>>()
        });
        let functions = functions.and_then(|all| all.try_into().map_err(|_| rquickjs::Error::Unknown));
        let [boot, begin, finish, fail, deliver, give_up_stopped, unhandled]: [_; 7] = match functions {
            Ok(functions) => functions,
            Err(_) => {
                ctx.with(say_exception);
                return None;
            }
        };
        modules::forget_made();
        let mut session =
            Self { rt, ctx, boot, begin, finish, fail, deliver, give_up_stopped, unhandled, cell: None, life: None, owes_end: false, owes_cancels: false, booted: false };
        session.warm_up();
        session.rt.run_gc();
        session.ctx.with(|ctx| heap::fill_arenas(&ctx));
        heap::fill_gaps();
        heap::end_base();
        session.ctx.with(|ctx| natives::freeze(&ctx));
        Some(session)
    }

    /// Runs cells of the kinds that sessions begin with: what these come to have inside the engine is in the base image then. Nothing of it can be seen.
    fn warm_up(&mut self) {
        for (code, is_async) in WARM_UP {
            self.eval(b"cell-0.ts".to_vec(), format!(" {code}").into_bytes(), is_async);
        }
        let _ = self.call(&self.begin, ("",));
        (self.cell, self.life) = (None, None);
        self.ctx.with(|ctx| natives::set_life(ctx.clone(), Value::new_undefined(ctx)));
    }

    /// Emits the bytecode of a module. 0 when it worked.
    pub fn compile(&self, name: &str, code: Vec<u8>) -> i32 {
        self.ctx.with(|ctx| match modules::compile(&ctx, name, code) {
            Ok(()) => 0,
            Err(_) => {
                say_exception(ctx);
                -1
            }
        })
    }

    /// Begins a turn.
    pub fn enter(&mut self, reseed: bool, heap_bytes: usize, pending: i32) {
        heap::begin(heap_bytes);
        *PENDING_MAX.get() = pending;
        if reseed || !self.booted {
            random::reseed();
        }
        if !self.booted {
            self.booted = true;
            let _ = self.call(&self.boot.clone(), ());
        }
        self.give_up_stopped();
    }

    /// Runs a cell. `code` begins with a blank that is not the cell's: QuickJS counts the columns of a script's first line from 0.
    pub fn eval(&mut self, name: Vec<u8>, mut code: Vec<u8>, is_async: bool) {
        self.cell = None;
        let code_bytes = code.len();
        code.push(0);
        let _ = self.call(&self.begin, (std::str::from_utf8(&name).unwrap_or_default(),));
        self.life = Some(self.ctx.with(|ctx| Persistent::save(&ctx, natives::life(ctx.clone()))));
        self.owes_end = true;
        let name = std::ffi::CString::new(name).unwrap_or_default();
        let outcome = self.ctx.with(|ctx| {
            let flags = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY | if is_async { qjs::JS_EVAL_FLAG_ASYNC } else { 0 };
            let raw = ctx.as_raw().as_ptr();
            // SAFETY: `code` is `code_bytes` long and ends in a zero byte; the values are owned by the calls they go to.
            unsafe {
                let script = qjs::JS_Eval(raw, code.as_ptr().cast(), code_bytes as u32, name.as_ptr(), flags as i32);
                if qjs::JS_IsException(script) {
                    return threw(&ctx, "SyntaxError");
                }
                let value = qjs::JS_EvalFunction(raw, script);
                if qjs::JS_IsException(value) {
                    return threw(&ctx, "UncaughtException");
                }
                Outcome::Value(Persistent::save(&ctx, Value::from_raw(ctx.clone(), value)))
            }
        });
        drop(code);
        let outcome = match outcome {
            Outcome::Value(promise) if is_async => {
                self.cell = Some(promise);
                Outcome::Nothing
            }
            other => other,
        };
        self.end_turn(outcome);
    }

    /// Delivers an answer.
    pub fn deliver(&mut self, op: f64, status: i32, bytes: Vec<u8>) {
        let answer = self.ctx.with(|ctx| {
            let value = if bytes.is_empty() { Value::new_undefined(ctx.clone()) } else { ctx.json_parse(bytes)? };
            let deliver = self.deliver.clone().restore(&ctx)?;
            deliver.call::<_, ()>((op, status, value))
        });
        if answer.is_err() {
            self.report_stray();
        }
        self.end_turn(Outcome::Nothing);
    }

    /// Ends the pending cell with the host's reason. Nothing of it goes on, and what it waits for is given up.
    pub fn abandon(&mut self) {
        if self.cell.take().is_some() {
            self.stop_cell();
            self.give_up_stopped();
            self.owes_end = false;
            emit_end("Stopped", "");
        }
    }

    /// From here on no job of the last cell runs.
    fn stop_cell(&mut self) {
        if let Some(life) = self.life.take() {
            self.ctx.with(|ctx| life.restore(&ctx).map(|life| natives::end(&life))).unwrap_or_default();
            self.owes_cancels = true;
        }
    }

    /// Tells the host what nobody waits for since a cell was stopped.
    fn give_up_stopped(&mut self) {
        if self.owes_cancels {
            self.owes_cancels = self.call(&self.give_up_stopped, ()).is_err();
        }
    }

    fn call<A>(&self, function: &Persistent<Function<'static>>, args: A) -> rquickjs::Result<()>
    where
        A: for<'js> rquickjs::function::IntoArgs<'js>,
    {
        self.ctx.with(|ctx| function.clone().restore(&ctx)?.call::<_, ()>(args))
    }

    /// Runs jobs until none is left, then says how the cell ended and what was rejected without a handler.
    fn end_turn(&mut self, outcome: Outcome) {
        let exited = self.exited();
        let drained = self.drain(exited.is_some() || !matches!(outcome, Outcome::Nothing));
        let outcome = exited.or(drained).unwrap_or(outcome);
        heap::open_reserve();
        if boundary::stopped() {
            let stack = match &outcome {
                Outcome::Threw(error, _) => self.ctx.with(|ctx| stack_of(&ctx, error.clone())),
                _ => String::new(),
            };
            let ran = !matches!(outcome, Outcome::Nothing);
            if self.cell.take().is_some() || ran {
                self.owes_end = false;
                emit_end("Stopped", &stack);
            }
        } else {
            let outcome = match outcome {
                Outcome::Nothing => self.settled(),
                other => other,
            };
            self.owes_end &= matches!(outcome, Outcome::Nothing);
            match outcome {
                Outcome::Value(value) => self.finish(value),
                Outcome::Threw(error, code) => self.fail(error, code),
                Outcome::Nothing => {}
            }
            // What showing the value has enqueued (its own `toJSON`) belongs to this turn, not to the next cell's.
            self.drain(true);
        }
        // What shows a value or an error may end itself as well: nobody is left to be told.
        self.owes_cancels |= exit::take().is_some();
        self.report_rejections();
        if !boundary::stopped() {
            self.give_up_stopped();
        }
    }

    /// What code that ended itself came to: the end of the cell that it is part of, if that is still to be told, and a line otherwise.
    fn exited(&mut self) -> Option<Outcome> {
        let exit = exit::take()?;
        self.owes_cancels = true;
        let own = self.owes_end && self.life.as_ref().is_some_and(|life| self.ctx.with(|ctx| is_same(&ctx, life, &exit.life)));
        if own {
            (self.cell, self.life) = (None, None);
            return Some(Outcome::Threw(exit.told, "UncaughtException"));
        }
        self.say_unhandled(exit.told, false, true);
        None
    }

    /// Runs jobs until none is left. Once the host has said stop, those of the turn's cell are dropped; `ran`: it has ended, and is the turn's all the
    /// same.
    fn drain(&mut self, ran: bool) -> Option<Outcome> {
        let mut left = JOBS_AFTER_STOP_MAX;
        let mut ended = None;
        loop {
            if boundary::stopped() && (ran || self.cell.is_some()) {
                self.stop_cell();
            }
            match self.rt.execute_pending_job() {
                Ok(false) => return ended,
                Ok(true) => {}
                Err(error) => {
                    let error = error.0.with(|ctx| Persistent::save(&ctx, ctx.catch()));
                    if !boundary::stopped() && !exit::is_leaving() {
                        self.report(error, false);
                    }
                }
            }
            ended = self.exited().or(ended);
            if boundary::stopped() {
                left -= 1;
                if left == 0 {
                    boundary::emit(boundary::UNFINISHED, &[]);
                    return ended;
                }
            }
        }
    }

    /// What the pending cell's promise came to.
    fn settled(&mut self) -> Outcome {
        let Some(kept) = self.cell.clone() else { return Outcome::Nothing };
        let outcome = self.ctx.with(|ctx| {
            let Ok(promise) = kept.restore(&ctx) else { return Outcome::Nothing };
            let raw = ctx.as_raw().as_ptr();
            // SAFETY: any value may be asked for; the result is a new reference.
            let (state, result) = unsafe {
                let state = qjs::JS_PromiseState(raw, promise.as_raw());
                (state, Value::from_raw(ctx.clone(), qjs::JS_PromiseResult(raw, promise.as_raw())))
            };
            if state == qjs::JSPromiseStateEnum_JS_PROMISE_REJECTED {
                rejections::forget(&promise);
                return Outcome::Threw(Persistent::save(&ctx, result.clone()), classify(&result, "UncaughtException"));
            }
            if state != qjs::JSPromiseStateEnum_JS_PROMISE_FULFILLED {
                return Outcome::Nothing;
            }
            let value = result.as_object().and_then(|o| o.get::<_, Value>("value").ok()).unwrap_or(Value::new_undefined(ctx.clone()));
            Outcome::Value(Persistent::save(&ctx, value))
        });
        if !matches!(outcome, Outcome::Nothing) {
            self.cell = None;
        }
        outcome
    }

    fn finish(&mut self, value: Kept) {
        let done = self.ctx.with(|ctx| {
            let value = value.restore(&ctx)?;
            self.finish.clone().restore(&ctx)?.call::<_, ()>((value,))
        });
        if done.is_ok() {
            return;
        }
        let failure = self.ctx.with(|ctx| threw(&ctx, "UncaughtException"));
        // What shows the value may end its cell, too.
        let exit = exit::take();
        self.owes_cancels |= exit.is_some();
        let failure = exit.map_or(failure, |exit| Outcome::Threw(exit.told, "UncaughtException"));
        match failure {
            _ if boundary::stopped() => emit_end("Stopped", ""),
            Outcome::Threw(error, code) => self.fail(error, code),
            _ => emit_end("UncaughtException", ""),
        }
    }

    fn fail(&mut self, error: Kept, code: &'static str) {
        let told = self.ctx.with(|ctx| {
            if heap::denied() {
                // SAFETY: no script runs.
                unsafe { qjs::JS_RunGC(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) };
            }
            let error = error.restore(&ctx)?;
            self.fail.clone().restore(&ctx)?.call::<_, ()>((error, code))
        });
        if told.is_err() {
            self.ctx.with(|ctx| drop(ctx.catch()));
            emit_end(if boundary::stopped() { "Stopped" } else { code }, "");
        }
    }

    /// An exception that left a timer's callback or the delivery itself.
    fn report_stray(&mut self) {
        let error = self.ctx.with(|ctx| Persistent::save(&ctx, ctx.catch()));
        if !boundary::stopped() && !exit::is_leaving() {
            heap::open_reserve();
            self.report(error, false);
        }
    }

    fn report_rejections(&mut self) {
        let all = rejections::take();
        if boundary::stopped() {
            return;
        }
        for reason in all.filter(|reason| self.ctx.with(|ctx| !natives::is_out(&ctx, reason))).take(REJECTIONS_REPORTED_MAX) {
            self.report(reason, true);
        }
    }

    /// Says that code that a cell left behind failed, in a promise or outside of one.
    fn report(&self, reason: Kept, in_promise: bool) {
        self.say_unhandled(reason, in_promise, false);
    }

    fn say_unhandled(&self, reason: Kept, in_promise: bool, is_exit: bool) {
        let told = self.ctx.with(|ctx| {
            let reason = reason.restore(&ctx)?;
            self.unhandled.clone().restore(&ctx)?.call::<_, ()>((reason, in_promise, is_exit))
        });
        if told.is_err() {
            self.ctx.with(|ctx| drop(ctx.catch()));
        }
    }
}
