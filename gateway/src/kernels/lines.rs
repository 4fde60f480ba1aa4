//! Streams of lines, without a long line being kept.

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream::BoxStream};
use reqwest::Response;

use super::KernelError;

/// Largest line of a stream from a pod, in bytes: outputs of 64 MiB, each character of which may be written as six.
pub const LINE_BYTES_MAX: usize = 512 << 20;
/// Bytes of a line that are kept until its end has come; a longer one is passed on in pieces.
pub const LINE_KEPT_BYTES_MAX: usize = 64 << 10;

/// A line of a stream, without its newline, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A whole line.
    Line(Bytes),
    /// The first [`LINE_KEPT_BYTES_MAX`] bytes, about, of a longer one.
    Begin(Bytes),
    /// More of it.
    More(Bytes),
    /// It has ended.
    End,
}

/// Lines of a stream.
pub type Lines = BoxStream<'static, Result<Piece, KernelError>>;

/// The lines of an answer.
pub(super) fn lines(response: Response) -> Lines {
    split(response.bytes_stream().map(|chunk| chunk.map_err(KernelError::from)), LINE_KEPT_BYTES_MAX).boxed()
}

/// Cuts a stream of chunks at newlines; empty lines are left out. What follows the last newline is not a line: its end was lost.
pub(super) fn split(
    chunks: impl Stream<Item = Result<Bytes, KernelError>> + Send + 'static,
    kept_bytes_max: usize,
) -> impl Stream<Item = Result<Piece, KernelError>> + Send {
    let splitter = Splitter { chunks: Box::pin(chunks), buffer: BytesMut::new(), scanned: 0, passed_on: 0, ended: false };
    futures::stream::unfold(splitter, move |mut splitter| async move { Some((splitter.next(kept_bytes_max).await?, splitter)) })
}

struct Splitter<S> {
    chunks: std::pin::Pin<Box<S>>,
    buffer: BytesMut,
    /// Bytes of the buffer that hold no newline.
    scanned: usize,
    /// Bytes of the present line that have left; none while it is kept.
    passed_on: usize,
    ended: bool,
}

impl<S: Stream<Item = Result<Bytes, KernelError>>> Splitter<S> {
    async fn next(&mut self, kept_bytes_max: usize) -> Option<Result<Piece, KernelError>> {
        loop {
            if let Some(piece) = self.cut(kept_bytes_max) {
                return Some(Ok(piece));
            }
            if self.passed_on > LINE_BYTES_MAX {
                self.ended = true;
                self.passed_on = 0;
                self.buffer.clear();
                return Some(Err(KernelError::Garbled(format!("a line of more than {LINE_BYTES_MAX} bytes"))));
            }
            if self.ended {
                return None;
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(error)) => {
                    self.ended = true;
                    self.buffer.clear();
                    self.scanned = 0;
                    return Some(Err(error));
                }
                None => self.ended = true,
            }
        }
    }

    /// What can leave of what has come.
    fn cut(&mut self, kept_bytes_max: usize) -> Option<Piece> {
        loop {
            let end = self.buffer.iter().skip(self.scanned).position(|byte| *byte == b'\n').map(|at| self.scanned + at);
            let Some(end) = end else {
                self.scanned = self.buffer.len();
                let leaves = !self.buffer.is_empty() && (self.passed_on > 0 || self.buffer.len() > kept_bytes_max);
                return leaves.then(|| self.pass_on(self.buffer.len()));
            };
            if self.passed_on > 0 && end > 0 {
                return Some(self.pass_on(end));
            }
            let mut line = self.buffer.split_to(end + 1);
            line.truncate(end);
            self.scanned = 0;
            if std::mem::take(&mut self.passed_on) > 0 {
                return Some(Piece::End);
            }
            if !line.is_empty() {
                return Some(Piece::Line(line.freeze()));
            }
        }
    }

    fn pass_on(&mut self, bytes: usize) -> Piece {
        let is_begin = self.passed_on == 0;
        self.passed_on += bytes;
        self.scanned = 0;
        let piece = self.buffer.split_to(bytes).freeze();
        if is_begin { Piece::Begin(piece) } else { Piece::More(piece) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pieces(chunks: &[&str], kept_bytes_max: usize) -> Vec<Piece> {
        let chunks: Vec<_> = chunks.iter().map(|chunk| Ok(Bytes::copy_from_slice(chunk.as_bytes()))).collect();
        split(futures::stream::iter(chunks), kept_bytes_max).map(|piece| piece.unwrap()).collect().await
    }

    #[tokio::test]
    async fn lines_are_whole_however_the_chunks_fall() {
        let chunks = ["{\"a\"", ":1}\n\n{\"b\":2}\n{\"c", "\":3}\n", "cut off"];
        let lines = ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"].map(|line| Piece::Line(Bytes::from_static(line.as_bytes())));
        assert_eq!(pieces(&chunks, 100).await, lines);
    }

    #[tokio::test]
    async fn a_long_line_is_passed_on_in_pieces_and_none_is_kept() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let long = pieces(&["ab", "cd", "efg", "hi\nj", "\n"], 3).await;
        let expected =
            [Piece::Begin(bytes("abcd")), Piece::More(bytes("efg")), Piece::More(bytes("hi")), Piece::End, Piece::Line(bytes("j"))];
        assert_eq!(long, expected);
        assert_eq!(pieces(&["abcd", "\nx\n"], 3).await, [Piece::Begin(bytes("abcd")), Piece::End, Piece::Line(bytes("x"))]);
        assert_eq!(pieces(&["abcd", "e"], 3).await, [Piece::Begin(bytes("abcd")), Piece::More(bytes("e"))], "an end that was lost is none");
    }
}
