//! What a cluster looks like when a step has failed: whoever reads the test's output may not have the machine any more.

use dormouse_e2e::kube::Kube;

use super::world::SYSTEM;

/// Lines of each answer that are told, the last ones.
const LINES_MAX: usize = 60;

/// What there is, what happened, and what the processes said last.
pub async fn describe(kube: &Kube) -> String {
    let conditions = "get nodes -o jsonpath={range.items[*].status.conditions[*]}{.type}={.status}:{.message}{\"\\n\"}{end}";
    let log = |of: &str| format!("logs {of} --prefix --tail={LINES_MAX} --ignore-errors");
    let questions = [
        conditions.to_owned(),
        "get pods -A -o wide".to_owned(),
        "get kernelpools,kernelsessions,toolbrokers -A".to_owned(),
        "get events -A --sort-by=.metadata.creationTimestamp".to_owned(),
        log(&format!("-n {SYSTEM} -l dormouse.dev/component=operator")),
        log(&format!("-n {SYSTEM} -l dormouse.dev/component=gateway")),
        log("-l dormouse.dev/component=kernel"),
        log("-l dormouse.dev/component=broker"),
    ];
    let mut scene = String::new();
    for question in questions {
        let answer = kube.kubectl(&question).await.unwrap_or_else(|error| format!("{error:#}"));
        let lines: Vec<&str> = answer.lines().collect();
        let last = lines.get(lines.len().saturating_sub(LINES_MAX)..).unwrap_or_default();
        scene.push_str(&format!("\n$ kubectl {question}\n{}\n", last.join("\n")));
    }
    scene
}
