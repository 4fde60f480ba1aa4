//! Hostile nesting: cells of up to 1 MiB that repeat what nests, what follows another and what is read twice, mixed as the input says.
//!
//! A compilation takes at most [`HEAP_BYTES_MAX`] of heap, [`GROWTH_BYTES_MAX`] of the process's memory and [`CPU_MAX`] of its processor time, and
//! either compiles or says why not. What calls the target has [`PeakAlloc`] for its allocator.

use std::time::Duration;

use dormouse_cells::{HEAP_BYTES_MAX, Language, Options, SOURCE_BYTES_MAX, compile};
use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};

use super::bytes::Bytes;

/// What the system may say that the process has grown by, stack and all.
const GROWTH_BYTES_MAX: u64 = HEAP_BYTES_MAX;
/// Processor time of one compilation: more than twice what the dearest takes on a machine that does nothing else.
const CPU_MAX: Duration = Duration::from_secs(4);
/// The bit of the language that has the cell printed anew, and not left as it is.
const PRINTED: u8 = 4;
/// Constructs that one input mixes.
const CONSTRUCTS_MAX: u8 = 6;
/// Bytes of text of its own that it mixes in.
const TEXT_BYTES_MAX: usize = 48;

/// What is repeated, before and after a middle, and what makes the whole a cell: before, repeated, middle, repeated after, after. `#` is another
/// number each time.
type Construct = (&'static str, &'static str, &'static str, &'static str, &'static str);

const CONSTRUCTS: &[Construct] = &[
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
    ("", "class A{b(){", "", "}}", ""),
    ("", "class extends ", "A", "{}", ""),
    ("(", "class{[", "a", "]=1}", ")"),
    ("(", "class{static{", "a", "}}", ")"),
    ("(", "class{#a#=", "a", "}", ")"),
    ("", "a#b(){", "", "},", ""),
    ("(", "{a:", "a", "}", ")"),
    ("(", "{...", "a", "}", ")"),
    ("(", "{get a(){return", " a", "}}", ")"),
    ("(", "function(){return ", "a", "}", ")"),
    ("", "function a(){", "", "}", ""),
    ("", "function*a(){yield ", "a", "}", ""),
    ("", "async()=>await ", "a", "", ""),
    ("", "(a)=>{", "", "}", ""),
    ("", "({a=", "a", "})=>a", ""),
    ("let ", "{a:", "a", "}", "=b"),
    ("let ", "{a=", "a", "}", "=b"),
    ("[", "[a=", "a", "]", "]=b"),
    ("", "a?.", "a", "", ""),
    ("a", "?.[0]", "", "", ""),
    ("a", "?.()", "", "", ""),
    ("", "a??", "a", "", ""),
    ("", "a||", "a", "", ""),
    ("", "a&&(", "a", ")", ""),
    ("", "a,", "a", "", ""),
    ("", "a<", "b", ">c", ""),
    ("", "a satisfies ", "b", "", ""),
    ("", "a instanceof ", "b", "", ""),
    ("", "#a# in ", "b", "", ""),
    ("", "void delete ", "a", "", ""),
    ("", "++", "a", "", ""),
    ("a", "++\n", "", "", ""),
    ("", "...", "a", "", ""),
    ("f(", "...[", "a", "]", ")"),
    ("", "a`${", "a", "}`", ""),
    ("", "new a(", "a", ")", ""),
    ("", "import(", "a", ")", ""),
    ("", "super.", "a", "", ""),
    ("", "while(a)", "a", "", ""),
    ("", "with(a)", "a", "", ""),
    ("", "switch(a){case ", "a", ":}", ""),
    ("switch(a){", "case a:", "", "", "}"),
    ("", "try{", "", "}finally{}", ""),
    ("", "for(let a of ", "a", ");", ""),
    ("", "for await(a of b)", "a", "", ""),
    ("", "label#:{", "", "}", ""),
    ("", "throw ", "a", "", ""),
    ("", "using a#=b;", "", "", ""),
    ("", "export const a#=1;", "", "", ""),
    ("", "export{a as b#};", "", "", ""),
    ("", "export*from\"a\";", "", "", ""),
    ("import{", "a as b#,", "", "", "}from\"c\""),
    ("import a from\"b\"with{", "c#:\"d\",", "", "", "}"),
    ("", "declare module\"a#\"{}", "", "", ""),
    ("", "declare namespace A{", "", "}", ""),
    ("", "abstract class A#{abstract b():c}", "", "", ""),
    ("", "interface A#{b:c}", "", "", ""),
    ("interface A ", "extends B,", "C", "", "{}"),
    ("type T=", "{a:", "a", "}", ""),
    ("type T=", "{[K in ", "a", "]:b}", ""),
    ("type T=", "[", "a", "]", ""),
    ("type T=", "[...", "a", "]", ""),
    ("type T=", "(", "a", ")", ""),
    ("type T=", "a&", "a", "", ""),
    ("type T=", "|a", "", "", ""),
    ("type T=", "A<a,", "a", ">", ""),
    ("type T=a", "[\"b\"]", "", "", ""),
    ("type T=", "`${", "a", "}`", ""),
    ("type T=", "typeof import(\"a\").", "b", "", ""),
    ("type T=", "new()=>", "a", "", ""),
    ("type T=", "abstract new<A>(b:", "a", ")=>c", ""),
    ("type T=", "<A extends ", "a", ">()=>b", ""),
    ("type T=", "readonly ", "a[]", "", ""),
    ("type T=", "asserts a is ", "a", "", ""),
    ("type T<", "A#=b,", "A", "", ">=c"),
    ("function a(b:", "{c:", "d", "}", "){}"),
    ("function a(", "this:b,", "c", "", "){}"),
    ("", "function a(b:c):d;", "", "", ""),
    ("", "<T,>(a:T)=>", "a", "", ""),
    ("", "async<T>(a)=>", "a", "", ""),
    ("", "@(a)class A#{}", "", "", ""),
    ("", "@a(@b class{})", "class A{}", "", ""),
    ("class A{", "@a b#;", "", "", "}"),
    ("class A{", "declare b#:c;", "", "", "}"),
    ("class A{constructor(", "@a private readonly b#:c,", "", "", "){}}"),
    ("enum A{", "B#=1<<2,", "", "", "}"),
    ("enum A{", "B#=B|", "1", "", "}"),
    ("", "<a b={", "c", "}/>", ""),
    ("", "<a>{", "b", "}</a>", ""),
    ("", "<>", "a", "</>", ""),
    ("", "<a {...", "b", "}/>", ""),
    ("/", "(?<a#>b)", "", "", "/"),
    ("/", "(?=", "a", ")", "/"),
    ("/", "(?<!", "a", ")?", "/"),
    ("/", "a|", "a", "", "/"),
    ("/", "a{1,2}", "", "", "/"),
    ("/", "\\u{1f600}", "", "", "/u"),
    ("/", "[a&&[", "b", "]]", "/v"),
    ("/", "[^\\p{L}--[", "b", "]]", "/v"),
    ("/", "\\k<a>", "", "", "(?<a>b)/"),
    ("\"", "\\x41\\\n", "", "", "\""),
    ("`", "\\u{41}$", "", "", "`"),
    ("'", "é😀", "", "", "'"),
    ("", "//a\n", "a", "", ""),
    ("/*", "*", "", "", "*/"),
    ("", "\n", "a", "", ""),
    ("", "\u{2028}", "a", "", ""),
    ("", "1n+0x1f+1e9+.5+", "a", "", ""),
    ("", "\"use strict\";", "", "", ""),
    ("", "var a#=", "a", ";", ""),
    ("", "(", "", "", ""),
    ("", "{", "", "", ""),
    ("", "[", "", "", ""),
    ("", "<", "", "", ""),
    ("", "`${", "", "", ""),
    ("", ")", "", "", ""),
    ("", "}", "", "", ""),
];

/// How it is compiled, a size, how many constructs and which, and text of its own. The first construct says what stands around the whole.
fn source(data: &[u8]) -> (Language, String) {
    let mut data = Bytes(data);
    let kind = data.u8();
    let language = match kind % 4 {
        0 => Language::Typescript,
        1 => Language::Tsx,
        2 => Language::Javascript,
        _ => Language::Jsx,
    };
    let (power, part) = (u32::from(data.u8()) % SOURCE_BYTES_MAX.ilog2(), usize::from(data.u8()));
    let bytes = (1 << power) + ((1 << power) * part) / usize::from(u8::MAX);
    let count = data.u8() % CONSTRUCTS_MAX + 1;
    let chosen: Vec<&Construct> = (0..count).filter_map(|_| CONSTRUCTS.get(usize::from(data.u8()) % CONSTRUCTS.len())).collect();
    let text = String::from_utf8_lossy(data.piece(TEXT_BYTES_MAX));
    let open: String = chosen.iter().map(|construct| construct.1).chain([&*text]).collect();
    let close: String = chosen.iter().rev().map(|construct| construct.3).collect();
    let (before, _, middle, _, after) = chosen.first().copied().copied().unwrap_or_default();
    let times = (bytes / (open.len() + close.len()).max(1)).max(1);
    let mut source = String::from(if kind & PRINTED == 0 { "" } else { "enum Q { R }\n" });
    source.push_str(before);
    for number in 0..times {
        source.push_str(&open.replace('#', &number.to_string()));
    }
    (language, source + middle + &close.repeat(times) + after)
}

/// Compiles what the input describes, and asserts what it may cost.
///
/// # Panics
/// It costs more.
pub fn nesting(data: &[u8]) {
    let (language, source) = source(data);
    let (began_at, resident, allocated) = (clock_gettime(ClockId::ProcessCPUTime), reset_peak(), PeakAlloc.current_usage());
    assert!(allocated > 0, "PeakAlloc must be the global allocator of whoever calls this");
    PeakAlloc.reset_peak_usage();
    let compiled = compile(&source, &Options { language, ..Options::default() });
    let heap = PeakAlloc.peak_usage().saturating_sub(allocated) as u64;
    let (grown, ended_at) = (peak().saturating_sub(resident), clock_gettime(ClockId::ProcessCPUTime));
    let took = Duration::try_from(ended_at).unwrap_or_default().saturating_sub(Duration::try_from(began_at).unwrap_or_default());
    let said = compiled.as_ref().err().map(|error| error.message.as_str());
    let start: String = source.chars().take(120).collect();
    assert!(said.is_none_or(|message| !message.is_empty()), "a refusal says nothing: {start:?}");
    assert!(heap <= HEAP_BYTES_MAX, "{heap} bytes of heap for {} bytes of {start:?}: {said:?}", source.len());
    assert!(grown <= GROWTH_BYTES_MAX, "{grown} bytes of memory for {} bytes of {start:?}: {said:?}", source.len());
    assert!(took <= CPU_MAX, "{took:?} for {} bytes of {start:?}: {said:?}", source.len());
}

/// Bytes that the process has in memory; forgets the most that it has had. Zero where the system does not say: Linux does.
fn reset_peak() -> u64 {
    let known = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    if known { status("VmRSS:") } else { u64::MAX }
}

/// The most that it has had since.
fn peak() -> u64 {
    status("VmHWM:")
}

fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Inputs that have every construct by itself, left as it is and printed, from a byte to as much as a cell may be: at each power of two its least, its
/// middle and its most when it is the `whole`, else one of them in turn.
#[must_use]
pub fn every_construct(whole: bool) -> Vec<Vec<u8>> {
    const PARTS: [u8; 3] = [0, 120, 254];
    let mut inputs = Vec::new();
    for number in 0..CONSTRUCTS.len() {
        let tsx = u8::from(CONSTRUCTS.get(number).is_some_and(|it| it.1.starts_with("<a") || it.1.starts_with("<>")));
        for power in 0..u8::try_from(SOURCE_BYTES_MAX.ilog2()).unwrap_or(0) {
            let turn = (number + usize::from(power)) % PARTS.len();
            for part in PARTS.iter().enumerate().filter(|(at, _)| whole || *at == turn).map(|(_, part)| *part) {
                inputs.extend([tsx, tsx | PRINTED].map(|kind| vec![kind, power, part, 0, u8::try_from(number).unwrap_or(0)]));
            }
        }
    }
    inputs
}

/// Mixtures: what nests in what closes elsewhere, and text of its own.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new(), b"\0\x10\0\x05\0\x01\x02\x03\x04\x05type T = {".to_vec()];
    seeds.extend(
        (0..24_u8).map(|n| {
            vec![n % 8, 10 + n % 10, n * 10, 1 + n % 5, n * 8, n * 7 + 1, n * 5 + 2, n * 3 + 3, n * 2 + 4, n + 5, b'a', b'<', b'(']
        }),
    );
    seeds
}
