//! Packages of npm.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Asks for a package of npm and everything that it needs. Safe to repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModulesCall {
    /// Namespace of the session; must be the caller's own.
    pub namespace: String,
    /// Name of the session, for logs.
    pub session: String,
    /// Uid of the session, for logs.
    pub session_uid: String,
    /// The package, as `spec.modules.allow` of the session has it.
    pub specifier: String,
    /// Packages that the session has, `NAME@VERSION` each: they are used where they fit, and not sent again.
    pub pinned: Vec<String>,
}

/// A package with its dependencies, each of one version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModulesAnswer {
    /// Which package was meant: `NAME@VERSION`.
    pub root: String,
    /// It, and what it needs, without what the session has.
    pub packages: Vec<Package>,
}

/// A package, unpacked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    /// `NAME@VERSION`.
    pub id: String,
    /// Its tarball's, as it was verified: `sha512-…`.
    pub integrity: String,
    /// What resolution reads of its package.json.
    pub manifest: serde_json::Value,
    /// What it means by a name: `NAME@VERSION`.
    pub dependencies: BTreeMap<String, String>,
    /// Its sources by path.
    pub files: BTreeMap<String, String>,
}
