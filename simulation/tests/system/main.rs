//! The real pod, gateway and broker, in one thread and in virtual time, over a store, a status and a network that fail by seed.
//!
//! [`scenarios`] has a fixed schedule for each promise; [`seeds`] draws schedules and checks all of them, when it is asked for. `DORMOUSE_SEEDS` says
//! how many seeds are run; `DORMOUSE_SEED` runs one and prints what happened; with `DORMOUSE_UNTIL_BROKEN` so many are run, up to the first that is broken.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod chaos;
mod client;
mod dev;
mod model;
mod mutant;
mod network;
mod node;
mod operator;
mod player;
mod random;
mod scenarios;
mod seeds;
mod service;
mod status;
mod store;
mod world;
