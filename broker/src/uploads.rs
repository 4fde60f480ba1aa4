//! Bodies of requests that are sent by themselves: from a kernel pod to a service, through this process, which never has more of one than what is under way.
//!
//! A call comes without its body first. Where it is really made, after everybody has agreed, its body is asked for ([`ToolAnswer::Send`]), and the
//! attempt waits for it. A body can be read once: what has begun to leave is not sent again.
//!
//! [`ToolAnswer::Send`]: dormouse_protocol::broker::ToolAnswer::Send

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
    places: Arc<Mutex<HashMap<Key, Place>>>,
}

/// One call's.
#[derive(Debug, Default)]
struct Place {
    /// Who asks for the call, and is told when its body is wanted.
    asking: Option<oneshot::Sender<()>>,
    /// The attempt that waits.
    wanting: Option<oneshot::Sender<Upload>>,
    /// What has come before it was wanted.
    come: Option<Upload>,
}

impl Place {
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
        let key = &Asked::of(call).key;
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
        let came = tokio::time::timeout(WANTED_TIMEOUT, coming).await;
        self.at(key, |place| place.wanting = None);
        match came {
            Ok(Ok(upload)) => Ok(upload),
            _ => {
                let message = format!("the body did not come within {} s; nothing was sent", WANTED_TIMEOUT.as_secs());
                Err(ApiError::new(ErrorCode::ToolResultInvalid, message))
            }
        }
    }

    /// Offers a body that has come.
    pub(crate) fn offer(&self, asked: &Asked, upload: Upload) {
        self.at(&asked.key, |place| match place.wanting.take() {
            Some(wanting) => drop(wanting.send(upload)),
            None => place.come = Some(upload),
        });
    }

    /// Nobody asks any more.
    pub(crate) fn leave(&self, asked: &Asked) {
        if asked.body.is_some() {
            self.at(&asked.key, |place| place.asking = place.asking.take().filter(|asking| !asking.is_closed()));
        }
    }

    /// Takes back what nobody wanted.
    pub(crate) fn withdraw(&self, asked: &Asked) {
        self.at(&asked.key, |place| place.come = None);
    }

    fn at<T>(&self, key: &Key, act: impl FnOnce(&mut Place) -> T) -> T {
        let mut places = self.lock();
        let place = places.entry(key.clone()).or_default();
        let done = act(place);
        if place.is_empty() {
            places.remove(key);
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body on its way. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    coming: Arc<tokio::sync::Mutex<Coming>>,
}

#[derive(Debug)]
struct Coming {
    /// What came with the call.
    first: Bytes,
    rest: BodyDataStream,
    /// Whether any of it was taken.
    begun: bool,
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
                    let coming = Coming { first, rest, begun: false };
                    return Ok((call, Self { coming: Arc::new(tokio::sync::Mutex::new(coming)) }));
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
            let next = upload.coming.lock().await.next().await;
            next.map(|next| (next, upload))
        });
        reqwest::Body::wrap_stream(parts)
    }

    /// Whether any of it has left.
    pub(crate) async fn has_begun(&self) -> bool {
        self.coming.lock().await.begun
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
        self.begun = true;
        if !self.first.is_empty() {
            return Some(Ok(std::mem::take(&mut self.first)));
        }
        self.rest.next().await
    }
}
