//! What a REPL does itself: lines that begin with a dot and a word.

use dormouse_client::Client;

use crate::{
    screen::{Screen, Tone},
    show,
};

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Exit,
    Hibernate,
    Wake,
    Info,
}

/// Every command, its word, and what it does.
pub(super) const COMMANDS: [(Command, &str, &str); 5] = [
    (Command::Help, ".help", "show this"),
    (Command::Info, ".info", "show the session"),
    (Command::Hibernate, ".hibernate", "put the session to sleep; the next cell wakes it"),
    (Command::Wake, ".wake", "wake the session"),
    (Command::Exit, ".exit", "leave; the session stays (also Ctrl-D)"),
];

/// What follows a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    Leave,
}

/// Whether the line is for the REPL: a dot and a letter. (`.5` is a number.)
pub(super) fn is_command(line: &str) -> bool {
    let mut chars = line.trim_start().chars();
    chars.next() == Some('.') && chars.next().is_some_and(|c| c.is_ascii_alphabetic())
}

fn parse(line: &str) -> Option<Command> {
    let word = line.trim();
    COMMANDS.iter().find(|(_, name, _)| *name == word).map(|(command, ..)| *command)
}

/// Does what the line says.
pub(super) async fn run(client: &Client, session: &str, line: &str, screen: &mut Screen) -> anyhow::Result<Then> {
    let Some(command) = parse(line) else {
        screen.error_line(Tone::Error, &format!("there is no command {}: .help shows what there is", line.trim()))?;
        return Ok(Then::GoOn);
    };
    match command {
        Command::Exit => return Ok(Then::Leave),
        Command::Help => help(screen)?,
        Command::Info => show::session(screen, &client.get(session).await?)?,
        Command::Wake => {
            let session = client.wake(session).await?;
            screen.line(Tone::Faint, &format!("{} is {}", session.name, session.state))?;
        }
        Command::Hibernate => {
            let session = client.hibernate(session).await?;
            let stored = session.status.snapshot.map(|it| format!(": sequence {}, {} bytes in the store", it.sequence, it.bytes));
            screen.line(Tone::Faint, &format!("{} is {}{}", session.name, session.state, stored.unwrap_or_default()))?;
        }
    }
    Ok(Then::GoOn)
}

fn help(screen: &mut Screen) -> std::io::Result<()> {
    for (_, name, meaning) in COMMANDS {
        let name = screen.paint(Tone::Value, &format!("{name:<12}"));
        screen.line(Tone::Plain, &format!("{name} {meaning}"))?;
    }
    screen.line(Tone::Faint, "Enter runs a cell that is whole, Alt-Enter adds a line, Ctrl-C stops a cell, Ctrl-R searches the history.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_no_commands() {
        assert!(is_command(" .help") && is_command(".nonsense"));
        assert!(!is_command(".5 + 1") && !is_command("a.b") && !is_command("...a") && !is_command(""));
    }

    #[test]
    fn every_command_is_found_by_its_word() {
        for (command, name, _) in COMMANDS {
            assert_eq!(parse(&format!(" {name} ")), Some(command));
        }
        assert_eq!(parse(".hel"), None);
    }
}
