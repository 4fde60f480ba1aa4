//! Messages that brokers deliver for their sessions: each function is one verb of the API, free of HTTP.

use std::collections::BTreeSet;

use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{DeliveriesCall, RedeliverCall},
    webhook::{Delivery, DeliveryList},
};

use crate::{approvals::unheard, directory::Key, router::Router};

/// The ToolBrokers that sessions of a namespace name.
#[must_use]
pub fn brokers(router: &Router, namespace: &str) -> BTreeSet<String> {
    let records = router.directory().list(Some(namespace));
    records.iter().filter_map(|record| record.spec.tool_broker_ref.as_ref()).map(|broker| broker.name.clone()).collect()
}

/// Messages of these brokers, newest first, of the sessions that `visible` lets through.
pub async fn list(
    router: &Router,
    namespace: &str,
    brokers: &BTreeSet<String>,
    session: Option<&str>,
    limit: usize,
    visible: impl Fn(&Key) -> bool,
) -> Result<DeliveryList, ApiError> {
    let call = DeliveriesCall { namespace: namespace.to_owned(), session: session.map(str::to_owned), limit };
    let mut items = Vec::new();
    for broker in brokers {
        let asked = router.kernels().ask_broker::<DeliveryList>(namespace, broker, "/v1/deliveries", &call);
        items.extend(asked.await.map_err(|error| unheard(broker, error))?.items);
    }
    items.retain(|delivery: &Delivery| visible(&Key::new(namespace, delivery.session.clone())));
    items.sort_by(|one, other| other.created_at.cmp(&one.created_at));
    items.truncate(limit);
    Ok(DeliveryList { items })
}

/// Has a message delivered again; by whichever of these brokers has it.
pub async fn redeliver(router: &Router, namespace: &str, brokers: &BTreeSet<String>, id: &str) -> Result<Delivery, ApiError> {
    let call = RedeliverCall { namespace: namespace.to_owned(), id: id.to_owned() };
    let mut last = None;
    for broker in brokers {
        match router.kernels().ask_broker::<Delivery>(namespace, broker, "/v1/redeliver", &call).await {
            Ok(delivery) => return Ok(delivery),
            Err(error) => {
                let error = unheard(broker, error);
                // One that does not answer may have it.
                last = last.filter(|last: &ApiError| last.code != ErrorCode::DeliveryNotFound).or(Some(error));
            }
        }
    }
    Err(last
        .unwrap_or_else(|| ApiError::new(ErrorCode::ToolNotFound, "no session of this namespace names a ToolBroker: name one in `broker`")))
}
