//! The authority of one `dormouse dev`: made at the start, never written down.

use std::time::Duration;

use dormouse_service::{
    ca::Ca,
    tls::{Identity, Process, TlsFiles},
};

/// Longer than anybody leaves a laptop's process running.
const VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Issues an identity to each part.
pub(super) struct Authority(Ca);

impl Authority {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(Ca::generate()?))
    }

    /// A certificate for `<name>.<namespace>.<process>`.
    pub(super) fn issue(&self, process: Process, namespace: &str, name: &str) -> anyhow::Result<TlsFiles> {
        self.issue_for(&Identity::new(process, namespace, name))
    }

    /// A certificate for a kernel pod of a pool.
    pub(super) fn issue_kernel(&self, namespace: &str, pool: &str, pod: &str) -> anyhow::Result<TlsFiles> {
        self.issue_for(&Identity::kernel(namespace, pool, pod))
    }

    fn issue_for(&self, identity: &Identity) -> anyhow::Result<TlsFiles> {
        let pem = self.0.issue(&[identity.dns_name()], VALIDITY)?;
        Ok(TlsFiles::from_pem(&pem)?)
    }
}
