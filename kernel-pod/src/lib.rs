//! The kernel pod: many sessions in one process.
