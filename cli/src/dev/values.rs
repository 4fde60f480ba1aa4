//! The Secrets and ConfigMaps of `--broker` manifests, as the files have them now.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use dormouse_broker::{ReadValues, Secrets};
use dormouse_crds::manifest::Document;

use super::sessions;

/// By name and key.
type Values = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// What a broker reads of the files at each use. While one of them cannot be read, what it said before is in force.
pub(super) fn following(files: &[PathBuf], namespace: &str, documents: &[Document]) -> Secrets {
    let known = Known { texts: texts(files), secrets: secrets(documents), config_maps: config_maps(documents) };
    let followed = Arc::new(Followed { files: files.to_vec(), namespace: namespace.to_owned(), known: Mutex::new(known) });
    Secrets::reading(reader(&followed, |known| &known.secrets), reader(&followed, |known| &known.config_maps))
}

struct Followed {
    files: Vec<PathBuf>,
    namespace: String,
    known: Mutex<Known>,
}

struct Known {
    /// What the files said when they were last looked at.
    texts: Vec<Option<String>>,
    secrets: Values,
    config_maps: Values,
}

fn reader(followed: &Arc<Followed>, kind: fn(&Known) -> &Values) -> Box<ReadValues> {
    let followed = Arc::clone(followed);
    Box::new(move |name| {
        let mut known = followed.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.follow(&followed.files, &followed.namespace);
        kind(&known).get(name).cloned()
    })
}

impl Known {
    fn follow(&mut self, files: &[PathBuf], namespace: &str) {
        let now = texts(files);
        if now == self.texts {
            return;
        }
        self.texts = now;
        match sessions::read(files, namespace) {
            Ok(documents) => (self.secrets, self.config_maps) = (secrets(&documents), config_maps(&documents)),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "the Secrets of the --broker files stay as they were"),
        }
    }
}

fn texts(files: &[PathBuf]) -> Vec<Option<String>> {
    files.iter().map(|file| std::fs::read_to_string(file).ok()).collect()
}

fn secrets(documents: &[Document]) -> Values {
    let secret = |document: &Document| match document {
        Document::Secret(metadata, values) => Some((metadata.name.clone(), values.clone())),
        _ => None,
    };
    documents.iter().filter_map(secret).collect()
}

fn config_maps(documents: &[Document]) -> Values {
    let config_map = |document: &Document| match document {
        Document::ConfigMap(metadata, data) => {
            Some((metadata.name.clone(), data.iter().map(|(key, text)| (key.clone(), text.clone().into_bytes())).collect()))
        }
        _ => None,
    };
    documents.iter().filter_map(config_map).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_the_files_say_now_and_stay_while_they_say_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("far.yaml");
        let secret = |value: &str| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\nstringData: {{token: {value}}}\n");
        std::fs::write(&file, secret("first")).unwrap();
        let files = [file.clone()];
        let documents = sessions::read(&files, "default").unwrap();
        let known = Known { texts: texts(&files), secrets: secrets(&documents), config_maps: config_maps(&documents) };
        let followed = Arc::new(Followed { files: files.to_vec(), namespace: "default".to_owned(), known: Mutex::new(known) });
        let read = reader(&followed, |known| &known.secrets);
        let token = || read("keys").and_then(|keys| keys.get("token").cloned()).map(|value| String::from_utf8(value).unwrap());
        assert_eq!(token().as_deref(), Some("first"));
        std::fs::write(&file, secret("second")).unwrap();
        assert_eq!(token().as_deref(), Some("second"));
        std::fs::write(&file, "kind: [").unwrap();
        assert_eq!(token().as_deref(), Some("second"), "it is half written");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(token().as_deref(), Some("second"), "an editor may be between two writes");
        std::fs::write(&file, secret("third")).unwrap();
        assert_eq!(token().as_deref(), Some("third"));
        assert!(read("other").is_none());
    }
}
