//! URLs that administrators name services by.

use std::net::IpAddr;

use reqwest::Url;

use crate::metadata::is_metadata_host;

/// The URL, if it is one of `http` or `https` that has neither user nor password, query nor fragment: paths can be appended to it, and it may be shown.
///
/// `dormouse_crds::url::plain` says the same to an API server. Where clouds keep metadata is no service of anybody's.
#[must_use]
pub fn plain(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let alone = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    let is_metadata = url.host_str().is_some_and(is_metadata_host);
    (matches!(url.scheme(), "http" | "https") && url.has_host() && alone && !is_metadata).then_some(url)
}

/// Whether a host is this machine: `localhost`, or an address of loopback, in brackets or not.
#[must_use]
pub fn is_loopback_host(host: &str) -> bool {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether nobody on the way can read or change what goes to the URL and comes from it: HTTPS, or HTTP within this machine.
#[must_use]
pub fn is_safe(url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(is_loopback_host),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    fn schema() -> Regex {
        Regex::new(&dormouse_crds::url::plain("https?")).unwrap()
    }

    #[test]
    fn a_metadata_service_is_named_by_no_url() {
        for url in ["http://169.254.169.254/latest", "http://2852039166/", "https://[fd00:ec2::254]", "http://metadata.google.internal/"] {
            assert!(plain(url).is_none(), "{url}");
        }
    }

    #[test]
    fn what_leaves_the_machine_goes_by_https() {
        let safe = |url: &str| is_safe(&Url::parse(url).unwrap());
        for url in ["https://x", "https://10.0.0.1/", "http://localhost:8200", "http://127.1.2.3/", "http://[::1]:80/"] {
            assert!(safe(url), "{url}");
        }
        for url in ["http://x", "http://10.0.0.1", "http://localhost.example", "http://[::2]/", "ftp://localhost/", "http://0.0.0.0/"] {
            assert!(!safe(url), "{url}");
        }
    }

    #[test]
    fn a_schema_takes_the_urls_that_a_process_takes() {
        let good = [
            "http://x",
            "https://widgets.team.svc:8443/",
            "http://127.0.0.1:4873/npm",
            "http://[::1]:80/a/b%20c/",
            "https://münchen.example/@scope",
            "https://x/a:b@c",
        ];
        for url in good {
            assert!(schema().is_match(url) && plain(url).is_some(), "{url}");
        }
        let bad = [
            "",
            "x",
            "ftp://x",
            "file:///etc",
            "http://",
            "http:///?",
            "http://user:password@x",
            "http://user@x/",
            "http://:password@x/",
            "https://x?query",
            "https://x/?query",
            "https://x/a#fragment",
            "https://x#fragment",
            // What a parser passes over before it looks for the host.
            "http:///user:password@x",
            r"http://\/user:password@x",
            r"http:\\user:password@x",
            "http://\t/user:password@x",
            "http://\n/user:password@x",
        ];
        for url in bad {
            assert!(!schema().is_match(url) && plain(url).is_none(), "{url:?}");
        }
    }

    /// Texts in which what means something to a parser is frequent.
    fn texts() -> impl Strategy<Value = String> {
        let begin = prop::sample::select(vec!["http://", "https://", "http:", "HTTP://", "ftp://", ""]);
        let pieces =
            ["/", "\\", "@", ":", "?", "#", " ", "\t", "\n", "\r", "\u{1}", ".", "%40", "%2f", "[::1]", "80", "a", "b.c", "é", "\u{3000}"];
        (begin, prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..10))
            .prop_map(|(begin, pieces)| begin.to_owned() + &pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn what_a_schema_takes_and_a_parser_reads_is_taken_by_a_process(text in texts()) {
            if schema().is_match(&text) && Url::parse(&text).is_ok() {
                prop_assert!(plain(&text).is_some());
            }
        }

        #[test]
        fn what_a_process_takes_a_schema_takes_as_the_parser_writes_it(text in texts()) {
            if let Some(url) = plain(&text) {
                prop_assert!(schema().is_match(url.as_str()), "{url}");
            }
        }
    }
}
