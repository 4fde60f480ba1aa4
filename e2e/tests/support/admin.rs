//! The API server, past everything of ours.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::fleet::Fleet;

/// The API server as its administrator has it.
pub struct Admin {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Admin {
    pub fn new(fleet: &Fleet) -> Self {
        let ca = reqwest::Certificate::from_pem(&std::fs::read(fleet.server.ca()).unwrap()).unwrap();
        let http = reqwest::Client::builder().add_root_certificate(ca).http1_only().build().unwrap();
        Self { http, url: fleet.server.url().to_owned(), token: fleet.server.admin_token().to_owned() }
    }

    pub async fn send(&self, method: reqwest::Method, path: &str, kind: &str, body: &Value) {
        let request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        let answer = request.header("content-type", kind).body(body.to_string()).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status}: {}", answer.text().await.unwrap());
    }

    async fn get(&self, path: &str) -> reqwest::Response {
        let answer = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.token).send().await.unwrap();
        answer.error_for_status().unwrap()
    }

    /// Bytes of the API server's objects, after a collection. Its process has about twice as many while it is busy: Go collects when they have doubled.
    pub async fn object_bytes(&self) -> u64 {
        let _profile = self.get("/debug/pprof/heap?gc=1&debug=1").await.bytes().await.unwrap();
        let metrics = self.get("/metrics").await.text().await.unwrap();
        let line = metrics.lines().find_map(|line| line.strip_prefix("go_memstats_heap_alloc_bytes ")).unwrap();
        line.parse::<f64>().unwrap() as u64
    }

    /// How often anything was written.
    pub async fn revision(&self) -> u64 {
        let list: Value = self.get("/api/v1/namespaces?limit=1").await.json().await.unwrap();
        list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    pub async fn post(&self, path: &str, body: &Value) {
        self.send(reqwest::Method::POST, path, "application/json", body).await;
    }

    /// Sessions whose status says that they are ready and have stored something.
    pub async fn ready_sessions(&self) -> u64 {
        let list: Value = self.get("/apis/dormouse.dev/v1alpha1/kernelsessions").await.json().await.unwrap();
        let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        let is_told = |session: &&Value| {
            session["status"]["snapshot"].is_object()
                && session["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready))
        };
        list["items"].as_array().unwrap().iter().filter(is_told).count() as u64
    }

    /// What the chart's `crds.serveBoth: false` does to sessions.
    pub async fn serve_one_version(&self) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kernelsessions.dormouse.dev";
        let patch = json!([{"op": "test", "path": "/spec/versions/1/storage", "value": false},
            {"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
        self.send(reqwest::Method::PATCH, path, "application/json-patch+json", &patch).await;
    }

    /// Counts the changes of all objects of a kind (`path` of its list) from now on.
    pub async fn changes(&self, path: &str) -> Changes {
        let list: Value = self.get(&format!("{path}?limit=1")).await.json().await.unwrap();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let mut watch = self.get(&format!("{path}?watch=1&resourceVersion={version}")).await.bytes_stream();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let task = tokio::spawn(async move {
            while let Some(Ok(bytes)) = watch.next().await {
                counted.fetch_add(bytes.iter().filter(|byte| **byte == b'\n').count(), Ordering::Relaxed);
            }
        });
        Changes { count, _task: AbortOnDropHandle::new(task) }
    }
}

/// What a watch has told: a write that changes nothing is not among it.
pub struct Changes {
    count: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Changes {
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
