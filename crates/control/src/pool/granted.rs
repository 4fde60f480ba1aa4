//! Whose a pod is that runs one session in its life: what its annotation says, which the operator writes and gateways read.

use std::fmt;

/// What stands there: a container's id, a space, and a session's uid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantedTo<'a> {
    /// In which container its process runs, by the id that the kubelet says.
    pub container: &'a str,
    /// The session, by uid. No session has an empty one: what names none is nobody's whom a session could be placed for.
    pub session: &'a str,
}

impl<'a> GrantedTo<'a> {
    /// Reads it. What a later release notes behind it does not matter.
    #[must_use]
    pub fn read(text: &'a str) -> Self {
        let mut words = text.split(' ');
        Self { container: words.next().unwrap_or_default(), session: words.next().unwrap_or_default() }
    }
}

impl fmt::Display for GrantedTo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.container, self.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_none_names_no_session() {
        let granted = GrantedTo { container: "containerd://1", session: "u-1" };
        assert_eq!(GrantedTo::read(&granted.to_string()), granted);
        assert_eq!(GrantedTo::read("containerd://1 u-1 more"), granted);
        for strange in ["", "nonsense", " "] {
            assert_eq!(GrantedTo::read(strange).session, "", "{strange:?}");
        }
    }
}
