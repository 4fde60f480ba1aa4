//! Files whose changes go through logs, on a disk whose power fails before any step.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write as _,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use dormouse_durable::{ChangeError, Disk, Files, LOGGED_BYTES_MAX, System};
use dormouse_testkit::power::Power;

/// Small enough that a few changes fill one.
const LOG_BYTES: u64 = 512;
/// More than goes through such a log.
const LARGE: usize = 300;

fn open(disk: impl Disk + 'static, root: &Path) -> Files {
    Files::open_with(Arc::new(disk), root, LOG_BYTES).unwrap()
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn large(text: &str) -> Bytes {
    text.bytes().cycle().take(LARGE).collect()
}

/// What a reader finds, by name.
fn seen(files: &Files) -> BTreeMap<String, Bytes> {
    let names = files.names("").unwrap();
    names.into_iter().map(|name| (name.clone(), files.read(&name).unwrap().unwrap())).collect()
}

/// One change: of a name, to these bytes, to what another has, or to nothing.
enum Step {
    Put(&'static str, Bytes),
    Copy(&'static str, &'static str),
    Remove(&'static str),
    Flush,
}

/// Small and large files that take each other's names, are copied, removed and made again, over more than one log.
fn steps() -> Vec<Step> {
    let mut steps = vec![
        Step::Put("a/head", text("one")),
        Step::Put("a/1", large("x")),
        Step::Put("a/head", text("two")),
        Step::Copy("a/head", "b/head"),
        Step::Copy("a/1", "b/1"),
        Step::Put("a/head", large("three")),
        Step::Remove("a/1"),
        Step::Put("a/1", text("small again")),
        Step::Copy("a/head", "d/head"),
        Step::Put("a/head", text("of one that has two names")),
        Step::Flush,
        Step::Put("b/head", text("four")),
        Step::Remove("b/head"),
        Step::Remove("b/1"),
        Step::Put("b/1", text("five")),
    ];
    steps.extend((0..24).map(|n| Step::Put(["c/1", "c/2", "a/head"][n % 3], text(&format!("{n} {}", "-".repeat(60))))));
    steps
}

/// Whether it was done.
fn step(files: &Files, step: &Step) -> bool {
    match step {
        Step::Put(name, bytes) => files.replace(name, bytes.clone()).is_ok(),
        Step::Copy(from, to) => files.copy(from, to).is_ok(),
        Step::Remove(name) => files.remove(name).is_ok(),
        Step::Flush => files.flush().is_ok(),
    }
}

/// What should be there after it.
fn draw(picture: &mut BTreeMap<String, Bytes>, step: &Step) {
    match step {
        Step::Put(name, bytes) => drop(picture.insert((*name).to_owned(), bytes.clone())),
        Step::Copy(from, to) => drop(picture.insert((*to).to_owned(), picture[*from].clone())),
        Step::Remove(name) => drop(picture.remove(*name)),
        Step::Flush => {}
    }
}

#[test]
fn whatever_step_the_power_fails_before_all_is_there_that_was_said_to_be() {
    for survives in [false, true] {
        let (mut before, mut completed) = (0, false);
        while !completed {
            let folder = tempfile::tempdir().unwrap();
            let disk = Power::new(folder.path(), Some(before)).unwrap();
            let mut said = BTreeMap::new();
            let mut next = None;
            if let Ok(files) = Files::open_with(Arc::new(disk.clone()), folder.path(), LOG_BYTES) {
                for one in steps() {
                    if !step(&files, &one) {
                        next = Some(one);
                        break;
                    }
                    draw(&mut said, &one);
                }
                completed = next.is_none() && !disk.has_failed();
                // Nothing writes when the power is gone.
                let _ = files.flush();
            }
            disk.fail(|_| survives).unwrap();
            let found = seen(&open(System, folder.path()));
            let mut or = said.clone();
            next.iter().for_each(|one| draw(&mut or, one));
            assert!(found == said || found == or, "before step {before}: {found:?} and not {said:?}");
            before += 1;
        }
        assert!(before > 60, "{before} steps");
    }
}

#[test]
fn a_disk_that_does_not_sync_logs_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Power::careless(folder.path()).unwrap();
    open(disk.clone(), folder.path()).replace("a", text("one")).unwrap();
    disk.fail(|_| false).unwrap();
    assert_eq!(seen(&open(System, folder.path())), BTreeMap::new());
}

/// A log is zeros before it is written: a record that ends in zeros is whole without them.
#[test]
fn what_was_cut_off_in_the_log_may_have_happened_and_has_for_whoever_reads_it() {
    let zeros = Bytes::from_static(&[0; 40]);
    let begin = |folder: &Path| {
        let disk = Power::new(folder, None).unwrap();
        let files = open(disk.clone(), folder);
        files.replace("a", text("one")).unwrap();
        // Its length, checksum, kind and name.
        disk.cut_off(12);
        let unknown = files.replace("a", zeros.clone()).unwrap_err();
        assert!(matches!(unknown, ChangeError::Unknown(_)), "{unknown:?}");
        (disk, files)
    };
    let found = |folder: &Path| open(System, folder).read("a").unwrap();

    let folder = tempfile::tempdir().unwrap();
    let _killed = begin(folder.path());
    assert_eq!(found(folder.path()), Some(zeros.clone()), "though its write has failed");

    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = begin(folder.path());
    disk.fail(|_| false).unwrap();
    assert_eq!(found(folder.path()), Some(text("one")), "nothing has synced it, and nobody has read it");

    let folder = tempfile::tempdir().unwrap();
    let (disk, files) = begin(folder.path());
    assert_eq!(files.read("a").unwrap(), Some(zeros.clone()));
    files.replace("b", text("two")).unwrap();
    disk.fail(|_| false).unwrap();
    assert_eq!(found(folder.path()), Some(zeros.clone()), "as it was read");
    assert_eq!(seen(&open(System, folder.path())).len(), 2, "and the next change has found a log");
}

#[test]
fn what_a_killed_process_said_is_there_and_nothing_is_left_of_its_logs() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = BTreeMap::new();
    let killed = open(System, folder.path());
    for one in steps() {
        assert!(step(&killed, &one));
        draw(&mut expected, &one);
        assert_eq!(seen(&killed), expected);
    }
    let files = open(System, folder.path());
    assert_eq!(seen(&files), expected);
    assert_eq!(files.names("a/").unwrap().len(), 2, "a/head and a/1");
    assert_eq!(files.bytes("a/1").unwrap(), Some(11));
    assert_eq!((files.read("z").unwrap(), files.bytes("z").unwrap(), files.copy("z", "y").unwrap()), (None, None, false));
    assert!(!folder.path().join("b/head").exists());
    assert_eq!(std::fs::read(folder.path().join("b/1")).unwrap(), b"five", "they are files");
    assert_eq!(std::fs::read_dir(folder.path().join(".log")).unwrap().count(), 0);
    files.remove("b/1").unwrap();
    assert!(!folder.path().join("b").exists(), "an empty folder goes with its last file");
}

/// A pipe stands where a file would: it is half read when it is written anew.
#[test]
fn who_reads_a_file_while_it_is_written_reads_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("a");
    let files = open(System, folder.path());
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    thread::scope(|scope| {
        let reader = scope.spawn(|| files.read("a").unwrap());
        // Opens when the reader has: it has seen no log that says anything of the file.
        let mut half = OpenOptions::new().write(true).open(&pipe).unwrap();
        half.write_all(b"half").unwrap();
        files.replace("a", text("whole")).unwrap();
        files.flush().unwrap_err();
        drop(half);
        assert_eq!(reader.join().unwrap(), Some(text("whole")));
    });
}

/// Counts when it goes.
struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn those_who_change_different_files_at_once_lose_nothing() {
    const WRITERS: usize = 8;
    const CHANGES: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let files = open(System, folder.path());
    let whole = |bytes: &Bytes| {
        let number = std::str::from_utf8(bytes).unwrap();
        (0..CHANGES).any(|n| number == n.to_string() || *bytes == large(&n.to_string()))
    };
    let over = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (over, files) = (&over, &files);
        scope.spawn(move || {
            while over.load(Ordering::SeqCst) < WRITERS {
                for name in files.names("").unwrap() {
                    let read = files.read(&name).unwrap();
                    assert!(read.as_ref().is_none_or(whole), "{name} is {read:?}");
                }
            }
        });
        for writer in 0..WRITERS {
            let files = files.clone();
            scope.spawn(move || {
                let _over = Over(over);
                for n in 0..CHANGES {
                    let name = format!("{writer}/{}", n % 5);
                    match n % 7 {
                        6 => files.remove(&name).unwrap(),
                        5 => files.replace(&name, large(&n.to_string())).unwrap(),
                        _ => files.replace(&name, text(&n.to_string())).unwrap(),
                    }
                    let there = files.read(&name).unwrap();
                    assert_eq!(there.is_none(), n % 7 == 6, "{name} after change {n}");
                }
            });
        }
    });
    let before = seen(&files);
    drop(files);
    assert_eq!(seen(&open(System, folder.path())), before);
    for (name, bytes) in before {
        let number = name.split('/').nth(1).unwrap().parse::<usize>().unwrap();
        let last = (0..CHANGES).rev().find(|n| n % 5 == number).unwrap();
        let expected = if last % 7 == 5 { large(&last.to_string()) } else { text(&last.to_string()) };
        assert_eq!(bytes, expected, "{name}");
    }
}

#[test]
fn a_file_is_logged_up_to_its_limit_and_one_byte_more_is_written_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::open(Arc::new(System), folder.path()).unwrap();
    files.replace("at", vec![1; LOGGED_BYTES_MAX].into()).unwrap();
    files.replace("above", vec![1; LOGGED_BYTES_MAX + 1].into()).unwrap();
    assert!(!folder.path().join("at").exists() && folder.path().join("above").exists());
    files.flush().unwrap();
    assert!(folder.path().join("at").exists());
}
