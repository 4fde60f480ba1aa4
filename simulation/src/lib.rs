//! The processes themselves, simulated: the real kernel pod, gateway and broker over a store, a status, a network and a clock that fail by seed.
//!
//! Everything is in `tests/system`: this package has nothing for others.
