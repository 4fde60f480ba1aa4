//! What compiling a cell takes, whatever its text: heap as its allocator counts it, and a stack that holds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use dormouse_cells::{HEAP_BYTES_MAX, Language, NESTING_MAX, Options, SOURCE_BYTES_MAX, Script, SyntaxError, compile};
use peak_alloc::PeakAlloc;
use proptest::{
    collection,
    prelude::any,
    sample,
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};

/// Counts what is allocated, and the most that was at once.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What is repeated, before and after a middle, and what makes the whole a cell: before, repeated, middle, repeated after, after.
type Family = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// `#` is another number each time.
const FAMILIES: &[Family] = &[
    ("", "a<", "a", "", ""),
    ("", "a<b,", "a", "", ""),
    ("a", "<b>(1)", "", "", ""),
    ("", "a<b>(", "1", ")", ""),
    ("", "a<", "b", ">(1)", ""),
    ("", "a<b>,", "c", "", ""),
    ("", "a<{[", "a", "", ""),
    ("", "a<{[a<b]:(", "a", ")}>", ""),
    ("", "a<(b=", "a", ")=>c>", ""),
    ("", "a<(", "a", "", ""),
    ("", "a</*;*/", "a", "", ""),
    ("", "a<'b'|", "a", "", ""),
    ("", "a<`;${", "a", "", ""),
    ("", "<a>(b)=>", "c", "", ""),
    ("type T=", "A<", "a", ">", ""),
    ("type T=", "keyof ", "a", "", ""),
    ("type T=a", "[]", "", "", ""),
    ("type T=", "()=>", "a", "", ""),
    ("type T=", "a|", "a", "", ""),
    ("type T=", "a extends b?c:", "a", "", ""),
    ("type T=", "a extends (infer b extends (", "a", "?a:a)?a:a)", ""),
    ("", "!", "a", "", ""),
    ("", "- ", "a", "", ""),
    ("", "a=>", "a", "", ""),
    ("", "async a=>", "a", "", ""),
    ("", "a=", "a", "", ""),
    ("", "a**", "a", "", ""),
    ("", "a?a:", "a", "", ""),
    ("", "a?", "a", ":a", ""),
    ("", "a?(b)=>", "a", "", ""),
    ("", "a?(b):", "a", "", ""),
    ("", "(a=", "a", ")=>a", ""),
    ("", "a+", "a", "", ""),
    ("", "a.", "a", "", ""),
    ("a", "()", "", "", ""),
    ("a", "[0]", "", "", ""),
    ("a", "!", "", "", ""),
    ("a", " as a", "", "", ""),
    ("a", "``", "", "", ""),
    ("", "typeof ", "a", "", ""),
    ("", "await ", "a", "", ""),
    ("", "new ", "a", "", ""),
    ("", "if(a)", "a", "", ""),
    ("", "if(a);else ", "a", "", ""),
    ("", "do ", "a", ";while(a)", ""),
    ("", "a#:", "a", "", ""),
    ("", "for(;;)", "a", "", ""),
    ("", "<a>", "a", "</a>", ""),
    ("", "<a b=\"c\"/>,", "a", "", ""),
    ("", "`${", "a", "}`", ""),
    ("", "(", "a", ")", ""),
    ("", "[", "a", "]", ""),
    ("", "{", "a", "}", ""),
    ("let ", "[", "a", "]", "=b"),
    ("", "@a ", "class A{}", "", ""),
    ("", "0,", "0", "", ""),
    ("", "\"\",", "0", "", ""),
    ("", "/a/,", "0", "", ""),
    ("", "a;", "", "", ""),
    ("", "let a#;", "", "", ""),
    ("", "import a# from\"b\";", "", "", ""),
    ("", "import(\"a\");", "", "", ""),
    ("", "enum A#{B}", "", "", ""),
    ("", "namespace A#{export const b=1}", "", "", ""),
    ("", "namespace A{", "", "}", ""),
    ("", "class A#{constructor(public a=1){}}", "", "", ""),
    ("", "class A#{@b c(){}}", "", "", ""),
    ("", "class A#{accessor a}", "", "", ""),
    ("", "function a(){}", "", "", ""),
    ("", "(a,b)=>{},", "c", "", ""),
    ("", "try{}catch(a){}", "", "", ""),
    ("", "/*a*/", "a", "", ""),
    ("'", "\\u0041", "", "", "'"),
    ("/", "(?:", "a", ")", "/"),
    ("/", "[a-z]", "", "", "/v"),
];

fn text(family: &Family, times: usize) -> String {
    let (before, repeated, middle, repeated_after, after) = family;
    let mut text = String::from(*before);
    for number in 0..times {
        match repeated.split_once('#') {
            Some((head, tail)) => text.push_str(&format!("{head}{number}{tail}")),
            None => text.push_str(repeated),
        }
    }
    text + middle + &repeated_after.repeat(times) + after
}

fn compiled(source: &str, language: Language) -> (Result<Script, SyntaxError>, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let compiled = compile(source, &Options { language, ..Options::default() });
    (compiled, ALLOCATOR.peak_usage() - before)
}

fn assert_bounded(source: &str, language: Language) {
    let (compiled, bytes) = compiled(source, language);
    let head: String = source.chars().take(80).collect();
    assert!(bytes as u64 <= HEAP_BYTES_MAX, "{bytes} bytes of heap for {} bytes of {head:?}: {:?}", source.len(), compiled.err());
}

/// One test, because what is counted is the whole process's.
#[test]
fn no_text_takes_more_heap_or_stack_than_a_compilation_may() {
    for family in FAMILIES {
        let language = if family.1.starts_with("<a") { Language::Tsx } else { Language::Typescript };
        let period = family.1.len() + family.3.len();
        let mut times = 1;
        while times * period < SOURCE_BYTES_MAX {
            assert_bounded(&text(family, times), language);
            assert_bounded(&format!("enum Q {{ R }}\n{}", text(family, times)), language);
            times += times / 4 + 1;
        }
        assert_bounded(&text(family, NESTING_MAX), language);
    }
    mixtures_are_bounded();
    hostile_text_is_refused_in_words();
    honest_code_is_admitted();
}

fn mixtures_are_bounded() {
    const FRAGMENTS: &[&str] = &[
        "a",
        "<",
        ">",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "=",
        "=>",
        "?",
        ":",
        "b",
        "|",
        "&",
        " infer c extends ",
        " extends ",
        "`",
        "${",
        "'x'",
        "/",
        "/*;*/",
        " new ",
        " typeof ",
        ";",
        "\n",
        "...",
        "async ",
        "=>{",
        "</a>",
        "@d ",
        "!",
        ".",
        " await ",
        "1",
        " in ",
        " as ",
        "enum E",
    ];
    let mut runner = TestRunner::deterministic();
    let unit = collection::vec(sample::select(FRAGMENTS), 1..8);
    let strategy = (unit.clone(), unit.clone(), unit, 0_u32..18, any::<bool>());
    for _ in 0..600 {
        let (first, middle, last, size, is_tsx) = strategy.new_tree(&mut runner).unwrap().current();
        let (first, last) = (first.concat(), last.concat());
        let times = ((1 << size) / (first.len() + last.len())).max(1);
        let source = first.repeat(times) + &middle.concat() + &last.repeat(times);
        assert_bounded(&source, if is_tsx { Language::Tsx } else { Language::Typescript });
    }
}

fn hostile_text_is_refused_in_words() {
    let refusal = |source: String| compiled(&source, Language::Typescript).0.unwrap_err().message;
    assert!(refusal("a<".repeat(5_000) + "a").contains("put a < b into parentheses"));
    assert!(refusal("a<{[".repeat(60) + "a").contains("put a < b into parentheses"));
    assert!(refusal("a=".repeat(200_000) + "a").contains("split it into several cells"));
    assert!(refusal("a;".repeat(400_000)).contains("split it into several cells"));
    assert!(refusal("a:".repeat(60_000) + "a").contains("labels"));
}

/// This project's own sources, some of them many times over; they may break rules of cells, but never those of size.
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
                    let message =
                        compiled(&source.repeat(times), Language::Typescript).0.err().map(|error| error.message).unwrap_or_default();
                    assert!(!message.contains("split") && !message.contains("parentheses"), "{}: {message}", path.display());
                }
                files += 1;
            }
        }
    }
    assert!(files > 10, "the folder has moved");
    let line = "for (let i = 0; i < rows.length && rows[i].size < max; i++) { total += rows[i].price / 2 * (i < 3 ? 1.5 : 1); }\n";
    assert!(compiled(&line.repeat(2_000), Language::Typescript).0.is_ok());
    let data = format!("const data = [{}]", "{ \"name\": \"a name\", \"value\": -12.5, \"tags\": [\"x\", \"y\"] },\n".repeat(4_000));
    assert!(compiled(&data, Language::Typescript).0.is_ok());
}
