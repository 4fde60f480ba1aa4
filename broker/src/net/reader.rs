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
use crate::redact::Redactor;

/// Largest body, in bytes, as a cell reads it.
const RESPONSE_BYTES_MAX: u64 = 256 << 20;

/// The code of a body that is larger than it may be.
pub(crate) const TOO_LARGE: &str = "ERR_BODY_TOO_LARGE";

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
    redacting: Redacting,
}

/// What is taken out of the bytes before they are ready, and those of which that is not sure yet.
#[derive(Default)]
struct Redacting {
    redactor: Option<Redactor>,
    held: Vec<u8>,
}

impl std::fmt::Debug for Redacting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redacting")
    }
}

impl Reader {
    pub(crate) fn new(response: Response, received: IntCounter) -> Self {
        let decoder = Decoder::of(response.headers());
        let (raw, ready) = (VecDeque::new(), Vec::new());
        let redacting = Redacting::default();
        Self { response, decoder, raw, ready, taken: 0, bytes_max: RESPONSE_BYTES_MAX, end: None, received, redacting }
    }

    /// The same of at most so many bytes.
    pub(crate) fn within(self, bytes_max: usize) -> Self {
        Self { bytes_max: bytes_max as u64, ..self }
    }

    /// From now on these are taken out of what is read, of which nothing was taken yet.
    pub(crate) fn redact(&mut self, redactor: Redactor) {
        self.redacting = Redacting { redactor: Some(redactor), held: Vec::new() };
        let mut ready = std::mem::take(&mut self.ready);
        self.make_ready(&mut ready);
        self.finish();
    }

    /// What is decoded is ready, but for what may be a beginning of something that is taken out.
    fn make_ready(&mut self, fresh: &mut Vec<u8>) {
        let Redacting { redactor, held } = &mut self.redacting;
        match redactor {
            None => self.ready.append(fresh),
            Some(redactor) => {
                held.append(fresh);
                self.ready.append(&mut redactor.pass(held));
            }
        }
    }

    /// After the end nothing is the beginning of anything.
    fn finish(&mut self) {
        if self.end.is_some() {
            self.ready.append(&mut self.redacting.held);
        }
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
                    let mut fresh = Vec::new();
                    let finished = self.decoder.finish(&mut fresh);
                    self.make_ready(&mut fresh);
                    self.end = Some(finished.map_err(|_| cut_short()));
                    self.finish();
                }
                Ok(Err(error)) => {
                    let at = self.response.url().origin().ascii_serialization();
                    self.end = Some(Err(failure::of_connection(&error, &at)));
                }
            }
        }
    }

    fn decode(&mut self) {
        let mut fresh = Vec::new();
        match self.decoder.push(self.raw.make_contiguous(), &mut fresh) {
            Ok(used) => drop(self.raw.drain(..used)),
            Err(_) => self.end = Some(Err(cut_short())),
        }
        self.make_ready(&mut fresh);
        let held = self.redacting.held.len();
        if self.taken + (self.ready.len() + held) as u64 > self.bytes_max {
            let message = format!("the body is larger than {} bytes", self.bytes_max);
            self.end = Some(Err(network(TOO_LARGE, message)));
        }
    }

    /// Takes at most `max` of the bytes that are ready.
    pub(crate) fn take(&mut self, max: usize) -> Vec<u8> {
        let rest = self.ready.split_off(max.min(self.ready.len()));
        let taken = std::mem::replace(&mut self.ready, rest);
        self.taken += taken.len() as u64;
        taken
    }

    /// Whether more than so many bytes are ready.
    pub(crate) fn has_more_than(&self, bytes: usize) -> bool {
        self.ready.len() > bytes
    }

    /// Keeps no more memory than what has arrived takes: whoever asks next may come late.
    pub(crate) fn shrink(&mut self) {
        self.ready.shrink_to_fit();
        self.raw.shrink_to_fit();
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
