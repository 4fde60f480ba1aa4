//! What the operator follows: every session of this pod, then each change.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dormouse_protocol::kernel::{PodInfo, ReportLine, SessionReport};
use dormouse_protocol::session::State;
use futures::Stream;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Quiet time after which a stream says that it is alive.
const ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// How long the report of a session that is merely busy waits for one that makes it old: a short cell's beginning and its end are one line, and a
/// session that never rests has so many lines a second at most, whatever it does.
const BUSY_DELAY: Duration = Duration::from_millis(20);

/// Changes that a slow reader may lag behind; beyond that it gets the whole picture again.
const READER_LINES_MAX: usize = 4096;

/// The last report of every session here, and those who read on.
#[derive(Debug)]
pub(crate) struct Reports {
    last: Mutex<Last>,
    lines: broadcast::Sender<ReportLine>,
}

#[derive(Debug, Default)]
struct Last {
    sessions: BTreeMap<String, SessionReport>,
    /// Whether nothing follows.
    drained: bool,
}

impl Reports {
    /// No sessions yet.
    pub(crate) fn new() -> Self {
        Self { last: Mutex::default(), lines: broadcast::channel(READER_LINES_MAX).0 }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a session's state, if it differs from what was told last.
    pub(crate) fn session(&self, report: SessionReport) {
        let mut last = self.lock();
        if last.sessions.get(&report.uid) == Some(&report) {
            return;
        }
        last.sessions.insert(report.uid.clone(), report.clone());
        let _ = self.lines.send(ReportLine::Session(Box::new(report)));
    }

    /// Tells that nothing of the session is here any more.
    pub(crate) fn forgotten(&self, uid: &str, epoch: u64) {
        let mut last = self.lock();
        last.sessions.remove(uid);
        let _ = self.lines.send(ReportLine::Forgotten { uid: uid.to_owned(), epoch });
    }

    /// What was told of a session last.
    pub(crate) fn get(&self, uid: &str) -> Option<SessionReport> {
        self.lock().sessions.get(uid).cloned()
    }

    /// Tells that a session waits for a slot, or for memory.
    pub(crate) fn waiting(&self, uid: &str) {
        let _ = self.lines.send(ReportLine::Waiting { uid: uid.to_owned() });
    }

    /// Tells what the pod is.
    pub(crate) fn pod(&self, info: PodInfo) {
        let _ = self.lines.send(ReportLine::Pod(info));
    }

    /// Tells that nothing follows: every session is stored, and none is taken.
    pub(crate) fn drained(&self) {
        let mut last = self.lock();
        last.drained = true;
        let _ = self.lines.send(ReportLine::Drained);
    }

    fn picture(&self, info: PodInfo) -> (Vec<ReportLine>, broadcast::Receiver<ReportLine>) {
        let last = self.lock();
        let mut lines = vec![ReportLine::Picture, ReportLine::Pod(info)];
        lines.extend(last.sessions.values().map(|report| ReportLine::Session(Box::new(report.clone()))));
        lines.push(ReportLine::Complete);
        lines.extend(last.drained.then_some(ReportLine::Drained));
        (lines, self.lines.subscribe())
    }
}

/// The stream of `GET /v1/report`: the whole picture, then changes, with signs of life between. `info` says what the pod is at the moment.
pub(crate) fn stream(
    reports: std::sync::Arc<Reports>,
    info: impl Fn() -> PodInfo + Send + 'static,
) -> impl Stream<Item = ReportLine> + Send + 'static {
    let (lines, receiver) = reports.picture(info());
    let reader = Reader { reports, info, receiver, queue: lines.into(), busy: BTreeMap::new(), busy_due: None };
    futures::stream::unfold(reader, |mut reader| async move { Some((reader.next().await?, reader)) })
}

/// One who reads on.
struct Reader<I> {
    reports: std::sync::Arc<Reports>,
    info: I,
    receiver: broadcast::Receiver<ReportLine>,
    /// What is told next.
    queue: VecDeque<ReportLine>,
    /// The last report of each session of which there may soon be a newer one, and when they are told.
    busy: BTreeMap<String, Box<SessionReport>>,
    busy_due: Option<Instant>,
}

impl<I: Fn() -> PodInfo> Reader<I> {
    async fn next(&mut self) -> Option<ReportLine> {
        loop {
            if let Some(line) = self.queue.pop_front() {
                return Some(line);
            }
            let now = Instant::now();
            if self.busy_due.is_some_and(|due| due <= now) {
                self.tell_busy();
                continue;
            }
            let until = self.busy_due.unwrap_or(now + ALIVE_INTERVAL);
            match tokio::time::timeout_at(until, self.receiver.recv()).await {
                Err(_quiet) if self.busy_due.is_some() => self.tell_busy(),
                Err(_quiet) => return Some(ReportLine::Alive),
                Ok(Ok(line)) => self.take(line),
                Ok(Err(broadcast::error::RecvError::Closed)) => return None,
                Ok(Err(broadcast::error::RecvError::Lagged(_))) => {
                    let (lines, fresh) = self.reports.picture((self.info)());
                    (self.queue, self.receiver, self.busy, self.busy_due) = (lines.into(), fresh, BTreeMap::new(), None);
                }
            }
        }
    }

    fn take(&mut self, line: ReportLine) {
        match line {
            ReportLine::Session(report) if is_busy(&report) => {
                self.busy_due.get_or_insert_with(|| Instant::now() + BUSY_DELAY);
                self.busy.insert(report.uid.clone(), report);
            }
            ReportLine::Session(report) => {
                // Older than this one.
                self.busy.remove(&report.uid);
                self.queue.push_back(ReportLine::Session(report));
            }
            // Whatever it is, it is told after what was before it.
            line => {
                self.tell_busy();
                self.queue.push_back(line);
            }
        }
    }

    fn tell_busy(&mut self) {
        self.queue.extend(std::mem::take(&mut self.busy).into_values().map(ReportLine::Session));
        self.busy_due = None;
    }
}

/// Whether all that the report says is how busy the session is.
fn is_busy(report: &SessionReport) -> bool {
    matches!(report.state, State::Running | State::Idle) && report.next_wake_time.is_none()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::StreamExt as _;

    use super::*;

    fn report(uid: &str, state: State, cells: u64) -> SessionReport {
        let plain = serde_json::json!({"namespace": "team", "name": uid, "uid": uid, "epoch": 1, "state": state, "holdsSlot": true, "generation": 1,
            "heapBytes": 0, "cells": cells, "toolCalls": 0});
        serde_json::from_value(plain).unwrap()
    }

    fn info() -> PodInfo {
        serde_json::from_value(serde_json::json!({"pod": "p", "namespace": "team", "pool": "default", "boot": "b", "slots": 1, "used": 0,
            "engineDigest": "e", "draining": false}))
        .unwrap()
    }

    /// What a reader hears behind the picture, as the session and its cells.
    async fn heard(stream: &mut (impl Stream<Item = ReportLine> + Unpin), lines: usize) -> Vec<String> {
        let mut heard = Vec::new();
        while heard.len() < lines {
            heard.push(match stream.next().await.unwrap() {
                ReportLine::Session(report) => format!("{} {} {}", report.uid, report.state, report.cells),
                ReportLine::Forgotten { uid, .. } => format!("{uid} forgotten"),
                ReportLine::Drained => "drained".to_owned(),
                ReportLine::Alive => "alive".to_owned(),
                ReportLine::Picture | ReportLine::Pod(_) | ReportLine::Complete => continue,
                other => panic!("{other:?}"),
            });
        }
        heard
    }

    async fn reader(reports: &Arc<Reports>) -> impl Stream<Item = ReportLine> + Unpin {
        let mut stream = Box::pin(stream(Arc::clone(reports), info));
        for _ in 0..3 {
            stream.next().await.unwrap();
        }
        stream
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_cell_is_one_line() {
        let reports = Arc::new(Reports::new());
        let mut stream = reader(&reports).await;
        let began = Instant::now();
        for (state, cells) in [(State::Running, 0), (State::Idle, 1), (State::Running, 1), (State::Idle, 2)] {
            reports.session(report("a", state, cells));
        }
        reports.session(report("b", State::Running, 7));
        assert_eq!(heard(&mut stream, 2).await, ["a Idle 2", "b Running 7"]);
        assert_eq!(began.elapsed(), BUSY_DELAY);
        assert_eq!(heard(&mut stream, 1).await, ["alive"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_more_than_busy_is_told_at_once_and_in_its_order() {
        let reports = Arc::new(Reports::new());
        let mut stream = reader(&reports).await;
        let began = Instant::now();
        reports.session(report("a", State::Running, 1));
        reports.session(report("b", State::Idle, 1));
        reports.session(report("a", State::Hibernated, 2));
        reports.forgotten("b", 1);
        reports.session(report("c", State::Idle, 1));
        reports.drained();
        assert_eq!(heard(&mut stream, 5).await, ["a Hibernated 2", "b Idle 1", "b forgotten", "c Idle 1", "drained"]);
        let timed = SessionReport { next_wake_time: Some("2026-01-02T00:00:00Z".to_owned()), ..report("d", State::Idle, 1) };
        reports.session(timed);
        assert_eq!(heard(&mut stream, 1).await, ["d Idle 1"]);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_rests_is_told_of_as_often() {
        let reports = Arc::new(Reports::new());
        let mut stream = reader(&reports).await;
        let busy = Arc::clone(&reports);
        tokio::spawn(async move {
            for cells in 0.. {
                busy.session(report("a", State::Idle, cells));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let began = Instant::now();
        heard(&mut stream, 10).await;
        assert!(began.elapsed() <= BUSY_DELAY * 11, "{:?}", began.elapsed());
        assert!(began.elapsed() >= BUSY_DELAY * 10, "{:?}", began.elapsed());
    }
}
