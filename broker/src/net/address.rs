//! Which addresses may be connected to, and the resolver that hands out no other.
//!
//! A name is resolved once for a connection, here, and the connection goes to what this module returned: no second answer of a name server
//! can move it. Registries: IANA's special-purpose address registries for IPv4 and IPv6.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
};

use dormouse_service::metadata::is_metadata;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::host::Host;

/// Which addresses a rule reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Those of the internet.
    Public,
    /// Those of private networks and of this machine as well. Never link-local ones, where clouds keep their metadata.
    Private,
    /// Those that whoever writes a ToolBroker names in its own URLs: any but where clouds keep their metadata.
    Named,
}

impl Reach {
    pub(crate) fn holds(self, address: IpAddr) -> bool {
        let within = match self {
            Self::Public => is_global(address),
            Self::Private => is_global(address) || is_private(address),
            Self::Named => true,
        };
        within && !is_metadata(address)
    }
}

fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_global_v4(address),
        IpAddr::V6(address) => is_global_v6(address),
    }
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127, ..)             // this network, private, loopback
            | (100, 64..=127, _)       // carrier-grade NAT
            | (169, 254, _)            // link-local
            | (172, 16..=31, _)        // private
            | (192, 0, 0 | 2)          // protocol assignments, documentation
            | (192, 88, 99)            // 6to4 relays
            | (192, 168, _)            // private
            | (198, 18 | 19, _)        // benchmarks
            | (198, 51, 100)           // documentation
            | (203, 0, 113)            // documentation
            | (224.., ..) // multicast, reserved, broadcast
    )
}

/// Only 2000::/3 is global unicast, and not all of it. Mapped, translated and tunnelled IPv4 addresses are not: what they mean is decided
/// behind the broker.
fn is_global_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let unicast = a & 0xe000 == 0x2000;
    let special = match a {
        0x2001 => b < 0x0200 || b == 0x0db8, // protocol assignments with Teredo and ORCHID; documentation
        0x2002 => true,                      // 6to4
        0x3fff => b < 0x1000,                // documentation
        _ => false,
    };
    unicast && !special
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, ..] = address.octets();
            address.is_private() || address.is_loopback() || (a == 100 && (64..128).contains(&b))
        }
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    }
}

/// The address that a URL's host spells, if it is not a name.
pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// A name has no address that may be connected to.
#[derive(Debug, thiserror::Error)]
#[error(
    "the host has no public address; if it is meant to be inside, name it in a rule of the ToolBroker's spec.egress.allow with private: true"
)]
pub(crate) struct Unreachable;

/// A name has no address.
#[derive(Debug, thiserror::Error)]
#[error("the host has no address")]
pub(crate) struct Unresolved;

/// Ends of names that no name server of the internet can answer for: this machine's (RFC 6761), those of private networks (ICANN's `.internal`), and
/// Services of a cluster. Nor can one for a name without a dot.
const INTERNAL: [&str; 4] = ["localhost", "internal", "svc", "svc.cluster.local"];

/// Whether whoever writes a name means what is inside.
fn is_internal(name: &str) -> bool {
    !name.contains('.')
        || INTERNAL.iter().any(|end| name.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

/// Which addresses the names in a ToolBroker's own URLs may have. A name of somebody else's may come to stand for what is inside at any time, so it
/// needs an administrator's word for that.
///
/// Clones are the same: clients are made once, and rules change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(Arc<RwLock<Vec<Host>>>);

impl Names {
    /// Says which names besides the internal ones may have private addresses from now on.
    pub(crate) fn set(&self, private: Vec<Host>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = private;
    }

    fn reach_of(&self, name: &str) -> Reach {
        let name = name.strip_suffix('.').unwrap_or(name);
        let named = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if is_internal(name) || named.iter().any(|host| host.holds(name)) { Reach::Named } else { Reach::Public }
    }
}

/// Resolves names as the machine does, and keeps the addresses that a name may have.
#[derive(Debug, Clone)]
pub(crate) enum Resolver {
    /// Every name the same.
    Any(Reach),
    /// Those of a ToolBroker's own URLs.
    Own(Names),
}

impl Resolver {
    fn reach_of(&self, name: &str) -> Reach {
        match self {
            Self::Any(reach) => *reach,
            Self::Own(names) => names.reach_of(name),
        }
    }
}

fn keep(reach: Reach, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
    if found.is_empty() {
        return Err(Unresolved.into());
    }
    let kept: Vec<SocketAddr> = found.into_iter().filter(|address| reach.holds(address.ip())).collect();
    if kept.is_empty() { Err(Unreachable.into()) } else { Ok(kept) }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.reach_of(name.as_str());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(|_| Unresolved)?.collect();
            Ok(Box::new(keep(reach, found)?.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(text: &str) -> (bool, bool) {
        let address = text.parse().unwrap();
        (Reach::Public.holds(address), Reach::Private.holds(address))
    }

    #[test]
    fn the_edges_of_every_refused_range() {
        const PUBLIC: (bool, bool) = (true, true);
        const PRIVATE: (bool, bool) = (false, true);
        const NEVER: (bool, bool) = (false, false);
        let cases: &[(&[&str], (bool, bool))] = &[
            (&["168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42"], NEVER),
            (&["0.0.0.0", "0.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255"], NEVER),
            (&["10.0.0.0", "10.255.255.255", "127.0.0.0", "127.255.255.255", "172.16.0.0", "172.31.255.255"], PRIVATE),
            (&["192.168.0.0", "192.168.255.255", "100.64.0.0", "100.127.255.255"], PRIVATE),
            (&["1.0.0.0", "9.255.255.255", "11.0.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0"], PUBLIC),
            (&["172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "100.63.255.255", "100.128.0.0"], PUBLIC),
            (&["192.0.0.0", "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.0", "192.88.99.255"], NEVER),
            (&["191.255.255.255", "192.0.1.0", "192.0.1.255", "192.0.3.0", "192.88.98.255", "192.88.100.0"], PUBLIC),
            (&["198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255"], NEVER),
            (&["198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0"], PUBLIC),
            (&["224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255"], NEVER),
            (&["223.255.255.255", "2000::", "2001:200::", "2606:4700::1", "3ffe::1", "3fff:1000::"], PUBLIC),
            (&["::", "::2", "::ffff:8.8.8.8", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1"], NEVER),
            (&["1fff:ffff::", "4000::", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1", "5f00::1"], NEVER),
            (&["2001::1", "2001:1ff:ffff::", "2001:db8::", "2001:db8:ffff::1", "2002:808:808::", "3fff::", "3fff:fff::1"], NEVER),
            (&["2001:db7:ffff::", "2001:db9::", "2003::1"], PUBLIC),
            (&["::1", "fc00::", "fdff:ffff::1", "100.100.100.199", "fd00:ec3::254"], PRIVATE),
        ];
        for (addresses, expected) in cases {
            for address in *addresses {
                assert_eq!(reached(address), *expected, "{address}");
            }
        }
    }

    #[test]
    fn of_a_name_only_the_reachable_addresses_are_left() {
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        let kept = keep(Reach::Public, vec![at("127.0.0.1"), at("8.8.8.8"), at("::1"), at("169.254.169.254")]).unwrap();
        assert_eq!(kept, [at("8.8.8.8")]);
        assert!(keep(Reach::Public, vec![at("10.0.0.1")]).unwrap_err().is::<Unreachable>());
        assert!(keep(Reach::Public, Vec::new()).unwrap_err().is::<Unresolved>());
        assert_eq!(keep(Reach::Private, vec![at("10.0.0.1"), at("fe80::1")]).unwrap(), [at("10.0.0.1")]);
    }

    #[test]
    fn a_name_of_somebody_elses_is_inside_only_by_an_administrators_word() {
        let names = Names::default();
        names.set(vec![Host::Exactly("shop.example".to_owned()), Host::Below(".in.example".to_owned())]);
        for name in [
            "localhost",
            "shop",
            "a.localhost",
            "shop.default.svc",
            "shop.default.svc.cluster.local.",
            "vault.internal",
            "shop.example",
            "a.in.example",
        ] {
            assert_eq!(names.reach_of(name), Reach::Named, "{name}");
        }
        for name in [
            "shop.default",
            "in.example",
            "not.alocalhost",
            "svc.example",
            "a.svc.example",
            "internal.example",
            "www.shop.example",
            "cluster.local",
        ] {
            assert_eq!(names.reach_of(name), Reach::Public, "{name}");
        }
    }

    #[test]
    fn hosts_that_are_addresses_are_known_as_such() {
        assert_eq!(literal("[::1]"), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(literal("127.0.0.1"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(literal("one.example"), None);
    }
}
