//! Where clouds keep what a machine may know of itself, its credentials among it. Nothing that a tenant can steer may connect there.
//!
//! Sources, each provider's own documentation: AWS EC2 instance metadata (169.254.169.254, fd00:ec2::254), AWS ECS and EKS credentials
//! (169.254.170.2, 169.254.170.23, fd00:ec2::23), Google Cloud `metadata.google.internal` (169.254.169.254, fd20:ce::254), Azure IMDS
//! (169.254.169.254) and WireServer (168.63.129.16), Oracle Cloud (169.254.169.254, and 192.0.0.192 of the classic one), Alibaba Cloud
//! (100.100.100.200), Tencent Cloud (169.254.0.23), Scaleway (169.254.42.42, fd00:42::42); OpenStack, DigitalOcean, Hetzner, IBM and Equinix
//! use 169.254.169.254, OpenStack fe80::a9fe:a9fe too. Link-local addresses as a whole are RFC 3927's and RFC 4291's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of metadata services that are not link-local.
const V4: [Ipv4Addr; 3] = [Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(100, 100, 100, 200)];
/// The same, of IPv6.
const V6: [Ipv6Addr; 2] = [Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)];

/// All of these addresses, as a NetworkPolicy says what an open rule leaves out.
pub const CIDRS_V4: [&str; 4] = ["169.254.0.0/16", "168.63.129.16/32", "192.0.0.192/32", "100.100.100.200/32"];
/// The same, of IPv6.
pub const CIDRS_V6: [&str; 4] = ["fe80::/10", "fd00:ec2::/32", "fd20:ce::254/128", "fd00:42::42/128"];

/// Names under which clouds have such a service.
const NAMES: [&str; 2] = ["metadata.google.internal", "metadata.goog"];

/// Whether the host of a URL, a name or a literal address, is such a service's.
#[must_use]
pub fn is_metadata_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    bare.parse().is_ok_and(is_metadata) || NAMES.iter().any(|name| bare.eq_ignore_ascii_case(name))
}

/// Whether an address is one of a cloud's metadata services, or link-local, in any of the ways that IPv6 writes an IPv4 address.
#[must_use]
pub fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_metadata_v4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, e, f, g, h] = address.segments();
            let ends_in = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
            // Mapped and compatible addresses, the well-known and the local prefixes of NAT64, and 6to4.
            let inner = match (a, b, c, d, e, f) {
                (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, ..) => Some(ends_in(g, h)),
                (0x2002, ..) => Some(ends_in(b, c)),
                _ => None,
            };
            // All of fd00:ec2::/32 are services of AWS for its own machines.
            let is_amazon = (a, b) == (0xfd00, 0xec2);
            address.is_unicast_link_local() || is_amazon || V6.contains(&address) || inner.is_some_and(is_metadata_v4)
        }
    }
}

fn is_metadata_v4(address: Ipv4Addr) -> bool {
    address.is_link_local() || V4.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_known_by_name_and_by_address() {
        for host in ["169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal.", "Metadata.Goog"] {
            assert!(is_metadata_host(host), "{host}");
        }
        for host in ["s3.example.com", "10.0.0.1", "[::1]", "google.internal"] {
            assert!(!is_metadata_host(host), "{host}");
        }
    }

    #[test]
    fn every_spelling_of_a_metadata_service_is_known() {
        let metadata = [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.0.0",
            "169.254.255.255",
            "168.63.129.16",
            "192.0.0.192",
            "100.100.100.200",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:42::42",
            "fe80::a9fe:a9fe",
            "febf::1",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "::ffff:0:168.63.129.16",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "2002:a9fe:a9fe::",
        ];
        for address in metadata {
            assert!(is_metadata(address.parse().unwrap()), "{address}");
        }
        let others = [
            "8.8.8.8",
            "10.0.0.1",
            "127.0.0.1",
            "168.63.129.15",
            "100.100.100.201",
            "::1",
            "::ffff:8.8.8.8",
            "fd00:ec1::254",
            "2606:4700::1",
        ];
        for address in others {
            assert!(!is_metadata(address.parse().unwrap()), "{address}");
        }
    }
}
