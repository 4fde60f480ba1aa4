//! The session's files, for whoever asks from outside. The file system is the heap's: the guest answers, between two turns of cells.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dormouse_crds::session::Durability;
use dormouse_lifecycle::blobs::Blob;
use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::file::{FileEntry, FileKind, FileList, Preconditions};
use dormouse_protocol::{ApiError, ErrorCode};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::actor::Actor;
use super::phase::Moved;
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

impl Ask {
    /// Whether it changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        match self {
            Self::Open(_) | Self::List(..) | Self::Receive => true,
            Self::Adopt { .. } | Self::Remove { .. } => false,
        }
    }
}

/// What is answered.
pub(crate) enum Answer {
    /// A file.
    Opened(Opened),
    /// Names.
    Listed(FileList),
    /// Where to put a content.
    Receiver(Arc<Contents>),
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
    pub(super) async fn answer_files(&mut self, ask: Ask, reply: Reply<Answer>) {
        let result = self.on_files(ask).await;
        if let Some(live) = self.phase.live_mut() {
            live.idle_since = Instant::now();
        }
        let answer = self.settle_answer(result);
        let _ = reply.send(answer);
    }

    async fn on_files(&mut self, ask: Ask) -> Result<Answer, Fault> {
        self.ensure_live().await?;
        match ask {
            Ask::Open(path) => self.open(&path).await.map(Answer::Opened),
            Ask::List(path, recursive) => {
                let said = self.look(json!({ "verb": "list", "path": path, "recursive": recursive })).await?;
                Ok(Answer::Listed(FileList { items: said.entries.iter().map(entry).collect(), truncated: said.truncated }))
            }
            Ask::Receive => self.phase.live().map(|live| Answer::Receiver(Arc::clone(&live.contents))).ok_or_else(no_instance),
            Ask::Adopt { path, upload, preconditions } => self.adopt_file(path, &upload, &preconditions).await,
            Ask::Remove { path, recursive, preconditions } => {
                self.check(&path, &preconditions).await?;
                self.serve(json!({ "verb": "remove", "path": path, "recursive": recursive })).await?;
                self.commit().await?;
                Ok(Answer::Removed)
            }
        }
    }

    /// Makes sure that what is read is of the last answered state: that no other process has gone on with the session, nor stores later what it has
    /// answered before; and that nothing is read which no answer and no commit has, nor anything whose pieces are not stored.
    async fn see_what_is_answered(&mut self) -> Result<(), Fault> {
        self.catch_up().await?;
        let Some(live) = self.phase.live() else { return Ok(()) };
        let may_be_denied = self.assignment.spec.durability != Durability::PerEval && live.is_unfenced(self.assignment.epoch);
        if live.moved == Moved::Ran || may_be_denied || live.contents.may_have_left_pieces() {
            self.commit().await?;
        }
        Ok(())
    }

    async fn open(&mut self, path: &str) -> Result<Opened, Fault> {
        let said = self.look(json!({ "verb": "open", "path": path })).await?;
        if said.kind != Some(FileKind::File) {
            let message = format!("`{path}` is no file: list it with GET …/files?path={path}");
            return Err(Fault::Refused(ApiError::new(ErrorCode::Conflict, message)));
        }
        self.opened(&said).await
    }

    async fn opened(&self, said: &Said) -> Result<Opened, Fault> {
        let live = self.phase.live().ok_or_else(no_instance)?;
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

    /// Fails unless the preconditions hold for what is at `path` now. Answers whether something is there.
    async fn check(&mut self, path: &str, preconditions: &Preconditions) -> Result<bool, Fault> {
        let there = match self.open(path).await {
            Ok(opened) => opened.entry.etag,
            Err(Fault::Refused(error)) if error.code == ErrorCode::FileNotFound => None,
            // A directory has no content to compare.
            Err(Fault::Refused(_)) if *preconditions == Preconditions::default() => return Ok(true),
            Err(fault) => return Err(fault),
        };
        if preconditions.hold(there.as_deref()) {
            return Ok(there.is_some());
        }
        let message = format!("`{path}` is not what If-Match or If-None-Match demands: read it again");
        Err(Fault::Refused(ApiError::new(ErrorCode::PreconditionFailed, message)))
    }

    async fn adopt_file(&mut self, path: String, upload: &str, preconditions: &Preconditions) -> Result<Answer, Fault> {
        let there = self.check(&path, preconditions).await?;
        let contents = self.phase.live().map(|live| Arc::clone(&live.contents)).ok_or_else(no_instance)?;
        // The heap names contents of its own by numbers alone.
        let key = format!("file:u{}", upload.trim_start_matches(UPLOAD_PREFIX));
        let Some(size) = contents.rename(upload, &key).await else {
            let message = "the session was restored while the file came in: send it again";
            return Err(Fault::Refused(ApiError::new(ErrorCode::SessionBusy, message)));
        };
        let opened = match self.serve(json!({ "verb": "adopt", "path": path, "key": key, "size": size })).await {
            Ok(said) => self.opened(&said).await,
            Err(fault) => Err(fault),
        };
        match opened {
            Ok(opened) => {
                self.commit().await?;
                Ok(Answer::Adopted(opened.entry, !there))
            }
            Err(Fault::Refused(refused)) => {
                contents.rename(&key, upload).await;
                Err(Fault::Refused(refused))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Asks for what changes nothing.
    async fn look(&mut self, request: serde_json::Value) -> Result<Said, Fault> {
        self.see_what_is_answered().await?;
        let said = self.serve(request).await;
        // Else each look would store the one before it.
        if let Some(live) = self.phase.live_mut() {
            live.moved = Moved::Looked;
        }
        said
    }

    async fn serve(&mut self, request: serde_json::Value) -> Result<Said, Fault> {
        let Some(answer) = self.ask_guest(request).await? else {
            let message = "the session's engine is an earlier one that does not know files from outside, or the request took too long";
            return Err(Fault::Refused(ApiError::new(ErrorCode::NotSupported, message)));
        };
        match serde_json::from_value::<Said>(answer) {
            Ok(Said { error: Some(error), .. }) => Err(Fault::Refused(refusal(&error))),
            Ok(said) => Ok(said),
            Err(error) => Err(garbled(&error)),
        }
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

fn garbled(error: &dyn std::fmt::Display) -> Fault {
    Fault::Refused(ApiError::new(ErrorCode::Internal, format!("the session's file system gave an answer that makes no sense: {error}")))
}

fn no_instance() -> Fault {
    Fault::Refused(gone("the session has no instance"))
}
