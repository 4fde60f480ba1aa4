//! Sessions of `--session` manifests.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use dormouse_crds::{
    manifest::{self, Document, Metadata},
    quota::KernelQuotaSpec,
};
use dormouse_gateway::directory::{Directory, DirectoryError, Key, NewSession, folder::ConfigMaps};

/// The documents of the files, in order. There is one namespace, so a manifest may not name another.
pub(super) fn read(files: &[PathBuf], namespace: &str) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        for document in manifest::parse(&text).with_context(|| format!("in {}", file.display()))? {
            let metadata = metadata(&document);
            if let Some(other) = metadata.namespace.as_deref().filter(|other| *other != namespace) {
                let name = &metadata.name;
                bail!(
                    "{}: {name} belongs to namespace {other}, and this serves {namespace}: say `dormouse dev --namespace {other}`",
                    file.display()
                );
            }
            documents.push(document);
        }
    }
    Ok(documents)
}

fn metadata(document: &Document) -> &Metadata {
    match document {
        Document::Session(metadata, _)
        | Document::Broker(metadata, _)
        | Document::Quota(metadata, _)
        | Document::Secret(metadata, _)
        | Document::ConfigMap(metadata, _) => metadata,
    }
}

/// The ConfigMaps of the files: what sessions begin with may be in one.
pub(super) fn config_maps(files: &[PathBuf], namespace: &str) -> anyhow::Result<ConfigMaps> {
    let documents = read(files, namespace)?.into_iter();
    Ok(documents.filter_map(|it| if let Document::ConfigMap(metadata, data) = it { Some((metadata.name, data)) } else { None }).collect())
}

/// What the quotas of the files allow together.
pub(super) fn limits(files: &[PathBuf], namespace: &str) -> anyhow::Result<KernelQuotaSpec> {
    let documents = read(files, namespace)?.into_iter();
    let quotas = documents.filter_map(|it| if let Document::Quota(_, spec) = it { Some(spec) } else { None });
    Ok(quotas.fold(KernelQuotaSpec::default(), KernelQuotaSpec::least))
}

/// Makes the sessions of the files. One that exists stays as it is.
pub(super) async fn apply(files: &[PathBuf], namespace: &str, directory: &dyn Directory) -> anyhow::Result<()> {
    for document in read(files, namespace)? {
        let Document::Session(metadata, spec) = document else { continue };
        let key = Key::new(namespace, metadata.name);
        let name = key.name.clone();
        match directory.create(NewSession { key, labels: metadata.labels, spec: *spec }).await {
            Ok(_) | Err(DirectoryError::AlreadyExists) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot make session {name}")),
        }
    }
    Ok(())
}
