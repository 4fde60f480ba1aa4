//! Kernel pods, as the API server shows them.

use k8s_openapi::api::core::v1::Pod;

/// Bytes of an answer to a question.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Whether the pod's process can run no more.
#[must_use]
pub fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    matches!(phase, "Failed" | "Succeeded")
}

/// `host:port`, with the brackets that an IPv6 address needs.
#[must_use]
pub fn address_of(ip: &str, port: u16) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_addresses_get_brackets() {
        assert_eq!(address_of("10.0.0.1", 7443), "10.0.0.1:7443");
        assert_eq!(address_of("fd00::1", 7443), "[fd00::1]:7443");
    }
}
