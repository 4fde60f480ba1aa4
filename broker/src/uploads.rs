//! Bodies of requests that are sent by themselves: from a kernel pod to a service, through this process, which never has more of one than what is under way.
//!
//! A call comes without its body first. Where it is really made, after everybody has agreed, its body is asked for ([`ToolAnswer::Send`]), and the
//! attempt waits for it. A body can be read once: what has begun to leave is not sent again.
//!
//! [`ToolAnswer::Send`]: dormouse_protocol::broker::ToolAnswer::Send

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{CALL_BYTES_MAX, LargeBody, ToolCall},
};
use futures::StreamExt as _;
use tokio::sync::oneshot;

/// How long an attempt waits for the body that it has asked for.
const WANTED_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest body that a credential covers: a signature is over all of it, so it is held whole.
pub(crate) const COVERED_BYTES_MAX: u64 = 18 << 20;
/// What the length of a call before its body takes.
const LENGTH_BYTES: usize = 4;

type Key = (String, u64);

/// Which call somebody asks for.
pub(crate) struct Asked {
    key: Key,
    body: Option<LargeBody>,
}

impl Asked {
    pub(crate) fn of(call: &ToolCall) -> Self {
        Self { key: (call.session_uid.clone(), call.call), body: call.body.clone() }
    }
}

/// The bodies that are wanted, and those that have come. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uploads {
    calls: Arc<Mutex<HashMap<Key, Rendezvous>>>,
}

/// One call's.
#[derive(Debug, Default)]
struct Rendezvous {
    /// Who asks for the call, and is told when its body is wanted.
    asking: Option<oneshot::Sender<()>>,
    /// The attempt that waits.
    wanting: Option<oneshot::Sender<Upload>>,
    /// What has come before it was wanted.
    come: Option<Upload>,
}

impl Rendezvous {
    fn is_empty(&self) -> bool {
        self.asking.is_none() && self.wanting.is_none() && self.come.is_none()
    }
}

impl Uploads {
    /// The body of the call that somebody asks for, when it is wanted; never, unless it has one.
    pub(crate) async fn wanted(&self, asked: &Asked) -> LargeBody {
        let Some(body) = &asked.body else { return std::future::pending().await };
        let (sender, wanted) = oneshot::channel();
        let is_wanted = self.at(&asked.key, |place| {
            let is_wanted = place.wanting.as_ref().is_some_and(|wanting| !wanting.is_closed());
            if !is_wanted {
                place.asking = Some(sender);
            }
            is_wanted
        });
        // Who asks next takes the place of who asked before: the call is theirs.
        if !is_wanted && wanted.await.is_err() {
            return std::future::pending().await;
        }
        body.clone()
    }

    /// The body of a call that is being made.
    ///
    /// # Errors
    /// Nobody sends it in time.
    pub(crate) async fn take(&self, call: &ToolCall) -> Result<Upload, ApiError> {
        let asked = Asked::of(call);
        let key = &asked.key;
        let _leaves = self.stay(&asked);
        let (sender, coming) = oneshot::channel();
        let come = self.at(key, |place| {
            if let Some(asking) = place.asking.take() {
                let _ = asking.send(());
            }
            let come = place.come.take();
            if come.is_none() {
                place.wanting = Some(sender);
            }
            come
        });
        if let Some(come) = come {
            return Ok(come);
        }
        match tokio::time::timeout(WANTED_TIMEOUT, coming).await {
            Ok(Ok(upload)) => Ok(upload),
            _ => {
                let message = format!("the body did not come within {} s; nothing was sent", WANTED_TIMEOUT.as_secs());
                Err(ApiError::new(ErrorCode::ToolResultInvalid, message))
            }
        }
    }

    /// Offers a body that has come, until the answer is dropped: also when whoever sends it is cut off.
    pub(crate) fn offer<'a>(&'a self, asked: &'a Asked, upload: Upload) -> Stay<'a> {
        self.at(&asked.key, |place| {
            // An attempt that was given up takes nothing any more.
            place.come = match place.wanting.take() {
                Some(wanting) => wanting.send(upload).err(),
                None => Some(upload),
            };
        });
        Stay { offers: true, ..self.stay(asked) }
    }

    /// Somebody has to do with the call until the answer is dropped: then nothing of theirs is left.
    pub(crate) fn stay<'a>(&'a self, asked: &'a Asked) -> Stay<'a> {
        Stay { uploads: self, asked, offers: false }
    }

    fn at<T>(&self, key: &Key, act: impl FnOnce(&mut Rendezvous) -> T) -> T {
        let mut calls = self.lock();
        let rendezvous = calls.entry(key.clone()).or_default();
        let done = act(rendezvous);
        if rendezvous.is_empty() {
            calls.remove(key);
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Rendezvous>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That somebody asks for a call, makes it, or offers its body.
pub(crate) struct Stay<'a> {
    uploads: &'a Uploads,
    asked: &'a Asked,
    offers: bool,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        if !self.offers && self.asked.body.is_none() {
            return;
        }
        self.uploads.at(&self.asked.key, |place| {
            place.asking = place.asking.take().filter(|asking| !asking.is_closed());
            place.wanting = place.wanting.take().filter(|wanting| !wanting.is_closed());
            place.come = place.come.take().filter(|_| !self.offers);
        });
    }
}

/// A body on its way. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    coming: Arc<tokio::sync::Mutex<Coming>>,
    /// Whether any of it was taken.
    begun: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Coming {
    /// What came with the call.
    first: Bytes,
    rest: BodyDataStream,
}

impl Upload {
    /// The call at the beginning of a body, and what follows it.
    ///
    /// # Errors
    /// It does not begin with a call.
    pub(crate) async fn after_call(body: Body) -> Result<(ToolCall, Self), ApiError> {
        let invalid = |why: &str| ApiError::new(ErrorCode::InvalidRequest, format!("the body does not begin with a call: {why}"));
        let (mut rest, mut begun) = (body.into_data_stream(), BytesMut::new());
        loop {
            if let Some((length, after)) = begun.split_first_chunk::<LENGTH_BYTES>() {
                let length = u32::from_le_bytes(*length) as usize;
                if length > CALL_BYTES_MAX {
                    return Err(invalid("it is too large"));
                }
                if let Some(call) = after.get(..length) {
                    let call = serde_json::from_slice(call).map_err(|error| invalid(&error.to_string()))?;
                    let first = begun.split_off(LENGTH_BYTES + length).freeze();
                    let coming = Arc::new(tokio::sync::Mutex::new(Coming { first, rest }));
                    return Ok((call, Self { coming, begun: Arc::default() }));
                }
            }
            match rest.next().await {
                Some(Ok(chunk)) => begun.extend_from_slice(&chunk),
                Some(Err(error)) => return Err(invalid(&error.to_string())),
                None => return Err(invalid("it ends early")),
            }
        }
    }

    /// What is left of it, for one request.
    pub(crate) fn body(&self) -> reqwest::Body {
        let parts = futures::stream::unfold(self.clone(), |upload| async move {
            upload.begun.store(true, Ordering::SeqCst);
            let next = upload.coming.lock().await.next().await;
            next.map(|next| (next, upload))
        });
        reqwest::Body::wrap_stream(parts)
    }

    /// Whether any of it has left.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// All of it.
    ///
    /// # Errors
    /// It breaks off.
    pub(crate) async fn whole(&self) -> Result<Bytes, ApiError> {
        let (mut coming, mut whole) = (self.coming.lock().await, BytesMut::new());
        while let Some(part) = coming.next().await {
            let part = part.map_err(|error| ApiError::new(ErrorCode::ToolResultInvalid, format!("the body broke off: {error}")))?;
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }

    /// Reads what nobody has read: whoever sends it hears the answer when all is sent.
    pub(crate) async fn drain(&self) {
        let mut coming = self.coming.lock().await;
        while let Some(Ok(_)) = coming.next().await {}
    }
}

impl Coming {
    async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        if !self.first.is_empty() {
            return Some(Ok(std::mem::take(&mut self.first)));
        }
        self.rest.next().await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call() -> ToolCall {
        serde_json::from_value(json!({
            "namespace": "team-a", "session": "a", "sessionUid": "u-1", "epoch": 1, "call": 7, "tool": "callService",
            "args": {}, "body": {"id": "b", "bytes": 4},
        }))
        .unwrap()
    }

    async fn upload(bytes: &str) -> Upload {
        let text = serde_json::to_vec(&call()).unwrap();
        let framed = [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], &text, bytes.as_bytes()].concat();
        Upload::after_call(Body::from(framed)).await.unwrap().1
    }

    #[tokio::test]
    async fn what_a_request_offered_that_was_cut_off_is_nobodys() {
        let (uploads, call) = (Uploads::default(), call());
        let asked = Asked::of(&call);
        drop(uploads.offer(&asked, upload("gone").await));
        assert!(uploads.lock().is_empty());
        let mut taking = Box::pin(uploads.take(&call));
        assert!(futures::poll!(&mut taking).is_pending(), "it asks anew");
        let _offers = uploads.offer(&asked, upload("next").await);
        assert_eq!(taking.await.unwrap().whole().await.unwrap(), "next");
    }

    #[tokio::test]
    async fn an_attempt_that_was_given_up_takes_no_body_and_leaves_no_place() {
        let (uploads, call) = (Uploads::default(), call());
        let asked = Asked::of(&call);
        let mut given_up = Box::pin(uploads.take(&call));
        assert!(futures::poll!(&mut given_up).is_pending());
        drop(given_up);
        assert!(uploads.lock().is_empty());
        let offers = uploads.offer(&asked, upload("body").await);
        assert_eq!(uploads.take(&call).await.unwrap().whole().await.unwrap(), "body");
        drop(offers);
        assert!(uploads.lock().is_empty());
    }

    #[tokio::test]
    async fn who_asks_and_leaves_leaves_no_place() {
        let (uploads, call) = (Uploads::default(), call());
        let asked = Asked::of(&call);
        {
            let _asks = uploads.stay(&asked);
            let mut wanted = Box::pin(uploads.wanted(&asked));
            assert!(futures::poll!(&mut wanted).is_pending());
            assert_eq!(uploads.lock().len(), 1);
            drop(wanted);
        }
        assert!(uploads.lock().is_empty());
    }
}
