//! What Tab offers: commands, words of the language, and names that were declared in this REPL.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::{
    command::COMMANDS,
    lex::{Class, lex, words},
};

/// Suggestions at once.
const SUGGESTIONS_MAX: usize = 50;

/// What every session has.
const GLOBALS: &[&str] = &[
    "Array",
    "Date",
    "Error",
    "JSON",
    "Map",
    "Math",
    "Number",
    "Object",
    "Promise",
    "Set",
    "String",
    "callService",
    "callTool",
    "clearTimeout",
    "console",
    "crypto",
    "display",
    "globalThis",
    "queueMicrotask",
    "setTimeout",
    "sleep",
    "structuredClone",
    "tools",
];

/// Names that cells have declared. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Arc<Mutex<BTreeSet<String>>>);

impl Names {
    /// Notes what a cell declares.
    pub(super) fn learn(&self, cell: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut declares = false;
        for token in lex(cell) {
            match token.class {
                Class::Space | Class::Comment => {}
                Class::Keyword => declares = matches!(token.text, "const" | "let" | "var" | "function" | "class" | "enum" | "namespace"),
                Class::Name | Class::Type if declares => {
                    names.insert(token.text.to_owned());
                    declares = false;
                }
                _ => declares = false,
            }
        }
    }
}

impl Completer for Names {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let before = line.get(..pos).unwrap_or(line);
        let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').map_or(0, |at| at + 1);
        let start = if before.starts_with('.') && start == 1 { 0 } else { start };
        // The separator may be longer than a byte.
        let Some(word) = before.get(start..).filter(|word| !word.is_empty()) else { return CompletionResult::fresh(Vec::new()) };
        let suggest = |value: &str, description: Option<&str>| Suggestion {
            value: value.to_owned(),
            description: description.map(str::to_owned),
            span: Span::new(start, pos),
            append_whitespace: false,
            ..Suggestion::default()
        };
        if word.starts_with('.') {
            let commands = COMMANDS.iter().filter(|(_, name, _)| name.starts_with(word));
            return CompletionResult::fresh(commands.map(|(_, name, meaning)| suggest(name, Some(meaning))).collect::<Vec<_>>());
        }
        // What stands behind a dot is a property, of which nothing is known here.
        if before.get(..start).is_some_and(|before| before.ends_with('.')) {
            return CompletionResult::fresh(Vec::new());
        }
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |name: &&str| name.starts_with(word) && *name != word;
        let mut found: BTreeSet<String> = names.iter().map(String::as_str).filter(fits).map(str::to_owned).collect();
        found.extend(GLOBALS.iter().copied().chain(words()).filter(fits).map(str::to_owned));
        CompletionResult::fresh(found.into_iter().take(SUGGESTIONS_MAX).map(|name| suggest(&name, None)).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(names: &Names, line: &str) -> Vec<String> {
        names.clone().complete(line, line.len()).suggestions().iter().map(|suggestion| suggestion.value.clone()).collect()
    }

    #[test]
    fn declared_names_and_commands_are_offered() {
        let names = Names::default();
        names.learn("const counter = 1; function count() {} class Counted {} // let nothing\nx.const = y");
        assert_eq!(offered(&names, "1 + coun"), ["count", "counter"]);
        assert_eq!(offered(&names, "new Coun"), ["Counted"]);
        assert_eq!(offered(&names, ".h"), [".help", ".hibernate"]);
        assert!(offered(&names, "x.coun").is_empty(), "properties are unknown");
        assert!(offered(&names, "").is_empty() && offered(&names, "ö€").is_empty());
    }
}
