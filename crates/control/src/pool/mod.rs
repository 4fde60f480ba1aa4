//! A pool of kernel pods.

pub mod demand;
pub mod scale;
