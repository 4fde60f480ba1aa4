//! A test in native QuickJS-NG.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use rquickjs::{Coerced, Context, Ctx, Function, Object, Runtime, Value, context::EvalOptions};

use super::{Case, Outcome, host::End};

const HEAP_BYTES: usize = 256 << 20;
const SCRIPT_STACK_BYTES: usize = 1 << 20;
const WALL: Duration = Duration::from_secs(30);

/// Runs the harness, then the test, in a fresh runtime.
pub(super) fn run(case: &Case, harness: &str, source: &str) -> anyhow::Result<Outcome> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(HEAP_BYTES);
    runtime.set_max_stack_size(SCRIPT_STACK_BYTES);
    let began = Instant::now();
    runtime.set_interrupt_handler(Some(Box::new(move || began.elapsed() > WALL)));
    let context = Context::full(&runtime)?;
    let printed = Rc::new(RefCell::new(String::new()));
    let mut end = End::default();
    let to = Rc::clone(&printed);
    end.thrown = context.with(|ctx| -> rquickjs::Result<Option<(String, String)>> {
        let print = Function::new(ctx.clone(), move |text: Coerced<String>| {
            to.borrow_mut().push_str(&text.0);
            to.borrow_mut().push('\n');
        })?;
        ctx.globals().set("print", print)?;
        Ok(script(&ctx, harness).or_else(|| script(&ctx, source)))
    })?;
    if end.thrown.is_none() {
        while began.elapsed() <= WALL && !matches!(runtime.execute_pending_job(), Ok(false)) {}
    }
    end.printed = printed.borrow().clone();
    Ok(case.judge(&end))
}

/// Evaluates; name and message of what it threw.
fn script(ctx: &Ctx<'_>, source: &str) -> Option<(String, String)> {
    let mut options = EvalOptions::default();
    options.strict = false;
    match ctx.eval_with_options::<Value<'_>, _>(source, options) {
        Ok(_) => None,
        Err(_) => Some(describe(ctx, ctx.catch())),
    }
}

fn describe<'js>(ctx: &Ctx<'js>, thrown: Value<'js>) -> (String, String) {
    let Some(object) = thrown.as_object() else { return ("a value".to_owned(), format!("{thrown:?}")) };
    let text = |object: &Object<'js>, key: &str| object.get::<_, Coerced<String>>(key).map(|text| text.0).unwrap_or_default();
    let name = object.get::<_, Object<'js>>("constructor").map(|constructor| text(&constructor, "name")).unwrap_or_default();
    let described = (name, text(object, "message"));
    let _ = ctx.catch(); // a getter that threw
    described
}
