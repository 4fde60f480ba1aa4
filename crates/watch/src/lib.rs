//! Which namespaces an installation looks after, and a watch over all of them.
//!
//! Must not know what is watched.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod merged;

use std::fmt::Debug;

use futures::{Stream, StreamExt as _, stream::BoxStream};
use kube::{
    Api, Client, Resource,
    core::NamespaceResourceScope,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::de::DeserializeOwned;

/// Flags that say which namespaces are looked after.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct WatchArgs {
    /// Namespaces of tenants that this installation looks after, with commas between them; all of the cluster when empty. It then needs no right to
    /// read or write objects of other namespaces.
    #[arg(long, env = "DORMOUSE_WATCH_NAMESPACES", value_name = "NAMESPACES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,
}

/// The namespaces that an installation looks after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchScope(Vec<String>);

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
        Self(named)
    }

    /// The namespaces, if not all of the cluster.
    #[must_use]
    pub fn named(&self) -> Option<&[String]> {
        (!self.0.is_empty()).then_some(&self.0)
    }

    /// Whether objects of this namespace are looked after.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| name == namespace)
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
    fn no_namespace_means_all_and_each_counts_once() {
        assert!(WatchScope::default().contains("a") && WatchScope::default().named().is_none());
        let scope =
            WatchScope::from(&WatchArgs { watch_namespaces: vec!["b".to_owned(), " a ".to_owned(), String::new(), "b".to_owned()] });
        assert_eq!(scope.named(), Some(["a".to_owned(), "b".to_owned()].as_slice()));
        assert!(scope.contains("a") && !scope.contains("c"));
        assert_eq!(WatchScope::from(&WatchArgs { watch_namespaces: vec![String::new()] }), WatchScope::default(), "of an empty variable");
    }
}
