//! Files over HTTP: from a request to the session that has the file, and its content out of the store or into it.

use axum::Json;
use axum::body::{Body, BodyDataStream};
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use dormouse_lifecycle::SessionKey;
use dormouse_lifecycle::blobs::Blob;
use dormouse_protocol::file::{FileCall, FileEntry, FileList, Preconditions};
use dormouse_protocol::kernel::Assignment;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::ApiJson;
use dormouse_service::error::ApiResult;
use futures::{Stream, StreamExt as _};

use crate::contents::{Receiving, slice_at, stored};
use crate::pod::{Pod, task_ended};
use crate::session::Message;
use crate::session::files::{Answer, Ask, Content, Opened};

/// Bytes of the call that stands before a content.
const CALL_BYTES_MAX: usize = 1 << 20;

/// Bytes of the length that stands before the call.
const LENGTH_BYTES: usize = 4;

impl Pod {
    async fn ask_files(&self, assignment: &Assignment, ask: Ask) -> Result<Answer, ApiError> {
        let unanswered = if ask.is_read() { task_ended } else { unknown };
        self.ask_once(assignment, |reply| Message::Files(Box::new(assignment.clone()), Box::new(ask), reply), unanswered).await
    }

    /// Names below a directory.
    ///
    /// # Errors
    /// The session is not here, or there is no such directory.
    pub async fn list_files(&self, call: FileCall) -> Result<FileList, ApiError> {
        match self.ask_files(&call.assignment, Ask::List(call.path, call.recursive)).await? {
            Answer::Listed(list) => Ok(list),
            _ => Err(mismatch()),
        }
    }

    /// Removes a file, or a directory.
    ///
    /// # Errors
    /// The session is not here, or there is no such file, or it is not the one that is meant.
    pub async fn remove_file(&self, call: FileCall) -> Result<(), ApiError> {
        let FileCall { assignment, path, recursive, preconditions } = call;
        self.ask_files(&assignment, Ask::Remove { path, recursive, preconditions }).await.map(drop)
    }

    /// Writes a file. Answers once it is committed, and whether it is new.
    ///
    /// # Errors
    /// The content ends early or is too large, the session is not here, or the file is not the one that is meant.
    pub async fn write_file<E: std::fmt::Display>(
        &self,
        call: FileCall,
        content: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<(FileEntry, bool), ApiError> {
        let FileCall { assignment, path, preconditions, .. } = call;
        let Answer::Receiver(contents) = self.ask_files(&assignment, Ask::Receive).await? else { return Err(mismatch()) };
        let receiving = Receiving::begin(contents, false).await?;
        let mut content = std::pin::pin!(content);
        while let Some(chunk) = content.next().await {
            let chunk = chunk.map_err(|error| ApiError::new(ErrorCode::InvalidRequest, format!("the content ended early: {error}")))?;
            receiving.push(chunk).await?;
        }
        let upload = receiving.name().to_owned();
        match self.ask_files(&assignment, Ask::Adopt { path, upload, preconditions }).await? {
            Answer::Adopted(entry, is_new) => Ok((entry, is_new)),
            _ => Err(mismatch()),
        }
    }

    /// Reads a file, or the range of it that is asked for.
    ///
    /// # Errors
    /// The session is not here, there is no such file, or it is not the one that is meant.
    pub async fn read_file(&self, call: FileCall) -> Result<Response, ApiError> {
        let Opened { entry, content } = match self.ask_files(&call.assignment, Ask::Open(call.path.clone())).await? {
            Answer::Opened(opened) => opened,
            _ => return Err(mismatch()),
        };
        let etag = entry.etag.clone().unwrap_or_default();
        let known = known_headers(&entry);
        let Preconditions { if_match, if_none_match, range, if_range } = call.preconditions;
        if !(Preconditions { if_match, ..Preconditions::default() }).hold(Some(&etag)) {
            let message = format!("`{}` is another file than If-Match demands", entry.path);
            return Err(ApiError::new(ErrorCode::PreconditionFailed, message));
        }
        if !(Preconditions { if_none_match, ..Preconditions::default() }).hold(Some(&etag)) {
            return Ok((StatusCode::NOT_MODIFIED, known).into_response());
        }
        let wanted = range.filter(|_| if_range.is_none_or(|if_range| if_range == etag));
        let (status, from, to) = match wanted.as_deref().and_then(|range| parts_of(range, entry.size)) {
            None => (StatusCode::OK, 0, entry.size),
            Some(Some((from, to))) => (StatusCode::PARTIAL_CONTENT, from, to),
            Some(None) => {
                let message = format!("`{}` has {} bytes; the range lies behind them", entry.path, entry.size);
                return Err(ApiError::new(ErrorCode::RangeNotSatisfiable, message));
            }
        };
        let body = self.content(self.host().session_key(&call.assignment.uid, &call.assignment.name), content, from, to);
        let mut response = (status, known, [(header::CONTENT_LENGTH, (to - from).to_string())], body).into_response();
        if status == StatusCode::PARTIAL_CONTENT
            && let Ok(value) = format!("bytes {from}-{}/{}", to.saturating_sub(1), entry.size).parse()
        {
            response.headers_mut().insert(header::CONTENT_RANGE, value);
        }
        Ok(response)
    }

    /// The bytes of a content from `from` up to `to`, piece by piece.
    fn content(&self, session: SessionKey, content: Content, from: u64, to: u64) -> Body {
        match content {
            Content::Bytes(bytes) => {
                let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(bytes.len());
                Body::from(bytes.slice(at(from)..at(to)))
            }
            Content::Pieces(blob) => {
                let pod = self.clone();
                let parts = futures::stream::unfold((pod, session, blob, from), move |(pod, session, blob, at)| async move {
                    if at >= to {
                        return None;
                    }
                    let part = pod.part(&session, &blob, at, to).await;
                    // After an error the stream ends.
                    let next = part.as_ref().map_or(to, |bytes| at + bytes.len() as u64);
                    Some((part, (pod, session, blob, next)))
                });
                Body::from_stream(parts)
            }
        }
    }

    async fn part(&self, session: &SessionKey, blob: &Blob, at: u64, to: u64) -> Result<Bytes, ApiError> {
        let slice = slice_at(blob, at).ok_or_else(mismatch)?;
        let piece = stored(&self.host().storage, session, &slice.extent, slice.number, slice.used).await?;
        let bytes = usize::try_from(to - at).unwrap_or(usize::MAX).min(slice.bytes);
        Ok(piece.slice(slice.from..slice.from + bytes))
    }
}

/// What every answer says of a file.
fn known_headers(entry: &FileEntry) -> [(HeaderName, String); 4] {
    let modified: Option<jiff::Timestamp> = entry.modified.parse().ok();
    let modified = modified.map(|at| at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).unwrap_or_default();
    [
        (header::ETAG, entry.etag.clone().unwrap_or_default()),
        (header::LAST_MODIFIED, modified),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
    ]
}

/// The session's task is gone, and with it the word on what it did to a file.
fn unknown() -> ApiError {
    let message = "the session's task ended unexpectedly, and may have changed the file before: read it, then decide";
    ApiError::new(ErrorCode::OutcomeUnknown, message)
}

fn mismatch() -> ApiError {
    ApiError::new(ErrorCode::Internal, "a session answered something else than it was asked")
}

pub(crate) async fn list(State(pod): State<Pod>, ApiJson(call): ApiJson<FileCall>) -> ApiResult<Json<FileList>> {
    Ok(Json(pod.list_files(call).await?))
}

pub(crate) async fn remove(State(pod): State<Pod>, ApiJson(call): ApiJson<FileCall>) -> ApiResult<StatusCode> {
    pod.remove_file(call).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn write(State(pod): State<Pod>, body: Body) -> ApiResult<Response> {
    let mut content = body.into_data_stream();
    let (call, rest) = call_before(&mut content).await?;
    let content = futures::stream::iter([Ok(rest)]).chain(content);
    let (entry, is_new) = pod.write_file(call, content).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(entry)).into_response())
}

/// The call at the beginning of a body, and what of the content came with it.
async fn call_before(content: &mut BodyDataStream) -> Result<(FileCall, Bytes), ApiError> {
    let invalid = |why: &str| ApiError::new(ErrorCode::InvalidRequest, format!("the body does not begin with a call: {why}"));
    let mut begun = BytesMut::new();
    loop {
        if let Some((length, rest)) = begun.split_first_chunk::<LENGTH_BYTES>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > CALL_BYTES_MAX {
                return Err(invalid("it is too large"));
            }
            if let Some(call) = rest.get(..length) {
                let call = serde_json::from_slice(call).map_err(|error| invalid(&error.to_string()))?;
                return Ok((call, begun.split_off(LENGTH_BYTES + length).freeze()));
            }
        }
        match content.next().await {
            Some(Ok(chunk)) => begun.extend_from_slice(&chunk),
            Some(Err(error)) => return Err(invalid(&error.to_string())),
            None => return Err(invalid("it ends early")),
        }
    }
}

pub(crate) async fn read(State(pod): State<Pod>, ApiJson(call): ApiJson<FileCall>) -> ApiResult<Response> {
    Ok(pod.read_file(call).await?)
}

/// What one range of bytes means in a content of `size`: its first byte and the one behind it. `None`: it is no such range, and is not to be
/// regarded (RFC 9110, 14.2); `Some(None)`: it lies outside.
fn parts_of(range: &str, size: u64) -> Option<Option<(u64, u64)>> {
    let (first, last) = range.trim().strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        let bytes: u64 = last.parse().ok()?;
        return Some((bytes > 0 && size > 0).then(|| (size.saturating_sub(bytes), size)));
    }
    let first: u64 = first.parse().ok()?;
    let end = if last.is_empty() { size } else { last.parse::<u64>().ok().filter(|last| *last >= first)?.saturating_add(1).min(size) };
    Some((first < size).then_some((first, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        assert_eq!(parts_of("bytes=0-3", 10), Some(Some((0, 4))));
        assert_eq!(parts_of("bytes=8-", 10), Some(Some((8, 10))));
        assert_eq!(parts_of("bytes=8-99", 10), Some(Some((8, 10))));
        assert_eq!(parts_of("bytes=-3", 10), Some(Some((7, 10))));
        assert_eq!(parts_of("bytes=-30", 10), Some(Some((0, 10))));
        for outside in ["bytes=10-", "bytes=10-20", "bytes=-0"] {
            assert_eq!(parts_of(outside, 10), Some(None), "{outside}");
        }
        assert_eq!(parts_of("bytes=0-", 0), Some(None));
        for other in ["bytes=4-3", "lines=1-2", "bytes=1", "bytes=a-b", "bytes=0-1,4-5", "bytes=-"] {
            assert_eq!(parts_of(other, 10), None, "{other}");
        }
    }
}
