//! Requests whose last byte waits until all of them are on their way: then a store that looks at a condition when a request arrives and writes when it
//! is complete has looked at all of them before it writes the first. Whose turn on the network and the processor comes when makes no difference.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use aws_sdk_s3::{
    config::{ConfigBag, Intercept, RuntimeComponents, interceptors::BeforeTransmitInterceptorContextMut},
    error::BoxError,
    primitives::SdkBody,
};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// From the moment when the last of them is on its way until all are completed: what a network may delay one of them by.
const GRACE: Duration = Duration::from_millis(20);
/// How often it is looked whether all are on their way.
const LOOK: Duration = Duration::from_millis(5);
/// Longest wait for one that does not get on its way.
const HOLD_MAX: Duration = Duration::from_secs(2);

/// What the requests of one race share. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    wanted: usize,
    under_way: Arc<AtomicUsize>,
    until: Instant,
}

impl Held {
    /// For so many requests, sent from now on.
    pub(crate) fn new(wanted: usize) -> Self {
        Self { wanted, under_way: Arc::default(), until: Instant::now() + HOLD_MAX }
    }
}

impl Intercept for Held {
    fn name(&self) -> &'static str {
        "Held"
    }

    /// After the signature, which is of the same bytes.
    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let body = context.request_mut().body_mut();
        let mut first = Bytes::copy_from_slice(body.bytes().unwrap_or_default());
        if !first.is_empty() {
            let last = first.split_off(first.len() - 1);
            let pause = Box::pin(tokio::time::sleep(Duration::ZERO));
            *body =
                SdkBody::from_body_1_x(HeldBody { held: self.clone(), first: Some(first), last: Some(last), step: Step::Sending, pause });
        }
        Ok(())
    }
}

/// Where a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Sending,
    Waiting,
    Completing,
}

#[derive(Debug)]
struct HeldBody {
    held: Held,
    first: Option<Bytes>,
    last: Option<Bytes>,
    step: Step,
    pause: Pin<Box<Sleep>>,
}

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if let Some(first) = this.first.take_if(|first| !first.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if this.step == Step::Sending {
            // Whoever asks for more has taken what was before.
            this.held.under_way.fetch_add(1, Ordering::SeqCst);
            this.step = Step::Waiting;
        }
        while this.last.is_some() {
            if this.pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let all = this.held.under_way.load(Ordering::SeqCst) >= this.held.wanted;
            match this.step {
                Step::Completing => return Poll::Ready(this.last.take().map(|last| Ok(Frame::data(last)))),
                _ if all || Instant::now() >= this.held.until => {
                    this.step = Step::Completing;
                    this.pause.as_mut().reset(Instant::now() + GRACE);
                }
                _ => this.pause.as_mut().reset(Instant::now() + LOOK),
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.last.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len) as u64;
        SizeHint::with_exact(left(&self.first) + left(&self.last))
    }
}
