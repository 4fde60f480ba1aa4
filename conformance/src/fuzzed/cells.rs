//! Cells of any text.

use dormouse_cells::{Language, Options, compile};

use super::bytes::Bytes;

/// A language, then source. What compiles has positions for any line and column.
pub(super) fn cells(data: &[u8]) {
    let mut data = Bytes(data);
    let kind = data.u8();
    let language = match kind % 4 {
        0 => Language::Typescript,
        1 => Language::Javascript,
        2 => Language::Tsx,
        _ => Language::Jsx,
    };
    let source = String::from_utf8_lossy(data.0);
    let options = Options { language, filename: "f.ts".to_owned(), constants: ["a".to_owned(), "b".to_owned()].into() };
    match compile(&source, &options) {
        Ok(script) => {
            for (line, column) in [(0, 0), (1, 1), (1, u32::MAX), (u32::MAX, 1), (u32::from(kind), u32::from(kind)), (2, 3)] {
                let _ = script.original_position(line, column);
            }
        }
        Err(error) => assert!(!error.message.is_empty(), "a refusal says nothing"),
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let sources = [
        "\0const x: number = 1; x",
        "\0enum E { A = 1, B }\nnamespace N { export const c = 1 }",
        "\0@d class C { @d m<T>(x: T) { return x as unknown } accessor y = 1 }",
        "\x01import { a as b } from 'c'; await b(); export {}",
        "\x02const e = <A b={1}>{...c}</A>; <></>",
        "\x03for await (const [x, { y = 1 }] of z) { label: for (;;) break label }",
        "\0try { throw 1 } catch { `${a}${`b`}` } finally { a = 2; ({ a, ...b } = c) }",
        "\0function* f() { yield* g() } class D extends (class {}) { static { #x in D } #x = 1n }",
        "\0if (1) { 2 } else switch (3) { default: 4 }\n/(?<n>a)\\k<n>/v",
    ];
    sources.iter().map(|source| source.as_bytes().to_vec()).collect()
}
