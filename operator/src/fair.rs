//! Turns by namespace: of the work that runs at the same time, one namespace has a part only. Whatever hangs there, in its pods or its store, holds
//! up nobody else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dormouse_control::writes::{AGAIN_AFTER, AGAIN_AFTER_MAX};

/// Who has a turn.
#[derive(Debug, Clone)]
pub struct Fair {
    each_max: usize,
    namespaces: Arc<Mutex<HashMap<String, Share>>>,
}

#[derive(Debug, Default)]
struct Share {
    running: usize,
    /// Turns that were refused since the last one was free.
    refused: usize,
}

/// A turn; ends when dropped.
#[derive(Debug)]
pub struct Turn {
    fair: Fair,
    namespace: String,
}

impl Fair {
    /// At most `each_max` turns of one namespace at a time.
    #[must_use]
    pub fn new(each_max: usize) -> Self {
        Self { each_max, namespaces: Arc::default() }
    }

    fn with<T>(&self, f: impl FnOnce(&mut HashMap<String, Share>) -> T) -> T {
        f(&mut self.namespaces.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A turn for the namespace.
    ///
    /// # Errors
    /// It has as many as it may: how long to wait before the next try. The more wait, the longer, so that waiting costs little.
    pub fn take(&self, namespace: &str) -> Result<Turn, Duration> {
        self.with(|namespaces| {
            let share = namespaces.entry(namespace.to_owned()).or_default();
            if share.running >= self.each_max {
                share.refused += 1;
                let rounds = u32::try_from(share.refused.div_ceil(self.each_max)).unwrap_or(u32::MAX);
                return Err(AGAIN_AFTER.saturating_mul(rounds).min(AGAIN_AFTER_MAX));
            }
            share.running += 1;
            Ok(Turn { fair: self.clone(), namespace: namespace.to_owned() })
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.fair.with(|namespaces| {
            let Some(share) = namespaces.get_mut(&self.namespace) else { return };
            share.running -= 1;
            share.refused = share.refused.saturating_sub(1);
            if share.running == 0 {
                namespaces.remove(&self.namespace);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_has_all_its_turns_takes_none_of_anothers() {
        let fair = Fair::new(2);
        let hanging = [fair.take("slow").unwrap(), fair.take("slow").unwrap()];
        assert_eq!(fair.take("slow").unwrap_err(), AGAIN_AFTER);
        assert!(fair.take("other").is_ok());
        drop(hanging);
        assert!(fair.take("slow").is_ok());
        assert!(fair.with(|namespaces| namespaces.is_empty()), "nothing is kept of who is at rest");
    }

    #[test]
    fn the_more_wait_the_less_often_they_ask() {
        let fair = Fair::new(1);
        let _hanging = fair.take("slow").unwrap();
        let waits: Vec<_> = (0..1_000).map(|_| fair.take("slow").unwrap_err()).collect();
        assert!(waits.is_sorted() && waits.last() == Some(&AGAIN_AFTER_MAX));
    }
}
