//! Which pools of a broker's namespace there are, for the broker: it refuses the certificate of a pool that is deleted, which is good for hours more.

use std::{collections::BTreeSet, sync::Arc};

use dormouse_crds::pool::KernelPool;
use jiff::Timestamp;
use kube::ResourceExt as _;

/// The key of the ConfigMap.
pub const KEY: &str = "pools";

/// What the broker reads: as of when it is, in seconds since the Unix epoch, and the uid of each pool. `before` is what was said last: as long as the pools
/// are those, it is said again.
#[must_use]
pub fn list(namespace: &str, pools: &[Arc<KernelPool>], before: Option<&str>, now: Timestamp) -> String {
    let mine = pools.iter().filter(|pool| pool.namespace().as_deref() == Some(namespace));
    let uids: BTreeSet<String> = mine.filter_map(|pool| pool.uid()).collect();
    let uids = uids.into_iter().map(|uid| uid + "\n").collect::<String>();
    match before {
        Some(before) if before.split_once('\n').is_some_and(|(_, said)| said == uids) => before.to_owned(),
        _ => format!("{}\n{uids}", now.as_second()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(namespace: &str, uid: &str) -> Arc<KernelPool> {
        let mut pool = KernelPool::new(uid, Default::default());
        pool.metadata.namespace = Some(namespace.to_owned());
        pool.metadata.uid = Some(uid.to_owned());
        Arc::new(pool)
    }

    #[test]
    fn a_list_changes_with_the_pools_and_with_nothing_else() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut pools = vec![pool("team", "b"), pool("team", "a"), pool("other", "c")];
        let first = list("team", &pools, None, at(100));
        assert_eq!(first, "100\na\nb\n");
        pools.reverse();
        assert_eq!(list("team", &pools, Some(&first), at(200)), first);
        pools.retain(|pool| pool.name_any() != "a");
        assert_eq!(list("team", &pools, Some(&first), at(300)), "300\nb\n");
        assert_eq!(list("none", &pools, None, at(1)), "1\n");
    }
}
