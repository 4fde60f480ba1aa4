//! Encryption keys of a pool: the tenant's own Secret, which its pods mount. The operator only looks whether it is one, so that a person learns
//! what is wrong from the pool and not from pods that do not start.

use dormouse_seal::Keyring;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::{
    PoolReason,
    validate::{Refusal, ValidPool},
};
use crate::{context::Context, storage::StorageError};

/// Makes sure that the Secret that the pool names holds keys.
///
/// # Errors
/// [`StorageError::Refused`] when somebody must change something.
pub async fn check(context: &Context, pool: &ValidPool) -> Result<(), StorageError> {
    let Some(name) = &pool.encryption_secret else { return Ok(()) };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &pool.namespace);
    judge(name, api.get_opt(name).await?.as_ref()).map_err(StorageError::Refused)
}

fn judge(name: &str, secret: Option<&Secret>) -> Result<(), Refusal> {
    let refusal = |message| Refusal { reason: PoolReason::EncryptionKeysInvalid, message };
    let Some(secret) = secret else {
        return Err(refusal(format!(
            "Secret {name} does not exist: make it, with a key of 32 random bytes and `current` with the key's name."
        )));
    };
    let entries = secret.data.iter().flatten().map(|(id, bytes)| (id.as_str(), bytes.0.as_slice()));
    Keyring::parse(entries).map(drop).map_err(|error| refusal(format!("Secret {name}: {error}.")))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(entries: &[(&str, &[u8])]) -> Secret {
        let data = entries.iter().map(|(id, bytes)| ((*id).to_owned(), ByteString(bytes.to_vec()))).collect();
        Secret { data: Some(data), ..Secret::default() }
    }

    #[test]
    fn a_secret_without_keys_is_refused_with_what_to_write() {
        assert!(judge("keys", Some(&secret(&[("k1", &[0xa5; 32]), ("current", b"k1")]))).is_ok());
        for (found, words) in [
            (None, "does not exist"),
            (Some(secret(&[])), "`current` is missing"),
            (Some(secret(&[("k1", b"hunter2"), ("current", b"k1")])), "32 random bytes"),
        ] {
            let refusal = judge("keys", found.as_ref()).unwrap_err();
            assert_eq!(refusal.reason, PoolReason::EncryptionKeysInvalid);
            assert!(refusal.message.contains(words) && refusal.message.contains("keys"), "{}", refusal.message);
        }
    }
}
