//! Answers, read within their limits.

use bytes::Bytes;
use dormouse_protocol::{ErrorBody, event::Event};
use futures::{Stream, StreamExt as _, stream, stream::BoxStream};
use reqwest::{
    RequestBuilder, Response,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde::de::DeserializeOwned;

use crate::{ANSWER_BYTES_MAX, Error, lines::Lines, newer};

/// Sends, and reads a JSON answer.
pub(crate) async fn json<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Error> {
    let response = successful(request).await?;
    let status = response.status().as_u16();
    let body = read(response).await?;
    newer::read(&body).map_err(|refusal| Error::Garbled { status, reason: refusal.to_string() })
}

/// Sends, and gives the messages that are answered, each JSON that says itself whether it is a success: one, some as server-sent events, or none.
pub(crate) async fn messages(request: RequestBuilder) -> Result<(HeaderMap, BoxStream<'static, Result<Bytes, Error>>), Error> {
    let response = request.send().await?;
    let headers = response.headers().clone();
    let is = |kind: &str| headers.get(CONTENT_TYPE).is_some_and(|told| told.as_bytes().starts_with(kind.as_bytes()));
    if is("application/json") {
        let message = read(response).await.map(Bytes::from);
        return Ok((headers, stream::once(async { message }).boxed()));
    }
    if is("text/event-stream") {
        let chunks = response.bytes_stream().map(|chunk| chunk.map_err(Error::from));
        let lines = Lines::new(chunks.boxed(), ANSWER_BYTES_MAX).into_stream();
        // Of an event only its data is a message, and one without data only bears an id.
        let data = |line: Bytes| {
            let data = line.strip_prefix(b"data:").map(|data| line.slice_ref(data.trim_ascii()));
            data.filter(|data| !data.is_empty())
        };
        let messages = lines.filter_map(move |line| std::future::ready(line.map(data).transpose()));
        return Ok((headers, messages.boxed()));
    }
    checked(response).await?;
    Ok((headers, stream::empty().boxed()))
}

/// Sends, and reads an answer without content.
pub(crate) async fn empty(request: RequestBuilder) -> Result<(), Error> {
    successful(request).await.map(drop)
}

/// Sends, and gives the answer's lines as events, without those of a kind that is not known here.
pub(crate) async fn events(request: RequestBuilder) -> Result<impl Stream<Item = Result<Event, Error>> + use<>, Error> {
    let response = successful(request).await?;
    let status = response.status().as_u16();
    let chunks = response.bytes_stream().map(|chunk| chunk.map_err(Error::from));
    let event = move |line: Bytes| match newer::read(&line) {
        Err(refusal) if refusal.is_of_unknown_kind() => Ok(None),
        read => read.map(Some).map_err(|refusal| Error::Garbled { status, reason: refusal.to_string() }),
    };
    let lines = Lines::new(chunks.boxed(), ANSWER_BYTES_MAX).into_stream();
    Ok(lines.filter_map(move |line| std::future::ready(line.and_then(event).transpose())))
}

/// Sends, and gives the answer's bytes as they come.
pub(crate) async fn bytes(request: RequestBuilder) -> Result<impl Stream<Item = Result<Bytes, Error>> + use<>, Error> {
    Ok(successful(request).await?.bytes_stream().map(|chunk| chunk.map_err(Error::from)))
}

async fn successful(request: RequestBuilder) -> Result<Response, Error> {
    checked(request.send().await?).await
}

async fn checked(response: Response) -> Result<Response, Error> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let body = read(response).await?;
    Err(match newer::read::<ErrorBody>(&body) {
        Ok(body) => Error::Api { status: Some(status.as_u16()), error: Box::new(body.error) },
        Err(_) => {
            let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            Error::Garbled { status: status.as_u16(), reason: if text.is_empty() { "no error body".to_owned() } else { text } }
        }
    })
}

async fn read(mut response: Response) -> Result<Vec<u8>, Error> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(Error::Garbled { status, reason: format!("it has more than {ANSWER_BYTES_MAX} bytes") });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
