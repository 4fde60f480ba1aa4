//! How a script or a cell ended.

use rquickjs::{Ctx, Persistent, Value};

use crate::{boundary, heap};

/// A value that outlives the call in which it was made.
pub type Kept = Persistent<Value<'static>>;

/// What evaluating a script came to.
pub enum Outcome {
    Value(Kept),
    Threw(Kept, &'static str),
    Nothing,
}

/// Tells who builds the engine what went wrong.
pub fn say_exception(ctx: Ctx<'_>) {
    let error = ctx.catch();
    let text = format!("{error:?} {:?}", error.as_exception().map(|e| (e.message(), e.stack())));
    boundary::emit(boundary::CELL, text.as_bytes());
}

/// The pending exception, with its code.
pub fn threw(ctx: &Ctx<'_>, code: &'static str) -> Outcome {
    let error = ctx.catch();
    let code = classify(&error, code);
    Outcome::Threw(Persistent::save(ctx, error), code)
}

/// The engine's own limits are exceptions like any other; their messages tell them apart.
pub fn classify(error: &Value<'_>, otherwise: &'static str) -> &'static str {
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

/// The frames that the engine recorded.
pub fn stack_of(ctx: &Ctx<'_>, error: Kept) -> String {
    let error = error.restore(ctx).ok();
    error.and_then(|e| e.as_exception().and_then(|e| e.stack())).unwrap_or_default()
}

/// Says that the cell ended without a word from the prelude.
pub fn emit_end(code: &str, stack: &str) {
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

/// Whether both are one object.
pub fn is_same(ctx: &Ctx<'_>, one: &Kept, other: &Kept) -> bool {
    let [one, other] = [one, other].map(|kept| kept.clone().restore(ctx));
    one.ok().zip(other.ok()).is_some_and(|(one, other)| one.as_raw() == other.as_raw())
}
