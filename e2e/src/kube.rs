//! kubectl and helm, as a person would type them.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};

use dormouse_testkit::tools;

/// The administrator of a cluster.
#[derive(Debug, Clone)]
pub struct Kube {
    kubeconfig: PathBuf,
}

impl Kube {
    /// Uses this kubeconfig.
    #[must_use]
    pub fn new(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig }
    }

    /// Runs `kubectl ARGS`, split at spaces, and returns what it prints.
    ///
    /// # Errors
    /// What kubectl wrote to stderr, when it fails.
    pub async fn kubectl(&self, args: &str) -> Result<String> {
        self.run("kubectl", &args.split_whitespace().collect::<Vec<_>>(), None).await
    }

    /// The same with exact arguments.
    ///
    /// # Errors
    /// What kubectl wrote to stderr, when it fails.
    pub async fn kubectl_args(&self, args: &[&str]) -> Result<String> {
        self.run("kubectl", args, None).await
    }

    /// `kubectl apply -f -` of `manifest`.
    ///
    /// # Errors
    /// What kubectl wrote to stderr, when it fails.
    pub async fn apply(&self, manifest: &str) -> Result<String> {
        self.run("kubectl", &["apply", "-f", "-"], Some(manifest)).await
    }

    /// The object that `kubectl get ARGS -o json` prints.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get(&self, args: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&format!("get {args} -o json")).await?)?)
    }

    /// `kubectl wait --for=CONDITION --timeout=SECONDS ARGS`.
    ///
    /// # Errors
    /// When it does not come true in time; the error shows the objects as they are then.
    pub async fn wait(&self, condition: &str, args: &str, seconds: u32) -> Result<()> {
        let waited = self.kubectl(&format!("wait --for={condition} --timeout={seconds}s {args}")).await;
        if let Err(error) = waited {
            let found = self.kubectl(&format!("get {args} -o yaml")).await.unwrap_or_else(|error| error.to_string());
            return Err(error.context(format!("waited {seconds} s for {condition} of {args}, which is now:\n{found}")));
        }
        Ok(())
    }

    /// Runs `helm ARGS`, split at spaces, and returns what it prints.
    ///
    /// # Errors
    /// What helm wrote to stderr, when it fails.
    pub async fn helm(&self, args: &str) -> Result<String> {
        self.run("helm", &args.split_whitespace().collect::<Vec<_>>(), None).await
    }

    /// What bash prints that runs `script` in `folder`, with kubectl, helm and the product's command line.
    ///
    /// # Errors
    /// What it wrote to stderr, when it fails or takes longer than `seconds`.
    pub async fn bash(&self, script: &str, folder: &Path, seconds: u32) -> Result<String> {
        let tools = tools::path("kubectl")?;
        // Tests lie in a folder beside the programs.
        let programs = std::env::current_exe()?;
        let folders = [tools.parent(), programs.ancestors().nth(2)].into_iter().flatten().map(Path::to_owned);
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())))?;
        let mut command = Command::new("timeout");
        command.arg(seconds.to_string()).args(["bash", "-euo", "pipefail", "-c", script]);
        command.env("KUBECONFIG", &self.kubeconfig).env("PATH", path).current_dir(folder);
        let output = command.output().await.context("start bash")?;
        ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn run(&self, program: &str, args: &[&str], input: Option<&str>) -> Result<String> {
        let shown = format!("{program} {}", args.join(" "));
        let mut child = Command::new(tools::path(program)?)
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(crate::cluster::root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {shown}"))?;
        let mut stdin = child.stdin.take().context("a pipe was asked for")?;
        stdin.write_all(input.unwrap_or_default().as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        ensure!(output.status.success(), "{shown}: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
