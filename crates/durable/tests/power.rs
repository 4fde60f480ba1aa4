//! A disk whose power fails before its n-th step, and which then keeps only what was synced.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    path::PathBuf,
};

use super::*;

/// `None` is a folder.
type Names = BTreeMap<PathBuf, Option<Vec<u8>>>;

#[derive(Default)]
struct Unreliable {
    seen: RefCell<Names>,
    durable: RefCell<Names>,
    steps_left: Cell<Option<u32>>,
    /// Does not sync folders: what must be found out.
    lazy: bool,
}

impl Unreliable {
    fn with_root() -> Self {
        let root = BTreeMap::from([(PathBuf::from("root"), None)]);
        Self { seen: RefCell::new(root.clone()), durable: RefCell::new(root), ..Self::default() }
    }

    fn step(&self) -> io::Result<()> {
        match self.steps_left.get() {
            Some(0) => Err(io::Error::other("the power failed")),
            left => {
                self.steps_left.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }

    /// What is at `path` after the power failed: a name counts if every folder above it does.
    fn found(&self, path: &str) -> Option<Vec<u8>> {
        let durable = self.durable.borrow();
        let path = Path::new(path);
        let mut above = path.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty());
        if above.all(|folder| durable.contains_key(folder)) { durable.get(path)?.clone() } else { None }
    }
}

impl Disk for Unreliable {
    fn is_folder(&self, path: &Path) -> bool {
        self.seen.borrow().get(path).is_some_and(Option::is_none)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.seen.borrow_mut().insert(path.to_owned(), None);
        Ok(())
    }

    fn write_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        self.seen.borrow_mut().insert(path.to_owned(), Some(bytes.to_vec()));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        let file = self.seen.borrow_mut().remove(from).ok_or(ErrorKind::NotFound)?;
        self.seen.borrow_mut().insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        if self.lazy {
            return Ok(());
        }
        let seen = self.seen.borrow();
        let mut durable = self.durable.borrow_mut();
        durable.retain(|name, _| name.parent() != Some(path) || seen.contains_key(name));
        durable.extend(seen.iter().filter(|(name, _)| name.parent() == Some(path)).map(|(name, file)| (name.clone(), file.clone())));
        Ok(())
    }
}

const PATH: &str = "root/sessions/default/a.json";

#[test]
fn a_file_is_the_old_or_the_new_one_whenever_the_power_fails_and_the_new_one_once_that_was_said() {
    let mut said = 0;
    for steps in 0..=24 {
        let disk = Unreliable::with_root();
        disk.steps_left.set(Some(steps));
        let first = replace_on(&disk, Path::new(PATH), b"first").is_ok();
        let second = first && replace_on(&disk, Path::new(PATH), b"second").is_ok();
        let found = disk.found(PATH);
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

#[test]
fn a_disk_that_does_not_sync_folders_is_found_out() {
    let disk = Unreliable { lazy: true, ..Unreliable::with_root() };
    replace_on(&disk, Path::new(PATH), b"first").unwrap();
    assert_eq!(disk.found(PATH), None);
}

#[test]
fn on_the_systems_disk_a_file_is_replaced_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/c.json");
    for bytes in [b"one", b"two"] {
        replace(&path, bytes).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    assert_eq!(std::fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
    make_folders(&folder.path().join("a/b")).unwrap();
}
