//! Whether a session may be placed at all.

use std::sync::Arc;

use dormouse_crds::session::OperatingMode;
use dormouse_protocol::{ApiError, ErrorCode};

use super::Router;
use crate::{
    auth::{Access, AuthError, Caller, Part, Verb},
    chain::chain,
    directory::Record,
    in_flight::Asleep,
};

/// What is known of a right.
pub(super) enum Admission {
    /// It is there.
    Admitted,
    /// It cannot be asked about; this is the answer for whoever does not wait.
    Unknown(ApiError),
}

pub(super) fn admit(record: &Record, asleep: Asleep) -> Result<(), ApiError> {
    if asleep == Asleep::Refuse && record.spec.operating_mode == OperatingMode::Hibernated {
        let message = "the session's spec.operatingMode is Hibernated: set it to Auto or Running, then send the request again";
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    Ok(())
}

impl Router {
    /// Whether who named the session's ToolBroker may use it still.
    pub(super) async fn admit_broker(&self, record: &Arc<Record>) -> Result<Admission, ApiError> {
        let (Some(authority), Some(_)) = (&self.authority, &record.spec.tool_broker_ref) else { return Ok(Admission::Admitted) };
        // The cache may have left out who it was.
        let record = self.whole(record).await?;
        let Some(broker) = &record.spec.tool_broker_ref else { return Ok(Admission::Admitted) };
        let Some(named_by) = &broker.named_by else { return Ok(Admission::Admitted) };
        let access =
            Access { namespace: record.key.namespace.clone(), name: Some(broker.name.clone()), verb: Verb::Use, part: Part::Broker };
        let (user, name) = (&named_by.user, &broker.name);
        match authority.authorize(&Caller::absent(named_by), &access).await {
            Ok(()) => Ok(Admission::Admitted),
            Err(AuthError::Forbidden { .. }) => {
                let message = format!(
                    "`{user}`, who named the ToolBroker `{name}` for this session, may not use it any more: give them the verb use on it, or have \
                     somebody who has that take the session over, by a patch of spec.toolBrokerRef.namedBy to null"
                );
                Err(ApiError::new(ErrorCode::Forbidden, message).with_detail("path", "spec.toolBrokerRef"))
            }
            Err(error) => {
                tracing::warn!(session = %record.key, error = %chain(&error), "whether a ToolBroker may be used is not known; it is asked again");
                let message =
                    format!("whether `{user}` may use the ToolBroker `{name}` cannot be asked at the moment: send the request again");
                Ok(Admission::Unknown(ApiError::new(ErrorCode::StorageUnavailable, message)))
            }
        }
    }
}
