//! What an API server refuses.

use serde_json::Value;

use super::{BOOTSTRAP_BYTES_MAX, CHECKPOINTS_KEEP_MAX};
use crate::rules::{between, rule, rules};

/// Least heap of a session.
const HEAP_BYTES_MIN: u64 = 8 << 20;
/// Largest heap of a session.
const HEAP_BYTES_MAX: u64 = 1 << 30;
/// Longest stretch of a cell, milliseconds.
const EVAL_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Longest wait before sleep, seconds: a year.
const IDLE_SECONDS_MAX: u64 = 31_536_000;
/// Longest life of a session that nobody uses, seconds: a hundred years.
const TTL_SECONDS_MAX: u64 = 3_153_600_000;
/// Most output of a cell, bytes.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

pub(super) fn session() -> Value {
    rules([
        between("idleSeconds", 1, IDLE_SECONDS_MAX, "seconds"),
        rule(
            "has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)",
            "source: a session is forked when it is made: leave source as it is, or make another session",
        ),
        rule(
            "self.pool == oldSelf.pool",
            "pool: a session is stored where its pool says, and stays there: leave pool as it is, or make another session in that pool",
        ),
    ])
}

pub(super) fn pool_name() -> Value {
    rules([rule(
        "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.size() <= 30",
        "pool is the name of a KernelPool in this namespace: write at most 30 characters of a-z, 0-9 and '-'",
    )])
}

pub(super) fn ttl() -> Value {
    rules([
        between("activeSeconds", 0, TTL_SECONDS_MAX, "seconds; 0 for never"),
        between("retainedSeconds", 0, TTL_SECONDS_MAX, "seconds; 0 for ever"),
        rule(
            "self.retainedSeconds == 0 || self.activeSeconds > 0",
            "ttl.retainedSeconds counts from the end of activeSeconds: write both, or neither",
        ),
    ])
}

pub(super) fn limits() -> Value {
    rules([
        between("heapBytes", HEAP_BYTES_MIN, HEAP_BYTES_MAX, "bytes; 8 MiB to 1 GiB"),
        between("evalTimeoutMs", 1, EVAL_TIMEOUT_MS_MAX, "milliseconds; up to an hour"),
        between("outputBytes", 0, OUTPUT_BYTES_MAX, "bytes; up to 64 MiB"),
        between("pendingOperations", 1, 65_536, "operations"),
        between("toolCalls", 0, 1_000_000, "calls of one cell"),
    ])
}

pub(super) fn timestamp() -> Value {
    rules([rule(
        "self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$')",
        "epoch: write a time as RFC 3339 has it, such as 2026-01-01T00:00:00Z",
    )])
}

pub(super) fn bootstrap() -> Value {
    rules([
        rule(
            "(has(self.code) && self.code != '') != has(self.configMapRef)",
            "bootstrap: write either code, or configMapRef: {name: …, key: …}",
        ),
        rule(
            "!has(self.configMapRef) || has(self.configMapRef.key)",
            "bootstrap.configMapRef needs a key: write the key of the ConfigMap that holds the code",
        ),
        rule(
            &format!("!has(self.code) || bytes(self.code).size() <= {BOOTSTRAP_BYTES_MAX}"),
            "bootstrap.code has at most 262144 bytes: import what is large",
        ),
    ])
}

pub(super) fn source() -> Value {
    rules([rule(
        "self.session.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "source.session: write the name of a session in this namespace: at most 63 characters of a-z, 0-9 and '-'",
    )])
}

pub(super) fn checkpoints() -> Value {
    rules([between("keep", 0, u64::from(CHECKPOINTS_KEEP_MAX), "checkpoints")])
}
