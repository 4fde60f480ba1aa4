//! Compiled code.
