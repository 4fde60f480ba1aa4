//! The operator's share: reports become status, pods that are gone lose their placements, deleted sessions go.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dormouse_gateway::{
    directory::{KernelPod, Key, Record},
    kernels::{Kernels, assignment, stored},
};
use dormouse_protocol::kernel::{ReportLine, SessionReport, StoredStatus};
use dormouse_service::Clock;
use futures::{FutureExt as _, StreamExt as _};
use tokio::time::sleep;

use crate::status::Status;

/// How far status is behind what pods report.
const REPORT_LAG: Duration = Duration::from_millis(700);

/// How soon those are asked again who could not tell what is stored.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How long after a placement was cleared what is stored is read again: the real operator's times.
const READ_AFTER: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(300)];

/// How long it takes to notice that a pod is gone.
const NOTICE: Duration = Duration::from_secs(4);

#[derive(Clone)]
pub struct Operator {
    pub status: Status,
    pub kernels: Kernels,
    pub clock: Clock,
    /// While this is so, what pods report is lost.
    pub deaf: Arc<AtomicBool>,
}

impl Operator {
    /// Follows a pod's reports for ever.
    pub fn follow(&self, pod: KernelPod, boot: Arc<str>) {
        let this = self.clone();
        tokio::spawn(async move {
            loop {
                if let Ok(mut lines) = this.kernels.report(&pod).await {
                    while let Some(Ok(first)) = lines.next().await {
                        sleep(REPORT_LAG).await;
                        // What has come meanwhile is written together.
                        let mut news = vec![first];
                        while let Some(Some(Ok(next))) = lines.next().now_or_never() {
                            news.push(next);
                        }
                        for line in news.into_iter().filter(|_| !this.deaf.load(Ordering::SeqCst)) {
                            match line {
                                ReportLine::Session(report) => this.apply(&boot, &report),
                                ReportLine::Forgotten { uid, epoch } => this.forgotten(&uid, epoch),
                                _ => {}
                            }
                        }
                    }
                }
                if !this.status.pods().contains(&pod) {
                    return;
                }
                sleep(Duration::from_millis(500)).await;
            }
        });
    }

    fn apply(&self, boot: &str, report: &SessionReport) {
        let key = Key::new(&report.namespace, &report.name);
        let now = self.clock.now();
        let _ = self.status.change(&key, |record| {
            let placement = record.status.placement.as_ref();
            if record.uid == report.uid && placement.is_some_and(|it| it.epoch == report.epoch && it.boot == boot) {
                record.reported(report, now);
            }
            Ok(())
        });
    }

    fn forgotten(&self, uid: &str, epoch: u64) {
        for key in self.status.keys() {
            if self.status.get(&key).is_some_and(|record| record.uid == uid) {
                self.lose(&key, |placed| placed == epoch, None);
            }
        }
    }

    fn lose(&self, key: &Key, which: impl Fn(u64) -> bool, stored: Option<StoredStatus>) {
        let now = self.clock.now();
        let _ = self.status.change(key, |record| {
            if record.status.placement.as_ref().is_some_and(|placement| which(placement.epoch)) {
                record.lost(stored.as_ref(), now);
            }
            Ok(())
        });
    }

    /// Takes a session's process for gone, whether that is right or not: its placement is cleared once somebody has read what it stored.
    pub fn clear(&self, key: &Key) {
        let (this, key) = (self.clone(), key.clone());
        tokio::spawn(async move {
            let Some(record) = this.status.get(&key) else { return };
            let Some(epoch) = record.status.placement.as_ref().map(|placement| placement.epoch) else { return };
            let stored = this.stored(&record).await;
            this.lose(&key, |placed| placed == epoch, stored);
            // Whoever has the session under this epoch may live, and be sent one more cell by a gateway that is behind.
            let mut waited = Duration::ZERO;
            for after in READ_AFTER {
                sleep(after - waited).await;
                waited = after;
                let Some(record) = this.status.get(&key).filter(|it| it.uid == record.uid && it.status.placement.is_none()) else { return };
                let stored = this.stored(&record).await;
                let time = this.clock.now();
                let _ = this.status.change(&key, |now| {
                    if now.uid == record.uid
                        && now.status.placement.is_none()
                        && let Some(stored) = &stored
                    {
                        now.stored(stored, time);
                    }
                    Ok(())
                });
            }
        });
    }

    /// What is stored of a session, asked of any pod until one tells. `None`: status knows of nothing.
    async fn stored(&self, record: &Record) -> Option<StoredStatus> {
        record.status.snapshot.as_ref()?;
        loop {
            for pod in self.status.pods() {
                if let Ok(stored) = self.kernels.stored_status(&pod, &stored(record)).await {
                    return Some(stored);
                }
            }
            sleep(ASK_AGAIN).await;
        }
    }

    /// Notices, in a while, that a pod is gone.
    pub fn pod_gone(&self, uid: &str) {
        let (this, uid) = (self.clone(), uid.to_owned());
        tokio::spawn(async move {
            sleep(NOTICE).await;
            this.drop_pod(&uid);
        });
    }

    /// Notices it now.
    pub fn drop_pod(&self, uid: &str) {
        self.status.set_pods(|pods| pods.retain(|pod| pod.uid != uid));
        for key in self.status.keys() {
            let placed = self.status.get(&key).and_then(|record| record.status.placement);
            if placed.is_some_and(|placement| placement.pod_uid == uid) {
                self.clear(&key);
            }
        }
    }

    /// Finishes deletions, for ever.
    pub fn finish_deletions(&self, store: impl dormouse_store::SnapshotStore + Clone + 'static) {
        let this = self.clone();
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(500)).await;
                for key in this.status.keys() {
                    let Some(record) = this.status.get(&key).filter(|record| record.deleting) else { continue };
                    let placed = record.status.placement.as_ref();
                    let pod = placed.and_then(|it| this.status.pods().into_iter().find(|pod| pod.uid == it.pod_uid));
                    if let (Some(pod), Some(placement)) = (pod, placed) {
                        let forgotten = this.kernels.forget(&pod, &assignment(&record, placement)).await;
                        drop(forgotten);
                    }
                    let session = crate::world::session_key(&record.uid, &key.name);
                    if dormouse_erasure::erase(&store, &session).await.is_ok() {
                        this.status.remove(&key);
                    }
                }
            }
        });
    }
}
