//! Links with which somebody who has no account decides about one call that waits.
//!
//! A link carries what it is about, for how long, and a MAC over that: nothing is stored for it. It lets its holder see and decide about this very call,
//! with these arguments, and nothing else; the first decision stands, so it works once.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{Approval, ApprovalLink, Decide, Decided},
    broker::digest,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    approvals,
    audit::{Act, audited},
    directory::Key,
    router::Router,
};

/// Bytes of a key at least.
pub const KEY_BYTES_MIN: usize = 32;
/// How long a link works if nothing is said, and at most: a day, and thirty.
const EXPIRES_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);
const EXPIRES_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Bytes of a token at most.
const TOKEN_BYTES_MAX: usize = 4 << 10;

/// Why links cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LinksError {
    /// The key is short.
    #[error("the key of links has {0} bytes: write at least {KEY_BYTES_MIN} random ones")]
    ShortKey(usize),
    /// The URL is none.
    #[error("`{0}` is no URL under which people reach the gateway: write https://…")]
    Url(String),
}

/// Makes links, and reads them.
#[derive(Clone)]
pub struct Links {
    key: hmac::Key,
    url: String,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What a link is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    namespace: String,
    session: String,
    uid: String,
    approval: String,
    /// In which the call was made.
    epoch: u64,
    /// Of the tool and its arguments.
    digest: String,
    /// In seconds since the Unix epoch.
    until: i64,
    /// Who made the link.
    by: String,
}

impl Claim {
    fn key(&self) -> Key {
        Key::new(&self.namespace, self.session.clone())
    }

    /// Who comes with the link, as far as anybody knows.
    fn holder(&self) -> String {
        format!("a link of {}", self.by)
    }
}

impl Links {
    /// Links below `url`, under which people reach the gateway. All replicas have the same key.
    ///
    /// # Errors
    /// See [`LinksError`].
    pub fn new(key: &[u8], url: &str) -> Result<Self, LinksError> {
        if key.len() < KEY_BYTES_MIN {
            return Err(LinksError::ShortKey(key.len()));
        }
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(LinksError::Url(url.to_owned()));
        }
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), url: url.trim_end_matches('/').to_owned() })
    }

    fn token(&self, claim: &Claim) -> Result<String, ApiError> {
        let text = serde_json::to_vec(claim).map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
        let said = BASE64_URL_SAFE_NO_PAD.encode(text);
        let mac = hmac::sign(&self.key, said.as_bytes());
        Ok(format!("{said}.{}", BASE64_URL_SAFE_NO_PAD.encode(mac)))
    }

    /// What a token says, if it was made here and is not over.
    fn read(&self, token: &str, now: Timestamp) -> Result<Claim, ApiError> {
        let forged = || ApiError::new(ErrorCode::Forbidden, "this link is none that was made here: ask for another one");
        let (said, mac) = token.split_once('.').filter(|_| token.len() <= TOKEN_BYTES_MAX).ok_or_else(forged)?;
        let mac = BASE64_URL_SAFE_NO_PAD.decode(mac).map_err(|_| forged())?;
        hmac::verify(&self.key, said.as_bytes(), &mac).map_err(|_| forged())?;
        let text = BASE64_URL_SAFE_NO_PAD.decode(said).map_err(|_| forged())?;
        let claim: Claim = serde_json::from_slice(&text).map_err(|_| forged())?;
        if claim.until <= now.as_second() {
            return Err(ApiError::new(ErrorCode::ApprovalExpired, "the time of this link is over: ask for another one"));
        }
        Ok(claim)
    }
}

/// Makes a link for a call that waits.
pub async fn make(
    links: Option<&Links>,
    router: &Router,
    key: &Key,
    id: &str,
    expires_seconds: Option<u64>,
    by: &str,
) -> Result<ApprovalLink, ApiError> {
    let Some(links) = links else {
        return Err(ApiError::new(ErrorCode::NotSupported, "this gateway makes no links: give it a key and its public URL"));
    };
    let seconds = expires_seconds.unwrap_or(EXPIRES_DEFAULT.as_secs());
    if seconds == 0 || seconds > EXPIRES_MAX.as_secs() {
        return Err(ApiError::new(ErrorCode::InvalidRequest, format!("expiresSeconds must be 1 to {}", EXPIRES_MAX.as_secs())));
    }
    let record = router.find(key).await?;
    let waiting = find(router, key, id).await?;
    let until = router.clock().now().as_second().saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX));
    // No longer than the call waits.
    let until = waiting.expires_at.parse::<Timestamp>().map_or(until, |end| until.min(end.as_second()));
    let claim = Claim {
        namespace: key.namespace.clone(),
        session: key.name.clone(),
        uid: record.uid.clone(),
        approval: id.to_owned(),
        epoch: waiting.epoch,
        digest: digest(&waiting.tool_name, &waiting.args),
        until,
        by: by.to_owned(),
    };
    let expires_at = Timestamp::from_second(until).map(|time| time.to_string()).unwrap_or_default();
    Ok(ApprovalLink { url: format!("{}/approve?token={}", links.url, links.token(&claim)?), expires_at })
}

async fn find(router: &Router, key: &Key, id: &str) -> Result<Approval, ApiError> {
    let items = approvals::list(router, key).await?.items;
    items.into_iter().find(|approval| approval.id == id).ok_or_else(|| approvals::not_found(id))
}

/// The call that a link is about, while it waits.
pub async fn show(links: &Links, router: &Router, token: &str, request_id: &str) -> Result<Approval, ApiError> {
    let claim = links.read(token, router.clock().now())?;
    let (key, part) = (claim.key(), format!("approvals/{}", claim.approval));
    audited(&claim.holder(), request_id, (Act::Read, &key, &part), async { about(router, &claim).await.map(|(_, approval)| approval) })
        .await
}

/// Decides about it.
pub async fn decide(links: &Links, router: &Router, token: &str, decide: Decide, request_id: &str) -> Result<Decided, ApiError> {
    let claim = links.read(token, router.clock().now())?;
    let (key, by) = (claim.key(), claim.holder());
    audited(&by, request_id, (Act::Decide, &key, &claim.approval), async {
        let (key, approval) = about(router, &claim).await?;
        let id = router.ids().next().simple().to_string();
        // The page sends what it showed where nobody has changed it.
        let arguments = decide.arguments.filter(|arguments| *arguments != approval.args);
        let decide = Decide { arguments, epoch: Some(claim.epoch), ..decide };
        approvals::decide(router, &key, &approval.id, decide, &by, id).await
    })
    .await
}

async fn about(router: &Router, claim: &Claim) -> Result<(Key, Approval), ApiError> {
    let key = claim.key();
    let record = router.find(&key).await?;
    let approval = find(router, &key, &claim.approval).await?;
    // A session of the same name, or a call of the same number of another epoch or with other arguments, is another one.
    if record.uid != claim.uid || approval.epoch != claim.epoch || digest(&approval.tool_name, &approval.args) != claim.digest {
        return Err(approvals::not_found(&claim.approval));
    }
    Ok((key, approval))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(key: u8) -> Links {
        Links::new(&[key; KEY_BYTES_MIN], "https://gateway.example/").unwrap()
    }

    fn claim() -> Claim {
        let text = |text: &str| text.to_owned();
        Claim {
            namespace: text("team"),
            session: text("agent"),
            uid: text("u-1"),
            approval: text("a_1"),
            epoch: 3,
            digest: text("ab"),
            until: 100,
            by: text("ann"),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_says_what_it_was_made_for_until_it_is_over() {
        let token = links(1).token(&claim()).unwrap();
        assert_eq!(links(1).read(&token, at(99)).unwrap(), claim());
        assert_eq!(links(1).read(&token, at(100)).unwrap_err().code, ErrorCode::ApprovalExpired);
        assert_eq!(links(2).read(&token, at(0)).unwrap_err().code, ErrorCode::Forbidden);
    }

    #[test]
    fn no_altered_token_is_taken() {
        let token = links(1).token(&claim()).unwrap();
        for at_byte in 0..token.len() {
            for bit in 0..7 {
                let mut bytes = token.clone().into_bytes();
                bytes[at_byte] ^= 1 << bit;
                let Ok(altered) = String::from_utf8(bytes) else { continue };
                // The last character of base64 has bits that mean nothing, and a decoder that takes them is none.
                assert!(links(1).read(&altered, at(0)).is_err(), "{altered}");
            }
            assert!(links(1).read(&token[..at_byte], at(0)).is_err());
        }
        for other in ["", ".", &"x".repeat(TOKEN_BYTES_MAX + 1)] {
            assert!(links(1).read(other, at(0)).is_err());
        }
    }

    #[test]
    fn a_key_is_long_and_a_url_is_one() {
        assert!(Links::new(&[0; KEY_BYTES_MIN - 1], "https://a.example").is_err());
        assert!(Links::new(&[0; KEY_BYTES_MIN], "a.example").is_err());
    }
}
