//! `dormouse top`.

use std::time::Duration;

use dormouse_client::Client;
use dormouse_protocol::session::{Session, State};

use crate::{
    screen::{Output, Screen, Tone},
    show,
};

/// Flags of `dormouse top`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only sessions with these labels, such as `app=a,tier!=x`.
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Sessions to show at most.
    #[arg(long, short = 'n', default_value_t = 20)]
    count: usize,
    /// Look again after so many seconds, until it is interrupted.
    #[arg(long, short, value_name = "SECONDS")]
    watch: Option<u64>,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    loop {
        let mut sessions = client.list(args.selector.as_deref()).await?;
        sessions.sort_by_key(|session| (rank(session.state), std::cmp::Reverse(heap_bytes(session))));
        let live = sessions.iter().filter(|session| rank(session.state) < ASLEEP).count();
        let all = sessions.len();
        sessions.truncate(args.count);
        if args.output == Output::Json {
            for session in &sessions {
                screen.line(Tone::Plain, &serde_json::to_string(session)?)?;
            }
        } else {
            screen.line(Tone::Plain, &format!("{all} sessions, {live} live"))?;
            show::table(screen, &["SESSION", "STATE", "HEAP", "STORED", "CELLS", "CALLS", "LAST USED"], &rows(&sessions))?;
        }
        match args.watch {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds.max(1))).await,
            None => return Ok(true),
        }
    }
}

/// The rank of the first state in which no slot is held.
const ASLEEP: u8 = 4;

/// What needs a look comes first.
fn rank(state: State) -> u8 {
    match state {
        State::Failed => 0,
        State::Running => 1,
        State::WaitingForTool => 2,
        State::Idle => 3,
        State::Waking => ASLEEP,
        State::WaitingForApproval => ASLEEP + 1,
        State::Hibernated => ASLEEP + 2,
        State::Archived => ASLEEP + 3,
        State::Unknown => ASLEEP + 4,
    }
}

/// The heap as status has it, such as `1.4Mi`, in bytes.
fn heap_bytes(session: &Session) -> u64 {
    let heap = session.status.heap.as_deref().unwrap_or_default();
    let digits = heap.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit: u64 = match heap.get(digits.len()..) {
        Some("Ki") => 1 << 10,
        Some("Mi") => 1 << 20,
        Some("Gi") => 1 << 30,
        _ => 1,
    };
    let (whole, tenths) = digits.split_once('.').unwrap_or((digits, "0"));
    whole.parse::<u64>().unwrap_or(0) * unit + tenths.parse::<u64>().unwrap_or(0) * unit / 10
}

fn rows(sessions: &[Session]) -> Vec<Vec<String>> {
    let row = |session: &Session| {
        let status = &session.status;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            session.name.clone(),
            session.state.to_string(),
            or_none(status.heap.clone()),
            or_none(status.snapshot.as_ref().map(|snapshot| format!("{} KiB", snapshot.bytes.div_ceil(1024)))),
            status.cells.unwrap_or(0).to_string(),
            status.tool_calls.unwrap_or(0).to_string(),
            or_none(status.last_active_time.clone()),
        ]
    };
    sessions.iter().map(row).collect()
}
