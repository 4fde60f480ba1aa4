//! Files of a session, as clients see them and as the gateway asks a kernel pod for them.

use serde::{Deserialize, Serialize};

use crate::{ApiError, ErrorCode, kernel::Assignment};

/// Bytes of a path.
pub const PATH_BYTES_MAX: usize = 4096;

/// Bytes of one name in a path.
pub const PATH_NAME_BYTES_MAX: usize = 255;

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Something else.
    #[serde(other)]
    Other,
}

/// A name in a session's file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    /// Absolute path.
    pub path: String,
    /// What is there.
    pub kind: FileKind,
    /// Bytes of a file; 0 of anything else.
    pub size: u64,
    /// RFC 3339, by the session's clock.
    pub modified: String,
    /// Names this content of a file; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

/// Names below a directory, parents before what they hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileList {
    /// They.
    pub items: Vec<FileEntry>,
    /// There are more than one answer holds.
    #[serde(default)]
    pub truncated: bool,
}

/// When a request is to be carried out: the headers of the same names, as they came.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// `If-Match`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_match: Option<String>,
    /// `If-None-Match`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_none_match: Option<String>,
    /// `Range`, of a read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// `If-Range`, of a read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_range: Option<String>,
}

impl Preconditions {
    /// Whether `If-Match` and `If-None-Match` let a request to something with `etag` (`None`: nothing is there) go on.
    #[must_use]
    pub fn hold(&self, etag: Option<&str>) -> bool {
        let lists = |header: &str| match header.trim() {
            "*" => etag.is_some(),
            list => list.split(',').any(|one| Some(one.trim().trim_start_matches("W/")) == etag),
        };
        self.if_match.as_deref().is_none_or(lists) && !self.if_none_match.as_deref().is_some_and(lists)
    }
}

/// What is asked about one path: body of `POST /v1/files/list`, `read`, `remove`, and the beginning of that of `write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileCall {
    /// The session.
    pub assignment: Assignment,
    /// Absolute, and checked by [`path`].
    pub path: String,
    /// Whether it reaches into directories.
    #[serde(default)]
    pub recursive: bool,
    /// Under which conditions.
    #[serde(default)]
    pub preconditions: Preconditions,
}

/// The absolute path that `given`, without a leading slash, means.
///
/// # Errors
/// `InvalidRequest` when a name of it is none: nothing is resolved, so nothing escapes.
pub fn path(given: &str) -> Result<String, ApiError> {
    let invalid = |why: &str| Err(ApiError::new(ErrorCode::InvalidRequest, format!("`{given}` is no path of a file: {why}")));
    let bare = given.strip_prefix('/').unwrap_or(given);
    if bare.len() >= PATH_BYTES_MAX {
        return invalid(&format!("it has more than {PATH_BYTES_MAX} bytes"));
    }
    if bare.bytes().any(|byte| byte == 0) {
        return invalid("it has a zero byte");
    }
    for name in bare.split('/') {
        match name {
            "" => return invalid("a name in it is empty"),
            "." | ".." => return invalid("`.` and `..` are not followed"),
            long if long.len() > PATH_NAME_BYTES_MAX => return invalid(&format!("a name in it has more than {PATH_NAME_BYTES_MAX} bytes")),
            _ => {}
        }
    }
    Ok(format!("/{bare}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_what_it_says_and_nothing_else() {
        for (given, meant) in [("a", "/a"), ("/a", "/a"), ("a/b c/ä.txt", "/a/b c/ä.txt"), ("...", "/...")] {
            assert_eq!(path(given).unwrap(), meant);
        }
        for bad in ["", "/", "//a", "a//b", "a/", "./a", "a/../b", "..", "a\0b"] {
            assert_eq!(path(bad).unwrap_err().code, ErrorCode::InvalidRequest, "{bad:?}");
        }
        assert!(path(&"n".repeat(PATH_NAME_BYTES_MAX)).is_ok());
        assert!(path(&"n".repeat(PATH_NAME_BYTES_MAX + 1)).is_err());
        let long = |bytes: usize| "n/".repeat(bytes / 2 - 1) + "no";
        assert!(path(&long(PATH_BYTES_MAX - 2)).is_ok());
        assert!(path(&long(PATH_BYTES_MAX)).is_err());
    }

    #[test]
    fn preconditions_are_those_of_http() {
        let matches = |header: &str| Preconditions { if_match: Some(header.to_owned()), ..Preconditions::default() };
        let none = |header: &str| Preconditions { if_none_match: Some(header.to_owned()), ..Preconditions::default() };
        let etag = Some("\"a\"");
        assert!(Preconditions::default().hold(None) && Preconditions::default().hold(etag));
        assert!(matches("\"a\"").hold(etag) && matches("\"b\", \"a\"").hold(etag) && matches("*").hold(etag));
        assert!(!matches("\"b\"").hold(etag) && !matches("*").hold(None) && !matches("\"a\"").hold(None));
        assert!(none("*").hold(None) && none("\"b\"").hold(etag));
        assert!(!none("*").hold(etag) && !none("W/\"a\"").hold(etag));
    }
}
