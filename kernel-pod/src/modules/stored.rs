//! How packages lie among a session's contents: one content each, and one that says which there are.
//!
//! A package is two lengths in [`HEAD_BYTES`], a header (JSON: what resolution reads, and which package it means by which name), an index (a line for
//! each source: path, where it begins, its bytes) and the sources. The guest reads it (`web/packages`), a source at a time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dormouse_engine::Blobs as _;
use dormouse_protocol::broker::Package;
use dormouse_protocol::{ApiError, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::PACKAGE_PREFIX;
use crate::contents::Contents;

/// Bytes before the header.
const HEAD_BYTES: usize = 32;

/// Bytes of the index of packages: more than its packages can take.
const INDEX_BYTES_MAX: usize = 4 << 20;

/// Which packages a session has. Its content's name is [`PACKAGE_PREFIX`] alone, which no package's is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Index {
    /// What cells mean by a name.
    pub(super) roots: BTreeMap<String, Root>,
    /// Integrities by `NAME@VERSION`.
    pub(super) packages: BTreeMap<String, String>,
}

/// What a name was resolved to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Root {
    /// `NAME@VERSION`
    pub(super) package: String,
    /// The range that `spec.modules.allow` had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) range: Option<String>,
}

/// The bytes of a package.
pub(super) fn encode(package: &Package) -> Vec<u8> {
    let Package { manifest, dependencies, files, .. } = package;
    let header = json!({ "manifest": manifest, "dependencies": dependencies }).to_string();
    let (mut index, mut at) = ("\n".to_owned(), 0);
    for (path, text) in files {
        // Writing to a string cannot fail.
        let _ = writeln!(index, "{path}\t{at}\t{}", text.len());
        at += text.len();
    }
    let mut bytes = format!("{:<HEAD_BYTES$}{header}{index}", format!("{} {}", header.len(), index.len())).into_bytes();
    bytes.reserve(at);
    files.values().for_each(|text| bytes.extend_from_slice(text.as_bytes()));
    bytes
}

/// What a session has.
pub(super) async fn index(contents: &Contents) -> Result<Index, ApiError> {
    let Some((bytes, _)) = contents.stat(PACKAGE_PREFIX).await else { return Ok(Index::default()) };
    let corrupt =
        |reason: &str| ApiError::new(ErrorCode::SnapshotCorrupt, format!("the session's list of packages does not verify: {reason}"));
    let length = usize::try_from(bytes).ok().filter(|bytes| *bytes <= INDEX_BYTES_MAX).ok_or_else(|| corrupt("it is too large"))?;
    let bytes = contents.read(PACKAGE_PREFIX, 0, length).await.map_err(|error| corrupt(&error.message))?;
    serde_json::from_slice(&bytes).map_err(|error| corrupt(&error.to_string()))
}

/// Writes what the session has.
pub(super) async fn put_index(contents: &Contents, index: &Index) -> Result<(), ApiError> {
    let bytes = serde_json::to_vec(index).map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
    put(contents, "", bytes).await
}

/// Writes a content.
pub(super) async fn put(contents: &Contents, name: &str, bytes: Vec<u8>) -> Result<(), ApiError> {
    let refused = |error: dormouse_engine::BlobError| {
        let message = format!("the package cannot be kept: {}: {}", error.name, error.message);
        ApiError::new(ErrorCode::ModuleUnavailable, message)
    };
    let name = format!("{PACKAGE_PREFIX}{name}");
    contents.open(&name, false, false, bytes.len() as u64).await.map_err(refused)?;
    contents.push(&name, bytes).await.map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_says_where_its_sources_are() {
        let files = [("a.js".to_owned(), "é1".to_owned()), ("b/c.json".to_owned(), "{}".to_owned())].into();
        let dependencies = [("x".to_owned(), "x@1.0.0".to_owned())].into();
        let package = Package { id: "p@1.0.0".into(), integrity: "sha512-".into(), manifest: json!({"main": "a.js"}), dependencies, files };
        let text = String::from_utf8(encode(&package)).unwrap();
        let header = r#"{"dependencies":{"x":"x@1.0.0"},"manifest":{"main":"a.js"}}"#;
        let index = "\na.js\t0\t3\nb/c.json\t3\t2\n";
        assert_eq!(text, format!("{:<32}{header}{index}é1{{}}", format!("{} {}", header.len(), index.len())));
    }
}
