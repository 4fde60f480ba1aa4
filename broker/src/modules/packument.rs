//! What a registry says of a package: its versions, and which of them a range means.
//!
//! Format: the abbreviated metadata of npm's registry API (docs/responses/package-metadata.md of npm/registry).

use std::collections::BTreeMap;

use nodejs_semver::{Range, Version};
use serde::Deserialize;

/// The abbreviated metadata of a package.
#[derive(Debug, Deserialize)]
pub(super) struct Packument {
    #[serde(rename = "dist-tags", default)]
    tags: BTreeMap<String, String>,
    versions: BTreeMap<String, Release>,
}

/// One version.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Release {
    dependencies: BTreeMap<String, String>,
    optional_dependencies: BTreeMap<String, String>,
    peer_dependencies: BTreeMap<String, String>,
    peer_dependencies_meta: BTreeMap<String, PeerMeta>,
    deprecated: Option<serde_json::Value>,
    /// Where its tarball is.
    pub(super) dist: Dist,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PeerMeta {
    optional: bool,
}

/// Where a tarball is, and what vouches for it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Dist {
    /// Its URL.
    pub(super) tarball: String,
    /// Hashes, as Subresource Integrity has them.
    pub(super) integrity: Option<String>,
}

impl Packument {
    /// The version that `wanted` means, as npm picks it: a tag's; or the one of the tag `latest`, when the range holds it; or the highest that the
    /// range holds, of those that are not deprecated if there are any.
    pub(super) fn pick(&self, wanted: &str) -> Option<(&str, &Release)> {
        let wanted = if wanted.is_empty() { "latest" } else { wanted };
        if let Some(tagged) = self.tags.get(wanted) {
            return self.versions.get_key_value(tagged).map(|(version, release)| (version.as_str(), release));
        }
        let range = Range::parse(wanted).ok()?;
        let latest = self.tags.get("latest").filter(|latest| holds(&range, latest));
        if let Some((version, release)) = latest.and_then(|latest| self.versions.get_key_value(latest)) {
            return Some((version, release));
        }
        let fitting = self.versions.iter().filter_map(|(text, release)| {
            let version = Version::parse(text).ok().filter(|version| range.satisfies(version))?;
            Some((release.deprecated.as_ref().is_none_or(|it| *it == serde_json::Value::Bool(false)), version, text, release))
        });
        fitting.max_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1))).map(|(_, _, text, release)| (text.as_str(), release))
    }
}

impl Release {
    /// What it needs to run, by the names that it uses. Optional ones are for platforms that this is not.
    pub(super) fn needs(&self) -> BTreeMap<String, String> {
        let peers = self.peer_dependencies.iter().filter(|(name, _)| !self.peer_dependencies_meta.get(*name).is_some_and(|it| it.optional));
        let own = self.dependencies.iter().filter(|(name, _)| !self.optional_dependencies.contains_key(*name));
        peers.chain(own).map(|(name, range)| (name.clone(), range.clone())).collect()
    }
}

/// Whether a range holds a version. Neither is trusted to be one.
pub(super) fn holds(range: &Range, version: &str) -> bool {
    Version::parse(version).is_ok_and(|version| range.satisfies(&version))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn packument() -> Packument {
        let release = || json!({"dist": {"tarball": "t", "integrity": "sha512-x"}});
        let mut gone = release();
        gone["deprecated"] = json!("no longer");
        let versions = json!({
            "1.0.0": release(), "1.9.0": release(), "1.10.0": release(), "1.11.0": gone, "2.0.0": release(), "2.1.0": release(), "3.0.0-beta.1": release(),
        });
        serde_json::from_value(json!({"dist-tags": {"latest": "2.0.0", "next": "3.0.0-beta.1"}, "versions": versions})).unwrap()
    }

    #[test]
    fn a_range_means_what_npm_means_by_it() {
        let packument = packument();
        let pick = |wanted| packument.pick(wanted).map(|(version, _)| version);
        assert_eq!(pick(""), Some("2.0.0"), "the latest");
        assert_eq!(pick("*"), Some("2.0.0"));
        assert_eq!(pick("^2"), Some("2.0.0"), "the latest, where the range holds it");
        assert_eq!(pick("^1"), Some("1.10.0"), "numbers are no texts, and what is deprecated comes last");
        assert_eq!(pick("1.11.x"), Some("1.11.0"));
        assert_eq!(pick("1.0.0 - 1.9.5 || >=9"), Some("1.9.0"));
        assert_eq!(pick("2.1.0"), Some("2.1.0"));
        assert_eq!(pick(">2.1"), None, "a range holds prereleases of its own version only");
        assert_eq!(pick("next"), Some("3.0.0-beta.1"));
        assert_eq!(pick("nonsense"), None);
    }

    #[test]
    fn needs_are_dependencies_and_peers_that_are_not_optional() {
        let release: Release = serde_json::from_value(json!({
            "dependencies": {"a": "1", "native": "1"}, "optionalDependencies": {"native": "1"},
            "peerDependencies": {"a": "9", "react": "18", "maybe": "1"}, "peerDependenciesMeta": {"maybe": {"optional": true}},
        }))
        .unwrap();
        let needs: Vec<_> = release.needs().into_iter().collect();
        assert_eq!(needs, [("a".to_owned(), "1".to_owned()), ("react".to_owned(), "18".to_owned())]);
    }
}
