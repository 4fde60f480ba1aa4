//! Permits to run, and who waits for one: the least served is next.
//!
//! Service is compared as in a fair queue (CFS of Linux calls it virtual runtime): who begins to wait has been served at least as much as whoever got the
//! last permit, so that nobody who comes late or has rested keeps the others waiting for longer than a slice each.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

/// A number of permits.
#[derive(Debug)]
pub(super) struct Permits(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// By what they have been served, and by when they came. No more than there are sessions.
    waiting: BTreeMap<(Duration, u64), oneshot::Sender<Permit>>,
    came: u64,
    /// What whoever got the last permit had been served.
    floor: Duration,
}

/// One permit. Dropping it gives it to the next.
#[derive(Debug)]
pub(super) struct Permit(Arc<Permits>);

impl Permits {
    pub(super) fn new(free: usize) -> Self {
        Self(Mutex::new(State { free, waiting: BTreeMap::new(), came: 0, floor: Duration::ZERO }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit, if one is free; then nobody waits. `served` is raised to the floor.
    pub(super) fn try_take(this: &Arc<Self>, served: &mut Duration) -> Option<Permit> {
        let mut state = this.lock();
        *served = state.floor.max(*served);
        state.free = state.free.checked_sub(1)?;
        state.floor = *served;
        drop(state);
        Some(Permit(Arc::clone(this)))
    }

    /// Waits for a permit. `served` is raised to the floor.
    pub(super) async fn take(this: &Arc<Self>, served: &mut Duration) -> Permit {
        loop {
            if let Some(permit) = Self::try_take(this, served) {
                return permit;
            }
            let (sender, permit) = oneshot::channel();
            {
                let mut state = this.lock();
                if state.free > 0 {
                    continue;
                }
                state.came += 1;
                let key = (*served, state.came);
                state.waiting.insert(key, sender);
            }
            if let Ok(permit) = permit.await {
                return permit;
            }
        }
    }

    /// Whether somebody who waits has been served less.
    pub(super) fn should_give_way(&self, served: Duration) -> bool {
        self.lock().waiting.first_key_value().is_some_and(|((least, _), _)| *least < served)
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        while let Some(((served, _), next)) = state.waiting.pop_first() {
            // Who has gone away meanwhile is passed over. Not under the lock: sending wakes, and what is not taken comes back here.
            if next.is_closed() {
                continue;
            }
            state.floor = state.floor.max(served);
            drop(state);
            drop(next.send(Self(Arc::clone(&self.0))));
            return;
        }
        state.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future as _,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_least_served_is_next_and_first_come_first_served_among_equals() {
        let permits = Arc::new(Permits::new(1));
        let mut served = Duration::ZERO;
        let held = Permits::try_take(&permits, &mut served).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let (mut much, mut little, mut late) = (3 * MS, 2 * MS, 2 * MS);
        let mut much = pin!(Permits::take(&permits, &mut much));
        let mut little = pin!(Permits::take(&permits, &mut little));
        let mut late = pin!(Permits::take(&permits, &mut late));
        assert!(much.as_mut().poll(&mut context).is_pending());
        assert!(little.as_mut().poll(&mut context).is_pending());
        assert!(late.as_mut().poll(&mut context).is_pending());
        assert!(permits.should_give_way(3 * MS) && !permits.should_give_way(2 * MS));
        drop(held);
        assert!(much.as_mut().poll(&mut context).is_pending() && late.as_mut().poll(&mut context).is_pending());
        let Poll::Ready(held) = little.as_mut().poll(&mut context) else { panic!("the least served waits on") };
        drop(held);
        let Poll::Ready(held) = late.as_mut().poll(&mut context) else { panic!("its equal waits on") };
        drop(held);
        assert!(much.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn who_has_rested_has_no_turns_saved_up() {
        let permits = Arc::new(Permits::new(1));
        drop(Permits::try_take(&permits, &mut (9 * MS)).unwrap());
        let mut rested = MS;
        drop(Permits::try_take(&permits, &mut rested).unwrap());
        assert_eq!(rested, 9 * MS);
    }

    #[test]
    fn a_permit_that_was_given_to_somebody_who_has_gone_goes_to_the_next() {
        let permits = Arc::new(Permits::new(1));
        let mut served = Duration::ZERO;
        let held = Permits::try_take(&permits, &mut served).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let (mut one, mut two, mut three) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let mut gone = Box::pin(Permits::take(&permits, &mut one));
        let mut given = Box::pin(Permits::take(&permits, &mut two));
        let mut waits = pin!(Permits::take(&permits, &mut three));
        assert!(gone.as_mut().poll(&mut context).is_pending() && given.as_mut().poll(&mut context).is_pending());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        drop(gone);
        drop(held);
        // The permit is under way to it.
        drop(given);
        assert!(waits.as_mut().poll(&mut context).is_ready());
        assert_eq!(permits.waiting(), 0);
    }
}
