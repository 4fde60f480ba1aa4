//! The form of the URLs that objects name services by.

/// A regular expression of the URLs of `scheme` (itself one, such as `https?`) without user, password, query and fragment: what an API server takes.
///
/// It must take none in which a URL parser finds one of those. A parser reads `\` as `/`, leaves out tabs and line breaks, and passes over any
/// number of slashes before the host, so that `http://\/user:password@host` has a password: the host takes none of these characters. RE2, which
/// an API server matches with, and the crate `regex` read the expression alike.
#[must_use]
pub fn plain(scheme: &str) -> String {
    format!(r"^{scheme}://[^/?#@\\\s]+(/[^?#\s]*)?$")
}
