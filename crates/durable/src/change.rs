//! What happens to a file.

use std::io;

use bytes::Bytes;

/// A file's new bytes, or none when it is removed.
pub(crate) type Change = Option<Bytes>;

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Nothing has changed.
    #[error(transparent)]
    Refused(io::Error),
    /// It may be durable, or not. Whoever reads sees it.
    #[error(transparent)]
    Unknown(io::Error),
}
