//! A real kube-apiserver on a real etcd, on loopback, with RBAC, without any controller or node.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use tempfile::TempDir;

use crate::{
    process::{Process, free_port},
    tools,
};

/// More than any test writes.
const AUDIT_MEBIBYTES_MAX: u32 = 100_000;

/// What the audit log has.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, verbs: [get, list, watch]}
  - {level: None, nonResourceURLs: ['*']}
  - {level: None, users: ['system:apiserver']}
  - {level: Metadata}
";

/// The bearer token of the cluster administrator.
const ADMIN_TOKEN: &str = "testkit-admin";

/// What a request says that only asks what would be.
const DRY_RUN: &str = "dryRun=All";

/// A request that writes, as the audit log tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Who.
    pub user: String,
    /// `create`, `patch`, …
    pub verb: String,
    /// `kernelsessions/status`, …
    pub resource: String,
    /// Namespace and name of the object, as far as the request names them.
    pub object: String,
    /// The status of the answer.
    pub code: u64,
}

impl Write {
    fn read(line: &str) -> Option<Self> {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        let text = |pointer: &str| event.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let resource = [text("/objectRef/resource"), text("/objectRef/subresource")];
        Some(Self {
            user: text("/user/username"),
            verb: text("/verb"),
            resource: resource.join("/").trim_end_matches('/').to_owned(),
            object: format!("{}/{}", text("/objectRef/namespace"), text("/objectRef/name")),
            code: event.pointer("/responseStatus/code")?.as_u64()?,
        })
    }
}

/// What an API server and its etcd take.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Memory of the API server.
    pub server_bytes: u64,
    /// etcd's file.
    pub etcd_bytes: u64,
}

/// An API server of this test's own. Dropping it ends both processes and removes their files.
#[derive(Debug)]
pub struct ApiServer {
    // Dropped in this order: the API server lets go of etcd before etcd ends.
    apiserver: Process,
    etcd: Process,
    url: String,
    etcd_url: String,
    dir: TempDir,
}

impl ApiServer {
    /// Starts both processes and waits until `/readyz` answers.
    ///
    /// # Errors
    /// When a program was not built, or does not become ready.
    pub async fn start() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("dormouse-apiserver-").tempdir()?;
        let (client, peer, secure) = (free_port()?, free_port()?, free_port()?);
        let etcd = start_etcd(dir.path(), client, peer)?;
        let apiserver = start_apiserver(dir.path(), client, secure)?;
        let mut server =
            Self { apiserver, etcd, url: format!("https://127.0.0.1:{secure}"), etcd_url: format!("http://127.0.0.1:{client}"), dir };
        server.wait_ready().await?;
        std::fs::write(server.kubeconfig(), server.kubeconfig_text())?;
        Ok(server)
    }

    /// SIGKILL of both processes, and both again at the same addresses, over all that was stored. Requests and watches under way are cut off.
    ///
    /// # Errors
    /// When a program does not start again, or does not become ready.
    pub async fn restart(&mut self) -> Result<()> {
        self.apiserver.kill();
        self.etcd.restart()?;
        self.apiserver.restart()?;
        self.wait_ready().await
    }

    /// `https://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the cluster costs now.
    ///
    /// # Errors
    /// The processes cannot be looked at.
    pub fn costs(&self) -> Result<Costs> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.apiserver.id()))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")).context("VmRSS")?;
        let file = std::fs::metadata(self.dir.path().join("etcd/member/snap/db"))?;
        Ok(Costs { server_bytes: kib.trim().parse::<u64>()? << 10, etcd_bytes: file.len() })
    }

    /// What etcd has below `prefix` that is JSON, as custom resources are: as it is stored, whatever the API server would show.
    ///
    /// # Errors
    /// etcd does not answer, or with something else.
    pub fn stored(&self, prefix: &str) -> Result<Vec<serde_json::Value>> {
        let next = prefix.strip_suffix('/').map(|rest| format!("{rest}0")).context("a prefix ends in `/`, which `0` follows")?;
        let body = serde_json::json!({ "key": BASE64.encode(prefix), "range_end": BASE64.encode(next) }).to_string();
        let output = Command::new("curl").args(["-sSf", "-d", &body]).arg(format!("{}/v3/kv/range", self.etcd_url)).output()?;
        ensure!(output.status.success(), "etcd: {}", String::from_utf8_lossy(&output.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let values = answer["kvs"].as_array().into_iter().flatten().filter_map(|pair| BASE64.decode(pair["value"].as_str()?).ok());
        Ok(values.filter_map(|value| serde_json::from_slice(&value).ok()).collect())
    }

    /// A kubeconfig file of the cluster administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// PEM of the certificate that the server shows.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.dir.path().join("certs/apiserver.crt")
    }

    /// The administrator's bearer token.
    #[must_use]
    pub fn admin_token(&self) -> &str {
        ADMIN_TOKEN
    }

    /// Everything that was written until now, in the order of the answers.
    ///
    /// # Errors
    /// The audit log cannot be read.
    pub fn writes(&self) -> Result<Vec<Write>> {
        let log = std::fs::read_to_string(self.dir.path().join("audit.log"))?;
        log.lines()
            .filter(|line| !line.contains(DRY_RUN))
            .map(|line| Write::read(line).with_context(|| format!("an audit line: {line}")))
            .collect()
    }

    /// Runs kubectl as the administrator and returns what it prints.
    ///
    /// # Errors
    /// When it exits with a failure; the error is what it wrote to stderr.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(tools::path("kubectl")?).arg("--kubeconfig").arg(self.kubeconfig()).args(args).output()?;
        ensure!(output.status.success(), "kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs these controllers of Kubernetes, such as `replicaset-controller`, as the administrator.
    ///
    /// # Errors
    /// When kube-controller-manager was not built.
    pub fn start_controllers(&self, controllers: &[&str]) -> Result<Process> {
        let mut command = Command::new(tools::path("kube-controller-manager")?);
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("--controllers={}", controllers.join(",")))
            .arg(format!("--secure-port={}", free_port()?))
            .arg(format!("--cert-dir={}", self.dir.path().join("controllers").display()))
            .args(["--bind-address=127.0.0.1", "--leader-elect=false"]);
        Process::start(command, &self.dir.path().join("kube-controller-manager.log"))
    }

    fn kubeconfig_text(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: testkit\n\
             clusters: [{{name: testkit, cluster: {{server: \"{}\", certificate-authority: \"{}\"}}}}]\n\
             contexts: [{{name: testkit, context: {{cluster: testkit, user: admin}}}}]\n\
             users: [{{name: admin, user: {{token: {ADMIN_TOKEN}}}}}]\n",
            self.url,
            self.ca().display()
        )
    }

    async fn wait_ready(&mut self) -> Result<()> {
        // curl and not a client of ours: the kit must work whatever TLS provider the test installs, or none.
        Command::new("curl").arg("--version").output().context("run curl")?;
        let (ca, url) = (self.ca(), format!("{}/readyz", self.url));
        let ready = async || {
            let look = Command::new("curl").args(["-sf", "--max-time", "2", "--cacert"]).arg(&ca).arg(&url).output();
            look.is_ok_and(|output| output.status.success())
        };
        ensure!(self.apiserver.until(ready).await?, "kube-apiserver ended:\n{}", self.apiserver.output());
        Ok(())
    }
}

fn start_etcd(dir: &Path, client: u16, peer: u16) -> Result<Process> {
    let mut command = Command::new(tools::path("etcd")?);
    command
        .arg(format!("--data-dir={}", dir.join("etcd").display()))
        .arg(format!("--listen-client-urls=http://127.0.0.1:{client}"))
        .arg(format!("--advertise-client-urls=http://127.0.0.1:{client}"))
        .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer}"))
        .arg(format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"))
        .arg(format!("--initial-cluster=default=http://127.0.0.1:{peer}"))
        .args(["--unsafe-no-fsync", "--log-level=error"]);
    Process::start(command, &dir.join("etcd.log"))
}

fn start_apiserver(dir: &Path, etcd: u16, secure: u16) -> Result<Process> {
    let key = dir.join("sa.key");
    let made = Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048").output().context("run openssl")?;
    ensure!(made.status.success(), "openssl genrsa: {}", String::from_utf8_lossy(&made.stderr));
    let tokens = dir.join("tokens.csv");
    std::fs::write(&tokens, format!("{ADMIN_TOKEN},admin,admin,system:masters\n"))?;
    let mut command = Command::new(tools::path("kube-apiserver")?);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg(format!("--secure-port={secure}"))
        .arg(format!("--cert-dir={}", dir.join("certs").display()))
        .arg(format!("--token-auth-file={}", tokens.display()))
        .args(["--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16"])
        .arg("--service-account-issuer=https://kubernetes.default.svc.cluster.local")
        .arg(format!("--service-account-signing-key-file={}", key.display()))
        .arg(format!("--service-account-key-file={}", key.display()))
        // Without a controller-manager no namespace has its default ServiceAccount, which this plug-in would wait for.
        .arg("--disable-admission-plugins=ServiceAccount");
    // Every write, as it is answered.
    let policy = dir.join("audit-policy.yaml");
    std::fs::write(&policy, AUDIT_POLICY)?;
    command
        .arg(format!("--audit-policy-file={}", policy.display()))
        .arg(format!("--audit-log-path={}", dir.join("audit.log").display()))
        .arg("--audit-log-mode=blocking")
        // Else another file begins after 100 MB, and what was written before is not found.
        .arg(format!("--audit-log-maxsize={AUDIT_MEBIBYTES_MAX}"));
    Process::start(command, &dir.join("kube-apiserver.log"))
}
