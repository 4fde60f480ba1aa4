//! The REPL on a terminal.

use dormouse_client::Client;
use nu_ansi_term::{Color, Style};
use reedline::{
    ColumnarMenu, DefaultHinter, EditCommand, Emacs, KeyCode, KeyModifiers, MenuBuilder as _, Reedline, ReedlineEvent, ReedlineMenu,
    Signal, ValidationResult, Validator, default_emacs_keybindings,
};

use super::{
    command::{self, Then},
    complete::Names,
    highlight::TypeScript,
    history,
    prompt::SessionPrompt,
    request, unfinished,
};
use crate::{
    cell,
    screen::{Screen, Tone},
};

const MENU: &str = "completions";

/// Reads and runs until the person leaves.
pub(super) async fn run(client: &Client, session: &str, screen: &mut Screen) -> anyhow::Result<bool> {
    let at = format!("{} on {}", session, client.server().as_str().trim_end_matches('/'));
    screen.line(Tone::Faint, &format!("Session {at}. TypeScript; .help shows the commands, Ctrl-D leaves."))?;
    let names = Names::default();
    let mut editor = editor(&names, screen.colour());
    let prompt = SessionPrompt { session: session.to_owned() };
    loop {
        let line = match tokio::task::block_in_place(|| editor.read_line(&prompt))? {
            Signal::Success(line) => {
                // Another REPL may read it, and this one may not come to its end; a history that cannot be written is not worth stopping for.
                let _ = editor.sync_history();
                line
            }
            Signal::CtrlD => return Ok(true),
            _ => continue,
        };
        if line.trim().is_empty() {
            continue;
        }
        // A failure of the service ends a request, not the REPL.
        match one(client, session, &line, &names, screen).await {
            Ok(Then::GoOn) => {}
            Ok(Then::Leave) => return Ok(true),
            Err(error) => screen.error_line(Tone::Error, &format!("{error:#}"))?,
        }
    }
}

async fn one(client: &Client, session: &str, line: &str, names: &Names, screen: &mut Screen) -> anyhow::Result<Then> {
    if command::is_command(line) {
        return command::run(client, session, line, screen).await;
    }
    names.learn(line);
    cell::run(client, session, &request(line), screen).await?;
    Ok(Then::GoOn)
}

fn editor(names: &Names, colour: bool) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, ReedlineEvent::Edit(vec![EditCommand::InsertNewline]));
    let menu = ColumnarMenu::default().with_name(MENU);
    let editor = Reedline::create()
        .with_validator(Box::new(WholeCell))
        .with_completer(Box::new(names.clone()))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_hinter(Box::new(DefaultHinter::default().with_style(Style::new().fg(Color::DarkGray))))
        .with_ansi_colors(colour);
    let editor = if colour { editor.with_highlighter(Box::new(TypeScript)) } else { editor };
    match history::open() {
        Some(history) => editor.with_history(Box::new(history)),
        None => editor,
    }
}

/// Enter runs what is whole and adds a line to what is not; an empty line at the end runs it as it is, so that its error can be seen.
struct WholeCell;

impl Validator for WholeCell {
    fn validate(&self, line: &str) -> ValidationResult {
        let given_up = line.ends_with("\n\n");
        if command::is_command(line) || given_up || !unfinished(line) { ValidationResult::Complete } else { ValidationResult::Incomplete }
    }
}
