//! The four processes that sessions share, as they are shipped, on a real API server and a real MinIO, without nodes; and who uses them.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod attacks;
pub mod fleet;
