//! A process that sessions share, with the memory that the chart gives it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use dormouse_e2e::cluster::root;
use dormouse_testkit::{
    process::{Process, free_port},
    wait::eventually,
};
use serde_json::Value;

/// A process, and what the chart lets it take.
pub struct Shared {
    pub name: &'static str,
    pub process: Process,
    pub limit_bytes: u64,
    admin: SocketAddr,
}

impl Shared {
    /// SIGKILL, and another one in its place that is not ready yet.
    pub fn kill(&mut self) {
        self.process.restart().unwrap();
    }

    /// SIGTERM, until it has ended.
    pub async fn end(&mut self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let name = self.name;
        eventually(&format!("the {name} ends"), async || !self.process.is_alive()).await;
    }

    /// Until it serves.
    pub async fn ready(&self) {
        let url = format!("http://{}/readyz", self.admin);
        let answers = async || reqwest::get(&url).await.is_ok_and(|answer| answer.status() == 200);
        eventually(&format!("the {} is ready", self.name), answers).await;
    }

    /// What it counts.
    pub async fn metrics(&self) -> String {
        reqwest::get(format!("http://{}/metrics", self.admin)).await.unwrap().text().await.unwrap()
    }

    /// The most memory that it has had, without the image that its sessions share: Linux tells that once for each of them.
    pub fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        (kib("VmHWM:") - kib("RssShmem:")) << 10
    }

    /// It has not ended, and never had more than it may.
    pub fn assert_small(&mut self) {
        assert!(self.process.is_alive(), "the {} has ended:\n{}", self.name, self.process.output());
        let (peak, limit) = (self.peak_bytes() >> 20, self.limit_bytes >> 20);
        eprintln!("{}: {peak} of {limit} MiB", self.name);
        assert!(peak < limit, "the {} had {peak} of {limit} MiB", self.name);
    }
}

/// The memory that the chart gives to processes of this name.
pub fn limit_of(name: &str) -> u64 {
    let values = std::fs::read_to_string(root().join("charts/dormouse/values.yaml")).unwrap();
    let values: Value = yaml_serde::from_str(&values).unwrap();
    let limit = values[name]["resources"]["limits"]["memory"].as_str().unwrap();
    let (number, unit) = limit.split_at(limit.len() - 2);
    number.parse::<u64>().unwrap() << if unit == "Gi" { 30 } else { 20 }
}

/// Starts it with the memory that the chart gives to it.
pub fn shared(name: &'static str, command: Command, folder: &Path) -> Shared {
    shared_within(limit_of(name), name, command, folder)
}

/// The same with so much.
pub fn shared_within(limit_bytes: u64, name: &'static str, mut command: Command, folder: &Path) -> Shared {
    // In a cluster the process's control group says it.
    command.env("DORMOUSE_MEMORY_BYTES", limit_bytes.to_string());
    let admin = loopback();
    command.arg("--admin-listen").arg(admin.to_string());
    let process = Process::start(command, &folder.join(format!("{name}.log"))).unwrap();
    Shared { name, process, limit_bytes, admin }
}

pub fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()))
}

/// A binary of this build: target/release/deps/processes-… → target/release/dormouse-gateway.
pub fn binary(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = exe.ancestors().nth(2).unwrap().join(name);
    assert!(path.is_file(), "{} is not there: `cargo build --release --workspace --bins` makes it", path.display());
    path
}
