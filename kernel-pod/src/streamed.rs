//! A call whose answer may be large: what a broker holds open of it goes among the session's contents as it comes.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dormouse_lifecycle::blobs::ID_DIGITS;
use dormouse_protocol::broker::{BodyAnswer, BodyCall, LargeBody, StreamedAnswer, ToolAnswer, ToolCall};
use dormouse_protocol::reference::Reference;
use dormouse_protocol::{ApiError, ErrorCode};
use serde_json::Value;

use crate::contents::{Contents, Receiving};
use crate::tools::Tools;

/// Bytes of a character of UTF-8 at most.
const CHARACTER_BYTES_MAX: usize = 4;

/// How often a call that is safe to repeat is made again, when a broker has lost the rest of its answer.
const AGAIN_MAX: usize = 3;

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Came {
    /// An answer, for the heap.
    Answer(ToolAnswer),
    /// A large one, outside of it.
    Received(Received),
}

/// Makes a call, and takes in its answer.
///
/// # Errors
/// As [`Tools::call`], and that a large answer broke off.
pub(crate) async fn call(
    tools: &Arc<dyn Tools>,
    broker: &str,
    mut call: ToolCall,
    contents: &Arc<Contents>,
    preview_chars: u32,
) -> Result<Came, ApiError> {
    let mut again = AGAIN_MAX;
    loop {
        let parts = Parts::of(tools, broker, &call);
        // What a call brings along may be large: one that does is not kept to be made again.
        let next = call.references.is_empty().then(|| ToolCall { repeated: true, ..call.clone() });
        let with_body = call.body.clone().map(|body| (call.clone(), body));
        let answer = match (tools.call(broker, call).await?, with_body) {
            (ToolAnswer::Send { .. }, Some((call, body))) => send_body(tools, broker, call, body, contents).await?,
            (answer, _) => answer,
        };
        let streamed = match answer {
            ToolAnswer::Stream { stream } => stream,
            answer => return Ok(Came::Answer(answer)),
        };
        match (Received::of(contents, &streamed, preview_chars, &parts).await, next) {
            (Ok(received), _) => return Ok(Came::Received(received)),
            (Err(BrokenOff { lost: true, .. }), Some(next)) if streamed.repeatable && again > 0 => {
                again -= 1;
                call = next;
            }
            (Err(BrokenOff { error, .. }), _) => return Err(error),
        }
    }
}

/// Sends a call with its large body, which a broker wants now.
async fn send_body(
    tools: &Arc<dyn Tools>,
    broker: &str,
    call: ToolCall,
    LargeBody { id, bytes }: LargeBody,
    contents: &Arc<Contents>,
) -> Result<ToolAnswer, ApiError> {
    let contents = Arc::clone(contents);
    tools.upload(broker, call, Arc::new(move || Arc::clone(&contents).parts(id.clone(), bytes))).await
}

/// Where the parts of an answer come from.
struct Parts<'a> {
    tools: &'a Arc<dyn Tools>,
    broker: &'a str,
    /// Asks for the first one.
    first: BodyCall,
}

impl<'a> Parts<'a> {
    fn of(tools: &'a Arc<dyn Tools>, broker: &'a str, call: &ToolCall) -> Self {
        let (namespace, session_uid) = (call.namespace.clone(), call.session_uid.clone());
        Self { tools, broker, first: BodyCall { namespace, session_uid, epoch: call.epoch, stream: call.call, part: 0 } }
    }

    async fn part(&self, part: u64) -> Result<BodyAnswer, ApiError> {
        self.tools.body(self.broker, BodyCall { part, ..self.first.clone() }).await
    }
}

/// A large answer that has come, outside the heap, and is nobody's before it is delivered.
#[derive(Debug)]
pub(crate) struct Received {
    receiving: Receiving,
    reference: Reference,
}

/// Why an answer that was left open has not come.
struct BrokenOff {
    error: ApiError,
    /// Whether the broker has lost it, and may make the call again.
    lost: bool,
}

impl From<ApiError> for BrokenOff {
    fn from(error: ApiError) -> Self {
        Self { error, lost: false }
    }
}

impl Received {
    /// Takes in, part by part as it comes, what a broker holds open.
    async fn of(contents: &Arc<Contents>, stream: &StreamedAnswer, preview_chars: u32, parts: &Parts<'_>) -> Result<Self, BrokenOff> {
        let mut reference = Reference::of_stream(&stream.mime_type, &contents.digits(ID_DIGITS));
        let receiving = Receiving::begin(Arc::clone(contents), reference.is_text()).await?;
        let preview_chars = usize::try_from(preview_chars).unwrap_or(usize::MAX);
        let mut start = Vec::new();
        for number in 0.. {
            let (bytes, last) = match parts.part(number).await? {
                BodyAnswer::Part { bytes, last } => (bytes, last),
                BodyAnswer::Failed(failure) => return Err(broken_off(stream, &format!("{}: {}", failure.code, failure.message), false)),
                BodyAnswer::Lost {} => return Err(broken_off(stream, "its broker has ended, or the session was moved", true)),
            };
            let bytes = STANDARD.decode(bytes).map_err(|_| broken_off(stream, "a part of it is no base64", false))?;
            reference.bytes += bytes.len() as u64;
            if reference.is_text() && start.len() < preview_chars.saturating_mul(CHARACTER_BYTES_MAX) {
                start.extend_from_slice(&bytes);
            }
            receiving.push(bytes.into()).await?;
            if last {
                break;
            }
        }
        reference.preview = String::from_utf8_lossy(&start).chars().take(preview_chars).collect();
        Ok(Self { receiving, reference })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.reference.bytes).unwrap_or(usize::MAX)
    }

    /// Makes it the session's. Answers what stands for it.
    pub(crate) async fn adopt(self, contents: &Contents) -> Result<Value, ApiError> {
        let restored = || ApiError::new(ErrorCode::Interrupted, "the session was restored while the answer came; make the call again");
        contents.rename(self.receiving.name(), &self.reference.id).await.ok_or_else(restored)?;
        Ok(self.reference.token())
    }
}

fn broken_off(stream: &StreamedAnswer, why: &str, lost: bool) -> BrokenOff {
    let code = if stream.repeatable { ErrorCode::ToolResultInvalid } else { ErrorCode::OutcomeUnknown };
    BrokenOff { error: ApiError::new(code, format!("the call was made, and its large answer broke off: {why}")), lost }
}
