//! The session's files, for whoever asks from outside. The file system is the heap's: the guest answers, between two turns of cells.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dormouse_lifecycle::blobs::Blob;
use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::file::{FileEntry, FileKind, FileList, Preconditions};
use dormouse_protocol::{ApiError, ErrorCode};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::actor::Actor;
use super::{Fault, Reply, gone};
use crate::contents::{Contents, UPLOAD_PREFIX};

/// Hex digits of an ETag.
const ETAG_DIGITS: usize = 32;

/// What is asked.
pub(crate) enum Ask {
    /// A file's content.
    Open(String),
    /// Names below a directory; of all levels, if so asked.
    List(String, bool),
    /// A place for a content that comes.
    Receive,
    /// To make the content under this name the file's.
    Adopt { path: String, upload: String, preconditions: Preconditions },
    /// To remove it, with all below it if so asked.
    Remove { path: String, recursive: bool, preconditions: Preconditions },
}

/// What is answered.
pub(crate) enum Told {
    /// A file.
    Opened(Opened),
    /// Names.
    Listed(FileList),
    /// Where to put a content.
    Place(Arc<Contents>),
    /// The file has it; whether it is new.
    Adopted(FileEntry, bool),
    /// It is gone.
    Removed,
}

/// A file that can be read.
#[derive(Debug)]
pub(crate) struct Opened {
    /// What it is.
    pub entry: FileEntry,
    /// Its content.
    pub content: Content,
}

/// Where a content is.
#[derive(Debug)]
pub(crate) enum Content {
    /// Here.
    Bytes(Bytes),
    /// In the store.
    Pieces(Blob),
}

/// What the guest says.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Said {
    error: Option<SaidError>,
    path: String,
    kind: Option<FileKind>,
    size: u64,
    modified_ms: f64,
    base64: Option<String>,
    key: Option<String>,
    entries: Vec<Said>,
    truncated: bool,
}

#[derive(Debug, Deserialize)]
struct SaidError {
    code: String,
    message: String,
}

impl Actor {
    /// Answers a request about files.
    pub(super) async fn answer_files(&mut self, ask: Ask, reply: Reply<Told>) {
        let result = self.on_files(ask).await;
        if let Some(live) = &mut self.live {
            live.idle_since = Instant::now();
        }
        let answer = self.settle_answer(result);
        let _ = reply.send(answer);
    }

    /// Deals with a request about files. An error of the answer leaves the session as it is; a fault is the session's.
    async fn on_files(&mut self, ask: Ask) -> Result<Result<Told, ApiError>, Fault> {
        self.ensure_live().await?;
        match ask {
            Ask::Open(path) => Ok(self.open(&path).await?.map(Told::Opened)),
            Ask::List(path, recursive) => {
                self.see_what_is_answered().await?;
                let said = self.serve(json!({ "verb": "list", "path": path, "recursive": recursive })).await?;
                Ok(said.map(|said| Told::Listed(FileList { items: said.entries.iter().map(entry).collect(), truncated: said.truncated })))
            }
            Ask::Receive => Ok(self.live.as_ref().map(|live| Told::Place(Arc::clone(&live.contents))).ok_or_else(no_instance)),
            Ask::Adopt { path, upload, preconditions } => self.adopt_file(path, &upload, &preconditions).await,
            Ask::Remove { path, recursive, preconditions } => {
                if let Err(refused) = self.check(&path, &preconditions).await? {
                    return Ok(Err(refused));
                }
                if let Err(refused) = self.serve(json!({ "verb": "remove", "path": path, "recursive": recursive })).await? {
                    return Ok(Err(refused));
                }
                self.commit().await?;
                Ok(Ok(Told::Removed))
            }
        }
    }

    /// Makes sure that what is read is of the last answered state: that no other process has gone on with the session, and that nothing is read
    /// which no answer and no commit has, nor anything whose pieces are not stored.
    async fn see_what_is_answered(&mut self) -> Result<(), Fault> {
        self.verify_owned().await?;
        self.ensure_live().await?;
        if self.live.as_ref().is_some_and(|live| live.moved || live.contents.may_have_left_pieces()) {
            self.commit().await?;
        }
        Ok(())
    }

    async fn open(&mut self, path: &str) -> Result<Result<Opened, ApiError>, Fault> {
        self.see_what_is_answered().await?;
        let said = match self.serve(json!({ "verb": "open", "path": path })).await? {
            Ok(said) => said,
            Err(error) => return Ok(Err(error)),
        };
        if said.kind != Some(FileKind::File) {
            return Ok(Err(ApiError::new(ErrorCode::Conflict, format!("`{path}` is no file: list it with GET …/files?path={path}"))));
        }
        Ok(self.opened(&said).await)
    }

    async fn opened(&self, said: &Said) -> Result<Opened, ApiError> {
        let Some(live) = &self.live else { return Err(no_instance()) };
        let content = match (&said.base64, &said.key) {
            (Some(text), _) => Content::Bytes(STANDARD.decode(text).map_err(|error| garbled(&error))?.into()),
            (None, Some(key)) => Content::Pieces(live.contents.find(key).await.ok_or_else(|| garbled(&"its content is not there"))?),
            (None, None) => return Err(garbled(&"there is no content")),
        };
        let (size, digest) = match &content {
            Content::Bytes(bytes) => (bytes.len() as u64, sha256_hex(bytes)),
            Content::Pieces(blob) => {
                let parts: Vec<String> = blob.extents.iter().map(|extent| format!("{}-{}", extent.id, extent.bytes)).collect();
                (blob.bytes(), sha256_hex(parts.join(",").as_bytes()))
            }
        };
        let etag = Some(format!("\"{}\"", digest.get(..ETAG_DIGITS).unwrap_or_default()));
        Ok(Opened { entry: FileEntry { size, etag, ..entry(said) }, content })
    }

    /// Whether the preconditions hold for what is at `path` now.
    async fn check(&mut self, path: &str, preconditions: &Preconditions) -> Result<Result<bool, ApiError>, Fault> {
        let there = match self.open(path).await? {
            Ok(opened) => opened.entry.etag,
            Err(error) if error.code == ErrorCode::FileNotFound => None,
            // A directory has no content to compare.
            Err(_) if *preconditions == Preconditions::default() => return Ok(Ok(true)),
            Err(error) => return Ok(Err(error)),
        };
        if preconditions.hold(there.as_deref()) {
            return Ok(Ok(there.is_some()));
        }
        let message = format!("`{path}` is not what If-Match or If-None-Match demands: read it again");
        Ok(Err(ApiError::new(ErrorCode::PreconditionFailed, message)))
    }

    async fn adopt_file(&mut self, path: String, upload: &str, preconditions: &Preconditions) -> Result<Result<Told, ApiError>, Fault> {
        let there = match self.check(&path, preconditions).await? {
            Ok(there) => there,
            Err(refused) => return Ok(Err(refused)),
        };
        let Some(contents) = self.live.as_ref().map(|live| Arc::clone(&live.contents)) else { return Ok(Err(no_instance())) };
        // The heap names contents of its own by numbers alone.
        let key = format!("file:u{}", upload.trim_start_matches(UPLOAD_PREFIX));
        let Some(size) = contents.rename(upload, &key).await else {
            let message = "the session was restored while the file came in: send it again";
            return Ok(Err(ApiError::new(ErrorCode::SessionBusy, message)));
        };
        let said = self.serve(json!({ "verb": "adopt", "path": path, "key": key, "size": size })).await?;
        let opened = match said {
            Ok(said) => self.opened(&said).await,
            Err(refused) => Err(refused),
        };
        match opened {
            Ok(opened) => {
                self.commit().await?;
                Ok(Ok(Told::Adopted(opened.entry, !there)))
            }
            Err(refused) => {
                contents.rename(&key, upload).await;
                Ok(Err(refused))
            }
        }
    }

    async fn serve(&mut self, request: serde_json::Value) -> Result<Result<Said, ApiError>, Fault> {
        let Some(answer) = self.ask_guest(request).await? else {
            let message = "the session's engine is an earlier one that does not know files from outside, or the request took too long";
            return Ok(Err(ApiError::new(ErrorCode::NotSupported, message)));
        };
        Ok(match serde_json::from_value::<Said>(answer) {
            Ok(Said { error: Some(error), .. }) => Err(refusal(&error)),
            Ok(said) => Ok(said),
            Err(error) => Err(garbled(&error)),
        })
    }
}

fn entry(said: &Said) -> FileEntry {
    #[expect(clippy::cast_possible_truncation, reason = "a cast from float saturates")]
    let modified = jiff::Timestamp::from_millisecond(said.modified_ms as i64).unwrap_or_default();
    let kind = said.kind.unwrap_or(FileKind::Other);
    FileEntry { path: said.path.clone(), kind, size: said.size, modified: modified.to_string(), etag: None }
}

fn refusal(error: &SaidError) -> ApiError {
    let code = match error.code.as_str() {
        "ENOENT" => ErrorCode::FileNotFound,
        "ENOTDIR" | "EISDIR" | "ENOTEMPTY" | "EEXIST" | "EACCES" | "EPERM" | "ELOOP" | "EINVAL" => ErrorCode::Conflict,
        "ENOSPC" => ErrorCode::QuotaExceeded,
        "EIO" => ErrorCode::StorageUnavailable,
        _ => ErrorCode::Internal,
    };
    ApiError::new(code, error.message.chars().take(1000).collect::<String>())
}

fn garbled(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::Internal, format!("the session's file system gave an answer that makes no sense: {error}"))
}

fn no_instance() -> ApiError {
    gone("the session has no instance")
}
