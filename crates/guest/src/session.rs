//! The turns of a session.

use rquickjs::{qjs, Context, Ctx, Function, Object, Persistent, Runtime, Value};

use crate::{boundary, heap, modules, natives, random, single::Single};

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

type Kept = Persistent<Value<'static>>;

static REJECTIONS: Single<Vec<(Kept, Kept)>> = Single::new(Vec::new());
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
    /// Whether the host is still to be told what a stopped cell waited for.
    owes_cancels: bool,
    booted: bool,
}

/// What evaluating a script came to.
enum Outcome {
    Value(Kept),
    Threw(Kept, &'static str),
    Nothing,
}

impl Session {
    /// A runtime with the prelude evaluated.
    pub fn new(stack_bytes: usize) -> Option<Self> {
        let rt = Runtime::new_with_alloc(heap::Limited).ok()?;
        rt.set_max_stack_size(stack_bytes);
        rt.set_interrupt_handler(Some(Box::new(boundary::interrupt)));
        rt.set_host_promise_rejection_tracker(Some(Box::new(track_rejection)));
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
            Self { rt, ctx, boot, begin, finish, fail, deliver, give_up_stopped, unhandled, cell: None, life: None, owes_cancels: false, booted: false };
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
        self.drain(!matches!(outcome, Outcome::Nothing));
        heap::open_reserve();
        if boundary::stopped() {
            let stack = match &outcome {
                Outcome::Threw(error, _) => self.ctx.with(|ctx| stack_of(&ctx, error.clone())),
                _ => String::new(),
            };
            let ran = !matches!(outcome, Outcome::Nothing);
            if self.cell.take().is_some() || ran {
                emit_end("Stopped", &stack);
            }
        } else {
            let outcome = match outcome {
                Outcome::Nothing => self.settled(),
                other => other,
            };
            match outcome {
                Outcome::Value(value) => self.finish(value),
                Outcome::Threw(error, code) => self.fail(error, code),
                Outcome::Nothing => {}
            }
            // What showing the value has enqueued (its own `toJSON`) belongs to this turn, not to the next cell's.
            self.drain(true);
        }
        self.report_rejections();
    }

    /// Runs jobs until none is left. Once the host has said stop, those of the turn's cell are dropped; `ran`: it has ended, and is the turn's all the
    /// same.
    fn drain(&mut self, ran: bool) {
        let mut left = JOBS_AFTER_STOP_MAX;
        loop {
            if boundary::stopped() && (ran || self.cell.is_some()) {
                self.stop_cell();
            }
            match self.rt.execute_pending_job() {
                Ok(false) => return,
                Ok(true) => {}
                Err(error) => {
                    let error = error.0.with(|ctx| Persistent::save(&ctx, ctx.catch()));
                    if !boundary::stopped() {
                        self.report(error, false);
                    }
                }
            }
            if boundary::stopped() {
                left -= 1;
                if left == 0 {
                    boundary::emit(boundary::UNFINISHED, &[]);
                    return;
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
                forget_rejection(&promise);
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
        match self.ctx.with(|ctx| threw(&ctx, "UncaughtException")) {
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
        if !boundary::stopped() {
            heap::open_reserve();
            self.report(error, false);
        }
    }

    fn report_rejections(&mut self) {
        let all = std::mem::take(REJECTIONS.get());
        if boundary::stopped() {
            return;
        }
        for (_, reason) in all.into_iter().take(REJECTIONS_REPORTED_MAX) {
            self.report(reason, true);
        }
    }

    /// Says that code that a cell left behind failed, in a promise or outside of one.
    fn report(&self, reason: Kept, in_promise: bool) {
        let told = self.ctx.with(|ctx| {
            let reason = reason.restore(&ctx)?;
            self.unhandled.clone().restore(&ctx)?.call::<_, ()>((reason, in_promise))
        });
        if told.is_err() {
            self.ctx.with(|ctx| drop(ctx.catch()));
        }
    }
}

/// Tells who builds the engine what went wrong.
fn say_exception(ctx: Ctx<'_>) {
    let error = ctx.catch();
    let text = format!("{error:?} {:?}", error.as_exception().map(|e| (e.message(), e.stack())));
    boundary::emit(boundary::CELL, text.as_bytes());
}

/// The pending exception, with its code.
fn threw(ctx: &Ctx<'_>, code: &'static str) -> Outcome {
    let error = ctx.catch();
    let code = classify(&error, code);
    Outcome::Threw(Persistent::save(ctx, error), code)
}

/// The engine's own limits are exceptions like any other; their messages tell them apart.
fn classify(error: &Value<'_>, otherwise: &'static str) -> &'static str {
    let memory = if heap::oversize() { "NativeAllocLimitError" } else { "MemoryLimitError" };
    if error.is_null() && heap::denied() {
        return memory;
    }
    let Some(exception) = error.as_exception() else { return if otherwise == "SyntaxError" { "SyntaxError" } else { "UncaughtException" } };
    let message = exception.message();
    if error.ctx().has_exception() {
        drop(error.ctx().catch()); // a message whose `toString` throws
    }
    match message.as_deref() {
        Some("out of memory") if heap::denied() => memory,
        Some("Maximum call stack size exceeded" | "stack overflow") => "StackOverflow",
        _ => otherwise,
    }
}

fn stack_of(ctx: &Ctx<'_>, error: Kept) -> String {
    let error = error.restore(ctx).ok();
    error.and_then(|e| e.as_exception().and_then(|e| e.stack())).unwrap_or_default()
}

/// Says that the cell ended without a word from the prelude.
fn emit_end(code: &str, stack: &str) {
    let mut escaped = String::with_capacity(stack.len());
    for c in stack.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            '\n' => escaped.push_str("\\n"),
            c if c < ' ' => {}
            c => escaped.push(c),
        }
    }
    let text = format!(r#"{{"ok":false,"valueType":"undefined","preview":"","error":{{"code":"{code}","name":"{code}","message":"","stack":"{escaped}"}}}}"#);
    boundary::emit(boundary::CELL, text.as_bytes());
}

fn track_rejection<'js>(ctx: Ctx<'js>, promise: Value<'js>, reason: Value<'js>, handled: bool) {
    if handled {
        forget_rejection(&promise);
    } else {
        REJECTIONS.get().push((Persistent::save(&ctx, promise), Persistent::save(&ctx, reason)));
    }
}

/// Somebody has the promise's error.
pub fn forget_rejection(promise: &Value<'_>) {
    let list = REJECTIONS.get();
    let same = |kept: &Kept| kept.clone().restore(promise.ctx()).is_ok_and(|value| value.as_raw() == promise.as_raw());
    if let Some(at) = list.iter().rposition(|(kept, _)| same(kept)) {
        let _ = list.remove(at);
    }
}
