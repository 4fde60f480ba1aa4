//! Steps 1 and 2: from an empty cluster to a Ready session.

use anyhow::{Context, Result, ensure};

use dormouse_e2e::{bucket::Bucket, kube::Kube};

use super::{
    outside,
    world::{BROKER, SESSION, SYSTEM, TOKEN, WAIT_SECONDS},
};

const MINIO: &str = include_str!("../../manifests/minio.yaml");
const WIDGETS: &str = include_str!("../../manifests/widgets.yaml");
const APP: &str = include_str!("../../manifests/app.yaml");

/// What the product meets in the cluster: an S3 store with a bucket, an HTTP service, an application's account.
pub async fn surroundings(kube: &Kube) -> Result<()> {
    kube.apply(MINIO).await?;
    kube.apply(&WIDGETS.replace("TOKEN}", &format!("{TOKEN}}}"))).await?;
    kube.apply(APP).await?;
    kube.kubectl(&format!("wait --for=condition=Available --timeout={WAIT_SECONDS}s deployment/minio -n storage")).await?;
    kube.kubectl(&format!("wait --for=condition=Available --timeout={WAIT_SECONDS}s deployment/widgets")).await?;
    Bucket::open(kube).await?.create().await
}

/// `helm install`, with more flags, brings up operator and gateway.
pub async fn helm(kube: &Kube, flags: &str) -> Result<()> {
    kube.kubectl(&format!("create namespace {SYSTEM}")).await?;
    kube.helm(&format!(
        "install dormouse charts/dormouse --namespace {SYSTEM} --values e2e/manifests/values.yaml {flags} --wait --timeout {WAIT_SECONDS}s"
    ))
    .await?;
    for deployment in ["dormouse-operator", "dormouse-gateway"] {
        kube.kubectl(&format!("rollout status deployment/{deployment} -n {SYSTEM} --timeout={WAIT_SECONDS}s")).await?;
    }
    Ok(())
}

/// The CRDs are served and read well.
pub async fn crds(kube: &Kube) -> Result<()> {
    let kinds = kube.kubectl("api-resources --api-group=dormouse.dev -o name").await?;
    for kind in ["kernelsessions", "toolbrokers", "kernelpools"] {
        ensure!(kinds.contains(kind), "{kind} is not among {kinds}");
    }
    let text = kube.kubectl("explain kernelsession.spec").await?;
    for sentence in [
        "idleSeconds",
        "Seconds without a request after which the session goes to sleep.",
        "operatingMode",
        "enum: Auto, Running, Hibernated",
    ] {
        ensure!(text.contains(sentence), "`{sentence}` is not in\n{text}");
    }
    Ok(())
}

/// `kubectl apply -f` of the README's own files; the placeholder of the token is replaced as the README says. Then what `fetch` may reach.
pub async fn apply_examples(kube: &Kube) -> Result<()> {
    kube.kubectl("apply -f examples/session.yaml -f examples/toolbroker.yaml").await?;
    for (object, rules) in
        [(format!("toolbroker/{BROKER}"), outside::BROKER_RULES), (format!("kernelsession/{SESSION}"), outside::SESSION_RULES)]
    {
        let patch = format!("{{\"spec\":{{\"egress\":{{\"allow\":{rules}}}}}}}");
        kube.kubectl_args(&["patch", &object, "--type=merge", "-p", &patch]).await?;
    }
    kube.kubectl_args(&["patch", "secret", "widgets", "-p", &format!("{{\"stringData\":{{\"token\":\"{TOKEN}\"}}}}")]).await?;
    kube.wait("condition=Ready", &format!("toolbroker/{BROKER}"), WAIT_SECONDS).await?;
    for kind in ["deployment", "service", "networkpolicy"] {
        let object = kube.get(&format!("{kind} {BROKER}-broker")).await.with_context(|| format!("the broker's {kind}"))?;
        ensure!(object["metadata"]["ownerReferences"][0]["kind"] == "ToolBroker", "{kind} has no owner: {object}");
    }
    kube.wait("condition=Ready", &format!("kernelsession/{SESSION}"), WAIT_SECONDS).await
}
