//! Power that fails before any step.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use dormouse_durable::{Disk, LogFile, System, make_folders, replace};
use dormouse_testkit::power::Power;

const NAME: &str = "sessions/default/a.json";

#[test]
fn a_file_is_the_old_or_the_new_one_whenever_the_power_fails_and_the_new_one_once_that_was_said() {
    for survives in [false, true] {
        let mut said = 0;
        for steps in 0..=24 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(NAME);
            let disk = Power::new(folder.path(), Some(steps)).unwrap();
            let first = replace(&disk, &path, b"first").is_ok();
            let second = first && replace(&disk, &path, b"second").is_ok();
            disk.fail(|_| survives).unwrap();
            let found = std::fs::read(&path).ok();
            let allowed: &[Option<&[u8]>] = match (first, second) {
                (_, true) => &[Some(b"second")],
                (true, false) => &[Some(b"first"), Some(b"second")],
                (false, _) => &[None, Some(b"first")],
            };
            assert!(allowed.contains(&found.as_deref()), "after {steps} steps: {found:?}");
            said += u32::from(second);
        }
        assert!(said > 0, "some runs come to their end");
    }
}

#[test]
fn a_disk_that_does_not_sync_folders_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    let disk = Power::careless(folder.path()).unwrap();
    replace(&disk, &path, b"first").unwrap();
    disk.fail(|_| false).unwrap();
    assert!(!path.exists());
}

#[test]
fn on_the_systems_disk_a_file_is_replaced_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/c.json");
    for bytes in [b"one", b"two"] {
        replace(&System, &path, bytes).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    assert_eq!(std::fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
    make_folders(&System, &folder.path().join("a/b")).unwrap();
}

/// The system's disk, and what happens before it syncs a folder.
struct Before<F>(F);

impl<F> std::fmt::Debug for Before<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Before")
    }
}

impl<F: Fn(&Path) -> io::Result<()> + Send + Sync> Disk for Before<F> {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        System.make_folder(path)
    }
    fn write_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        System.write_synced(path, bytes)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        System.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        System.link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        System.remove_file(path)
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        System.remove_folder(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        (self.0)(path)
    }
    fn make_log(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn LogFile>> {
        System.make_log(path, bytes)
    }
}

#[test]
fn a_folder_that_could_not_be_synced_is_not_taken_for_one_that_was() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("a");
    let refuses = Before(|_: &Path| Err(io::Error::other("it cannot be synced")));
    make_folders(&refuses, &made).unwrap_err();
    assert!(!made.exists(), "the next one makes it again, and syncs it");
}

#[test]
fn nobody_builds_on_a_folder_that_somebody_else_has_not_synced_yet() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("a");
    let synced = AtomicBool::new(false);
    thread::scope(|scope| {
        let (made, synced) = (&made, &synced);
        let disk = Before(move |_: &Path| {
            let second = scope.spawn(move || {
                make_folders(&System, made).unwrap();
                assert!(synced.load(Ordering::SeqCst), "it is durable for whoever finds it");
            });
            // Time enough for one that does not wait.
            for _ in 0..1_000 {
                if second.is_finished() {
                    break;
                }
                thread::yield_now();
            }
            synced.store(true, Ordering::SeqCst);
            Ok(())
        });
        make_folders(&disk, made).unwrap();
    });
}
