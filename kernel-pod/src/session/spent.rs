//! What cells use, counted in the session's record: whatever a commit stores of a cell, it stores with what that took.

use std::time::Duration;

use dormouse_lifecycle::usage::Counts;

use super::actor::Actor;
use super::phase::Live;
use crate::usage::day;

impl Live {
    /// Counts what the running cell used; of what runs without one, nobody's key says.
    pub(super) fn spend(&mut self, used: Counts) {
        let key = self.state.running.as_ref().and_then(|running| running.request.api_key.clone()).unwrap_or_default();
        self.spend_under(&key, used);
    }

    /// The same under a key.
    pub(super) fn spend_under(&mut self, key: &str, used: Counts) {
        let used = Counts { hour: Counts::hour_of(self.clock.now_ms()), hour_cpu_us: used.cpu_us, ..used };
        self.state.usage.add(&day(self.clock.now()), key, &used);
        self.uncommitted.add(&used);
    }

    /// Counts running code.
    pub(super) fn spend_cpu(&mut self, cpu: Duration) {
        self.spend(Counts { cpu_us: u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX), ..Counts::default() });
    }

    /// Counts bytes that calls sent or got.
    pub(super) fn spend_egress(&mut self, bytes: usize) {
        self.spend(Counts { egress_bytes: bytes as u64, ..Counts::default() });
    }
}

impl Actor {
    /// Tells what the session has used by the commit that is stored now.
    pub(super) fn tell_usage(&mut self) {
        let Some(live) = self.phase.live_mut() else { return };
        let new = std::mem::take(&mut live.uncommitted);
        let stored_bytes = live.owned.head.as_ref().map_or(0, |head| head.snapshot_bytes());
        live.heap_time.is(live.instance.heap_bytes());
        let (uid, name) = (&self.assignment.uid, &self.assignment.name);
        self.host.meter.committed(&self.host.storage, uid, name, &live.state.usage, stored_bytes, &new);
    }
}
