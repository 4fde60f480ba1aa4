//! A credential that is looked at again as long as it is used: no answer goes on for long behind its end.

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use dormouse_protocol::{ApiError, ErrorCode};
use futures::{Stream, StreamExt as _, stream};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{AuthError, Authenticator};

/// How long after a credential was revoked, or has expired, everything has ended that was opened with it.
pub const ENDED_WITHIN: Duration = Duration::from_secs(60);
/// How long it is not looked at again.
pub const INTERVAL: Duration = Duration::from_secs(20);
/// How long a look may take. Meanwhile nothing goes on, and who cannot be asked is asked again.
pub const LOOK_TIMEOUT: Duration = Duration::from_secs(8);
/// Between two questions to who cannot be asked.
const AGAIN: Duration = Duration::from_secs(1);

/// Whether what an authority believes for so long ends in time.
const fn ends_in_time(believed: Duration) -> bool {
    believed.as_secs() + INTERVAL.as_secs() + LOOK_TIMEOUT.as_secs() < ENDED_WITHIN.as_secs()
}

const _: () = assert!(ends_in_time(super::keys::REVOKED_WITHIN) && ends_in_time(super::oidc::LEEWAY));
#[cfg(feature = "kubernetes")]
const _: () = assert!(ends_in_time(super::kubernetes::TOKEN_TTL.saturating_add(super::kubernetes::REVIEW_TIMEOUT)));

/// The credential of a request, and when it was good last.
#[derive(Clone)]
pub struct Review {
    authenticator: Arc<dyn Authenticator>,
    bearer: Option<Arc<str>>,
    reviewed: Instant,
}

impl Review {
    /// Of a credential that is good now.
    #[must_use]
    pub fn new(authenticator: Arc<dyn Authenticator>, bearer: Option<&str>) -> Self {
        Self { authenticator, bearer: bearer.map(Arc::from), reviewed: Instant::now() }
    }

    /// What comes of `work`, unless the credential ends before.
    ///
    /// # Errors
    /// It is not good any more, or nobody can say that it is.
    pub async fn until<T>(&mut self, work: impl Future<Output = T>) -> Result<T, ApiError> {
        let mut work = pin!(work);
        loop {
            self.look().await?;
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.due() => {}
            }
        }
    }

    /// The pieces of a body, which breaks off where the credential ends.
    pub fn around<E: Into<axum::BoxError> + 'static>(
        self,
        pieces: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> impl Stream<Item = Result<Bytes, axum::BoxError>> + Send + 'static {
        stream::unfold(Some((self, pieces.boxed())), |state| async move {
            let (mut review, mut pieces) = state?;
            match review.until(pieces.next()).await {
                Ok(piece) => Some((piece?.map_err(Into::into), Some((review, pieces)))),
                Err(over) => Some((Err(over.into()), None)),
            }
        })
    }

    /// Returns when it is time for a look.
    pub(crate) async fn due(&self) {
        sleep_until(self.reviewed + INTERVAL).await;
    }

    /// Looks whether the credential is good still, if it is time for that.
    ///
    /// # Errors
    /// As of [`Self::until`].
    pub(crate) async fn look(&mut self) -> Result<(), ApiError> {
        let began = Instant::now();
        if began < self.reviewed + INTERVAL {
            return Ok(());
        }
        // In a box: what is only waited for has no room for it.
        let looked = Box::pin(timeout(LOOK_TIMEOUT, self.ask())).await.map_err(|_| {
            tracing::warn!("whether a credential is good still cannot be asked; what was opened with it ends");
            let message = "whether the credentials are good still cannot be asked at the moment: try again, and see the gateway's log";
            ApiError::new(ErrorCode::StorageUnavailable, message)
        });
        looked?.map_err(|error| ApiError::new(ErrorCode::Unauthenticated, format!("the credentials are not good any more: {error}")))?;
        self.reviewed = began;
        Ok(())
    }

    async fn ask(&self) -> Result<(), AuthError> {
        loop {
            match self.authenticator.authenticate(self.bearer.as_deref()).await {
                Ok(_) => return Ok(()),
                Err(error @ (AuthError::Busy | AuthError::Unavailable(_))) => {
                    tracing::debug!(%error, "a credential cannot be looked at again yet");
                    sleep(AGAIN).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;
    use crate::auth::{Access, Caller};

    /// Takes everybody, nobody, or cannot be asked.
    #[derive(Default)]
    struct Authority(AtomicU8);

    const NOBODY: u8 = 1;
    const AWAY: u8 = 2;

    #[async_trait::async_trait]
    impl Authenticator for Authority {
        async fn authenticate(&self, _: Option<&str>) -> Result<Caller, AuthError> {
            match self.0.load(Ordering::SeqCst) {
                NOBODY => Err(AuthError::Unauthenticated),
                AWAY => Err(AuthError::Unavailable("it is away".into())),
                _ => Ok(Caller::default()),
            }
        }

        async fn authorize(&self, _: &Caller, _: &Access) -> Result<(), AuthError> {
            Ok(())
        }
    }

    fn reviewed() -> (Arc<Authority>, Review) {
        let authority = Arc::new(Authority::default());
        (Arc::clone(&authority), Review::new(authority, Some("key")))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_waited_for_ends_with_the_credential() {
        let (authority, mut review) = reviewed();
        assert_eq!(review.until(sleep(10 * ENDED_WITHIN)).await.ok(), Some(()));
        authority.0.store(NOBODY, Ordering::SeqCst);
        let began = Instant::now();
        let over = review.until(std::future::pending::<()>()).await.unwrap_err();
        assert!(over.code == ErrorCode::Unauthenticated && began.elapsed() <= INTERVAL, "{over}");
        assert!(review.until(async {}).await.is_err(), "what there is already is not told any more");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_away_for_a_moment_ends_nothing_and_who_stays_away_does() {
        let (authority, mut review) = reviewed();
        authority.0.store(AWAY, Ordering::SeqCst);
        let comes_back = async {
            sleep(INTERVAL + LOOK_TIMEOUT / 2).await;
            authority.0.store(0, Ordering::SeqCst);
        };
        let (_, waited) = tokio::join!(comes_back, review.until(sleep(2 * INTERVAL)));
        assert!(waited.is_ok());
        authority.0.store(AWAY, Ordering::SeqCst);
        let began = Instant::now();
        let over = review.until(std::future::pending::<()>()).await.unwrap_err();
        assert!(over.code == ErrorCode::StorageUnavailable && began.elapsed() <= INTERVAL + LOOK_TIMEOUT, "{over}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_breaks_off_where_the_credential_ends() {
        let (authority, review) = reviewed();
        let pieces = stream::repeat(Bytes::from_static(b"x")).then(|piece| async move {
            sleep(INTERVAL / 2).await;
            Ok::<_, std::io::Error>(piece)
        });
        let mut body = pin!(review.around(pieces));
        for _ in 0..10 {
            assert!(body.next().await.unwrap().is_ok());
        }
        authority.0.store(NOBODY, Ordering::SeqCst);
        let rest: Vec<_> = body.map(|piece| piece.is_ok()).collect().await;
        assert!(rest.len() <= 3 && rest.last() == Some(&false), "{rest:?}");
    }
}
