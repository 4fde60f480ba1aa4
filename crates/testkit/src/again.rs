//! A test that runs itself again somewhere else: on a small disk, in a network of its own.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// Runs the test of this name, with the modules it is in, as the end of `command`, which has to run what follows it.
///
/// # Errors
/// It did not pass there, or there is no such test.
pub fn again(mut command: Command, test: &str) -> Result<()> {
    let exe = std::env::current_exe()?;
    // What it reports is the report of the one that waits for it.
    let output = command.arg(exe).args(["--exact", test, "--nocapture"]).stderr(Stdio::inherit()).output();
    let output = output.context("run the test again")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && said.contains("test result: ok. 1 passed"), "{test}: {}\n{said}", output.status);
    Ok(())
}

/// The same on a disk of so many KiB, mounted at `folder` for that run only. It is told of it by the variable `env`.
///
/// # Errors
/// Those of [`again`].
pub fn again_on_a_disk(folder: &Path, kib: usize, env: &str, test: &str) -> Result<()> {
    let script = format!("mount -t tmpfs -o size={kib}k none \"$1\" && shift && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(folder).env(env, folder);
    again(command, test)
}
