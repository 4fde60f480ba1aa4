//! Which namespaces an installation looks after, and a watch over all of them.
//!
//! Must not know what is watched.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod merged;

use std::{fmt::Debug, hash::Hash};

use futures::{Stream, StreamExt as _, future, stream::BoxStream};
use kube::{
    Api, Client, Resource,
    core::NamespaceResourceScope,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

/// Flags that say which namespaces are looked after.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct WatchArgs {
    /// Namespaces of tenants that this installation looks after, with commas between them; all of the cluster when empty. It then needs no right to
    /// read or write objects of other namespaces.
    #[arg(long, env = "DORMOUSE_WATCH_NAMESPACES", value_name = "NAMESPACES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,
}

/// One part of several into which the namespaces are divided, each of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 0.
    pub index: u32,
    /// How many there are, 1 at least.
    pub of: u32,
}

impl Default for Shard {
    /// The only one.
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl Shard {
    /// Whether a namespace is in it. Each is in one, and about as many are in each.
    #[must_use]
    pub fn has(self, namespace: &str) -> bool {
        xxh3_64(namespace.as_bytes()) % u64::from(self.of.max(1)) == u64::from(self.index)
    }

    /// Whether it is the one that does what is no namespace's.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.index == 0
    }
}

/// The namespaces that an installation looks after, and which of them are this process's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchScope {
    named: Vec<String>,
    shard: Shard,
}

impl From<&WatchArgs> for WatchScope {
    fn from(args: &WatchArgs) -> Self {
        Self::of(args.watch_namespaces.iter().map(|name| name.trim()))
    }
}

impl WatchScope {
    /// These namespaces; all of the cluster when there are none.
    #[must_use]
    pub fn of<'a>(namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        let mut named: Vec<String> = namespaces.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect();
        named.sort();
        named.dedup();
        Self { named, shard: Shard::default() }
    }

    /// The same, of which only those of a shard are this process's.
    #[must_use]
    pub fn shard(self, shard: Shard) -> Self {
        Self { shard, ..self }
    }

    /// The namespaces, if not all of the cluster.
    #[must_use]
    pub fn named(&self) -> Option<&[String]> {
        (!self.named.is_empty()).then_some(&self.named)
    }

    /// Whether the installation looks after objects of this namespace.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        self.named.is_empty() || self.named.iter().any(|name| name == namespace)
    }

    /// Whether this process does.
    #[must_use]
    pub fn is_ours(&self, namespace: &str) -> bool {
        self.shard.has(namespace) && self.contains(namespace)
    }

    /// The ways to all objects of a kind: one for the whole cluster, or one for each namespace.
    #[must_use]
    pub fn apis<K>(&self, client: &Client) -> Vec<Api<K>>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match self.named() {
            None => vec![Api::all(client.clone())],
            Some(namespaces) => namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect(),
        }
    }

    /// Watches this process's objects of a kind, as [`watch`] does.
    pub fn watch<K>(
        &self,
        client: &Client,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + use<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static,
        K::DynamicType: Default + Clone + Debug + Eq + Hash + Send + Sync,
    {
        let scope = self.clone();
        let is_ours = move |object: &K| scope.shard.has(object.meta().namespace.as_deref().unwrap_or_default());
        watch(self.apis(client), config).filter(move |event| {
            use watcher::Event::{Apply, Delete, InitApply};
            future::ready(match event {
                Ok(InitApply(object) | Apply(object) | Delete(object)) => is_ours(object),
                _ => true,
            })
        })
    }
}

/// Watches the objects behind all of `apis` as one: one beginning, one end of the first list, then what changes. Begins again after a pause when it
/// fails.
pub fn watch<K>(apis: Vec<Api<K>>, config: watcher::Config) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let begin = move || {
        apis.iter().map(|api| watcher(api.clone(), config.clone()).default_backoff().boxed()).collect::<Vec<BoxStream<'static, _>>>()
    };
    merged::merged(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_is_in_one_shard_and_about_as_many_are_in_each() {
        for of in [1, 2, 3, 7] {
            let shards = || (0..of).map(|index| Shard { index, of });
            let mut counts = vec![0_u32; of as usize];
            for namespace in (0..7_000).map(|n| format!("team-{n}")) {
                let having: Vec<_> = shards().filter(|shard| shard.has(&namespace)).collect();
                assert_eq!(having.len(), 1, "{namespace}: {having:?}");
                counts[having[0].index as usize] += 1;
            }
            assert!(counts.iter().all(|count| count.abs_diff(7_000 / of) < 200), "{counts:?}");
        }
        // All processes of an installation, whatever their build, must agree.
        assert_eq!(
            ["default", "team", "a"].map(|namespace| (0..4).find(|index| Shard { index: *index, of: 4 }.has(namespace))),
            [2, 0, 3].map(Some)
        );
        let scope = WatchScope::of(["team"]).shard(Shard { index: 0, of: 2 });
        assert!(scope.contains("team") && !scope.contains("other"));
        assert_eq!(scope.is_ours("team"), Shard { index: 0, of: 2 }.has("team"));
        assert!(!scope.is_ours("other"));
    }

    #[test]
    fn no_namespace_means_all_and_each_counts_once() {
        assert!(WatchScope::default().contains("a") && WatchScope::default().named().is_none());
        let scope =
            WatchScope::from(&WatchArgs { watch_namespaces: vec!["b".to_owned(), " a ".to_owned(), String::new(), "b".to_owned()] });
        assert_eq!(scope.named(), Some(["a".to_owned(), "b".to_owned()].as_slice()));
        assert!(scope.contains("a") && !scope.contains("c"));
        assert_eq!(WatchScope::from(&WatchArgs { watch_namespaces: vec![String::new()] }), WatchScope::default(), "of an empty variable");
    }
}
