//! The modules of a session: bytecode that the bake left in memory, made into functions when a script asks.
//!
//! Compiling happens while the engine is built: [`compile`] turns a script into bytecode in one instance, [`keep`] takes all of it in
//! another, so that the baked memory has no trace of the compiler's work. Bytecode is bytes: the collector never visits it, and a session
//! shares its pages with every other session.

use std::{
    borrow::Cow,
    ffi::{c_char, CString},
    io::{Read, Write},
    ops::Range,
    ptr::NonNull,
};

use flate2::{bufread::DeflateDecoder, write::DeflateEncoder, Compression};
use rquickjs::{convert::List, qjs, Ctx, Error, Exception, Function, Persistent, Result, Value};

use crate::{boundary, packages, single::Single};

/// All bytecode, and where each module's lies.
struct Kept {
    code: Vec<u8>,
    places: Vec<Place>,
}

struct Place {
    name: String,
    range: Range<usize>,
    /// Its function was made.
    made: bool,
}

static KEPT: Single<Kept> = Single::new(Kept { code: Vec::new(), places: Vec::new() });
/// The prelude's answer to what a module exports.
static EXPORTS: Single<Option<Persistent<Function<'static>>>> = Single::new(None);
/// The prelude's answer to what a module means by a name.
static RESOLVE: Single<Option<Persistent<Function<'static>>>> = Single::new(None);

/// Bytecode that is at least as long is packed: a third of it is left, and unpacking takes up to a few milliseconds where it is first used.
const PACKED_BYTES_MIN: usize = 4_000;
/// How packed bytecode begins, which no version of QuickJS's does.
const PACKED: u8 = 0xff;

fn packed(code: &[u8]) -> Vec<u8> {
    if code.len() < PACKED_BYTES_MIN {
        return code.to_vec();
    }
    let mut packer = DeflateEncoder::new(vec![PACKED], Compression::best());
    match packer.write_all(code).and_then(|()| packer.finish()) {
        Ok(packed) => packed,
        Err(_) => code.to_vec(),
    }
}

fn unpacked(code: &[u8]) -> Cow<'_, [u8]> {
    let [PACKED, packed @ ..] = code else { return Cow::Borrowed(code) };
    let mut whole = Vec::new();
    // What cannot be unpacked is no bytecode, which reading it says.
    let _ = DeflateDecoder::new(packed).read_to_end(&mut whole);
    Cow::Owned(whole)
}

/// Compiles a script and emits its bytecode.
pub fn compile(ctx: &Ctx<'_>, name: &str, mut source: Vec<u8>) -> Result<()> {
    let len = source.len();
    source.push(0);
    let file = CString::new(format!("dormouse:{name}"))?;
    let flags = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    let raw = ctx.as_raw().as_ptr();
    // SAFETY: `source` is `len` long and ends in a zero byte; the script is freed after its bytes are taken, and they by the engine's own free.
    unsafe {
        let script = qjs::JS_Eval(raw, source.as_ptr().cast(), len as _, file.as_ptr(), flags as i32);
        if qjs::JS_IsException(script) {
            return Err(Error::Exception);
        }
        let mut size = 0;
        // Without its source a function shows as native code; with it, the modules would take twice the space. Where their code stands, no stack
        // shows: the frames have no file, and are left out (errors.js).
        let bytes = qjs::JS_WriteObject(raw, &mut size, script, (qjs::JS_WRITE_OBJ_BYTECODE | qjs::JS_WRITE_OBJ_STRIP_SOURCE | qjs::JS_WRITE_OBJ_STRIP_DEBUG) as i32);
        qjs::JS_FreeValue(raw, script);
        if bytes.is_null() {
            return Err(Error::Exception);
        }
        boundary::emit(boundary::BYTECODE, &packed(std::slice::from_raw_parts(bytes, size as usize)));
        qjs::js_free(raw, bytes.cast());
    }
    Ok(())
}

/// Takes the bytecode of all modules: a row of `NAME LENGTH\n` and LENGTH bytes. `None` when it is not that.
pub fn keep(code: Vec<u8>) -> Option<()> {
    let mut places = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let line = at + code.get(at..)?.iter().position(|byte| *byte == b'\n')?;
        let (name, len) = std::str::from_utf8(code.get(at..line)?).ok()?.rsplit_once(' ')?;
        let range = line + 1..line + 1 + len.parse::<usize>().ok()?;
        code.get(range.clone())?;
        places.push(Place { name: name.to_owned(), range: range.clone(), made: false });
        at = range.end;
    }
    *KEPT.get() = Kept { code, places };
    Some(())
}

/// Forgets the bytecode of modules that were evaluated, which the prelude keeps as what they export.
pub fn forget_made() {
    let Kept { code, places } = KEPT.get();
    let mut end = 0;
    for place in places.iter_mut() {
        let range = if std::mem::take(&mut place.made) { 0..0 } else { place.range.clone() };
        let begin = end;
        end += range.len();
        code.copy_within(range, begin);
        place.range = begin..end;
    }
    code[end..].fill(0);
    code.truncate(end);
}

/// Whether there is such a module.
pub fn has(name: String) -> bool {
    KEPT.get().places.iter().any(|place| place.name == name)
}

/// The names of all modules.
pub fn names() -> Vec<String> {
    KEPT.get().places.iter().map(|place| place.name.clone()).collect()
}

/// A new function that evaluates the module, if there is such a module.
pub fn function<'js>(ctx: Ctx<'js>, name: String) -> Result<Option<Value<'js>>> {
    let Kept { code, places } = KEPT.get();
    let Some(place) = places.iter_mut().find(|place| place.name == name) else { return Ok(None) };
    place.made = true;
    let code = unpacked(code.get(place.range.clone()).unwrap_or_default());
    let raw = ctx.as_raw().as_ptr();
    // SAFETY: the bytes are what `compile` wrote in an instance of the same code; both values are owned by the calls they go to.
    unsafe {
        let script = qjs::JS_ReadObject(raw, code.as_ptr(), code.len() as _, qjs::JS_READ_OBJ_BYTECODE as i32);
        if qjs::JS_IsException(script) {
            return Err(Error::Exception);
        }
        let value = qjs::JS_EvalFunction(raw, script);
        if qjs::JS_IsException(value) {
            return Err(Error::Exception);
        }
        Ok(Some(Value::from_raw(ctx, value)))
    }
}

/// Lets `import()` find the modules, by what the prelude's functions say of them: `exports` an array of names and one of values, or the text of an
/// ES module; `resolve` the module that is meant by a name.
pub fn answer_imports<'js>(ctx: &Ctx<'js>, exports: Function<'js>, resolve: Function<'js>) {
    *EXPORTS.get() = Some(Persistent::save(ctx, exports));
    *RESOLVE.get() = Some(Persistent::save(ctx, resolve));
    // SAFETY: the runtime outlives every module; neither function has a state of its own.
    unsafe {
        qjs::JS_SetModuleLoaderFunc(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), Some(packages::normalize), Some(load), std::ptr::null_mut());
    }
}

/// The module that `base` means by `name`.
pub fn resolve(ctx: &Ctx<'_>, base: &str, name: &str) -> Result<String> {
    let Some(resolve) = RESOLVE.get().clone() else { return Err(Error::Unknown) };
    resolve.restore(ctx)?.call((base, name))
}

fn answer_of<'js>(ctx: &Ctx<'js>, name: &str) -> Result<Value<'js>> {
    let Some(exports) = EXPORTS.get().clone() else { return Err(Error::Unknown) };
    exports.restore(ctx)?.call((name,))
}

fn exports_of<'js>(ctx: &Ctx<'js>, name: &str) -> Result<(Vec<String>, Vec<Value<'js>>)> {
    let List(found) = answer_of(ctx, name)?.get()?;
    Ok(found)
}

/// Leaves the error as the context's exception.
pub fn raise(ctx: &Ctx<'_>, error: Error) {
    if !error.is_exception() {
        drop(Exception::throw_type(ctx, &error.to_string()));
    }
}

/// A definition without values: those come when the module is evaluated.
unsafe fn declare(ctx: &Ctx<'_>, name: *const c_char, exports: Value<'_>) -> Result<*mut qjs::JSModuleDef> {
    let List((names, _)): List<(Vec<String>, Value<'_>)> = exports.get()?;
    let raw = ctx.as_raw().as_ptr();
    let module = qjs::JS_NewCModule(raw, name, Some(fill));
    if module.is_null() {
        return Err(Error::Exception);
    }
    for export in names.into_iter().filter_map(|name| CString::new(name).ok()) {
        if qjs::JS_AddModuleExport(raw, module, export.as_ptr()) < 0 {
            return Err(Error::Exception);
        }
    }
    Ok(module)
}

unsafe extern "C" fn load(ctx: *mut qjs::JSContext, name: *const c_char, _: *mut std::ffi::c_void) -> *mut qjs::JSModuleDef {
    let Some(pointer) = NonNull::new(ctx) else { return std::ptr::null_mut() };
    let ctx = Ctx::from_raw(pointer);
    let answer = match std::ffi::CStr::from_ptr(name).to_str() {
        Ok(text) => answer_of(&ctx, text),
        Err(error) => Err(error.into()),
    };
    let module = answer.and_then(|answer| match answer.as_object() {
        Some(description) if !description.is_array() => packages::define(&ctx, description.clone()),
        _ => declare(&ctx, name, answer),
    });
    module.unwrap_or_else(|error| {
        raise(&ctx, error);
        std::ptr::null_mut()
    })
}

unsafe extern "C" fn fill(ctx: *mut qjs::JSContext, module: *mut qjs::JSModuleDef) -> std::ffi::c_int {
    let Some(pointer) = NonNull::new(ctx) else { return -1 };
    let ctx = Ctx::from_raw(pointer);
    let atom = qjs::JS_GetModuleName(pointer.as_ptr(), module);
    let name = Value::from_raw(ctx.clone(), qjs::JS_AtomToString(pointer.as_ptr(), atom));
    qjs::JS_FreeAtom(pointer.as_ptr(), atom);
    let found = match name.get::<String>() {
        Ok(name) => exports_of(&ctx, &name),
        Err(error) => Err(error),
    };
    match found {
        Ok((names, values)) => {
            for (name, value) in names.into_iter().zip(values) {
                let Ok(name) = CString::new(name) else { continue };
                // The export takes a reference of its own.
                if qjs::JS_SetModuleExport(pointer.as_ptr(), module, name.as_ptr(), qjs::JS_DupValue(pointer.as_ptr(), value.as_raw())) < 0 {
                    return -1;
                }
            }
            0
        }
        Err(error) => {
            raise(&ctx, error);
            -1
        }
    }
}
