//! What Node's Buffer does to bytes: texts of its encodings read and written, searches and comparisons.

use std::cmp::Ordering;

use rquickjs::{convert::List, function::Func, ArrayBuffer, CString, Ctx, Exception, Object, Result, String as Text};

/// Adds the functions.
pub fn add_to(part: &Object<'_>) -> Result<()> {
    part.set("slice", Func::from(slice))?;
    part.set("write", Func::from(write))?;
    part.set("byteLength", Func::from(|text: CString<'_>| utf8(&text).len() as u32))?;
    part.set("find", Func::from(find))?;
    part.set("compare", Func::from(compare))
}

/// The bytes that QuickJS writes for a text: UTF-8, halves of surrogate pairs as three bytes each.
fn utf8<'a>(text: &'a CString<'_>) -> &'a [u8] {
    // SAFETY: the pointer and length are those of the string that `text` keeps alive.
    unsafe { std::slice::from_raw_parts(text.as_ptr().cast(), text.len()) }
}

fn part<'a>(ctx: &Ctx<'_>, buffer: &'a ArrayBuffer<'_>, offset: u32, len: u32) -> Result<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    let mut all = buffer.as_raw().ok_or_else(|| Exception::throw_type(ctx, "the buffer is detached"))?;
    // SAFETY: nothing runs script while the slice lives, and only one of a call's slices is written.
    let all = unsafe { all.as_mut() };
    let range = offset as usize..(offset as usize).saturating_add(len as usize);
    all.get_mut(range).ok_or_else(|| Exception::throw_range(ctx, "the buffer is too short"))
}

/// The code units of a text.
fn units(text: &[u8]) -> Vec<u16> {
    let mut units = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, more @ ..] = rest {
        let (len, low) = match *first {
            byte @ 0..=0x7f => (0, u32::from(byte)),
            byte @ 0..=0xdf => (1, u32::from(byte & 0x1f)),
            byte @ 0..=0xef => (2, u32::from(byte & 0x0f)),
            byte => (3, u32::from(byte & 0x07)),
        };
        let tail = more.get(..len).unwrap_or(more);
        let code = tail.iter().fold(low, |code, byte| code << 6 | u32::from(byte & 0x3f));
        match code.checked_sub(0x10000) {
            Some(high) => units.extend([0xd800 + (high >> 10) as u16, 0xdc00 + (high & 0x3ff) as u16]),
            None => units.push(code as u16),
        }
        rest = &more[tail.len()..];
    }
    units
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn base64(bytes: &[u8], alphabet: &[u8; 64], pads: bool) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            match (at <= chunk.len(), pads) {
                (true, _) => text.push(char::from(alphabet[(word >> (18 - 6 * at)) as usize & 63])),
                (false, true) => text.push('='),
                (false, false) => {}
            }
        }
    }
    text
}

/// As Node reads it: both alphabets, up to the first `=`, and nothing else counts.
fn from_base64(text: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut bits) = (0u32, 0);
    for unit in text {
        let six = match u8::try_from(*unit) {
            Ok(byte @ b'A'..=b'Z') => byte - b'A',
            Ok(byte @ b'a'..=b'z') => byte - b'a' + 26,
            Ok(byte @ b'0'..=b'9') => byte - b'0' + 52,
            Ok(b'+' | b'-') => 62,
            Ok(b'/' | b'_') => 63,
            Ok(b'=') => break,
            _ => continue,
        };
        word = word << 6 | u32::from(six);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    bytes
}

fn from_hex(text: &[u16]) -> Vec<u8> {
    let digit = |unit: u16| char::from_u32(u32::from(unit)).and_then(|c| c.to_digit(16)).map(|digit| digit as u8);
    text.chunks_exact(2).map_while(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// A text of the bytes; `ucs2` as code units, two bytes each.
fn slice<'js>(ctx: Ctx<'js>, encoding: String, buffer: ArrayBuffer<'js>, offset: u32, len: u32) -> Result<Text<'js>> {
    let bytes = part(&ctx, &buffer, offset, len)?;
    let text = match encoding.as_str() {
        "latin1" => bytes.iter().map(|byte| char::from(*byte)).collect(),
        "ascii" => bytes.iter().map(|byte| char::from(*byte & 0x7f)).collect(),
        "hex" => bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|digit| char::from_digit(digit.into(), 16)).collect(),
        "base64" => base64(bytes, BASE64, true),
        "base64url" => base64(bytes, BASE64_URL, false),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    Text::from_str(ctx, &text)
}

/// Writes as much of the text as there is room for and answers how many bytes that are; of UTF-8 and UTF-16 whole characters and units only.
fn write<'js>(ctx: Ctx<'js>, encoding: String, text: CString<'js>, buffer: ArrayBuffer<'js>, offset: u32, len: u32) -> Result<u32> {
    let to = part(&ctx, &buffer, offset, len)?;
    let mut made = match encoding.as_str() {
        "latin1" | "ascii" => units(utf8(&text)).into_iter().map(|unit| unit as u8).collect(),
        "ucs2" => units(utf8(&text)).into_iter().flat_map(u16::to_le_bytes).collect(),
        "hex" => from_hex(&units(utf8(&text))),
        "base64" | "base64url" => from_base64(&units(utf8(&text))),
        _ => utf8(&text).to_vec(),
    };
    match encoding.as_str() {
        "ucs2" => made.truncate(to.len().min(made.len()) & !1),
        "utf8" => {
            let mut end = to.len().min(made.len());
            while end > 0 && made.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                end -= 1;
            }
            made.truncate(end);
        }
        _ => made.truncate(to.len()),
    }
    to[..made.len()].copy_from_slice(&made);
    Ok(made.len() as u32)
}

/// Where `needle` begins in the bytes, at `from` or after it (before it when `forward` is false), in steps of `step`; -1 when nowhere.
fn find<'js>(
    ctx: Ctx<'js>,
    List(hay): List<(ArrayBuffer<'js>, u32, u32)>,
    List(needle): List<(ArrayBuffer<'js>, u32, u32)>,
    from: u32,
    forward: bool,
    step: u32,
) -> Result<i32> {
    let bytes = part(&ctx, &hay.0, hay.1, hay.2)?;
    let needle = part(&ctx, &needle.0, needle.1, needle.2)?;
    let Some(last) = bytes.len().checked_sub(needle.len()) else { return Ok(-1) };
    let fits = |at: &usize| bytes[*at..].starts_with(needle);
    let step = step.max(1) as usize;
    let from = from as usize;
    let found = if forward {
        (from..=last).step_by(step).find(fits)
    } else {
        let begin = from.min(last);
        (0..=begin).rev().filter(|at| at % step == 0).find(fits)
    };
    Ok(found.map_or(-1, |at| at as i32))
}

fn compare<'js>(ctx: Ctx<'js>, List(left): List<(ArrayBuffer<'js>, u32, u32)>, List(right): List<(ArrayBuffer<'js>, u32, u32)>) -> Result<i32> {
    let order = part(&ctx, &left.0, left.1, left.2)?[..].cmp(&part(&ctx, &right.0, right.1, right.2)?[..]);
    Ok(match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}
