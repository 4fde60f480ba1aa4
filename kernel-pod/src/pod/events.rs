//! The events of a session, for who follows it: from the store, from what its process has at hand, and as they are stored.

use std::sync::Arc;

use dormouse_lifecycle::Json;
use dormouse_lifecycle::log::{Entries, Log};
use dormouse_protocol::event::Event;
use dormouse_protocol::kernel::{EventsCall, StoredCall};
use dormouse_protocol::session::session_id;
use dormouse_protocol::{ApiError, ErrorCode};
use futures::{Stream, StreamExt as _};
use tokio::sync::broadcast;

use super::Pod;
use crate::events::{EventLog, Followed};
use crate::session::Host;
use crate::stored;

impl Pod {
    /// Events of the session: all that are kept behind `after`, then live ones if asked for, each once and in order. The stream ends when the reader
    /// falls too far behind, or when another process has stored some: whoever asks again behind the last that came misses nothing.
    ///
    /// # Errors
    /// `EventsExpired` when what comes next behind `after` is not kept any more; the session is not here; the store cannot be read.
    pub async fn events(&self, call: &EventsCall) -> Result<impl Stream<Item = Event> + Send + use<>, ApiError> {
        self.admit(&call.assignment)?;
        let known = self.shared.registry.get(&call.assignment.uid);
        known.iter().for_each(|handle| handle.control.assigned(call.assignment.epoch));
        let handle = known.or_else(|| call.follow.then(|| self.start(&call.assignment)));
        let after = call.after.unwrap_or(0);
        let next = after.saturating_add(1);
        // First, so that what is stored while the store is read comes live.
        let followed = handle.map(|handle| handle.control.events.follow(after));
        let known_from = followed.as_ref().and_then(|followed| followed.known_from);
        let earlier = if call.fresh || known_from.is_some_and(|from| from <= next) { None } else { Some(self.stored_events(call).await?) };
        let oldest = earlier.as_ref().map_or(0, Log::first);
        if call.after.is_some() && oldest > next {
            return Err(expired(oldest));
        }
        let (host, form) = (Arc::clone(&self.shared.host), EventLog::new(session_id(&call.assignment.uid)));
        let earlier = futures::stream::iter(earlier).flat_map(move |log| entries(Arc::clone(&host), log, after));
        let earlier = earlier.map(move |entry| entry.and_then(|(seq, entry)| form.read(seq, &entry)));
        let (replay, live) = match followed {
            Some(Followed { live, .. }) if call.fresh => (Vec::new(), Some(live)),
            Some(Followed { replay, live, .. }) if call.follow => (replay, Some(live)),
            Some(Followed { replay, .. }) => (replay, None),
            None => (Vec::new(), None),
        };
        let live = futures::stream::unfold(live, |live: Option<broadcast::Receiver<Event>>| async move {
            let mut live = live?;
            let event = live.recv().await.ok()?;
            Some((Some(event), Some(live)))
        });
        // What was stored meanwhile is in several of them. What cannot be read ends the stream: behind it would be a gap.
        let in_order = earlier.chain(futures::stream::iter(replay).map(Some)).chain(live).scan(after, |last, event| {
            let unseen = event.map(|event| {
                let unseen = event.seq > *last;
                *last = event.seq.max(*last);
                unseen.then_some(event)
            });
            std::future::ready(unseen)
        });
        Ok(in_order.filter_map(std::future::ready))
    }

    async fn stored_events(&self, call: &EventsCall) -> Result<Log, ApiError> {
        let of = &call.assignment;
        let (namespace, name, uid) = (of.namespace.clone(), of.name.clone(), of.uid.clone());
        let (_, stored) = self.stored(&StoredCall { namespace, name, uid, anchor: of.anchor }).await?;
        Ok(stored.map(|stored| stored.head.events).unwrap_or_default())
    }
}

fn expired(oldest: u64) -> ApiError {
    let message = format!(
        "the events behind that number are not kept any more: the oldest that is has the number {oldest}. Ask without `after`, or behind an event that is kept"
    );
    ApiError::new(ErrorCode::EventsExpired, message).with_detail("oldest", oldest)
}

/// Entries of a log behind the one numbered `after`, with their numbers, object by object. `None`: an object cannot be read.
fn entries(host: Arc<Host>, log: Log, after: u64) -> impl Stream<Item = Option<(u64, Json)>> + Send {
    let tail = Entries { first: log.tail_first(), entries: log.tail.clone() };
    let ends: Vec<u64> = log.segments.iter().skip(1).map(|next| next.first).chain([log.tail_first()]).collect();
    let wanted = log.segments.into_iter().zip(ends).filter(move |(_, end)| *end > after.saturating_add(1)).map(|(segment, _)| segment);
    let parts = futures::stream::iter(wanted).then(move |segment| {
        let host = Arc::clone(&host);
        async move {
            let read = stored::part(&host.storage, &segment).await.map_err(|error| error.to_string());
            read.and_then(|read| read).inspect_err(|error| tracing::warn!(error, "events cannot be read")).ok()
        }
    });
    parts.chain(futures::stream::iter([Some(tail)])).flat_map(move |part| {
        let entries = match part {
            Some(part) => (part.first..).zip(part.entries).filter(move |(seq, _)| *seq > after).map(Some).collect(),
            None => vec![None],
        };
        futures::stream::iter(entries)
    })
}
