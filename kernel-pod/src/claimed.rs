//! Calls whose assignment may be only claimed so far: what a gateway sends while it writes status.

use std::time::Duration;

use axum::body::BodyDataStream;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use dormouse_protocol::kernel::CLAIM_HEADER;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::{ApiErrorResponse, ApiJson, error};
use futures::StreamExt as _;
use serde::de::DeserializeOwned;

use crate::claim::Claim;

/// The largest request body, in bytes: a cell's source and a spec.
pub(crate) const BODY_BYTES_MAX: usize = 8 << 20;

/// How long a claim may stay open: longer than a gateway waits for the API server. A gateway that vanished without closing its connection is
/// noticed so.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(20);

/// A call, and the claim that it rests on unless status has its assignment.
pub(crate) struct Claimed<T>(pub T, pub Option<Claim>);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Claimed<T> {
    type Rejection = ApiErrorResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        if !request.headers().contains_key(CLAIM_HEADER) {
            let ApiJson(call) = ApiJson::from_request(request, state).await?;
            return Ok(Self(call, None));
        }
        let mut rest = request.into_body().into_data_stream();
        let line = first_line(&mut rest).await?;
        let call = error::parse(&line)?;
        let claim = Claim::default();
        tokio::spawn(decide(claim.clone(), rest));
        Ok(Self(call, Some(claim)))
    }
}

/// Everything up to the first newline. What follows in the same chunk is nothing that matters.
async fn first_line(body: &mut BodyDataStream) -> Result<Bytes, ApiError> {
    let mut line = BytesMut::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| ApiError::new(ErrorCode::InvalidRequest, format!("the body cannot be read: {error}")))?;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default());
        if line.len() > BODY_BYTES_MAX {
            return Err(ApiError::new(ErrorCode::SizeAdmissionError, format!("the body has more than {BODY_BYTES_MAX} bytes")));
        }
        if end.is_some() {
            break;
        }
    }
    Ok(line.freeze())
}

/// Reads a body to its end, which confirms the claim; anything else withdraws it.
async fn decide(claim: Claim, mut rest: BodyDataStream) {
    let ended = tokio::time::timeout(CLAIM_TIMEOUT, async {
        loop {
            match rest.next().await {
                None => return true,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "a claim was cut off");
                    return false;
                }
            }
        }
    });
    if ended.await.unwrap_or(false) { claim.confirm() } else { claim.withdraw() }
}
