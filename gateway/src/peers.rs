//! The gateways there are: each does first what is its own, and one of them counts for all ([`crate::tally`]).

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use dormouse_control::precedence;
use tokio::{
    sync::watch::{self, Receiver, Sender},
    time::Instant,
};

/// How long a list that has changed is remembered: a second of the clock, which is what is counted by.
const REMEMBERED: Duration = Duration::from_secs(1);

/// Names and addresses of gateways.
pub type Names = Arc<BTreeMap<String, IpAddr>>;

/// Those there are, and those that there were a moment ago.
#[derive(Debug, Clone, Default)]
pub struct Members {
    now: Names,
    /// Lists, each with when it ended.
    before: Vec<(Instant, Names)>,
}

impl Members {
    /// Takes in the list as it is now. `false`: it is the same.
    pub fn change(&mut self, names: BTreeMap<String, IpAddr>) -> bool {
        if *self.now == names {
            return false;
        }
        self.before.retain(|(ended, _)| ended.elapsed() < REMEMBERED);
        self.before.push((Instant::now(), std::mem::replace(&mut self.now, Arc::new(names))));
        true
    }

    /// Those there are.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.now
    }
}

/// This gateway, and those that there are.
#[derive(Debug, Clone)]
pub struct Peers {
    me: Arc<str>,
    all: Receiver<Members>,
}

/// Which gateway is the first for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum First {
    /// This one; since then, if it remembers another.
    Me(Option<Instant>),
    /// Another: its name and address.
    Other(String, IpAddr),
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
    pub fn new(me: &str) -> (Self, Sender<Members>) {
        let (tell, all) = watch::channel(Members::default());
        (Self { me: me.into(), all }, tell)
    }

    /// How long this one leaves it to others to do something for the session of this uid.
    pub(crate) fn wait(&self, session: &str) -> Duration {
        precedence::wait(session, &self.me, self.all.borrow().now.keys().map(String::as_str))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.borrow().now.len().max(1)
    }

    /// Who is the first for `what`. Where nobody is known of, this one is.
    pub(crate) fn first(&self, what: &str) -> First {
        let members = self.all.borrow();
        let first = |names: &Names| precedence::first(what, names.keys().map(String::as_str)).map(str::to_owned);
        match first(&members.now).and_then(|name| Some((members.now.get(&name).copied()?, name))) {
            Some((address, name)) if *name != *self.me => First::Other(name, address),
            // Who knew of nobody may have been one of several.
            _ => First::Me(
                members.before.iter().filter(|(_, names)| first(names).as_deref() != Some(&self.me)).map(|(ended, _)| *ended).max(),
            ),
        }
    }

    /// Waits until the list is another one.
    pub(crate) async fn changed(&mut self) {
        if self.all.changed().await.is_err() {
            // Nobody tells any more.
            std::future::pending().await
        }
    }
}

/// Follows the ready pods behind a Service; anew when the API server has gone back.
#[cfg(feature = "kubernetes")]
pub async fn follow(client: kube::Client, namespace: &str, service: &str, mut rollbacks: Receiver<u64>, tell: Sender<Members>) {
    loop {
        tokio::select! {
            () = follow_watch(client.clone(), namespace, service, &tell) => return,
            () = crate::directory::went_back(&mut rollbacks) => {}
        }
    }
}

#[cfg(feature = "kubernetes")]
async fn follow_watch(client: kube::Client, namespace: &str, service: &str, tell: &Sender<Members>) {
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
        let names: BTreeMap<String, IpAddr> = known.values().flatten().cloned().collect();
        tell.send_if_modified(|members| {
            let gateways = names.len();
            let differ = members.change(names);
            if differ {
                tracing::info!(gateways, "the gateways that share what nobody asked for");
            }
            differ
        });
    }
}

/// The names of ready pods, each with one of its addresses.
#[cfg(feature = "kubernetes")]
fn ready(slice: &k8s_openapi::api::discovery::v1::EndpointSlice) -> Vec<(String, IpAddr)> {
    let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true));
    ready
        .filter_map(|endpoint| {
            Some((endpoint.target_ref.as_ref()?.name.clone()?, endpoint.addresses.iter().find_map(|it| it.parse().ok())?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_becomes_the_first_knows_since_when_and_who_stays_it_does_not_begin_anew() {
        let names = |names: &[&str]| -> BTreeMap<String, IpAddr> {
            names.iter().map(|name| ((*name).to_owned(), Ipv4Addr::LOCALHOST.into())).collect()
        };
        let all = ["a", "b", "c"];
        let first = precedence::first("team", all).unwrap();
        let second = precedence::first("team", all.into_iter().filter(|name| *name != first)).unwrap();
        let third = all.into_iter().find(|name| ![first, second].contains(name)).unwrap();
        let (peers, tell) = Peers::new(second);
        let change = |list: &[&str]| tell.send_if_modified(|members| members.change(names(list)));
        assert_eq!((peers.first("team"), peers.count()), (First::Me(None), 1), "it is alone");
        assert!(change(&all) && !change(&all));
        assert_eq!((peers.first("team"), peers.count()), (First::Other(first.to_owned(), Ipv4Addr::LOCALHOST.into()), 3));
        tokio::time::advance(Duration::from_secs(5)).await;
        change(&[second, third]);
        let since = Instant::now();
        assert_eq!(peers.first("team"), First::Me(Some(since)));
        tokio::time::advance(REMEMBERED / 2).await;
        change(&[second]);
        assert_eq!(peers.first("team"), First::Me(Some(since)), "the other one has gone before");
        tokio::time::advance(REMEMBERED).await;
        change(&[second, third]);
        assert_eq!(peers.first("team"), First::Me(None), "it was the first for longer than is remembered");
    }
}
