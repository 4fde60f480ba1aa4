//! Clients that others wrote, where a Python has them: `DORMOUSE_CLIENTS_PYTHON` names one with the packages `mcp`, `jupyter_server` and `nbclient`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::process::Command;

use support::Dev;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients.py");

/// Runs a client; says so where there is none.
fn run(client: &str, package: &str) {
    let python = std::env::var("DORMOUSE_CLIENTS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", &format!("import {package}")]).output();
    if !has.is_ok_and(|has| has.status.success()) {
        eprintln!("SKIPPED {client}: {python} has no package {package}; name another Python with DORMOUSE_CLIENTS_PYTHON");
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let said = Command::new(&python).args([SCRIPT, &dev.server, client]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && out.trim().ends_with("ok"), "{out}{err}");
}

#[test]
fn the_python_sdk_of_mcp_uses_a_session() {
    run("mcp", "mcp");
}

#[test]
fn nbclient_runs_a_notebook_through_the_gateway() {
    run("jupyter", "jupyter_server, nbclient");
}
