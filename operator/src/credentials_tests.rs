use dormouse_store::sts::Role;

use super::*;

fn target() -> Target {
    Target {
        endpoint: "http://minio:9000".to_owned(),
        bucket: "dormouse".to_owned(),
        region: "us-east-1".to_owned(),
        prefix: "p/".to_owned(),
        shared: true,
        access: Access::Mint,
        cluster: "c".to_owned(),
    }
}

fn holder<'a>(rights: Rights<'a>, target: &'a Target) -> Holder<'a> {
    Holder { namespace: "team", rights, target, owner: None }
}

#[test]
fn minted_credentials_are_kept_until_they_are_due_or_for_another_place_or_other_rights() {
    let credentials = Credentials { session_token: Some("t".to_owned()), expiration: Some("e".to_owned()), ..Credentials::new("a", "s") };
    let now = Timestamp::from_second(1_000_000).unwrap();
    let due = renew_at(now, Duration::from_secs(900));
    assert_eq!(due, Timestamp::from_second(1_000_600).unwrap(), "two thirds of its life");
    let (here, moved) = (target(), Target { prefix: "q/".to_owned(), ..target() });
    let pool = holder(Rights::Kernel { pool: "default" }, &here);
    let secret = secret_of(&pool, &credentials, &pool.made_for(), Some(due));
    assert_eq!(secret.metadata.name.as_deref(), Some("dormouse-storage-default"));
    assert_eq!(credentials_of(&secret), Some(credentials));
    assert_eq!(still_good(&secret, &pool.made_for(), now), Some(due));
    assert_eq!(still_good(&secret, &pool.made_for(), due), None);
    let others = [
        holder(Rights::Kernel { pool: "default" }, &moved),
        holder(Rights::Kernel { pool: "other" }, &here),
        holder(Rights::Broker { name: "default" }, &here),
    ];
    for other in others {
        assert_eq!(still_good(&secret, &other.made_for(), now), None, "{other:?}");
    }
}

#[test]
fn credentials_of_another_role_or_of_another_sts_are_made_anew() {
    let of = |arn: &str, sts: &str| {
        let role = Role { endpoint: sts.to_owned(), region: "us-east-1".to_owned(), arn: Some(arn.to_owned()) };
        Target { shared: false, access: Access::Account(Account { role, audience: "sts".to_owned() }), ..target() }
    };
    let targets = [target(), of("arn:a", "http://minio:9000"), of("arn:b", "http://minio:9000"), of("arn:a", "http://sts")];
    let made: HashSet<String> = targets.iter().map(|target| holder(Rights::Kernel { pool: "default" }, target).made_for()).collect();
    assert_eq!(made.len(), targets.len());
    let policies: HashSet<String> = targets.iter().map(|target| holder(Rights::Kernel { pool: "default" }, target).policy()).collect();
    assert_eq!(policies.len(), 1, "as narrow as what is minted in the operator's own store: {policies:?}");
}

#[test]
fn pools_and_brokers_have_secrets_of_their_own() {
    let here = target();
    let names = [Rights::Kernel { pool: "x" }, Rights::Kernel { pool: "x-broker" }, Rights::Broker { name: "x" }]
        .map(|rights| holder(rights, &here).secret());
    assert_eq!(names, ["dormouse-storage-x", "dormouse-storage-x-broker", "x-broker-storage"]);
}
