//! Where documents come from.

use std::{collections::BTreeMap, sync::Arc};

use dormouse_crds::knowledge::{DOCUMENTS_MAX, KNOWLEDGE_BYTES_MAX, KNOWLEDGE_DOCUMENT_BYTES_MAX, Knowledge};
use dormouse_lifecycle::keys;
use dormouse_service::{url, wire::Http};
use dormouse_store::StoreError;
use futures::{StreamExt as _, stream};
use reqwest::header::CONTENT_TYPE;
use sha2::{Digest as _, Sha256};

use super::{
    Base,
    parse::{self, Form},
};
use crate::{
    BrokerStore, Secrets,
    credential::{Caller, Credential},
    net,
};

/// Documents that are asked for at one time.
const LOADS_IN_FLIGHT_MAX: usize = 8;

/// What was read: each document's name, its form, and its bytes.
type Read = Vec<(String, Form, Vec<u8>)>;

/// Reads a base. Answers the one of `before` where nothing has changed, and what was left out, and why.
///
/// # Errors
/// It cannot be had at all.
pub(crate) async fn load(
    spec: &Knowledge,
    from: (&Secrets, &Http, Option<&BrokerStore>),
    before: Option<&Arc<Base>>,
) -> Result<(Arc<Base>, Vec<String>), String> {
    let (secrets, http, place) = from;
    let mut left_out = Vec::new();
    let mut read = match (&spec.config_map_ref, &spec.prefix) {
        (Some(reference), _) => of_config_map(secrets, &reference.name, reference.key.as_deref(), &mut left_out)?,
        (None, Some(prefix)) => {
            let place = place.ok_or("is in the bucket, and this broker has no store: give the ToolBroker a pool in spec.journal")?;
            let prefix = Some(prefix).filter(|_| spec.has_plain_prefix()).ok_or("has a prefix that is none")?;
            of_bucket(place, prefix, &mut left_out).await?
        }
        (None, None) => of_urls(http, secrets, spec, &mut left_out).await?,
    };
    read.sort_by(|one, other| one.0.cmp(&other.0));
    let mut hash = Sha256::new();
    for (name, form, bytes) in &read {
        hash.update(format!("{} {name} {form:?} {}\n", name.len(), bytes.len()));
        hash.update(bytes);
    }
    let digest = format!("{:x}", hash.finalize());
    if let Some(before) = before.filter(|before| before.digest == digest) {
        return Ok((Arc::clone(before), left_out));
    }
    let made = tokio::task::spawn_blocking(move || {
        let (mut documents, mut wrong, mut text_bytes) = (BTreeMap::new(), Vec::new(), 0);
        for (name, form, bytes) in read {
            match parse::parse(form, &bytes) {
                // A small document may be a large text.
                Ok(parsed) if text_bytes + parsed.text.len() > KNOWLEDGE_BYTES_MAX => wrong.push(full(&name)),
                Ok(parsed) => {
                    text_bytes += parsed.text.len();
                    documents.insert(name, parsed);
                }
                Err(why) => wrong.push(format!("`{name}` {why}")),
            }
        }
        (Base::new(digest, documents), wrong)
    });
    let (base, wrong) = made.await.map_err(|_| "cannot be read".to_owned())?;
    left_out.extend(wrong);
    Ok((Arc::new(base), left_out))
}

/// Takes in documents as long as there is room for them.
struct Room {
    read: Read,
    bytes: usize,
}

impl Room {
    fn new() -> Self {
        Self { read: Vec::new(), bytes: 0 }
    }

    fn take(&mut self, name: String, form: Form, bytes: Vec<u8>, left_out: &mut Vec<String>) {
        if bytes.len() > KNOWLEDGE_DOCUMENT_BYTES_MAX {
            left_out.push(too_large(&name));
        } else if self.read.len() >= DOCUMENTS_MAX || self.bytes + bytes.len() > KNOWLEDGE_BYTES_MAX {
            left_out.push(full(&name));
        } else {
            self.bytes += bytes.len();
            self.read.push((name, form, bytes));
        }
    }
}

fn full(name: &str) -> String {
    format!("`{name}`: a base has {DOCUMENTS_MAX} documents and {KNOWLEDGE_BYTES_MAX} bytes at most")
}

fn too_large(name: &str) -> String {
    format!("`{name}` has more than {KNOWLEDGE_DOCUMENT_BYTES_MAX} bytes")
}

fn form_of(name: &str, left_out: &mut Vec<String>) -> Option<Form> {
    let form = Form::of_name(name);
    if form.is_none() {
        left_out.push(format!("`{name}` is neither text, Markdown, HTML, CSV, DOCX nor PDF"));
    }
    form
}

fn of_config_map(secrets: &Secrets, name: &str, key: Option<&str>, left_out: &mut Vec<String>) -> Result<Read, String> {
    let missing = || format!("is not there: make the ConfigMap `{name}`");
    let keys = match key {
        Some(key) => vec![key.to_owned()],
        None => secrets.config_map_keys(name).ok_or_else(missing)?,
    };
    let mut room = Room::new();
    for key in keys {
        let Some(form) = form_of(&key, left_out) else { continue };
        let bytes = secrets.config_map(name, &key).map_err(|_| missing())?;
        room.take(key, form, bytes, left_out);
    }
    Ok(room.read)
}

async fn of_bucket(place: &BrokerStore, prefix: &str, left_out: &mut Vec<String>) -> Result<Read, String> {
    let prefix = keys::knowledge(&place.prefix, &place.namespace, prefix);
    let names = place.names(&prefix, DOCUMENTS_MAX + 1).await.map_err(|error| error.to_string())?;
    // What stands for a folder is no document.
    let names: Vec<(String, Form)> = names
        .into_iter()
        .filter(|name| !name.is_empty() && !name.ends_with('/'))
        .filter_map(|name| form_of(&name, left_out).map(|form| (name, form)))
        .collect();
    let mut asked = Vec::new();
    for (name, form) in names {
        let (store, key) = (Arc::clone(&place.store), format!("{prefix}{name}"));
        asked.push(async move { (name, form, store.get_within(&key, KNOWLEDGE_DOCUMENT_BYTES_MAX as u64).await) });
    }
    let mut found = stream::iter(asked).buffered(LOADS_IN_FLIGHT_MAX);
    let mut room = Room::new();
    while let Some((name, form, object)) = found.next().await {
        match object {
            Ok(Some(object)) => room.take(name, form, object.bytes.to_vec(), left_out),
            // It was removed meanwhile.
            Ok(None) => {}
            Err(StoreError::TooLarge { .. }) => left_out.push(too_large(&name)),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(room.read)
}

async fn of_urls(http: &Http, secrets: &Secrets, spec: &Knowledge, left_out: &mut Vec<String>) -> Result<Read, String> {
    let urls = &spec.urls;
    // What is wrong with them is told where all of the spec is compiled.
    let headers = super::headers(spec, "", secrets, &mut Vec::new()).ok_or("has headers that cannot be had")?;
    let credential = &headers.credential(http, secrets, Caller::BROKER).await.map_err(|error| error.to_string())?;
    let mut asked = Vec::new();
    for url in urls.iter().cloned() {
        let http = http.clone();
        asked.push(async move {
            let loaded = of_url(&http, credential, &url).await;
            (url, loaded)
        });
    }
    let found: Vec<_> = stream::iter(asked).buffered(LOADS_IN_FLIGHT_MAX).collect().await;
    let mut room = Room::new();
    for (url, loaded) in found {
        match loaded {
            Ok((form, bytes)) => room.take(url, form, bytes, left_out),
            Err(why) => left_out.push(format!("`{url}` {why}")),
        }
    }
    // One that is away now is better kept as it was, with all the others.
    if room.read.len() < urls.len() { Err(left_out.join("; ")) } else { Ok(room.read) }
}

async fn of_url(http: &Http, credential: &Credential, text: &str) -> Result<(Form, Vec<u8>), String> {
    let url = url::plain(text).ok_or("is no URL, or has a user, a query or a fragment")?;
    let by_name = Form::of_name(url.path());
    let mut response = http.send(credential.apply(http.client().get(url))).await.map_err(|error| net::silence(&error))?;
    if !response.status().is_success() {
        return Err(format!("was answered with {}", response.status()));
    }
    let media = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).and_then(Form::of_type);
    let form = media.filter(|form| *form != Form::Text).or(by_name).ok_or("is neither text, Markdown, HTML, CSV, DOCX nor PDF")?;
    let (bytes, whole) = net::read_up_to(&mut response, KNOWLEDGE_DOCUMENT_BYTES_MAX).await.map_err(|_| "broke off".to_owned())?;
    if !whole {
        return Err(format!("has more than {KNOWLEDGE_DOCUMENT_BYTES_MAX} bytes"));
    }
    // A page may show what it was asked with. Of what is no text, nothing of that can be read without being unpacked.
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => credential.redactor.text(&text).into_bytes(),
        Err(other) => other.into_bytes(),
    };
    Ok((form, bytes))
}
