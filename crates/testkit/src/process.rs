//! A child process of a test: its output in a file, ended when the value is dropped.

use std::{
    fs::File,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// Ports below those that Linux gives out, unless it is told otherwise.
const FIRST_PORT: u32 = 20_000;
const PORTS: u32 = 12_000;
/// How many ports a process may ask for before it looks where the next one began.
const PORTS_APART: u32 = 101;
/// How long a server may take to start, on a machine that is busy with everything else.
const START_SECONDS: u64 = 180;
/// Pause between two looks.
const POLL_MILLISECONDS: u64 = 20;
/// Starts, when another process was quicker to take the port.
const STARTS_MAX: usize = 3;

/// A running child. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    command: Command,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it writes goes to `log`.
    ///
    /// # Errors
    /// When the program or the file cannot be opened.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("create {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Self { child, command, log: log.to_owned() })
    }

    /// SIGKILL, and the same command once more; it writes on behind what the one before has written.
    ///
    /// # Errors
    /// When the program cannot be opened.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.child = self.command.spawn().with_context(|| format!("start {:?} again", self.command))?;
        Ok(())
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it has written so far.
    #[must_use]
    pub fn output(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// SIGSTOP: it is there and does nothing, until [`Process::resume`].
    ///
    /// # Errors
    /// When the process is gone.
    pub fn stop(&self) -> Result<()> {
        self.signal(rustix::process::Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn resume(&self) -> Result<()> {
        self.signal(rustix::process::Signal::CONT)
    }

    fn signal(&self, signal: rustix::process::Signal) -> Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw).context("a process id")?;
        rustix::process::kill_process(id, signal).with_context(|| format!("signal process {}", self.child.id()))
    }

    /// SIGKILL, and waits for the end. A process that has ended already is no error.
    pub fn kill(&mut self) {
        // Both fail only when the process is gone, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A loopback port that was free a moment ago, for programs that cannot bind port 0 themselves.
///
/// It is none of those that the system gives to whoever binds port 0 or connects, so on a busy machine it is not taken meanwhile; and each call,
/// and each process, looks in another place.
///
/// # Errors
/// When no port is free.
pub fn free_port() -> Result<u16> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    for _ in 0..PORTS {
        let place = std::process::id().wrapping_mul(PORTS_APART).wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let port = u16::try_from(FIRST_PORT + place)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

/// Starts a server that `command` makes for a port, and waits until something listens there.
///
/// # Errors
/// As [`serve_when`].
pub async fn serve(log: &Path, command: impl Fn(u16) -> Result<Command>) -> Result<(Process, u16)> {
    serve_when(log, command, listens).await
}

/// Starts a server that `command` makes for a port, and waits until it is `ready` there; again with another port, when another process was quicker
/// to take the first.
///
/// # Errors
/// When it does not start, or is not ready in time.
pub async fn serve_when(log: &Path, command: impl Fn(u16) -> Result<Command>, ready: impl AsyncFn(u16) -> bool) -> Result<(Process, u16)> {
    for _ in 0..STARTS_MAX {
        let port = free_port()?;
        let mut process = Process::start(command(port)?, log)?;
        if process.until(async || ready(port).await).await? {
            return Ok((process, port));
        }
    }
    bail!("it ends as soon as it starts:\n{}", std::fs::read_to_string(log).unwrap_or_default())
}

/// Whether something listens at a port of loopback.
pub async fn listens(port: u16) -> bool {
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
}

impl Process {
    /// Waits until it is `ready`; `false` if it ended instead.
    ///
    /// # Errors
    /// When it does neither in time.
    pub async fn until(&mut self, ready: impl AsyncFn() -> bool) -> Result<bool> {
        let deadline = Instant::now() + Duration::from_secs(START_SECONDS);
        while Instant::now() < deadline {
            if !self.is_alive() {
                return Ok(false);
            }
            if ready().await {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(POLL_MILLISECONDS)).await;
        }
        bail!("it is not ready after {START_SECONDS} s:\n{}", self.output())
    }
}
