//! `dormouse dev`: gateway, kernel pod and broker in one process, whose sessions and store are in a folder.
//!
//! The parts are the product's own and put together as `cli/src/dev` does it; what is missing is what opens sockets.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use dormouse_durable::Disk;
use dormouse_erasure::{
    clusters::{Joined, TenantPrefix},
    orphans::{Known, Scope, sweep},
};
use dormouse_gateway::{
    Kernels,
    directory::{
        Directory as _, Record,
        files::name_of,
        folder::{Cleanup, FolderDirectory, StaticPod},
    },
};
use dormouse_service::tls::Process;
use dormouse_store::{Folder, SnapshotStore};

use crate::{
    node::Node,
    world::{Door, PREFIX, TEAM, World, address, engine, peer, session_key},
};

/// A running `dev`.
pub struct Dev {
    pub door: Door,
    /// Its store, for a look at what is there.
    pub store: Arc<dyn SnapshotStore>,
}

struct Erases(Arc<dyn SnapshotStore>);

#[async_trait]
impl Cleanup for Erases {
    async fn clean(&self, record: &Record) -> anyhow::Result<()> {
        Ok(dormouse_erasure::erase(self.0.as_ref(), &session_key(&record.uid, &record.key.name)).await?)
    }
}

impl World {
    /// Starts a process of this name over what `folder` holds, and removes what is stored of sessions that it does not know. What a process calls
    /// its own follows from its name.
    pub async fn dev(&self, name: &str, disk: Arc<dyn Disk>, folder: &Path) -> anyhow::Result<Dev> {
        let node = Node::new(name);
        let sessions = folder.join("sessions");
        let cluster = name_of(disk.as_ref(), &sessions)?;
        let plain: Arc<dyn SnapshotStore> = Arc::new(Folder::open_on(Arc::clone(&disk), folder.join("store"))?);
        let place = TenantPrefix { store_prefix: PREFIX.to_owned(), tenant: TEAM.to_owned() };
        let store: Arc<dyn SnapshotStore> = Arc::new(Joined::new(Arc::clone(&plain), place, cluster.clone()));
        self.serve_broker(&node, Arc::clone(&store));
        let pod = self.serve_pod(&node, 8, engine(), Arc::clone(&store));
        let known = StaticPod { pod: node.name().to_owned(), namespace: TEAM.to_owned(), address: address(1), boot: pod.info().boot };
        let operator = Kernels::new(peer(&self.network, &node, Process::Operator));
        let cleanup = Arc::new(Erases(store));
        let directory = FolderDirectory::open(disk, sessions, vec![known], operator, Some(cleanup)).await?;
        while !pod.readiness().is_ready() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let scope = Scope { store_prefix: PREFIX, tenant: Some(TEAM), is_ours: &|_| true, now_ms: self.clock.now_ms() };
        let sessions = async || {
            let sessions = directory.list(None).iter().map(|record| record.uid.clone()).collect();
            Ok(Known { sessions, brokers: [(TEAM.to_owned(), "tools".to_owned())].into() })
        };
        sweep(plain.as_ref(), scope, &cluster, sessions).await?;
        Ok(Dev { door: self.serve_gateway(&node, directory), store: plain })
    }
}
