//! A process that can die: from then on nothing that it does is seen, and nobody reaches it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone)]
pub struct Node {
    name: Arc<str>,
    dead: CancellationToken,
}

impl Node {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), dead: CancellationToken::new() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn kill(&self) {
        self.dead.cancel();
    }

    pub fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }

    /// Ends when it dies.
    pub async fn died(&self) {
        self.dead.cancelled().await;
    }

    /// Goes no further in a process that is dead.
    pub async fn lives(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}
