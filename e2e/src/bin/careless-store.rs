//! An S3 server without atomic conditional writes, with one bucket: what a pool must refuse by name.

use std::path::Path;

use anyhow::Context as _;

/// Where it listens.
const LISTEN: &str = "0.0.0.0:9000";
/// Its buckets.
const ROOT: &str = "/data";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let from = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    std::fs::create_dir_all(Path::new(ROOT).join(from("BUCKET")?))?;
    let listener = tokio::net::TcpListener::bind(LISTEN).await?;
    dormouse_testkit::careless::serve(listener, Path::new(ROOT), &from("ACCESS_KEY_ID")?, &from("SECRET_ACCESS_KEY")?).await
}
