//! What the credentials of pods may do: a session policy of STS.

/// What a process may do below `<prefix>t/<tenant>/`, and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights<'a> {
    /// The kernel pods of a pool: its own sessions, and what their sessions use.
    Kernel {
        /// The pool.
        pool: &'a str,
    },
    /// The pod of one session in its life: that session, and the sheets on which it tells what the session uses.
    Session {
        /// Its pool.
        pool: &'a str,
        /// Its uid.
        uid: &'a str,
        /// The session that it is forked from, by uid, which is read only.
        source: Option<&'a str>,
        /// The process.
        boot: &'a str,
    },
    /// The pod that tells what the sessions of such a pool have stored, which it reads only, and gathers what was used.
    Reader {
        /// The pool.
        pool: &'a str,
    },
    /// The pods of a ToolBroker: its journals, messages and jobs, and the audit. Documents to search are read only.
    Broker {
        /// The ToolBroker.
        name: &'a str,
    },
}

/// Parts of what is stored of a tenant, and what may be done with each.
#[derive(Debug, Default)]
struct Parts {
    /// What may be read, written, removed and listed.
    own: Vec<String>,
    /// What may be read and listed.
    read: Vec<String>,
    /// What may be written, and nothing else.
    written: Vec<String>,
    /// What may be read and written.
    joined: Vec<String>,
}

impl Rights<'_> {
    fn parts(self) -> Parts {
        // Whoever stores something says first which cluster it is of, and nobody takes that back.
        let joined = vec!["clusters".to_owned()];
        match self {
            Self::Kernel { pool } => {
                Parts { own: vec![format!("s/{pool}/*"), "usage/*".to_owned(), "probe/*".to_owned()], joined, ..Parts::default() }
            }
            Self::Session { pool, uid, source, boot } => Parts {
                own: vec![format!("s/{pool}/{uid}/*")],
                read: source.iter().map(|source| format!("s/{pool}/{source}/*")).collect(),
                // Sheets are named for the process.
                written: vec![format!("usage/*/{boot}-*")],
                // Its pool's reader was there before, and has said it.
                joined: Vec::new(),
            },
            Self::Reader { pool } => Parts {
                own: vec!["usage/*".to_owned(), "probe/*".to_owned()],
                read: vec![format!("s/{pool}/*")],
                joined,
                ..Parts::default()
            },
            Self::Broker { name } => Parts {
                own: vec![
                    "b/*".to_owned(),
                    format!("webhooks/{name}/*"),
                    format!("jobs/{name}/*"),
                    "audit/*".to_owned(),
                    "probe/*".to_owned(),
                ],
                read: vec!["knowledge/*".to_owned()],
                joined,
                ..Parts::default()
            },
        }
    }
}

/// A policy that allows `rights` below the prefix of a tenant.
#[must_use]
pub fn policy(bucket: &str, prefix: &str, tenant: &str, rights: Rights<'_>) -> String {
    policy_of(bucket, prefix, tenant, &rights.parts())
}

/// A policy that allows all below the prefix of a tenant: what deletes its sessions.
#[must_use]
pub fn tenant_policy(bucket: &str, prefix: &str, tenant: &str) -> String {
    let all = Parts { own: vec!["*".to_owned()], joined: vec!["clusters".to_owned()], ..Parts::default() };
    policy_of(bucket, prefix, tenant, &all)
}

fn policy_of(bucket: &str, prefix: &str, tenant: &str, parts: &Parts) -> String {
    let below = |part: &String| format!("{prefix}t/{tenant}/{part}");
    let allow = |actions: &[&str], parts: &[String]| {
        let objects: Vec<String> = parts.iter().map(|part| format!("arn:aws:s3:::{bucket}/{}", below(part))).collect();
        let actions: Vec<String> = actions.iter().map(|action| format!("s3:{action}")).collect();
        (!objects.is_empty()).then(|| serde_json::json!({ "Effect": "Allow", "Action": actions, "Resource": objects }))
    };
    let listed: Vec<String> = parts.own.iter().chain(&parts.read).map(below).collect();
    let list = serde_json::json!({
        "Effect": "Allow",
        "Action": ["s3:ListBucket"],
        "Resource": [format!("arn:aws:s3:::{bucket}")],
        "Condition": {"StringLike": {"s3:prefix": listed}},
    });
    let statements: Vec<serde_json::Value> = [
        allow(&["GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload"], &parts.own),
        allow(&["GetObject", "PutObject"], &parts.joined),
        Some(list),
        allow(&["GetObject"], &parts.read),
        allow(&["PutObject"], &parts.written),
    ]
    .into_iter()
    .flatten()
    .collect();
    serde_json::json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS takes no longer session policy.
    const POLICY_BYTES_MAX: usize = 2_048;

    #[test]
    fn a_policy_names_the_pool_or_the_broker_and_nothing_wider() {
        let read = |rights| serde_json::from_str::<serde_json::Value>(&policy("b", "p/", "team", rights)).unwrap();
        let kernel = read(Rights::Kernel { pool: "small" });
        let own = ["arn:aws:s3:::b/p/t/team/s/small/*", "arn:aws:s3:::b/p/t/team/usage/*", "arn:aws:s3:::b/p/t/team/probe/*"];
        assert_eq!(kernel["Statement"][0]["Resource"], serde_json::json!(own));
        assert_eq!(kernel["Statement"][1]["Resource"], serde_json::json!(["arn:aws:s3:::b/p/t/team/clusters"]));
        let listed = ["p/t/team/s/small/*", "p/t/team/usage/*", "p/t/team/probe/*"];
        assert_eq!(kernel["Statement"][2]["Condition"]["StringLike"]["s3:prefix"], serde_json::json!(listed));
        let broker = read(Rights::Broker { name: "tools" }).to_string();
        assert!(!broker.contains("/s/") && broker.contains("/b/*") && broker.contains("/webhooks/tools/*"), "{broker}");
    }

    #[test]
    fn a_policy_of_a_session_names_no_other_but_the_one_that_it_is_forked_from() {
        let read = |rights| serde_json::from_str::<serde_json::Value>(&policy("b", "", "team", rights)).unwrap();
        let session = |source| read(Rights::Session { pool: "strict", uid: "u1", source, boot: "boot" });
        let alone = session(None);
        assert_eq!(alone["Statement"][0]["Resource"], serde_json::json!(["arn:aws:s3:::b/t/team/s/strict/u1/*"]));
        assert_eq!(alone["Statement"][1]["Condition"]["StringLike"]["s3:prefix"], serde_json::json!(["t/team/s/strict/u1/*"]));
        assert_eq!(alone["Statement"][2]["Action"], serde_json::json!(["s3:PutObject"]));
        assert_eq!(alone["Statement"][2]["Resource"], serde_json::json!(["arn:aws:s3:::b/t/team/usage/*/boot-*"]));
        assert_eq!(alone["Statement"].as_array().unwrap().len(), 3, "nothing of what a namespace shares");
        let fork = session(Some("u0"));
        assert_eq!(fork["Statement"][0], alone["Statement"][0], "what it may write");
        assert_eq!(fork["Statement"][2]["Action"], serde_json::json!(["s3:GetObject"]));
        assert_eq!(fork["Statement"][2]["Resource"], serde_json::json!(["arn:aws:s3:::b/t/team/s/strict/u0/*"]));
        let reader = read(Rights::Reader { pool: "strict" });
        let own = ["arn:aws:s3:::b/t/team/usage/*", "arn:aws:s3:::b/t/team/probe/*"];
        assert_eq!(reader["Statement"][0]["Resource"], serde_json::json!(own));
        assert_eq!(reader["Statement"][3]["Action"], serde_json::json!(["s3:GetObject"]));
    }

    #[test]
    fn a_policy_for_deletions_ends_where_the_tenant_does() {
        let policy: serde_json::Value = serde_json::from_str(&tenant_policy("b", "p/", "team")).unwrap();
        assert_eq!(policy["Statement"][0]["Resource"], serde_json::json!(["arn:aws:s3:::b/p/t/team/*"]));
        assert_eq!(policy["Statement"][2]["Condition"]["StringLike"]["s3:prefix"], serde_json::json!(["p/t/team/*"]));
        for statement in policy["Statement"].as_array().unwrap() {
            let place = statement["Resource"][0].as_str().unwrap();
            assert!(place == "arn:aws:s3:::b" || place.starts_with("arn:aws:s3:::b/p/t/team/"), "{place}");
        }
    }

    #[test]
    fn a_policy_of_long_names_fits_what_aws_takes() {
        let (bucket, prefix, name) = ("b".repeat(30), "p".repeat(10) + "/", "n".repeat(30));
        let uid = "8".repeat(36);
        let session = Rights::Session { pool: &name, uid: &uid, source: Some(&uid), boot: &uid };
        for rights in [Rights::Kernel { pool: &name }, session, Rights::Reader { pool: &name }, Rights::Broker { name: &name }] {
            let length = policy(&bucket, &prefix, &"t".repeat(40), rights).len();
            assert!(length <= POLICY_BYTES_MAX, "{rights:?}: {length}");
        }
    }
}
