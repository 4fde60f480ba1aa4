//! A stream of chunks as a stream of lines.

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream::BoxStream};

use crate::Error;

/// Cuts chunks at line feeds. Empty lines are left out; what follows the last line feed was cut off and is an error.
pub(crate) struct Lines {
    chunks: BoxStream<'static, Result<Bytes, Error>>,
    pending: BytesMut,
    /// Bytes of `pending` that are known to hold no line feed.
    searched: usize,
    line_bytes_max: usize,
}

impl Lines {
    pub(crate) fn new(chunks: BoxStream<'static, Result<Bytes, Error>>, line_bytes_max: usize) -> Self {
        Self { chunks, pending: BytesMut::new(), searched: 0, line_bytes_max }
    }

    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Error>> {
        futures::stream::unfold(Some(self), |state| async {
            let mut lines = state?;
            match lines.next().await {
                Some(Ok(line)) => Some((Ok(line), Some(lines))),
                Some(Err(error)) => Some((Err(error), None)),
                None => None,
            }
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        loop {
            if let Some(at) = self.pending.get(self.searched..)?.iter().position(|byte| *byte == b'\n') {
                let mut line = self.pending.split_to(self.searched + at + 1);
                self.searched = 0;
                line.truncate(line.len() - 1);
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Some(Ok(line.freeze()));
            }
            self.searched = self.pending.len();
            if self.searched > self.line_bytes_max {
                return Some(Err(Error::CutOff(format!("a line has more than {} bytes", self.line_bytes_max))));
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.pending.extend_from_slice(&chunk),
                Some(Err(error)) => return Some(Err(error)),
                None if self.pending.is_empty() => return None,
                None => return Some(Err(Error::CutOff("in the middle of a line".to_owned()))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(chunks: &[&'static str], max: usize) -> Vec<Result<String, String>> {
        let chunks: Vec<_> = chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))).collect();
        let lines = Lines::new(futures::stream::iter(chunks).boxed(), max).into_stream();
        lines.map(|line| line.map(|line| String::from_utf8(line.to_vec()).unwrap()).map_err(|error| error.to_string())).collect().await
    }

    #[tokio::test]
    async fn lines_are_cut_wherever_chunks_end() {
        assert_eq!(lines(&["a", "b\n\nc\n", "d", "\n"], 100).await, [Ok("ab".to_owned()), Ok("c".to_owned()), Ok("d".to_owned())]);
        assert_eq!(lines(&[], 100).await, []);
    }

    #[tokio::test]
    async fn a_line_that_never_ends_is_an_error() {
        assert!(lines(&["a\n", "b"], 100).await[1].as_ref().unwrap_err().contains("middle of a line"));
        assert!(lines(&["abcdef", "gh\n"], 5).await[0].as_ref().unwrap_err().contains("more than 5 bytes"));
    }
}
