//! What the kernel pods report: one stream a pod, followed as long as the pod exists.
//!
//! The [`crate::hub::Hub`] keeps the newest report of every session, and the session's reconciler is told.

use std::{collections::HashSet, sync::Arc, time::Duration};

use dormouse_crds::{
    labels::{COMPONENT, POOL},
    pool::KernelPool,
};
use dormouse_protocol::kernel::{KERNEL_PORT, PodInfo, ReportLine};
use dormouse_service::{
    answer::{AnswerError, read_json},
    tls::Identity,
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        reflector::{ObjectRef, store::Writer},
        watcher,
    },
};
use reqwest::Method;
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    hub::{Effect, PodView},
    pods::{ANSWER_BYTES_MAX, address_of, is_over},
    pool, trim,
};

/// A pod that says nothing for so long is not listening any more.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Between two attempts to reach a pod, first and last.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// Bytes of one report line: what a pod says is bounded before it is read.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Seconds that a pod may take to answer a question.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// Follows every kernel pod of this operator's namespaces until `shutdown`.
pub async fn run(context: Arc<Context>, writer: Writer<Pod>, shutdown: CancellationToken) {
    let config = watcher::Config::default().labels(&format!("{COMPONENT}=kernel"));
    let (scope, client) = (context.scope.clone(), context.client.clone());
    let pods = context.revisions.renewed(move || scope.watch::<Pod>(&client, config.clone()));
    let events = pods.modify(trim::pod).reflect(writer).take_until(shutdown.clone().cancelled_owned());
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(pod)) => {
                trigger_pool(&context, &pod.namespace().unwrap_or_default(), &pod).await;
                applied(&context, &pod, &shutdown).await;
            }
            // Pools are told once the list has ended: nobody sizes them before, and there may be more pods than the queue has places.
            Ok(watcher::Event::InitApply(pod)) => applied(&context, &pod, &shutdown).await,
            Ok(watcher::Event::Delete(pod)) => gone(&context, &pod.uid().unwrap_or_default()).await,
            Ok(watcher::Event::InitDone) => relisted(&context).await,
            Ok(watcher::Event::Init) => {}
            Err(error) => tracing::warn!(%error, "watch of kernel pods"),
        }
    }
}

async fn applied(context: &Arc<Context>, pod: &Pod, shutdown: &CancellationToken) {
    let (Some(uid), Some(namespace)) = (pod.uid(), pod.namespace()) else { return };
    if is_over(pod) {
        return gone(context, &uid).await;
    }
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty());
    let Some(ip) = address else { return };
    let stop = shutdown.child_token();
    let pool = pod.labels().get(POOL).cloned().unwrap_or_default();
    let view = PodView::new(namespace.clone(), pool.clone(), stop.clone());
    let new = context.hub.with(|views| match views.pods.entry(uid.clone()) {
        std::collections::hash_map::Entry::Occupied(_) => false,
        std::collections::hash_map::Entry::Vacant(entry) => {
            entry.insert(view);
            true
        }
    });
    if new {
        let peer = Identity::kernel(namespace, pool, pod.name_any());
        let follower = Follower { context: context.clone(), uid, peer, address: address_of(&ip, KERNEL_PORT), pod: pod.clone() };
        tokio::spawn(async move { stop.run_until_cancelled(follower.run()).await });
    }
}

async fn gone(context: &Context, uid: &str) {
    context.grants.forget(uid);
    if let Some(view) = context.hub.with(|views| views.remove(uid)) {
        view.stop.cancel();
        if view.open {
            context.metrics.report_streams.dec();
        }
        let pool = ObjectRef::<KernelPool>::new(&view.pool).within(&view.namespace);
        let _ = context.pool_triggers.send(pool).await;
    }
    placed_on(context, uid).await;
}

/// Tells of every session that is placed on this pod.
async fn placed_on(context: &Context, pod_uid: &str) {
    let placed = context.index().placed_on(pod_uid);
    for session in placed {
        context.hub.tell(&session.namespace, &session.name).await;
    }
}

/// After a new list: pods that went unseen are gone, and every pool that has pods is looked at.
async fn relisted(context: &Context) {
    let pods = context.caches.pods.state();
    let pool = |pod: &Arc<Pod>| Some(ObjectRef::new(pod.labels().get(POOL)?).within(&pod.namespace()?));
    for pool in pods.iter().filter_map(pool).collect::<HashSet<ObjectRef<KernelPool>>>() {
        let _ = context.pool_triggers.send(pool).await;
    }
    let listed: HashSet<&str> = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
    let missed: Vec<String> = context.hub.with(|views| views.pods.keys().filter(|uid| !listed.contains(uid.as_str())).cloned().collect());
    for uid in missed {
        gone(context, &uid).await;
    }
}

async fn trigger_pool(context: &Context, namespace: &str, pod: &Pod) {
    if let Some(pool) = pod.labels().get(POOL) {
        let _ = context.pool_triggers.send(ObjectRef::new(pool).within(namespace)).await;
    }
}

/// One pod's stream.
struct Follower {
    context: Arc<Context>,
    uid: String,
    peer: Identity,
    address: String,
    pod: Pod,
}

impl Follower {
    async fn run(self) {
        let mut retry = RETRY_FIRST;
        loop {
            let result = self.follow().await;
            let was_open = self.context.hub.with(|views| views.pods.get(&self.uid).is_some_and(|view| view.open));
            if was_open {
                self.context.hub.closed(&self.uid);
                self.context.metrics.report_streams.dec();
                // What was heard and not yet written is written now.
                placed_on(&self.context, &self.uid).await;
                retry = RETRY_FIRST;
            }
            tracing::debug!(pod = self.peer.name, namespace = self.peer.namespace, reason = ?result.err(), "report stream ended");
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(RETRY_LAST);
        }
    }

    async fn follow(&self) -> Result<(), String> {
        let request = self.context.peer_client().request(Method::GET, &self.peer, &self.address, "/v1/report");
        let response = tokio::time::timeout(ASK_TIMEOUT, request.send()).await.map_err(|_| "no answer".to_owned())?;
        let response = response.and_then(reqwest::Response::error_for_status).map_err(|error| error.to_string())?;
        let mut chunks = response.bytes_stream();
        let mut lines = Lines::default();
        loop {
            let chunk = tokio::time::timeout(SILENCE_MAX, chunks.next()).await.map_err(|_| "silence".to_owned())?;
            let Some(chunk) = chunk else { return Ok(()) };
            lines.push(&chunk.map_err(|error| error.to_string())?)?;
            while let Some(line) = lines.next_line() {
                self.take(serde_json::from_slice(&line).map_err(|error| error.to_string())?).await;
            }
        }
    }

    async fn take(&self, line: ReportLine) {
        let (context, namespace) = (&self.context, &self.peer.namespace);
        let complete = line == ReportLine::Complete;
        let was_open = context.hub.with(|views| views.pods.get(&self.uid).is_some_and(|view| view.open));
        let effect = context.hub.take(&self.uid, namespace, line).await;
        let is_open = context.hub.with(|views| views.pods.get(&self.uid).is_some_and(|view| view.open));
        if is_open && !was_open {
            context.metrics.report_streams.inc();
            tracing::info!(pod = self.peer.name, namespace, "report stream open");
        }
        if complete {
            // Silence about a session means something now.
            placed_on(context, &self.uid).await;
        }
        let pool = self.pod.labels().get(POOL).map(String::as_str).unwrap_or_default();
        let looked_at = match effect {
            Effect::None => false,
            Effect::Load => pool::is_to_resize(context, namespace, pool),
            Effect::Picture => true,
        };
        if looked_at {
            trigger_pool(context, namespace, &self.pod).await;
        }
    }
}

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
struct Lines {
    buffer: Vec<u8>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.buffer.len() + bytes.len() > LINE_BYTES_MAX.max(bytes.len()) {
            return Err(format!("a report line has more than {LINE_BYTES_MAX} bytes"));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
            let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
            line.pop();
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line);
            }
        }
    }
}

/// Asks a pod what it is: the last word before its sessions' placements are cleared.
///
/// # Errors
/// It does not answer, or not as a kernel pod does.
pub async fn info(context: &Context, peer: &Identity, ip: &str) -> Result<PodInfo, AnswerError> {
    let request = context.peer_client().request(Method::GET, peer, &address_of(ip, KERNEL_PORT), "/v1/info").timeout(ASK_TIMEOUT);
    read_json(request.send().await?.error_for_status()?, ANSWER_BYTES_MAX).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_where_they_end() {
        let mut lines = Lines::default();
        lines.push(b"{\"a\"").unwrap();
        assert_eq!(lines.next_line(), None);
        lines.push(b":1}\n\n{}\n").unwrap();
        assert_eq!(lines.next_line(), Some(b"{\"a\":1}".to_vec()));
        assert_eq!(lines.next_line(), Some(b"{}".to_vec()));
        assert_eq!(lines.next_line(), None);
        assert!(lines.push(&vec![b'x'; LINE_BYTES_MAX]).is_ok());
        assert!(lines.push(b"x").is_err());
    }
}
