//! A pool of kernel pods.

pub mod demand;
pub mod emptiest;
pub mod granted;
pub mod index;
pub mod scale;
