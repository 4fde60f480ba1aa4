//! A real MinIO on loopback, with a bucket store in a temporary folder.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Result, ensure};
use dormouse_store::{CredentialSource, Credentials, S3, S3Options, SnapshotStore as _, StoreError};
use tempfile::TempDir;

use crate::{
    apiserver::ApiServer,
    process::{Process, serve_when},
    tools,
};

/// How long one look at its health may take.
const LOOK_SECONDS: u64 = 2;
/// The root user's name.
const ROOT_USER: &str = "testkit-root";
/// The root user's password.
const ROOT_PASSWORD: &str = "testkit-root-password";
/// Its region.
const REGION: &str = "us-east-1";
/// Whom tokens must be meant for that it gives a role for.
const AUDIENCE: &str = "dormouse";
/// The role: MinIO makes the name of the audience, as base64url of its SHA-1.
const ROLE_ARN: &str = "arn:minio:iam:::role/j6nWcuFlCiFVYhLeEvj3kEBddFQ";

/// A MinIO of this test's own. Dropping it ends the process and removes its files.
#[derive(Debug)]
pub struct Minio {
    process: Process,
    port: u16,
    dir: TempDir,
    /// URL of the API server whose tokens it gives a role for.
    issuer: Option<String>,
}

impl Minio {
    /// Starts the process and waits until it is ready.
    ///
    /// # Errors
    /// When it was not built, or does not become ready.
    pub async fn start() -> Result<Self> {
        Self::start_in(tempdir()?, None).await
    }

    /// The same, and it gives the role [`Minio::role_arn`], which may do everything, for tokens of this API server that are meant for
    /// [`Minio::audience`].
    ///
    /// # Errors
    /// When it was not built, or does not become ready.
    pub async fn start_trusting(server: &ApiServer) -> Result<Self> {
        let discovery = ["--clusterrole=system:service-account-issuer-discovery", "--group=system:unauthenticated"];
        server.kubectl(&["create", "clusterrolebinding", "issuer", discovery[0], discovery[1]])?;
        let dir = tempdir()?;
        let authorities = dir.path().join(".minio/certs/CAs");
        std::fs::create_dir_all(&authorities)?;
        std::fs::copy(server.ca(), authorities.join("apiserver.crt"))?;
        Self::start_in(dir, Some(server.url().to_owned())).await
    }

    async fn start_in(dir: TempDir, issuer: Option<String>) -> Result<Self> {
        let client = client()?;
        let make = |port| command(dir.path(), port, issuer.as_deref());
        let (process, port) = serve_when(&log(dir.path()), make, async |port| is_ready(&client, port).await).await?;
        Ok(Self { process, port, dir, issuer })
    }

    /// The audience of tokens that a role is given for.
    #[must_use]
    pub fn audience(&self) -> &'static str {
        AUDIENCE
    }

    /// The role that is given for a token.
    #[must_use]
    pub fn role_arn(&self) -> &'static str {
        ROLE_ARN
    }

    /// `http://127.0.0.1:PORT`
    #[must_use]
    pub fn endpoint(&self) -> String {
        endpoint(self.port)
    }

    /// Its region.
    #[must_use]
    pub fn region(&self) -> &'static str {
        REGION
    }

    /// The root user's credentials.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        credentials()
    }

    /// How to reach `bucket` as the root user.
    #[must_use]
    pub fn options(&self, bucket: &str) -> S3Options {
        options(self.port, bucket)
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
        self.process = Process::start(command(self.dir.path(), self.port, self.issuer.as_deref())?, &log(self.dir.path()))?;
        let (client, port) = (client()?, self.port);
        ensure!(
            self.process.until(async || is_ready(&client, port).await).await?,
            "minio does not start again:\n{}",
            self.process.output()
        );
        Ok(())
    }
}

fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn credentials() -> Credentials {
    Credentials::new(ROOT_USER, ROOT_PASSWORD)
}

fn options(port: u16, bucket: &str) -> S3Options {
    let credentials = CredentialSource::Static(credentials());
    S3Options { endpoint: endpoint(port), region: REGION.to_owned(), bucket: bucket.to_owned(), credentials }
}

fn client() -> Result<reqwest::Client> {
    // reqwest asks for a TLS provider even where no TLS is spoken; a second install changes nothing.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Ok(reqwest::Client::builder().timeout(Duration::from_secs(LOOK_SECONDS)).no_proxy().build()?)
}

/// Whether it takes requests: its health says ready a moment before it has read its own users and buckets.
async fn is_ready(client: &reqwest::Client, port: u16) -> bool {
    let healthy = client.get(format!("{}/minio/health/ready", endpoint(port))).send().await;
    healthy.is_ok_and(|answer| answer.status().is_success())
        && !matches!(S3::new(&options(port, "readiness")).get("asked").await, Err(StoreError::Unavailable { .. }))
}

fn tempdir() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("dormouse-minio-").tempdir()?)
}

fn log(dir: &Path) -> PathBuf {
    dir.join("minio.log")
}

fn command(dir: &Path, port: u16, issuer: Option<&str>) -> Result<Command> {
    let mut command = Command::new(tools::path("minio")?);
    command
        .args(["server", "--quiet", "--address", &format!("127.0.0.1:{port}")])
        .arg(dir.join("data"))
        .env("MINIO_ROOT_USER", ROOT_USER)
        .env("MINIO_ROOT_PASSWORD", ROOT_PASSWORD)
        .env("MINIO_BROWSER", "off")
        .env("HOME", dir);
    if let Some(issuer) = issuer {
        command
            .env("MINIO_IDENTITY_OPENID_CONFIG_URL", format!("{issuer}/.well-known/openid-configuration"))
            .env("MINIO_IDENTITY_OPENID_CLIENT_ID", AUDIENCE)
            .env("MINIO_IDENTITY_OPENID_ROLE_POLICY", "readwrite");
    }
    Ok(command)
}
