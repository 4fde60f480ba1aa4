//! Which pools of the namespace there are, as the operator says it in a file: the certificate of a pool that is deleted is good for some hours more, and no
//! call is taken with it.
//!
//! The file lags behind by as long as a kubelet takes. So it says as of when it is, and a pool that it does not name is refused only if its certificate is
//! older than that: a newer one may be of a pool that was made since.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use dormouse_service::tls::PeerIdentity;

/// How long what was read is believed.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The pools that there are. The default knows none, and takes every certificate.
#[derive(Debug, Clone, Default)]
pub struct LivingPools(Option<Arc<File>>);

#[derive(Debug)]
struct File {
    path: PathBuf,
    read: Mutex<Read>,
}

/// When it was read last, or was tried to be, and what it said then or before.
#[derive(Debug, Default)]
struct Read {
    tried: Option<Instant>,
    listed: Option<Listed>,
}

/// What the file says: the first line has the seconds since the Unix epoch as of which it is, each other one the uid of a KernelPool.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    as_of_seconds: u64,
    uids: HashSet<String>,
}

impl Listed {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let as_of_seconds = lines.next()?.parse().ok()?;
        Some(Self { as_of_seconds, uids: lines.map(str::to_owned).collect() })
    }

    fn has(&self, peer: &PeerIdentity) -> bool {
        let is_there = |made_for: &dormouse_service::tls::Incarnation| {
            self.uids.contains(&made_for.uid) || made_for.issued_seconds >= self.as_of_seconds
        };
        peer.incarnation.as_ref().is_some_and(is_there)
    }
}

impl LivingPools {
    /// As the file at `path` says. Without one, every certificate is taken.
    #[must_use]
    pub fn file(path: PathBuf) -> Self {
        Self(Some(Arc::new(File { path, read: Mutex::default() })))
    }

    /// Whether the pool that a certificate was made for is there.
    pub(crate) fn has(&self, peer: &PeerIdentity) -> bool {
        let Some(file) = &self.0 else { return true };
        let mut read = file.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.tried.is_none_or(|tried| tried.elapsed() >= READ_EVERY) {
            read.tried = Some(Instant::now());
            match std::fs::read_to_string(&file.path).ok().as_deref().and_then(Listed::parse) {
                Some(listed) => read.listed = Some(listed),
                // What was said last goes on: a file that is replaced may not be there for a moment.
                None => tracing::debug!(path = %file.path.display(), "the file of pools cannot be read"),
            }
        }
        read.listed.as_ref().is_none_or(|listed| listed.has(peer))
    }
}

#[cfg(test)]
mod tests {
    use dormouse_service::tls::{Identity, Incarnation};

    use super::*;

    fn peer(made_for: Option<(&str, u64)>) -> PeerIdentity {
        let peer: PeerIdentity = Identity::of_pool("team", "p").parse().unwrap();
        let incarnation = made_for.map(|(uid, issued_seconds)| Incarnation { uid: uid.to_owned(), issued_seconds });
        PeerIdentity { incarnation, ..peer }
    }

    #[test]
    fn a_certificate_of_a_pool_that_is_not_listed_is_good_only_if_it_is_newer_than_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pools");
        let missing = LivingPools::file(path.clone());
        assert!(missing.has(&peer(Some(("gone", 1)))), "nobody has said anything yet");
        std::fs::write(&path, "100\nhere\n").unwrap();
        let pools = LivingPools::file(path.clone());
        assert!(pools.has(&peer(Some(("here", 1)))));
        assert!(!pools.has(&peer(Some(("gone", 99)))) && !pools.has(&peer(None)));
        assert!(pools.has(&peer(Some(("new", 100)))));
        std::fs::remove_file(&path).unwrap();
        assert!(!pools.has(&peer(Some(("gone", 99)))), "what was said last goes on");
        assert!(LivingPools::default().has(&peer(None)));
    }

    #[test]
    fn a_file_that_is_none_says_nothing() {
        assert_eq!(Listed::parse(""), None);
        assert_eq!(Listed::parse("here\n"), None);
        assert_eq!(Listed::parse("7\n"), Some(Listed { as_of_seconds: 7, uids: HashSet::new() }));
    }
}
