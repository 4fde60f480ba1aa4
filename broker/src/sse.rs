//! Server-sent events as they arrive: <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

/// Bytes of the longest end of an event.
const END_BYTES_MAX: usize = 4;

/// What has arrived and was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Events {
    held: Vec<u8>,
    /// Where the next event begins.
    begins: usize,
    /// Up to where no event ends.
    looked: usize,
}

impl Events {
    /// Takes in more.
    pub(crate) fn push(&mut self, more: &[u8]) {
        self.held.extend_from_slice(more);
    }

    /// The data of the next event that is whole by now. What was passed over is not kept.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        // The end of an event may have begun in what was looked through.
        let from = self.begins.max(self.looked.saturating_sub(END_BYTES_MAX - 1));
        let Some((at, gap)) = self.held.get(from..).and_then(end_of_event) else {
            self.held.drain(..self.begins);
            (self.begins, self.looked) = (0, self.held.len());
            return None;
        };
        let event = self.held.get(self.begins..from + at).map(data_of);
        self.begins = from + at + gap;
        self.looked = self.begins;
        event
    }

    /// Bytes that are held.
    pub(crate) fn held(&self) -> usize {
        self.held.len() - self.begins
    }

    /// What is no whole event.
    pub(crate) fn into_rest(mut self) -> Vec<u8> {
        self.held.split_off(self.begins)
    }
}

fn data_of(event: &[u8]) -> Vec<u8> {
    let lines = event.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let data = lines.filter_map(|line| line.strip_prefix(b"data:")).map(|data| data.strip_prefix(b" ").unwrap_or(data));
    data.collect::<Vec<_>>().join(&b'\n')
}

fn end_of_event(bytes: &[u8]) -> Option<(usize, usize)> {
    let at = |gap: &[u8]| bytes.windows(gap.len()).position(|window| window == gap).map(|at| (at, gap.len()));
    [at(b"\n\n"), at(b"\r\n\r\n")].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(events: &mut Events) -> Vec<String> {
        std::iter::from_fn(|| events.next()).map(|data| String::from_utf8(data).unwrap()).collect()
    }

    #[test]
    fn events_are_found_however_they_arrive() {
        let body = b": hi\n\nevent: message\r\ndata: one\r\ndata:two\r\n\r\ndata: three\n\ndata: four";
        for step in [1, 7, body.len()] {
            let mut events = Events::default();
            let found: Vec<String> = body
                .chunks(step)
                .flat_map(|chunk| {
                    events.push(chunk);
                    all(&mut events)
                })
                .collect();
            assert_eq!(found, ["", "one\ntwo", "three"]);
            assert_eq!((events.held(), events.into_rest()), (10, b"data: four".to_vec()));
        }
    }

    #[test]
    fn a_long_stream_takes_no_more_memory_than_its_longest_event_and_each_byte_is_looked_at_once() {
        let (progress, mut events) = (b"data: x\r\n\r\n".repeat(1_000), Events::default());
        for _ in 0..200 {
            events.push(&progress);
            assert_eq!(all(&mut events).len(), 1_000);
            assert_eq!(events.held(), 0);
        }
        for _ in 0..10_000 {
            events.push(&[b'x'; 1_000]);
            assert_eq!(events.next(), None);
        }
        assert_eq!(events.held(), 10_000_000);
    }
}
