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

fn pool<'a>(name: &'a str, target: &'a Target) -> Holder<'a> {
    Holder::pool("team", name, Isolation::Shared, target, None)
}

#[test]
fn minted_credentials_are_kept_until_they_are_due_or_for_another_place_or_other_rights() {
    let credentials = Credentials { session_token: Some("t".to_owned()), expiration: Some("e".to_owned()), ..Credentials::new("a", "s") };
    let now = Timestamp::from_second(1_000_000).unwrap();
    let due = renew_at(now, Duration::from_secs(900));
    assert_eq!(due, Timestamp::from_second(1_000_600).unwrap(), "two thirds of its life");
    let (here, moved) = (target(), Target { prefix: "q/".to_owned(), ..target() });
    let holder = pool("default", &here);
    let made_for = holder.reach.made_for();
    let secret = secret_of(&holder, &credentials, &made_for, Some(due));
    assert_eq!(secret.metadata.name.as_deref(), Some("dormouse-storage-default"));
    assert_eq!(credentials_of(&secret), Some(credentials));
    assert_eq!(still_good(&secret, &made_for, now), Some(due));
    assert_eq!(still_good(&secret, &made_for, due), None);
    let others = [
        pool("default", &moved),
        pool("other", &here),
        Holder::pool("team", "default", Isolation::Dedicated, &here, None),
        Holder::broker("team", "default", &here, None),
    ];
    for other in others {
        assert_eq!(still_good(&secret, &other.reach.made_for(), now), None, "{other:?}");
    }
}

#[test]
fn credentials_of_another_role_or_of_another_sts_are_made_anew() {
    let of = |arn: &str, sts: &str| {
        let role = Role { endpoint: sts.to_owned(), region: "us-east-1".to_owned(), arn: Some(arn.to_owned()) };
        Target { shared: false, access: Access::Account(Account { role, audience: "sts".to_owned() }), ..target() }
    };
    let targets = [target(), of("arn:a", "http://minio:9000"), of("arn:b", "http://minio:9000"), of("arn:a", "http://sts")];
    let made: HashSet<String> = targets.iter().map(|target| pool("default", target).reach.made_for()).collect();
    assert_eq!(made.len(), targets.len());
    let policies: HashSet<String> = targets.iter().map(|target| pool("default", target).reach.policy()).collect();
    assert_eq!(policies.len(), 1, "as narrow as what is minted in the operator's own store: {policies:?}");
}

#[test]
fn pools_and_brokers_have_secrets_of_their_own() {
    let here = target();
    let names = [
        pool("x", &here),
        pool("x-broker", &here),
        Holder::pool("team", "x", Isolation::Dedicated, &here, None),
        Holder::broker("team", "x", &here, None),
    ];
    let names = names.map(|holder| holder.secret);
    assert_eq!(names, ["dormouse-storage-x", "dormouse-storage-x-broker", "dormouse-reader-x", "x-broker-storage"]);
}

#[test]
fn a_dedicated_pool_keeps_in_a_secret_no_more_than_what_its_reader_reads() {
    let here = target();
    let reader = Holder::pool("team", "x", Isolation::Dedicated, &here, None);
    assert_eq!(reader.reach.rights, Rights::Reader { pool: "x" });
    let secret = secret_of(&reader, &Credentials::new("a", "s"), "", None);
    assert_eq!(secret.metadata.labels.unwrap()[POOL], "x", "a broker is looked at when it changes");
}
