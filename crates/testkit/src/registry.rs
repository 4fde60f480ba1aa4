//! A registry of npm packages on loopback: packages are published to it while it runs, and it notes what it is asked.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use base64::Engine as _;
use flate2::{Compression, write::GzEncoder};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

/// What a request must bring in `authorization`, where the registry demands it.
pub const TOKEN: &str = "Bearer registry-token";

/// The registry. It ends with the process. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Where it listens.
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

/// Tags and versions of a package.
type Published = (Map<String, Value>, Map<String, Value>);

#[derive(Debug, Default)]
struct Inner {
    packages: Mutex<BTreeMap<String, Published>>,
    tarballs: Mutex<BTreeMap<String, Vec<u8>>>,
    seen: Mutex<Vec<String>>,
    down: AtomicBool,
    demands_token: AtomicBool,
}

impl Registry {
    /// Starts it, empty.
    ///
    /// # Errors
    /// Loopback has no free port.
    pub async fn start() -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let registry = Self { address: listener.local_addr()?, inner: Arc::default() };
        let router = Router::new().fallback(answer).with_state(registry.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(registry)
    }

    /// Its URL: not the root of its host.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/npm/", self.address)
    }

    /// Publishes a version, which is the latest from then on. `manifest` is its package.json without name and version.
    pub fn publish(&self, name: &str, version: &str, manifest: &Value, files: &[(&str, &str)]) {
        let mut manifest = manifest.clone();
        manifest["name"] = json!(name);
        manifest["version"] = json!(version);
        let mut all = vec![("package.json".to_owned(), manifest.to_string())];
        all.extend(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        let tarball = pack(&all);
        let integrity = format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(Sha512::digest(&tarball)));
        let path = format!("/npm/{name}/-/{}-{version}.tgz", name.rsplit('/').next().unwrap_or(name));
        manifest["dist"] = json!({"tarball": format!("http://{}{path}", self.address), "integrity": integrity});
        lock(&self.inner.tarballs).insert(path, tarball);
        let mut packages = lock(&self.inner.packages);
        let (tags, versions) = packages.entry(name.to_owned()).or_default();
        versions.insert(version.to_owned(), manifest);
        tags.insert("latest".to_owned(), json!(version));
    }

    /// Changes what it says of a version.
    pub fn edit(&self, name: &str, version: &str, edit: impl FnOnce(&mut Value)) {
        if let Some(version) = lock(&self.inner.packages).get_mut(name).and_then(|(_, versions)| versions.get_mut(version)) {
            edit(version);
        }
    }

    /// Gives a version a tag.
    pub fn tag(&self, name: &str, tag: &str, version: &str) {
        if let Some((tags, _)) = lock(&self.inner.packages).get_mut(name) {
            tags.insert(tag.to_owned(), json!(version));
        }
    }

    /// Answers nothing but errors from now on, or again as it should.
    pub fn set_down(&self, down: bool) {
        self.inner.down.store(down, Ordering::SeqCst);
    }

    /// Refuses requests without [`TOKEN`] from now on.
    pub fn demand_token(&self) {
        self.inner.demands_token.store(true, Ordering::SeqCst);
    }

    /// The paths that were asked for.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        lock(&self.inner.seen).clone()
    }
}

/// A tarball as npm packs it.
fn pack(files: &[(String, String)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        // Memory takes every byte.
        let _ = builder.append_data(&mut header, format!("package/{path}"), text.as_bytes());
    }
    builder.into_inner().and_then(GzEncoder::finish).unwrap_or_default()
}

async fn answer(State(registry): State<Registry>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    lock(&registry.inner.seen).push(path.clone());
    if registry.inner.down.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if registry.inner.demands_token.load(Ordering::SeqCst) && authorization != Some(TOKEN) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Some(tarball) = lock(&registry.inner.tarballs).get(&path) {
        return Body::from(tarball.clone()).into_response();
    }
    let name = path.trim_start_matches("/npm/").replace("%2F", "/").replace("%2f", "/");
    match lock(&registry.inner.packages).get(&name) {
        Some((tags, versions)) => Json(json!({"name": name, "dist-tags": tags, "versions": versions})).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
