//! A log of changes to files: of a fixed size, written from the beginning to the end, each record with a checksum.
//!
//! The file is made with all its bytes, which are zeros: a full disk refuses it then and not later, and to sync a record changes no length. A
//! record is `length: u32, crc32: u32, body`, and its body `kind: u8, name length: u16, name, bytes`, all little-endian. The first one that is not
//! whole is the end: what a failure cut off is always the last thing that was written, and nobody was told that it is durable.

use std::{collections::BTreeSet, ffi::OsStr, io, path::Path, sync::Arc};

use bytes::Bytes;

use crate::{change::Change, disk::LogFile};

/// What stands before a record's body.
const HEADER_BYTES: usize = 8;
const REPLACED: u8 = 1;
const REMOVED: u8 = 2;

/// The log that changes go to.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn LogFile>,
    /// Bytes of the file.
    bytes: u64,
    /// Where the next record begins.
    pub(crate) end: u64,
    /// Up to where it is durable.
    pub(crate) synced: u64,
    /// Somebody syncs it.
    pub(crate) syncing: bool,
    /// It could not be written or synced: what it has may be durable or not, and it takes no more.
    pub(crate) failed: bool,
}

impl Log {
    /// A log that has nothing in it.
    pub(crate) fn new(number: u64, file: Arc<dyn LogFile>, bytes: u64) -> Self {
        Self { number, file, bytes, end: 0, synced: 0, syncing: false, failed: false }
    }

    pub(crate) fn has_room(&self, record: &[u8]) -> bool {
        self.end + record.len() as u64 <= self.bytes
    }

    /// Writes a record behind the others. Answers where it ends.
    ///
    /// # Errors
    /// It may be there: where what was not written of it is zeros, as the log was, it is whole.
    pub(crate) fn append(&mut self, record: &[u8]) -> io::Result<u64> {
        let written = self.file.write_at(record, self.end);
        self.failed |= written.is_err();
        written?;
        self.end += record.len() as u64;
        Ok(self.end)
    }

    /// Makes everything durable that is there.
    ///
    /// # Errors
    /// Nobody knows what is.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let synced = if self.synced < self.end { self.file.sync() } else { Ok(()) };
        self.failed |= synced.is_err();
        synced?;
        self.synced = self.end;
        Ok(())
    }
}

/// A change as it stands in a log.
///
/// # Errors
/// The name is longer than any file system takes.
pub(crate) fn record(name: &str, change: &Change) -> io::Result<Vec<u8>> {
    let name_bytes = u16::try_from(name.len()).map_err(io::Error::other)?;
    let bytes = change.as_deref().unwrap_or_default();
    let body_bytes = 3 + name.len() + bytes.len();
    let mut record = Vec::with_capacity(HEADER_BYTES + body_bytes);
    record.extend(u32::try_from(body_bytes).map_err(io::Error::other)?.to_le_bytes());
    record.extend([0; 4]);
    record.push(if change.is_some() { REPLACED } else { REMOVED });
    record.extend(name_bytes.to_le_bytes());
    record.extend(name.as_bytes());
    record.extend(bytes);
    let (header, body) = record.split_at_mut(HEADER_BYTES);
    if let Some(checksum) = header.get_mut(4..) {
        checksum.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }
    Ok(record)
}

/// The changes of a log, in their order.
pub(crate) fn changes(log: &Bytes) -> impl Iterator<Item = (String, Change)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (change, bytes) = first(&log.slice(at..))?;
        at += bytes;
        Some(change)
    })
}

/// The first change, and how many bytes it has.
fn first(log: &Bytes) -> Option<((String, Change), usize)> {
    let (length, rest) = log.split_first_chunk::<4>()?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let body = rest.get(..usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let (kind, named) = body.split_first()?;
    let (name_bytes, named) = named.split_first_chunk::<2>()?;
    let (name, bytes) = named.split_at_checked(u16::from_le_bytes(*name_bytes).into())?;
    if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let change = match *kind {
        REPLACED => Some(log.slice_ref(bytes)),
        REMOVED => None,
        _ => return None,
    };
    Some(((String::from_utf8(name.to_vec()).ok()?, change), HEADER_BYTES + body.len()))
}

/// The number that a log's name is.
pub(crate) fn number_of(name: &OsStr) -> Option<u64> {
    name.to_str()?.parse().ok()
}

/// The logs that there are.
pub(crate) fn numbers(logs: &Path) -> io::Result<BTreeSet<u64>> {
    std::fs::read_dir(logs)?.filter_map(|entry| entry.map(|entry| number_of(&entry.file_name())).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (Vec<u8>, usize) {
        let first = record("t/a/head", &Some(Bytes::from_static(b"one"))).unwrap();
        let ends = first.len();
        (first.into_iter().chain(record("t/b", &None).unwrap()).chain([0; 64]).collect(), ends)
    }

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let read: Vec<_> = changes(&two().0.into()).collect();
        assert_eq!(read, [("t/a/head".to_owned(), Some(Bytes::from_static(b"one"))), ("t/b".to_owned(), None)]);
    }

    #[test]
    fn whatever_bit_is_wrong_it_ends_there() {
        let (whole, first) = two();
        for bit in 0..(whole.len() - 64) * 8 {
            let mut log = whole.clone();
            log[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(changes(&log.into()).count(), usize::from(bit / 8 >= first), "bit {bit}");
        }
        for bytes in 0..whole.len() - 64 {
            assert_eq!(changes(&Bytes::copy_from_slice(&whole[..bytes])).count(), usize::from(bytes >= first), "{bytes} bytes");
        }
    }
}
