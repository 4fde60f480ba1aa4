//! Messages of the Model Context Protocol, passed on as they are.

use bytes::Bytes;
use futures::stream::BoxStream;
use reqwest::header::ACCEPT;

use crate::{Client, Error, answer, below};

/// What the headers of a message of the Model Context Protocol say of it.
#[derive(Debug, Clone, Default)]
pub struct McpHeaders {
    /// The revision that it is in.
    pub revision: Option<String>,
    /// The id that the server gave its client.
    pub session: Option<String>,
    /// Its method.
    pub method: Option<String>,
    /// The name or URI in it, as a header may have it.
    pub name: Option<String>,
}

/// What is answered to one.
pub struct McpAnswer {
    /// The id that the server gives its client.
    pub session: Option<String>,
    /// Messages: notifications and questions of the server, and the answer last.
    pub messages: BoxStream<'static, Result<Bytes, Error>>,
}

impl Client {
    /// Passes a message of the Model Context Protocol on, and gives the messages that are answered, of which there are none to a notification.
    ///
    /// # Errors
    /// The gateway cannot be reached, or refuses the client.
    pub async fn mcp(&self, message: Vec<u8>, of: &McpHeaders) -> Result<McpAnswer, Error> {
        let mut request = self.http.post(below(&self.server, &["mcp"])?).body(message);
        request = request.header("content-type", "application/json").header(ACCEPT, "application/json, text/event-stream");
        request = request.header("dormouse-namespace", &self.namespace);
        for (name, value) in
            [("mcp-protocol-version", &of.revision), ("mcp-session-id", &of.session), ("mcp-method", &of.method), ("mcp-name", &of.name)]
        {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let (headers, messages) = answer::messages(request).await?;
        let session = headers.get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        Ok(McpAnswer { session, messages })
    }
}
