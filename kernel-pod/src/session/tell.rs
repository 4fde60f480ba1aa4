//! What others see of a session: reports and events.

use std::sync::Arc;

use dormouse_engine::{Outlet, Output};
use dormouse_lifecycle::runs::run_id;
use dormouse_protocol::broker::WaitsFor;
use dormouse_protocol::event::{Event, EventBody};
use dormouse_protocol::kernel::SessionReport;
use dormouse_protocol::run::Progress;
use dormouse_protocol::session::State;

use super::Waiter;
use super::actor::Actor;
use super::phase::{Live, Phase};
use crate::stored;

impl Actor {
    /// Tells the operator.
    pub(super) fn tell(&mut self) {
        self.tell_as(self.report());
    }

    /// The same, while code is about to run.
    pub(super) fn tell_in_turn(&mut self) {
        let mut report = self.report();
        if self.phase.live().is_some_and(|live| live.state.running.is_some()) {
            report.state = State::Running;
        }
        self.show_state(report.state);
        self.tell_as(report);
    }

    fn tell_as(&mut self, report: SessionReport) {
        // What is only claimed is nobody's business yet, nor what is not here any more.
        if self.claim.is_some() || self.phase.is_leaving() {
            return;
        }
        if matches!(self.phase, Phase::Asleep(_)) && self.reported.is_none() {
            // A task that was started for a reader knows nothing of the session yet.
            return;
        }
        if self.reported.as_ref() == Some(&report) {
            return;
        }
        if self.published != Some(report.state) {
            self.published = Some(report.state);
            if report.state == State::Failed {
                self.announce_failure(report.failure.as_ref());
            }
            self.show_runs();
        }
        self.reported = Some(report.clone());
        self.host.reports.session(report);
        self.host.metrics.live(self.host.slots.used());
    }

    /// Puts an event into the next commit, and shows it to those who wait for the running cell. Answers its number.
    pub(super) fn show(&self, body: EventBody) -> u64 {
        let Some(live) = self.phase.live() else { return 0 };
        let event = live.events.push(body);
        let seq = event.seq;
        self.show_waiters(&event);
        seq
    }

    /// The same of the session's state, if that is a new one.
    pub(super) fn show_state(&self, state: State) {
        if let Some(event) = self.phase.live().and_then(|live| live.events.push_state(state)) {
            self.show_waiters(&event);
        }
    }

    /// Shows an event to those who wait for the running cell, and to nobody else.
    pub(super) fn show_waiters(&self, event: &Event) {
        if let Some(job) = &self.current {
            job.show(event);
        }
    }

    /// Lets others wait for the running cell, too: they see what of it waits to be stored, and what comes. The rest they can read.
    pub(super) fn join(&mut self, waiters: Vec<Waiter>) {
        let mut streams = waiters.iter().filter_map(|waiter| waiter.stream.as_ref()).peekable();
        if streams.peek().is_some() {
            let waiting = self.phase.live().map(|live| live.events.under_way()).unwrap_or_default();
            for stream in streams {
                for event in &waiting {
                    let _ = stream.send(event.clone());
                }
            }
        }
        if let Some(current) = &mut self.current {
            current.waiters.extend(waiters);
        }
    }

    /// Who shows output while code runs: those who sent the cell see it before the commit that holds what the code did, and once more if the cell must
    /// run again.
    pub(super) fn outlet(&self) -> Outlet {
        let waiting = self.phase.live().map(|live| live.events.clone());
        let cell = self.phase.live().and_then(|live| live.state.running.as_ref());
        let key = cell.and_then(|cell| cell.request.idempotency_key.clone());
        let control = Arc::clone(&self.handle.control);
        let streams: Vec<_> = self.current.iter().flat_map(|job| &job.waiters).filter_map(|waiter| waiter.stream.clone()).collect();
        Box::new(move |output| {
            let body = match output {
                Output::Console(line) => EventBody::Log { level: line.level.clone(), text: line.text.clone() },
                Output::Progress(it) => {
                    if let Some(key) = &key {
                        control.set_progress(Some((run_id(key), Progress { fraction: it.fraction, note: it.note.clone() })));
                    }
                    EventBody::Progress { fraction: it.fraction, note: it.note.clone() }
                }
                Output::Display(it) => EventBody::Display { mime_type: it.mime_type.clone(), data: it.data.clone() },
            };
            let Some(event) = waiting.as_ref().map(|waiting| waiting.push(body)) else { return };
            for stream in &streams {
                let _ = stream.send(event.clone());
            }
        })
    }

    /// Keeps what a report of the sleeping session will say.
    pub(super) fn remember(&mut self, live: &Live) {
        self.reported = Some(self.live_report(live));
    }

    /// The session as it is now.
    pub(super) fn report(&self) -> SessionReport {
        let mut report = match (self.phase.live(), &self.reported) {
            (Some(live), _) => self.live_report(live),
            (None, Some(reported)) => reported.clone(),
            (None, None) => self.unknown_report(),
        };
        report.epoch = self.assignment.epoch;
        report.generation = self.assignment.generation;
        report.failure = self.phase.failure().map(|failure| failure.error.clone());
        report.state = self.state(report.snapshot.is_some());
        report.holds_slot = matches!(self.phase, Phase::Live(_) | Phase::Waking(_));
        report
    }

    pub(super) fn state(&self, stored: bool) -> State {
        match &self.phase {
            Phase::Failed(..) => State::Failed,
            Phase::Waking(_) => State::Waking,
            Phase::Asleep(_) | Phase::Leaving(_) if stored => State::Hibernated,
            Phase::Asleep(_) | Phase::Leaving(_) => State::Waking,
            Phase::Live(live) => match &live.state.running {
                _ if live.state.awaits_approval() => State::WaitingForApproval,
                Some(_) if live.state.awaits_tool() => State::WaitingForTool,
                Some(_) => State::Running,
                None => State::Idle,
            },
        }
    }

    fn live_report(&self, live: &Live) -> SessionReport {
        let stored_at = live.owned.head.as_deref().map_or("", |head| &head.time);
        let next_wake = live.state.needed_at(stored_at);
        let waiting = |whom| {
            let waits = live.state.parked().filter(|parked| parked.waits_for == whom);
            u32::try_from(waits.count()).unwrap_or(u32::MAX)
        };
        SessionReport {
            heap_bytes: live.instance.heap_bytes(),
            snapshot: live.owned.head.as_deref().map(stored::snapshot),
            last_active_time: live.state.last_active.clone(),
            next_wake_time: next_wake.map(|time| time.to_string()),
            cells: live.state.cells,
            tool_calls: live.state.calls,
            approvals: waiting(WaitsFor::Person),
            jobs: waiting(WaitsFor::Runner),
            hostcalls: waiting(WaitsFor::Client),
            mcp_tools: u32::try_from(live.state.mcp.tools.len()).unwrap_or(u32::MAX),
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
            holds_slot: false,
            failure: None,
            generation: self.assignment.generation,
            heap_bytes: 0,
            snapshot: None,
            last_active_time: None,
            next_wake_time: None,
            cells: 0,
            tool_calls: 0,
            approvals: 0,
            jobs: 0,
            hostcalls: 0,
            mcp_tools: 0,
        }
    }
}
