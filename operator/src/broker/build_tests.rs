use dormouse_control::reason::BrokerReason;
use dormouse_crds::{
    NameRef,
    broker::{ToolBroker, ToolBrokerSpec},
    pool::{Encryption, KernelPoolSpec, Kms},
    service::{Auth, AuthType},
};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};

use super::*;
use crate::broker::{
    health,
    journal::{Credentials, decide},
    validate::{Secrets, validate},
};
use crate::config::StorageArgs;

fn config() -> crate::Config {
    use clap::Parser as _;
    crate::Config::parse_from(["dormouse-operator", "--pod=op-1", "--kernel-image=kernel:1", "--broker-image=broker:1"])
}

fn broker() -> ToolBroker {
    let spec: ToolBrokerSpec = serde_json::from_value(json!({
        "replicas": 2,
        "services": [{ "name": "widgets", "baseUrl": "http://widgets", "auth": { "type": "bearer", "secretRef": { "name": "widgets", "key": "token" } } }],
        "tools": [{ "name": "getWidget", "service": "widgets", "path": "/widgets/{id}" }],
    }))
    .unwrap();
    let mut broker = ToolBroker::new("tools", spec);
    broker.metadata.namespace = Some("team".to_owned());
    broker.metadata.uid = Some("uid".to_owned());
    broker
}

fn secrets(version: &str, keys: &[&str]) -> Secrets {
    let mut secret = Secret::default();
    secret.metadata.resource_version = Some(version.to_owned());
    secret.data = Some(keys.iter().map(|key| ((*key).to_owned(), ByteString(b"hush".to_vec()))).collect());
    [("widgets".to_owned(), Some(secret))].into()
}

fn built(secrets: &Secrets) -> Built {
    build(&validate(&broker(), secrets, None, &config()).unwrap(), "", "dormouse-system", &config().network).unwrap()
}

#[test]
fn a_broker_pod_is_restricted_and_sees_the_named_key_only() {
    let built = built(&secrets("1", &["token", "other"]));
    let pod = built.deployment.spec.unwrap().template.spec.unwrap();
    assert_eq!((pod.automount_service_account_token, pod.enable_service_links), (Some(false), Some(false)));
    assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
    let container = &pod.containers[0];
    let security = container.security_context.clone().unwrap();
    assert_eq!((security.read_only_root_filesystem, security.allow_privilege_escalation), (Some(true), Some(false)));
    assert_eq!(security.capabilities.unwrap().drop, Some(vec!["ALL".to_owned()]));
    let volumes = pod.volumes.unwrap();
    let mounted = volumes.iter().find(|volume| volume.name == "secret-0").unwrap().secret.clone().unwrap();
    assert_eq!(mounted.secret_name.as_deref(), Some("widgets"));
    let keys: Vec<_> = mounted.items.unwrap().into_iter().map(|item| item.key).collect();
    assert_eq!(keys, ["token"]);
    let mount = container.volume_mounts.iter().flatten().find(|mount| mount.name == "secret-0").unwrap();
    assert_eq!((mount.mount_path.as_str(), mount.read_only), ("/etc/dormouse/secrets/widgets", Some(true)));
    assert!(container.env.iter().flatten().all(|v| v.value_from.as_ref().is_none_or(|from| from.secret_key_ref.is_none())));
}

fn own_storage() -> StorageArgs {
    StorageArgs { s3_endpoint: Some("http://minio:9000".into()), s3_bucket: Some("sessions".into()), ..StorageArgs::default() }
}

fn with_journal(pool: &str) -> ToolBroker {
    let mut broker = broker();
    broker.spec.journal.pool = pool.to_owned();
    broker
}

#[test]
fn credentials_that_are_minted_are_the_brokers_own() {
    let due = Timestamp::from_second(1_000_000).unwrap();
    let found = decide(&broker(), Some(&KernelPoolSpec::default()), Credentials::Own(due), &own_storage());
    assert_eq!(found.due, Some(due));
    assert_eq!(found.place.unwrap().secret, "tools-broker-storage");
}

#[test]
fn the_journal_is_in_the_storage_of_the_named_pool() {
    let credentials_secret_ref = NameRef { name: "kms-token".into() };
    let kms = Kms { url: "https://vault.example".into(), mount: "transit".into(), key: "sessions".into(), credentials_secret_ref };
    let encryption = Some(Encryption { key_secret_ref: Some(NameRef { name: "keys".into() }), kms: Some(kms) });
    let found = decide(
        &with_journal("batch"),
        Some(&KernelPoolSpec { encryption, ..KernelPoolSpec::default() }),
        Credentials::OfPool,
        &own_storage(),
    );
    let valid = validate(&broker(), &secrets("1", &["token"]), found.place.clone(), &config()).unwrap();
    let pod = build(&valid, "", "dormouse-system", &config().network).unwrap().deployment.spec.unwrap().template.spec.unwrap();
    let container = &pod.containers[0];
    let env = |name: &str| container.env.iter().flatten().find(|env| env.name == name).and_then(|env| env.value.clone());
    assert_eq!(env("DORMOUSE_S3_ENDPOINT").as_deref(), Some("http://minio:9000"));
    assert_eq!(env("DORMOUSE_S3_BUCKET").as_deref(), Some("sessions"));
    assert_eq!(env("DORMOUSE_S3_CREDENTIALS_DIR").as_deref(), Some("/etc/dormouse/storage"));
    for (name, secret) in [("storage", "dormouse-storage-batch"), ("encryption", "keys"), ("kms", "kms-token")] {
        let volume = pod.volumes.iter().flatten().find(|volume| volume.name == name).unwrap().secret.as_ref().unwrap();
        assert_eq!((volume.secret_name.as_deref(), volume.optional), (Some(secret), Some(true)));
    }
    assert!(container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == "/etc/dormouse/storage"));
    assert_eq!(env("DORMOUSE_ENCRYPTION_KEYS_DIR").as_deref(), Some("/etc/dormouse/encryption"), "the page of calls is encrypted, too");
    assert!(container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == "/etc/dormouse/encryption"));
    assert_eq!(env("DORMOUSE_KMS_CREDENTIALS_DIR").as_deref(), Some("/etc/dormouse/kms"));
    assert!(container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == "/etc/dormouse/kms"));
    let say = found.update();
    assert_eq!((say.type_, say.status, say.reason.as_str()), ("JournalStored", Some(true), "PoolStorage"));
}

#[test]
fn a_broker_without_storage_says_that_its_journal_is_in_memory() {
    let (nowhere, pool) = (StorageArgs::default(), KernelPoolSpec::default());
    for (pool, credentials, own, reason) in [
        (None, Credentials::OfPool, &own_storage(), "PoolNotFound"),
        (Some(&pool), Credentials::OfPool, &nowhere, "StorageNotConfigured"),
        (Some(&pool), Credentials::None, &own_storage(), "CredentialsNotReady"),
    ] {
        let found = decide(&broker(), pool, credentials, own);
        let say = found.update();
        assert_eq!((found.place, say.status, say.reason.as_str()), (None, Some(false), reason));
        assert!(say.message.contains("in the memory of each broker pod"), "{}", say.message);
    }
    let pod = built(&secrets("1", &["token"])).deployment.spec.unwrap().template.spec.unwrap();
    assert!(pod.containers[0].env.iter().flatten().all(|env| !env.name.starts_with("DORMOUSE_S3")));
}

#[test]
fn the_secret_is_in_nothing_that_is_built() {
    let built = built(&secrets("1", &["token"]));
    assert!(!format!("{built:?}").contains("hush"));
}

#[test]
fn only_kernel_pods_of_the_namespace_and_gateways_come_in() {
    let built = built(&secrets("1", &["token"]));
    let policy = serde_json::to_value(built.network_policy).unwrap();
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(
        policy["spec"]["ingress"],
        json!([{
            "from": [
                { "podSelector": { "matchLabels": { "dormouse.dev/component": "kernel" } } },
                {
                    "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "dormouse-system" } },
                    "podSelector": { "matchLabels": { "dormouse.dev/component": "gateway" } },
                },
                {
                    "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "dormouse-system" } },
                    "podSelector": { "matchLabels": { "dormouse.dev/component": "operator" } },
                },
            ],
            "ports": [{ "protocol": "TCP", "port": 7444 }],
        }])
    );
}

#[test]
fn the_service_is_where_kernel_pods_look_for_it() {
    let built = built(&secrets("1", &["token"]));
    assert_eq!(built.service.metadata.name.as_deref(), Some("tools-broker"));
    let spec = built.service.spec.unwrap();
    assert_eq!(spec.ports.unwrap()[0].port, 7444);
    let labels = built.deployment.spec.unwrap().template.metadata.unwrap().labels.unwrap();
    assert!(spec.selector.unwrap().iter().all(|(key, value)| labels.get(key) == Some(value)));
    let read: ToolBrokerSpec = yaml_serde::from_str(&built.config_map.data.unwrap()["broker.yaml"]).unwrap();
    assert_eq!(read, broker().spec, "the broker reads what the user wrote");
}

#[test]
fn a_changed_secret_or_spec_rolls_the_pods() {
    let hash = |built: &Built| built.deployment.spec.clone().unwrap().template.metadata.unwrap().annotations.unwrap()[CONFIG_HASH].clone();
    let one = built(&secrets("1", &["token"]));
    assert_eq!(hash(&one), hash(&built(&secrets("1", &["token", "unrelated"]))));
    assert_ne!(hash(&one), hash(&built(&secrets("2", &["token"]))));
    let mut other = broker();
    other.spec.tools[0].path = "/other".to_owned();
    let other =
        build(&validate(&other, &secrets("1", &["token"]), None, &config()).unwrap(), "", "dormouse-system", &config().network).unwrap();
    assert_ne!(hash(&one), hash(&other));
}

#[test]
fn a_secret_that_sessions_may_name_holds_nobody_up() {
    let mut broker = broker();
    broker.spec.services[0].session_secrets = vec!["ann".to_owned(), "widgets".to_owned()];
    let valid = validate(&broker, &secrets("1", &["token"]), None, &config()).unwrap();
    let built = build(&valid, "", "dormouse-system", &config().network).unwrap();
    let volumes = built.deployment.spec.unwrap().template.spec.unwrap().volumes.unwrap();
    let optional = |secret: &str| {
        let of = volumes.iter().filter_map(|volume| volume.secret.as_ref()).find(|of| of.secret_name.as_deref() == Some(secret));
        of.unwrap().optional
    };
    assert_eq!(optional("ann"), Some(true), "it does not exist");
    assert_eq!(optional("widgets"), None, "the service's own, too");
}

#[test]
fn what_is_missing_is_named() {
    let config = config();
    for (secrets, word) in [(Secrets::new(), "Secret widgets does not exist"), (secrets("1", &["other"]), "no key token")] {
        let refusal = validate(&broker(), &secrets, None, &config).unwrap_err();
        assert_eq!(refusal.reason, BrokerReason::SecretNotFound);
        assert!(refusal.message.contains(word), "{}", refusal.message);
    }
    type Spoil = fn(&mut ToolBroker);
    let spoils: [(Spoil, &str); 4] = [
        (|b| b.spec.tools[0].service = "nope".to_owned(), "there is no service nope"),
        (|b| b.spec.tools[0].method = "POST".to_owned(), "does not allow POST"),
        (|b| b.spec.services[0].auth.secret_ref = None, "secretRef"),
        (|b| b.spec.services[0].auth = Auth { type_: AuthType::Header, ..b.spec.services[0].auth.clone() }, "headerName"),
    ];
    for (spoil, word) in spoils {
        let mut broker = broker();
        spoil(&mut broker);
        let refusal = validate(&broker, &secrets("1", &["token"]), None, &config).unwrap_err();
        assert_eq!(refusal.reason, BrokerReason::InvalidSpec);
        assert!(refusal.message.contains(word), "{}", refusal.message);
    }
}

#[test]
fn a_broker_is_ready_when_the_pods_of_this_spec_are() {
    let deployment = |generation: i64, observed: i64, replicas: i32, updated: i32, available: i32| -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "generation": generation },
            "spec": { "replicas": replicas, "selector": {}, "template": {} },
            "status": { "observedGeneration": observed, "updatedReplicas": updated, "availableReplicas": available },
        }))
        .unwrap()
    };
    for (generation, observed, replicas, updated, available, ready, reason) in [
        (2, 2, 1, 1, 1, true, BrokerReason::Available),
        (2, 1, 1, 1, 1, false, BrokerReason::PodsNotReady),
        (2, 2, 2, 1, 2, false, BrokerReason::PodsNotReady),
        (2, 2, 2, 2, 1, false, BrokerReason::PodsNotReady),
        (2, 2, 0, 0, 0, false, BrokerReason::ScaledToZero),
    ] {
        let health = health(&deployment(generation, observed, replicas, updated, available));
        assert_eq!((health.ready, health.reason), (ready, reason));
    }
}

#[test]
fn what_the_spec_names_is_open_and_nothing_else() {
    let peers = |change: &dyn Fn(&mut ToolBrokerSpec)| {
        let mut broker = broker();
        change(&mut broker.spec);
        let valid = validate(&broker, &secrets("1", &["token"]), None, &config()).unwrap();
        let policy = serde_json::to_value(build(&valid, "", "dormouse-system", &config().network).unwrap().network_policy).unwrap();
        let rules = policy["spec"]["egress"].as_array().unwrap().clone();
        assert_eq!(rules[0]["ports"][0]["port"], 53);
        rules.get(1).map_or(json!([]), |rule| rule["to"].clone())
    };
    assert_eq!(peers(&|spec| spec.services[0].base_url = "http://10.1.2.3:8080".into()), json!([{ "ipBlock": { "cidr": "10.1.2.3/32" } }]));
    let named = peers(&|spec| spec.services[0].base_url = "https://api.example.com".into());
    assert_eq!(named[0]["ipBlock"]["cidr"], "0.0.0.0/0");
    assert!(named[0]["ipBlock"]["except"].as_array().unwrap().contains(&json!("169.254.0.0/16")));
    assert!(named[1]["ipBlock"]["except"].as_array().unwrap().contains(&json!("fd00:ec2::/32")));
    assert_eq!(named[2], json!({ "namespaceSelector": {} }));
    let nothing = peers(&|spec| {
        spec.services.clear();
        spec.tools.clear();
    });
    assert_eq!(nothing, json!([]));
}

#[test]
fn each_field_that_names_a_host_opens_that_and_no_more() {
    let peers = |field: &str, value: serde_json::Value| {
        let service = json!({ "name": "widgets", "baseUrl": "http://10.1.2.3", "allowedMethods": ["GET"] });
        let mut spec = json!({ "services": [service] });
        match (field, value) {
            ("services", more) => spec["services"].as_array_mut().unwrap().push(more),
            ("egress" | "modules", whole) => spec[field] = whole,
            (_, one) => spec[field] = json!([one]),
        }
        let mut broker = ToolBroker::new("tools", serde_json::from_value(spec).unwrap());
        broker.metadata.namespace = Some("team".to_owned());
        let valid = validate(&broker, &secrets("1", &["token", "clientId", "clientSecret"]), None, &config()).unwrap();
        let policy = serde_json::to_value(build(&valid, "", "dormouse-system", &config().network).unwrap().network_policy).unwrap();
        policy["spec"]["egress"][1]["to"].as_array().unwrap().clone()
    };
    let key = json!({ "name": "widgets", "key": "token" });
    let service = |auth: serde_json::Value| json!({ "name": "far", "baseUrl": "http://10.1.2.3", "auth": auth });
    let cidr = |address: &str| json!({ "ipBlock": { "cidr": format!("{address}/32") } });
    for (host, mut wanted) in [
        ("10.9.9.9:8080", vec![cidr("10.9.9.9")]),
        ("shop.sales.svc", vec![json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "sales" } } })]),
        (
            "shop.sales.svc.cluster.local",
            vec![json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "sales" } } })],
        ),
        // A policy knows no names: this one may be anywhere.
        ("api.example.com", serde_json::from_value(serde_json::to_value(everywhere()).unwrap()).unwrap()),
    ] {
        let is_name = host.ends_with(".com");
        if is_name {
            wanted.push(json!({ "namespaceSelector": {} }));
        }
        wanted.insert(0, cidr("10.1.2.3"));
        let url = format!("http://{host}/x");
        for (what, field, value) in [
            ("service", "services", json!({ "name": "far", "baseUrl": url })),
            (
                "OAuth server",
                "services",
                service(json!({ "type": "oauth2ClientCredentials", "tokenUrl": url, "secretRef": { "name": "widgets" } })),
            ),
            ("hook", "services", service(json!({ "type": "custom", "hook": { "url": url } }))),
            ("tool", "tools", json!({ "name": "t", "webhook": { "url": url, "secretRef": key } })),
            ("MCP server", "mcpServers", json!({ "name": "m", "url": url })),
            ("model", "models", json!({ "name": "m", "api": "openai", "baseUrl": url, "model": "m" })),
            ("webhook", "webhooks", json!({ "url": url, "events": ["failed"], "secretRef": key })),
            ("document", "openapi", json!({ "name": "o", "service": "widgets", "document": { "url": url } })),
            ("base", "knowledge", json!({ "name": "k", "urls": [url] })),
            ("registry", "modules", json!({ "registry": url })),
            ("rule", "egress", json!({ "allow": [{ "host": host }] })),
        ] {
            assert_eq!(peers(field, value), wanted, "{what}: {host}");
        }
        // Every name below one of the cluster's, or everything.
        let below = peers("egress", json!({ "allow": [{ "host": format!("*.{}", host.split_once('.').unwrap().1) }] }));
        assert!(!host.contains(".svc") || below == wanted, "{host}: {below:?}");
        assert!(peers("egress", json!({ "allow": [{ "host": "*" }] })).contains(&json!({ "namespaceSelector": {} })));
    }
}
