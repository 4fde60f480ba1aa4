//! The four processes that sessions share, as they are shipped, on a real API server and a real MinIO, without nodes; and who uses them.

pub mod admin;
pub mod attacks;
pub mod fleet;
pub mod shared;
