//! An operator that ends behind any of its writes, acts on what is not so any more, or misses what happened: in the end everything is as if nothing had
//! been. The three patterns are those of Sieve (Sun et al., Automatic reliability testing for cluster management controllers, OSDI 2022).

use std::time::{Duration, Instant};

use crate::support::{
    Cluster, PATIENCE, apply,
    between::{Between, Fault},
    stores,
};
use dormouse_store::SnapshotStore as _;
use dormouse_testkit::soak;
use serde_json::Value;

const FLAGS: [&str; 1] = ["--orphan-sweep-interval-seconds=0"];
/// Runs of each pattern in a soak, and in every other run.
const RUNS: u64 = 20;
const RUNS_SMALL: u64 = 1;
/// Of everything that the operator looks after, and that it makes.
const KINDS: &str =
    "kernelpools,kernelsessions,toolbrokers,deployments,services,configmaps,networkpolicies,poddisruptionbudgets,secrets,serviceaccounts";
/// Kinds that must be gone in the end.
const OWN: &str = "kernelpools,kernelsessions,toolbrokers";
/// What differs between two of the same.
const CHANCE: [&str; 9] = [
    "generation",
    "observedGeneration",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "lastTransitionTime",
    "clusterIP",
    "clusterIPs",
];
/// The same among annotations, and where they hold a digest of a certificate or a key.
const CHANCE_BEGINS: &str = "dormouse.dev/";
/// Lines that are shown before the first that differs.
const LINES_AROUND: usize = 20;
/// Pause between two looks.
const POLL: Duration = Duration::from_millis(100);
/// The operator is done when it has written nothing for so long.
const QUIET: Duration = Duration::from_secs(3);

/// One namespace, in which the same happens each time.
struct Case<'a> {
    cluster: &'a mut Cluster,
    between: &'a Between,
    namespace: String,
    /// What it comes to where nothing goes wrong.
    expected: String,
    crashes: u64,
}

impl Case<'_> {
    /// Waits, and starts the operator again where it was ended.
    async fn until(&mut self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        let began = Instant::now();
        loop {
            if self.between.is_dead() {
                let between = self.between.clone();
                self.cluster.restart(&FLAGS, async move { between.revive() }).await;
                self.crashes += 1;
            }
            if holds(self).await {
                return;
            }
            let late = began.elapsed() > PATIENCE;
            assert!(!late, "{}: {what}: never\n{}\n{}", self.namespace, self.differs(), self.cluster.operator.output());
            tokio::time::sleep(POLL).await;
        }
    }

    fn kubectl(&self, args: &[&str]) -> String {
        self.cluster.server.kubectl(&[args, &["-n", &self.namespace]].concat()).unwrap()
    }

    fn make(&self) {
        let namespace = &self.namespace;
        let object = |kind: &str, name: &str, spec: &str| {
            format!(
                "---\napiVersion: dormouse.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n"
            )
        };
        let objects = [
            format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n"),
            object("KernelPool", "default", "warmPods: 1"),
            object("ToolBroker", "tools", "services: [], tools: []"),
            object("KernelSession", "a", "toolBrokerRef: {name: tools}"),
        ];
        apply(&self.cluster.server, &objects.concat());
    }

    /// All of it, without what is chance.
    fn state(&self) -> String {
        let mut list: Value = serde_json::from_str(&self.kubectl(&["get", KINDS, "-o", "json"])).unwrap();
        without_chance(&mut list["items"]);
        serde_json::to_string_pretty(&list["items"]).unwrap().replace(&self.namespace, "NAMESPACE")
    }

    /// What it has in place of what it should have, or has in the end.
    fn differs(&self) -> String {
        let (state, mut lines) = (self.state(), String::new());
        let (was, is): (Vec<&str>, Vec<&str>) = (self.expected.lines().collect(), state.lines().collect());
        let begin = was.iter().zip(&is).take_while(|(was, is)| was == is).count();
        let end = was.iter().rev().zip(is.iter().rev()).take_while(|(was, is)| was == is).count();
        for (sign, side) in [('-', &was), ('+', &is)] {
            let until = side.len().saturating_sub(end);
            for line in side.get(begin.saturating_sub(LINES_AROUND)..until.max(begin)).unwrap_or_default() {
                lines.push_str(&format!("{sign} {line}\n"));
            }
        }
        lines
    }

    /// The session has stored something; then it, its broker and its pool are deleted.
    async fn unmake(&mut self) {
        stores(&self.cluster.server, &self.cluster.bucket, &self.namespace, "a", "default").await;
        self.kubectl(&["delete", OWN, "--all", "--wait=false"]);
    }

    async fn is_gone(&self) -> bool {
        let stored = self.cluster.bucket.list(&format!("t/{}/", self.namespace)).await.unwrap();
        self.kubectl(&["get", OWN, "-o", "name"]).is_empty() && !stored.iter().any(|key| key.contains("/s/"))
    }
}

/// Takes out what differs between two of the same: names of versions and times, values of Secrets, digests.
fn without_chance(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_chance),
        Value::Object(fields) => {
            if fields.get("kind").is_some_and(|kind| kind == "Secret")
                && let Some(Value::Object(data)) = fields.get_mut("data")
            {
                data.values_mut().for_each(|value| *value = Value::Null);
            }
            if let Some(Value::Object(annotations)) = fields.get_mut("annotations") {
                annotations.iter_mut().filter(|(name, _)| name.starts_with(CHANCE_BEGINS)).for_each(|(_, value)| *value = Value::Null);
            }
            // When the list of living pools was written, and their uids.
            if let Some(Value::String(pools)) = fields.get_mut("pools") {
                *pools = format!("{} lines", pools.lines().count());
            }
            fields.retain(|name, _| !CHANCE.contains(&name.as_str()));
            fields.values_mut().for_each(without_chance);
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_an_operator_misses_or_whenever_it_ends_the_end_is_the_same() {
    let (mut cluster, between) = Cluster::start_through(&FLAGS).await;
    // As it is where nothing goes wrong.
    let mut case =
        Case { cluster: &mut cluster, between: &between, namespace: "undisturbed".to_owned(), expected: String::new(), crashes: 0 };
    between.does(Fault::None);
    case.make();
    let (mut writes, mut since) = (0, Instant::now());
    case.until("the operator is done", async |case| {
        if case.between.writes() != writes {
            (writes, since) = (case.between.writes(), Instant::now());
        }
        writes > 0 && since.elapsed() > QUIET
    })
    .await;
    let expected = case.state();
    for wanted in ["\"dormouse-kernel-default\"", "\"tools-broker\"", "\"dormouse.dev/storage\""] {
        assert!(expected.contains(wanted), "{wanted} is not in {expected}");
    }
    case.unmake().await;
    case.until("what was deleted is gone", async |case| case.is_gone().await).await;
    let all = between.writes();

    let runs = soak::count(RUNS_SMALL, RUNS);
    let (mut crashes, mut took) = (0, Vec::new());
    for run in 0..runs {
        // Each of the writes has its turn where there are enough runs.
        let crash = if runs == 1 { all / 3 } else { 1 + run * all / runs };
        for (name, fault) in [("crashes", Fault::Crash(crash)), ("late", Fault::Late), ("missed", Fault::Missed)] {
            let began = Instant::now();
            let namespace = format!("{name}-{run}");
            let mut case = Case { cluster: &mut cluster, between: &between, namespace, expected: expected.clone(), crashes: 0 };
            between.does(fault);
            case.make();
            case.until("it is as where nothing goes wrong", async |case| case.state() == case.expected).await;
            case.unmake().await;
            case.until("what was deleted is gone", async |case| case.is_gone().await).await;
            crashes += case.crashes;
            took.push(began.elapsed().as_secs_f64());
            between.does(Fault::None);
        }
    }
    assert!(crashes > 0, "the operator was never ended");
    let longest = took.iter().copied().fold(0.0, f64::max);
    soak::report(&format!(
        "{runs} runs of each of 3 patterns ({all} writes in a run without any), {crashes} crashes: the same end; the longest took {longest:.1} s"
    ));
}
