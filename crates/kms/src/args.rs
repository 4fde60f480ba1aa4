//! Flags of every process that encrypts. Each is an environment variable too.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use dormouse_crds::pool::KMS_MOUNT;
use dormouse_seal::{Keys, Seal};

use crate::transit::{KeyLocation, KeyLocationError, Transit};

/// Which key service encrypts data keys, if one does.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct KmsArgs {
    /// URL of a KMS with the API of Vault's Transit engine; http:// on loopback only. Absent: no KMS.
    #[arg(long, env = "DORMOUSE_KMS_URL", requires = "kms_key")]
    pub kms_url: Option<String>,
    /// Name of its key.
    #[arg(long, env = "DORMOUSE_KMS_KEY")]
    pub kms_key: Option<String>,
    /// Where the engine is mounted.
    #[arg(long, env = "DORMOUSE_KMS_MOUNT", default_value = KMS_MOUNT)]
    pub kms_mount: String,
    /// Folder with the files `token` and, where the KMS's certificate is of no public authority, `ca.crt`; read at each use.
    #[arg(long, env = "DORMOUSE_KMS_CREDENTIALS_DIR", default_value = "/etc/dormouse/kms", value_name = "FOLDER")]
    pub kms_credentials_dir: PathBuf,
}

/// What encrypts the objects of `tenant`, as flags say: keys in a folder, a key service, both or neither.
///
/// # Errors
/// The service's place is none.
pub fn seal(tenant: &str, keys: Option<&Path>, kms: &KmsArgs) -> Result<Seal, KeyLocationError> {
    let keys = keys.map(Keys::folder);
    let Some((url, key)) = kms.kms_url.as_deref().zip(kms.kms_key.as_deref()) else {
        return Ok(keys.map_or_else(Seal::none, |keys| Seal::new(tenant, keys)));
    };
    let place = KeyLocation::new(url, &kms.kms_mount, key)?;
    Ok(Seal::with_service(tenant, keys, Arc::new(Transit::new(place, &kms.kms_credentials_dir))))
}
