//! A `dormouse dev` of this build, as a process of its own.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::Context as _;

/// Runs until it is dropped.
pub struct Dev {
    child: Child,
    /// Where its gateway listens.
    pub url: String,
}

impl Dev {
    /// Starts one that keeps its sessions in `data`.
    ///
    /// # Errors
    /// When the binary is not built, or says no address.
    pub fn start(data: &std::path::Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("dormouse");
        let mut command = Command::new(&program);
        command.args(["dev", "--listen", "127.0.0.1:0", "--data"]).arg(data).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}: run `cargo build --release`", program.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let first = lines.next().context("it said nothing")??;
        let url = first.split_whitespace().find(|word| word.starts_with("http://")).context("it said no address")?;
        let url = url.trim_end_matches(',').to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, url })
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
