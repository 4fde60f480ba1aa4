//! Files that survive a failure of power at any moment: whole, and there once they were said to be.
//!
//! A rename is seen at once and durable only when the folder is synced; a folder's own entry is durable when its parent is. [`Disk`] promises no
//! more than a file system does, so that the order of these steps can be tried on one that loses everything else.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

mod change;
mod disk;
mod files;
mod locks;
mod log;
mod place;

pub use change::ChangeError;
pub use disk::{Disk, LogFile, System, make_folders, replace};
pub use files::{Files, LOG_BYTES, LOGGED_BYTES_MAX};
pub use locks::NameLocks;
