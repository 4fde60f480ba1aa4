//! The gateway's process in a cluster: flags in, everything wired, served until told to stop.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use dormouse_protocol::broker::BROKER_PORT;
use dormouse_service::{
    AdminArgs, Readiness, TlsArgs,
    admin::AdminServer,
    memory::{Memory, MemoryArgs},
    tls::{DoorCertificate, PeerClient, TlsFiles},
};
use dormouse_watch::{WatchArgs, WatchScope};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    Directory, Gateway, Kernels,
    auth::{keys::objects::KeyObjects, kubernetes::KubernetesAuthenticator, oidc},
    directory::{archive::ArchiveClient, kubernetes::KubernetesDirectory},
    links::Links,
    objects::ApprovalObjects,
    origins::Origins,
    peers::{Peers, follow},
    tally::Tally,
};

/// How often readiness is looked at while something is missing, and how often a missing certificate.
const READY_POLL: Duration = Duration::from_millis(250);
/// How long a check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between becoming unready and closing the listener: whoever sends here, such as kube-proxy or an ingress, has stopped by then, and clients that
/// keep a connection have been told to make another.
const LEAVE_PAUSE: Duration = Duration::from_secs(5);

/// Flags; each is an environment variable too.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "dormouse-gateway", version, about = "Routes a session's name to its pod, authenticates, wakes.")]
pub struct Args {
    /// Address of the HTTP API.
    #[arg(long, env = "DORMOUSE_LISTEN", default_value = "0.0.0.0:7777")]
    pub listen: SocketAddr,
    /// What it looks after.
    #[command(flatten)]
    pub scope: WatchArgs,
    /// The audience that callers' tokens must be meant for.
    #[arg(long, env = "DORMOUSE_TOKEN_AUDIENCE", default_value = "dormouse")]
    pub token_audience: String,
    /// Address of a ToolBroker; {name} and {namespace} are replaced.
    #[arg(long, env = "DORMOUSE_BROKER_ADDRESS", default_value_t = format!("{{name}}-broker.{{namespace}}.svc:{BROKER_PORT}"))]
    pub broker_address: String,
    /// Address of the operator, who keeps sessions that have left etcd; without it none of them is found.
    #[arg(long, env = "DORMOUSE_OPERATOR_ADDRESS", value_name = "HOST:PORT")]
    pub operator_address: Option<String>,
    /// How much memory there is.
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// Folder with tls.crt and tls.key of the HTTP API, read again when they change; without it the API is plain HTTP.
    #[arg(long, env = "DORMOUSE_DOOR_TLS_DIR", value_name = "FOLDER")]
    pub door_tls_dir: Option<PathBuf>,
    /// The gateway's own pod, by which it knows itself among the pods of --service.
    #[arg(long, env = "DORMOUSE_POD_NAME", value_name = "POD", requires = "service")]
    pub pod_name: Option<String>,
    /// The Service of the gateways, in the namespace of their certificates: they share what nobody asked for, such as timers. Without it each tries all.
    #[arg(long, env = "DORMOUSE_SERVICE", value_name = "SERVICE", requires = "pod_name")]
    pub service: Option<String>,
    /// Address at which the gateways of --service answer each other, with the same port for all of them: one counts for all what KernelQuotas limit exactly.
    /// Without it each counts for itself.
    #[arg(long, env = "DORMOUSE_PEERS_LISTEN", value_name = "ADDRESS", requires = "service")]
    pub peers_listen: Option<SocketAddr>,
    /// Namespace of the gateway's own, where API keys are kept; without it there are none.
    #[arg(long, env = "DORMOUSE_KEYS_NAMESPACE", value_name = "NAMESPACE")]
    pub keys_namespace: Option<String>,
    /// Origins of web pages that may call, such as https://app.example; several with commas between them. None by default.
    #[arg(long, env = "DORMOUSE_ALLOWED_ORIGINS", value_name = "ORIGINS", value_delimiter = ',')]
    pub allowed_origins: Vec<String>,
    /// URL under which clients reach the API; without it, the name that they call it by.
    #[arg(long, env = "DORMOUSE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// Tokens of an OpenID Connect issuer.
    #[command(flatten)]
    pub oidc: OidcArgs,
    /// File with the key of links to calls that wait, 32 random bytes or more, the same for all replicas; without it there are no links.
    #[arg(long, env = "DORMOUSE_LINKS_KEY_FILE", value_name = "FILE", requires = "public_url")]
    pub links_key_file: Option<PathBuf>,
    /// Only ask whether the gateway at this URL answers, and end: 0 if it does.
    #[arg(long, value_name = "URL")]
    pub check: Option<String>,
    /// File with the authority of that gateway's certificate, where it is no public one.
    #[arg(long, value_name = "FILE", requires = "check")]
    pub check_ca: Option<PathBuf>,
    /// Probes and metrics.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Certificate towards kernel pods.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// Flags of the OpenID Connect issuer whose tokens are taken.
#[derive(Debug, Clone, clap::Args)]
pub struct OidcArgs {
    /// URL of the issuer, as its tokens' `iss` has it; without it only Kubernetes' tokens and API keys are taken.
    #[arg(long, env = "DORMOUSE_OIDC_ISSUER", value_name = "URL")]
    pub oidc_issuer: Option<String>,
    /// Audiences of which a token's `aud` names one; several with commas between them.
    #[arg(long, env = "DORMOUSE_OIDC_AUDIENCES", value_name = "AUDIENCES", value_delimiter = ',', default_value = "dormouse")]
    pub oidc_audiences: Vec<String>,
    /// The claim that names the user; dots lead into objects.
    #[arg(long, env = "DORMOUSE_OIDC_USER_CLAIM", value_name = "CLAIM", default_value = "sub")]
    pub oidc_user_claim: String,
    /// What stands before the user's name, for Roles and logs.
    #[arg(long, env = "DORMOUSE_OIDC_USER_PREFIX", value_name = "PREFIX", default_value = "oidc:")]
    pub oidc_user_prefix: String,
    /// The claim that names the user's groups; dots lead into objects.
    #[arg(long, env = "DORMOUSE_OIDC_GROUPS_CLAIM", value_name = "CLAIM", default_value = "groups")]
    pub oidc_groups_claim: String,
    /// What stands before each group's name.
    #[arg(long, env = "DORMOUSE_OIDC_GROUPS_PREFIX", value_name = "PREFIX", default_value = "oidc:")]
    pub oidc_groups_prefix: String,
    /// File with the authorities of the issuer's certificate, where they are no public ones.
    #[arg(long, env = "DORMOUSE_OIDC_CA", value_name = "FILE")]
    pub oidc_ca: Option<PathBuf>,
}

impl OidcArgs {
    /// What the flags say, if they name an issuer.
    ///
    /// # Errors
    /// The file of authorities cannot be read.
    pub fn settings(&self) -> anyhow::Result<Option<oidc::Settings>> {
        let Some(issuer) = self.oidc_issuer.clone().filter(|issuer| !issuer.is_empty()) else { return Ok(None) };
        let authorities = match &self.oidc_ca {
            Some(file) => Some(std::fs::read(file).with_context(|| format!("--oidc-ca {}", file.display()))?),
            None => None,
        };
        let claim = |name: &String, prefix: &String| oidc::Claim { name: name.clone(), prefix: prefix.clone() };
        let (user, groups) =
            (claim(&self.oidc_user_claim, &self.oidc_user_prefix), claim(&self.oidc_groups_claim, &self.oidc_groups_prefix));
        Ok(Some(oidc::Settings { issuer, audiences: self.oidc_audiences.clone(), user, groups, authorities }))
    }
}

/// Runs until `shutdown`.
pub async fn run(args: Args, shutdown: CancellationToken) -> anyhow::Result<()> {
    if let Some(url) = &args.check {
        return check(url, args.check_ca.as_deref()).await;
    }
    let readiness = Readiness::new();
    let (caches, tls_gate) = (readiness.gate("caches"), readiness.gate("tls"));
    let registry = dormouse_service::Metrics::new();
    // Probes answer before anything that may have to be waited for.
    let _admin = AdminServer::start(&args.admin, readiness.clone(), registry.clone()).await.context("cannot listen for probes")?;
    let scope = WatchScope::from(&args.scope);
    let client = kube::Client::try_default().await.context("no access to a Kubernetes API server: run in a pod, or set KUBECONFIG")?;
    let Some(tls) = wait_for_tls(&args.tls, &tls_gate, &shutdown).await else { return Ok(()) };
    tls_gate.ready();
    // What the watch serves must outlive the requests that are under way at the end.
    let watching = CancellationToken::new();
    let system_namespace = tls.identity().namespace.clone();
    let peers = PeerClient::new(tls.clone())?;
    let operator = args.operator_address.filter(|address| !address.is_empty());
    let archive = operator.map(|address| ArchiveClient::new(peers.clone(), &system_namespace, address));
    let directory = KubernetesDirectory::start_with(client.clone(), scope.clone(), archive, &watching);
    let objects_client = client.clone();
    let kernels = Kernels::new(peers.clone()).with_brokers(args.broker_address);
    let authenticator = Arc::new(KubernetesAuthenticator::new(client.clone(), args.token_audience));
    let mut gateway = Gateway::with_metrics(Arc::clone(&directory) as Arc<dyn Directory>, kernels, authenticator, registry);
    gateway = gateway.within(Memory::of_process(&args.memory));
    if let Some(url) = args.public_url.as_deref().filter(|url| !url.is_empty()) {
        let read = dormouse_service::url::plain(url);
        anyhow::ensure!(read.is_some(), "--public-url `{url}` is no URL of http or https without query and fragment");
        gateway = gateway.with_public_url(url);
        if let Some(file) = &args.links_key_file {
            let key = std::fs::read(file).with_context(|| format!("--links-key-file {}", file.display()))?;
            gateway = gateway.with_links(Links::new(&key, url).context("--links-key-file")?);
        }
    }
    if let Some(settings) = args.oidc.settings()? {
        gateway = gateway.with_oidc(settings).context("--oidc-issuer")?;
    }
    if let (Some(pod), Some(service)) = (&args.pod_name, args.service) {
        let (members, tell) = Peers::new(pod);
        if let Some(address) = args.peers_listen {
            gateway = gateway.with_tally(Tally::shared(members.clone(), peers, &system_namespace, address.port()));
        }
        gateway = gateway.with_peers(members);
        let (client, namespace) = (client.clone(), system_namespace.clone());
        let rollbacks = directory.rollbacks();
        tokio::spawn(
            watching.clone().run_until_cancelled_owned(async move { follow(client, &namespace, &service, rollbacks, tell).await }),
        );
    }
    if let Some(namespace) = &args.keys_namespace {
        gateway = gateway.with_keys(Arc::new(KeyObjects::new(client, namespace)));
    }
    let origins = args.allowed_origins.iter().map(String::as_str).filter(|origin| !origin.is_empty());
    gateway = gateway.with_origins(Origins::new(origins).context("--allowed-origins")?);
    if let Some(folder) = &args.door_tls_dir {
        let certificate = DoorCertificate::load(folder).with_context(|| format!("--door-tls-dir {}", folder.display()))?;
        gateway = gateway.with_certificate(certificate);
    }
    if let Some(address) = args.peers_listen {
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        tokio::spawn(gateway.serve_peers(tls, listener, watching.clone()));
    }
    let watched = Arc::clone(&directory) as Arc<dyn Directory>;
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    tokio::spawn(shutdown.clone().run_until_cancelled_owned(async move {
        loop {
            match directory.pending().as_slice() {
                [] => return caches.ready(),
                missing => caches.not_ready(missing.join("; ")),
            }
            tokio::time::sleep(READY_POLL).await;
        }
    }));
    let objects = ApprovalObjects::new(objects_client, scope, Arc::clone(&watched), Arc::new(gateway.router().clone()));
    tokio::spawn(watching.clone().run_until_cancelled_owned(objects.run()));
    tracing::info!(address = %args.listen, "serving");
    gateway = gateway.leaving_with(shutdown.clone());
    let closing = CancellationToken::new();
    tokio::spawn({
        let closing = closing.clone();
        async move {
            shutdown.cancelled().await;
            readiness.stopping();
            tokio::time::sleep(LEAVE_PAUSE).await;
            closing.cancel();
        }
    });
    gateway.serve(listener, closing).await;
    watching.cancel();
    Ok(())
}

/// The operator makes the certificate; until it has, the gateway waits and says so.
async fn wait_for_tls(args: &TlsArgs, gate: &dormouse_service::Gate, shutdown: &CancellationToken) -> Option<TlsFiles> {
    loop {
        match TlsFiles::load(&args.tls_dir) {
            Ok(tls) => return Some(tls),
            Err(error) => gate.not_ready(format!("no certificate yet, the operator makes it: {error}")),
        }
        shutdown.run_until_cancelled(tokio::time::sleep(READY_POLL)).await?;
    }
}

/// Whether the gateway at `url` answers, as a client meets it.
///
/// # Errors
/// It does not.
pub async fn check(url: &str, ca: Option<&std::path::Path>) -> anyhow::Result<()> {
    let mut client = reqwest::Client::builder().timeout(CHECK_TIMEOUT);
    if let Some(file) = ca {
        let pem = std::fs::read(file).with_context(|| format!("--check-ca {}", file.display()))?;
        client =
            client.tls_certs_only(reqwest::Certificate::from_pem_bundle(&pem).with_context(|| format!("--check-ca {}", file.display()))?);
    }
    let url = format!("{}/openapi.json", url.trim_end_matches('/'));
    let answer = client.build()?.get(&url).send().await.with_context(|| format!("{url} does not answer"))?;
    let status = answer.status();
    anyhow::ensure!(status.is_success(), "{url} answers {status}");
    tracing::info!(url, "the gateway answers");
    Ok(())
}
