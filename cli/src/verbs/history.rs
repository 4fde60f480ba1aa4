//! `dormouse checkpoints`, `restore` and `fork`, and the journal of `dormouse logs`.

use dormouse_client::Client;
use dormouse_protocol::{
    eval::Woke,
    history::{ChangeKind, Checkpoint, ForkSession, JournalBody, JournalEntry},
};

use crate::{
    screen::{Output, Screen, Tone},
    show,
};

/// Characters of a cell's source that a line of the journal shows.
const SOURCE_CHARS_MAX: usize = 80;

/// Hex digits of a digest that a line of the journal shows.
const DIGEST_CHARS: usize = 12;

/// Flags of `dormouse checkpoints`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct CheckpointsArgs {
    /// What else to do with them.
    #[command(subcommand)]
    verb: Option<CheckpointsVerb>,
    /// The session.
    #[arg(required = true)]
    session: Option<String>,
    /// Make one of the present state under this label; a label that is in use moves to it.
    #[arg(long, short, value_name = "LABEL")]
    label: Option<String>,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// What can be done with checkpoints besides listing and making them.
#[derive(Debug, clap::Subcommand)]
enum CheckpointsVerb {
    /// Tell which globals and files differ between two checkpoints.
    Diff(DiffArgs),
}

/// Flags of `dormouse checkpoints diff`.
#[derive(Debug, clap::Args)]
struct DiffArgs {
    /// The session.
    session: String,
    /// Id or label of the earlier checkpoint.
    from: String,
    /// Id or label of the later one; without it, the last commit.
    to: Option<String>,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// Flags of `dormouse restore`.
#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// The session.
    session: String,
    /// Id or label of the checkpoint.
    checkpoint: String,
    /// How to print the session.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// Flags of `dormouse reset`.
#[derive(Debug, clap::Args)]
pub struct ResetArgs {
    /// The session.
    session: String,
    /// How to print the session.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// Flags of `dormouse migrate`.
#[derive(Debug, clap::Args)]
pub struct MigrateArgs {
    /// The session.
    session: String,
    /// Only tell what would come of it.
    #[arg(long)]
    dry_run: bool,
    /// How to print the report.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// Flags of `dormouse fork`.
#[derive(Debug, clap::Args)]
pub struct ForkArgs {
    /// The session.
    session: String,
    /// Name of the new session.
    name: String,
    /// Id or label of a checkpoint; without it, the last commit.
    #[arg(long, short)]
    checkpoint: Option<String>,
    /// How to print the new session.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

pub(crate) async fn checkpoints(client: &Client, args: CheckpointsArgs, screen: &mut Screen) -> anyhow::Result<bool> {
    if let Some(CheckpointsVerb::Diff(args)) = args.verb {
        return diff(client, args, screen).await;
    }
    let session = args.session.unwrap_or_default();
    let made = match &args.label {
        Some(label) => vec![client.checkpoint(&session, label).await?],
        None => {
            let list = client.checkpoints(&session).await?;
            damaged(list.damage.as_deref(), screen)?;
            list.items
        }
    };
    if args.output == Output::Json {
        for checkpoint in &made {
            screen.line(Tone::Plain, &serde_json::to_string(checkpoint)?)?;
        }
        return Ok(true);
    }
    let row =
        |it: &Checkpoint| vec![it.id.clone(), it.label.clone().unwrap_or_else(|| "-".to_owned()), it.bytes.to_string(), it.time.clone()];
    show::table(screen, &["ID", "LABEL", "BYTES", "TIME"], &made.iter().map(row).collect::<Vec<_>>())?;
    Ok(true)
}

async fn diff(client: &Client, args: DiffArgs, screen: &mut Screen) -> anyhow::Result<bool> {
    let told = client.difference(&args.session, &args.from, args.to.as_deref()).await?;
    if args.output == Output::Json {
        screen.line(Tone::Plain, &serde_json::to_string(&told)?)?;
        return Ok(true);
    }
    let size = |bytes: Option<u64>| bytes.map(|bytes| format!("{bytes} bytes"));
    let files = told.files.iter().map(|it| (&it.path, it.change, size(it.bytes_before), size(it.bytes_after)));
    let globals = told.globals.iter().map(|it| (&it.name, it.change, it.before.clone(), it.after.clone()));
    for (name, change, before, after) in globals.chain(files) {
        let (sign, tone) = match change {
            ChangeKind::Added => ('+', Tone::Value),
            ChangeKind::Removed => ('-', Tone::Error),
            ChangeKind::Changed | ChangeKind::Unknown => ('~', Tone::Warning),
        };
        let shown: Vec<String> = [before, after].into_iter().flatten().collect();
        let name = screen.paint(tone, &format!("{sign} {name}"));
        screen.line(Tone::Plain, &format!("{name}  {}", shown.join("  ->  ")))?;
    }
    for name in &told.unsure {
        screen.error_line(Tone::Warning, &format!("{name} is too large to be looked at to its end; as far as that it is the same"))?;
    }
    if told.partial {
        screen.error_line(Tone::Warning, "there are more globals or files than were looked at")?;
    }
    Ok(true)
}

pub(crate) async fn restore(client: &Client, args: RestoreArgs, screen: &mut Screen) -> anyhow::Result<bool> {
    let session = client.restore(&args.session, &args.checkpoint).await?;
    show::one(&session, args.output, screen)?;
    Ok(true)
}

pub(crate) async fn reset(client: &Client, args: ResetArgs, screen: &mut Screen) -> anyhow::Result<bool> {
    let session = client.reset(&args.session).await?;
    show::one(&session, args.output, screen)?;
    Ok(true)
}

pub(crate) async fn fork(client: &Client, args: ForkArgs, screen: &mut Screen) -> anyhow::Result<bool> {
    let fork = ForkSession { name: args.name, checkpoint: args.checkpoint };
    let session = client.fork(&args.session, &fork).await?;
    show::one(&session, args.output, screen)?;
    Ok(true)
}

pub(crate) async fn migrate(client: &Client, args: MigrateArgs, screen: &mut Screen) -> anyhow::Result<bool> {
    let report = client.migrate(&args.session, args.dry_run).await?;
    if args.output == Output::Json {
        screen.line(Tone::Plain, &serde_json::to_string(&report)?)?;
        return Ok(true);
    }
    let short = |digest: &str| digest.chars().take(DIGEST_CHARS).collect::<String>();
    if report.from == report.to {
        screen.line(Tone::Plain, &format!("{} runs on the current engine, {}", args.session, short(&report.to)))?;
        return Ok(true);
    }
    let what = if report.dry_run { "would be replayed" } else { "replayed" };
    let summary =
        format!("{} -> {}: {} cells {what}, {} calls not made", short(&report.from), short(&report.to), report.replayed, report.calls);
    screen.line(Tone::Strong, &summary)?;
    for not_carried in report.cells.iter().chain(&report.globals).chain(&report.files) {
        screen.line(Tone::Warning, &format!("{}: {}", not_carried.name, not_carried.reason))?;
    }
    for note in &report.notes {
        screen.line(Tone::Warning, note)?;
    }
    if let Some(checkpoint) = &report.checkpoint {
        screen.line(Tone::Plain, &format!("the state before is checkpoint {checkpoint}"))?;
    }
    Ok(true)
}

/// Prints the journal behind `after`, to its end.
pub(crate) async fn journal(client: &Client, session: &str, mut after: u64, output: Output, screen: &mut Screen) -> anyhow::Result<bool> {
    loop {
        let page = client.journal_page(session, after).await?;
        damaged(page.damage.as_deref(), screen)?;
        for entry in &page.entries {
            if output == Output::Json {
                screen.line(Tone::Plain, &serde_json::to_string(entry)?)?;
                continue;
            }
            let (tone, text) = describe(entry);
            let place = screen.paint(Tone::Faint, &format!("{:>6}  {}", entry.seq, entry.time));
            let text = screen.paint(tone, &text);
            screen.line(Tone::Plain, &format!("{place}  {text}"))?;
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(true),
        }
    }
}

fn damaged(damage: Option<&str>, screen: &mut Screen) -> anyhow::Result<()> {
    if let Some(damage) = damage {
        screen.error_line(Tone::Warning, &format!("this is what is left: {damage}"))?;
    }
    Ok(())
}

fn describe(entry: &JournalEntry) -> (Tone, String) {
    let digest = |digest: &str| digest.chars().take(DIGEST_CHARS).collect::<String>();
    match &entry.body {
        JournalBody::Cell { cell, source, .. } => {
            let line: String = source.split_whitespace().collect::<Vec<_>>().join(" ");
            let shown: String = line.chars().take(SOURCE_CHARS_MAX).collect();
            let more = if shown.len() < line.len() { "…" } else { "" };
            (Tone::Plain, format!("cell       {cell}  {shown}{more}"))
        }
        JournalBody::Result { cell, error: Some(error), message, .. } => {
            (Tone::Error, format!("result     {cell}  {error}: {}", message.as_deref().unwrap_or_default()))
        }
        JournalBody::Result { cell, digest: it, .. } => (Tone::Value, format!("result     {cell}  ok {}", digest(it))),
        JournalBody::ToolCall { call, tool, digest: it } => (Tone::Faint, format!("call       {call}  {tool} {}", digest(it))),
        JournalBody::ToolResult { call, ok, digest: it } => {
            (Tone::Faint, format!("answer     {call}  {} {}", if *ok { "ok" } else { "failed" }, digest(it)))
        }
        JournalBody::Hibernated => (Tone::Faint, "hibernated".to_owned()),
        JournalBody::Woke { from } => {
            let from = match from {
                Woke::Cache => "the pod's own copy",
                Woke::No | Woke::Storage => "storage",
                Woke::Unknown => "somewhere else",
            };
            (Tone::Faint, format!("woke       from {from}"))
        }
        JournalBody::Checkpoint { id, label } => (Tone::Strong, format!("checkpoint {id}  {}", label.as_deref().unwrap_or_default())),
        JournalBody::Restored { checkpoint } => (Tone::Strong, format!("restored   {checkpoint}")),
        JournalBody::Reset { before } => {
            (Tone::Strong, format!("reset      before it, checkpoint {}", before.as_deref().unwrap_or("none")))
        }
        JournalBody::Migrated { from, to } => (Tone::Strong, format!("migrated   from engine {} to {}", digest(from), digest(to))),
        JournalBody::Forked { parent, sequence } => (Tone::Strong, format!("forked     from {parent} at {sequence}")),
    }
}
