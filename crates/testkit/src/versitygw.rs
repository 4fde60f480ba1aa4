//! A real S3 server that must be refused: versitygw 1.7 over a folder looks at the condition, writes the object beside it and renames, and another
//! writer fits in between. 1.8 locks.

use std::process::Command;

use anyhow::{Context as _, Result};
use dormouse_store::{CredentialSource, Credentials, S3, S3Options};
use tempfile::TempDir;

use crate::{
    process::{Process, serve},
    tools,
};

const USER: &str = "testkit-root";
const PASSWORD: &str = "testkit-root-password";
const REGION: &str = "us-east-1";

/// One of this test's own. Dropping it ends the process and removes its files.
#[derive(Debug)]
pub struct VersityGw {
    _process: Process,
    port: u16,
    _dir: TempDir,
}

impl VersityGw {
    /// Starts the process and waits until it listens.
    ///
    /// # Errors
    /// When it was not built, or does not start.
    pub async fn start() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("dormouse-versitygw-").tempdir()?;
        let (objects, attributes) = (dir.path().join("objects"), dir.path().join("attributes"));
        for folder in [&objects, &attributes] {
            std::fs::create_dir(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        let command = |port: u16| {
            let mut command = Command::new(tools::path("versitygw")?);
            command.args(["--port", &format!("127.0.0.1:{port}"), "--region", REGION, "--quiet", "posix", "--sidecar"]);
            // Beside the objects, as not every file system of a test machine has extended attributes.
            command.arg(&attributes).arg(&objects).env("ROOT_ACCESS_KEY", USER).env("ROOT_SECRET_KEY", PASSWORD).env("HOME", dir.path());
            Ok(command)
        };
        let (process, port) = serve(&dir.path().join("log"), command).await?;
        Ok(Self { _process: process, port, _dir: dir })
    }

    /// Creates `bucket` and opens it.
    ///
    /// # Errors
    /// When it refuses.
    pub async fn create_bucket(&self, bucket: &str) -> Result<S3> {
        let store = S3::new(&S3Options {
            endpoint: format!("http://127.0.0.1:{}", self.port),
            region: REGION.to_owned(),
            bucket: bucket.to_owned(),
            credentials: CredentialSource::Static(Credentials::new(USER, PASSWORD)),
        });
        store.create_bucket().await?;
        Ok(store)
    }
}
