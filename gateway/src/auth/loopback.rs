//! For `dormouse dev`: whoever reaches a loopback port of this machine is its user, unless a token is demanded.

use async_trait::async_trait;
use dormouse_crds::session::Subject;

use super::{Access, AuthError, Authenticator, Caller};

/// Lets everybody do everything who has the token, if there is one. Only for a listener on loopback.
#[derive(Clone, Default)]
pub struct Loopback {
    token: Option<String>,
}

impl Loopback {
    /// Demands this token.
    #[must_use]
    pub fn with_token(token: String) -> Self {
        Self { token: Some(token) }
    }
}

#[async_trait]
impl Authenticator for Loopback {
    async fn authenticate(&self, bearer: Option<&str>) -> Result<Caller, AuthError> {
        match &self.token {
            Some(token) if !bearer.is_some_and(|bearer| is_same(token.as_bytes(), bearer.as_bytes())) => Err(AuthError::WrongToken),
            _ => Ok(Caller { user: "local".to_owned(), ..Caller::default() }),
        }
    }

    async fn authorize(&self, _caller: &Caller, _access: &Access) -> Result<(), AuthError> {
        Ok(())
    }

    fn subject(&self, _caller: &Caller) -> Option<Subject> {
        None
    }
}

/// Compares in a time that tells only the lengths.
fn is_same(token: &[u8], given: &[u8]) -> bool {
    token.len() == given.len() && token.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_demanded_when_there_is_one() {
        let demanding = Loopback::with_token("secret".to_owned());
        for bearer in [None, Some(""), Some("secre"), Some("secret2"), Some("Secret")] {
            assert!(matches!(demanding.authenticate(bearer).await, Err(AuthError::WrongToken)), "{bearer:?}");
        }
        assert!(demanding.authenticate(Some("secret")).await.is_ok());
        assert!(Loopback::default().authenticate(None).await.is_ok());
    }
}
