//! `dormouse sessions`.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use dormouse_client::Client;
use dormouse_crds::manifest::{self, Document};
use dormouse_protocol::session::{CreateSession, Session};

use crate::{
    screen::{Output, Screen, Tone},
    show,
};

/// Flags of `dormouse sessions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Only sessions with these labels, such as `app=a,tier!=x`.
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make a session.
    Create {
        /// Its name; generated when absent.
        name: Option<String>,
        /// A manifest with KernelSessions to make instead.
        #[arg(long, short, conflicts_with = "name")]
        file: Option<PathBuf>,
    },
    /// Show one session.
    Get {
        /// Its name.
        name: String,
    },
    /// Delete a session and everything that is stored of it.
    Delete {
        /// Its name.
        name: String,
    },
    /// Put a session to sleep.
    Hibernate {
        /// Its name.
        name: String,
    },
    /// Wake a session.
    Wake {
        /// Its name.
        name: String,
    },
    /// End the running cell.
    Interrupt {
        /// The session's name.
        name: String,
    },
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    match args.verb {
        None => list(client, args.selector.as_deref(), args.output, screen).await?,
        Some(Verb::Create { name, file }) => {
            for session in wanted(name, file, client.namespace())? {
                show::one(&client.create(&session).await?, args.output, screen)?;
            }
        }
        Some(Verb::Get { name }) => show::one(&client.get(&name).await?, args.output, screen)?,
        Some(Verb::Hibernate { name }) => show::one(&client.hibernate(&name).await?, args.output, screen)?,
        Some(Verb::Wake { name }) => show::one(&client.wake(&name).await?, args.output, screen)?,
        Some(Verb::Delete { name }) => client.delete(&name).await?,
        Some(Verb::Interrupt { name }) => client.interrupt(&name).await?,
    }
    Ok(true)
}

/// The sessions to make. The gateway's path names the namespace, so a manifest's own must be the same.
fn wanted(name: Option<String>, file: Option<PathBuf>, namespace: &str) -> anyhow::Result<Vec<CreateSession>> {
    let Some(file) = file else { return Ok(vec![CreateSession { name, ..CreateSession::default() }]) };
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut sessions = Vec::new();
    for document in manifest::parse(&text).with_context(|| format!("in {}", file.display()))? {
        let Document::Session(metadata, spec) = document else { continue };
        if let Some(other) = metadata.namespace.filter(|other| other != namespace) {
            bail!("session {} belongs to namespace {other}: say --namespace {other}", metadata.name);
        }
        sessions.push(CreateSession { name: Some(metadata.name), labels: metadata.labels, spec: *spec });
    }
    if sessions.is_empty() {
        bail!("{} has no KernelSession", file.display());
    }
    Ok(sessions)
}

async fn list(client: &Client, selector: Option<&str>, output: Output, screen: &mut Screen) -> anyhow::Result<()> {
    let sessions = client.list(selector).await?;
    if output == Output::Json {
        for session in &sessions {
            screen.line(Tone::Plain, &serde_json::to_string(session)?)?;
        }
        return Ok(());
    }
    let none = || "-".to_owned();
    let row = |session: &Session| {
        let status = &session.status;
        vec![
            session.name.clone(),
            session.state.to_string(),
            format!("{:?}", session.spec.operating_mode),
            status.placement.as_ref().map_or_else(none, |placement| placement.pod.clone()),
            status.heap.clone().unwrap_or_else(none),
            status.snapshot.as_ref().map_or_else(none, |snapshot| snapshot.sequence.to_string()),
            status.cells.map_or_else(none, |cells| cells.to_string()),
            status.last_active_time.clone().unwrap_or_else(none),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    show::table(screen, &["NAME", "STATE", "MODE", "POD", "HEAP", "SNAPSHOT", "CELLS", "LAST ACTIVE"], &rows)?;
    Ok(())
}
