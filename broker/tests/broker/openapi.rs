//! Tools from OpenAPI documents, against services that answer what they are asked.

use std::{collections::BTreeMap, process::Command};

use axum::{Router, extract::Request, http::header, response::IntoResponse as _, routing::any};
use dormouse_broker::{Broker, ConfigError, Secrets};
use dormouse_crds::broker::ToolBrokerSpec;
use dormouse_protocol::ErrorCode;
use dormouse_service::Metrics;
use dormouse_testkit::apiserver::ApiServer;
use serde_json::{Value, json};

use crate::{
    packages,
    world::{call, failure, value},
};

/// A service that answers how it was asked, and the document of `GET /openapi.yaml`.
async fn service() -> String {
    let asked = async |request: Request| {
        let (parts, body) = request.into_parts();
        if parts.uri.path() == "/openapi.yaml" {
            return (([(header::CONTENT_TYPE, "application/yaml")]), document().to_string()).into_response();
        }
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let trace = parts.headers.get("x-trace").map(|value| value.to_str().unwrap().to_owned());
        let body = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        axum::Json(json!({ "asked": format!("{} {}", parts.method, parts.uri), "trace": trace, "body": body })).into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(any(asked))).await });
    format!("http://{address}")
}

fn document() -> Value {
    let pet = json!({ "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } }, "required": true });
    let tags = json!({ "name": "tags", "in": "query", "schema": { "type": "array", "items": { "type": "string" } } });
    let trace = json!({ "name": "X-Trace", "in": "header", "schema": { "type": "string" } });
    let id = json!([{ "name": "petId", "in": "path", "required": true, "schema": { "type": "integer" } }]);
    json!({
        "openapi": "3.1.0",
        "servers": [{ "url": "http://elsewhere.example" }],
        "paths": {
            "/pets": {
                "get": { "operationId": "listPets", "summary": "Lists pets", "parameters": [tags, trace] },
                "post": { "operationId": "addPet", "requestBody": pet },
            },
            "/pets/{petId}": { "parameters": id, "get": { "operationId": "getPet" }, "delete": { "operationId": "removePet" } },
            "/admin": { "get": { "operationId": "administer" } },
        },
        "components": { "schemas": { "Pet": { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] } } },
    })
}

fn spec(base: &str, source: Value) -> ToolBrokerSpec {
    let service = json!({ "name": "pets", "baseUrl": format!("{base}/v2"), "allowedMethods": ["GET", "POST"], "allowedPaths": ["/pets*"] });
    let mut openapi = json!({ "name": "pets", "service": "pets" });
    openapi.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    serde_json::from_value(json!({ "services": [service], "openapi": [openapi] })).unwrap()
}

fn names(broker: &Broker) -> Vec<String> {
    broker.tools().into_iter().map(|tool| tool.name).collect()
}

fn nothing() -> Secrets {
    Secrets::memory(BTreeMap::new())
}

#[tokio::test]
async fn operations_that_the_service_allows_are_tools() {
    let base = service().await;
    let metrics = Metrics::new();
    let spec = spec(&base, json!({ "document": { "inline": document() } }));
    let broker = Broker::with_store(&spec, nothing(), &metrics, None).unwrap();
    assert_eq!(names(&broker), ["addPet", "getPet", "listPets"], "neither what its methods nor what its paths leave out");
    let listed = value(&broker, call(1, "listPets", json!({ "tags": ["a", "b"], "X-Trace": "t-1" }))).await;
    assert_eq!(listed, json!({ "asked": "GET /v2/pets?tags=a&tags=b", "trace": "t-1", "body": null }), "below the service's own baseUrl");
    let got = value(&broker, call(2, "getPet", json!({ "petId": 7 }))).await;
    assert_eq!(got["asked"], "GET /v2/pets/7");
    let added = value(&broker, call(3, "addPet", json!({ "body": { "name": "Rex" } }))).await;
    assert_eq!(added, json!({ "asked": "POST /v2/pets", "trace": null, "body": { "name": "Rex" } }));
    for (number, (tool, args)) in (4..).zip([
        ("getPet", json!({ "petId": "seven" })),
        ("addPet", json!({ "body": {} })),
        ("addPet", json!({})),
        ("listPets", json!({ "other": 1 })),
        ("listPets", json!({ "X-Trace": "a\nb" })),
    ]) {
        assert_eq!(failure(&broker, call(number, tool, args.clone())).await.code, ErrorCode::ToolArgsInvalid, "{tool} {args}");
    }
    let description = broker.tools().into_iter().find(|tool| tool.name == "listPets").unwrap();
    assert_eq!((description.description.as_str(), description.approval), ("Lists pets", false));
    // A document counts as one, however many operations it has.
    let counted = metrics.render().unwrap();
    assert!(counted.contains(r#"dormouse_broker_calls_total{outcome="ok",tool="openapi/pets"} 3"#), "{counted}");
    assert!(!counted.contains(r#"tool="listPets""#), "{counted}");
}

#[tokio::test]
async fn documents_come_from_urls_and_config_maps_and_are_looked_for_again() {
    let base = service().await;
    let url = json!({ "document": { "url": format!("{base}/openapi.yaml") }, "include": ["get*"], "approval": "Always" });
    let broker = Broker::new(spec(&base, url), nothing()).unwrap();
    assert!(names(&broker).is_empty());
    assert!(broker.look_for_tools().await.unwrap().is_empty());
    assert_eq!(names(&broker), ["getPet"]);
    assert!(broker.tools()[0].approval);

    let folder = tempfile::tempdir().unwrap();
    let map = json!({ "document": { "configMapRef": { "name": "pets", "key": "openapi.json" } } });
    let broker = Broker::new(spec(&base, map), nothing().with_config_maps_in(folder.path())).unwrap();
    let missing = broker.look_for_tools().await.unwrap();
    assert_eq!(missing, ["the document of openapi `pets` is not there: make the ConfigMap `pets` with the key `openapi.json`"]);
    std::fs::create_dir(folder.path().join("pets")).unwrap();
    let file = folder.path().join("pets/openapi.json");
    std::fs::write(&file, document().to_string()).unwrap();
    assert!(broker.look_for_tools().await.unwrap().is_empty());
    assert_eq!(names(&broker).len(), 3);
    std::fs::write(&file, "]").unwrap();
    assert_eq!(broker.look_for_tools().await.unwrap().len(), 1);
    assert_eq!(names(&broker).len(), 3, "what was had stays");
    std::fs::write(&file, "openapi: 2.0").unwrap();
    assert!(matches!(broker.look_for_tools().await, Err(ConfigError::Problems(_))));
    assert_eq!(names(&broker).len(), 3);
}

#[tokio::test]
async fn a_name_of_two_sources_is_refused() {
    let mut spec = spec("http://localhost:1", json!({ "document": { "inline": document() } }));
    let other = json!({ "name": "getPet", "service": "pets", "path": "/pets" });
    spec.tools.push(serde_json::from_value(other).unwrap());
    let Err(ConfigError::Problems(problems)) = Broker::new(spec, nothing()) else { panic!("it is defined twice") };
    assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), ["spec.openapi[0].getPet.name: `getPet` is defined twice"]);
}

/// Has TypeScript's own compiler read the declarations of a real product's tools, and cells that use them: of all its tools, of which not each is
/// declared, and of some.
fn compiles_with(all: &str, some: &str) {
    let Some(typescript) = packages::npm("declarations", &["typescript@5.9.3"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let compile = |declared: &str, cell: &str| {
        std::fs::write(folder.path().join("tools.d.ts"), declared).unwrap();
        std::fs::write(folder.path().join("cell.ts"), format!("{cell}\nexport {{}};\n")).unwrap();
        let mut command = Command::new(typescript.join("node_modules/.bin/tsc"));
        command.args(["--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--lib", "es2022"]);
        let said = command.args(["tools.d.ts", "cell.ts"]).current_dir(folder.path()).output().unwrap();
        (said.status.success(), String::from_utf8(said.stdout).unwrap())
    };
    let right = "const listed = await tools.list(); const first: string = listed[0].name;
        const made = await tools.readCoreV1NamespacedConfigMap({ namespace: 'default', name: 'made' }, { reference: true });
        await callTool('readCoreV1NamespacedConfigMap', { namespace: first, name: 'made' });";
    for declared in [all, some] {
        let (compiled, said) = compile(declared, right);
        assert!(compiled, "{said}");
    }
    for wrong in [
        "await tools.readCoreV1NamespacedConfigMap({ namespace: 7, name: 'made' });",
        "await tools.readCoreV1NamespacedConfigMap({ namespace: 'default' });",
        "await tools.noSuchTool({});",
    ] {
        let (compiled, said) = compile(some, wrong);
        assert!(!compiled && said.contains("cell.ts(1,") && !said.contains("tools.d.ts("), "{wrong}: {said}");
    }
}

#[tokio::test]
async fn the_document_of_a_real_product_is_usable_against_it() {
    let kubernetes = ApiServer::start().await.unwrap();
    let document: Value = serde_json::from_str(&kubernetes.kubectl(&["get", "--raw", "/openapi/v3/api/v1"]).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("k8s")).unwrap();
    std::fs::write(folder.path().join("k8s/token"), kubernetes.admin_token()).unwrap();
    std::fs::copy(kubernetes.ca(), folder.path().join("k8s/ca.crt")).unwrap();
    let service = json!({
        "name": "k8s", "baseUrl": kubernetes.url(), "allowedMethods": ["GET", "POST", "DELETE"], "allowedPaths": ["/api/v1/*"],
        "auth": { "type": "bearer", "secretRef": { "name": "k8s", "key": "token" } }, "tls": { "caSecretRef": { "name": "k8s" } },
    });
    let source = json!({ "name": "k8s", "service": "k8s", "document": { "inline": document } });
    let spec: ToolBrokerSpec = serde_json::from_value(json!({ "services": [service], "openapi": [source] })).unwrap();
    let broker = Broker::new(spec.clone(), Secrets::directory(folder.path())).unwrap();
    assert!(names(&broker).len() > 100, "{:?}", names(&broker));
    // Of some, as all would be more than is declared.
    let mut some = spec.clone();
    some.openapi[0].include = vec!["read*".to_owned(), "list*".to_owned(), "createCoreV1NamespacedConfigMap".to_owned()];
    let some = Broker::new(some, Secrets::directory(folder.path())).unwrap();
    let declared = async |broker: &Broker| value(broker, call(1, "tools.declarations", json!({}))).await.as_str().unwrap().to_owned();
    compiles_with(&declared(&broker).await, &declared(&some).await);
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "made" }, "data": { "by": "a tool" } });
    value(&broker, call(4, "createCoreV1NamespacedConfigMap", json!({ "namespace": "default", "body": body }))).await;
    let read = value(&broker, call(2, "readCoreV1NamespacedConfigMap", json!({ "namespace": "default", "name": "made" }))).await;
    assert_eq!(read["data"], json!({ "by": "a tool" }));
    let wrong = json!({ "namespace": "default", "body": { "metadata": { "name": 7 } } });
    assert_eq!(failure(&broker, call(3, "createCoreV1NamespacedConfigMap", wrong)).await.code, ErrorCode::ToolArgsInvalid);
}
