//! The processes inside pods, seen from the machine that runs them: what `kubectl exec` cannot show of an image without a shell.

use std::{
    fs::File,
    io::ErrorKind,
    net::{SocketAddr, TcpStream},
    os::fd::AsFd as _,
    path::PathBuf,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use dormouse_testkit::tools;

/// How long a connection may take to open before a policy must have dropped it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

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

    /// Whether a process sees a file or a folder at this absolute path.
    #[must_use]
    pub fn sees(pid: u32, path: &str) -> bool {
        PathBuf::from(format!("/proc/{pid}/root{path}")).exists()
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

    /// Whether a TCP connection from inside the network of process `pid` to `address` (`IP:PORT`) opens.
    ///
    /// # Errors
    /// When the process is gone, or `address` is none. That nothing listens there is an error too: it would look like a policy.
    pub fn connects(pid: u32, address: &str) -> Result<bool> {
        let address: SocketAddr = address.parse().with_context(|| format!("{address} is no address"))?;
        let netns = File::open(format!("/proc/{pid}/ns/net"))?;
        // A namespace belongs to a thread; this one ends with it.
        let attempt = std::thread::spawn(move || {
            move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
            TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map(drop)
        });
        match attempt.join().map_err(|_| anyhow::anyhow!("the thread panicked"))? {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error).with_context(|| format!("connect to {address}")),
        }
    }

    fn ctr(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(tools::path("ctr")?).arg("-a").arg(&self.socket).args(["-n", "k8s.io"]).args(args).output()?;
        ensure!(output.status.success(), "ctr {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
