//! A package's tarball: verified against its integrity, and unpacked into the sources that a session can use.

use std::{collections::BTreeMap, io::Read as _};

use base64::Engine as _;
use dormouse_protocol::{ApiError, ErrorCode};
use flate2::read::GzDecoder;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha512};
use tar::Archive;

use super::registry::unavailable;

/// Bytes that a tarball may unpack to, all files counted.
const UNPACKED_BYTES_MAX: u64 = 128 << 20;
/// Files of a package, all counted.
const FILES_MAX: usize = 20_000;
/// Bytes of a path.
const PATH_BYTES_MAX: usize = 512;
/// The kinds of files that a module can be.
const EXTENSIONS: [&str; 4] = [".js", ".mjs", ".cjs", ".json"];
/// The fields of package.json that resolution reads.
const FIELDS: [&str; 6] = ["name", "version", "type", "main", "exports", "imports"];
const SHA512: &str = "sha512-";

/// A package's sources.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    /// Fields of its package.json.
    pub(super) manifest: Value,
    /// Texts by path.
    pub(super) files: BTreeMap<String, String>,
    /// Bytes of all texts.
    pub(super) bytes: usize,
}

/// The sha512 of an integrity, which may name several hashes. Weaker ones vouch for nothing.
pub(super) fn strongest(integrity: &str) -> Option<String> {
    let hash = integrity.split_ascii_whitespace().find(|hash| hash.starts_with(SHA512))?;
    // Options may stand behind it.
    hash.split('?').next().map(str::to_owned)
}

/// Checks that the bytes are those that the integrity was made of.
pub(super) fn verify(id: &str, integrity: &str, bytes: &[u8]) -> Result<(), ApiError> {
    let found = base64::engine::general_purpose::STANDARD.encode(Sha512::digest(bytes));
    if integrity.strip_prefix(SHA512) == Some(found.as_str()) {
        return Ok(());
    }
    Err(unavailable(format!("the tarball of {id} is not what its integrity says: it is not used")))
}

/// Unpacks a tarball that was verified.
pub(super) fn unpack(id: &str, bytes: &[u8]) -> Result<Unpacked, ApiError> {
    unpack_within(id, bytes, UNPACKED_BYTES_MAX, FILES_MAX)
}

fn unpack_within(id: &str, bytes: &[u8], bytes_max: u64, files_max: usize) -> Result<Unpacked, ApiError> {
    let damaged = |_| unavailable(format!("the tarball of {id} cannot be unpacked, or is larger than {bytes_max} bytes"));
    let too_large = |what: String| ApiError::new(ErrorCode::SizeAdmissionError, format!("{id} has {what}"));
    // Everything that comes out is counted, whatever the archive's headers say of it.
    let mut archive = Archive::new(GzDecoder::new(bytes).take(bytes_max.saturating_add(1)));
    let (mut unpacked, mut count) = (Unpacked::default(), 0);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        count += 1;
        if count > files_max {
            return Err(too_large(format!("more than {files_max} files")));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let Some(path) =
            source_path(&entry.path_bytes()).map_err(|()| unavailable(format!("the tarball of {id} has a path that leads out of it")))?
        else {
            continue;
        };
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(damaged)?;
        // A source that is no UTF-8 is none.
        let Ok(text) = String::from_utf8(content) else { continue };
        unpacked.bytes += text.len() + path.len();
        unpacked.files.insert(path, text);
    }
    if archive.into_inner().limit() == 0 {
        return Err(too_large(format!("more than {bytes_max} bytes")));
    }
    unpacked.manifest = manifest(id, &unpacked)?;
    Ok(unpacked)
}

/// The path of a source inside its package; nothing for files of other kinds. An error for one that leads out.
fn source_path(bytes: &[u8]) -> Result<Option<String>, ()> {
    let Ok(path) = std::str::from_utf8(bytes) else { return Ok(None) };
    // The first folder is the package, whatever its name.
    let Some((_, path)) = path.split_once('/') else { return Ok(None) };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") || bytes.starts_with(b"/") || bytes.starts_with(b"..") {
        return Err(());
    }
    let path = parts.join("/");
    let fits = path.len() <= PATH_BYTES_MAX && !path.contains(|c: char| c.is_control()) && EXTENSIONS.iter().any(|it| path.ends_with(it));
    Ok(fits.then_some(path))
}

fn manifest(id: &str, unpacked: &Unpacked) -> Result<Value, ApiError> {
    let text = unpacked.files.get("package.json").ok_or_else(|| unavailable(format!("{id} has no package.json")))?;
    let text = text.trim_start_matches('\u{feff}');
    let mut whole: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| unavailable(format!("the package.json of {id} cannot be read: {error}")))?;
    whole.retain(|field, _| FIELDS.contains(&field.as_str()));
    Ok(Value::Object(whole))
}

#[cfg(test)]
#[path = "tarball_tests.rs"]
mod tests;
