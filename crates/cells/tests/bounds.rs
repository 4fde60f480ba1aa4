//! Cells that are refused for what they could cost, and cells that are not. What compiling takes is measured in `conformance`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use dormouse_cells::{Options, Script, SyntaxError, compile};

fn compiled(source: &str) -> Result<Script, SyntaxError> {
    compile(source, &Options::default())
}

#[test]
fn hostile_text_is_refused_in_words() {
    let refusal = |source: String| compiled(&source).unwrap_err().message;
    assert!(refusal("a<".repeat(5_000) + "a").contains("put a < b into parentheses"));
    assert!(refusal("a<{[".repeat(60) + "a").contains("put a < b into parentheses"));
    assert!(refusal("a=".repeat(200_000) + "a").contains("split it into several cells"));
    assert!(refusal("a;".repeat(400_000)).contains("split it into several cells"));
    assert!(refusal("a:".repeat(60_000) + "a").contains("labels"));
    assert!(refusal("with(a)".repeat(30_000) + "a").contains("labels"));
}

/// This project's own sources, some of them many times over; they may break rules of cells, but never those of size.
#[test]
fn honest_code_is_admitted() {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../guest/modules/web"))];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "js" || extension == "ts") {
                let source = std::fs::read_to_string(&path).unwrap();
                for times in [1, (256 << 10) / source.len().max(1)] {
                    let message = compiled(&source.repeat(times)).err().map(|error| error.message).unwrap_or_default();
                    assert!(!message.contains("split") && !message.contains("parentheses"), "{}: {message}", path.display());
                }
                files += 1;
            }
        }
    }
    assert!(files > 10, "the folder has moved");
    let line = "for (let i = 0; i < rows.length && rows[i].size < max; i++) { total += rows[i].price / 2 * (i < 3 ? 1.5 : 1); }\n";
    assert!(compiled(&line.repeat(2_000)).is_ok());
    let data = format!("const data = [{}]", "{ \"name\": \"a name\", \"value\": -12.5, \"tags\": [\"x\", \"y\"] },\n".repeat(4_000));
    assert!(compiled(&data).is_ok());
}
