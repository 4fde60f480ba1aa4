//! Packages of npm that a session's cells import: asked of its broker once, and from then on contents of the session like any other.
//!
//! A cell asks in the middle of a turn and its code waits, as it does for what it reads of other contents. What came is written before the cell goes
//! on, so it is in the commit that acks the cell; a cell that is lost before leaves nothing, and asks again. Which version was meant, and every
//! version that it needs, is written down beside the sources: nothing is resolved twice, and no later process needs the registry.
//!
//! It must not know how packages are found ([`crate::Tools`]), nor how they are evaluated (the guest).

mod bundled;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dormouse_crds::modules::{ALLOWED_MAX, Specifier};
use dormouse_crds::session::KernelSessionSpec;
use dormouse_engine::{BlobError, Blobs};
use dormouse_protocol::broker::{ModulesAnswer, ModulesCall};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::sync::Mutex;

use crate::contents::Contents;
use crate::tools::Caller;
use stored::{Index, Root};

/// What the names of contents begin with that are packages.
pub(crate) const PACKAGE_PREFIX: &str = "npm:";

/// Packages of a session: each is a content, and rides in every head.
const PACKAGES_MAX: usize = 1_000;

/// How long a cell waits for a package, its needs included.
const LOAD_WAIT_MAX: Duration = Duration::from_secs(60);

/// Checks what a spec says of packages, as an API server does.
pub(crate) fn check(spec: &KernelSessionSpec) -> Result<(), ApiError> {
    let Some(modules) = &spec.modules else { return Ok(()) };
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    if modules.allow.len() > ALLOWED_MAX {
        return invalid(format!("spec.modules.allow has more than {ALLOWED_MAX} entries"));
    }
    match modules.allow.iter().position(|entry| Specifier::parse(entry).is_none()) {
        Some(at) => invalid(format!(
            "spec.modules.allow[{at}]: write the name of a package of npm, such as lodash, or npm:NAME@RANGE, such as npm:zod@^4"
        )),
        None => Ok(()),
    }
}

/// A session's contents, and the packages that it may add to them.
pub(crate) struct Modules {
    contents: Arc<Contents>,
    /// Who asks; `None` without a broker.
    caller: Option<Caller>,
    /// `spec.modules.allow`
    allow: Vec<String>,
    /// What there is, once it was read.
    index: Mutex<Option<Index>>,
}

impl Modules {
    pub(crate) fn new(contents: Arc<Contents>, caller: Option<Caller>, allow: Vec<String>) -> Self {
        Self { contents, caller, allow, index: Mutex::new(None) }
    }

    /// Those of an instance that adds none.
    pub(crate) fn closed(contents: Arc<Contents>) -> Self {
        Self::new(contents, None, Vec::new())
    }

    async fn find(&self, asked: &str) -> Result<Option<String>, ApiError> {
        let Some(specifier) = Specifier::parse(asked) else { return Ok(None) };
        let mut index = self.index.lock().await;
        let index = match &mut *index {
            Some(index) => index,
            None => index.insert(stored::index(&self.contents).await?),
        };
        if let Some(root) = index.roots.get(specifier.name) {
            return match specifier.range {
                Some(range) if root.range.as_deref() != Some(range) && !root.package.ends_with(&format!("@{range}")) => {
                    let message = format!("the session has {}, and keeps it: import it as {}", root.package, specifier.name);
                    Err(ApiError::new(ErrorCode::Conflict, message))
                }
                _ => Ok(Some(root.package.clone())),
            };
        }
        let allowed = self.allow.iter().filter_map(|entry| Specifier::parse(entry).map(|it| (entry, it)));
        let meant = |it: &Specifier<'_>| it.name == specifier.name && (specifier.range.is_none() || specifier.range == it.range);
        let Some((entry, allowed)) = allowed.into_iter().find(|(_, it)| meant(it)) else { return Ok(None) };
        if bundled::holds(allowed) {
            return Ok(None);
        }
        let answer = self.ask(entry, index).await?;
        let root = answer.root.clone();
        self.keep(index, allowed, answer).await?;
        Ok(Some(root))
    }

    async fn ask(&self, entry: &str, index: &Index) -> Result<ModulesAnswer, ApiError> {
        let caller = self.caller.as_ref().ok_or_else(|| {
            let message = format!("{entry} comes through a ToolBroker, and the session has none: name one in spec.toolBrokerRef");
            ApiError::new(ErrorCode::EgressDenied, message)
        })?;
        let call = ModulesCall {
            namespace: caller.namespace.clone(),
            session: caller.session.clone(),
            session_uid: caller.uid.clone(),
            specifier: entry.to_owned(),
            pinned: index.packages.keys().cloned().collect(),
        };
        let late = |_| {
            let message = format!("{entry} did not come within {} s; try again", LOAD_WAIT_MAX.as_secs());
            ApiError::new(ErrorCode::ModuleUnavailable, message)
        };
        tokio::time::timeout(LOAD_WAIT_MAX, caller.tools.modules(&caller.broker, call)).await.map_err(late)?
    }

    async fn keep(&self, index: &mut Index, allowed: Specifier<'_>, answer: ModulesAnswer) -> Result<(), ApiError> {
        let mut next = index.clone();
        for package in &answer.packages {
            next.packages.insert(package.id.clone(), package.integrity.clone());
        }
        if next.packages.len() > PACKAGES_MAX {
            let message = format!("a session may have at most {PACKAGES_MAX} packages of npm");
            return Err(ApiError::new(ErrorCode::QuotaExceeded, message));
        }
        let root = Root { package: answer.root.clone(), range: allowed.range.map(str::to_owned) };
        next.roots.insert(allowed.name.to_owned(), root);
        for package in &answer.packages {
            stored::put(&self.contents, &package.id, stored::encode(package)).await?;
        }
        // Last: what it names is there.
        stored::put_index(&self.contents, &next).await?;
        *index = next;
        Ok(())
    }
}

#[async_trait]
impl Blobs for Modules {
    async fn stat(&self, name: &str) -> Option<(u64, bool)> {
        self.contents.stat(name).await
    }

    async fn read(&self, name: &str, at: u64, bytes: usize) -> Result<Vec<u8>, BlobError> {
        self.contents.read(name, at, bytes).await
    }

    async fn open(&self, name: &str, text: bool, append: bool, bytes: u64) -> Result<(), BlobError> {
        self.contents.open(name, text, append, bytes).await
    }

    async fn push(&self, name: &str, bytes: Vec<u8>) -> Result<(), BlobError> {
        self.contents.push(name, bytes).await
    }

    async fn remove(&self, name: &str) -> bool {
        self.contents.remove(name).await
    }

    async fn copy(&self, name: &str, to: &str) -> Result<Option<u64>, BlobError> {
        self.contents.copy(name, to).await
    }

    async fn list(&self, prefix: &str) -> Vec<(String, u64)> {
        self.contents.list(prefix).await
    }

    async fn package(&self, specifier: &str) -> Result<Option<String>, BlobError> {
        self.find(specifier).await.map_err(|error| BlobError { name: error.code.to_string(), message: error.message })
    }
}
