//! The OpenAPI document in `docs/` is what the code says. `UPDATE=1` writes it anew.

use std::path::Path;

#[test]
fn the_openapi_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let generated = dormouse_gateway::openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "docs/openapi.json is not what the code says: run this test with UPDATE=1 and commit the file");
}
