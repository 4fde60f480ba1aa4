//! `dormouse files`: a session's files.

use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::pin::pin;

use anyhow::Context as _;
use dormouse_client::Client;
use dormouse_protocol::file::{FileEntry, FileKind};
use futures::StreamExt as _;

use crate::{
    screen::{Output, Screen, Tone},
    show,
};

/// Bytes that are read at once of what is sent.
const CHUNK_BYTES: usize = 256 << 10;

/// What stands for standard input and output.
const STANDARD: &str = "-";

/// Flags of `dormouse files`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List a directory.
    Ls {
        /// The session.
        session: String,
        /// The directory.
        #[arg(default_value = "/")]
        path: String,
        /// What is in its directories, too.
        #[arg(long, short)]
        recursive: bool,
        /// How to print.
        #[arg(long, short, value_enum, default_value_t)]
        output: Output,
    },
    /// Read a file.
    Get {
        /// The session.
        session: String,
        /// The file.
        path: String,
        /// Where to write it; standard output if none.
        #[arg(default_value = STANDARD)]
        to: PathBuf,
    },
    /// Write a file, with the directories above it.
    Put {
        /// The session.
        session: String,
        /// What to send; `-` is standard input.
        from: PathBuf,
        /// The file.
        path: String,
    },
    /// Remove a file or an empty directory.
    Rm {
        /// The session.
        session: String,
        /// The file.
        path: String,
        /// A directory with all that is in it.
        #[arg(long, short)]
        recursive: bool,
    },
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    match args.verb {
        Verb::Ls { session, path, recursive, output } => {
            let list = client.files(&session, &path, recursive).await?;
            print(&list.items, output, screen)?;
            if list.truncated {
                screen.error_line(Tone::Warning, "there are more: list a directory of them")?;
            }
        }
        Verb::Get { session, path, to } => get(client, &session, &path, &to).await?,
        Verb::Put { session, from, path } => {
            let content = chunks(open(&from)?);
            client.write_file(&session, &path, content).await?;
        }
        Verb::Rm { session, path, recursive } => client.remove_file(&session, &path, recursive).await?,
    }
    Ok(true)
}

fn print(entries: &[FileEntry], output: Output, screen: &mut Screen) -> anyhow::Result<()> {
    if output == Output::Json {
        for entry in entries {
            screen.line(Tone::Plain, &serde_json::to_string(entry)?)?;
        }
        return Ok(());
    }
    let row = |entry: &FileEntry| {
        let size = if entry.kind == FileKind::File { entry.size.to_string() } else { "-".to_owned() };
        let mark = if entry.kind == FileKind::Directory { "/" } else { "" };
        vec![size, entry.modified.clone(), format!("{}{mark}", entry.path)]
    };
    show::table(screen, &["BYTES", "MODIFIED", "PATH"], &entries.iter().map(row).collect::<Vec<_>>())?;
    Ok(())
}

async fn get(client: &Client, session: &str, path: &str, to: &Path) -> anyhow::Result<()> {
    let mut content = pin!(client.read_file(session, path).await?);
    let mut out: Box<dyn io::Write> = if to == Path::new(STANDARD) {
        Box::new(io::stdout().lock())
    } else {
        Box::new(std::fs::File::create(to).with_context(|| format!("cannot write {}", to.display()))?)
    };
    while let Some(chunk) = content.next().await {
        out.write_all(&chunk?)?;
    }
    Ok(out.flush()?)
}

fn open(from: &Path) -> anyhow::Result<Box<dyn Read + Send>> {
    if from == Path::new(STANDARD) {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(std::fs::File::open(from).with_context(|| format!("cannot read {}", from.display()))?))
}

/// What is read, chunk by chunk.
fn chunks(from: Box<dyn Read + Send>) -> impl futures::Stream<Item = io::Result<Vec<u8>>> + Send + 'static {
    futures::stream::unfold(from, |mut from| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        match from.read(&mut chunk) {
            Ok(0) => None,
            Ok(read) => {
                chunk.truncate(read);
                Some((Ok(chunk), from))
            }
            Err(error) => Some((Err(error), from)),
        }
    })
}
