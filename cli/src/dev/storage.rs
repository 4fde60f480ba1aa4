//! Where the sessions of `dormouse dev` sleep.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use dormouse_store::{CredentialSource, Credentials, Folder, S3, S3Options, SnapshotStore};

/// The bucket's flags.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct StorageArgs {
    /// URL of an S3 service; with --s3-bucket, sessions sleep there and not in --data.
    #[arg(long, env = "DORMOUSE_S3_ENDPOINT", requires = "s3_bucket")]
    s3_endpoint: Option<String>,
    /// Bucket. Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
    #[arg(long, env = "DORMOUSE_S3_BUCKET", requires = "s3_endpoint")]
    s3_bucket: Option<String>,
    /// Region.
    #[arg(long, env = "DORMOUSE_S3_REGION", default_value = "us-east-1")]
    s3_region: String,
}

impl StorageArgs {
    /// Opens the store, which is a folder where no bucket is named.
    pub(super) fn open(&self, data: &Path) -> anyhow::Result<(Arc<dyn SnapshotStore>, Option<Folder>)> {
        let (Some(endpoint), Some(bucket)) = (&self.s3_endpoint, &self.s3_bucket) else {
            let folder = Folder::open(data.join("store"))?;
            return Ok((Arc::new(folder.clone()), Some(folder)));
        };
        let mut credentials = Credentials::new(variable("AWS_ACCESS_KEY_ID")?, variable("AWS_SECRET_ACCESS_KEY")?);
        credentials.session_token = std::env::var("AWS_SESSION_TOKEN").ok();
        let bucket = S3::new(&S3Options {
            endpoint: endpoint.clone(),
            region: self.s3_region.clone(),
            bucket: bucket.clone(),
            credentials: CredentialSource::Static(credentials),
        });
        Ok((Arc::new(bucket), None))
    }

    /// For people.
    pub(super) fn describe(&self, data: &Path) -> String {
        match (&self.s3_endpoint, &self.s3_bucket) {
            (Some(endpoint), Some(bucket)) => format!("sessions in the bucket {bucket} of {endpoint}"),
            _ => format!("everything in {}", data.display()),
        }
    }
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("--s3-endpoint needs credentials: set {name}"))
}
