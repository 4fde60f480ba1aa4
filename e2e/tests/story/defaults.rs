//! Steps 10 to 12: the chart as it comes, in a cluster that has nothing of it any more. HTTPS, `helm test`, shards, the archive, restricted namespaces.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;

use dormouse_protocol::session::State;

use dormouse_e2e::{bucket::Bucket, kube::Kube};

use super::{
    door::Door,
    world::{SYSTEM, TOKEN, WAIT_SECONDS},
};

/// The chart's values.
pub const VALUES: &str = "e2e/manifests/defaults.yaml";
/// Namespaces of two shards, one each: of what their names hash to, the last bit differs.
pub const TEAMS: [&str; 2] = ["team-a", "team-b"];
/// A session of each that leaves etcd, and one with a ToolBroker.
const SLEEPER: &str = "sleeper";
pub const HELPED: &str = "helped";
/// What the pools of tenants name in `manifests/tenant.yaml`.
const BUCKET_OF_TENANTS: &str = "tenants";

const TEAM: &str = include_str!("../../manifests/team.yaml");
/// Pause between two looks.
const POLL: Duration = Duration::from_millis(100);

/// The product, and where it stores.
pub struct Installed<'a> {
    pub kube: &'a Kube,
    pub door: Door,
    pub bucket: Bucket,
    /// That pools name.
    pub tenants: Bucket,
}

impl<'a> Installed<'a> {
    /// Clients of what is there.
    pub async fn new(kube: &'a Kube) -> Result<Self> {
        let (bucket, tenants) = (Bucket::open(kube).await?, Bucket::named(kube, BUCKET_OF_TENANTS).await?);
        Ok(Self { kube, door: Door::new(kube).await?, bucket, tenants })
    }
}

/// As the page says, in a namespace that takes restricted pods only. Each shard has an operator then.
pub async fn install(kube: &Kube) -> Result<()> {
    kube.kubectl(&format!("create namespace {SYSTEM}")).await?;
    kube.kubectl(&format!("label namespace {SYSTEM} pod-security.kubernetes.io/enforce=restricted")).await?;
    let key = "--from-literal=accessKeyId=story-access --from-literal=secretAccessKey=story-secret-key";
    kube.kubectl(&format!("create secret generic dormouse-storage -n {SYSTEM} {key}")).await?;
    let flags = format!("-n {SYSTEM} --values {VALUES} --wait --timeout {WAIT_SECONDS}s");
    kube.helm(&format!("install dormouse charts/dormouse {flags}")).await?;
    let operators = leaders(kube).await?;
    ensure!(operators.len() == 2, "two shards, and of three operators these work: {operators:?}");
    Ok(())
}

/// Pods of the operators that work.
async fn leaders(kube: &Kube) -> Result<BTreeSet<String>> {
    let mut leaders = BTreeSet::new();
    for lease in ["dormouse-operator", "dormouse-operator-1"] {
        let lease = format!("lease/{lease} -n {SYSTEM}");
        kube.wait("create", &lease, WAIT_SECONDS).await?;
        kube.wait("jsonpath={.spec.holderIdentity}", &lease, WAIT_SECONDS).await?;
        let lease = kube.get(&lease).await?;
        ensure!(lease["metadata"]["annotations"]["dormouse.dev/shards"] == "2", "{lease}");
        leaders.insert(lease["spec"]["holderIdentity"].as_str().context("holderIdentity")?.to_owned());
    }
    Ok(leaders)
}

/// `helm test`, with an image that the release has anyhow.
pub async fn helm_test(kube: &Kube) -> Result<()> {
    let hooks = kube.helm(&format!("get hooks dormouse -n {SYSTEM}")).await?;
    ensure!(hooks.contains("image: localhost/dormouse-gateway:dev"), "{hooks}");
    let told = match kube.helm(&format!("test dormouse -n {SYSTEM} --timeout {WAIT_SECONDS}s")).await {
        Ok(told) => told,
        Err(error) => {
            let log = kube.kubectl(&format!("logs dormouse-test -n {SYSTEM}")).await.unwrap_or_else(|error| error.to_string());
            return Err(error.context(log));
        }
    };
    // Without a test in the chart helm is content, too.
    ensure!(told.contains("dormouse-test") && told.contains("Succeeded"), "{told}");
    Ok(())
}

/// What is made of sessions and brokers runs where the cluster takes restricted pods only.
pub async fn teams(kube: &Kube) -> Result<()> {
    let manifests = TEAMS.map(|team| TEAM.replace("TEAM", team).replace("TOKEN", TOKEN));
    kube.apply(&manifests.join("\n---\n")).await?;
    for team in TEAMS {
        kube.wait("condition=Ready", &format!("toolbroker/tools -n {team}"), WAIT_SECONDS).await?;
        for session in [SLEEPER, HELPED] {
            kube.wait("condition=Ready", &format!("kernelsession/{session} -n {team}"), WAIT_SECONDS).await?;
        }
        // A pod may be followed by another meanwhile.
        for deployment in ["dormouse-kernel-default", "tools-broker"] {
            kube.wait("condition=Available", &format!("deployment/{deployment} -n {team}"), WAIT_SECONDS).await?;
        }
        let other = kube.kubectl(&format!("run other -n {team} --image=localhost/app:1 --dry-run=server")).await;
        ensure!(other.as_ref().is_err_and(|error| error.to_string().contains("violates PodSecurity")), "it takes any pod: {other:?}");
    }
    Ok(())
}

/// A client that trusts the authority runs cells of both namespaces. Plain HTTP is refused.
pub async fn https(installed: &Installed<'_>) -> Result<()> {
    let door = &installed.door;
    for team in TEAMS {
        ensure!(door.value(team, SLEEPER, "let n = 41; const next = () => ++n; n").await? == 41);
        let widget = "(await callTool(\"getWidget\", { id: \"w1\" })).name";
        ensure!(door.value(team, HELPED, widget).await? == "Widget w1");
    }
    door.refuses_plain_http().await
}

/// A session of each namespace is in the archive only, and is listed. Each was the work of another operator.
pub async fn archived(installed: &Installed<'_>) -> Result<()> {
    try_join_all(TEAMS.map(|team| leaves(installed, team))).await?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    for operator in leaders(installed.kube).await? {
        let pod = installed.kube.get(&format!("pod {operator} -n {SYSTEM}")).await?;
        let address = pod["status"]["podIP"].as_str().context("podIP")?;
        let metrics = http.get(format!("http://{address}:8080/metrics")).send().await?.error_for_status()?.text().await?;
        let count = metrics.lines().find_map(|line| line.strip_prefix("dormouse_operator_sessions_archived_total "));
        ensure!(count == Some("1"), "{operator} has archived {count:?}");
    }
    Ok(())
}

/// A pod that ends tells all that it has stored, so a session of it need not be read again before it leaves etcd.
async fn leaves(installed: &Installed<'_>, team: &str) -> Result<()> {
    let Installed { kube, door, .. } = installed;
    kube.kubectl(&format!("delete pod -n {team} -l dormouse.dev/component=kernel --timeout={WAIT_SECONDS}s")).await?;
    until("it has no pod", async || {
        let session = kube.get(&format!("kernelsession {SLEEPER} -n {team}")).await?;
        Ok(session["status"]["placement"].is_null())
    })
    .await?;
    set_archive_after(kube, team, 1).await?;
    kube.wait("delete", &format!("kernelsession/{SLEEPER} -n {team}"), WAIT_SECONDS).await?;
    until("it is listed as archived", async || {
        let listed = door.list(team).await?;
        let is_listed = listed.iter().any(|session| session.name == SLEEPER && session.state == State::Archived);
        Ok(is_listed && door.session(team, SLEEPER).await?.state == State::Archived)
    })
    .await
}

/// A cell brings it back as what it was.
pub async fn returned(installed: &Installed<'_>) -> Result<()> {
    let Installed { kube, door, .. } = installed;
    for team in TEAMS {
        let id = door.session(team, SLEEPER).await?.id;
        ensure!(door.value(team, SLEEPER, "next()").await? == 42);
        ensure!(door.session(team, SLEEPER).await?.id == id, "it is another session");
        set_archive_after(kube, team, 0).await?;
    }
    Ok(())
}

async fn set_archive_after(kube: &Kube, team: &str, seconds: u64) -> Result<()> {
    let patch = format!("{{\"spec\":{{\"archiveAfterSeconds\":{seconds}}}}}");
    kube.kubectl_args(&["patch", "kernelsession", SLEEPER, "-n", team, "--type=merge", "-p", &patch]).await?;
    Ok(())
}

/// Looks until it is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(u64::from(WAIT_SECONDS));
    while !is_so().await.with_context(|| what.to_owned())? {
        ensure!(Instant::now() < deadline, "after {WAIT_SECONDS} s it is not so: {what}");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
