//! What quotas stop and what their status says, on a real API server.

use std::{path::Path, sync::Arc};

use dormouse_gateway::{
    Directory, Gateway,
    auth::loopback::Loopback,
    directory::{DirectoryError, Key, kubernetes::KubernetesDirectory},
};
use dormouse_testkit::{apiserver::ApiServer, wait::eventually};
use dormouse_watch::WatchScope;
use tokio_util::sync::CancellationToken;

use super::{apply, new, quota};
use crate::support::Trust;

/// Nobody asks the gateway for anything here.
pub async fn what_a_quota_says_follows_what_there_is(server: &ApiServer, directory: &Arc<KubernetesDirectory>) {
    server.kubectl(&["create", "namespace", "limited"]).unwrap();
    let quota = |name: &str, spec: &str| apply(server, &quota("limited", name, spec)).unwrap();
    quota("one", "{sessions: 5, storedBytes: 100}");
    quota("two", "{sessions: 2}");
    let shutdown = CancellationToken::new();
    let kernels = Trust::new().kernels();
    let gateway = Gateway::new(Arc::clone(directory) as Arc<dyn Directory>, kernels, Arc::new(Loopback::default()));
    let following = tokio::spawn(gateway.follow_quotas(shutdown.clone()));
    let status = |name: &str| -> serde_json::Value {
        let shown = server.kubectl(&["get", "kq", name, "-n", "limited", "-o", "jsonpath={.status}"]).unwrap();
        serde_json::from_str(&shown).unwrap_or_default()
    };
    let says = |name: &str, used: serde_json::Value, exceeded: &str| {
        let status = status(name);
        status["used"] == used && status["conditions"][0]["status"] == exceeded
    };
    let json = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let both = async |one: (&str, &str), two: (&str, &str)| says("one", json(one.0), one.1) && says("two", json(two.0), two.1);
    let nothing = (r#"{"sessions":0,"storedBytes":0}"#, "False");
    eventually("quotas that nobody has used say so", async || both(nothing, (r#"{"sessions":0}"#, "False")).await).await;

    let keys = ["a", "b"].map(|name| Key::new("limited", name));
    for key in &keys {
        directory.create(new(key)).await.unwrap();
    }
    eventually("the limit that is reached is told", async || says("two", json(r#"{"sessions":2}"#), "True")).await;
    assert_eq!(status("two")["conditions"][0]["message"], "sessions: 2 of 2 are used");
    assert_eq!(status("one")["conditions"][0]["status"], "False", "it is the other one's");
    let snapshot = r#"{"epoch":1,"sequence":1,"bytes":100,"engineDigest":"d","time":"2030-01-01T00:00:00Z"}"#;
    let stored = format!(r#"{{"status":{{"snapshot":{snapshot}}}}}"#);
    server.kubectl(&["patch", "kernelsession", "-n", "limited", "a", "--subresource=status", "--type=merge", "-p", &stored]).unwrap();
    let full = r#"{"sessions":2,"storedBytes":100}"#;
    eventually("what a session has stored is told", async || says("one", json(full), "True")).await;

    // What went is told as well, within the minute that lies between two writes.
    for key in &keys {
        directory.delete(key).await.unwrap();
        let without = r#"{"metadata":{"finalizers":null}}"#;
        server.kubectl(&["patch", "kernelsession", "-n", "limited", &key.name, "--type=merge", "-p", without]).unwrap();
    }
    eventually("quotas of which all has gone say so", async || both(nothing, (r#"{"sessions":0}"#, "False")).await).await;
    let written = server.writes().unwrap().into_iter().filter(|write| write.resource == "kernelquotas/status" && write.code < 300);
    let written = written.filter(|write| write.object.starts_with("limited/")).count();
    assert!(written <= 2 * 6, "each says at first that nothing is used, then what comes and what goes: {written}");

    // A limit that is withdrawn is told of no more.
    quota("one", "{sessions: 5}");
    eventually("what is not limited any more is not told", async || says("one", json(r#"{"sessions":0}"#), "False")).await;
    server.kubectl(&["delete", "kq", "one", "two", "-n", "limited"]).unwrap();
    shutdown.cancel();
    following.await.unwrap();
}

/// The manifest in `docs/lifetimes.md` for a count across all who make sessions.
pub(super) async fn of_two_gateways_and_kubectl_none_goes_beyond_a_resource_quota(
    server: &ApiServer,
    client: &kube::Client,
    one: &KubernetesDirectory,
) {
    server.kubectl(&["create", "namespace", "counted"]).unwrap();
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/lifetimes.md")).unwrap();
    let (_, manifest) = page.split_once("kind: ResourceQuota\n").unwrap();
    let (manifest, _) = manifest.split_once("```").unwrap();
    let manifest = manifest.replace("team-a", "counted").replace("1000", "5");
    apply(server, &format!("apiVersion: v1\nkind: ResourceQuota\n{manifest}")).unwrap();
    // What its controller does; and until admission has heard of it.
    let session = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {name: by-hand, namespace: counted}\nspec: {}\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), session).unwrap();
    let by_hand = |more: &[&str]| server.kubectl(&[&["create", "-f", file.path().to_str().unwrap()], more].concat());
    let counted = |used: &str| {
        let counts = |count: &str| serde_json::json!({ "count/kernelsessions.dormouse.dev": count });
        let status = serde_json::json!({ "status": { "hard": counts("5"), "used": counts(used) } }).to_string();
        server
            .kubectl(&["patch", "resourcequota", "sessions", "-n", "counted", "--subresource=status", "--type=merge", "-p", &status])
            .unwrap();
    };
    counted("5");
    eventually("the API server refuses one more", async || by_hand(&["--dry-run=server"]).is_err()).await;
    counted("0");
    eventually("the API server takes one", async || by_hand(&["--dry-run=server"]).is_ok()).await;
    let shutdown = CancellationToken::new();
    let two = KubernetesDirectory::start(client.clone(), WatchScope::default(), &shutdown);
    eventually("the second gateway is ready", async || two.pending().is_empty()).await;
    let refused =
        |made: &Result<_, DirectoryError>| matches!(made, Err(DirectoryError::Quota(message)) if message.contains("exceeded quota"));
    let make = |n: usize| {
        let directory: &dyn Directory = if n.is_multiple_of(2) { one } else { &*two };
        async move { directory.create(new(&Key::new("counted", format!("s{n}")))).await }
    };
    let made = futures::future::join_all((0..20).map(make)).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 5, "{made:?}");
    assert!(made.iter().filter(|made| made.is_err()).all(refused), "{made:?}");
    assert!(by_hand(&[]).unwrap_err().to_string().contains("exceeded quota"));
    shutdown.cancel();
}
