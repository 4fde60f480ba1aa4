//! Tools from elsewhere: documents that describe them, and what servers say of theirs, are found, kept, and looked for again.
//!
//! What cannot be had now leaves what was had before in force.

pub(crate) mod mcp;
pub(crate) mod openapi;
mod server;

pub(crate) use server::{McpAsk, McpTool, compile as compile_server};

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dormouse_crds::{
    broker::ToolBrokerSpec,
    knowledge::KNOWLEDGE_BYTES_MAX,
    sources::{DOCUMENT_BYTES_MAX, DocumentSource, OpenApi},
};
use dormouse_service::{url, wire::Http};
use futures::future::join_all;
use serde_json::Value;

use crate::{
    BrokerStore, Secrets,
    knowledge::{self, Base},
    net::{self, Names},
};

/// How long a document may take to come.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a base of documents may take to come.
const KNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(60);

/// What was found outside of the spec.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Found {
    /// Documents by their source's name.
    documents: BTreeMap<String, Arc<Value>>,
    /// Tools of MCP servers by the server's name.
    tools: BTreeMap<String, Vec<mcp::Described>>,
    /// Bases of documents by name.
    bases: BTreeMap<String, Arc<Base>>,
}

impl Found {
    /// The document of a source, if there is one by now.
    pub(crate) fn document<'a>(&'a self, source: &'a OpenApi) -> Option<&'a Value> {
        source.document.inline.as_ref().or_else(|| self.documents.get(&source.name).map(|document| &**document))
    }

    /// A base of documents, if it is there by now.
    pub(crate) fn base(&self, name: &str) -> Option<Arc<Base>> {
        self.bases.get(name).cloned()
    }

    /// The tools of an MCP server, as far as they are known.
    pub(crate) fn tools(&self, server: &str) -> &[mcp::Described] {
        self.tools.get(server).map_or(&[], Vec::as_slice)
    }
}

/// Looks for everything that a spec names, at one time; answers what is there, with what was `before` in place of what cannot be had, and why it cannot.
pub(crate) async fn find(
    spec: &ToolBrokerSpec,
    (secrets, names): (&Secrets, &Names),
    http: &Http,
    place: Option<&BrokerStore>,
    before: &Found,
) -> (Found, Vec<String>) {
    let documents = spec.openapi.iter().filter(|source| source.document.inline.is_none()).map(|source| async move {
        let looked = tokio::time::timeout(DOCUMENT_TIMEOUT, document(&source.document, secrets, http)).await;
        (&source.name, looked.unwrap_or_else(|_| Err(format!("did not come within {} s", DOCUMENT_TIMEOUT.as_secs()))))
    });
    let servers = spec.mcp_servers.iter().map(|spec| async move {
        // What is wrong with its spec is told where all of it is compiled.
        let server = server::compile(spec, "", (secrets, names), &mut Vec::new());
        (&spec.name, server.list(http, secrets).await)
    });
    let bases = spec.knowledge.iter().map(|spec| async move {
        let looked =
            tokio::time::timeout(KNOWLEDGE_TIMEOUT, knowledge::load(spec, (secrets, http, place), before.bases.get(&spec.name))).await;
        (&spec.name, looked.unwrap_or_else(|_| Err(format!("did not come within {} s", KNOWLEDGE_TIMEOUT.as_secs()))))
    });
    let (documents, servers, bases) = tokio::join!(join_all(documents), join_all(servers), join_all(bases));
    let (mut found, mut missing) = (Found::default(), Vec::new());
    for (name, looked) in documents {
        let document = looked.map(Arc::new).map_err(|why| missing.push(format!("the document of openapi `{name}` {why}"))).ok();
        found.documents.extend(document.or_else(|| before.documents.get(name).cloned()).map(|document| (name.clone(), document)));
    }
    for (name, listed) in servers {
        let tools = listed.map_err(|error| missing.push(format!("the tools of the MCP server `{name}`: {}", error.message))).ok();
        found.tools.extend(tools.or_else(|| before.tools.get(name).cloned()).map(|tools| (name.clone(), tools)));
    }
    let mut bytes = 0;
    for (name, loaded) in bases {
        let base = match loaded {
            Ok((base, left_out)) => {
                missing.extend(left_out.into_iter().map(|why| format!("a document of knowledge `{name}`: {why}")));
                Some(base)
            }
            Err(why) => {
                missing.push(format!("the documents of knowledge `{name}`: {why}"));
                before.bases.get(name).cloned()
            }
        };
        let Some(base) = base else { continue };
        bytes += base.bytes();
        if bytes > KNOWLEDGE_BYTES_MAX {
            missing.push(format!("the documents of knowledge `{name}`: all of a ToolBroker have {KNOWLEDGE_BYTES_MAX} bytes at most"));
            break;
        }
        found.bases.insert(name.clone(), base);
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
            let mut response = http.send(http.client().get(url)).await.map_err(|error| net::silence(&error))?;
            let status = response.status();
            if !status.is_success() {
                return Err(format!("was answered with {status}"));
            }
            let (bytes, whole) = net::read_up_to(&mut response, DOCUMENT_BYTES_MAX).await.map_err(|_| "broke off".to_owned())?;
            if !whole {
                return Err(format!("has more than {DOCUMENT_BYTES_MAX} bytes"));
            }
            bytes
        }
        (None, None) => return Err("has no place: write one of inline, configMapRef and url".to_owned()),
    };
    // JSON is YAML.
    yaml_serde::from_slice(&bytes).map_err(|error| format!("is neither JSON nor YAML: {error}"))
}
