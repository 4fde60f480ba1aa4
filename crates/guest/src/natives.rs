//! What the prelude needs and JavaScript cannot do. Scripts never see these functions, except `Math.random`.

use rquickjs::{function::Func, qjs, ArrayBuffer, CString, Ctx, Exception, Object, Result, Value};

use crate::{blobs, boundary, crypto, exit, modules, packages, parts, random, session, url};

/// The functions, as the prelude's parameter.
pub fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    native.set("emit", Func::from(emit))?;
    native.set("promiseState", Func::from(promise_state))?;
    native.set("promiseResult", Func::from(promise_result))?;
    native.set("classId", Func::from(class_id))?;
    native.set("proxyTarget", Func::from(proxy_target))?;
    native.set("proxyHandler", Func::from(proxy_handler))?;
    native.set("iteratorState", Func::from(iterator_state))?;
    native.set("getContext", Func::from(get_context))?;
    native.set("setContext", Func::from(set_context))?;
    native.set("getLife", Func::from(life))?;
    native.set("setLife", Func::from(set_life))?;
    native.set("entropy", Func::from(entropy))?;
    native.set("random", rquickjs::Function::new(ctx.clone(), random::next)?.with_name("random")?)?;
    native.set("now", Func::from(boundary::now_ms))?;
    native.set("pendingMax", Func::from(session::pending_max))?;
    native.set("utf8Encode", Func::from(utf8_encode))?;
    native.set("utf8Decode", Func::from(utf8_decode))?;
    native.set("utf8Tail", Func::from(utf8_tail))?;
    native.set("module", Func::from(modules::function))?;
    native.set("hasModule", Func::from(modules::has))?;
    native.set("moduleNames", Func::from(modules::names))?;
    let for_modules = Object::new(ctx.clone())?;
    blobs::add_to(&native)?;
    blobs::add_to(&for_modules)?;
    url::add_to(&for_modules)?;
    crypto::add_to(&for_modules)?;
    packages::add_to(&for_modules)?;
    for_modules.set("part", Func::from(parts::make))?;
    for_modules.set("exit", Func::from(exit::exit))?;
    native.set("forModules", for_modules)?;
    Ok(native)
}

fn emit(kind: i32, text: CString<'_>) -> i32 {
    // SAFETY: the pointer and length are those of the string that `text` keeps alive.
    boundary::emit(kind, unsafe { std::slice::from_raw_parts(text.as_ptr().cast(), text.len()) })
}

/// 0 pending, 1 fulfilled, 2 rejected.
fn promise_state<'js>(ctx: Ctx<'js>, value: Value<'js>) -> i32 {
    // SAFETY: any value may be asked for.
    unsafe { qjs::JS_PromiseState(ctx.as_raw().as_ptr(), value.as_raw()) as i32 }
}

fn promise_result<'js>(ctx: Ctx<'js>, value: Value<'js>) -> Value<'js> {
    // SAFETY: any value may be asked for; the result is a new reference.
    unsafe { Value::from_raw(ctx.clone(), qjs::JS_PromiseResult(ctx.as_raw().as_ptr(), value.as_raw())) }
}

fn class_id(value: Value<'_>) -> u32 {
    // SAFETY: any value may be asked for.
    unsafe { qjs::JS_GetClassID(value.as_raw()) as u32 }
}

/// The target of a proxy; null when it is revoked.
fn proxy_target<'js>(ctx: Ctx<'js>, proxy: Value<'js>) -> Value<'js> {
    // SAFETY: any value may be asked for; the result is a new reference.
    or_null(&ctx, unsafe { Value::from_raw(ctx.clone(), qjs::JS_GetProxyTarget(ctx.as_raw().as_ptr(), proxy.as_raw())) })
}

/// The handler of a proxy; null when it is revoked.
fn proxy_handler<'js>(ctx: Ctx<'js>, proxy: Value<'js>) -> Value<'js> {
    // SAFETY: any value may be asked for; the result is a new reference.
    or_null(&ctx, unsafe { Value::from_raw(ctx.clone(), qjs::JS_GetProxyHandler(ctx.as_raw().as_ptr(), proxy.as_raw())) })
}

fn or_null<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Value<'js> {
    if !value.is_exception() {
        return value;
    }
    drop(ctx.catch());
    Value::new_null(ctx.clone())
}

/// QuickJS's `JSMapIteratorData`, as the pinned version lays it out.
#[repr(C)]
struct MapIterator {
    collection: qjs::JSValue,
    kind: i32,
    last: *const MapRecord,
}

/// QuickJS's `JSMapRecord`, as the pinned version lays it out.
#[repr(C)]
struct MapRecord {
    ref_count: i32,
    empty: bool,
    map: *const u8,
    link: [*const u8; 2],
    hash_link: [*const u8; 2],
    key: qjs::JSValue,
}

/// Where an iterator of a map or a set stands, without moving it: what it gives (0 keys, 1 values, 2 both), then the collection unless it
/// has come to its end, then the key that it gave last.
fn iterator_state<'js>(ctx: Ctx<'js>, iterator: Value<'js>) -> Result<rquickjs::Array<'js>> {
    let state = rquickjs::Array::new(ctx.clone())?;
    // SAFETY: the prelude asks for iterators of maps and sets only, by the engine's own class numbers, and both keep this struct for as
    // long as they live. A record that is the iterator's last is kept by it. `JS_DupValue` makes the references that `from_raw` takes over.
    unsafe {
        let data = qjs::JS_GetOpaque(iterator.as_raw(), qjs::JS_GetClassID(iterator.as_raw())).cast::<MapIterator>();
        let Some(data) = data.as_ref() else { return Ok(state) };
        state.set(0, data.kind)?;
        if !qjs::JS_IsUndefined(data.collection) {
            state.set(1, Value::from_raw(ctx.clone(), qjs::JS_DupValue(ctx.as_raw().as_ptr(), data.collection)))?;
            if let Some(last) = data.last.as_ref().filter(|last| !last.empty) {
                state.set(2, Value::from_raw(ctx.clone(), qjs::JS_DupValue(ctx.as_raw().as_ptr(), last.key)))?;
            }
        }
    }
    Ok(state)
}

extern "C" {
    // Of collector.patch.
    fn JS_FreezeGC(rt: *mut qjs::JSRuntime);
    // Of language.patch.
    fn JS_GetAsyncContext(ctx: *mut qjs::JSContext) -> qjs::JSValue;
    fn JS_SetAsyncContext(ctx: *mut qjs::JSContext, context: qjs::JSValue);
    fn JS_GetAsyncLife(ctx: *mut qjs::JSContext) -> qjs::JSValue;
    fn JS_SetAsyncLife(ctx: *mut qjs::JSContext, life: qjs::JSValue);
    fn JS_DropStoppedJobs(rt: *mut qjs::JSRuntime);
    fn JS_PollSoon(ctx: *mut qjs::JSContext);
}

/// Takes what there is now out of the collector's sight, for good.
pub fn freeze(ctx: &Ctx<'_>) {
    // SAFETY: no collection is under way.
    unsafe { JS_FreezeGC(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) };
}

/// What the running job was handed by who enqueued it.
fn get_context(ctx: Ctx<'_>) -> Value<'_> {
    // SAFETY: the result is a new reference.
    unsafe { Value::from_raw(ctx.clone(), JS_GetAsyncContext(ctx.as_raw().as_ptr())) }
}

fn set_context<'js>(ctx: Ctx<'js>, context: Value<'js>) {
    // SAFETY: the engine takes a reference of its own.
    unsafe { JS_SetAsyncContext(ctx.as_raw().as_ptr(), context.as_raw()) };
}

/// Which cell the running job is part of: its life, an object; or undefined.
pub fn life(ctx: Ctx<'_>) -> Value<'_> {
    // SAFETY: the result is a new reference.
    unsafe { Value::from_raw(ctx.clone(), JS_GetAsyncLife(ctx.as_raw().as_ptr())) }
}

pub fn set_life<'js>(ctx: Ctx<'js>, life: Value<'js>) {
    // SAFETY: the engine takes a reference of its own.
    unsafe { JS_SetAsyncLife(ctx.as_raw().as_ptr(), life.as_raw()) };
}

/// Ends a life: none of its jobs runs any more, and those that were to run are gone.
pub fn end(life: &Value<'_>) {
    // SAFETY: any value may be given, and a life is a plain object, which nothing observes.
    unsafe {
        let ctx = life.ctx().as_raw().as_ptr();
        qjs::JS_PreventExtensions(ctx, life.as_raw());
        JS_DropStoppedJobs(qjs::JS_GetRuntime(ctx));
    }
}

/// Throws an error that no code catches. What goes on all the same, because it is native, is polled at once.
pub fn throw_out<'js>(ctx: &Ctx<'js>, error: Value<'js>) -> rquickjs::Error {
    // SAFETY: any value may be given.
    unsafe {
        qjs::JS_SetUncatchableError(ctx.as_raw().as_ptr(), error.as_raw());
        JS_PollSoon(ctx.as_raw().as_ptr());
    }
    ctx.throw(error)
}

/// Whether nothing may catch the error.
pub fn is_out(ctx: &Ctx<'_>, error: &rquickjs::Persistent<Value<'static>>) -> bool {
    // SAFETY: any value may be asked for.
    error.clone().restore(ctx).is_ok_and(|error| unsafe { qjs::JS_IsUncatchableError(error.as_raw()) })
}

fn entropy<'js>(ctx: Ctx<'js>, len: u32) -> Result<ArrayBuffer<'js>> {
    let mut bytes = vec![0; len.min(65_536) as usize];
    boundary::entropy(&mut bytes);
    ArrayBuffer::new_copy(ctx, bytes)
}

fn utf8_encode<'js>(ctx: Ctx<'js>, text: CString<'js>) -> Result<ArrayBuffer<'js>> {
    // SAFETY: the pointer and length are those of the string that `text` keeps alive.
    ArrayBuffer::new_copy(ctx, unsafe { std::slice::from_raw_parts(text.as_ptr().cast::<u8>(), text.len()) })
}

/// The part of a buffer.
fn range<'a>(ctx: &Ctx<'_>, buffer: &'a ArrayBuffer<'_>, offset: u32, len: u32) -> Result<&'a [u8]> {
    // SAFETY: nothing runs script while the slice lives.
    let bytes = unsafe { buffer.as_bytes() }.and_then(|all| all.get(offset as usize..)?.get(..len as usize));
    bytes.ok_or_else(|| Exception::throw_type(ctx, "the buffer is detached or too short"))
}

fn utf8_decode<'js>(ctx: Ctx<'js>, buffer: ArrayBuffer<'js>, offset: u32, len: u32, fatal: bool) -> Result<rquickjs::String<'js>> {
    let bytes = range(&ctx, &buffer, offset, len)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => rquickjs::String::from_str(ctx, text),
        Err(_) if fatal => Err(Exception::throw_type(&ctx, "the bytes are not valid UTF-8")),
        Err(_) => rquickjs::String::from_str(ctx, &String::from_utf8_lossy(bytes)),
    }
}

/// How many bytes at the end begin a character that is not complete.
fn utf8_tail<'js>(ctx: Ctx<'js>, buffer: ArrayBuffer<'js>, offset: u32, len: u32) -> Result<u32> {
    let mut bytes = range(&ctx, &buffer, offset, len)?;
    while let Err(error) = std::str::from_utf8(bytes) {
        let rest = bytes.get(error.valid_up_to()..).unwrap_or_default();
        match error.error_len() {
            None => return Ok(rest.len() as u32),
            Some(bad) => bytes = rest.get(bad..).unwrap_or_default(),
        }
    }
    Ok(0)
}
