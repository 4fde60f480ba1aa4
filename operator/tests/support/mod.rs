//! The real operator, with the rights that its chart gives it, on a real API server and a real MinIO; and kernel pods that report what they are told to.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod between;
pub mod metrics;
mod pod;

use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use bytes::Bytes;
use dormouse_crds::session::Placement;
use dormouse_lifecycle::SessionKey;
use dormouse_store::{Condition, CredentialSource, Credentials, PutError, S3, S3Options, SnapshotStore as _, StoreError};
use dormouse_testkit::{
    apiserver::{ApiServer, Write},
    minio::Minio,
    process::{Process, free_port},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;

pub use pod::FakePod;

use between::Between;

/// How long anything may take on a machine that is busy with everything else.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two looks.
const POLL: Duration = Duration::from_millis(50);
/// Kinds of the chart that say what the operator may do.
const RIGHTS: [&str; 5] = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
/// The operator's own namespace.
pub const SYSTEM: &str = "dormouse-system";
/// Who the operator is to the API server.
pub const OPERATOR: &str = "system:serviceaccount:dormouse-system:dormouse-operator";

pub fn apply(server: &ApiServer, yaml: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), yaml).unwrap();
    server.kubectl(&["apply", "-f", file.path().to_str().unwrap()]).unwrap();
}

/// What the chart renders to with these flags of helm.
pub fn rendered(flags: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut helm = Command::new(dormouse_testkit::tools::path("helm").unwrap());
    helm.args(["template", "dormouse", "charts/dormouse", "--namespace", SYSTEM]);
    helm.args(flags);
    let output = helm.current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The kubeconfig of the operator's ServiceAccount, with what the chart lets it do.
pub fn account(server: &ApiServer, folder: &Path) -> std::path::PathBuf {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/dormouse.yaml")).unwrap();
    account_of(server, folder, &[], &manifest)
}

/// The same of an installation of `namespaces`, which are made.
fn account_in(server: &ApiServer, folder: &Path, namespaces: &[&str]) -> std::path::PathBuf {
    let watched = format!("--set=watchNamespaces={{{}}}", namespaces.join(","));
    account_of(server, folder, namespaces, &rendered(&[&watched, "--set=storage.cluster=here"]))
}

/// The account after `manifest` was applied, as far as it says who may do what.
fn account_of(server: &ApiServer, folder: &Path, namespaces: &[&str], manifest: &str) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    server.kubectl(&["apply", "-f", root.join("crds/yaml").to_str().unwrap()]).unwrap();
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).unwrap();
    server.kubectl(&["create", "namespace", SYSTEM]).unwrap();
    for namespace in namespaces {
        server.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    let is_right = |document: &&str| RIGHTS.iter().any(|kind| document.lines().any(|line| line == format!("kind: {kind}")));
    apply(server, &manifest.split("\n---\n").filter(is_right).collect::<Vec<_>>().join("\n---\n"));
    let token = server.kubectl(&["create", "token", "dormouse-operator", "-n", SYSTEM]).unwrap();
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap().replace(server.admin_token(), token.trim());
    let path = folder.join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    path
}

pub fn start_operator(kubeconfig: &Path, minio: &Minio, folder: &Path, flags: &[&str]) -> (Process, String) {
    let admin = format!("127.0.0.1:{}", free_port().unwrap());
    // With a token there is no key at all.
    if !flags.iter().any(|flag| flag.starts_with("--s3-web-identity-token-file")) {
        let credentials = minio.credentials();
        std::fs::write(folder.join("accessKeyId"), credentials.access_key_id).unwrap();
        std::fs::write(folder.join("secretAccessKey"), credentials.secret_access_key).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse-operator"));
    command
        .env("KUBECONFIG", kubeconfig)
        .args((!flags.iter().any(|flag| flag.starts_with("--pod="))).then_some("--pod=operator"))
        .args(["--kernel-image=k", "--broker-image=b", "--s3-bucket=sessions"])
        .args(flags)
        .arg(format!("--s3-endpoint={}", minio.endpoint()))
        .arg(format!("--s3-credentials-dir={}", folder.display()))
        .arg(format!("--admin-listen={admin}"));
    (Process::start(command, &folder.join("operator.log")).unwrap(), admin)
}

static CLUSTERS: AtomicU8 = AtomicU8::new(64);

/// A cluster without nodes.
pub struct Cluster {
    pub server: ApiServer,
    pub client: kube::Client,
    pub bucket: S3,
    pub minio: Minio,
    pub operator: Process,
    /// Where the operator tells whether it is ready, and what it counts.
    pub admin: String,
    /// Which of this process' clusters it is: its pods have addresses of their own.
    number: u8,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// With the namespace `team`.
    pub async fn start(flags: &[&str]) -> Self {
        Self::start_in(&[], flags).await
    }

    /// With an operator that has rights in `namespaces` only, `team` among them.
    pub async fn start_in(namespaces: &[&str], flags: &[&str]) -> Self {
        dormouse_service::telemetry::install_tls_provider();
        let (server, minio) = tokio::try_join!(ApiServer::start(), Minio::start()).unwrap();
        Self::start_with(server, minio, namespaces, flags, None).await
    }

    /// With what lies between its operator and its API server.
    pub async fn start_through(flags: &[&str]) -> (Self, Between) {
        dormouse_service::telemetry::install_tls_provider();
        let (server, minio) = tokio::try_join!(ApiServer::start(), Minio::start()).unwrap();
        let between = Between::start(&server).await;
        (Self::start_with(server, minio, &[], flags, Some(&between)).await, between)
    }

    /// With an operator that has a token in place of an access key, in this file: one that MinIO takes, unless it is for another `audience`.
    pub async fn start_by_token(token_file: &Path, audience: Option<&str>, flags: &[&str]) -> Self {
        dormouse_service::telemetry::install_tls_provider();
        let server = ApiServer::start().await.unwrap();
        let minio = Minio::start_trusting(&server).await.unwrap();
        let (file, role) =
            (format!("--s3-web-identity-token-file={}", token_file.display()), format!("--storage-role-arn={}", minio.role_arn()));
        let flags = [flags, &[&file, &role]].concat();
        let cluster = Self::start_with(server, minio, &[], &flags, None).await;
        cluster.write_token(token_file, audience);
        cluster
    }

    /// What a kubelet does when a token is due, or meant for somebody else now.
    pub fn write_token(&self, file: &Path, audience: Option<&str>) {
        let audience = audience.unwrap_or(self.minio.audience());
        let token = self.server.kubectl(&["create", "token", "dormouse-operator", "-n", SYSTEM, "--audience", audience]).unwrap();
        std::fs::write(file, token).unwrap();
    }

    /// With these, whose operator has rights in `namespaces` only if there are any.
    pub async fn start_with(server: ApiServer, minio: Minio, namespaces: &[&str], flags: &[&str], between: Option<&Between>) -> Self {
        let bucket = minio.create_bucket("sessions").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let archives = flags.iter().any(|flag| flag.starts_with("--archive-listen"));
        let kubeconfig = match namespaces {
            [] if archives => account_of(&server, folder.path(), &[], &rendered(&["--set=operator.archive=true"])),
            [] => account(&server, folder.path()),
            some => account_in(&server, folder.path(), some),
        };
        if namespaces.is_empty() {
            server.kubectl(&["create", "namespace", "team"]).unwrap();
        }
        if let Some(between) = between {
            let direct = std::fs::read_to_string(&kubeconfig).unwrap();
            std::fs::write(&kubeconfig, direct.replace(server.url(), between.url())).unwrap();
        }
        let (operator, admin) = start_operator(&kubeconfig, &minio, folder.path(), flags);
        let administrator = kube::config::Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(administrator, &Default::default()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        Self { server, client, bucket, minio, operator, admin, number, folder }
    }

    /// With which its operator knows the API server.
    pub fn kubeconfig(&self) -> std::path::PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Ends the operator, and starts another in its place once `between` is done.
    pub async fn restart(&mut self, flags: &[&str], between: impl Future<Output = ()>) {
        self.operator.kill();
        between.await;
        (self.operator, self.admin) = start_operator(&self.kubeconfig(), &self.minio, self.folder.path(), flags);
    }

    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let wait = async {
            while !holds().await {
                tokio::time::sleep(POLL).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{what}: never\n{}", self.operator.output());
    }

    /// What the operator says of whether it is ready, once it says anything.
    pub async fn readiness(&self) -> String {
        let Ok(answer) = reqwest::get(format!("http://{}/readyz", self.admin)).await else { return String::new() };
        format!("{} {}", answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// What the operator has written since the first `since` writes, leases aside.
    pub fn written(&self, since: usize) -> Vec<Write> {
        let all = self.server.writes().unwrap();
        all.into_iter().skip(since).filter(|write| write.user == OPERATOR && write.resource != "leases").collect()
    }

    pub fn writes(&self) -> usize {
        self.server.writes().unwrap().len()
    }

    /// Until the operator has renewed its lease so many times.
    pub async fn leases(&self, times: usize) {
        let from = self.writes();
        let renewed = async || {
            let all = self.server.writes().unwrap();
            all.iter().skip(from).filter(|write| write.user == OPERATOR && write.resource == "leases").count() >= times
        };
        self.until("the operator renews its lease", renewed).await;
    }

    /// The operator's own store with the credentials in a Secret of the namespace `team`, once it is there.
    pub async fn store_by(&self, secret: &str) -> S3 {
        self.bucket_by(secret, "sessions").await
    }

    /// A bucket with them.
    pub async fn bucket_by(&self, secret: &str, bucket: &str) -> S3 {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "team");
        self.until(secret, async || secrets.get_opt(secret).await.unwrap().is_some()).await;
        let data = secrets.get(secret).await.unwrap().data.unwrap();
        let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
        let key = Credentials::new(text("accessKeyId"), text("secretAccessKey"));
        let credentials = CredentialSource::Static(Credentials { session_token: Some(text("sessionToken")), ..key });
        S3::new(&S3Options { credentials, ..self.minio.options(bucket) })
    }

    /// Makes a session. Answers its uid.
    pub fn session(&self, name: &str, spec: &str) -> String {
        let object = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession";
        apply(&self.server, &format!("{object}\nmetadata: {{name: {name}, namespace: team}}\nspec: {{{spec}}}\n"));
        self.get(&["kernelsession", name], "{.metadata.uid}")
    }

    /// A field of an object of the namespace `team`; empty when there is none.
    pub fn get(&self, object: &[&str], path: &str) -> String {
        let path = format!("jsonpath={path}");
        let args = [&["get"], object, &["-n", "team", "--ignore-not-found", "-o", &path]].concat();
        self.server.kubectl(&args).unwrap()
    }

    /// What a gateway does to place a session.
    pub fn place(&self, name: &str, pod: &FakePod, epoch: u64) {
        let placement = Placement { pod: pod.name.clone(), pod_uid: pod.uid.clone(), boot: pod.boot.clone(), epoch };
        let patch = json!({ "status": { "placement": placement, "lastEpoch": epoch } }).to_string();
        let args = ["patch", "kernelsession", name, "-n", "team", "--subresource=status", "--type=merge", "-p", &patch];
        self.server.kubectl(&args).unwrap();
    }

    /// What the operator does when the process of a session is gone.
    pub fn unplace(&self, name: &str) {
        let patch = json!({ "status": { "placement": null } }).to_string();
        let args = ["patch", "kernelsession", name, "-n", "team", "--subresource=status", "--type=merge", "-p", &patch];
        self.server.kubectl(&args).unwrap();
    }
}

/// Whether the store has refused it for who asks.
pub fn is_denied<T>(put: &Result<T, PutError>) -> bool {
    matches!(put, Err(PutError::Failed(StoreError::Denied { .. })))
}

/// Has a session's status say that it has stored something, and stores that: the keys are answered.
pub async fn stores(server: &ApiServer, bucket: &S3, namespace: &str, name: &str, pool: &str) -> [String; 3] {
    let uid = server.kubectl(&["get", "kernelsession", name, "-n", namespace, "-o", "jsonpath={.metadata.uid}"]).unwrap();
    let key = SessionKey { store_prefix: String::new(), tenant: namespace.to_owned(), pool: pool.to_owned(), uid, name: String::new() };
    let keys = [key.head(), key.segment(1, 1, "ab"), key.calls()];
    for key in &keys {
        bucket.put(key, Bytes::from_static(b"x"), Condition::None).await.unwrap();
    }
    says_that_it_is_stored(server, namespace, name);
    keys
}

/// Has a session's status say so, whatever is stored.
pub fn says_that_it_is_stored(server: &ApiServer, namespace: &str, name: &str) {
    let snapshot = json!({ "epoch": 1, "sequence": 1, "bytes": 1, "engineDigest": "e", "time": "2026-01-01T00:00:00Z" });
    let status = json!({ "status": { "snapshot": snapshot } }).to_string();
    server.kubectl(&["patch", "kernelsession", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", &status]).unwrap();
}

/// Manifest of the pool `default`.
pub fn pool(spec: &str) -> String {
    format!("apiVersion: dormouse.dev/v1alpha1\nkind: KernelPool\nmetadata: {{name: default, namespace: team}}\nspec: {{{spec}}}\n")
}
