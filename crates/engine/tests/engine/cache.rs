//! Compiled code on disk: used when only this user could have written it.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use dormouse_engine::{Engine, EngineError, EngineOptions, Engines};
use serde_json::json;

use crate::support::{Session, real};

#[tokio::test]
async fn compiled_code_is_kept_and_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let options = EngineOptions { cache_dir: Some(dir.path().join("code")), ..EngineOptions::default() };
    Engine::new(options.clone()).unwrap();
    let mut files: Vec<_> = fs::read_dir(dir.path().join("code")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort_by_key(|file| file.extension().is_none());
    assert_eq!(files.len(), 2, "compiled code and the key that vouches for it: {files:?}");
    for file in &files {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
    let engine = Engine::new(options.clone()).unwrap();
    let mut session = Session { instance: engine.create(&real()).unwrap(), ..Session::new(real()) };
    assert_eq!(session.value("1+1").await, json!(2));

    let mut flipped = fs::read(&files[0]).unwrap();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x10;
    fs::write(&files[0], &flipped).unwrap();
    Engine::new(options).unwrap();
    assert!(fs::read(&files[0]).unwrap() != flipped, "code with a flipped bit is compiled and kept anew");
}

/// What an image is made with: nobody waits in a pod for an engine to be compiled.
#[test]
fn all_engines_of_the_build_are_compiled_for_an_image() {
    let dir = tempfile::tempdir().unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_compile-engine")).arg(dir.path().join("code")).status().unwrap();
    assert!(done.success());
    let names: Vec<_> =
        fs::read_dir(dir.path().join("code")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    for digest in Engines::digests() {
        assert!(names.iter().any(|name| name.starts_with(&digest)), "{digest} is not among {names:?}");
    }
}

#[test]
fn a_cache_that_others_may_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = EngineOptions { cache_dir: Some(dir.path().to_owned()), ..EngineOptions::default() };
    Engine::new(options.clone()).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = Engine::new(options).map(|_| ());
    assert!(matches!(&refused, Err(EngineError::Load(why)) if why.contains("chmod")), "{refused:?}");
}
