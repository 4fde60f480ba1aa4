//! gzip, zlib, raw deflate and brotli, for `node:zlib` and `CompressionStream`: flate2 over miniz_oxide, and brotli.

use std::io::{Read, Write};

use flate2::{bufread, write, Compression, GzBuilder};
use rquickjs::{convert::List, function::Func, ArrayBuffer, Ctx, Exception, Object, Result};

use crate::{crypto::bytes, heap};

/// What a zlib of Unix writes as the system.
const UNIX: u8 = 3;
/// Bytes that are decompressed at a time.
const CHUNK_BYTES: usize = 32 * 1024;

/// Adds the functions.
pub fn add_to(part: &Object<'_>) -> Result<()> {
    part.set("compress", Func::from(compress))?;
    part.set("decompress", Func::from(decompress))
}

/// `format` is `gzip`, `deflate` (zlib's), `deflate-raw` or `brotli`; `level` 0 to 9, for brotli 0 to 11; `window` is brotli's, in bits.
fn compress<'js>(ctx: Ctx<'js>, format: String, level: u32, window: u32, data: ArrayBuffer<'js>) -> Result<ArrayBuffer<'js>> {
    let data = bytes(&ctx, &data)?;
    let strength = Compression::new(level.min(9));
    let packed = match format.as_str() {
        "gzip" => all(GzBuilder::new().operating_system(UNIX).write(Vec::new(), strength), data, write::GzEncoder::finish),
        "deflate" => all(write::ZlibEncoder::new(Vec::new(), strength), data, write::ZlibEncoder::finish),
        "deflate-raw" => all(write::DeflateEncoder::new(Vec::new(), strength), data, write::DeflateEncoder::finish),
        "brotli" => {
            let params = brotli::enc::BrotliEncoderParams { quality: level.min(11) as i32, lgwin: window.clamp(10, 24) as i32, ..Default::default() };
            let mut packed = Vec::new();
            brotli::BrotliCompress(&mut &data[..], &mut packed, &params).map(|_| packed)
        }
        _ => return Err(Exception::throw_type(&ctx, "the format is not known")),
    };
    ArrayBuffer::new_copy(ctx.clone(), packed.map_err(|error| Exception::throw_message(&ctx, &error.to_string()))?)
}

fn all<W: Write>(mut encoder: W, data: &[u8], finish: impl FnOnce(W) -> std::io::Result<Vec<u8>>) -> std::io::Result<Vec<u8>> {
    encoder.write_all(data)?;
    finish(encoder)
}

/// The bytes, how many of the input they took, and what went wrong: nothing, `short` (the input ends early), `bad` or `large` (more than `max`, or than the heap has left).
fn decompress<'js>(ctx: Ctx<'js>, format: String, max: f64, data: ArrayBuffer<'js>) -> Result<List<(ArrayBuffer<'js>, f64, String)>> {
    let data = bytes(&ctx, &data)?;
    let mut rest = data;
    let mut out = Vec::new();
    let max = (max as usize).min(heap::room());
    let state = match format.as_str() {
        "gzip" => drain(&mut bufread::GzDecoder::new(&mut rest), &mut out, max),
        "deflate" => drain(&mut bufread::ZlibDecoder::new(&mut rest), &mut out, max),
        "deflate-raw" => drain(&mut bufread::DeflateDecoder::new(&mut rest), &mut out, max),
        "brotli" => {
            let state = drain(&mut brotli::Decompressor::new(&mut rest, 1), &mut out, max);
            if state == "bad" && rest.is_empty() { "short" } else { state }
        }
        _ => return Err(Exception::throw_type(&ctx, "the format is not known")),
    };
    let used = (data.len() - rest.len()) as f64;
    Ok(List((ArrayBuffer::new_copy(ctx, out)?, used, state.to_owned())))
}

fn drain(from: &mut dyn Read, out: &mut Vec<u8>, max: usize) -> &'static str {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return "",
            Ok(some) if out.len() + some > max => return "large",
            Ok(some) => out.extend_from_slice(&chunk[..some]),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return "short",
            Err(_) => return "bad",
        }
    }
}
