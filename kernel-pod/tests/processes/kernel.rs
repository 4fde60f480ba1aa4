//! A MinIO, certificates, and `dormouse-kernel` processes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use dormouse_crds::session::KernelSessionSpec;
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
        let kernels = ca.issue(&[Identity::wildcard(Role::Kernel, NAMESPACE)], LEAF_VALIDITY).unwrap();
        write(&dir.path().join("tls"), &[("ca.crt", &kernels.ca), ("tls.crt", &kernels.cert), ("tls.key", &kernels.key)]);
        let root = minio.credentials();
        write(&dir.path().join("s3"), &[("accessKeyId", &root.access_key_id), ("secretAccessKey", &root.secret_access_key)]);
        std::fs::create_dir(dir.path().join("engine")).unwrap();
        Self { client: PeerClient::new(TlsFiles::from_pem(&gateway).unwrap()).unwrap(), minio, dir }
    }

    /// Starts a process and waits until its store has passed the probe.
    pub async fn kernel(&self, name: &str) -> Kernel {
        let (port, admin) = (free_port().unwrap(), free_port().unwrap());
        let path = |part: &str| self.dir.path().join(part);
        let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse-kernel"));
        command
            .args(["--pod", name, "--namespace", NAMESPACE, "--broker-address", "127.0.0.1:1"])
            .args(["--listen", &format!("127.0.0.1:{port}"), "--admin-listen", &format!("127.0.0.1:{admin}")])
            .args(["--s3-endpoint", &self.minio.endpoint(), "--s3-bucket", BUCKET, "--s3-region", self.minio.region()])
            .arg("--s3-credentials-dir")
            .arg(path("s3"))
            .arg("--tls-dir")
            .arg(path("tls"))
            .arg("--engine-cache-dir")
            .arg(path("engine"));
        let process = Process::start(command, &path(&format!("{name}.log"))).unwrap();
        let mut kernel = Kernel { process, name: name.to_owned(), address: format!("127.0.0.1:{port}"), boot: String::new() };
        kernel.boot = self.boot(&mut kernel).await;
        kernel
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
        Identity::new(Role::Kernel, NAMESPACE, &self.name)
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
            spec: KernelSessionSpec { idle_seconds: 3600, ..KernelSessionSpec::default() },
        }
    }
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir(dir).unwrap();
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
}
