//! What each step of the story took.

use std::{
    fmt::Write as _,
    future::Future,
    io::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// The steps so far.
#[derive(Debug, Default)]
pub struct Steps {
    rows: Vec<(String, Duration)>,
}

impl Steps {
    /// Runs a step, says that it is over, and remembers its time.
    ///
    /// # Errors
    /// The step's own, with its name.
    pub async fn run<T>(&mut self, name: &str, step: impl Future<Output = Result<T>>) -> Result<T> {
        let begin = Instant::now();
        let outcome = step.await.with_context(|| format!("step: {name}"))?;
        self.add(name, begin.elapsed());
        Ok(outcome)
    }

    /// Remembers a time that was measured elsewhere.
    pub fn add(&mut self, name: &str, took: Duration) {
        say(&format!("  {:>7} ms  {name}\n", took.as_millis()));
        self.rows.push((name.to_owned(), took));
    }

    /// A table in Markdown.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::from("| step | ms |\n|---|---|\n");
        for (name, took) in &self.rows {
            let _ = writeln!(text, "| {name} | {} |", took.as_millis());
        }
        text
    }
}

/// Writes to the terminal past the test runner, which keeps what a passing test prints.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
