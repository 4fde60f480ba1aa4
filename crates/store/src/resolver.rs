//! Names of object stores: none may stand for what only the machine itself should reach.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use aws_smithy_runtime_api::client::dns::{DnsFuture, ResolveDns, ResolveDnsError};
use dormouse_service::metadata::is_metadata;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The system's resolver, which does not answer with the metadata services of clouds: whoever may name a store may not have a process with
/// credentials ask those.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resolver;

impl ResolveDns for Resolver {
    fn resolve_dns<'a>(&'a self, name: &'a str) -> DnsFuture<'a> {
        DnsFuture::new(async move { addresses(name).await.map_err(ResolveDnsError::new) })
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = addresses(name.as_str()).await?;
            Ok(Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

async fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((name, 0)).await?;
    reachable(name, found.map(|address| address.ip()).collect())
}

fn reachable(name: &str, found: Vec<IpAddr>) -> io::Result<Vec<IpAddr>> {
    match found.iter().find(|address| is_metadata(**address)) {
        Some(address) => {
            Err(io::Error::other(format!("{name} stands for {address}, where a cloud keeps metadata: write the URL of an object store")))
        }
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_for_a_metadata_service_is_no_store() {
        let of = |addresses: &[&str]| reachable("store.example", addresses.iter().map(|it| it.parse().unwrap()).collect());
        assert_eq!(of(&["203.0.113.7", "2001:db8::7"]).unwrap().len(), 2);
        for inside in ["169.254.169.254", "168.63.129.16", "fd00:ec2::254", "::ffff:169.254.169.254"] {
            let refused = of(&["203.0.113.7", inside]).unwrap_err().to_string();
            assert!(refused.contains("store.example") && refused.contains("metadata"), "{refused}");
        }
    }

    #[tokio::test]
    async fn other_names_are_looked_up() {
        let found = Resolver.resolve_dns("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
