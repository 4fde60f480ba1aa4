//! The table of `docs/errors.md` is what the code says. `UPDATE=1` writes it anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use dormouse_protocol::ErrorCode;
use utoipa::PartialSchema as _;

const BEGIN: &str = "<!-- the table: written by crates/protocol/tests/drift.rs -->\n";
const END: &str = "<!-- the end of the table -->\n";

/// Every code, as the API's own description lists them.
fn codes() -> Vec<ErrorCode> {
    let schema = serde_json::to_value(ErrorCode::schema()).unwrap();
    schema["enum"].as_array().unwrap().iter().map(|name| serde_json::from_value(name.clone()).unwrap()).collect()
}

/// What a client does about it.
fn advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UncaughtException => "mend the cell: `error` has name, message and stack of what was thrown",
        ErrorCode::TimeoutError => "do less in one cell, or raise `timeoutMs` or `limits.evalTimeoutMs`",
        ErrorCode::TickBudgetExceeded => "do less in one cell, or raise the limit of ticks",
        ErrorCode::MemoryLimitError | ErrorCode::NativeAllocLimitError => "keep less in the heap, or raise `limits.heapBytes`",
        ErrorCode::SizeAdmissionError => "keep or send less; `message` says of what",
        ErrorCode::OutputLimitError => "write less output, or put it into a file",
        ErrorCode::StackOverflow => "recurse less deeply",
        ErrorCode::Interrupted => "nothing: somebody asked for it",
        ErrorCode::SyntaxError => "mend the source at `line` and `column`",
        ErrorCode::EngineMismatch => "use an image that carries the session's engine, and `migrate` the session there",
        ErrorCode::SessionNotFound => "create the session, or correct its name",
        ErrorCode::SessionGone => "send it again: the session is on its way to another pod",
        ErrorCode::SessionBusy => "send it again later: too much waits for this session, or it changes too fast",
        ErrorCode::CapacityExhausted => "send it again later, or give the KernelPool more pods, slots or memory",
        ErrorCode::QuotaExceeded => "use less, or have the quota raised that `message` names",
        ErrorCode::Unauthenticated => "send a valid token for the gateway's audience",
        ErrorCode::Forbidden => "ask for the right, or the policy, that `message` names",
        ErrorCode::InvalidRequest => "correct the request; `details.path` says where",
        ErrorCode::Conflict => "look at what is there, then decide",
        ErrorCode::ToolNotFound => "name a tool of the session's ToolBroker",
        ErrorCode::ToolArgsInvalid => "correct the arguments; `details.path` says where",
        ErrorCode::ToolResultInvalid => "see what the service behind the tool does",
        ErrorCode::ToolDenied => "see what the tool, its credentials and its rules allow",
        ErrorCode::EgressDenied => "allow the address in the session's and the broker's rules, or leave it",
        ErrorCode::ModuleNotFound => "correct the name or the version of the package",
        ErrorCode::ModuleUnavailable => "see whether the registry answers, and whether the package can be used",
        ErrorCode::StorageUnavailable => "send it again later: `message` says what does not answer",
        ErrorCode::StorageUnsafe => "use a store that keeps conditional writes atomic",
        ErrorCode::SnapshotCorrupt => {
            "see [operating](operating.md), restored and rolled back: restore a checkpoint, or put the objects right"
        }
        ErrorCode::FileNotFound => "correct the path",
        ErrorCode::RunNotFound => "look at the session's runs; the ends of the last 32 are kept",
        ErrorCode::PreconditionFailed => "read the file again, then decide",
        ErrorCode::ApprovalDenied => "code may catch it; do not make the same call again without asking",
        ErrorCode::ApprovalNotFound => "list the session's approvals",
        ErrorCode::DeliveryNotFound => "list the deliveries; old ones are not kept",
        ErrorCode::ApprovalExpired => "make the call again, if it is still wanted",
        ErrorCode::ApprovalUsed => "nothing: a decision works once",
        ErrorCode::ApprovalMismatch => "look at the call that waits, and decide again with its `epoch`",
        ErrorCode::RateLimited => "call again later, or less often",
        ErrorCode::RefNotFound => "ask `refs.list()` which references there are",
        ErrorCode::ModelBudgetExceeded => "raise the model's `budget` in the ToolBroker",
        ErrorCode::SessionExpired => "raise `spec.ttl.activeSeconds` to go on with the session, or make another one",
        ErrorCode::EventsExpired => "ask for the events without `after`, or behind one that is kept: `details.oldest` is the first",
        ErrorCode::RangeNotSatisfiable => "ask for a range within the content",
        ErrorCode::OutcomeUnknown => {
            "look whether it was done, then decide; sending it again could do it twice, but not a cell under its `idempotencyKey`"
        }
        ErrorCode::ShuttingDown => "send it again: another process takes it",
        ErrorCode::NotSupported => "do without: it is not built",
        ErrorCode::Internal => "report it with its `requestId`",
        ErrorCode::Unknown => "see `message`; who reads the answer is older than who gave it",
    }
}

fn table() -> String {
    let mut table = String::from("| code | HTTP | retryable | Retry-After | what a client does |\n|---|---|---|---|---|\n");
    for code in codes() {
        let retryable = if code.retryable() { "yes" } else { "no" };
        let after = code.retry_after_seconds().map(|seconds| format!("{seconds} s")).unwrap_or_default();
        table.push_str(&format!("| `{code}` | {} | {retryable} | {after} | {} |\n", code.http_status(), advice(code)));
    }
    table
}

#[test]
fn the_table_of_error_codes_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the beginning of the table");
    let (_, after) = rest.split_once(END).expect("and its end");
    dormouse_testkit::generated::is_current(&path, &format!("{before}{BEGIN}{}{END}{after}", table()));
}
