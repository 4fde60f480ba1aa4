//! A session's files: each function is one verb of the API, free of HTTP but for a content's stream.

use bytes::Bytes;
use dormouse_lifecycle::attempts::Repeat;
use dormouse_protocol::{
    ApiError, ErrorCode,
    file::{FileCall, FileEntry, FileList, Preconditions, path},
};
use futures::stream::BoxStream;
use reqwest::Response;

use crate::{
    directory::Key,
    in_flight::{Asleep, InFlight, unknown},
    kernels::KernelError,
    metrics::Source,
    router::Router,
};

/// Lists what is below a directory; `/` is the whole file system's.
pub async fn list(router: &Router, key: &Key, directory: &str, recursive: bool) -> Result<FileList, ApiError> {
    let directory = if matches!(directory, "" | "/") { "/".to_owned() } else { path(directory.trim_end_matches('/'))? };
    let sent = router.send(key, Asleep::Refuse, Source::Request, |pod, assignment| {
        let call = FileCall { assignment, path: directory.clone(), recursive, preconditions: Preconditions::default() };
        async move { router.kernels().list_files(&pod, &call).await }
    });
    Ok(sent.await?.0)
}

/// Reads a file: the pod's answer, which is 200, 206 or 304.
pub async fn read(router: &Router, key: &Key, file: &str, preconditions: &Preconditions) -> Result<Response, ApiError> {
    let file = path(file)?;
    let sent = router.send(key, Asleep::Refuse, Source::Request, |pod, assignment| {
        let call = FileCall { assignment, path: file.clone(), recursive: false, preconditions: preconditions.clone() };
        async move { router.kernels().read_file(&pod, &call).await }
    });
    Ok(sent.await?.0)
}

/// Writes a file, and whether it is new. A content that has begun to leave is not sent again: the client decides.
pub async fn write(
    router: &Router,
    key: &Key,
    file: &str,
    preconditions: Preconditions,
    content: BoxStream<'static, Result<Bytes, std::io::Error>>,
) -> Result<(FileEntry, bool), ApiError> {
    let path = path(file)?;
    let woken = router
        .send(key, Asleep::Refuse, Source::Request, |pod, assignment| async move { router.kernels().wake(&pod, &assignment, None).await });
    let route = woken.await?.1;
    let call = FileCall { assignment: route.assignment(), path, recursive: false, preconditions };
    router.kernels().write_file(&route.pod, &call, content).await.map_err(|error| match error {
        KernelError::Refused(error) => error,
        KernelError::Unreachable(error) => {
            tracing::info!(session = %key, %error, "a content did not reach its kernel pod");
            ApiError::new(ErrorCode::SessionGone, "the content did not reach the session: send it again")
        }
        error => unknown(&error),
    })
}

/// Removes a file, or a directory. A removal whose answer is lost is not sent again: what has the name by then may be somebody else's.
pub async fn remove(router: &Router, key: &Key, file: &str, recursive: bool, preconditions: &Preconditions) -> Result<(), ApiError> {
    let file = path(file)?;
    let mut in_flight = InFlight::repeating(Asleep::Refuse, Source::Request, Repeat::IfUnseen);
    let sent = router.send_on(&mut in_flight, key, |pod, assignment| {
        let call = FileCall { assignment, path: file.clone(), recursive, preconditions: preconditions.clone() };
        async move { router.kernels().remove_file(&pod, &call).await }
    });
    sent.await.map(drop)
}
