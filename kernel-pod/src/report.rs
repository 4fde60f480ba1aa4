//! What the operator follows: every session of this pod, then each change.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dormouse_protocol::kernel::{PodInfo, ReportLine, SessionReport};
use futures::Stream;
use tokio::sync::broadcast;

/// Quiet time after which a stream says that it is alive.
const ALIVE_INTERVAL: Duration = Duration::from_secs(5);

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

    /// Tells that a session waits for a slot.
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
    let state = (reports, info, std::collections::VecDeque::from(lines), receiver);
    futures::stream::unfold(state, |(reports, info, mut queue, mut receiver)| async move {
        if let Some(line) = queue.pop_front() {
            return Some((line, (reports, info, queue, receiver)));
        }
        let line = match tokio::time::timeout(ALIVE_INTERVAL, receiver.recv()).await {
            Err(_quiet) => ReportLine::Alive,
            Ok(Ok(line)) => line,
            Ok(Err(broadcast::error::RecvError::Closed)) => return None,
            Ok(Err(broadcast::error::RecvError::Lagged(_))) => {
                let (lines, fresh) = reports.picture(info());
                queue = lines.into();
                receiver = fresh;
                queue.pop_front()?
            }
        };
        Some((line, (reports, info, queue, receiver)))
    })
}
