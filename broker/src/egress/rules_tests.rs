//! What rules allow.

use std::sync::Arc;

use dormouse_protocol::ErrorCode;
use serde_json::json;

use super::*;

fn judge(session: serde_json::Value, broker: serde_json::Value) -> Judge {
    let mut problems = Vec::new();
    let broker = serde_json::from_value(json!({ "allow": broker })).unwrap();
    let broker = BrokerRules::compile(Some(&broker), &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    Judge::new(&serde_json::from_value::<Vec<EgressRule>>(session).unwrap(), Arc::new(broker)).unwrap()
}

/// Whether `host` in both lists lets a GET of `url` through.
fn host_allows(host: &str, url: &str) -> bool {
    let rules = json!([{ "host": host }]);
    judge(rules.clone(), rules).judge(&Url::parse(url).unwrap(), &Method::GET).is_ok()
}

#[test]
fn hosts_match_exactly_or_below_a_suffix() {
    for (host, url, allowed) in [
        ("api.example", "https://api.example/x", true),
        ("API.Example", "https://api.EXAMPLE/x", true),
        ("api.example", "http://api.example./x", true),
        ("api.example.", "http://api.example/x", true),
        ("api.example", "https://xapi.example/x", false),
        ("api.example", "https://api.example.evil/x", false),
        ("*.example", "https://a.b.example/x", true),
        ("*.example", "https://example/x", false),
        ("*.example", "https://badexample/x", false),
        ("*", "https://anything.at.all/", true),
        ("*", "http://8.8.8.8/", true),
        ("8.8.8.8", "http://134744072/", true),
        ("8.8.8.8", "http://0x8.8.8.8/", true),
        ("[2606:4700::1]", "http://[2606:4700:0::1]/", true),
        ("bücher.example", "https://xn--bcher-kva.example/", true),
    ] {
        assert_eq!(host_allows(host, url), allowed, "{host} {url}");
    }
}

#[test]
fn ports_other_than_the_usual_one_are_named() {
    for (host, url, allowed) in [
        ("a.example", "http://a.example:80/", true),
        ("a.example", "https://a.example:443/", true),
        ("a.example", "http://a.example:443/", false),
        ("a.example", "http://a.example:8080/", false),
        ("a.example:8080", "http://a.example:8080/", true),
        ("a.example:8080", "http://a.example/", false),
        ("a.example:*", "https://a.example:9/", true),
        ("[2606:4700::1]:8080", "http://[2606:4700::1]:8080/", true),
        ("[2606:4700::1]:8080", "http://[2606:4700::1]/", false),
    ] {
        assert_eq!(host_allows(host, url), allowed, "{host} {url}");
    }
}

#[test]
fn hosts_that_are_none_are_refused() {
    for host in [
        "",
        "*.",
        "a/b",
        "a b",
        "http://a",
        "a:0",
        "a:70000",
        "a:x",
        "user@a",
        "*a.example",
        "a.*.example",
        "*.10.0.0.1",
        "*.1",
        ".a",
        "%41",
    ] {
        assert!(parse_host(host).is_none(), "{host}");
    }
}

#[test]
fn a_request_needs_a_rule_of_both_lists() {
    let allowed = |session: serde_json::Value, broker: serde_json::Value, method: Method, url: &str| {
        judge(session, broker).judge(&Url::parse(url).unwrap(), &method)
    };
    let (narrow, wide) = (json!([{"host": "a.example", "paths": ["/v1/*"]}]), json!([{"host": "*", "methods": ["GET", "POST"]}]));
    assert!(allowed(narrow.clone(), wide.clone(), Method::GET, "http://a.example/v1/x").is_ok());
    for (session, broker, method, url, list) in [
        (narrow.clone(), wide.clone(), Method::POST, "http://a.example/v1/x", "the session's"),
        (narrow.clone(), wide.clone(), Method::GET, "http://a.example/v2/x", "the session's"),
        (narrow.clone(), wide.clone(), Method::GET, "http://b.example/v1/x", "the session's"),
        (wide.clone(), narrow.clone(), Method::POST, "http://a.example/v1/x", "the ToolBroker's"),
        (wide.clone(), narrow, Method::GET, "http://b.example/v1/x", "the ToolBroker's"),
        (json!([]), wide.clone(), Method::GET, "http://a.example/", "the session's"),
        (wide, json!([]), Method::GET, "http://a.example/", "the ToolBroker's"),
    ] {
        let error = allowed(session, broker, method, url).unwrap_err();
        assert_eq!(error.code, ErrorCode::EgressDenied);
        assert!(error.message.contains(list), "{}", error.message);
    }
}

#[test]
fn a_path_is_judged_in_every_form_that_a_server_may_read() {
    let rules = json!([{"host": "a.example", "paths": ["/repos/*", "/a b"]}]);
    let judge = judge(rules.clone(), rules);
    for (path, allowed) in [
        ("/repos/x", true),
        ("/repos/x/../y", true),
        ("/repos/../admin", false),
        ("/repos/%2e%2e/admin", false),
        ("/repos/..%2fadmin", false),
        ("/repos/%252e%252e%252fadmin", false),
        ("/repos/..;/admin", false),
        ("/repos/..%5cadmin", false),
        ("/repos/%00", false),
        ("/repos%2fx", false),
        ("/repos/a%2fb", true),
        ("/a%20b", true),
        ("/admin", false),
    ] {
        let url = Url::parse(&format!("http://a.example{path}")).unwrap();
        assert_eq!(judge.judge(&url, &Method::GET).is_ok(), allowed, "{path}");
    }
}

#[test]
fn private_addresses_need_a_rule_that_names_them() {
    let all = json!([{"host": "*:*"}]);
    let reach = |broker: serde_json::Value, url: &str| judge(all.clone(), broker).judge(&Url::parse(url).unwrap(), &Method::GET);
    for url in [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/",
    ] {
        assert_eq!(reach(json!([{"host": "*"}]), url).unwrap_err().code, ErrorCode::EgressDenied, "{url}");
    }
    assert_eq!(reach(json!([{"host": "127.0.0.1:*", "private": true}]), "http://127.0.0.1:8080/"), Ok(Reach::Private));
    assert!(reach(json!([{"host": "169.254.169.254", "private": true}]), "http://169.254.169.254/").is_err(), "never");
    let both = json!([{"host": "*"}, {"host": "in.example", "private": true}]);
    assert_eq!(reach(both.clone(), "http://in.example/"), Ok(Reach::Private));
    assert_eq!(reach(both, "http://out.example/"), Ok(Reach::Public));
}

#[test]
fn a_private_rule_names_its_host_and_other_schemes_and_credentials_are_refused() {
    let mut problems = Vec::new();
    let spec = serde_json::from_value(json!({"allow": [
        {"host": "*", "private": true}, {"host": "a", "methods": ["get"]}, {"host": "a b"}, {"host": "a", "paths": ["x"]},
    ]}))
    .unwrap();
    BrokerRules::compile(Some(&spec), &mut problems);
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["egress.allow[0].private", "egress.allow[1].methods[0]", "egress.allow[2].host", "egress.allow[3].paths[0]"]);
    let all = judge(json!([{"host": "*"}]), json!([{"host": "*"}]));
    for url in ["ftp://a.example/", "http://user:secret@a.example/", "file:///etc/passwd", "data:,x"] {
        assert_eq!(all.judge(&Url::parse(url).unwrap(), &Method::GET).unwrap_err().code, ErrorCode::EgressDenied, "{url}");
    }
}

#[test]
fn a_session_may_bring_so_many_rules() {
    let rule: EgressRule = serde_json::from_value(json!({"host": "a"})).unwrap();
    let made = |count: usize| Judge::new(&vec![rule.clone(); count], Arc::default());
    assert!(made(SESSION_RULES_MAX).is_ok());
    assert_eq!(made(SESSION_RULES_MAX + 1).unwrap_err().code, ErrorCode::EgressDenied);
}

#[test]
fn a_path_is_read_once_whatever_the_number_of_rules() {
    let path = format!("/%{}2e", "25".repeat(8_000));
    let rules: Vec<_> =
        (0..64).map(|n| json!({ "host": "a.example", "paths": (0..64).map(|m| format!("/{n}/{m}/*x")).collect::<Vec<_>>() })).collect();
    let judge = judge(json!(rules), json!(rules));
    let url = Url::parse(&format!("https://a.example{path}")).unwrap();
    crate::path::WORK_BYTES.set(0);
    assert!(judge.judge(&url, &Method::GET).is_err());
    assert!(crate::path::WORK_BYTES.get() <= 2 * url.path().len(), "{} bytes were decoded", crate::path::WORK_BYTES.get());
}

#[test]
fn where_clouds_keep_credentials_is_reached_by_no_rule() {
    for host in [
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "[fd00:42::42]",
        "[fe80::1]",
    ] {
        let rules = |private: bool| if private { json!([{ "host": host, "private": true }]) } else { json!([{ "host": host }]) };
        for private in [false, true] {
            let judged = judge(rules(false), rules(private)).judge(&Url::parse(&format!("http://{host}/latest")).unwrap(), &Method::GET);
            assert_eq!(judged.unwrap_err().code, ErrorCode::EgressDenied, "{host}");
        }
    }
}
