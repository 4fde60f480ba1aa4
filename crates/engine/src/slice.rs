//! When code that has used its slice goes on.
//!
//! Code runs for [`SLICE`] at a time and then yields. Polled by a plain executor it is ready again at once; who wants to choose who goes on next polls it
//! inside [`observe`].

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// How long code runs before others get a turn.
pub const SLICE: Duration = Duration::from_micros(200);

thread_local! {
    /// Whether the poll that is observed has ended with a slice; `None` when nobody observes.
    static ENDED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Polls once. The second answer says that code has used its slice: nobody was asked to wake the task then, so the caller polls it again when it is to
/// go on. Nothing that polls only what was woken may stand between.
pub fn observe<T>(poll: impl FnOnce() -> T) -> (T, bool) {
    let before = ENDED.replace(Some(false));
    let polled = poll();
    (polled, ENDED.replace(before) == Some(true))
}

/// The end of a slice: pending once.
#[derive(Default)]
pub(crate) struct SliceEnd(bool);

impl Future for SliceEnd {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        if ENDED.get().is_some() {
            ENDED.set(Some(true));
        } else {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        task::{Wake, Waker},
    };

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_observes_hears_of_the_end_of_a_slice_and_nobody_is_woken() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut end = pin!(SliceEnd::default());
        assert_eq!(observe(|| end.as_mut().poll(&mut context)), (Poll::Pending, true));
        assert!(!woken.0.load(Ordering::SeqCst));
        assert_eq!(observe(|| end.as_mut().poll(&mut context)), (Poll::Ready(()), false));
    }

    #[test]
    fn with_a_plain_executor_code_is_ready_again_at_once() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        assert_eq!(pin!(SliceEnd::default()).poll(&mut Context::from_waker(&waker)), Poll::Pending);
        assert!(woken.0.load(Ordering::SeqCst));
    }
}
