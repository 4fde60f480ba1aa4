//! The command line.

use dormouse_client::{Client, Error};

use crate::{dev, repl, verbs};

/// JavaScript and TypeScript REPLs that live for ever and cost nothing while they sleep.
#[derive(Debug, clap::Parser)]
#[command(name = "dormouse", version, about)]
pub struct Cli {
    /// Where the gateway is.
    #[command(flatten)]
    pub server: ServerArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Which sessions, and by what right.
#[derive(Debug, Clone, clap::Args)]
pub struct ServerArgs {
    /// URL of the gateway.
    #[arg(long, global = true, env = "DORMOUSE_SERVER", default_value = "http://127.0.0.1:7777", value_name = "URL")]
    pub server: String,
    /// Namespace of the sessions.
    #[arg(long, short, global = true, env = "DORMOUSE_NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Bearer token: an API key or a Kubernetes token in a cluster, none for `dormouse dev`.
    #[arg(long, global = true, env = "DORMOUSE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// File with the certificates, in PEM, that the gateway's must be of: those of a cluster's own authority, say. The system's when absent.
    #[arg(long, global = true, env = "DORMOUSE_CA", value_name = "FILE")]
    pub ca: Option<std::path::PathBuf>,
}

impl ServerArgs {
    /// The client that these flags describe.
    ///
    /// # Errors
    /// The URL, the token or the file of certificates cannot be used.
    pub fn client(&self) -> Result<Client, Error> {
        let read =
            |file: &std::path::PathBuf| std::fs::read(file).map_err(|error| Error::Address(format!("--ca {}: {error}", file.display())));
        let authorities = self.ca.as_ref().map(read).transpose()?;
        Client::trusting(&self.server, &self.namespace, self.token.as_deref(), authorities.as_deref())
    }
}

/// The verbs.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Serve everything in one process on this machine.
    Dev(dev::Args),
    /// Type cells into a session; it is made when it does not exist.
    Repl(repl::Args),
    /// Run one cell.
    Eval(verbs::eval::Args),
    /// Run a file as one cell, in a session of its own or in an existing one.
    Run(verbs::file::Args),
    /// List, make, inspect and delete sessions, put them to sleep and wake them.
    Sessions(verbs::sessions::Args),
    /// Show a session's events, or its journal.
    Logs(verbs::logs::Args),
    /// List a session's checkpoints, or make one.
    Checkpoints(verbs::history::CheckpointsArgs),
    /// Take a session back to a checkpoint.
    Restore(verbs::history::RestoreArgs),
    /// Empty a session: it goes on as a new one would, and what it was stays as a checkpoint.
    Reset(verbs::history::ResetArgs),
    /// Move a session to the current engine, by running its recorded cells again.
    Migrate(verbs::history::MigrateArgs),
    /// List, read, write and remove a session's files.
    Files(verbs::files::Args),
    /// Make a session that begins as what another one is, or was.
    Fork(verbs::history::ForkArgs),
    /// List cells that were left to run by themselves, wait for one, or end one.
    Runs(verbs::runs::Args),
    /// Calls that wait for a person, and decisions about them.
    Approvals(verbs::approvals::Args),
    /// Tell what the sessions of the namespace have used.
    Usage(verbs::usage::Args),
    /// Show the sessions that do most, the failed ones first.
    Top(verbs::top::Args),
    /// Print completions for a shell: `source <(dormouse completions bash)`.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Make, list and revoke API keys of the namespace.
    Keys(verbs::keys::Args),
    /// Speak the Model Context Protocol on standard input and output.
    Mcp,
}
