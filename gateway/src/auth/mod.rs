//! Who asks, and whether they may. Runs before anything is looked up, so that a refusal tells nothing about what exists.

use async_trait::async_trait;
use dormouse_crds::session::Subject;
use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::{EvalRequest, USER_CHARS_MAX},
};

#[cfg(feature = "kubernetes")]
mod cache;
pub mod keys;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod loopback;
pub mod oidc;
pub mod review;

/// Longest credential that is looked at, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 16 << 10;

/// Somebody whose credentials are good.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Caller {
    /// User name.
    pub user: String,
    /// Uid of the user, when there is one.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further facts that the authorizer may look at.
    pub extra: Vec<(String, Vec<String>)>,
    /// What an API key allows, when it is the credential.
    pub grant: Option<keys::Grant>,
}

impl Caller {
    /// Somebody who is asked about while they are not here.
    #[must_use]
    pub fn absent(subject: &Subject) -> Self {
        Self { user: subject.user.clone(), groups: subject.groups.clone(), ..Self::default() }
    }

    /// The name of the API key that is the credential.
    #[must_use]
    pub fn api_key(&self) -> Option<String> {
        self.grant.as_ref().map(|grant| grant.name.clone())
    }

    /// Says in a cell who asks, whatever was said there.
    pub(crate) fn sign(&self, eval: &mut EvalRequest) {
        eval.api_key = self.api_key();
        eval.by = Some(self.user.chars().take(USER_CHARS_MAX).collect());
    }
}

/// What of a session something is done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Part {
    /// The object.
    #[default]
    Session,
    /// What is in it: running code, and reading what it wrote.
    Eval,
    /// The calls of it that wait for a person.
    Approvals,
    /// The namespace's API keys.
    Keys,
    /// A ToolBroker that a session names.
    Broker,
    /// The calls of a ToolBroker that runners make.
    Jobs,
}

impl Part {
    /// As Kubernetes calls it.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Session => "kernelsessions",
            Self::Eval => "kernelsessions/eval",
            Self::Approvals => "kernelsessions/approvals",
            Self::Keys => "kernelsessions/keys",
            Self::Broker => "toolbrokers",
            Self::Jobs => "toolbrokers/jobs",
        }
    }
}

/// What a caller wants to do to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Make one.
    Create,
    /// Read one.
    Get,
    /// Read all.
    List,
    /// Change one.
    Update,
    /// Remove one.
    Delete,
    /// Have a session call it.
    Use,
}

impl Verb {
    /// As Kubernetes calls it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Use => "use",
        }
    }
}

/// One thing that a caller wants to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Access {
    /// Namespace.
    pub namespace: String,
    /// Session or broker, when it is about one.
    pub name: Option<String>,
    /// What.
    pub verb: Verb,
    /// To which part.
    pub part: Part,
}

/// Why a caller may not.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// No credentials, or bad ones.
    #[error("no valid credentials: send `Authorization: Bearer <API key, or token for this audience>`")]
    Unauthenticated,
    /// Not the token that a gateway on loopback demands.
    #[error("this gateway demands a token: send `Authorization: Bearer <what is in the file of --token-file>`")]
    WrongToken,
    /// A token of the OpenID Connect issuer that is not good, and why.
    #[error("the token is refused: {0}")]
    Token(&'static str),
    /// More callers than the authority can be asked about at once.
    #[error("too many new tokens are being checked: try again in a moment")]
    Busy,
    /// Good credentials without the right.
    #[error("`{user}` may not {verb} {resource} in namespace `{namespace}`: ask for a Role with that verb")]
    Forbidden {
        /// The caller.
        user: String,
        /// What they wanted.
        verb: &'static str,
        /// On what.
        resource: &'static str,
        /// Where.
        namespace: String,
    },
    /// The authority cannot be asked.
    #[error("credentials cannot be checked at the moment: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match &error {
            AuthError::Unauthenticated | AuthError::WrongToken | AuthError::Token(_) => {
                ApiError::new(ErrorCode::Unauthenticated, error.to_string())
            }
            AuthError::Busy => ApiError::new(ErrorCode::CapacityExhausted, error.to_string()),
            AuthError::Forbidden { .. } => ApiError::new(ErrorCode::Forbidden, error.to_string()),
            AuthError::Unavailable(cause) => {
                tracing::error!(error = %crate::chain::chain(&**cause), "credentials cannot be checked");
                ApiError::new(
                    ErrorCode::StorageUnavailable,
                    "credentials cannot be checked at the moment: try again, and see the gateway's log",
                )
            }
        }
    }
}

/// Decides who callers are and what they may.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// Who holds `bearer`, the credential after `Bearer `.
    async fn authenticate(&self, bearer: Option<&str>) -> Result<Caller, AuthError>;

    /// Whether `caller` may.
    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AuthError>;

    /// Who is asked about later for what `caller` writes now, if anybody can be.
    fn subject(&self, caller: &Caller) -> Option<Subject> {
        match &caller.grant {
            // A key comes and goes, as a password does: who made it stays.
            Some(grant) => grant.made_by.clone(),
            None => Some(Subject { user: caller.user.clone(), groups: caller.groups.clone() }),
        }
    }
}
