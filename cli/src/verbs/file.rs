//! `dormouse run`.

use std::path::PathBuf;

use anyhow::Context as _;
use dormouse_client::Client;
use dormouse_protocol::{
    eval::{EvalRequest, Language},
    session::CreateSession,
};

use crate::{
    cell,
    screen::{Screen, Tone},
};

/// Flags of `dormouse run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A TypeScript file, or what it is by its ending: .js, .tsx, .jsx.
    file: PathBuf,
    /// Run it in this session, which is made when it does not exist; without it, in a new one that is deleted afterwards.
    #[arg(long, short)]
    session: Option<String>,
    /// Milliseconds that it may run.
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
}

pub(crate) async fn run(client: &Client, args: Args, screen: &mut Screen) -> anyhow::Result<bool> {
    let code = std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let language = match args.file.extension().and_then(|extension| extension.to_str()) {
        Some("js" | "mjs") => Language::Javascript,
        Some("tsx") => Language::Tsx,
        Some("jsx") => Language::Jsx,
        _ => Language::Typescript,
    };
    let request = EvalRequest {
        code,
        language,
        timeout_ms: args.timeout_ms,
        idempotency_key: None,
        filename: args.file.file_name().map(|name| name.to_string_lossy().into_owned()),
        webhook: None,
        api_key: None,
        by: None,
    };
    if let Some(session) = &args.session {
        cell::ensure(client, session).await?;
        return cell::run(client, session, &request, screen).await;
    }
    let session = client.create(&CreateSession::default()).await?.name;
    let outcome = cell::run(client, &session, &request, screen).await;
    if let Err(error) = client.delete(&session).await {
        screen.error_line(Tone::Warning, &format!("session {session} could not be deleted: {error}"))?;
    }
    outcome
}
