//! Large answers of tools: they stay among the session's contents, and go into later calls from there.

use std::collections::BTreeMap;

use dormouse_crds::broker::Offload;
use dormouse_lifecycle::blobs::ID_DIGITS;
use dormouse_protocol::broker::{CALL_BYTES_MAX, CALL_SERVICE, LargeBody};
use dormouse_protocol::reference::{self, Reference};
use dormouse_protocol::{ApiError, ErrorCode};
use serde_json::Value;

use crate::contents::Contents;

/// Bytes of a call that are left for what is not a reference's: arguments, names, the rest of the message.
const CALL_REST_BYTES: usize = 8 << 20;

/// An answer that is to stay outside in any case comes as it is from so many bytes on.
const STREAMED_BYTES_MIN: u64 = 64 << 10;

/// A body of a service's request is sent by itself if it has more bytes.
const BODY_BYTES_MIN: u64 = 1 << 20;

/// The argument that is one.
const BODY: &str = "body";

/// Bytes of all that the references of one call stand for.
const REFERENCES_BYTES_MAX: usize = CALL_BYTES_MAX - CALL_REST_BYTES;

/// What the heap gets of an answer: itself, or what stands for it. `wanted` is the call's own word, `offload` the ToolBroker's.
pub(crate) async fn keep(contents: &Contents, answer: Value, wanted: Option<bool>, offload: Offload) -> Result<Value, ApiError> {
    if wanted == Some(false) || (wanted.is_none() && !is_large(&answer, offload.threshold_bytes)) {
        return Ok(answer);
    }
    let (digits, preview) = (contents.digits(ID_DIGITS), usize::try_from(offload.preview_chars).unwrap_or(usize::MAX));
    let (reference, content) = contents.beside(move || Reference::of(answer, &digits, preview)).await?;
    contents.keep(&reference.id, reference.is_text(), &content).await.map_err(|error| {
        let message = format!("the call was made, and its answer of {} bytes cannot be kept: {}", content.len(), error.message);
        ApiError::new(error.code, message)
    })?;
    Ok(reference.token())
}

/// From how many bytes on an answer may come part by part. `wanted` is the call's own word, `offload` the ToolBroker's.
pub(crate) fn streamed_above(wanted: Option<bool>, offload: Offload) -> Option<u64> {
    match wanted {
        Some(false) => None,
        Some(true) => Some(STREAMED_BYTES_MIN),
        None => Some(offload.threshold_bytes),
    }
}

/// What stands for the body of a service's request that is sent by itself, because it is large.
pub(crate) async fn large_body(contents: &Contents, tool: &str, args: &Value) -> Option<LargeBody> {
    let id = args.get(BODY).filter(|_| tool == CALL_SERVICE).and_then(reference::bytes_id)?;
    let bytes = contents.find(id).await?.bytes();
    (bytes > BODY_BYTES_MIN).then(|| LargeBody { id: id.to_owned(), bytes })
}

/// What the references among `args` stand for, but for a body that is sent by itself.
pub(crate) async fn values(contents: &Contents, args: &Value, body: Option<&LargeBody>) -> Result<BTreeMap<String, Value>, ApiError> {
    let (mut values, mut bytes) = (BTreeMap::new(), 0);
    let ids = match (body, args) {
        (Some(_), Value::Object(fields)) => {
            fields.iter().filter(|(name, _)| *name != BODY).flat_map(|(_, value)| reference::ids(value)).collect()
        }
        _ => reference::ids(args),
    };
    for id in ids {
        let known = id.starts_with(reference::PREFIX);
        let text = if known { contents.whole(&id).await? } else { None };
        let text = text.ok_or_else(|| reference::not_found(&id))?;
        bytes += if id.ends_with(reference::BYTES_END) { text.len().div_ceil(3) * 4 } else { text.len() };
        if bytes > REFERENCES_BYTES_MAX {
            let message = format!(
                "the references of one call may stand for {REFERENCES_BYTES_MAX} bytes, these do for more: pass them on in several calls"
            );
            return Err(ApiError::new(ErrorCode::SizeAdmissionError, message));
        }
        let name = id.clone();
        let value = contents.beside(move || reference::value(&name, &text)).await?;
        values.insert(id, value);
    }
    Ok(values)
}

/// Whether its JSON has `threshold` bytes or more.
fn is_large(answer: &Value, threshold: u64) -> bool {
    /// Bytes until it is enough.
    struct Left(u64);

    impl std::io::Write for Left {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_sub(bytes.len() as u64);
            if self.0 > 0 { Ok(bytes.len()) } else { Err(std::io::ErrorKind::FileTooLarge.into()) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    serde_json::to_writer(Left(threshold), answer).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_large_from_its_bound_on() {
        let answer = Value::String("x".repeat(98));
        assert_eq!([1, 99, 100, 101, u64::MAX].map(|threshold| is_large(&answer, threshold)), [true, true, true, false, false]);
    }
}
