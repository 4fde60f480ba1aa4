//! What of the broker's work is in the audit.

use std::sync::Arc;

use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{ToolAnswer, ToolCall},
};

use super::Broker;
use crate::audit::Line;

impl Broker {
    /// Notes a line of the audit, where there is a store for it.
    pub(crate) fn note(&self, line: &Line) {
        if let Some(audit) = self.audit() {
            audit.note(line);
        }
    }

    /// Notes a call that was refused before it was made. One that only has to be sent again is no news: its session does so.
    pub(crate) fn note_refusal(&self, kind: &'static str, call: &ToolCall, answered: &Result<Arc<ToolAnswer>, ApiError>) {
        if let Err(error) = answered
            && error.code != ErrorCode::StorageUnavailable
        {
            self.note(&Line::refused(kind, call, error));
        }
    }

    /// Stores the lines of the audit that wait.
    pub async fn store_audit(&self) {
        if let Some(audit) = self.audit() {
            audit.flush().await;
        }
    }
}
