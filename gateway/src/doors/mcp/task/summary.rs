//! What is said of a task to whoever comes back, or takes it over.

use super::kept::{Task, Tasks};

/// What to do first, for whoever comes back.
pub(super) fn hint(tasks: &Tasks) -> String {
    let past = tasks.past_failures();
    let past: Vec<_> = past.iter().map(|past| format!("{} (in: {})", past.failure, past.goal)).collect();
    let past = if past.is_empty() { String::new() } else { format!(" Failed in earlier tasks: {}.", past.join("; ")) };
    let Some(task) = &tasks.current else { return format!("No task is open in this session.{past}") };
    let mut hint = format!("Goal: {}. ", task.goal);
    match task.in_progress.first() {
        Some(step) => hint.push_str(&format!("Under way when it was left: {step}. Look whether it was done before you do it again. ")),
        None => hint.push_str("Nothing was under way when it was left. "),
    }
    for it in &task.interruptions {
        let checkpoint = it.checkpoint.as_ref().map(|id| format!(" (the state behind it is checkpoint {id})")).unwrap_or_default();
        hint.push_str(&format!("Cut off at {}: {}{checkpoint}. ", it.at, it.what));
    }
    let lists = [
        ("Blocked", &task.blocked),
        ("Do not do again", &task.must_not_redo),
        ("Keep as it is", &task.must_preserve),
        ("Failed before", &task.failures),
    ];
    for (title, entries) in lists.iter().filter(|(_, entries)| !entries.is_empty()) {
        hint.push_str(&format!("{title}: {}. ", entries.join("; ")));
    }
    hint.push_str("The session's variables and files are as they were.");
    hint.push_str(&past);
    hint
}

pub(super) fn text(session: &str, task: &Task) -> String {
    let mut text = format!("# {}\n\nSession: {session}\n", task.goal);
    let lists = [
        ("Done", &task.done),
        ("In progress", &task.in_progress),
        ("Blocked", &task.blocked),
        ("Must not be done again", &task.must_not_redo),
        ("Must stay as it is", &task.must_preserve),
        ("Failed before", &task.failures),
    ];
    for (title, entries) in lists.iter().filter(|(_, entries)| !entries.is_empty()) {
        text.push_str(&format!("\n## {title}\n"));
        entries.iter().for_each(|entry| text.push_str(&format!("- {entry}\n")));
    }
    if !task.interruptions.is_empty() {
        text.push_str("\n## Cut off\n");
        task.interruptions.iter().for_each(|it| text.push_str(&format!("- {}: {}\n", it.at, it.what)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{super::kept::Interruption, *};

    #[test]
    fn a_hint_names_all_that_whoever_comes_back_must_know() {
        let list = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
        let interruption =
            Interruption { what: "cell 7 ended with Interrupted".to_owned(), at: "noon".to_owned(), checkpoint: Some("12".to_owned()) };
        let task = Task {
            goal: "ship".to_owned(),
            in_progress: list(&["build"]),
            blocked: list(&["a review"]),
            must_not_redo: list(&["mail"]),
            must_preserve: list(&["/data"]),
            failures: list(&["first", "second"]),
            interruptions: vec![interruption],
            ..Task::default()
        };
        let mut tasks = Tasks { current: Some(task.clone()), history: Vec::new() };
        tasks.close(Task { goal: "plan".to_owned(), failures: list(&["third"]), ..Task::default() }, "completed");
        let said = hint(&tasks);
        for part in [
            "ship",
            "build",
            "a review",
            "mail",
            "/data",
            "first; second",
            "third (in: plan)",
            "cell 7 ended with Interrupted",
            "checkpoint 12",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(text("s", &task).contains("cell 7 ended with Interrupted"));
    }
}
