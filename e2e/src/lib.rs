//! The whole-cluster story, against a real Kubernetes.
//!
//! `tests/story.rs` is the story; this library is what it is told with: a cluster of its own on this machine ([`cluster`]),
//! kubectl and helm ([`kube`]), the processes inside pods ([`pods`]), the bucket ([`bucket`]) and a table of what each step
//! took ([`steps`]). It knows the product only from outside: objects, HTTP, and the bytes in storage.

pub mod api;
pub mod bucket;
pub mod cluster;
pub mod kube;
pub mod pods;
pub mod steps;
pub mod table;
