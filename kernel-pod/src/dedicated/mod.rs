//! A pod that runs one session in its life, with what it is given for that session.

mod store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dormouse_protocol::kernel::Grant;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio_util::sync::CancellationToken;

pub use store::GrantedStore;

/// Puts into use what a pod is given: whoever makes the pod knows its store and its way to brokers.
pub trait Grants: Send + Sync {
    /// Puts it into use, in place of what was given before. Requests under way finish with what they began with.
    ///
    /// # Errors
    /// It cannot be used; what was given before stays in use.
    fn apply(&self, grant: &Grant) -> Result<(), ApiError>;
}

/// The one session.
pub(crate) struct Only {
    grants: Arc<dyn Grants>,
    session: Mutex<Session>,
    /// Kept by whoever is about to make the session live, or has something of it that is not stored.
    holds: Arc<()>,
    ended: CancellationToken,
}

#[derive(Default)]
struct Session {
    uid: Option<String>,
    /// Whether the pod was given what the session needs.
    granted: bool,
}

impl Session {
    fn fits(&self, uid: &str) -> Result<(), ApiError> {
        if self.uid.as_ref().is_none_or(|own| own == uid) {
            return Ok(());
        }
        Err(ApiError::new(ErrorCode::CapacityExhausted, "this kernel pod runs one session in its life, and that is another one: try again"))
    }
}

impl Only {
    /// None yet.
    pub(crate) fn new(grants: Arc<dyn Grants>) -> Self {
        Self { grants, session: Mutex::default(), holds: Arc::default(), ended: CancellationToken::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a session if it is the first, or the same again.
    pub(crate) fn admit(&self, uid: &str) -> Result<(), ApiError> {
        let mut session = self.lock();
        session.fits(uid)?;
        session.uid.get_or_insert_with(|| uid.to_owned());
        Ok(())
    }

    /// The same with what the session needs, which is put into use. Answers whether there was nothing of the kind before.
    pub(crate) fn grant(&self, grant: &Grant) -> Result<bool, ApiError> {
        let mut session = self.lock();
        session.fits(&grant.uid)?;
        self.grants.apply(grant)?;
        session.uid.get_or_insert_with(|| grant.uid.clone());
        Ok(!std::mem::replace(&mut session.granted, true))
    }

    /// Whether it has one.
    pub(crate) fn is_taken(&self) -> bool {
        self.lock().uid.is_some()
    }

    /// Whether it was given what its session needs.
    pub(crate) fn has_grant(&self) -> bool {
        self.lock().granted
    }

    /// Its session is not here any more. Who was given what that needs is good for no other, and who was not is as before.
    pub(crate) fn leave(&self) {
        let mut session = self.lock();
        if session.granted {
            self.ended.cancel();
        } else {
            session.uid = None;
        }
    }

    /// Whether it was given what this session needs.
    pub(crate) fn is_granted(&self, uid: &str) -> bool {
        let session = self.lock();
        session.granted && session.uid.as_deref() == Some(uid)
    }

    /// The session needs the pod although it has no slot, as long as the answer is kept.
    pub(crate) fn hold(&self) -> Arc<()> {
        Arc::clone(&self.holds)
    }

    /// Whether that is so.
    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.holds) > 1
    }

    /// The pod has done what it was for, or never will.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    /// Ends when that is so.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use dormouse_protocol::kernel::{GrantedCertificate, GrantedStorage};

    use super::*;

    /// Takes every grant but one.
    struct NotThisKey(&'static str);

    impl Grants for NotThisKey {
        fn apply(&self, grant: &Grant) -> Result<(), ApiError> {
            if grant.storage.access_key_id != self.0 {
                return Ok(());
            }
            Err(ApiError::new(ErrorCode::InvalidRequest, "not this one"))
        }
    }

    fn only() -> Only {
        Only::new(Arc::new(NotThisKey("bad")))
    }

    fn grant(uid: &str, key: &str) -> Grant {
        let storage =
            GrantedStorage { access_key_id: key.to_owned(), secret_access_key: String::new(), session_token: None, expiration: None };
        let certificate = GrantedCertificate { ca: String::new(), cert: String::new(), key: String::new() };
        Grant { uid: uid.to_owned(), boot: String::new(), storage, certificate }
    }

    #[test]
    fn the_first_session_is_the_only_one() {
        let only = only();
        assert!(!only.is_taken());
        assert!(only.admit("a").is_ok() && only.admit("a").is_ok() && only.is_taken());
        assert_eq!(only.admit("b").unwrap_err().code, ErrorCode::CapacityExhausted);
        assert_eq!(only.grant(&grant("b", "key")).unwrap_err().code, ErrorCode::CapacityExhausted);
        assert!(!only.is_granted("a") && !only.is_granted("b"));
        assert!(only.grant(&grant("a", "key")).unwrap() && only.is_granted("a"));
        assert!(!only.grant(&grant("a", "another key")).unwrap(), "it had one before");
    }

    #[test]
    fn only_a_pod_that_was_given_something_is_good_for_no_other() {
        let only = only();
        only.admit("a").unwrap();
        only.leave();
        assert!(!only.is_taken() && !only.has_grant());
        assert!(only.grant(&grant("b", "key")).unwrap() && only.has_grant());
        only.leave();
        assert!(only.is_taken() && only.ended.is_cancelled());
    }

    #[test]
    fn what_cannot_be_used_takes_no_pod() {
        let only = only();
        assert_eq!(only.grant(&grant("a", "bad")).unwrap_err().code, ErrorCode::InvalidRequest);
        assert!(!only.is_taken() && !only.is_granted("a"));
        assert!(only.grant(&grant("b", "key")).unwrap() && only.is_taken());
        assert_eq!(only.admit("a").unwrap_err().code, ErrorCode::CapacityExhausted);
    }

    #[test]
    fn it_is_held_as_long_as_somebody_needs_it() {
        let only = only();
        let (first, second) = (only.hold(), only.hold());
        drop(first);
        assert!(only.is_held());
        drop(second);
        assert!(!only.is_held());
    }
}
