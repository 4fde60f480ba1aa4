//! An operator, a gateway, a kernel pod and a broker, each a process with the memory that the chart gives it.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use dormouse_client::Client;
use dormouse_e2e::cluster::root;
use dormouse_engine::EngineOptions;
use dormouse_protocol::kernel::KERNEL_PORT;
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, Process as Role, TlsFiles},
};
use dormouse_testkit::{
    apiserver::{ApiServer, Write},
    minio::Minio,
    wait::eventually,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use super::shared::{Shared, binary, limit_of, loopback, shared, shared_within};

/// Kinds of the chart that say what its processes may do, and what becomes of what others write.
const APPLIED: [&str; 9] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];
/// The namespace of operator and gateway.
const SYSTEM: &str = "dormouse-system";
/// The namespace of everybody who behaves.
pub const TENANT: &str = "team";
const BROKER: &str = "tools";
/// Of the ToolBroker.
const SECRET: &str = "keys";
const BUCKET: &str = "sessions";
/// Sessions that may be live, unless a test wants more.
const SLOTS: u64 = 500;
/// What a kernel pod has for each of them at the least.
const SLOT_BYTES: u64 = 768 << 10;

/// See the module.
pub struct Fleet {
    pub operator: Shared,
    pub gateway: Shared,
    pub kernel: Shared,
    pub broker: Shared,
    /// Where the gateway is, and who may do everything there.
    pub url: String,
    pub token: String,
    pub broker_address: SocketAddr,
    /// Where the operator answers for the archive.
    archive: SocketAddr,
    /// What the ToolBroker's Secret holds that nobody may see, by its key.
    pub secrets: Vec<(&'static str, String)>,
    pub server: ApiServer,
    pub minio: Minio,
    ca: Ca,
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// One fleet at a time: what it takes and how fast it answers is measured.
static ALONE: Mutex<()> = Mutex::const_new(());

impl Fleet {
    /// With a ToolBroker that has this service.
    pub async fn start(service: &str) -> Self {
        Self::with_slots(service, SLOTS).await
    }

    /// The same, and so many sessions may be live.
    pub async fn with_slots(service: &str, slots: u64) -> Self {
        Self::with_flags(service, slots, &[]).await
    }

    /// The same, with these flags of the operator.
    pub async fn with_flags(service: &str, slots: u64, flags: &[&str]) -> Self {
        let alone = ALONE.lock().await;
        dormouse_service::telemetry::install_tls_provider();
        let (server, minio) = tokio::try_join!(ApiServer::start(), Minio::start()).unwrap();
        minio.create_bucket(BUCKET).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let keys = minio.credentials();
        write(&at.join("s3"), &[("accessKeyId", &keys.access_key_id), ("secretAccessKey", &keys.secret_access_key)]);
        chart(&server, at);
        let mut operator = Command::new(binary("dormouse-operator"));
        operator.env("KUBECONFIG", account(&server, at, "dormouse-operator"));
        operator.args(["--pod=operator", "--kernel-image=k", "--broker-image=b", "--orphan-sweep-interval-seconds=0"]);
        let archive = loopback();
        operator.args(flags).arg("--archive-listen").arg(archive.to_string());
        let operator = shared("operator", storage(operator, &minio, at), at);
        let ca = authority(&server, &operator).await;
        for (role, namespace, name) in [(Role::Gateway, SYSTEM, "gateway"), (Role::Broker, TENANT, BROKER)] {
            certificate(&ca, &Identity::new(role, namespace, name), &at.join(name));
        }
        let broker_address = loopback();
        let secrets = canaries();
        std::fs::create_dir(at.join("secrets")).unwrap();
        let plain = [("user", "u"), ("clientId", "c")];
        let keys: Vec<(&str, &str)> = secrets.iter().map(|(key, value)| (*key, value.as_str())).chain(plain).collect();
        write(&at.join("secrets").join(SECRET), &keys);
        let literals: Vec<String> = keys.iter().map(|(key, value)| format!("--from-literal={key}={value}")).collect();
        let create = ["create", "secret", "generic", SECRET, "-n", TENANT];
        server.kubectl(&create.into_iter().chain(literals.iter().map(String::as_str)).collect::<Vec<_>>()).unwrap();
        let broker = start_broker(service, broker_address, &minio, &server, at).await;
        let kernel = start_kernel(&server, ("kernel", 1), slots, broker_address, &minio, &ca, at).await;
        let (gateway, url) = start_gateway("gateway", &server, broker_address, archive, at).await;
        server.kubectl(&["create", "serviceaccount", "user", "-n", TENANT]).unwrap();
        let user = format!("--serviceaccount={TENANT}:user");
        server.kubectl(&["create", "clusterrolebinding", "user", "--clusterrole=cluster-admin", &user]).unwrap();
        let token = server.kubectl(&["create", "token", "user", "-n", TENANT, "--audience=dormouse", "--duration=8h"]).unwrap();
        let token = token.trim().to_owned();
        Self { operator, gateway, kernel, broker, url, token, broker_address, archive, secrets, server, minio, ca, folder, _alone: alone }
    }

    /// Another gateway beside the first, and where it is.
    pub async fn second_gateway(&self) -> (Shared, String) {
        start_gateway("second-gateway", &self.server, self.broker_address, self.archive, self.folder.path()).await
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url, TENANT, Some(&self.token)).unwrap()
    }

    pub fn processes(&mut self) -> [&mut Shared; 4] {
        [&mut self.operator, &mut self.gateway, &mut self.kernel, &mut self.broker]
    }

    /// One more kernel pod of the pool `default`, at the address of this number. It ends when this is dropped; its Pod stays.
    pub async fn another_kernel(&self, pod: &'static str, number: u8) -> Shared {
        start_kernel(&self.server, (pod, number), SLOTS, self.broker_address, &self.minio, &self.ca, self.folder.path()).await
    }

    /// What a kernel pod of this name has to show who it is, for one that is made up.
    pub fn kernel_certificate(&self, namespace: &str, name: &str) -> TlsFiles {
        TlsFiles::from_pem(&self.ca.issue(&[Identity::kernel(namespace, "default", name).dns_name()], LEAF_VALIDITY).unwrap()).unwrap()
    }

    /// A Pod of the pool `default` that runs at this address.
    pub fn kernel_pod(&self, namespace: &str, name: &str, address: IpAddr) {
        kernel_pod(&self.server, self.folder.path(), namespace, name, address);
    }
}

/// What was written since, by whom and of what, but for leases. Questions about rights are not stored.
pub fn written(fleet: &Fleet, since: usize) -> BTreeMap<String, usize> {
    written_of(fleet, since, |_| true)
}

/// The same of some writes.
pub fn written_of(fleet: &Fleet, since: usize, of: impl Fn(&Write) -> bool) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for write in fleet.server.writes().unwrap().into_iter().skip(since).filter(of) {
        // A conflict is no write.
        if write.code >= 300 || ["leases", "tokenreviews", "subjectaccessreviews"].contains(&write.resource.as_str()) {
            continue;
        }
        let who = write.user.rsplit(':').next().unwrap_or_default().to_owned();
        *kinds.entry(format!("{who}: {} {}", write.verb, write.resource)).or_default() += 1;
    }
    kinds
}

/// A secret of each kind that a ToolBroker takes from one.
fn canaries() -> Vec<(&'static str, String)> {
    let of = |key: &str| format!("canary-{key}-{:016x}", RandomState::new().hash_one(key));
    let plain = ["token", "header", "extra", "password", "clientSecret", "hook", "model", "mcp"].map(|key| (key, of(key)));
    plain.into_iter().chain([("signing", format!("whsec_{}", STANDARD.encode(of("signing"))))]).collect()
}

/// A Pod that runs at this address, as the API server shows it.
fn kernel_pod(server: &ApiServer, folder: &Path, namespace: &str, name: &str, address: IpAddr) {
    let labels = json!({"dormouse.dev/component": "kernel", "dormouse.dev/pool": "default"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "kernel", "image": "k"}]}});
    apply(server, folder, &pod.to_string());
    let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let args = ["patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", &status.to_string()];
    server.kubectl(&args).unwrap();
}

/// An address of loopback that is nobody else's: kernel pods all listen on one port.
pub fn pod_address(number: u8) -> IpAddr {
    let process = std::process::id().to_le_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 128 | process[1], process[0], number))
}

fn apply(server: &ApiServer, folder: &Path, text: &str) {
    let file = folder.join("object.yaml");
    std::fs::write(&file, text).unwrap();
    server.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]).unwrap();
}

/// Kinds, namespaces and rights.
fn chart(server: &ApiServer, folder: &Path) {
    server.kubectl(&["apply", "-f", root().join("crds/yaml").to_str().unwrap()]).unwrap();
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).unwrap();
    for namespace in [SYSTEM, TENANT] {
        server.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    let mut helm = Command::new(dormouse_testkit::tools::path("helm").unwrap());
    helm.args(["template", "dormouse", "charts/dormouse", "--namespace", SYSTEM, "--set", "operator.archive=true"]);
    helm.args(["--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"]);
    let output = helm.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = String::from_utf8(output.stdout).unwrap();
    let is_applied = |document: &&str| APPLIED.iter().any(|kind| document.lines().any(|line| line == format!("kind: {kind}")));
    apply(server, folder, &manifest.split("\n---\n").filter(is_applied).collect::<Vec<_>>().join("\n---\n"));
}

/// A kubeconfig of a ServiceAccount of the chart.
fn account(server: &ApiServer, folder: &Path, name: &str) -> PathBuf {
    let token = server.kubectl(&["create", "token", name, "-n", SYSTEM, "--duration=8h"]).unwrap();
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap().replace(server.admin_token(), token.trim());
    let path = folder.join(format!("{name}.kubeconfig"));
    std::fs::write(&path, text).unwrap();
    path
}

/// The authority that the operator has made.
async fn authority(server: &ApiServer, operator: &Shared) -> Ca {
    let field = |key: &str| {
        let path = format!("jsonpath={{.data.{}}}", key.replace('.', "\\."));
        let text = server.kubectl(&["get", "secret", "dormouse-ca", "-n", SYSTEM, "--ignore-not-found", "-o", &path]).unwrap();
        String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
    };
    eventually(&format!("an authority is made\n{}", operator.process.output()), async || !field("ca.key").is_empty()).await;
    Ca::from_pem(&field("ca.crt"), &field("ca.key")).unwrap()
}

fn certificate(ca: &Ca, identity: &Identity, folder: &Path) {
    let pem = ca.issue(&[identity.dns_name()], LEAF_VALIDITY).unwrap();
    write(folder, &[("ca.crt", &pem.ca), ("tls.crt", &pem.cert), ("tls.key", &pem.key)]);
}

async fn start_broker(service: &str, listen: SocketAddr, minio: &Minio, server: &ApiServer, folder: &Path) -> Shared {
    let key = |key: &str| json!({"name": SECRET, "key": key});
    let bearer = |name: &str| json!({"type": "bearer", "secretRef": key(name)});
    let whole = json!({"name": SECRET});
    let guarded = |name: &str, auth: Value| {
        let extra = json!([{"name": "X-Extra", "secretRef": key("extra")}]);
        json!({"name": name, "baseUrl": service, "allowedMethods": ["POST"], "auth": auth, "secretHeaders": extra})
    };
    let services = [
        json!({"name": "outside", "baseUrl": service, "allowedMethods": ["GET", "POST"]}),
        guarded("guarded", bearer("token")),
        guarded("header", json!({"type": "header", "headerName": "X-Api-Key", "secretRef": key("header")})),
        guarded("basic", json!({"type": "basic", "secretRef": whole})),
        guarded("oauth", json!({"type": "oauth2ClientCredentials", "tokenUrl": format!("{service}/token"), "secretRef": whole})),
        guarded("hook", json!({"type": "custom", "hook": {"url": format!("{service}/hook"), "secretRef": key("hook")}})),
    ];
    let tool = |name: &str, method: &str| json!({"name": name, "service": "outside", "method": method, "path": format!("/{name}")});
    let mut tools: Vec<Value> = ["echo", "hang", "endless", "large", "pay", "show", "refuse"]
        .map(|name| match name {
            "endless" | "large" => tool(name, "GET"),
            _ => tool(name, "POST"),
        })
        .into();
    // One whose answer is read whole, and one that waits for a person.
    tools[3]["output"] = json!({"type": "string"});
    tools[4]["approval"] = json!("Always");
    // Two whose service says what it was sent.
    tools[5]["service"] = json!("guarded");
    tools[6]["service"] = json!("guarded");
    // One for each other kind of credentials, and one that is given up.
    for of in ["header", "basic", "oauth", "hook"] {
        tools.push(json!({"name": format!("show-{of}"), "service": of, "method": "POST", "path": "/show"}));
    }
    // One that pays without asking.
    tools.push(json!({"name": "charge", "service": "outside", "method": "POST", "path": "/pay"}));
    tools.push(json!({"name": "stuck", "service": "guarded", "method": "POST", "path": "/hang", "timeoutMs": 200}));
    // Neither has a service: what the API server checks must not ask for one.
    tools.push(json!({"name": "hand-over", "runner": {"capability": "any"}}));
    tools.push(json!({"name": "sign", "webhook": {"url": format!("{service}/show"), "secretRef": key("signing")}}));
    let models = json!([{"name": "lab", "api": "openai", "baseUrl": service, "model": "m", "auth": bearer("model")}]);
    let servers = json!([{"name": "far", "url": format!("{service}/mcp"), "auth": bearer("mcp")}]);
    let spec = json!({"services": services, "tools": tools, "models": models, "mcpServers": servers});
    std::fs::write(folder.join("broker.yaml"), spec.to_string()).unwrap();
    let object = json!({"apiVersion": "dormouse.dev/v1alpha1", "kind": "ToolBroker",
        "metadata": {"name": BROKER, "namespace": TENANT}, "spec": spec});
    apply(server, folder, &object.to_string());
    let mut command = Command::new(binary("dormouse-broker"));
    command.args(["--namespace", TENANT, "--name", BROKER, "--listen", &listen.to_string()]);
    command.arg("--config").arg(folder.join("broker.yaml")).arg("--tls-dir").arg(folder.join(BROKER));
    command.arg("--secrets-dir").arg(folder.join("secrets"));
    let broker = shared("broker", storage(command, minio, folder), folder);
    broker.ready().await;
    broker
}

/// A kernel pod of this name, at the address of this number.
async fn start_kernel(
    server: &ApiServer,
    (pod, number): (&'static str, u8),
    slots: u64,
    broker: SocketAddr,
    minio: &Minio,
    ca: &Ca,
    folder: &Path,
) -> Shared {
    let (mut command, address) = (Command::new(binary("dormouse-kernel")), pod_address(number));
    certificate(ca, &Identity::kernel(TENANT, "default", pod), &folder.join(pod));
    command.args(["--namespace", TENANT, "--pod", pod, "--slots", &slots.to_string(), "--broker-address", &broker.to_string()]);
    command.arg("--listen").arg(SocketAddr::from((address, KERNEL_PORT)).to_string());
    command.arg("--tls-dir").arg(folder.join(pod));
    command.arg("--engine-cache-dir").arg(EngineOptions::for_user().cache_dir.unwrap());
    // A pool with more slots than usual says how much its pods need.
    let limit_bytes = limit_of("kernel").max(slots * SLOT_BYTES);
    let kernel = shared_within(limit_bytes, pod, storage(command, minio, folder), folder);
    kernel.ready().await;
    kernel_pod(server, folder, TENANT, pod, address);
    kernel
}

async fn start_gateway(name: &'static str, server: &ApiServer, broker: SocketAddr, archive: SocketAddr, folder: &Path) -> (Shared, String) {
    let (mut command, listen) = (Command::new(binary("dormouse-gateway")), loopback());
    command.env("KUBECONFIG", account(server, folder, "dormouse-gateway"));
    command.args(["--listen", &listen.to_string(), "--broker-address", &broker.to_string()]);
    command.args(["--operator-address", &archive.to_string()]).arg("--tls-dir").arg(folder.join("gateway"));
    let gateway = shared_within(limit_of("gateway"), name, command, folder);
    gateway.ready().await;
    (gateway, format!("http://{listen}"))
}

fn storage(mut command: Command, minio: &Minio, folder: &Path) -> Command {
    command.args(["--s3-endpoint", &minio.endpoint(), "--s3-bucket", BUCKET, "--s3-region", minio.region()]);
    command.arg("--s3-credentials-dir").arg(folder.join("s3"));
    command
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir(folder).unwrap();
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
}
