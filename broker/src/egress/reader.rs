//! A body as it arrives, decoded, never more of it in memory than is wanted.

use std::collections::VecDeque;

use dormouse_protocol::broker::NetworkFailure;
use prometheus::IntCounter;
use reqwest::Response;
use tokio::time::Instant;

use super::{
    decode::Decoder,
    failure::{self, network},
};

/// Largest body, in bytes, as a cell reads it.
const RESPONSE_BYTES_MAX: u64 = 256 << 20;

/// A body that is being read.
#[derive(Debug)]
pub(crate) struct Reader {
    response: Response,
    decoder: Decoder,
    /// What has arrived and is not decoded.
    raw: VecDeque<u8>,
    /// What is decoded and not taken.
    ready: Vec<u8>,
    taken: u64,
    bytes_max: u64,
    end: Option<Result<(), NetworkFailure>>,
    received: IntCounter,
}

impl Reader {
    pub(crate) fn new(response: Response, received: IntCounter) -> Self {
        let decoder = Decoder::of(response.headers());
        let (raw, ready) = (VecDeque::new(), Vec::new());
        Self { response, decoder, raw, ready, taken: 0, bytes_max: RESPONSE_BYTES_MAX, end: None, received }
    }

    /// Reads until `enough` bytes are ready, the body has ended or failed, or it is `until`. Safe to drop at any moment.
    pub(crate) async fn fill(&mut self, enough: usize, until: Instant) {
        while self.ready.len() < enough && self.end.is_none() {
            if !self.raw.is_empty() {
                self.decode();
                continue;
            }
            match tokio::time::timeout_at(until, self.response.chunk()).await {
                Err(_) => return,
                Ok(Ok(Some(chunk))) => {
                    self.received.inc_by(chunk.len() as u64);
                    self.raw.extend(chunk);
                }
                Ok(Ok(None)) => {
                    let finished = self.decoder.finish(&mut self.ready);
                    self.end = Some(finished.map_err(|_| cut_short()));
                }
                Ok(Err(error)) => {
                    let at = self.response.url().origin().ascii_serialization();
                    self.end = Some(Err(failure::of_connection(&error, &at)));
                }
            }
        }
    }

    fn decode(&mut self) {
        match self.decoder.push(self.raw.make_contiguous(), &mut self.ready) {
            Ok(used) => drop(self.raw.drain(..used)),
            Err(_) => self.end = Some(Err(cut_short())),
        }
        if self.taken + self.ready.len() as u64 > self.bytes_max {
            let message = format!("the body is larger than {} bytes", self.bytes_max);
            self.end = Some(Err(network("ERR_BODY_TOO_LARGE", message)));
        }
    }

    /// Takes at most `max` of the bytes that are ready.
    pub(crate) fn take(&mut self, max: usize) -> Vec<u8> {
        let rest = self.ready.split_off(max.min(self.ready.len()));
        let taken = std::mem::replace(&mut self.ready, rest);
        self.taken += taken.len() as u64;
        taken
    }

    /// Whether bytes are ready.
    pub(crate) fn has_some(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether all was taken, of a body that ended well.
    pub(crate) fn is_over(&self) -> bool {
        self.ready.is_empty() && matches!(self.end, Some(Ok(())))
    }

    /// Why there will be no more, once all that came before was taken.
    pub(crate) fn failure(&self) -> Option<NetworkFailure> {
        match &self.end {
            Some(Err(failure)) if self.ready.is_empty() => Some(failure.clone()),
            _ => None,
        }
    }
}

fn cut_short() -> NetworkFailure {
    network("ERR_CONTENT_DECODING", "the body cannot be decoded, or was cut short")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(body: Vec<u8>, bytes_max: u64) -> Reader {
        let response = Response::from(http::Response::new(body));
        let received = IntCounter::new("received", "bytes").unwrap();
        Reader { bytes_max, ..Reader::new(response, received) }
    }

    #[tokio::test]
    async fn a_body_may_be_so_large_and_no_larger() {
        for (length, fits) in [(1_000, true), (1_001, false)] {
            let mut reader = reader(vec![b'x'; length], 1_000);
            reader.fill(usize::MAX, Instant::now()).await;
            assert_eq!(reader.failure().is_none() && reader.end == Some(Ok(())), fits, "{length}");
            assert_eq!(reader.received.get(), length as u64);
        }
    }

    #[tokio::test]
    async fn what_came_before_a_failure_is_taken_first() {
        let mut reader = reader(vec![b'x'; 10], 4);
        reader.fill(usize::MAX, Instant::now()).await;
        assert_eq!(reader.take(6).len(), 6);
        assert!(reader.failure().is_none() && !reader.is_over());
        assert_eq!(reader.take(6).len(), 4);
        assert_eq!(reader.failure().unwrap().code, "ERR_BODY_TOO_LARGE");
    }
}
