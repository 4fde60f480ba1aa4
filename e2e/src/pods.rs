//! The processes inside pods, seen from the machine that runs them: what `kubectl exec` cannot show of an image without a shell.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};

use dormouse_testkit::tools;

/// The container runtime of a cluster.
#[derive(Debug, Clone)]
pub struct Pods {
    socket: PathBuf,
}

impl Pods {
    /// The runtime whose state is in `cluster_folder`.
    #[must_use]
    pub fn new(cluster_folder: &std::path::Path) -> Self {
        Self { socket: cluster_folder.join("containerd.sock") }
    }

    /// The process id of the running container `container` of pod `pod`.
    ///
    /// # Errors
    /// When there is none.
    pub fn pid(&self, namespace: &str, pod: &str, container: &str) -> Result<u32> {
        let filter = format!(
            "labels.\"io.kubernetes.pod.name\"=={pod},labels.\"io.kubernetes.pod.namespace\"=={namespace},labels.\"io.kubernetes.container.name\"=={container}"
        );
        let ids = self.ctr(&["containers", "ls", "-q", &filter])?;
        let tasks = self.ctr(&["tasks", "ls"])?;
        for line in tasks.lines() {
            let mut words = line.split_whitespace();
            if let (Some(id), Some(pid), Some("RUNNING")) = (words.next(), words.next(), words.next())
                && ids.lines().any(|known| known == id)
            {
                return pid.parse().context("a process id");
            }
        }
        anyhow::bail!("no running container {container} in pod {namespace}/{pod}")
    }

    /// The environment that a process was started with, one `NAME=value` each.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn environment(pid: u32) -> Result<Vec<String>> {
        let bytes = std::fs::read(format!("/proc/{pid}/environ"))?;
        Ok(bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty()).map(|part| String::from_utf8_lossy(part).into_owned()).collect())
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn kill(pid: u32) -> Result<()> {
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("a process id")?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).context("kill")
    }

    fn ctr(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(tools::path("ctr")?).arg("-a").arg(&self.socket).args(["-n", "k8s.io"]).args(args).output()?;
        ensure!(output.status.success(), "ctr {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
