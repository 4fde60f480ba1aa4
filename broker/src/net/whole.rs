//! Bodies that are read whole.

use reqwest::Response;

use crate::room::{self, SMALL_BYTES_MAX};

/// The body up to `max` bytes, and whether that was all. What is large waits for room.
pub(crate) async fn read_up_to(response: &mut Response, max: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > SMALL_BYTES_MAX {
            room::current().wait_for(max).await;
        }
        let room = max - body.len();
        if let Some(fits) = chunk.get(..room).filter(|_| chunk.len() > room) {
            body.extend_from_slice(fits);
            return Ok((body, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, true))
}
