//! Answers of somebody who may mean harm: read up to a bound, then parsed.

use reqwest::Response;
use serde::de::DeserializeOwned;

/// Why an answer has not been read.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// It is longer than it may be.
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
    /// The connection failed.
    #[error(transparent)]
    Lost(#[from] reqwest::Error),
    /// It is not what was asked for.
    #[error("the answer is not as expected: {0}")]
    Garbled(#[from] serde_json::Error),
}

/// The JSON of an answer of at most `bytes_max`.
///
/// # Errors
/// It is longer, or is not that, or breaks off.
pub async fn read_json<T: DeserializeOwned>(response: Response, bytes_max: usize) -> Result<T, AnswerError> {
    Ok(serde_json::from_slice(&read_bytes(response, bytes_max).await?)?)
}

/// An answer of at most `bytes_max`.
///
/// # Errors
/// It is longer, or breaks off.
pub async fn read_bytes(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, AnswerError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if chunk.len() > bytes_max - body.len() {
            return Err(AnswerError::TooLong(bytes_max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str) -> Response {
        axum::http::Response::new(body.to_owned()).into()
    }

    #[tokio::test]
    async fn an_answer_is_read_up_to_its_bound() {
        assert_eq!(read_json::<Vec<u8>>(answer("[1,2]"), 5).await.unwrap(), [1, 2]);
        assert!(matches!(read_json::<Vec<u8>>(answer("[1,2]"), 4).await, Err(AnswerError::TooLong(4))));
        assert!(matches!(read_json::<Vec<u8>>(answer("[1,"), 5).await, Err(AnswerError::Garbled(_))));
    }
}
