//! The gateways there are, so that each does first what is its own ([`dormouse_control::precedence`]).

use std::{sync::Arc, time::Duration};

use dormouse_control::precedence;
use tokio::sync::watch::{self, Receiver, Sender};

/// The names of gateways.
pub type Names = Arc<[String]>;

/// This gateway, and those that there are.
#[derive(Debug, Clone)]
pub struct Peers {
    me: Arc<str>,
    all: Receiver<Names>,
}

impl Default for Peers {
    /// There is no other.
    fn default() -> Self {
        Self::new("").0
    }
}

impl Peers {
    /// The gateway `me` among those that the other half tells of.
    #[must_use]
    pub fn new(me: &str) -> (Self, Sender<Names>) {
        let (tell, all) = watch::channel(Names::from([]));
        (Self { me: me.into(), all }, tell)
    }

    /// How long this one leaves it to others to do something for the session of this uid.
    pub(super) fn wait(&self, session: &str) -> Duration {
        precedence::wait(session, &self.me, self.all.borrow().iter().map(String::as_str))
    }
}

/// Follows the ready pods behind a Service; anew when the API server has gone back.
#[cfg(feature = "kubernetes")]
pub async fn follow(client: kube::Client, namespace: &str, service: &str, mut rollbacks: Receiver<u64>, tell: Sender<Names>) {
    loop {
        tokio::select! {
            () = follow_watch(client.clone(), namespace, service, &tell) => return,
            () = crate::directory::went_back(&mut rollbacks) => {}
        }
    }
}

#[cfg(feature = "kubernetes")]
async fn follow_watch(client: kube::Client, namespace: &str, service: &str, tell: &Sender<Names>) {
    use std::collections::{BTreeMap, BTreeSet};

    use futures::StreamExt as _;
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use kube::{Api, ResourceExt as _, runtime::watcher};

    let slices: Api<EndpointSlice> = Api::namespaced(client, namespace);
    let config = watcher::Config::default().labels(&format!("kubernetes.io/service-name={service}"));
    let mut events = std::pin::pin!(dormouse_watch::watch(vec![slices], config));
    let (mut known, mut listed) = (BTreeMap::new(), BTreeMap::new());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed = BTreeMap::new(),
            Ok(watcher::Event::InitApply(slice)) => drop(listed.insert(slice.name_any(), ready(&slice))),
            Ok(watcher::Event::InitDone) => known = std::mem::take(&mut listed),
            Ok(watcher::Event::Apply(slice)) => drop(known.insert(slice.name_any(), ready(&slice))),
            Ok(watcher::Event::Delete(slice)) => drop(known.remove(&slice.name_any())),
            // What was known stays: that costs a head start, or a try in vain.
            Err(error) => tracing::warn!(error = %crate::chain::chain(&error), "the watch of gateways failed; it goes on"),
        }
        let names: BTreeSet<String> = known.values().flatten().cloned().collect();
        tell.send_if_modified(|told| {
            let differ = !told.iter().eq(names.iter());
            if differ {
                tracing::info!(gateways = names.len(), "the gateways that share what nobody asked for");
                *told = names.into_iter().collect();
            }
            differ
        });
    }
}

#[cfg(feature = "kubernetes")]
fn ready(slice: &k8s_openapi::api::discovery::v1::EndpointSlice) -> Vec<String> {
    let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true));
    ready.filter_map(|endpoint| endpoint.target_ref.as_ref()?.name.clone()).collect()
}
