//! A Kubernetes of this test's own, by the scripts in `e2e/cluster`.

use std::{
    ffi::OsString,
    fs::File,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Begins the name of every cluster that this crate makes; the process id of its owner follows.
const NAME_PREFIX: &str = "dormouse-e2e-";
/// Lines of each log that are worth keeping when a step fails.
const LOG_FOLDER: &str = "e2e-logs";

/// A running cluster. [`Cluster::down`] ends it, and so does dropping it.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    home: PathBuf,
    running: bool,
}

impl Cluster {
    /// Starts a cluster of so many nodes whose images are those of the tools and those in `images`. Removes what earlier test runs that were killed left.
    ///
    /// # Errors
    /// When it does not come up; its logs are in `target/e2e-logs` then.
    pub fn up(images: &Path, nodes: u32) -> Result<Self> {
        let home = home()?;
        remove_stale(&home)?;
        let name = format!("{NAME_PREFIX}{}", std::process::id());
        let cluster = Self { name, home, running: true };
        let status = cluster.script("up.sh").env("CLUSTER_IMAGES", images).env("CLUSTER_NODES", nodes.to_string()).status()?;
        if !status.success() {
            cluster.collect_logs()?;
        }
        ensure!(status.success(), "e2e/cluster/up.sh: {status}");
        Ok(cluster)
    }

    /// Moves the calling thread, and so the processes and threads that it starts from now on, into the cluster's network.
    ///
    /// # Errors
    /// When the network namespace is gone or this is not root.
    pub fn enter(&self) -> Result<()> {
        let path = format!("/run/netns/{}", self.name);
        let netns = File::open(&path).with_context(|| format!("open {path}"))?;
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network)).with_context(|| format!("enter {path}"))
    }

    /// Ends node `number`, which is not the first, as a power failure does.
    ///
    /// # Errors
    /// When the script fails.
    pub fn lose(&self, number: u32) -> Result<()> {
        let status = self.script("lose.sh").arg(number.to_string()).status()?;
        ensure!(status.success(), "e2e/cluster/lose.sh: {status}");
        Ok(())
    }

    /// The folder of its state: sockets, logs, volumes.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.home.join("run").join(&self.name)
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("admin.kubeconfig")
    }

    /// Copies the logs of the system's processes and of every pod to `target/e2e-logs`.
    ///
    /// # Errors
    /// When they cannot be copied.
    pub fn collect_logs(&self) -> Result<()> {
        let to = log_folder();
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        std::fs::create_dir_all(&to)?;
        // Of the first node; another's are beside them.
        for folder in ["log", "pod-logs"] {
            // cp follows the links that kubelet makes to the container's log files.
            let status = Command::new("cp").arg("-rL").arg(self.folder().join(folder)).arg(&to).status()?;
            ensure!(status.success(), "copy {folder}: {status}");
        }
        Ok(())
    }

    /// Ends the cluster and removes all that it made.
    ///
    /// # Errors
    /// When the script fails.
    pub fn down(mut self) -> Result<()> {
        self.running = false;
        let status = self.script("down.sh").arg("--wipe").status()?;
        ensure!(status.success(), "e2e/cluster/down.sh: {status}");
        Ok(())
    }

    fn script(&self, name: &str) -> Command {
        script(&self.home, &self.name, name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.running {
            // Reached when a step panics: there is nobody left to tell of a second failure.
            let _ = self.script("down.sh").arg("--wipe").status();
        }
    }
}

/// Where [`Cluster::collect_logs`] puts them.
#[must_use]
pub fn log_folder() -> PathBuf {
    root().join("target").join(LOG_FOLDER)
}

/// The root of the checkout.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

fn home() -> Result<PathBuf> {
    let in_home = |home: OsString| PathBuf::from(home).join(".cache/dormouse-cluster");
    std::env::var_os("CLUSTER_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(in_home))
        .context("neither CLUSTER_HOME nor HOME is set")
}

fn script(home: &Path, cluster: &str, name: &str) -> Command {
    let mut command = Command::new(root().join("e2e/cluster").join(name));
    command.env("CLUSTER_HOME", home).env("CLUSTER_NAME", cluster);
    command
}

/// Ends the clusters whose owner is gone: a test that is killed cannot clean up.
fn remove_stale(home: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(home.join("run")) else { return Ok(()) };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(owner) = name.strip_prefix(NAME_PREFIX) else { continue };
        if !Path::new("/proc").join(owner).exists() {
            script(home, &name, "down.sh").arg("--wipe").status()?;
        }
    }
    Ok(())
}
