//! The commands that `docs/checkpoints.md`, `docs/files.md`, `docs/clients.md` and `docs/lifetimes.md` show print what they say.

use crate::support::Dev;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/");

/// Pages, each with the commands that it has at least.
const PAGES: [(&str, usize); 4] = [("checkpoints.md", 16), ("files.md", 7), ("clients.md", 8), ("lifetimes.md", 3)];

/// What stands before a command's input, as in bash.
const INPUT: &str = " <<< ";

/// What differs from run to run.
const ANY: char = '…';

/// A command of a page.
#[derive(Debug)]
struct Shown {
    line: usize,
    words: Vec<String>,
    input: String,
    promised: String,
}

/// The commands of the page in order.
fn commands(page: &str) -> Vec<Shown> {
    let (mut commands, mut inside) = (Vec::<Shown>::new(), false);
    for (index, line) in page.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            inside = language == "console";
        } else if let Some(command) = line.strip_prefix("$ dormouse ").filter(|_| inside) {
            let (command, input) = command.split_once(INPUT).unwrap_or((command, ""));
            let input = words(input).first().map(|text| format!("{text}\n")).unwrap_or_default();
            commands.push(Shown { line: index + 1, words: words(command), input, promised: String::new() });
        } else if inside {
            commands.last_mut().expect("a command comes first").promised += &format!("{line}\n");
        }
    }
    commands
}

/// The words of a command line; double quotes hold a word together.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('"').enumerate();
    parts
        .flat_map(|(at, part)| if at % 2 == 1 { vec![part.to_owned()] } else { part.split_whitespace().map(str::to_owned).collect() })
        .collect()
}

/// Whether `text` is `pattern`, in which [`ANY`] stands for anything.
fn fits(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split(ANY);
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn the_commands_of_the_docs_print_what_they_say() {
    for (page, commands_min) in PAGES {
        let data = tempfile::tempdir().unwrap();
        let dev = Dev::start(data.path(), &[]);
        let commands = commands(&std::fs::read_to_string(format!("{DOCS}{page}")).unwrap());
        assert!(commands.len() >= commands_min, "{page} has lost its commands: {commands:?}");
        for Shown { line, words, input, promised } in commands {
            let said = dev.command(&words.iter().map(String::as_str).collect::<Vec<_>>(), &input);
            let printed: String = said.out.lines().map(|line| format!("{}\n", line.trim_end())).collect();
            let anything = promised.trim() == ANY.to_string();
            // Only a failing cell may print nothing but an error.
            assert!(said.status.success() || anything, "docs/{page}:{line}: {words:?}: {}{}", said.out, said.err);
            assert!(fits(&printed, &promised) || anything, "docs/{page}:{line}: {words:?} printed\n{printed}");
        }
    }
}

#[test]
fn a_history_outlives_the_process_and_damage() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval("let n = 1; n");
    assert!(dev.command(&["checkpoints", "s", "--label", "good"], "").status.success());
    dev.eval("n = 2");
    dev.kill();
    // Whoever comes next makes it a file.
    assert!(Dev::start(data.path(), &[]).terminate().success());
    let head = find(&data.path().join("store"), "head").expect("the head is a file");
    std::fs::write(&head, "damaged").unwrap();

    let dev = Dev::start(data.path(), &[]);
    let broken = dev.command(&["eval", "--session", "s", "n"], "");
    assert!(!broken.status.success() && broken.err.contains("SnapshotCorrupt"), "{}{}", broken.out, broken.err);
    let listed = dev.command(&["checkpoints", "s"], "");
    assert!(listed.out.contains("good") && listed.err.contains("this is what is left"), "{}{}", listed.out, listed.err);
    assert!(dev.command(&["restore", "s", "good"], "").status.success());
    assert_eq!(dev.eval("n"), "1");
    let unknown = dev.command(&["restore", "s", "nothing"], "");
    assert!(!unknown.status.success() && unknown.err.contains("no checkpoint `nothing`"), "{}", unknown.err);
}

/// The first file of this name below `folder`.
fn find(folder: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find_map(|path| if path.is_dir() { find(&path, name) } else { (path.file_name()? == name).then_some(path) })
}
