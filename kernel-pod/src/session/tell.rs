//! What others see of a session: reports and events.

use std::sync::Arc;

use dormouse_engine::{Outlet, Output};
use dormouse_protocol::event::EventBody;
use dormouse_protocol::kernel::SessionReport;
use dormouse_protocol::session::State;

use super::actor::{Actor, Live};
use crate::stored;

impl Actor {
    /// Tells the operator, and the session's followers if the state is a new one.
    pub(super) fn tell(&mut self) {
        // What is only claimed is nobody's business yet.
        if self.claim.is_some() {
            return;
        }
        if self.live.is_none() && self.told.is_none() && self.failure.is_none() && !self.waking {
            // A task that was started for a reader knows nothing of the session yet.
            return;
        }
        let report = self.report();
        if self.told.as_ref() == Some(&report) {
            return;
        }
        if self.told_state != Some(report.state) {
            self.told_state = Some(report.state);
            self.show_runs();
            self.publish(EventBody::State { state: report.state });
        }
        self.told = Some(report.clone());
        self.pod.reports.session(report);
        self.pod.metrics.live(self.pod.slots.used());
    }

    /// Appends to the event log, and to the streams of those who wait for the running cell.
    pub(super) fn publish(&self, body: EventBody) {
        let event = self.handle.control.events.publish(body);
        for waiter in self.current.iter().flat_map(|job| &job.waiters) {
            if let Some(stream) = &waiter.stream {
                let _ = stream.send(event.clone());
            }
        }
    }

    /// Who publishes output while code runs: it is shown before the commit that holds what the code did, and once more if the cell must run again.
    pub(super) fn outlet(&self) -> Outlet {
        let control = Arc::clone(&self.handle.control);
        let streams: Vec<_> = self.current.iter().flat_map(|job| &job.waiters).filter_map(|waiter| waiter.stream.clone()).collect();
        Box::new(move |output| {
            let body = match output {
                Output::Console(line) => EventBody::Log { level: line.level.clone(), text: line.text.clone() },
                Output::Display(it) => EventBody::Display { mime_type: it.mime_type.clone(), data: it.data.clone() },
            };
            let event = control.events.publish(body);
            for stream in &streams {
                let _ = stream.send(event.clone());
            }
        })
    }

    /// Keeps what a report of the sleeping session will say.
    pub(super) fn remember(&mut self, live: &Live) {
        self.told = Some(self.live_report(live));
    }

    /// The session as it is now.
    pub(super) fn report(&self) -> SessionReport {
        let mut report = match (&self.live, &self.told) {
            (Some(live), _) => self.live_report(live),
            (None, Some(told)) => told.clone(),
            (None, None) => self.unknown_report(),
        };
        report.epoch = self.assignment.epoch;
        report.generation = self.assignment.generation;
        report.failure = self.failure.clone();
        report.state = self.state(report.snapshot.is_some());
        report
    }

    fn state(&self, stored: bool) -> State {
        let Some(live) = &self.live else {
            return match (&self.failure, self.waking) {
                (Some(_), _) => State::Failed,
                (None, true) => State::Waking,
                (None, false) if stored => State::Hibernated,
                (None, false) => State::Waking,
            };
        };
        match &live.state.running {
            Some(_) if self.executing || !live.state.awaits_tool() => State::Running,
            Some(_) => State::WaitingForTool,
            None => State::Idle,
        }
    }

    fn live_report(&self, live: &Live) -> SessionReport {
        let timer = live.state.next_timer_ms().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let next_wake = timer.into_iter().chain(live.state.run_due()).min();
        SessionReport {
            heap_bytes: live.instance.heap_bytes(),
            snapshot: live.owned.head.as_deref().map(stored::snapshot),
            last_active_time: live.state.last_active.clone(),
            next_wake_time: next_wake.map(|time| time.to_string()),
            cells: live.state.cells,
            tool_calls: live.state.calls,
            ..self.unknown_report()
        }
    }

    fn unknown_report(&self) -> SessionReport {
        SessionReport {
            namespace: self.assignment.namespace.clone(),
            name: self.assignment.name.clone(),
            uid: self.assignment.uid.clone(),
            epoch: self.assignment.epoch,
            state: State::Waking,
            failure: None,
            generation: self.assignment.generation,
            heap_bytes: 0,
            snapshot: None,
            last_active_time: None,
            next_wake_time: None,
            cells: 0,
            tool_calls: 0,
        }
    }
}
