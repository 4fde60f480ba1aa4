//! Names that clients choose.

use dormouse_protocol::{ApiError, ErrorCode};

/// Longest name, in bytes: it is a DNS label.
pub const NAME_BYTES_MAX: usize = 63;

/// Refuses what is not a DNS label.
pub fn check_name(name: &str, what: &str) -> Result<(), ApiError> {
    let bytes = name.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let fits = bytes.len() <= NAME_BYTES_MAX
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-');
    if fits {
        return Ok(());
    }
    let message = format!(
        "{what}: `{name}` is not a DNS label: use at most {NAME_BYTES_MAX} of a-z, 0-9 and '-', beginning and ending with a letter or digit"
    );
    Err(ApiError::new(ErrorCode::InvalidRequest, message).with_details(serde_json::json!({ "path": what })))
}
