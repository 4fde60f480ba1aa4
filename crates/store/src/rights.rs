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

impl Rights<'_> {
    /// What may be read, written, removed and listed.
    fn own(self) -> Vec<String> {
        match self {
            Self::Kernel { pool } => vec![format!("s/{pool}/*"), "usage/*".to_owned(), "probe/*".to_owned()],
            Self::Session { pool, uid, .. } => vec![format!("s/{pool}/{uid}/*")],
            Self::Reader { .. } => vec!["usage/*".to_owned(), "probe/*".to_owned()],
            Self::Broker { name } => {
                vec!["b/*".to_owned(), format!("webhooks/{name}/*"), format!("jobs/{name}/*"), "audit/*".to_owned(), "probe/*".to_owned()]
            }
        }
    }

    /// What may be read and listed.
    fn read(self) -> Vec<String> {
        match self {
            Self::Kernel { .. } | Self::Session { source: None, .. } => Vec::new(),
            Self::Session { pool, source: Some(source), .. } => vec![format!("s/{pool}/{source}/*")],
            Self::Reader { pool } => vec![format!("s/{pool}/*")],
            Self::Broker { .. } => vec!["knowledge/*".to_owned()],
        }
    }

    /// What may be written, and nothing else.
    fn written(self) -> Vec<String> {
        match self {
            // Sheets are named for the process.
            Self::Session { boot, .. } => vec![format!("usage/*/{boot}-*")],
            Self::Kernel { .. } | Self::Reader { .. } | Self::Broker { .. } => Vec::new(),
        }
    }
}

/// A policy that allows `rights` below the prefix of a tenant.
#[must_use]
pub fn policy(bucket: &str, prefix: &str, tenant: &str, rights: Rights<'_>) -> String {
    policy_of(bucket, prefix, tenant, &rights.own(), &rights.read(), &rights.written())
}

/// A policy that allows all below the prefix of a tenant: what deletes its sessions.
#[must_use]
pub fn tenant_policy(bucket: &str, prefix: &str, tenant: &str) -> String {
    policy_of(bucket, prefix, tenant, &["*".to_owned()], &[], &[])
}

fn policy_of(bucket: &str, prefix: &str, tenant: &str, own: &[String], read: &[String], written: &[String]) -> String {
    let below = |part: &String| format!("{prefix}t/{tenant}/{part}");
    let objects = |parts: &[String]| parts.iter().map(|part| format!("arn:aws:s3:::{bucket}/{}", below(part))).collect::<Vec<_>>();
    let listed: Vec<String> = own.iter().chain(read).map(below).collect();
    let mut statements = vec![
        serde_json::json!({
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            "Resource": objects(own),
        }),
        // Whoever stores something says first which cluster it is of, and nobody takes that back.
        serde_json::json!({
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject"],
            "Resource": objects(&["clusters".to_owned()]),
        }),
        serde_json::json!({
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": [format!("arn:aws:s3:::{bucket}")],
            "Condition": {"StringLike": {"s3:prefix": listed}},
        }),
    ];
    if !read.is_empty() {
        statements.push(serde_json::json!({ "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": objects(read) }));
    }
    if !written.is_empty() {
        statements.push(serde_json::json!({ "Effect": "Allow", "Action": ["s3:PutObject"], "Resource": objects(written) }));
    }
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
        assert_eq!(alone["Statement"][2]["Condition"]["StringLike"]["s3:prefix"], serde_json::json!(["t/team/s/strict/u1/*"]));
        assert_eq!(alone["Statement"][3]["Action"], serde_json::json!(["s3:PutObject"]));
        assert_eq!(alone["Statement"][3]["Resource"], serde_json::json!(["arn:aws:s3:::b/t/team/usage/*/boot-*"]));
        let fork = session(Some("u0"));
        assert_eq!(fork["Statement"][0], alone["Statement"][0], "what it may write");
        assert_eq!(fork["Statement"][3]["Action"], serde_json::json!(["s3:GetObject"]));
        assert_eq!(fork["Statement"][3]["Resource"], serde_json::json!(["arn:aws:s3:::b/t/team/s/strict/u0/*"]));
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
