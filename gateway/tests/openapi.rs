//! The OpenAPI document in `docs/` is what the code says. `UPDATE=1` writes it anew.

use std::path::Path;

#[test]
fn the_openapi_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let generated = dormouse_gateway::openapi().to_pretty_json().unwrap() + "\n";
    dormouse_testkit::generated::is_current(&path, &generated);
}
