//! `oidc-provider`, an issuer of tokens that others wrote, and that is certified.

use std::process::Command;

use dormouse_testkit::{
    process::{Process, free_port},
    wait::eventually,
};

use crate::packages;

/// Set up by a script that is given its port: where it is, its process, and the folder of its log. `None` where it cannot be installed.
pub async fn start(script: &str) -> Option<(String, Process, tempfile::TempDir)> {
    let folder = packages::npm("oidc-provider", &["oidc-provider@9.13.3", "node@22.23.3"])?;
    let (port, logs) = (free_port().unwrap(), tempfile::tempdir().unwrap());
    let mut command = Command::new(folder.join("node_modules/node/bin/node"));
    command.args(["--input-type=module", "-e", script, &port.to_string()]).current_dir(&folder);
    let process = Process::start(command, &logs.path().join("server.log")).unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let known = format!("{url}/.well-known/openid-configuration");
    eventually("it serves", async || reqwest::get(&known).await.is_ok_and(|answer| answer.status().is_success())).await;
    Some((url, process, logs))
}
