//! A MinIO, certificates, `dormouse-kernel` processes and brokers.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use dormouse_crds::{
    broker::ToolBrokerSpec,
    session::{KernelSessionSpec, ToolBrokerRef},
};
use dormouse_engine::EngineOptions;
use dormouse_protocol::kernel::{Assignment, PodInfo};
use dormouse_service::ca::{Ca, LEAF_VALIDITY};
use dormouse_service::tls::{Identity, PeerClient, Process as Role, TlsFiles};
use dormouse_testkit::minio::Minio;
use dormouse_testkit::process::{Process, free_port};
use http::Method;
use tempfile::TempDir;

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks at a process that starts.
const POLL: Duration = Duration::from_millis(10);
const NAMESPACE: &str = "team";
const BUCKET: &str = "sessions";
/// The ToolBroker of all sessions.
pub const BROKER: &str = "tools";
/// An address where nobody listens.
const NOWHERE: &str = "127.0.0.1:1";

/// What the processes share.
pub struct Cluster {
    pub client: PeerClient,
    minio: Minio,
    dir: TempDir,
}

/// A running process.
pub struct Kernel {
    pub process: Process,
    name: String,
    address: String,
    boot: String,
}

/// Where sessions are, and by what right: what a gateway reads in the status.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub peer: Identity,
    pub address: String,
    boot: String,
    pub epoch: u64,
}

impl Cluster {
    pub async fn start() -> Self {
        dormouse_service::telemetry::install_tls_provider();
        let minio = Minio::start().await.unwrap();
        minio.create_bucket(BUCKET).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let ca = Ca::generate().unwrap();
        let gateway = ca.issue(&[Identity::new(Role::Gateway, "dormouse-system", "g").dns_name()], LEAF_VALIDITY).unwrap();
        let kernels = ca.issue(&[Identity::of_pool(NAMESPACE, "default")], LEAF_VALIDITY).unwrap();
        write(&dir.path().join("tls"), &[("ca.crt", &kernels.ca), ("tls.crt", &kernels.cert), ("tls.key", &kernels.key)]);
        let root = minio.credentials();
        write(&dir.path().join("s3"), &[("accessKeyId", &root.access_key_id), ("secretAccessKey", &root.secret_access_key)]);
        let broker = ca.issue(&[Identity::new(Role::Broker, NAMESPACE, BROKER).dns_name()], LEAF_VALIDITY).unwrap();
        write(&dir.path().join("broker-tls"), &[("ca.crt", &broker.ca), ("tls.crt", &broker.cert), ("tls.key", &broker.key)]);
        Self { client: PeerClient::new(TlsFiles::from_pem(&gateway).unwrap()).unwrap(), minio, dir }
    }

    /// Starts a process without a broker and waits until its store has passed the probe.
    pub async fn kernel(&self, name: &str) -> Kernel {
        self.kernel_with(name, NOWHERE).await
    }

    /// The same with a broker at this address.
    pub async fn kernel_with(&self, name: &str, broker: &str) -> Kernel {
        self.kernel_of(name, broker, "shared").await
    }

    /// One of the isolation class `dedicated`, without a broker.
    pub async fn dedicated(&self, name: &str) -> Kernel {
        self.kernel_of(name, NOWHERE, "dedicated").await
    }

    async fn kernel_of(&self, name: &str, broker: &str, isolation: &str) -> Kernel {
        let (port, admin) = (free_port().unwrap(), free_port().unwrap());
        let path = |part: &str| self.dir.path().join(part);
        let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse-kernel"));
        command
            .args(["--pod", name, "--namespace", NAMESPACE, "--broker-address", broker, "--isolation", isolation])
            .args(["--listen", &format!("127.0.0.1:{port}"), "--admin-listen", &format!("127.0.0.1:{admin}")])
            .args(["--s3-endpoint", &self.minio.endpoint(), "--s3-bucket", BUCKET, "--s3-region", self.minio.region()])
            .arg("--s3-credentials-dir")
            .arg(path("s3"))
            .arg("--tls-dir")
            .arg(path("tls"))
            .arg("--engine-cache-dir")
            .arg(EngineOptions::for_user().cache_dir.unwrap());
        let process = Process::start(command, &path(&format!("{name}.log"))).unwrap();
        let mut kernel = Kernel { process, name: name.to_owned(), address: format!("127.0.0.1:{port}"), boot: String::new() };
        kernel.boot = self.boot(&mut kernel).await;
        kernel
    }

    /// The same process once more, as when its container restarts.
    pub async fn restart(&self, kernel: &mut Kernel) {
        kernel.process.restart().unwrap();
        kernel.boot = self.boot(kernel).await;
    }

    /// What a process says of itself.
    pub async fn info(&self, target: &Target) -> PodInfo {
        self.client.request(Method::GET, &target.peer, &target.address, "/v1/info").send().await.unwrap().json().await.unwrap()
    }

    /// Starts a broker on this port, and waits until it serves.
    pub async fn broker(&self, name: &str, port: u16, spec: &ToolBrokerSpec) -> Process {
        let admin = free_port().unwrap();
        let path = |part: &str| self.dir.path().join(part).display().to_string();
        let config = path(&format!("{name}.json"));
        // JSON is YAML, too.
        std::fs::write(&config, serde_json::to_vec(spec).unwrap()).unwrap();
        let (listen, admin_listen) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{admin}"));
        let (secrets, tls, credentials) = (path("no-secrets"), path("broker-tls"), path("s3"));
        let args = [
            ["--namespace", NAMESPACE],
            ["--name", BROKER],
            ["--listen", &listen],
            ["--admin-listen", &admin_listen],
            ["--config", &config],
            ["--secrets-dir", &secrets],
            ["--tls-dir", &tls],
            ["--s3-endpoint", &self.minio.endpoint()],
            ["--s3-bucket", BUCKET],
            ["--s3-region", self.minio.region()],
            ["--s3-credentials-dir", &credentials],
        ];
        let command = super::effects::broker_command(&args.concat());
        let mut process = Process::start(command, &self.dir.path().join(format!("{name}.log"))).unwrap();
        let (deadline, ready) = (Instant::now() + PATIENCE, format!("http://{admin_listen}/readyz"));
        loop {
            if reqwest::get(&ready).await.is_ok_and(|answer| answer.status().is_success()) {
                return process;
            }
            assert!(process.is_alive() && Instant::now() < deadline, "{}", process.output());
            tokio::time::sleep(POLL).await;
        }
    }

    async fn boot(&self, kernel: &mut Kernel) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let peer = kernel.peer();
            let asked = self.client.request(Method::GET, &peer, &kernel.address, "/v1/info").send().await;
            if let Ok(answer) = asked {
                return answer.json::<PodInfo>().await.unwrap().boot;
            }
            assert!(kernel.process.is_alive() && Instant::now() < deadline, "{}", kernel.process.output());
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Kernel {
    fn peer(&self) -> Identity {
        Identity::kernel(NAMESPACE, "default", &self.name)
    }

    /// This process as the owner under `epoch`.
    pub fn target(&self, epoch: u64) -> Target {
        Target { peer: self.peer(), address: self.address.clone(), boot: self.boot.clone(), epoch }
    }
}

impl Target {
    pub fn assignment(&self, uid: &str) -> Assignment {
        Assignment {
            namespace: NAMESPACE.to_owned(),
            name: format!("session-{uid}"),
            uid: uid.to_owned(),
            epoch: self.epoch,
            boot: self.boot.clone(),
            source_uid: None,
            anchor: None,
            source_anchor: None,
            generation: 1,
            spec: KernelSessionSpec {
                idle_seconds: 3600,
                tool_broker_ref: Some(ToolBrokerRef::new(BROKER)),
                ..KernelSessionSpec::default()
            },
        }
    }
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir(dir).unwrap();
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
}
