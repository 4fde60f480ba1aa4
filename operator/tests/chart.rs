//! The chart and the operator agree about names.

use std::{collections::BTreeSet, path::Path};

use clap::CommandFactory as _;
use dormouse_operator::{Config, account::ACCOUNT, leader, leaf};

fn chart(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/dormouse").join(file);
    std::fs::read_to_string(path).unwrap()
}

/// Names that begin with `DORMOUSE_` in a text.
fn variables(text: &str) -> BTreeSet<String> {
    let names = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    names.filter(|name| name.starts_with("DORMOUSE_")).map(str::to_owned).collect()
}

#[test]
fn the_chart_sets_only_variables_that_the_operator_reads_and_all_that_it_needs() {
    let command = Config::command();
    let of = |argument: &clap::Arg| argument.get_env().map(|name| name.to_string_lossy().into_owned());
    let mut known: BTreeSet<String> = command.get_arguments().filter_map(of).collect();
    known.insert(dormouse_service::telemetry::LOG_ENV.to_owned());
    let required: BTreeSet<String> = command.get_arguments().filter(|argument| argument.is_required_set()).filter_map(of).collect();
    let set = variables(&chart("templates/operator.yaml"));
    assert_eq!(set.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new(), "unknown");
    assert_eq!(required.difference(&set).collect::<Vec<_>>(), Vec::<&String>::new(), "missing");
}

#[test]
fn the_gateway_mounts_the_secret_that_the_operator_makes() {
    assert!(chart("templates/gateway.yaml").contains(&format!("secretName: {}", leaf::GATEWAY_SECRET)));
}

#[test]
fn the_operator_may_delete_only_what_it_keeps_what_is_archived_and_pods_nor_read_beyond_its_work() {
    let manifest = chart("../../deploy/dormouse.yaml");
    let rules: Vec<&str> =
        manifest.split("\n---\n").filter(|doc| doc.contains("\n  name: dormouse-operator") && doc.contains("\nrules:")).collect();
    assert_eq!(rules.len(), 3, "a ClusterRole, one for the cluster's name, and a Role for the lease {} and its own Secrets", leader::LEASE);
    // Whoever gets tokens of other ServiceAccounts may do what those may.
    let tokens: Vec<&str> = rules.iter().flat_map(|rule| rule.lines()).filter(|line| line.contains("serviceaccounts")).collect();
    let narrow = format!("resources: [serviceaccounts/token], resourceNames: [{ACCOUNT}], verbs: [create]}}");
    assert!(tokens.len() == 1 && tokens[0].ends_with(&narrow), "{tokens:?}");
    for rule in rules {
        // In its own namespace: what it keeps of the storage credentials of tenants.
        let kept = usize::from(rule.contains("\nkind: Role\n"))
            * rule.matches("resources: [secrets], verbs: [get, list, create, patch, delete]}").count();
        // What leaves for the archive, and only as it was when it was put there.
        let archived = rule.matches("resources: [kernelsessions], verbs: [get, list, watch, create, patch, delete]}").count();
        // Pods whose only session has left them, as rule and in what is said of it. What makes pods it may change anyhow.
        let spent = 2 * rule.matches("resources: [pods], verbs: [get, list, watch, patch, delete]}").count();
        assert_eq!(rule.matches("delete").count(), kept + archived + spent, "{rule}");
        assert!(!rule.contains('*') && !rule.contains("pods/exec") && !rule.contains("impersonate"), "{rule}");
    }
}
