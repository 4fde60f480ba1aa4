//! The manifests of `docs/encryption.md` are what they seem.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use dormouse_crds::pool::KernelPoolSpec;

const PAGE: &str = include_str!("../../docs/encryption.md");

fn blocks() -> Vec<(serde_json::Value, serde_json::Value)> {
    let value = |text: &str| yaml_serde::from_str::<serde_json::Value>(text).unwrap();
    let blocks = PAGE.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(|block| block.split_once("---\n").unwrap()).map(|(secret, pool)| (value(secret), value(pool))).collect()
}

#[test]
fn the_pool_of_the_page_names_the_secret_of_the_page() {
    let (secret, pool) = blocks().remove(0);
    let current = secret["stringData"]["current"].as_str().unwrap();
    assert!(secret["stringData"][current].is_string(), "`current` names a key");
    let spec: KernelPoolSpec = serde_json::from_value(pool["spec"].clone()).unwrap();
    assert_eq!(Some(spec.encryption.unwrap().key_secret_ref.unwrap().name.as_str()), secret["metadata"]["name"].as_str());
}

#[test]
fn the_pool_with_a_kms_names_the_secret_with_its_token() {
    let (secret, pool) = blocks().remove(1);
    let spec: KernelPoolSpec = serde_json::from_value(pool["spec"].clone()).unwrap();
    let kms = spec.encryption.unwrap().kms.unwrap();
    assert_eq!(Some(kms.credentials_secret_ref.name.as_str()), secret["metadata"]["name"].as_str());
    assert!(secret["stringData"]["token"].is_string());
    assert_eq!((kms.mount.as_str(), kms.key.as_str()), ("transit", "sessions"));
}
