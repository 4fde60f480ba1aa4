//! `cell FILE…`: runs each file as a cell of one session, with timers in virtual time, and prints what it says and comes to.
//! `DORMOUSE_ENGINE` names another `engine.wasm` than the one that is built in.

use anyhow::Context as _;
use clap::Parser;
use dormouse_cells::{Language, Options};
use dormouse_conformance::session;
use dormouse_engine::CellSource;

/// Flags.
#[derive(Debug, Parser)]
struct Args {
    /// The cells; `.ts` and `.tsx` are TypeScript.
    files: Vec<std::path::PathBuf>,
    /// Tells the heap that is used after each.
    #[arg(long)]
    heap: bool,
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "what it is for")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut session = session::Session::new(session::settings())?;
    for path in &args.files {
        let source = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let language = match path.extension().and_then(std::ffi::OsStr::to_str) {
            Some("ts") => Language::Typescript,
            Some("tsx") => Language::Tsx,
            _ => Language::Javascript,
        };
        let options = Options { language, filename: path.display().to_string(), ..Options::default() };
        let script = dormouse_cells::compile(&source, &options).map_err(|error| anyhow::anyhow!("{error}"))?;
        let begun = std::time::Instant::now();
        let mut turn = session.eval(&CellSource { code: script.code, filename: script.filename, is_async: script.is_async }).await?;
        loop {
            for line in &turn.console {
                println!("{}", line.text);
            }
            if let Some(end) = &turn.cell {
                match &end.error {
                    Some(error) => println!("! {}: {}\n{}", error.name, error.message, error.stack),
                    None => println!("= {}", end.preview),
                }
            }
            match session.fire().await? {
                Some(next) => turn = next,
                None => break,
            }
        }
        if args.heap {
            eprintln!("{} bytes of heap, {} ms", session.instance.heap_bytes(), begun.elapsed().as_millis());
        }
    }
    Ok(())
}
