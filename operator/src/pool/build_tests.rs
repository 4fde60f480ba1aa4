use std::collections::BTreeMap;

use dormouse_control::reason::PoolReason;
use dormouse_crds::{
    NameRef,
    pool::{Encryption, Isolation, KernelPool, KernelPoolSpec, Kms, Resources, Scheduling, Storage},
};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::*;
use crate::pool::validate::validate;

fn config() -> crate::Config {
    use clap::Parser as _;
    crate::Config::parse_from([
        "dormouse-operator",
        "--pod=op-1",
        "--kernel-image=kernel:1",
        "--broker-image=broker:1",
        "--s3-endpoint=http://minio.storage.svc:9000",
        "--s3-bucket=dormouse",
        "--storage-cluster=here",
    ])
}

fn pool(spec: KernelPoolSpec) -> KernelPool {
    let mut pool = KernelPool::new("default", spec);
    pool.metadata.namespace = Some("team".to_owned());
    pool.metadata.uid = Some("uid".to_owned());
    pool
}

fn built(spec: KernelPoolSpec) -> Built {
    let config = config();
    build(&validate(&pool(spec), &config).unwrap(), 2, "dormouse-system", &config.network).unwrap()
}

fn pod(built: &Built) -> PodSpec {
    template(&built.deployment).spec.unwrap()
}

fn template(deployment: &Deployment) -> PodTemplateSpec {
    deployment.spec.clone().unwrap().template
}

fn labels(deployment: &Deployment) -> BTreeMap<String, String> {
    template(deployment).metadata.unwrap().labels.unwrap()
}

fn secrets(pod: &PodSpec) -> Vec<String> {
    pod.volumes.iter().flatten().filter_map(|volume| volume.secret.as_ref()?.secret_name.clone()).collect()
}

fn env(pod: &PodSpec, name: &str) -> Option<String> {
    pod.containers[0].env.iter().flatten().find(|env| env.name == name).map(|env| env.value.clone().unwrap_or_default())
}

#[test]
fn a_kernel_pod_is_restricted_and_knows_nothing_of_kubernetes() {
    let built = built(KernelPoolSpec::default());
    let pod = pod(&built);
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.service_account_name, None);
    assert_eq!(pod.enable_service_links, Some(false));
    assert_eq!((pod.host_network, pod.host_pid, pod.host_ipc), (None, None, None));
    assert_eq!(pod.termination_grace_period_seconds, Some(60));
    let security = pod.security_context.unwrap();
    assert_eq!((security.run_as_non_root, security.run_as_user), (Some(true), Some(65_532)));
    assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
    let container = &pod.containers[0];
    let security = container.security_context.clone().unwrap();
    assert_eq!(security.allow_privilege_escalation, Some(false));
    assert_eq!(security.read_only_root_filesystem, Some(true));
    assert_eq!(security.run_as_non_root, Some(true));
    assert_eq!(security.capabilities.unwrap().drop, Some(vec!["ALL".to_owned()]));
    assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
    let writable: Vec<_> = container.volume_mounts.iter().flatten().filter(|m| m.read_only != Some(true)).map(|m| &m.mount_path).collect();
    assert_eq!(writable, ["/tmp", "/var/cache/dormouse"]);
    for volume in pod.volumes.iter().flatten() {
        assert!(volume.host_path.is_none() && volume.projected.is_none(), "{}", volume.name);
    }
}

#[test]
fn no_secret_is_in_the_environment() {
    let pod = pod(&built(KernelPoolSpec::default()));
    for variable in pod.containers[0].env.iter().flatten() {
        let source = variable.value_from.clone().unwrap_or_default();
        assert!(source.secret_key_ref.is_none() && source.config_map_key_ref.is_none(), "{}", variable.name);
    }
    assert!(pod.containers[0].env_from.is_none());
    assert_eq!(secrets(&pod), ["dormouse-storage-default", "dormouse-kernel-default-tls"]);
}

#[test]
fn encryption_keys_are_the_tenants_own_secret_and_never_in_the_environment() {
    let encryption = Encryption { key_secret_ref: Some(NameRef { name: "keys".to_owned() }), kms: None };
    let pod = pod(&built(KernelPoolSpec { encryption: Some(encryption), ..KernelPoolSpec::default() }));
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == "encryption").unwrap();
    assert_eq!(volume.secret.as_ref().unwrap().secret_name.as_deref(), Some("keys"));
    let mount = pod.containers[0].volume_mounts.iter().flatten().find(|mount| mount.name == "encryption").unwrap();
    assert_eq!(mount.read_only, Some(true));
    assert_eq!(env(&pod, "DORMOUSE_ENCRYPTION_KEYS_DIR").as_ref(), Some(&mount.mount_path));
}

fn kms(url: &str) -> Kms {
    let credentials_secret_ref = NameRef { name: "kms-token".to_owned() };
    Kms { url: url.to_owned(), mount: "transit".to_owned(), key: "sessions".to_owned(), credentials_secret_ref }
}

#[test]
fn a_kms_is_the_one_more_place_that_pods_reach_and_its_token_is_a_file() {
    let with = |url: &str| {
        built(KernelPoolSpec { encryption: Some(Encryption { key_secret_ref: None, kms: Some(kms(url)) }), ..KernelPoolSpec::default() })
    };
    let inside = with("https://vault.vault.svc:8200");
    let pod = pod(&inside);
    let container = &pod.containers[0];
    let env = |name: &str| env(&pod, name).unwrap_or_default();
    assert_eq!(env("DORMOUSE_KMS_URL"), "https://vault.vault.svc:8200");
    assert_eq!((env("DORMOUSE_KMS_MOUNT"), env("DORMOUSE_KMS_KEY")), ("transit".to_owned(), "sessions".to_owned()));
    assert_eq!(env("DORMOUSE_ENCRYPTION_KEYS_DIR"), "");
    let mount = container.volume_mounts.iter().flatten().find(|mount| mount.name == "kms").unwrap();
    assert_eq!((mount.mount_path.clone(), mount.read_only), (env("DORMOUSE_KMS_CREDENTIALS_DIR"), Some(true)));
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == "kms").unwrap().secret.as_ref().unwrap();
    assert_eq!((volume.secret_name.as_deref(), volume.optional), (Some("kms-token"), None));
    let egress = |built: &Built| built.network_policy.spec.clone().unwrap().egress.unwrap();
    let without = egress(&built(KernelPoolSpec::default()));
    let [added] = &egress(&inside)[without.len()..] else { panic!("one rule more") };
    assert_eq!(egress(&inside)[..without.len()], without[..]);
    let rule = serde_json::to_value(added).unwrap();
    assert_eq!(rule["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "vault");
    assert_eq!(rule["ports"][0]["port"], 8200);
    let outside = egress(&with("https://10.1.2.3")).pop().unwrap();
    assert_eq!(serde_json::to_value(&outside).unwrap()["to"][0]["ipBlock"]["cidr"], "10.1.2.3/32");
    assert!(egress(&with("https://10.1.2.3")).iter().flat_map(|rule| rule.to.iter().flatten()).count() > 1);
}

#[test]
fn the_environment_is_what_the_kernel_pod_reads() {
    let pod = pod(&built(KernelPoolSpec { slots_per_pod: 7, ..KernelPoolSpec::default() }));
    for (name, value) in [
        ("DORMOUSE_SLOTS", "7"),
        ("DORMOUSE_POOL", "default"),
        ("DORMOUSE_POD", ""),
        ("DORMOUSE_NAMESPACE", ""),
        ("DORMOUSE_S3_ENDPOINT", "http://minio.storage.svc:9000"),
        ("DORMOUSE_S3_BUCKET", "dormouse"),
        ("DORMOUSE_S3_CREDENTIALS_DIR", "/etc/dormouse/storage"),
        ("DORMOUSE_CLUSTER", "here"),
        ("DORMOUSE_LISTEN", "0.0.0.0:7443"),
        ("DORMOUSE_DISK_CACHE_DIR", "/var/cache/dormouse"),
        ("DORMOUSE_DISK_CACHE_BYTES", "1073741824"),
    ] {
        assert_eq!(env(&pod, name).as_deref(), Some(value), "{name}");
    }
}

#[test]
fn new_sessions_get_the_engine_that_the_administrator_names() {
    let engine = |kernel_engine: &str| {
        let config = crate::Config { kernel_engine: kernel_engine.to_owned(), ..config() };
        let valid = validate(&pool(KernelPoolSpec::default()), &config).unwrap();
        let built = build(&valid, 1, "dormouse-system", &config.network).unwrap();
        env(&pod(&built), "DORMOUSE_ENGINE")
    };
    assert_eq!((engine(""), engine("abc").as_deref()), (None, Some("abc")));
}

#[test]
fn traces_are_sent_where_the_administrator_says_and_nowhere_else() {
    let valid = validate(&pool(KernelPoolSpec::default()), &config()).unwrap();
    let built = |endpoint: &str| {
        let network = NetworkArgs { traces_endpoint: endpoint.to_owned(), traces_ratio: "0.5".to_owned(), ..config().network };
        let built = build(&valid, 1, "dormouse-system", &network).unwrap();
        let env = pod(&built).containers[0].env.clone().unwrap();
        let traces: Vec<_> = env.into_iter().filter(|env| env.name.starts_with("OTEL_")).filter_map(|env| env.value).collect();
        (traces, serde_json::to_string(&built.network_policy).unwrap())
    };
    let (traces, policy) = built("http://collector.observed.svc:4318");
    assert_eq!(traces, ["http://collector.observed.svc:4318", "parentbased_traceidratio", "0.5"]);
    assert!(policy.contains("\"observed\"") && policy.contains("4318"), "{policy}");
    let (traces, policy) = built("");
    assert!(traces.is_empty() && !policy.contains("4318"), "{policy}");
}

#[test]
fn the_cache_on_disk_is_a_volume_of_its_own_with_a_limit() {
    let pod = pod(&built(KernelPoolSpec::default()));
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == "disk-cache").unwrap();
    let limit = volume.empty_dir.as_ref().unwrap().size_limit.as_ref().unwrap();
    assert_eq!(limit.0, ((1_u64 << 30) + (64 << 20)).to_string());
}

#[test]
fn a_rolling_restart_never_takes_the_last_pod() {
    let built = built(KernelPoolSpec::default());
    let spec = built.deployment.spec.unwrap();
    assert_eq!(spec.replicas, Some(2));
    let rolling = serde_json::to_value(spec.strategy.unwrap()).unwrap();
    assert_eq!(rolling["rollingUpdate"], serde_json::json!({ "maxUnavailable": 0, "maxSurge": 1 }));
    assert_eq!(serde_json::to_value(built.disruption_budget).unwrap()["spec"]["maxUnavailable"], 1);
    let selector = spec.selector.match_labels.unwrap();
    let labels = spec.template.metadata.unwrap().labels.unwrap();
    assert!(selector.iter().all(|(key, value)| labels.get(key) == Some(value)));
    let owner = &built.deployment.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("KernelPool", Some(true)));
}

#[test]
fn the_network_is_closed_but_for_what_is_named() {
    let policy = serde_json::to_value(built(KernelPoolSpec::default()).network_policy).unwrap();
    let spec = &policy["spec"];
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(spec["podSelector"]["matchLabels"], json!({ "dormouse.dev/component": "kernel", "dormouse.dev/pool": "default" }));
    assert_eq!(spec["ingress"].as_array().unwrap().len(), 2);
    for rule in spec["ingress"].as_array().unwrap() {
        let from = &rule["from"][0];
        assert_eq!(from["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "dormouse-system");
        assert!(from["podSelector"]["matchExpressions"][0]["values"].as_array().unwrap().iter().all(|v| v == "gateway" || v == "operator"));
    }
    let egress = spec["egress"].as_array().unwrap();
    assert_eq!(egress.len(), 3, "brokers, DNS, storage");
    for rule in egress {
        assert!(!rule["to"].as_array().unwrap().is_empty() && !rule["ports"].as_array().unwrap().is_empty(), "{rule}");
    }
    assert_eq!(egress[0]["ports"][0]["port"], 7444);
    assert!(egress[0]["to"][0].get("namespaceSelector").is_none(), "brokers of the own namespace only");
    assert_eq!(egress[1]["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "kube-system");
    assert_eq!(
        (&egress[2]["ports"][0]["port"], &egress[2]["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]),
        (&json!(9000), &json!("storage"))
    );
}

#[test]
fn storage_is_opened_as_narrowly_as_its_address_allows() {
    let network = config().network;
    let cidr = |endpoint: &str| {
        let (peers, port) = storage_egress(endpoint, false, &network);
        (peers.iter().filter_map(|peer| peer.ip_block.clone()).map(|block| block.cidr).collect::<Vec<_>>(), port)
    };
    assert_eq!(cidr("http://10.1.2.3:9000"), (vec!["10.1.2.3/32".to_owned()], 9000));
    assert_eq!(cidr("https://[fd00::1]/"), (vec!["fd00::1/128".to_owned()], 443));
    assert_eq!(cidr("https://s3.example.com"), (vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()], 443));
    let flag = crate::config::Peers(storage_egress("http://10.9.9.9", false, &network).0);
    let flagged = crate::config::NetworkArgs { storage_egress: flag.clone(), storage_egress_port: Some(7), ..network };
    assert_eq!(storage_egress("https://s3.example.com", true, &flagged), (flag.0, 7));
    assert_eq!(storage_egress("http://10.1.2.3:9000", false, &flagged).1, 9000, "the flag is for the operator's own store");
}

#[test]
fn a_pool_that_cannot_be_built_says_what_to_write() {
    let config = config();
    let refuse = |spec| validate(&pool(spec), &config).unwrap_err();
    let storage = Storage {
        bucket: "bbb".to_owned(),
        endpoint: "http://x".to_owned(),
        region: String::new(),
        prefix: String::new(),
        credentials_secret_ref: None,
        web_identity: None,
    };
    for (spec, reason, word) in [
        (KernelPoolSpec { slots_per_pod: 0, ..KernelPoolSpec::default() }, PoolReason::InvalidSpec, "slotsPerPod"),
        (KernelPoolSpec { warm_pods: 11, ..KernelPoolSpec::default() }, PoolReason::InvalidSpec, "warmPods"),
        (
            KernelPoolSpec {
                encryption: Some(Encryption { key_secret_ref: None, kms: Some(kms("http://vault")) }),
                ..KernelPoolSpec::default()
            },
            PoolReason::InvalidSpec,
            "encryption.kms",
        ),
        (
            KernelPoolSpec { storage: Some(storage), ..KernelPoolSpec::default() },
            PoolReason::StorageCredentialsInvalid,
            "credentialsSecretRef",
        ),
    ] {
        let refusal = refuse(spec);
        assert_eq!(refusal.reason, reason);
        assert!(refusal.message.contains(word), "{}", refusal.message);
    }
}

#[test]
fn the_pools_own_wishes_reach_the_pod() {
    let resources =
        Resources { requests: [("cpu".to_owned(), "500m".into())].into(), limits: [("memory".to_owned(), "4Gi".into())].into() };
    let spec = KernelPoolSpec {
        image: Some("mine:2".to_owned()),
        runtime_class_name: Some("gvisor".to_owned()),
        host_users: Some(false),
        resources: Some(resources),
        ..KernelPoolSpec::default()
    };
    let pod = pod(&built(spec));
    assert_eq!((pod.runtime_class_name.as_deref(), pod.containers[0].image.as_deref()), (Some("gvisor"), Some("mine:2")));
    assert_eq!(pod.host_users, Some(false));
    let resources = pod.containers[0].resources.clone().unwrap();
    assert_eq!((resources.requests.unwrap()["cpu"].0.as_str(), resources.limits.unwrap()["memory"].0.as_str()), ("500m", "4Gi"));
}

#[test]
fn scrapers_reach_the_metrics_and_nothing_else() {
    let peers = r#"[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}]"#;
    let network = NetworkArgs { metrics_ingress: peers.parse().unwrap(), ..NetworkArgs::default() };
    let built = build(&validate(&pool(KernelPoolSpec::default()), &config()).unwrap(), 1, "dormouse-system", &network).unwrap();
    let rules = serde_json::to_value(built.network_policy.spec.unwrap().ingress.unwrap()).unwrap();
    let named: Vec<&str> = rules
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| rule.to_string().contains("monitoring"))
        .map(|rule| {
            assert_eq!(rule["ports"].as_array().unwrap().len(), 1);
            rule["ports"][0]["port"].as_u64().map_or("", |port| if port == 8080 { "admin" } else { "other" })
        })
        .collect();
    assert_eq!(named, ["admin"]);
}

#[test]
fn pods_run_where_the_pool_says_and_are_spread_without_a_word() {
    let constraints = |built: &Built| pod(built).topology_spread_constraints.unwrap();
    let spread: Vec<(String, String)> =
        constraints(&built(KernelPoolSpec::default())).into_iter().map(|it| (it.topology_key, it.when_unsatisfiable)).collect();
    assert_eq!(spread.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]);
    assert!(spread.iter().all(|(_, when)| when == "ScheduleAnyway"), "a pod is better than none");
    let scheduling: Scheduling = serde_json::from_value(serde_json::json!({
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "kernels", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
        "priorityClassName": "low",
        "imagePullSecrets": [{"name": "registry"}],
    }))
    .unwrap();
    let built = built(KernelPoolSpec { scheduling, ..KernelPoolSpec::default() });
    let pod = pod(&built);
    assert_eq!((pod.node_selector.unwrap()["disk"].as_str(), pod.priority_class_name.as_deref()), ("fast", Some("low")));
    assert_eq!(
        (pod.tolerations.unwrap()[0].key.as_deref(), pod.image_pull_secrets.unwrap()[0].name.as_str()),
        (Some("kernels"), "registry")
    );
    let [rack] = &constraints(&built)[..] else { panic!("only what is written") };
    let own = rack.label_selector.as_ref().unwrap().match_labels.as_ref().unwrap();
    assert_eq!((rack.topology_key.as_str(), own[POOL].as_str()), ("rack", "default"));
}

fn dedicated() -> KernelPoolSpec {
    KernelPoolSpec { isolation: Isolation::Dedicated, slots_per_pod: 50, ..KernelPoolSpec::default() }
}

#[test]
fn a_dedicated_pod_has_one_slot_and_no_cache_whatever_is_said_and_nothing_but_a_certificate() {
    let built = built(dedicated());
    let pod = pod(&built);
    let told = ["DORMOUSE_SLOTS", "DORMOUSE_DISK_CACHE_BYTES", "DORMOUSE_ISOLATION"].map(|name| env(&pod, name).unwrap());
    assert_eq!(told, ["1", "0", "dedicated"]);
    assert_eq!(secrets(&pod), ["dormouse-vacant-default-tls"]);
    assert_eq!(labels(&built.deployment)[ROLE], ROLE_SESSION);
}

#[test]
fn a_dedicated_pool_has_a_reader_while_it_has_pods() {
    let config = config();
    let replicas = |spec: KernelPoolSpec, replicas: u32| {
        let built = build(&validate(&pool(spec), &config).unwrap(), replicas, "dormouse-system", &config.network).unwrap();
        built.reader.spec.unwrap().replicas
    };
    assert_eq!([0, 1, 7].map(|pods| replicas(dedicated(), pods)), [Some(0), Some(1), Some(1)]);
    assert_eq!(replicas(KernelPoolSpec::default(), 7), Some(0), "of another pool what was there goes");
    let built = built(dedicated());
    let (own, reader) = (pod(&built), template(&built.reader).spec.unwrap());
    assert_eq!(built.reader.metadata.name.as_deref(), Some("dormouse-reader-default"));
    assert_eq!(built.reader.metadata.owner_references, built.deployment.metadata.owner_references);
    assert_eq!(["DORMOUSE_ISOLATION", "DORMOUSE_DISK_CACHE_BYTES"].map(|name| env(&reader, name).unwrap()), ["reader", "0"]);
    assert_eq!(secrets(&reader), ["dormouse-reader-default", "dormouse-vacant-default-tls"]);
    let of = |pod: PodSpec| (pod.containers[0].image.clone(), pod.containers[0].resources.clone(), pod.security_context);
    assert_eq!(of(reader), of(own));
}

#[test]
fn whose_pods_they_are_is_told_apart_and_a_policy_is_for_all_of_them() {
    let built = built(dedicated());
    let (own, reader) = (labels(&built.deployment), labels(&built.reader));
    let selects = |selector: &LabelSelector, labels: &BTreeMap<String, String>| {
        selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
    };
    let selector = built.reader.spec.unwrap().selector;
    assert!(selects(&selector, &reader) && !selects(&selector, &own));
    let before = self::built(KernelPoolSpec::default()).deployment;
    assert_eq!(built.deployment.spec.unwrap().selector, before.spec.unwrap().selector, "it cannot be changed");
    let policy = built.network_policy.spec.unwrap().pod_selector.unwrap();
    assert!(selects(&policy, &own) && selects(&policy, &reader));
    let budget = built.disruption_budget.spec.unwrap().selector.unwrap();
    assert!(selects(&budget, &own) && !selects(&budget, &reader), "a reader that is not ready keeps no node");
}
