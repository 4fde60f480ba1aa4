//! A real KMS: the Transit engine of Vault on loopback, with its keys in a temporary folder.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    process::{Process, listens, serve},
    tools,
};

const TOKEN: &str = "testkit-token";

/// Certificate and key of a server for 127.0.0.1, in PEM, and whose certificates its clients believe.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The authority's certificate.
    pub ca: String,
    /// The server's.
    pub cert: String,
    /// The key of the server's.
    pub key: String,
}

/// One of this test's own. Dropping it ends the process and removes its keys.
#[derive(Debug)]
pub struct Transit {
    process: Process,
    port: u16,
    dir: TempDir,
    ca: Option<String>,
}

impl Transit {
    /// Starts it and makes the key `key`.
    ///
    /// # Errors
    /// When it was not built, or does not start.
    pub async fn start(key: &str) -> Result<Self> {
        Self::start_with(key, None).await
    }

    /// The same behind TLS.
    ///
    /// # Errors
    /// When it was not built, or does not start.
    pub async fn start_tls(key: &str, certificate: &Certificate) -> Result<Self> {
        Self::start_with(key, Some(certificate)).await
    }

    async fn start_with(key: &str, certificate: Option<&Certificate>) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("dormouse-transit-").tempdir()?;
        if let Some(certificate) = certificate {
            std::fs::write(dir.path().join("tls.crt"), &certificate.cert)?;
            std::fs::write(dir.path().join("tls.key"), &certificate.key)?;
        }
        let (process, port) = serve(&dir.path().join("log"), |port| command(dir.path(), port)).await?;
        let transit = Self { process, port, dir, ca: certificate.map(|certificate| certificate.ca.clone()) };
        transit.write_credentials(TOKEN)?;
        transit.ask(&format!("keys/{key}"), &json!({})).await?;
        Ok(transit)
    }

    /// Its URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The folder with what its clients need: `token`, and `ca.crt` behind TLS.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.dir.path().join("credentials")
    }

    /// Gives its clients another token; it knows one only.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write_credentials(&self, token: &str) -> Result<()> {
        std::fs::create_dir_all(self.credentials())?;
        std::fs::write(self.credentials().join("token"), token)?;
        if let Some(ca) = &self.ca {
            std::fs::write(self.credentials().join("ca.crt"), ca)?;
        }
        Ok(())
    }

    /// Gives its clients the token that it knows.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn mend_credentials(&self) -> Result<()> {
        self.write_credentials(TOKEN)
    }

    /// Asks it as an administrator does: `keys/<key>/rotate`, `keys/<key>/config`, …
    ///
    /// # Errors
    /// When it refuses.
    pub async fn ask(&self, path: &str, body: &Value) -> Result<()> {
        let request = self.client()?.post(format!("{}/v1/transit/{path}", self.url())).header("X-Vault-Token", TOKEN).json(body);
        let answer = request.send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{path}: {status}: {text}");
        Ok(())
    }

    /// How often it was asked to encrypt, and to decrypt.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn asked(&self) -> Result<(u64, u64)> {
        let asked: HashMap<String, u64> = self.client()?.get(format!("{}/asked", self.url())).send().await?.json().await?;
        let of = |what: &str| asked.get(what).copied().unwrap_or(0);
        Ok((of("encrypt"), of("decrypt")))
    }

    /// SIGKILL. Its keys stay.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again at the same URL, with the same keys.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = Process::start(command(self.dir.path(), self.port)?, &self.dir.path().join("log"))?;
        let port = self.port;
        ensure!(self.process.until(async || listens(port).await).await?, "transit does not start again:\n{}", self.process.output());
        Ok(())
    }

    fn client(&self) -> Result<reqwest::Client> {
        // reqwest asks for a TLS provider even where no TLS is spoken; a second install changes nothing.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let ca = self.ca.as_ref().map(|ca| reqwest::Certificate::from_pem(ca.as_bytes())).transpose()?;
        reqwest::Client::builder().no_proxy().tls_certs_only(ca).build().context("a client")
    }
}

fn command(dir: &Path, port: u16) -> Result<Command> {
    let keys = dir.join("keys");
    std::fs::create_dir_all(&keys)?;
    let mut command = Command::new(tools::path("transit")?);
    command.args(["-listen", &format!("127.0.0.1:{port}"), "-token", TOKEN, "-data"]).arg(keys);
    if dir.join("tls.crt").is_file() {
        command.arg("-cert").arg(dir.join("tls.crt")).arg("-key").arg(dir.join("tls.key"));
    }
    Ok(command)
}
