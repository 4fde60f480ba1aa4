//! A MinIO, certificates, `dormouse-kernel` processes and brokers.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use dormouse_crds::{
    broker::ToolBrokerSpec,
    session::{KernelSessionSpec, ToolBrokerRef},
};
use dormouse_engine::EngineOptions;
use dormouse_protocol::kernel::{Assignment, Grant, GrantedCertificate, GrantedStorage, PodInfo};
use dormouse_service::ca::{Ca, CertPem, End, LEAF_VALIDITY};
use dormouse_service::tls::{Identity, PeerClient, Process as Role, TlsFiles, session_name};
use dormouse_store::rights::{Rights, policy};
use dormouse_store::{CredentialSource, Credentials, S3, S3Options, sts};
use dormouse_testkit::minio::Minio;
use dormouse_testkit::process::{Process, free_port};
use http::Method;
use tempfile::TempDir;

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks at a process that starts.
const POLL: Duration = Duration::from_millis(10);
const NAMESPACE: &str = "team";
const POOL: &str = "default";
const BUCKET: &str = "sessions";
/// The ToolBroker of all sessions.
pub const BROKER: &str = "tools";
/// An address where nobody listens.
const NOWHERE: &str = "127.0.0.1:1";
/// How long credentials are good.
const HOUR: Duration = Duration::from_secs(3600);

/// What a process begins with, as folders.
struct Files {
    tls: &'static str,
    s3: &'static str,
}

/// What pods of a shared pool have.
const OF_POOL: Files = Files { tls: "tls", s3: "s3" };
/// A certificate of one who is asked and asks nobody, and no credentials: that folder does not exist.
const NOTHING: Files = Files { tls: "server-tls", s3: "no-s3" };
/// Credentials that read.
const OF_READER: Files = Files { tls: "server-tls", s3: "reader-s3" };

/// What the processes share.
pub struct Cluster {
    pub client: PeerClient,
    operator: PeerClient,
    ca: Ca,
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
        let of_system = |role: Role| {
            let pem = ca.issue(&[Identity::new(role, "dormouse-system", "one").dns_name()], LEAF_VALIDITY).unwrap();
            PeerClient::new(TlsFiles::from_pem(&pem).unwrap()).unwrap()
        };
        let (client, operator) = (of_system(Role::Gateway), of_system(Role::Operator));
        let names = [Identity::of_pool(NAMESPACE, POOL)];
        write_tls(&dir.path().join(OF_POOL.tls), &ca.issue(&names, LEAF_VALIDITY).unwrap());
        write_tls(&dir.path().join(NOTHING.tls), &ca.issue_for(End::Server, &names, LEAF_VALIDITY).unwrap());
        write_s3(&dir.path().join(OF_POOL.s3), &minio.credentials());
        let broker = ca.issue(&[Identity::new(Role::Broker, NAMESPACE, BROKER).dns_name()], LEAF_VALIDITY).unwrap();
        write_tls(&dir.path().join("broker-tls"), &broker);
        Self { client, operator, ca, minio, dir }
    }

    /// Starts a process without a broker and waits until its store has passed the probe.
    pub async fn kernel(&self, name: &str) -> Kernel {
        self.kernel_with(name, NOWHERE).await
    }

    /// The same with a broker at this address.
    pub async fn kernel_with(&self, name: &str, broker: &str) -> Kernel {
        self.kernel_of(name, broker, "shared", &OF_POOL).await
    }

    /// One of the isolation class `dedicated`, without a broker. It has nothing before it is granted that.
    pub async fn dedicated(&self, name: &str) -> Kernel {
        self.dedicated_with(name, NOWHERE).await
    }

    /// The same with a broker at this address.
    pub async fn dedicated_with(&self, name: &str, broker: &str) -> Kernel {
        self.kernel_of(name, broker, "dedicated", &NOTHING).await
    }

    /// One that tells what is stored.
    pub async fn reader(&self, name: &str) -> Kernel {
        write_s3(&self.dir.path().join(OF_READER.s3), &self.minted(Rights::Reader { pool: POOL }).await);
        self.kernel_of(name, NOWHERE, "reader", &OF_READER).await
    }

    /// Credentials with these rights and no others.
    async fn minted(&self, rights: Rights<'_>) -> Credentials {
        let policy = policy(BUCKET, "", NAMESPACE, rights);
        let role = sts::Role { endpoint: self.minio.endpoint(), region: self.minio.region().to_owned(), arn: None };
        role.assume(&sts::Identity::Key(self.minio.credentials()), Some(&policy), HOUR).await.unwrap()
    }

    /// Gives a dedicated process what it needs for a session, as the operator does. Answers with its credentials.
    pub async fn grant(&self, kernel: &Kernel, uid: &str) -> Credentials {
        let credentials = self.minted(Rights::Session { pool: POOL, uid, source: None, boot: &kernel.boot }).await;
        let storage = GrantedStorage {
            access_key_id: credentials.access_key_id.clone(),
            secret_access_key: credentials.secret_access_key.clone(),
            session_token: credentials.session_token.clone(),
            expiration: credentials.expiration.clone(),
        };
        let names = [kernel.peer().dns_name(), session_name(uid)];
        let CertPem { ca, cert, key, .. } = self.ca.issue_for(End::Client, &names, LEAF_VALIDITY).unwrap();
        let certificate = GrantedCertificate { ca, cert, key };
        let grant = Grant { uid: uid.to_owned(), boot: kernel.boot.clone(), storage, certificate };
        let request = self.operator.request(Method::POST, &kernel.peer(), &kernel.address, "/v1/grant");
        let answer = request.json(&grant).send().await.unwrap();
        assert_eq!(answer.status(), 204, "{}", answer.text().await.unwrap());
        credentials
    }

    /// The store with these credentials.
    pub fn store(&self, credentials: Credentials) -> S3 {
        S3::new(&S3Options { credentials: CredentialSource::Static(credentials), ..self.minio.options(BUCKET) })
    }

    /// The store with every right.
    pub fn root(&self) -> S3 {
        self.store(self.minio.credentials())
    }

    async fn kernel_of(&self, name: &str, broker: &str, isolation: &str, files: &Files) -> Kernel {
        let (port, admin) = (free_port().unwrap(), free_port().unwrap());
        let path = |part: &str| self.dir.path().join(part);
        let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse-kernel"));
        command
            .args(["--pod", name, "--namespace", NAMESPACE, "--broker-address", broker, "--isolation", isolation])
            .args(["--listen", &format!("127.0.0.1:{port}"), "--admin-listen", &format!("127.0.0.1:{admin}")])
            .args(["--s3-endpoint", &self.minio.endpoint(), "--s3-bucket", BUCKET, "--s3-region", self.minio.region()])
            .arg("--s3-credentials-dir")
            .arg(path(files.s3))
            .arg("--tls-dir")
            .arg(path(files.tls))
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
        Identity::kernel(NAMESPACE, POOL, &self.name)
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

fn write_tls(dir: &Path, pem: &CertPem) {
    write(dir, &[("ca.crt", &pem.ca), ("tls.crt", &pem.cert), ("tls.key", &pem.key)]);
}

fn write_s3(dir: &Path, credentials: &Credentials) {
    write(dir, &[("accessKeyId", &credentials.access_key_id), ("secretAccessKey", &credentials.secret_access_key)]);
    if let Some(token) = &credentials.session_token {
        std::fs::write(dir.join("sessionToken"), token).unwrap();
    }
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir(dir).unwrap();
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
}
