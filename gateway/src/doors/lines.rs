//! Events of a stream, whole: long ones come in several frames.

use bytes::{Bytes, BytesMut};

use crate::stream::Frames;

/// Largest event that a door takes apart, in bytes.
pub(crate) const EVENT_BYTES_MAX: usize = 32 << 20;

/// Reads events.
pub(crate) struct Events {
    frames: Frames,
    rest: BytesMut,
    /// Of `rest`, how much has been looked through: a long event comes in many frames.
    searched: usize,
}

impl Events {
    pub(crate) fn new(frames: Frames) -> Self {
        Self { frames, rest: BytesMut::new(), searched: 0 }
    }

    /// The next event, as its line; `None` at the end, and where an event is too large.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let unseen = self.rest.get(self.searched..).unwrap_or_default();
            if let Some(at) = unseen.iter().position(|byte| *byte == b'\n') {
                let end = self.searched + at;
                self.searched = 0;
                let mut line = self.rest.split_to(end + 1);
                line.truncate(end);
                return Some(line.freeze());
            }
            self.searched = self.rest.len();
            if self.rest.len() > EVENT_BYTES_MAX {
                return None;
            }
            let frame = self.frames.recv().await?;
            self.rest.extend_from_slice(&frame.bytes);
        }
    }
}
