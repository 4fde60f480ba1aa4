//! The manifests of `docs/encryption.md` are what they seem.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use dormouse_crds::pool::KernelPoolSpec;

const PAGE: &str = include_str!("../../docs/encryption.md");

#[test]
fn the_pool_of_the_page_names_the_secret_of_the_page() {
    let block = PAGE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the page has its manifests");
    let (secret, pool) = block.split_once("---\n").unwrap();
    let value = |text: &str| yaml_serde::from_str::<serde_json::Value>(text).unwrap();
    let (secret, pool) = (value(secret), value(pool));
    let current = secret["stringData"]["current"].as_str().unwrap();
    assert!(secret["stringData"][current].is_string(), "`current` names a key");
    let spec: KernelPoolSpec = serde_json::from_value(pool["spec"].clone()).unwrap();
    assert_eq!(Some(spec.encryption.unwrap().key_secret_ref.name.as_str()), secret["metadata"]["name"].as_str());
}
