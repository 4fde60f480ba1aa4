//! Large answers of tools: they stay among the session's contents, and go into later calls from there.

use std::collections::BTreeMap;

use dormouse_lifecycle::blobs::ID_DIGITS;
use dormouse_protocol::broker::CALL_BYTES_MAX;
use dormouse_protocol::reference::{self, REFERENCE_BYTES_MIN, Reference};
use dormouse_protocol::{ApiError, ErrorCode};
use serde_json::Value;

use crate::contents::Contents;

/// Bytes of a call that are left for what is not a reference's: arguments, names, the rest of the message.
const CALL_REST_BYTES: usize = 8 << 20;

/// Bytes of all that the references of one call stand for.
const REFERENCES_BYTES_MAX: usize = CALL_BYTES_MAX - CALL_REST_BYTES;

/// What the heap gets of an answer: itself, or what stands for it. `wanted` is the call's own word.
pub(crate) async fn keep(contents: &Contents, answer: Value, wanted: Option<bool>) -> Result<Value, ApiError> {
    if wanted == Some(false) || (wanted.is_none() && !is_large(&answer)) {
        return Ok(answer);
    }
    let digits = contents.digits(ID_DIGITS);
    let made = contents.beside(move || Reference::of(answer, &digits)).await?;
    let (reference, text) = made;
    contents.keep(&reference.id, true, text.as_bytes()).await.map_err(|error| {
        let message = format!("the call was made, and its answer of {} bytes cannot be kept: {}", text.len(), error.message);
        ApiError::new(error.code, message)
    })?;
    Ok(reference.token())
}

/// What the references among `args` stand for.
pub(crate) async fn values(contents: &Contents, args: &Value) -> Result<BTreeMap<String, Value>, ApiError> {
    let (mut values, mut bytes) = (BTreeMap::new(), 0);
    for id in reference::ids(args).into_iter() {
        let known = id.starts_with(reference::PREFIX);
        let text = if known { contents.whole(&id).await? } else { None };
        let text = text.ok_or_else(|| reference::not_found(&id))?;
        bytes += text.len();
        if bytes > REFERENCES_BYTES_MAX {
            let message = format!(
                "the references of one call may stand for {REFERENCES_BYTES_MAX} bytes, these do for more: pass them on in several calls"
            );
            return Err(ApiError::new(ErrorCode::SizeAdmissionError, message));
        }
        let name = id.clone();
        let value = contents.beside(move || reference::value(&name, text)).await??;
        values.insert(id, value);
    }
    Ok(values)
}

/// Whether its JSON has [`REFERENCE_BYTES_MIN`] bytes or more.
fn is_large(answer: &Value) -> bool {
    /// Counts, and stops where it is enough.
    struct Counted(usize);

    impl std::io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            if self.0 < REFERENCE_BYTES_MIN { Ok(bytes.len()) } else { Err(std::io::ErrorKind::FileTooLarge.into()) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    serde_json::to_writer(Counted(0), answer).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_large_from_its_bound_on() {
        let quotes = 2;
        assert!(!is_large(&Value::String("x".repeat(REFERENCE_BYTES_MIN - quotes - 1))));
        assert!(is_large(&Value::String("x".repeat(REFERENCE_BYTES_MIN - quotes))));
    }
}
