//! Where pods may connect to, as a NetworkPolicy can say it.

use dormouse_service::metadata::{CIDRS_V4, CIDRS_V6};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use serde_json::{Value, json};

use crate::config::NetworkArgs;

/// The label that every namespace has, with its name.
pub const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// Where a URL leads, as a policy can say it. A policy knows no host names, so one outside the cluster opens its port to every address but those of
/// metadata services.
#[must_use]
pub fn egress_to(url: &str) -> (Vec<NetworkPolicyPeer>, u16) {
    let (host, port) = host_and_port(url);
    let labels: Vec<&str> = host.split('.').collect();
    let peer = match (host.parse::<std::net::IpAddr>(), labels.as_slice()) {
        (Ok(std::net::IpAddr::V4(ip)), _) => json!([{ "ipBlock": { "cidr": format!("{ip}/32") } }]),
        (Ok(std::net::IpAddr::V6(ip)), _) => json!([{ "ipBlock": { "cidr": format!("{ip}/128") } }]),
        (Err(_), [_, namespace, "svc", ..]) => {
            json!([{ "namespaceSelector": { "matchLabels": { NAMESPACE_LABEL: namespace } } }])
        }
        _ => return (everywhere(), port),
    };
    (serde_json::from_value(peer).unwrap_or_default(), port)
}

fn host_and_port(endpoint: &str) -> (String, u16) {
    let (default, rest) = match endpoint.split_once("://") {
        Some(("http", rest)) => (80, rest),
        Some((_, rest)) => (443, rest),
        None => (443, endpoint),
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if let Some((host, after)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host.to_owned(), after.strip_prefix(':').and_then(|port| port.parse().ok()).unwrap_or(default));
    }
    match authority.rsplit_once(':') {
        Some((host, port)) => (host.to_owned(), port.parse().unwrap_or(default)),
        None => (authority.to_owned(), default),
    }
}

/// Every address but those where clouds keep metadata.
#[must_use]
pub fn everywhere() -> Vec<NetworkPolicyPeer> {
    let peers = json!([
        { "ipBlock": { "cidr": "0.0.0.0/0", "except": CIDRS_V4 } },
        { "ipBlock": { "cidr": "::/0", "except": CIDRS_V6 } },
    ]);
    serde_json::from_value(peers).unwrap_or_default()
}

/// The rule that opens the cluster's DNS. An empty list of peers would mean everywhere, so a rule without peers is left out.
#[must_use]
pub fn dns(network: &NetworkArgs) -> Option<Value> {
    let ports = json!([{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }]);
    (!network.dns_egress.0.is_empty()).then(|| json!({ "to": network.dns_egress.0, "ports": ports }))
}
