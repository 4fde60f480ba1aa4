//! A kernel pod that reports what it is told to.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use dormouse_crds::session::SnapshotStatus;
use dormouse_protocol::{
    kernel::{Assignment, Grant, KERNEL_PORT, PodInfo, ReportLine, SessionReport, StoredStatus},
    session::State as SessionState,
};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, Process as Peer, Server, TlsFiles, require},
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::{Cluster, SYSTEM, apply};

/// A kernel pod that reports what it is told to.
pub struct FakePod {
    pub name: String,
    pub uid: String,
    pub boot: String,
    pub slots: u32,
    sessions: Mutex<BTreeMap<String, SessionReport>>,
    pub stored: Mutex<Option<StoredStatus>>,
    /// Whether it leaves who asks it to forget a session without an answer.
    pub hangs: AtomicBool,
    exhausted: AtomicBool,
    /// The sessions that it was told to put to sleep, and under which epoch and process.
    pub put_to_sleep: Mutex<Vec<(String, u64, String)>>,
    /// What it was given for sessions.
    pub granted: Mutex<Vec<Grant>>,
    /// Who waits for it to forget now, and the most that did at a time.
    pub asked: Mutex<(usize, usize)>,
    lines: broadcast::Sender<ReportLine>,
}

impl FakePod {
    /// Reports a session of the namespace `team`.
    pub fn report(&self, name: &str, uid: &str, change: impl FnOnce(&mut SessionReport)) {
        let mut sessions = self.sessions.lock().unwrap();
        let mut report = sessions.get(uid).cloned().unwrap_or_else(|| first_report(name, uid));
        change(&mut report);
        report.holds_slot = !matches!(report.state, SessionState::Hibernated | SessionState::Failed);
        sessions.insert(uid.to_owned(), report.clone());
        let _ = self.lines.send(ReportLine::Session(Box::new(report)));
    }

    /// Says that nothing follows.
    pub fn drained(&self) {
        let _ = self.lines.send(ReportLine::Drained);
    }

    /// Says whether its memory has no room for another session.
    pub fn says_exhausted(&self, exhausted: bool) {
        self.exhausted.store(exhausted, Ordering::SeqCst);
        let _ = self.lines.send(ReportLine::Pod(info_of(self)));
    }

    /// Reports that a session waits for a slot.
    pub fn waits(&self, uid: &str) {
        let _ = self.lines.send(ReportLine::Waiting { uid: uid.to_owned() });
    }
}

impl Cluster {
    /// A kernel pod of the pool `default`, which listens on an address of its own.
    pub async fn pod(&self, number: u8, slots: u32) -> Arc<FakePod> {
        self.labelled(number, slots, "").await
    }

    /// One that runs one session in its life, in this container. It has nothing.
    pub async fn dedicated_pod(&self, number: u8, container: &str) -> Arc<FakePod> {
        let pod = self.labelled(number, 1, ", dormouse.dev/role: session").await;
        self.runs_in(&pod, container);
        pod
    }

    /// One that tells what is stored of the sessions of a dedicated pool, and has probed the store.
    pub async fn reader(&self, number: u8) -> Arc<FakePod> {
        let pod = self.labelled(number, 1, ", dormouse.dev/role: reader").await;
        self.has_status(&pod, &json!({ "conditions": [{ "type": "Ready", "status": "True" }] }));
        pod
    }

    async fn labelled(&self, number: u8, slots: u32, labels: &str) -> Arc<FakePod> {
        let name = format!("k{number}");
        apply(
            &self.server,
            &format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: team, \
                 labels: {{dormouse.dev/component: kernel, dormouse.dev/pool: default{labels}}}}}\n\
                 spec: {{containers: [{{name: kernel, image: k}}]}}\n"
            ),
        );
        self.serve(name, number, slots).await
    }

    /// What a kubelet says of the container in which a pod's process runs.
    pub fn runs_in(&self, pod: &FakePod, container: &str) {
        let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
        let kernel = json!({ "name": "kernel", "containerID": container, "state": running, "ready": true, "restartCount": 0, "image": "k", "imageID": "k" });
        self.has_status(pod, &json!({ "containerStatuses": [kernel] }));
    }

    /// What a kubelet says of a pod.
    fn has_status(&self, pod: &FakePod, status: &Value) {
        let status = json!({ "status": status }).to_string();
        let args = ["patch", "pod", &pod.name, "-n", "team", "--subresource=status", "--type=merge", "-p", &status];
        self.server.kubectl(&args).unwrap();
    }

    /// The operator's certificate authority.
    pub async fn authority(&self) -> Ca {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), SYSTEM);
        self.until("the operator has an authority", async || secrets.get_opt("dormouse-ca").await.unwrap().is_some()).await;
        let secret = secrets.get("dormouse-ca").await.unwrap().data.unwrap();
        let text = |key: &str| String::from_utf8(secret[key].0.clone()).unwrap();
        Ca::from_pem(&text("ca.crt"), &text("ca.key")).unwrap()
    }

    /// Runs what a pod of this name runs.
    pub async fn serve(&self, name: String, number: u8, slots: u32) -> Arc<FakePod> {
        let ca = self.authority().await;
        let address = IpAddr::V4(Ipv4Addr::new(127, self.number, std::process::id().to_le_bytes()[0], number));
        let listener = tokio::net::TcpListener::bind((address, KERNEL_PORT)).await.unwrap();
        let uid = self.get(&["pod", &name], "{.metadata.uid}");
        let pod = Arc::new(FakePod {
            boot: format!("boot-{name}"),
            uid,
            slots,
            sessions: Mutex::default(),
            stored: Mutex::default(),
            hangs: AtomicBool::default(),
            exhausted: AtomicBool::default(),
            put_to_sleep: Mutex::default(),
            granted: Mutex::default(),
            asked: Mutex::default(),
            lines: broadcast::Sender::new(4_096),
            name,
        });
        let routes = Router::new()
            .route("/v1/report", get(report))
            .route("/v1/info", get(info))
            .route("/v1/forget", post(forget))
            .route("/v1/leave", post(leave))
            .route("/v1/grant", post(grant))
            .route("/v1/stored/status", post(stored_status))
            .with_state(Arc::clone(&pod));
        let identity = Identity::kernel("team", "default", pod.name.clone()).dns_name();
        let files = TlsFiles::from_pem(&ca.issue(&[identity], LEAF_VALIDITY).unwrap()).unwrap();
        tokio::spawn(Server::new(files).serve(listener, require(routes, &[Peer::Operator]), CancellationToken::new()));
        let status = json!({ "status": { "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }],
            "conditions": [{ "type": "Ready", "status": "True" }] } });
        let args = ["patch", "pod", &pod.name, "-n", "team", "--subresource=status", "--type=merge", "-p", &status.to_string()];
        self.server.kubectl(&args).unwrap();
        pod
    }
}

fn first_report(name: &str, uid: &str) -> SessionReport {
    let (engine_digest, time) = ("e".to_owned(), "2026-01-01T00:00:00Z".to_owned());
    SessionReport {
        namespace: "team".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        epoch: 1,
        state: SessionState::Idle,
        holds_slot: true,
        failure: None,
        generation: 1,
        heap_bytes: 1 << 20,
        snapshot: Some(SnapshotStatus { epoch: 1, sequence: 1, bytes: 10, engine_digest, time, encrypted: false }),
        last_active_time: Some("2026-01-01T00:00:00Z".to_owned()),
        next_wake_time: None,
        cells: 0,
        tool_calls: 0,
        approvals: 0,
        jobs: 0,
        hostcalls: 0,
        mcp_tools: 0,
    }
}

fn info_of(pod: &FakePod) -> PodInfo {
    PodInfo {
        pod: pod.name.clone(),
        namespace: "team".to_owned(),
        boot: pod.boot.clone(),
        slots: pod.slots,
        used: 0,
        idle: 0,
        engine_digest: "e".to_owned(),
        draining: false,
        exhausted: pod.exhausted.load(Ordering::SeqCst),
    }
}

async fn info(State(pod): State<Arc<FakePod>>) -> Json<PodInfo> {
    Json(info_of(&pod))
}

async fn forget(State(pod): State<Arc<FakePod>>) -> StatusCode {
    if pod.hangs.load(Ordering::Relaxed) {
        let _asked = Asked::new(&pod);
        std::future::pending::<()>().await;
    }
    StatusCode::NO_CONTENT
}

async fn leave(State(pod): State<Arc<FakePod>>, Json(assignment): Json<Assignment>) -> StatusCode {
    pod.put_to_sleep.lock().unwrap().push((assignment.uid.clone(), assignment.epoch, assignment.boot));
    pod.report(&assignment.name, &assignment.uid, |report| report.state = SessionState::Hibernated);
    StatusCode::NO_CONTENT
}

async fn grant(State(pod): State<Arc<FakePod>>, Json(grant): Json<Grant>) -> StatusCode {
    if grant.boot != pod.boot {
        return StatusCode::GONE;
    }
    pod.granted.lock().unwrap().push(grant);
    StatusCode::NO_CONTENT
}

/// Somebody who waits; ends when it is dropped, as it is when who asked leaves.
struct Asked<'p>(&'p FakePod);

impl<'p> Asked<'p> {
    fn new(pod: &'p FakePod) -> Self {
        let mut asked = pod.asked.lock().unwrap();
        asked.0 += 1;
        asked.1 = asked.1.max(asked.0);
        Self(pod)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.asked.lock().unwrap().0 -= 1;
    }
}

async fn stored_status(State(pod): State<Arc<FakePod>>) -> Json<StoredStatus> {
    Json(pod.stored.lock().unwrap().clone().unwrap_or_default())
}

async fn report(State(pod): State<Arc<FakePod>>) -> Body {
    let (picture, changes) = {
        let sessions = pod.sessions.lock().unwrap();
        let all = sessions.values().cloned().map(|report| ReportLine::Session(Box::new(report)));
        let picture = [ReportLine::Picture, ReportLine::Pod(info_of(&pod))].into_iter().chain(all).chain([ReportLine::Complete]);
        (picture.collect::<Vec<_>>(), pod.lines.subscribe())
    };
    let changes = tokio_stream::wrappers::BroadcastStream::new(changes).map(|line| line.unwrap());
    let lines = futures::stream::iter(picture).chain(changes);
    Body::from_stream(lines.map(|line| Ok::<_, std::convert::Infallible>(serde_json::to_string(&line).unwrap() + "\n")))
}
