//! How the command says that it could not do what it was asked.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use dormouse_client::Error;

/// Writes the error, with what to do about it, to standard error.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    // Whoever read the output has seen enough.
    if error.chain().any(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let mut stderr = io::stderr().lock();
    // There is nowhere else to complain.
    let _ = writeln!(stderr, "dormouse: {error:#}");
    if let Some(hint) = error.downcast_ref::<Error>().and_then(hint) {
        let _ = writeln!(stderr, "{hint}");
    }
    ExitCode::FAILURE
}

fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::Unreachable { .. } => Some("Is it running? Start one here with `dormouse dev`, or name another with --server URL."),
        Error::Garbled { .. } => Some("What answers is no Dormouse gateway of this version: see --server URL."),
        _ => None,
    }
}
