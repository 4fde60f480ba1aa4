//! Flags of a process that is given a bucket. Each is an environment variable too.

use std::path::PathBuf;

use crate::{CredentialSource, S3Options};

/// A bucket, and where in it.
#[derive(Debug, Clone, clap::Args)]
pub struct S3Args {
    /// URL of the S3 service.
    #[arg(long, env = "DORMOUSE_S3_ENDPOINT")]
    pub s3_endpoint: String,
    /// Bucket.
    #[arg(long, env = "DORMOUSE_S3_BUCKET")]
    pub s3_bucket: String,
    /// Region.
    #[arg(long, env = "DORMOUSE_S3_REGION", default_value = "us-east-1")]
    pub s3_region: String,
    /// Before every key.
    #[arg(long, env = "DORMOUSE_S3_PREFIX", default_value = "")]
    pub s3_prefix: String,
    /// Folder with accessKeyId and secretAccessKey, and sessionToken and expiration where there are any; read again when they change.
    #[arg(long, env = "DORMOUSE_S3_CREDENTIALS_DIR", default_value = "/etc/dormouse/storage")]
    pub s3_credentials_dir: PathBuf,
}

impl S3Args {
    /// The bucket that these flags describe.
    #[must_use]
    pub fn options(&self) -> S3Options {
        S3Options {
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            bucket: self.s3_bucket.clone(),
            credentials: CredentialSource::Folder(self.s3_credentials_dir.clone()),
        }
    }
}
