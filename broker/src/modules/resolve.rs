//! A package and all that it needs, each need answered by one version.
//!
//! Needs are dealt with breadth first and in the order of their names, so the same metadata always gives the same packages. A need takes the highest
//! version that was chosen already, by the session earlier or for another need now, and asks the registry only when none fits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dormouse_crds::modules::Specifier;
use dormouse_protocol::{ApiError, ErrorCode};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use nodejs_semver::{Range, Version};

use super::{
    packument::{Packument, holds},
    registry::{Registry, unavailable},
};

/// Packages that one load may bring.
const PACKAGES_MAX: usize = 200;
/// Packages that a session may have before.
const PINNED_MAX: usize = 2_000;
/// Metadata of packages that is asked for at one time.
const QUESTIONS_MAX: usize = 8;

/// A package and its needs.
#[derive(Debug)]
pub(super) struct Graph {
    /// The package that was asked for.
    pub(super) root: String,
    /// What the session does not have.
    pub(super) packages: Vec<Chosen>,
}

/// One version.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    name: String,
    version: String,
    /// What it means by a name.
    pub(super) dependencies: BTreeMap<String, String>,
    /// What vouches for its tarball.
    pub(super) integrity: String,
    /// Where that is.
    pub(super) tarball: String,
}

impl Chosen {
    /// `NAME@VERSION`
    pub(super) fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// A name as some package uses it, and what it stands for.
struct Need {
    /// Position of the package that needs it; none for the root.
    by: Option<usize>,
    alias: String,
    name: String,
    wanted: String,
}

#[derive(Default)]
struct Resolution {
    /// Versions that are there, by name.
    known: HashMap<String, BTreeSet<String>>,
    chosen: Vec<Chosen>,
    root: String,
    packuments: HashMap<String, Packument>,
}

/// Resolves `specifier`. `pinned` are packages that the session has.
pub(super) async fn resolve(registry: &Registry<'_>, specifier: Specifier<'_>, pinned: &[String]) -> Result<Graph, ApiError> {
    if pinned.len() > PINNED_MAX {
        return Err(ApiError::new(ErrorCode::QuotaExceeded, format!("a session may have at most {PINNED_MAX} packages")));
    }
    let mut resolution = Resolution::default();
    for id in pinned {
        if let Some((name, version)) = id.rsplit_once('@') {
            resolution.known.entry(name.to_owned()).or_default().insert(version.to_owned());
        }
    }
    let (name, wanted) = (specifier.name.to_owned(), specifier.range.unwrap_or_default().to_owned());
    let mut needs = vec![Need { by: None, alias: name.clone(), name, wanted }];
    while !needs.is_empty() {
        resolution.ask(registry, &needs).await?;
        let mut next = Vec::new();
        for need in needs {
            resolution.answer(need, &mut next)?;
        }
        needs = next;
    }
    Ok(Graph { root: resolution.root, packages: resolution.chosen })
}

impl Resolution {
    /// Asks for the metadata of what is needed and not known to be there.
    async fn ask(&mut self, registry: &Registry<'_>, needs: &[Need]) -> Result<(), ApiError> {
        let missing = needs.iter().filter(|need| self.fitting(need).is_none() && !self.packuments.contains_key(&need.name));
        let names: BTreeSet<String> = missing.map(|need| need.name.clone()).collect();
        let asked = stream::iter(names).map(|name| async move {
            let packument = registry.packument(&name).await?;
            Ok::<_, ApiError>((name, packument))
        });
        let answers: Vec<(String, Packument)> = asked.buffered(QUESTIONS_MAX).try_collect().await?;
        self.packuments.extend(answers);
        Ok(())
    }

    /// The highest version that is there and fits.
    fn fitting(&self, need: &Need) -> Option<String> {
        let range = Range::parse(if need.wanted.is_empty() { "*" } else { &need.wanted }).ok()?;
        let fitting = self.known.get(&need.name)?.iter().filter(|version| holds(&range, version));
        fitting.filter_map(|text| Some((Version::parse(text).ok()?, text))).max().map(|(_, text)| text.clone())
    }

    fn answer(&mut self, need: Need, next: &mut Vec<Need>) -> Result<(), ApiError> {
        let version = match self.fitting(&need) {
            Some(version) => version,
            None => self.choose(&need, next)?,
        };
        let id = format!("{}@{version}", need.name);
        match need.by.and_then(|by| self.chosen.get_mut(by)) {
            Some(by) => drop(by.dependencies.insert(need.alias, id)),
            None => self.root = id,
        }
        Ok(())
    }

    /// Takes a version that is not there yet.
    fn choose(&mut self, need: &Need, next: &mut Vec<Need>) -> Result<String, ApiError> {
        let Need { name, wanted, .. } = need;
        let not_found = || {
            let by = need.by.and_then(|by| self.chosen.get(by)).map(|by| format!(", which {} needs", by.id())).unwrap_or_default();
            ApiError::new(ErrorCode::ModuleNotFound, format!("the registry has no version of {name} that is {wanted}{by}"))
        };
        let (version, release) = self.packuments.get(name).and_then(|packument| packument.pick(wanted)).ok_or_else(not_found)?;
        // What it names is part of a path and of an id.
        let version = Version::parse(version).map_err(|_| unavailable(format!("{name} has a version that is none")))?.to_string();
        let integrity = release.dist.integrity.as_deref().and_then(super::tarball::strongest);
        let integrity = integrity.ok_or_else(|| {
            unavailable(format!("the registry names no sha512 integrity for {name}@{version}: it cannot be verified, and is not used"))
        })?;
        if self.chosen.len() >= PACKAGES_MAX {
            let message = format!("{} needs more than {PACKAGES_MAX} packages", self.chosen.first().map_or_else(String::new, Chosen::id));
            return Err(ApiError::new(ErrorCode::SizeAdmissionError, message));
        }
        let by = self.chosen.len();
        for (alias, wanted) in release.needs() {
            let (name, wanted) = target(&alias, &wanted)
                .ok_or_else(|| unavailable(format!("{name}@{version} needs {alias} from {wanted}, which is no version of npm's")))?;
            next.push(Need { by: Some(by), alias, name, wanted });
        }
        let tarball = release.dist.tarball.clone();
        self.chosen.push(Chosen { name: name.clone(), version: version.clone(), dependencies: BTreeMap::new(), integrity, tarball });
        self.known.entry(name.clone()).or_default().insert(version.clone());
        Ok(version)
    }
}

/// The package and range that a dependency means: an alias (`npm:NAME@RANGE`) names another. `None` for what comes from elsewhere.
fn target(alias: &str, wanted: &str) -> Option<(String, String)> {
    let wanted = wanted.trim();
    if wanted.starts_with("npm:") {
        let specifier = Specifier::parse(wanted)?;
        return Some((specifier.name.to_owned(), specifier.range.unwrap_or_default().to_owned()));
    }
    let from_elsewhere = wanted.contains([':', '/']);
    (!from_elsewhere && Specifier::parse(alias).is_some_and(|it| it.range.is_none())).then(|| (alias.to_owned(), wanted.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_names_a_package_of_the_registry() {
        let of = |alias, wanted| target(alias, wanted).map(|(name, wanted)| format!("{name} {wanted}"));
        assert_eq!(of("a", "^1.0.0").as_deref(), Some("a ^1.0.0"));
        assert_eq!(of("a", " >=1 <2 ").as_deref(), Some("a >=1 <2"));
        assert_eq!(of("old", "npm:@scope/name@~2").as_deref(), Some("@scope/name ~2"));
        for elsewhere in ["file:../x", "git+ssh://x", "https://x/y.tgz", "user/repository", "workspace:*"] {
            assert_eq!(of("a", elsewhere), None, "{elsewhere}");
        }
        assert_eq!(of("../a", "1"), None);
    }
}
