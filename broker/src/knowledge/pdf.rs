//! PDF (ISO 32000) as text, page by page.
//!
//! The library that reads it panics at some documents and may be made to take any time and memory by others. So it runs in a process of its own: this
//! program once more, with limits that the system keeps, and without environment but for its allocator's. Where memory runs out it is ended before the
//! broker. Whatever becomes of it, the broker goes on and leaves the document out.

use std::{
    io::{Read as _, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, ExitCode, Stdio},
};

use dormouse_crds::knowledge::KNOWLEDGE_DOCUMENT_BYTES_MAX;
use pdf_extract::{Document, PlainTextOutput, output_doc_page};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::parse::{Heading, heading};

/// The first argument of the process that reads a document. The second is its mark.
const ASKED: &str = "read-pdf";
/// Bytes of address space that it may have, and seconds of processor time.
const MEMORY_BYTES_MAX: u64 = 384 << 20;
const PROCESSOR_SECONDS_MAX: u64 = 20;
/// Has the allocator take memory piece by piece: what it had reserved before the limit is set would not count.
const NOTHING_RESERVED: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "0");
/// How much rather than others it is ended where memory runs out (`proc_pid_oom_score_adj(5)`).
const ENDED_RATHER: &str = "1000";
/// Pages that are read.
const PAGES_MAX: usize = 5_000;
/// Bytes that it may answer: the text, each character of which may be quoted as six.
const ANSWER_BYTES_MAX: u64 = 6 * KNOWLEDGE_DOCUMENT_BYTES_MAX as u64 + (1 << 20);

/// What the process says after its mark.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    /// The text of each page; none of one that cannot be read.
    Pages(Vec<Option<String>>),
    Wrong(String),
}

/// What a process does that was started to read a document: a `main` that may be one calls this first, and ends with what it answers.
#[must_use]
pub fn read_pdf_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    let mark = (args.next()? == ASKED).then(|| args.next())??;
    let said = limited().and_then(|()| read());
    let said = said.map_or_else(Said::Wrong, Said::Pages);
    // The library may have printed something.
    let told = serde_json::to_string(&said).ok().and_then(|said| write!(std::io::stdout(), "\n{mark}\n{said}").ok());
    Some(if told.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn limited() -> Result<(), String> {
    // Only Linux has it.
    let _ = std::fs::write("/proc/self/oom_score_adj", ENDED_RATHER);
    for (resource, most) in [(Resource::As, MEMORY_BYTES_MAX), (Resource::Cpu, PROCESSOR_SECONDS_MAX), (Resource::Core, 0)] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| format!("cannot be read: no limit can be set: {error}"))?;
    }
    Ok(())
}

fn read() -> Result<Vec<Option<String>>, String> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    let none = || "is no PDF that can be read".to_owned();
    let mut document = catch_unwind(|| Document::load_mem(&bytes).ok()).ok().flatten().ok_or_else(none)?;
    // Without a password some can be read.
    if document.is_encrypted() && !catch_unwind(AssertUnwindSafe(|| document.decrypt("").is_ok())).unwrap_or(false) {
        return Err("has a password".to_owned());
    }
    let count = document.get_pages().len();
    if count > PAGES_MAX {
        return Err(format!("has more than {PAGES_MAX} pages"));
    }
    let page = |number: usize| {
        let mut text = String::new();
        let mut output = PlainTextOutput::new(&mut text);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let read = catch_unwind(AssertUnwindSafe(|| output_doc_page(&document, &mut output, number).is_ok())).unwrap_or(false);
        read.then_some(text)
    };
    let (mut pages, mut text_bytes): (Vec<Option<String>>, usize) = (Vec::new(), 0);
    for page in (1..=count).map(page) {
        text_bytes += page.as_ref().map_or(0, String::len);
        if text_bytes > KNOWLEDGE_DOCUMENT_BYTES_MAX {
            return Err(format!("has more than {KNOWLEDGE_DOCUMENT_BYTES_MAX} bytes of text"));
        }
        pages.push(page);
    }
    if pages.iter().all(Option::is_none) { Err(none()) } else { Ok(pages) }
}

/// The text of a document, and a heading for each page. Takes as long as the process that reads it.
///
/// # Errors
/// It is none, or could not be read within the limits.
pub(super) fn text_of_pdf(bytes: &[u8]) -> Result<(String, Vec<Heading>), String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let mark = uuid::Uuid::new_v4().to_string();
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    let (option, value) = NOTHING_RESERVED;
    command
        .args([ASKED, &mark])
        .env_clear()
        .env(option, value)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    // It reads to the end before it says anything. One that has ended is told by what it says.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(bytes);
    }
    let mut answer = Vec::new();
    let answered = child.stdout.take().map(|output| output.take(ANSWER_BYTES_MAX).read_to_end(&mut answer));
    // One that says more than it may is not waited for.
    let _ = child.kill();
    let _ = child.wait();
    answered.transpose().map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer);
    let said = answer.split_once(&format!("\n{mark}\n")).and_then(|(_, said)| serde_json::from_str(said).ok());
    match said {
        Some(Said::Pages(pages)) => Ok(together(&pages)),
        Some(Said::Wrong(why)) => Err(why),
        None => Err(format!("takes more than {PROCESSOR_SECONDS_MAX} s or {MEMORY_BYTES_MAX} bytes to be read, or is no PDF that can be")),
    }
}

/// The pages under each other.
fn together(pages: &[Option<String>]) -> (String, Vec<Heading>) {
    let (mut text, mut headings) = (String::new(), Vec::new());
    for (number, page) in (1..).zip(pages) {
        headings.push(heading(text.len(), 1, &format!("Page {number}")));
        let lines = page.as_deref().unwrap_or("[this page cannot be read]").lines().map(str::trim_end);
        let mut empty = true;
        for line in lines {
            // Lines that are empty stand for distances: one is enough.
            if !(line.is_empty() && empty) {
                text.push_str(line);
                text.push('\n');
            }
            empty = line.is_empty();
        }
    }
    (text, headings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_sections() {
        let pages = [Some("\n\nOne \n\n\n\ntwo\n".to_owned()), None, Some(String::new())];
        let (text, headings) = together(&pages);
        assert_eq!(text, "One\n\ntwo\n[this page cannot be read]\n");
        let at: Vec<(usize, &str)> = headings.iter().map(|heading| (heading.at, heading.text.as_str())).collect();
        assert_eq!(at, [(0, "Page 1"), (9, "Page 2"), (36, "Page 3")]);
    }

    #[test]
    fn a_process_that_is_no_reader_is_told_as_one_that_failed() {
        // The test's own program says something else.
        assert!(text_of_pdf(b"%PDF-1.4").map(drop).unwrap_err().contains("is no PDF"));
    }
}
