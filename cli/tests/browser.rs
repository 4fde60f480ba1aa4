//! What people see in a browser. It is installed, with what drives it: `cargo xtask soak browsers`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use dormouse_testkit::soak;

use crate::support::{Dev, packages};

/// Runs a part of `browser.py` against `dormouse dev` with a session `s`; in a soak only.
fn seen(test: &str, part: &str) {
    if !soak::is_whole() {
        return eprintln!("SKIPPED {test}: cargo xtask soak browsers runs it");
    }
    let Some(()) = packages::debian(test, "chromium") else { return };
    let Some(bin) = packages::python(test, &["jupyterlab==4.6.6", "playwright==1.65.2"]) else { return };
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("6 * 7"), "42");
    let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser.py");
    let said = Command::new(bin.join("python")).arg(script).args([&dev.server, part]).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && text.trim().ends_with("ok"), "{text}");
    match part {
        "foreign" => assert_eq!(dev.eval("typeof foreign === 'undefined'"), "true", "a page of another origin has run a cell"),
        _ => assert_eq!(dev.eval("count"), "2", "the notebook's kernel is the session"),
    }
    soak::report(&format!("{test}: ok"));
}

#[test]
fn a_notebook_in_jupyterlab_is_a_session_and_its_heap_outlives_the_page() {
    seen("a_notebook_in_jupyterlab_is_a_session_and_its_heap_outlives_the_page", "lab");
}

#[test]
fn a_page_of_another_origin_reaches_nothing_of_dev() {
    seen("a_page_of_another_origin_reaches_nothing_of_dev", "foreign");
}
