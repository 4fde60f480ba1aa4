//! What an operator counts, as it tells it at its admin port.

/// The sum of a metric's lines that contain `with`; 0 while nothing is told.
pub async fn metric(admin: &str, name: &str, with: &str) -> u64 {
    let Ok(answer) = reqwest::get(format!("http://{admin}/metrics")).await else { return 0 };
    let text = answer.text().await.unwrap();
    let lines = text.lines().filter(|line| line.starts_with(&format!("dormouse_operator_{name}")) && line.contains(with));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}

/// How often it has looked at any pool.
pub async fn looks_at_pools(admin: &str) -> u64 {
    metric(admin, "reconcile_seconds_count", "KernelPool").await
}
