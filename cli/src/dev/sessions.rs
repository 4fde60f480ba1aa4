//! Sessions of `--session` manifests.

use std::path::PathBuf;

use anyhow::Context as _;
use dormouse_crds::manifest::{self, Document};
use dormouse_gateway::directory::{Directory, DirectoryError, Key, NewSession};

use super::NAMESPACE;

/// The documents of the files, in order.
pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        documents.extend(manifest::parse(&text).with_context(|| format!("in {}", file.display()))?);
    }
    Ok(documents)
}

/// Makes the sessions of the files. One that exists stays as it is.
pub(super) async fn apply(files: &[PathBuf], directory: &dyn Directory) -> anyhow::Result<()> {
    for document in read(files)? {
        let Document::Session(metadata, spec) = document else { continue };
        let key = Key::new(metadata.namespace.as_deref().unwrap_or(NAMESPACE), metadata.name);
        let name = key.name.clone();
        match directory.create(NewSession { key, labels: metadata.labels, spec: *spec }).await {
            Ok(_) | Err(DirectoryError::AlreadyExists) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot make session {name}")),
        }
    }
    Ok(())
}
