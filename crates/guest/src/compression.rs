//! gzip, zlib, raw deflate and brotli, for `node:zlib` and `CompressionStream`: streams that go on between calls, over flate2's miniz_oxide and brotli.

use std::io::Write as _;

use brotli::{enc::BrotliEncoderParams, BrotliDecompressStream, BrotliResult, BrotliState, CompressorWriter};
use rquickjs::{convert::List, function::Func, ArrayBuffer, Ctx, Exception, Object, Result};

use crate::{crypto::bytes, deflating::Deflater, inflating::Inflater, single::Single};

/// Streams that may be open at once; one that is open holds up to 320 KiB beside the heap.
const STREAMS_MAX: usize = 128;
/// Those among them that pack as brotli, whose tables take tens of MiB.
const BROTLI_PACKERS_MAX: usize = 8;
/// What brotli's writer holds before it hands it on.
const BROTLI_BUFFER_BYTES: usize = 4096;

/// zlib's numbers.
pub const OK: i32 = 0;
pub const STREAM_END: i32 = 1;
pub const NEED_DICT: i32 = 2;
pub const DATA_ERROR: i32 = -3;

/// How a step went: bytes of input that it took, bytes of output that it made, zlib's number, and zlib's words where it failed.
pub struct Step {
    pub used: usize,
    pub made: usize,
    pub code: i32,
    pub message: String,
}

impl Step {
    pub fn fine(used: usize, made: usize, code: i32) -> Self {
        Self { used, made, code, message: String::new() }
    }

    pub fn wrong(used: usize, made: usize, code: i32, message: &str) -> Self {
        Self { used, made, code, message: message.to_owned() }
    }
}

/// How a stream is framed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Raw,
    Zlib,
    Gzip,
    /// Whatever of the last two its first bytes say.
    Either,
}

type Unpacker = BrotliState<brotli::enc::StandardAlloc, brotli::enc::StandardAlloc, brotli::enc::StandardAlloc>;

enum Stream {
    Deflate(Box<Deflater>),
    Inflate(Box<Inflater>),
    /// The encoder until it is finished, and what it has made that nobody has taken.
    BrotliPack(Option<Box<CompressorWriter<Vec<u8>>>>, Vec<u8>),
    BrotliUnpack(Box<Unpacker>),
}

/// Streams between two steps; a place that is none may be taken.
static STREAMS: Single<Vec<Option<Stream>>> = Single::new(Vec::new());

/// Adds the functions.
pub fn add_to(part: &Object<'_>) -> Result<()> {
    part.set("openStream", Func::from(open))?;
    part.set("stepStream", Func::from(step))?;
    part.set("levelStream", Func::from(set_level))?;
    part.set("closeStream", Func::from(close))
}

/// A new stream's number. `kind` is `deflate` or `inflate` with `raw`, `zlib`, `gzip` or `either`, or `brotli` with `pack` or `unpack`; `level` is brotli's quality, too; `window` is
/// what an inflater accepts and brotli's own, in bits.
fn open<'js>(ctx: Ctx<'js>, kind: String, format: String, level: u32, window: u32, mode: u32, dictionary: ArrayBuffer<'js>) -> Result<u32> {
    let framing = match format.as_str() {
        "raw" => Format::Raw,
        "zlib" => Format::Zlib,
        "gzip" => Format::Gzip,
        _ => Format::Either,
    };
    let dictionary = if dictionary.is_empty() { &[] } else { bytes(&ctx, &dictionary)? };
    let streams = STREAMS.get();
    let packers = || streams.iter().filter(|stream| matches!(stream, Some(Stream::BrotliPack(..)))).count();
    if format == "pack" && packers() >= BROTLI_PACKERS_MAX {
        return Err(Exception::throw_range(&ctx, &format!("at most {BROTLI_PACKERS_MAX} streams may pack as brotli at once; end or close some")));
    }
    let at = match streams.iter().position(Option::is_none) {
        Some(at) => at,
        None if streams.len() < STREAMS_MAX => {
            streams.push(None);
            streams.len() - 1
        }
        None => return Err(Exception::throw_range(&ctx, &format!("at most {STREAMS_MAX} streams of zlib may be open at once; end or close some"))),
    };
    streams[at] = Some(match (kind.as_str(), format.as_str()) {
        ("deflate", _) => Stream::Deflate(Box::new(Deflater::new(framing, level, dictionary))),
        ("inflate", _) => Stream::Inflate(Box::new(Inflater::new(framing, window, dictionary))),
        (_, "pack") => {
            let mut params = BrotliEncoderParams { quality: level.min(11) as i32, lgwin: window.clamp(10, 24) as i32, ..Default::default() };
            if mode == 1 {
                params.mode = brotli::enc::backward_references::BrotliEncoderMode::BROTLI_MODE_TEXT;
            }
            Stream::BrotliPack(Some(Box::new(CompressorWriter::with_params(Vec::new(), BROTLI_BUFFER_BYTES, &params))), Vec::new())
        }
        _ => Stream::BrotliUnpack(Box::new(BrotliState::new_strict(Default::default(), Default::default(), Default::default()))),
    });
    Ok(at as u32)
}

/// Goes on with a part of `input` into a part of `output` (`parts`: where each begins and its length); `flush` is zlib's number, or brotli's operation.
fn step<'js>(
    ctx: Ctx<'js>,
    stream: u32,
    flush: u32,
    input: ArrayBuffer<'js>,
    output: ArrayBuffer<'js>,
    parts: Vec<u32>,
) -> Result<List<(u32, u32, i32, String)>> {
    let Some(stream) = STREAMS.get().get_mut(stream as usize).and_then(Option::as_mut) else {
        return Err(Exception::throw_type(&ctx, "the stream is closed"));
    };
    let short = || Exception::throw_type(&ctx, "the buffer is detached or too short");
    let [from, len, to, room] = parts[..] else { return Err(short()) };
    let input = part(&input, from, len).ok_or_else(short)?;
    let output = part(&output, to, room).ok_or_else(short)?;
    if input.start < output.end && output.start < input.end {
        return Err(Exception::throw_type(&ctx, "input and output overlap"));
    }
    // SAFETY: both lie inside live buffers and apart from each other, and no script runs before the slices' end.
    let (input, output) = unsafe { (std::slice::from_raw_parts(input.start, len as usize), std::slice::from_raw_parts_mut(output.start, room as usize)) };
    let done = match stream {
        Stream::Deflate(deflater) => deflater.step(flush, input, output),
        Stream::Inflate(inflater) => inflater.step(input, output),
        Stream::BrotliPack(encoder, waiting) => pack(encoder, waiting, flush, input, output),
        Stream::BrotliUnpack(state) => unpack(state, input, output),
    };
    Ok(List((done.used as u32, done.made as u32, done.code, done.message)))
}

/// A part of a buffer, if it has it.
fn part(buffer: &ArrayBuffer<'_>, from: u32, len: u32) -> Option<std::ops::Range<*mut u8>> {
    if len == 0 {
        let nowhere = std::ptr::NonNull::dangling().as_ptr();
        return Some(nowhere..nowhere);
    }
    // Numbers of 32 bits may wrap when they are added.
    let end = (from as usize).checked_add(len as usize)?;
    let raw = buffer.as_raw().filter(|raw| end <= raw.len())?;
    // SAFETY: both ends lie inside the buffer.
    let start = unsafe { raw.cast::<u8>().as_ptr().add(from as usize) };
    Some(start..unsafe { start.add(len as usize) })
}

/// From now on at another level; the stream has been flushed.
fn set_level(stream: u32, level: u32) {
    if let Some(Some(Stream::Deflate(deflater))) = STREAMS.get().get_mut(stream as usize) {
        deflater.set_level(level);
    }
}

fn close(stream: u32) {
    if let Some(place) = STREAMS.get().get_mut(stream as usize) {
        *place = None;
    }
}

/// Moves what fits.
pub fn hand_out(waiting: &mut Vec<u8>, output: &mut [u8]) -> usize {
    let made = waiting.len().min(output.len());
    output[..made].copy_from_slice(&waiting[..made]);
    waiting.drain(..made);
    made
}

fn pack(encoder: &mut Option<Box<CompressorWriter<Vec<u8>>>>, waiting: &mut Vec<u8>, operation: u32, input: &[u8], output: &mut [u8]) -> Step {
    const FLUSH: u32 = 1;
    const FINISH: u32 = 2;
    let mut used = 0;
    if let Some(writer) = encoder {
        if writer.write_all(input).is_ok() {
            used = input.len();
        }
        if operation == FLUSH && (used > 0 || waiting.is_empty()) {
            let _ = writer.flush();
        }
        waiting.append(writer.get_mut());
        if operation == FINISH {
            if let Some(whole) = encoder.take() {
                waiting.extend(whole.into_inner());
            }
        }
    }
    let made = hand_out(waiting, output);
    Step::fine(used, made, if encoder.is_none() && waiting.is_empty() { STREAM_END } else { OK })
}

fn unpack(state: &mut Unpacker, input: &[u8], output: &mut [u8]) -> Step {
    let (mut left, mut used, mut room, mut made, mut total) = (input.len(), 0, output.len(), 0, 0);
    match BrotliDecompressStream(&mut left, &mut used, input, &mut room, &mut made, output, &mut total, state) {
        BrotliResult::ResultSuccess => Step::fine(used, made, STREAM_END),
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Step::fine(used, made, OK),
        BrotliResult::ResultFailure => Step::wrong(used, made, state.error_code as i32, &format!("{:?}", state.error_code)),
    }
}
