//! Tools from elsewhere: documents that describe them, and what servers say of theirs, are found, kept, and looked for again.
//!
//! What cannot be had now leaves what was had before in force.

pub(crate) mod mcp;
pub(crate) mod openapi;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dormouse_crds::{
    broker::ToolBrokerSpec,
    sources::{DOCUMENT_BYTES_MAX, DocumentSource, OpenApi},
};
use dormouse_service::{url, wire::Http};
use serde_json::Value;

use crate::{Secrets, catalog};

/// How long a document may take to come.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(20);

/// What was found outside of the spec.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Found {
    /// Documents by their source's name.
    documents: BTreeMap<String, Arc<Value>>,
    /// Tools of MCP servers by the server's name.
    tools: BTreeMap<String, Vec<mcp::Described>>,
}

impl Found {
    /// The document of a source, if there is one by now.
    pub(crate) fn document<'a>(&'a self, source: &'a OpenApi) -> Option<&'a Value> {
        source.document.inline.as_ref().or_else(|| self.documents.get(&source.name).map(|document| &**document))
    }

    /// The tools of an MCP server, as far as they are known.
    pub(crate) fn tools(&self, server: &str) -> &[mcp::Described] {
        self.tools.get(server).map_or(&[], Vec::as_slice)
    }
}

/// Looks for everything that a spec names; answers what is there, with what was `before` in place of what cannot be had, and why it cannot.
pub(crate) async fn find(spec: &ToolBrokerSpec, secrets: &Secrets, http: &Http, before: &Found) -> (Found, Vec<String>) {
    let (mut found, mut missing) = (Found::default(), Vec::new());
    for source in spec.openapi.iter().filter(|source| source.document.inline.is_none()) {
        let looked = tokio::time::timeout(DOCUMENT_TIMEOUT, document(&source.document, secrets, http)).await;
        let looked = looked.unwrap_or_else(|_| Err(format!("did not come within {} s", DOCUMENT_TIMEOUT.as_secs())));
        let had = before.documents.get(&source.name);
        let document = looked.map(Arc::new).or_else(|why| {
            missing.push(format!("the document of openapi `{}` {why}", source.name));
            had.cloned().ok_or(())
        });
        if let Ok(document) = document {
            found.documents.insert(source.name.clone(), document);
        }
    }
    for spec in &spec.mcp_servers {
        // What is wrong with its spec is told where all of it is compiled.
        let server = catalog::compile_mcp_server(spec, "", secrets, &mut Vec::new());
        let had = before.tools.get(&spec.name);
        let tools = server.list(http, secrets).await.or_else(|error| {
            missing.push(format!("the tools of the MCP server `{}`: {}", spec.name, error.message));
            had.cloned().ok_or(())
        });
        if let Ok(tools) = tools {
            found.tools.insert(spec.name.clone(), tools);
        }
    }
    (found, missing)
}

async fn document(source: &DocumentSource, secrets: &Secrets, http: &Http) -> Result<Value, String> {
    let bytes = match (&source.config_map_ref, &source.url) {
        (Some(reference), _) => {
            let key = reference.key.as_deref().unwrap_or_default();
            let missing = |_| format!("is not there: make the ConfigMap `{}` with the key `{key}`", reference.name);
            secrets.config_map(&reference.name, key).map_err(missing)?
        }
        (None, Some(text)) => {
            let url = url::plain(text).ok_or("has a URL that is none, or that has a user, a query or a fragment")?;
            let response = http.send(http.client().get(url)).await.map_err(|_| "cannot be reached".to_owned())?;
            let status = response.status();
            if !status.is_success() {
                return Err(format!("was answered with {status}"));
            }
            whole(response).await?
        }
        (None, None) => return Err("has no place: write one of inline, configMapRef and url".to_owned()),
    };
    // JSON is YAML.
    yaml_serde::from_slice(&bytes).map_err(|error| format!("is neither JSON nor YAML: {error}"))
}

async fn whole(mut response: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| "broke off".to_owned())? {
        if bytes.len() + chunk.len() > DOCUMENT_BYTES_MAX {
            return Err(format!("has more than {DOCUMENT_BYTES_MAX} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
