//! Packages of npm in sessions: a real broker, a registry on loopback, and pods that lose both.

mod kept;
mod place;
mod refused;
mod rules;
