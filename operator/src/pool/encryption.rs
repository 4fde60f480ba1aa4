//! Encryption keys of a pool: the tenant's own Secrets, which its pods mount. The operator only looks whether they are what they should be, so that
//! a person learns what is wrong from the pool and not from pods that do not start. A KMS is asked by the pods alone.

use dormouse_control::reason::PoolReason;
use dormouse_crds::pool::Encryption;
use dormouse_kms::{Credentials, credentials};
use dormouse_seal::{KeyError, Keyring};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::validate::ValidPool;
use crate::{
    checked::{Found, Subject},
    context::Context,
    refusal::Refusal,
    storage::StorageError,
};

/// Makes sure that the Secrets that the pool names hold keys, and credentials of its KMS. Of Secrets that did, and are the same still, none is read.
///
/// # Errors
/// [`StorageError::Refused`] when somebody must change something.
pub async fn check(context: &Context, pool: &ValidPool) -> Result<(), StorageError> {
    let Some(encryption) = &pool.encryption else { return Ok(()) };
    let keys = encryption.key_secret_ref.iter().map(|keys| keys.name.as_str());
    let kms = encryption.kms.iter().map(|kms| kms.credentials_secret_ref.name.as_str());
    let (holder, wanted) = (format!("encryption of {}", pool.name), format!("{encryption:?}"));
    let subject = Subject { namespace: &pool.namespace, secrets: &keys.chain(kms).collect::<Vec<_>>(), holder: &holder, wanted: &wanted };
    context.checked.due(subject, read(context, pool, encryption)).await.map(drop)
}

async fn read(context: &Context, pool: &ValidPool, encryption: &Encryption) -> Result<Found, StorageError> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &pool.namespace);
    if let Some(keys) = &encryption.key_secret_ref {
        judge_keys(encryption, &keys.name, api.get_opt(&keys.name).await?.as_ref()).map_err(StorageError::Refused)?;
    }
    if let Some(kms) = &encryption.kms {
        let name = &kms.credentials_secret_ref.name;
        judge_credentials(name, api.get_opt(name).await?.as_ref()).map_err(StorageError::Refused)?;
    }
    Ok(Found::Good(Timestamp::MAX))
}

fn refusal(message: String) -> Refusal {
    Refusal { reason: PoolReason::EncryptionKeysInvalid, message }
}

fn judge_keys(encryption: &Encryption, name: &str, secret: Option<&Secret>) -> Result<(), Refusal> {
    let Some(secret) = secret else {
        return Err(refusal(format!(
            "Secret {name} does not exist: make it, with a key of 32 random bytes and `current` with the key's name."
        )));
    };
    let entries = secret.data.iter().flatten().map(|(id, bytes)| (id.as_str(), bytes.0.as_slice()));
    let keyring = Keyring::parse(entries).and_then(|keyring| {
        let nobody = keyring.wants_service() && encryption.kms.is_none();
        if nobody { Err(KeyError::NoService) } else { Ok(()) }
    });
    keyring.map_err(|error| refusal(format!("Secret {name}: {error}.")))
}

fn judge_credentials(name: &str, secret: Option<&Secret>) -> Result<(), Refusal> {
    let Some(secret) = secret else {
        return Err(refusal(format!("Secret {name} does not exist: make it, with `{}` for the KMS.", credentials::TOKEN)));
    };
    let entry = |key: &str| secret.data.as_ref()?.get(key).map(|bytes| bytes.0.as_slice());
    let read = Credentials::parse(entry(credentials::TOKEN), entry(credentials::CA));
    read.map(drop).map_err(|error| refusal(format!("Secret {name}: {error}.")))
}

#[cfg(test)]
mod tests {
    use dormouse_crds::{NameRef, pool::Kms};
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(entries: &[(&str, &[u8])]) -> Secret {
        let data = entries.iter().map(|(id, bytes)| ((*id).to_owned(), ByteString(bytes.to_vec()))).collect();
        Secret { data: Some(data), ..Secret::default() }
    }

    fn name() -> NameRef {
        NameRef { name: "keys".to_owned() }
    }

    fn encryption(kms: bool) -> Encryption {
        let (url, key) = ("https://vault.example".to_owned(), "sessions".to_owned());
        let kms = kms.then(|| Kms { url, mount: "transit".to_owned(), key, credentials_secret_ref: name() });
        Encryption { key_secret_ref: Some(name()), kms }
    }

    #[test]
    fn a_secret_without_keys_is_refused_with_what_to_write() {
        assert!(judge_keys(&encryption(false), "keys", Some(&secret(&[("k1", &[0xa5; 32]), ("current", b"k1")]))).is_ok());
        let left_to_kms = secret(&[("k1", &[0xa5; 32]), ("current", b"kms")]);
        assert!(judge_keys(&encryption(true), "keys", Some(&left_to_kms)).is_ok());
        for (found, words) in [
            (None, "does not exist"),
            (Some(secret(&[])), "`current` is missing"),
            (Some(secret(&[("k1", b"hunter2"), ("current", b"k1")])), "32 random bytes"),
            (Some(left_to_kms), "write spec.encryption.kms"),
        ] {
            let refusal = judge_keys(&encryption(false), "keys", found.as_ref()).unwrap_err();
            assert_eq!(refusal.reason, PoolReason::EncryptionKeysInvalid);
            assert!(refusal.message.contains(words) && refusal.message.contains("keys"), "{}", refusal.message);
        }
    }

    #[test]
    fn credentials_of_a_kms_that_are_none_are_refused_with_what_to_write() {
        assert!(judge_credentials("kms-token", Some(&secret(&[("token", b"hvs.x\n")]))).is_ok());
        for (found, words) in [
            (None, "does not exist"),
            (Some(secret(&[("current", b"k1")])), "`token` is missing"),
            (Some(secret(&[("token", b"two words")])), "printable"),
            (Some(secret(&[("token", b"hvs.x"), ("ca.crt", b"none")])), "no certificates in PEM"),
        ] {
            let refusal = judge_credentials("kms-token", found.as_ref()).unwrap_err();
            assert_eq!(refusal.reason, PoolReason::EncryptionKeysInvalid);
            assert!(refusal.message.contains(words) && refusal.message.contains("kms-token"), "{}", refusal.message);
        }
    }
}
