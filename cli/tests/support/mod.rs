//! The real binary: `dormouse dev` on a free port, and commands against it.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod packages;
pub mod sockets;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    time::Duration,
};

use dormouse_testkit::wait::eventually;

/// Longer than a start that has to compile the engine, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const BINARY: &str = env!("CARGO_BIN_EXE_dormouse");

/// A client of the HTTP API.
pub fn http() -> reqwest::Client {
    dormouse_service::telemetry::install_tls_provider();
    reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap()
}

/// A `dormouse dev` that serves.
pub struct Dev {
    child: Child,
    /// Its URL.
    pub server: String,
}

/// What a command said.
pub struct Said {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Dev {
    /// Starts it on `data`, with further flags.
    pub fn start(data: &Path, flags: &[&str]) -> Self {
        Self::start_with(data, flags, &[])
    }

    /// Starts it with a manifest of ToolBrokers and sessions.
    pub fn start_of(data: &Path, manifest: &Path) -> Self {
        let manifest = manifest.to_str().unwrap();
        Self::start(data, &["--broker", manifest, "--session", manifest])
    }

    /// The first call of the session `agent` that waits for a person, once there is one.
    pub async fn waiting_call(&self) -> serde_json::Value {
        let path = format!("{}/v1/namespaces/default/sessions/agent/approvals", self.server);
        let waiting = async || reqwest::get(&path).await.unwrap().json::<serde_json::Value>().await.unwrap()["items"][0].clone();
        eventually("a call waits", async || waiting().await.is_object()).await;
        waiting().await
    }

    /// Starts it with further flags and environment variables.
    pub fn start_with(data: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_to(data, flags, variables, Stdio::inherit())
    }

    /// The same, whose log goes to a file.
    pub fn start_logging(data: &Path, flags: &[&str], variables: &[(&str, &str)], log: std::fs::File) -> Self {
        Self::start_to(data, flags, variables, log.into())
    }

    fn start_to(data: &Path, flags: &[&str], variables: &[(&str, &str)], log: Stdio) -> Self {
        let mut child = Command::new(BINARY)
            .args(["dev", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(flags)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (said, first) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // Nobody listens to what comes after the address.
                let _ = said.send(line);
            }
        });
        let line = first.recv_timeout(START_TIMEOUT).expect("dormouse dev says what it serves");
        while first.recv_timeout(START_TIMEOUT).is_ok_and(|line| !line.starts_with("Ctrl-C")) {}
        let server = line.split(' ').find(|word| word.starts_with("http://")).expect(&line).trim_end_matches(',').to_owned();
        Self { child, server }
    }

    /// Memory that it has, in KiB.
    #[cfg(target_os = "linux")]
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Ends it without a word.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop, and waits.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap()
    }

    /// Starts `dormouse ARGS` against it, with pipes.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = Command::new(BINARY);
        command.args(["--server", &self.server]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs `dormouse ARGS` against it, with this input.
    pub fn command(&self, args: &[&str], input: &str) -> Said {
        let mut child = self.spawn(args);
        // A command that reads nothing may have closed it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let mut err = String::new();
        let mut stderr = child.stderr.take().unwrap();
        let reading = std::thread::spawn(move || {
            stderr.read_to_string(&mut err).unwrap();
            err
        });
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        Said { status: child.wait().unwrap(), out, err: reading.join().unwrap() }
    }

    /// Runs a cell in the session `s` and gives its output, trimmed.
    pub fn eval(&self, code: &str) -> String {
        let said = self.command(&["eval", "--session", "s", code], "");
        assert!(said.status.success(), "{code}: {}{}", said.out, said.err);
        said.out.trim().to_owned()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What ends a cell, before its preview.
const ANSWER: &str = "// → ";

/// The cells of the page in order, each with its line and the preview that is promised.
pub fn cells(page: &str) -> Vec<(usize, String, String)> {
    let (mut cells, mut code, mut inside) = (Vec::new(), String::new(), false);
    for (index, line) in page.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(language) => inside = language == "ts",
            None if inside => match line.split_once(ANSWER) {
                Some((last, preview)) => cells.push((index + 1, std::mem::take(&mut code) + last, preview.trim().to_owned())),
                None => code += &format!("{line}\n"),
            },
            None => {}
        }
    }
    assert!(code.trim().is_empty(), "a cell without an answer: {code}");
    cells
}
