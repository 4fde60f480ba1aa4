//! Contents that lie outside the heap, as the prelude and the modules ask for them. An answer that is an object is an error's name and message.

use rquickjs::{function::Func, ArrayBuffer, CString, Ctx, Exception, Object, Result, Value};

use crate::boundary;

/// The host's numbers.
const STAT: i32 = 0;
const READ: i32 = 1;
const PUT: i32 = 2;
const APPEND: i32 = 3;
const REMOVE: i32 = 4;
const LIST: i32 = 5;
const PACKAGE: i32 = 6;
const COPY: i32 = 7;

/// Adds the functions to `to`.
pub fn add_to(to: &Object<'_>) -> Result<()> {
    to.set("blobStat", Func::from(stat))?;
    to.set("blobRead", Func::from(read))?;
    to.set("blobWrite", Func::from(write))?;
    to.set("blobWriteText", Func::from(write_text))?;
    to.set("blobRemove", Func::from(remove))?;
    to.set("blobCopy", Func::from(copy))?;
    to.set("blobList", Func::from(list))?;
    to.set("package", Func::from(package))?;
    Ok(())
}

/// Twice its bytes, and 1 more if it is text; -1 when there is none.
fn stat<'js>(ctx: Ctx<'js>, name: CString<'js>) -> Result<Value<'js>> {
    ask(ctx, STAT, &name, 0.0, (std::ptr::null_mut(), 0))
}

/// Fills a part of a buffer from `at` on; the bytes that there were.
fn read<'js>(ctx: Ctx<'js>, name: CString<'js>, at: f64, buffer: ArrayBuffer<'js>, offset: u32, len: u32) -> Result<Value<'js>> {
    let data = part(&ctx, &buffer, offset, len)?;
    ask(ctx, READ, &name, at, data)
}

/// Writes a part of a buffer, instead of what is there or behind it.
fn write<'js>(ctx: Ctx<'js>, name: CString<'js>, append: bool, buffer: ArrayBuffer<'js>, offset: u32, len: u32) -> Result<Value<'js>> {
    let data = part(&ctx, &buffer, offset, len)?;
    ask(ctx, if append { APPEND } else { PUT }, &name, 0.0, data)
}

/// Writes text, instead of what is there or behind it.
fn write_text<'js>(ctx: Ctx<'js>, name: CString<'js>, append: bool, text: CString<'js>) -> Result<Value<'js>> {
    ask(ctx, if append { APPEND } else { PUT }, &name, 1.0, (text.as_ptr().cast_mut().cast(), text.len()))
}

fn remove<'js>(ctx: Ctx<'js>, name: CString<'js>) -> Result<Value<'js>> {
    ask(ctx, REMOVE, &name, 0.0, (std::ptr::null_mut(), 0))
}

/// Gives a content a second name: its bytes, or -1 when there is none.
fn copy<'js>(ctx: Ctx<'js>, name: CString<'js>, to: CString<'js>) -> Result<Value<'js>> {
    ask(ctx, COPY, &name, 0.0, (to.as_ptr().cast_mut().cast(), to.len()))
}

/// Pairs of name and bytes.
fn list<'js>(ctx: Ctx<'js>, prefix: CString<'js>) -> Result<Value<'js>> {
    let answer = ask(ctx.clone(), LIST, &prefix, 0.0, (std::ptr::null_mut(), 0))?;
    match answer.as_number() {
        Some(bytes) => ctx.json_parse(boundary::input(bytes as usize)),
        None => Ok(answer),
    }
}

/// The package that a name means, `NAME@VERSION`: its sources are contents now. -1 when there is none for this session.
fn package<'js>(ctx: Ctx<'js>, name: CString<'js>) -> Result<Value<'js>> {
    let answer = ask(ctx.clone(), PACKAGE, &name, 0.0, (std::ptr::null_mut(), 0))?;
    match answer.as_number() {
        Some(bytes) if bytes >= 0.0 => ctx.json_parse(boundary::input(bytes as usize)),
        _ => Ok(answer),
    }
}

/// Pointer and length of a part of a buffer that nothing moves until the host has answered: no script runs before that.
fn part(ctx: &Ctx<'_>, buffer: &ArrayBuffer<'_>, offset: u32, len: u32) -> Result<(*mut u8, usize)> {
    if len == 0 {
        return Ok((std::ptr::null_mut(), 0));
    }
    let raw = buffer.as_raw().filter(|raw| offset as usize + len as usize <= raw.len());
    let raw = raw.ok_or_else(|| Exception::throw_type(ctx, "the buffer is detached or too short"))?;
    // SAFETY: the offset lies inside the buffer.
    Ok((unsafe { raw.cast::<u8>().as_ptr().add(offset as usize) }, len as usize))
}

fn ask<'js>(ctx: Ctx<'js>, verb: i32, name: &CString<'js>, option: f64, data: (*mut u8, usize)) -> Result<Value<'js>> {
    // SAFETY: the pointer and length are those of the string that `name` keeps alive; `data` is a part of a live buffer, or a text that is only read.
    let answer = unsafe {
        let name = std::slice::from_raw_parts(name.as_ptr().cast::<u8>(), name.len());
        boundary::blob(verb, name, option, data)
    };
    if answer < -1.0 {
        return ctx.json_parse(boundary::input((-answer - 2.0) as usize));
    }
    Ok(Value::new_number(ctx, answer))
}
