//! The files of sessions in a folder, and the folder's own name.

use std::{collections::BTreeMap, io::ErrorKind, path::Path};

use anyhow::Context as _;
use dormouse_durable::{Disk, Files, make_folders, replace};

use super::{DirectoryError, Key, Record};

/// The file with the name of the folder of sessions. It lies where they do: who has lost them has lost it, too, and is another in the store.
const NAME_FILE: &str = "cluster";

/// The name under which the sessions of the folder `root` stand in a store; made when there is none.
///
/// # Errors
/// The folder or the file cannot be made or read.
pub fn name_of(disk: &dyn Disk, root: &Path) -> anyhow::Result<String> {
    make_folders(disk, root).with_context(|| format!("cannot make {}", root.display()))?;
    let path = root.join(NAME_FILE);
    match std::fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() => Ok(name.trim().to_owned()),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).with_context(|| format!("cannot read {}", path.display())),
        _ => {
            let name = format!("dev-{}", uuid::Uuid::new_v4());
            // Before anything is stored under it: another name after a failure of power would make its sessions somebody else's.
            replace(disk, &path, name.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(name)
        }
    }
}

/// Refuses what would leave the folder; the routes refuse more.
pub(super) fn check_file_name(name: &str) -> Result<(), DirectoryError> {
    let safe = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if safe { Ok(()) } else { Err(DirectoryError::Invalid(format!("`{name}` is not a name: use a-z, 0-9 and '-'"))) }
}

/// The name of a session's file.
pub(super) fn name_of_file(key: &Key) -> String {
    format!("{}/{}.json", key.namespace, key.name)
}

/// A crash leaves the old record or the new one; once it is written, it stays.
pub(super) fn save(files: &Files, record: &Record) -> Result<(), DirectoryError> {
    let bytes = serde_json::to_vec_pretty(record).map_err(DirectoryError::unavailable)?;
    files.replace(&name_of_file(&record.key), bytes.into()).map_err(DirectoryError::unavailable)
}

/// The sessions of a folder, and how many files of such cannot be read.
pub(super) fn load(files: &Files) -> anyhow::Result<(BTreeMap<Key, Record>, usize)> {
    let (mut records, mut unread) = (BTreeMap::new(), 0);
    for name in files.names("")? {
        if !name.ends_with(".json") {
            continue;
        }
        let read = files.read(&name).map_err(anyhow::Error::from);
        match read.and_then(|bytes| Ok(serde_json::from_slice::<Record>(&bytes.unwrap_or_default())?)) {
            Ok(record) => drop(records.insert(record.key.clone(), record)),
            // One bad file must not keep every other session from starting.
            Err(error) => {
                unread += 1;
                tracing::error!(name, %error, "a session's file cannot be read; it is left out");
            }
        }
    }
    Ok((records, unread))
}
