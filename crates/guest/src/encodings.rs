//! The encodings of the web beside UTF-8, for `TextDecoder`: encoding_rs, whose labels and tables are the standard's.

use encoding_rs::{Decoder, DecoderResult, Encoding};
use rquickjs::{convert::List, function::Func, ArrayBuffer, Ctx, Exception, Object, Result};

use crate::{crypto::bytes, single::Single};

/// Decoders of streams that may be open at once.
const STREAMS_MAX: usize = 4096;

/// Decoders between two chunks of their stream; a place that is none may be taken.
static STREAMS: Single<Vec<Option<Decoder>>> = Single::new(Vec::new());

/// Adds the functions.
pub fn add_to(part: &Object<'_>) -> Result<()> {
    part.set("encodingName", Func::from(name))?;
    part.set("decodeAs", Func::from(decode))
}

/// The standard's name of a label, in lower case.
fn name(label: String) -> Option<String> {
    Encoding::for_label_no_replacement(label.as_bytes()).map(|encoding| encoding.name().to_ascii_lowercase())
}

/// The text of a chunk, and the stream that goes on (-1 when it has ended). `stream` is what the chunk before gave, -1 for a new one.
/// Nothing when `fatal` and the bytes are malformed.
fn decode<'js>(
    ctx: Ctx<'js>,
    label: String,
    stream: i32,
    data: ArrayBuffer<'js>,
    fatal: bool,
    keep_mark: bool,
    more: bool,
) -> Result<Option<List<(String, i32)>>> {
    let Some(encoding) = Encoding::for_label_no_replacement(label.as_bytes()) else {
        return Err(Exception::throw_range(&ctx, "the encoding is not known"));
    };
    let data = bytes(&ctx, &data)?;
    let streams = STREAMS.get();
    let open = usize::try_from(stream).ok().and_then(|at| streams.get_mut(at)).and_then(Option::take);
    let mut decoder = open.unwrap_or_else(|| if keep_mark { encoding.new_decoder_without_bom_handling() } else { encoding.new_decoder_with_bom_removal() });
    let room = if fatal { decoder.max_utf8_buffer_length_without_replacement(data.len()) } else { decoder.max_utf8_buffer_length(data.len()) };
    let Some(room) = room else { return Err(Exception::throw_range(&ctx, "the bytes are too many")) };
    let mut text = String::with_capacity(room);
    if fatal {
        if let (DecoderResult::Malformed(..), _) = decoder.decode_to_string_without_replacement(data, &mut text, !more) {
            return Ok(None);
        }
    } else {
        let _ = decoder.decode_to_string(data, &mut text, !more);
    }
    if !more {
        return Ok(Some(List((text, -1))));
    }
    let at = match streams.iter().position(Option::is_none) {
        Some(at) => at,
        None if streams.len() < STREAMS_MAX => {
            streams.push(None);
            streams.len() - 1
        }
        None => return Err(Exception::throw_range(&ctx, "at most 4096 streams of legacy encodings may be open; end some with decode()")),
    };
    streams[at] = Some(decoder);
    Ok(Some(List((text, at as i32))))
}
