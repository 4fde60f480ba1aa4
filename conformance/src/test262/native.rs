//! A test in native QuickJS-NG.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

use rquickjs::{
    Coerced, Context, Ctx, Function, Module, Object, Promise, Runtime, Value,
    context::EvalOptions,
    loader::{ImportAttributes, Loader, Resolver},
};

use super::{Case, Outcome, Program, host::End};

const HEAP_BYTES: usize = 256 << 20;
const SCRIPT_STACK_BYTES: usize = 1 << 20;
const WALL: Duration = Duration::from_secs(30);

/// Runs the harness, then the test, in a fresh runtime.
pub(super) fn run(case: &Case, harness: &str, program: &Program) -> anyhow::Result<Outcome> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(HEAP_BYTES);
    runtime.set_max_stack_size(SCRIPT_STACK_BYTES);
    runtime.set_loader(Beside, Modules(program.modules.clone()));
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
        let keep = if program.is_module { "globalThis.$imported = " } else { "" };
        Ok(script(&ctx, harness).or_else(|| script(&ctx, &format!("{keep}{}", program.source))))
    })?;
    if end.thrown.is_none() {
        while began.elapsed() <= WALL && !matches!(runtime.execute_pending_job(), Ok(false)) {}
    }
    if end.thrown.is_none() && program.is_module {
        end.thrown = context.with(|ctx| {
            let imported: Promise<'_> = ctx.globals().get("$imported")?;
            Ok::<_, rquickjs::Error>(match imported.result::<Value<'_>>() {
                Some(Ok(_)) => None,
                Some(Err(_)) => Some(describe(&ctx, ctx.catch())),
                None => Some(("Error".to_owned(), "the module never ended".to_owned())),
            })
        })?;
    }
    end.printed = printed.borrow().clone();
    Ok(case.judge(&end))
}

/// The modules of a test lie in one folder, whose names are what they are called.
struct Beside;

impl Resolver for Beside {
    fn resolve<'js>(&mut self, _: &Ctx<'js>, _: &str, name: &str, _: Option<ImportAttributes<'js>>) -> rquickjs::Result<String> {
        Ok(name.trim_start_matches("./").to_owned())
    }
}

struct Modules(BTreeMap<String, String>);

impl Loader for Modules {
    fn load<'js>(&mut self, ctx: &Ctx<'js>, name: &str, _: Option<ImportAttributes<'js>>) -> rquickjs::Result<Module<'js>> {
        match self.0.get(name) {
            Some(text) => Module::declare(ctx.clone(), name, text.as_str()),
            None => Err(rquickjs::Error::new_loading(name)),
        }
    }
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
