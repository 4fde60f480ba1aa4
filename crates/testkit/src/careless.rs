//! A real S3 server that must be refused: s3s-fs looks at the condition, then renames, and two writers fit in between.

use std::path::Path;

use anyhow::{Context as _, Result};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;

/// Serves the folders in `root` as buckets, to whoever has this key, until the future is dropped.
///
/// # Errors
/// When the folder cannot be used, or the listener fails.
pub async fn serve(listener: TcpListener, root: &Path, access_key_id: &str, secret_access_key: &str) -> Result<()> {
    let files = FileSystem::new(root).ok().with_context(|| format!("{} is no folder", root.display()))?;
    let mut builder = S3ServiceBuilder::new(files);
    builder.set_auth(SimpleAuth::from_single(access_key_id, secret_access_key));
    let service = builder.build();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await?;
        let service = service.clone();
        connections.spawn(async move {
            // A client that goes away in the middle is no failure of the server.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}
