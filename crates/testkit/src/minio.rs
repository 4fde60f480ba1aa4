//! A real MinIO on loopback, with a bucket store in a temporary folder.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use dormouse_store::{CredentialSource, Credentials, S3, S3Options, SnapshotStore as _, StoreError};
use tempfile::TempDir;

use crate::{
    process::{Process, free_port},
    tools,
};

/// How long it may take to answer, on a machine that is busy with everything else.
const START_SECONDS: u64 = 180;
/// Pause between two looks at its health.
const POLL_MILLISECONDS: u64 = 50;
/// Starts, when another process was quicker to take the port.
const STARTS_MAX: usize = 3;
/// The root user's name.
const ROOT_USER: &str = "testkit-root";
/// The root user's password.
const ROOT_PASSWORD: &str = "testkit-root-password";
/// Its region.
const REGION: &str = "us-east-1";

/// A MinIO of this test's own. Dropping it ends the process and removes its files.
#[derive(Debug)]
pub struct Minio {
    process: Process,
    port: u16,
    dir: TempDir,
}

impl Minio {
    /// Starts the process and waits until it is ready.
    ///
    /// # Errors
    /// When it was not built, or does not become ready.
    pub async fn start() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("dormouse-minio-").tempdir()?;
        let mut port = free_port()?;
        let mut minio = Self { process: spawn(&dir, port)?, port, dir };
        for _ in 1..STARTS_MAX {
            if minio.wait_ready().await? {
                return Ok(minio);
            }
            port = free_port()?;
            minio.process = spawn(&minio.dir, port)?;
            minio.port = port;
        }
        ensure!(minio.wait_ready().await?, "minio ends as soon as it starts:\n{}", minio.process.output());
        Ok(minio)
    }

    /// `http://127.0.0.1:PORT`
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its region.
    #[must_use]
    pub fn region(&self) -> &'static str {
        REGION
    }

    /// The root user's credentials.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        Credentials::new(ROOT_USER, ROOT_PASSWORD)
    }

    /// How to reach `bucket` as the root user.
    #[must_use]
    pub fn options(&self, bucket: &str) -> S3Options {
        S3Options {
            endpoint: self.endpoint(),
            region: REGION.to_owned(),
            bucket: bucket.to_owned(),
            credentials: CredentialSource::Static(self.credentials()),
        }
    }

    /// Creates `bucket` and opens it as the root user.
    ///
    /// # Errors
    /// When MinIO refuses.
    pub async fn create_bucket(&self, bucket: &str) -> Result<S3> {
        let store = S3::new(&self.options(bucket));
        store.create_bucket().await?;
        Ok(store)
    }

    /// SIGKILL, with everything that was acknowledged still in its folder. See [`Minio::restart`].
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again at the same endpoint, over the same objects.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = spawn(&self.dir, self.port)?;
        ensure!(self.wait_ready().await?, "minio does not start again:\n{}", self.process.output());
        Ok(())
    }

    /// Whether it takes requests: its health says ready a moment before it has read its own users and buckets.
    async fn answers(&self) -> bool {
        let asked = S3::new(&self.options("readiness")).get("asked").await;
        !matches!(asked, Err(StoreError::Unavailable { .. }))
    }

    /// Whether it is ready; `false` if the process ended instead.
    async fn wait_ready(&mut self) -> Result<bool> {
        // reqwest asks for a TLS provider even where no TLS is spoken; a second install changes nothing.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(2)).no_proxy().build()?;
        let url = format!("{}/minio/health/ready", self.endpoint());
        let deadline = Instant::now() + Duration::from_secs(START_SECONDS);
        while Instant::now() < deadline {
            if !self.process.is_alive() {
                return Ok(false);
            }
            if client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) && self.answers().await {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(POLL_MILLISECONDS)).await;
        }
        bail!("minio is not ready after {START_SECONDS} s:\n{}", self.process.output())
    }
}

fn spawn(dir: &TempDir, port: u16) -> Result<Process> {
    let mut command = Command::new(tools::path("minio")?);
    command
        .args(["server", "--quiet", "--address", &format!("127.0.0.1:{port}")])
        .arg(dir.path().join("data"))
        .env("MINIO_ROOT_USER", ROOT_USER)
        .env("MINIO_ROOT_PASSWORD", ROOT_PASSWORD)
        .env("MINIO_BROWSER", "off")
        .env("HOME", dir.path());
    Process::start(command, &dir.path().join("minio.log"))
}
