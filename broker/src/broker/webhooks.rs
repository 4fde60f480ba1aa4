//! Events: taken from kernel pods, and delivered to whoever is to be told.

mod send;

use dormouse_crds::KeyRef;
use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{DeliveriesCall, Notice, RedeliverCall},
    webhook::{Delivery, DeliveryList},
};
use futures::{StreamExt as _, TryStreamExt as _};

use super::Broker;
use crate::{
    documents::DocumentError,
    webhooks::{Message, Order, Queue},
};

/// Hex digits of a message's id.
const ID_DIGITS: usize = 32;
/// Messages on a list at most.
const LIST_MAX: usize = 500;
/// Messages that are looked through for a list.
const LOOKED_MAX: usize = 2_000;
/// Messages that are read at one time.
const READS_IN_FLIGHT_MAX: usize = 8;
/// Bytes of what is told of an event, as JSON.
const DATA_BYTES_MAX: usize = 64 << 10;

impl Broker {
    /// Takes an event: what is to be told of it is stored when this returns. Taking it twice changes nothing.
    ///
    /// # Errors
    /// There is no store for messages, or it does not answer: send it again.
    pub async fn take_notice(&self, notice: Notice) -> Result<(), ApiError> {
        let hooks = self.hooks();
        let named = hooks.iter().filter(|hook| hook.wants(notice.event)).map(|hook| (hook.url.clone(), hook.secret.clone(), false));
        let own = notice.webhook.iter().map(|own| {
            let secret = KeyRef { name: own.secret_ref.name.clone(), key: Some(own.secret_ref.key.clone()) };
            (own.url.clone(), secret, true)
        });
        let targets: Vec<_> = named.chain(own).collect();
        if targets.is_empty() {
            return Ok(());
        }
        let Some(queue) = self.queue() else { return Err(no_store()) };
        if serde_json::to_vec(&notice.data).map_or(usize::MAX, |data| data.len()) > DATA_BYTES_MAX {
            return Err(ApiError::new(
                ErrorCode::SizeAdmissionError,
                format!("what is told of an event has {DATA_BYTES_MAX} bytes at most"),
            ));
        }
        for (url, secret, from_eval) in targets {
            let event = notice.key.clone().unwrap_or_else(|| notice.number.to_string());
            let name = format!("{}\n{event}\n{url}", notice.session_uid);
            let mut digits = sha256_hex(name.as_bytes());
            digits.truncate(ID_DIGITS);
            let message = Message::new(format!("msg_{digits}"), &notice, url, secret, from_eval, queue.clock().now_ms());
            queue.put(&message).await?;
        }
        Ok(())
    }

    /// Messages that are or were delivered, newest first.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn deliveries(&self, call: &DeliveriesCall) -> Result<DeliveryList, ApiError> {
        let Some(queue) = self.queue() else { return Ok(DeliveryList::default()) };
        let limit = call.limit.clamp(1, LIST_MAX);
        let keys = queue.keys(LOOKED_MAX).await?;
        let of_session = |message: &Message| call.session.as_ref().is_none_or(|session| message.view.session == *session);
        let found = futures::stream::iter(keys)
            .map(|key| async move { queue.read(&key).await })
            .buffered(READS_IN_FLIGHT_MAX)
            // One that was moved meanwhile is under its other key.
            .try_filter_map(|found| std::future::ready(Ok(found.map(|(message, _)| message).filter(of_session))))
            .take(limit)
            .try_collect::<Vec<Message>>();
        let mut found = found.await.map_err(ApiError::from)?;
        found.sort_by_key(|message| std::cmp::Reverse(message.created_ms));
        found.dedup_by(|one, other| one.view.id == other.view.id);
        Ok(DeliveryList { items: found.into_iter().map(|message| message.view).collect() })
    }

    /// Has a message delivered again, now, whether it was delivered, given up or waits.
    ///
    /// # Errors
    /// There is no such message, or the store does not answer.
    pub async fn redeliver(&self, call: &RedeliverCall) -> Result<Delivery, ApiError> {
        let Some(queue) = self.queue() else { return Err(no_store()) };
        let plain = call.id.strip_prefix("msg_").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let found = if plain { queue.again(&call.id).await.map_err(ApiError::from)? } else { None };
        found.map(|message| message.view).ok_or_else(|| {
            let message = format!(
                "there is no message `{}`: list the deliveries; old ones are not kept",
                call.id.chars().take(64).collect::<String>()
            );
            ApiError::new(ErrorCode::DeliveryNotFound, message)
        })
    }

    /// Delivers what waits, for ever.
    pub async fn keep_delivering(self) {
        match self.queue() {
            Some(queue) => {
                queue
                    .run(|id| {
                        let (broker, queue) = (self.clone(), queue.clone());
                        async move { broker.try_message(&queue, &id).await }
                    })
                    .await
            }
            None => std::future::pending().await,
        }
    }

    /// Tries a message whose time has come. Answers when it is to be looked at again, in milliseconds since the Unix epoch; `None`: it is over.
    async fn try_message(&self, queue: &Queue, id: &str) -> Result<Option<i64>, DocumentError> {
        let Some((message, etag)) = queue.read(&queue.open_key(id)).await? else { return Ok(None) };
        let leased = match queue.lease(message, &etag).await? {
            Order::Later(at_ms) => return Ok(Some(at_ms)),
            Order::Now(leased) => leased,
        };
        let sent = self.send_message(&leased.message).await;
        queue.settle(leased, sent).await
    }
}

fn no_store() -> ApiError {
    let message = "webhooks need a journal that is stored: give the ToolBroker a pool in spec.journal";
    ApiError::new(ErrorCode::NotSupported, message)
}
