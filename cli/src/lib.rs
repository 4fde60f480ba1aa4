//! The `dormouse` command: `dev`, `repl` and the client's verbs. It must not hold logic that the processes do not have.

pub mod dev;
