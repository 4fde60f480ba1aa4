//! Modules of packages that came as text: scripts for CommonJS, and ES modules that QuickJS links by what the prelude resolves.

use std::ffi::{c_char, c_void, CStr, CString};

use rquickjs::{function::Func, qjs, CString as Text, Ctx, Error, Exception, Function, Object, Result, Value};

use crate::{boundary, heap, modules, rejections, single::Single};

/// ES modules whose requests are being resolved. Until that is done nothing may link what they are part of.
static RESOLVING: Single<u32> = Single::new(0);

/// Adds the functions to `to`.
pub fn add_to(to: &Object<'_>) -> Result<()> {
    to.set("script", Func::from(script))?;
    to.set("linkModule", Func::from(link))?;
    to.set("isResolving", Func::from(|| *RESOLVING.get() > 0))?;
    Ok(())
}

/// The value of a script.
fn script<'js>(ctx: Ctx<'js>, name: Text<'js>, source: Text<'js>) -> Result<Value<'js>> {
    let value = eval(&ctx, &name, &source, qjs::JS_EVAL_TYPE_GLOBAL)?;
    // SAFETY: the value is a new reference.
    Ok(unsafe { Value::from_raw(ctx, value) })
}

/// The namespace of an ES module that is evaluated at once. One that awaits cannot be.
fn link<'js>(ctx: Ctx<'js>, name: Text<'js>, source: Text<'js>) -> Result<Value<'js>> {
    let raw = ctx.as_raw().as_ptr();
    let module = compile(&ctx, &name, &source)?;
    // SAFETY: the module is in the context's list, which keeps it; the call takes over the one reference. The promise is any value.
    let promise = unsafe {
        let value = qjs::JS_EvalFunction(raw, module);
        if qjs::JS_IsException(value) {
            return Err(Error::Exception);
        }
        Value::from_raw(ctx.clone(), value)
    };
    // SAFETY: any value may be asked for; the results are new references.
    unsafe {
        let state = qjs::JS_PromiseState(raw, promise.as_raw());
        if state == qjs::JSPromiseStateEnum_JS_PROMISE_FULFILLED {
            return Ok(Value::from_raw(ctx.clone(), qjs::JS_GetModuleNamespace(raw, qjs::JS_VALUE_GET_PTR(module).cast())));
        }
        if state == qjs::JSPromiseStateEnum_JS_PROMISE_REJECTED {
            rejections::forget(&promise);
            return Err(ctx.throw(Value::from_raw(ctx.clone(), qjs::JS_PromiseResult(raw, promise.as_raw()))));
        }
    }
    Err(Exception::throw_message(&ctx, "the ES module awaits at its top level: import() it"))
}

/// The definition that the prelude's answer describes: `{ name, source, meta, otherwise }`. `meta` is called with `import.meta`, `otherwise` with
/// the error of a source that cannot be compiled, for another answer.
pub fn define<'js>(ctx: &Ctx<'js>, mut answer: Object<'js>) -> Result<*mut qjs::JSModuleDef> {
    loop {
        let (name, source): (Text<'js>, Text<'js>) = (answer.get("name")?, answer.get("source")?);
        match compile(ctx, &name, &source) {
            Ok(module) => {
                let raw = ctx.as_raw().as_ptr();
                // SAFETY: the module is in the context's list, which keeps it.
                let (module, meta) = unsafe {
                    let pointer = qjs::JS_VALUE_GET_PTR(module).cast::<qjs::JSModuleDef>();
                    qjs::JS_FreeValue(raw, module);
                    (pointer, Value::from_raw(ctx.clone(), qjs::JS_GetImportMeta(raw, pointer)))
                };
                answer.get::<_, Function<'js>>("meta")?.call::<_, ()>((meta,))?;
                return Ok(module);
            }
            Err(error) if !error.is_exception() || boundary::stopped() || heap::denied() => return Err(error),
            Err(_) => answer = answer.get::<_, Function<'js>>("otherwise")?.call((ctx.catch(),))?,
        }
    }
}

/// Compiles an ES module, and with it what it imports.
fn compile(ctx: &Ctx<'_>, name: &Text<'_>, source: &Text<'_>) -> Result<qjs::JSValue> {
    *RESOLVING.get() += 1;
    let compiled = eval(ctx, name, source, qjs::JS_EVAL_TYPE_MODULE | qjs::JS_EVAL_FLAG_COMPILE_ONLY);
    *RESOLVING.get() -= 1;
    compiled
}

fn eval(ctx: &Ctx<'_>, name: &Text<'_>, source: &Text<'_>, flags: u32) -> Result<qjs::JSValue> {
    // SAFETY: both texts end in a zero byte and live until the call ends.
    let value = unsafe { qjs::JS_Eval(ctx.as_raw().as_ptr(), source.as_ptr(), source.len() as _, name.as_ptr(), flags as i32) };
    // SAFETY: any value may be asked for.
    if unsafe { qjs::JS_IsException(value) } {
        return Err(Error::Exception);
    }
    Ok(value)
}

/// What a module means by a name, by the prelude's word.
pub unsafe extern "C" fn normalize(ctx: *mut qjs::JSContext, base: *const c_char, name: *const c_char, _: *mut c_void) -> *mut c_char {
    let Some(pointer) = std::ptr::NonNull::new(ctx) else { return std::ptr::null_mut() };
    let ctx = Ctx::from_raw(pointer);
    let texts = (CStr::from_ptr(base).to_str(), CStr::from_ptr(name).to_str());
    let resolved = match texts {
        (Ok(base), Ok(name)) => modules::resolve(&ctx, base, name).and_then(|id| Ok(CString::new(id)?)),
        (Err(error), _) | (_, Err(error)) => Err(error.into()),
    };
    match resolved {
        Ok(id) => qjs::js_strdup(pointer.as_ptr(), id.as_ptr()),
        Err(error) => {
            modules::raise(&ctx, error);
            std::ptr::null_mut()
        }
    }
}
