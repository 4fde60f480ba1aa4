//! A session's page of calls between memory and store, in clear or encrypted and whose it is; and how what it refuses is told.

use bytes::Bytes;
use dormouse_lifecycle::{
    calls::{CallPage, Refusal},
    keys,
};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_seal::{Name, Seal};

use super::slot::Slot;

/// The page that stored bytes are. One in clear may be from before the pool had keys.
pub(super) async fn open(seal: &Seal, bytes: Bytes, slot: &Slot) -> Result<CallPage, ApiError> {
    let opened = seal.open(bytes).await.map_err(|error| if error.wants_keys() { keys_error(&error) } else { damaged(&error, slot) })?;
    if let Some(sealed) = opened.sealed.filter(|sealed| sealed.session != slot.session.uid || sealed.object != keys::CALLS) {
        return Err(damaged(&format!("it is {} of session {}, put in another's place", sealed.object, sealed.session), slot));
    }
    CallPage::decode(&opened.bytes, &slot.session).map_err(|error| damaged(&error, slot))
}

pub(super) fn damaged(why: &dyn std::fmt::Display, slot: &Slot) -> ApiError {
    let message = format!("{why}: no call of this session that is unsafe to repeat is made. Its key is {}", slot.session.calls());
    ApiError::new(ErrorCode::SnapshotCorrupt, message)
}

/// What to store for a page.
pub(super) async fn close(seal: &Seal, page: &mut CallPage, slot: &Slot) -> Result<Bytes, ApiError> {
    let bytes = page.encode().map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
    let Some(writer) = seal.writer().await.map_err(|error| keys_error(&error))? else { return Ok(bytes) };
    // A page is made by no engine.
    let name = Name { session: &slot.session.uid, object: keys::CALLS, engine: "" };
    writer.seal(name, &bytes).map_err(|error| keys_error(&error))
}

pub(super) fn keys_error(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::StorageUnavailable, format!("{error}. Calls that are unsafe to repeat are refused until the keys are there"))
}

pub(super) fn refused(call: u64, refusal: Refusal) -> ApiError {
    let code = match refusal {
        Refusal::EpochOver { .. } => ErrorCode::SessionGone,
        Refusal::EpochTooFar => ErrorCode::InvalidRequest,
        Refusal::TooMany => ErrorCode::SessionBusy,
        Refusal::AnotherCall => ErrorCode::Conflict,
        Refusal::Unkept | Refusal::Unknown => ErrorCode::OutcomeUnknown,
    };
    let error = ApiError::new(code, format!("call {call}: {refusal}"));
    match refusal {
        // So that the next epoch need not be found by trying.
        Refusal::EpochOver { highest } => error.with_detail("epoch", highest),
        _ => error,
    }
}

pub(super) fn unreadable(call: u64) -> ApiError {
    ApiError::new(ErrorCode::Internal, format!("the stored answer of call {call} cannot be read; it is not made again"))
}
