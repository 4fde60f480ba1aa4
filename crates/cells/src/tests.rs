//! Cells by table, and the scripts they become, run by node.

use std::process::Command;

use super::*;

fn script(source: &str) -> Script {
    compile(source, &Options::default()).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn code(source: &str) -> String {
    script(source).code.trim().to_owned()
}

fn error(source: &str) -> SyntaxError {
    compile(source, &Options::default()).expect_err(source)
}

#[test]
fn top_level_declarations_become_var() {
    let table = [
        ("const x: number = 1", "var x = 1;\nvoid 0;"),
        ("let x = 1; x", "var x = 1;\nx;"),
        ("let x", "var x = void 0;\nvoid 0;"),
        ("var x", "var x;\nvoid 0;"),
        ("const {a, b: [c]} = o", "var { a, b: [c] } = o;\nvoid 0;"),
        ("{ let x = 1 }", "{\nlet x = 1;\n}"),
        ("for (const x of y) f(x)", "for (const x of y) f(x);"),
        ("class A {}", "var A = class A {};\nvoid 0;"),
        ("class A<T> extends B<T> implements C {}", "var A = class A extends B {};\nvoid 0;"),
        ("abstract class A { abstract f(): void }", "var A = class A {};\nvoid 0;"),
        ("function f(x: number): void {}", "function f(x) {}\nvoid 0;"),
        ("5; type A = string", "5;\nvoid 0;"),
    ];
    for (source, expected) in table {
        assert_eq!(code(source), expected, "{source}");
    }
}

#[test]
fn types_leave_nothing_behind() {
    for source in [
        "type A = { a: string }",
        "interface A { a: string }",
        "declare const x: number",
        "declare function f(): void",
        "import type { A } from 'a'",
    ] {
        assert_eq!(code(source), "void 0;", "{source}");
    }
    for source in ["", "  \n", "// nothing", "/* nothing */"] {
        let code = code(source);
        assert!(!code.contains("void"), "{source}: {code}");
    }
}

#[test]
fn only_the_top_level_makes_a_cell_async() {
    for source in [
        "await f()",
        "const x = await f()",
        "(await f()).y",
        "for await (const x of y) {}",
        "if (a) { await b }",
        "await (x)",
        "await [x]",
        "await /x/.exec('')",
        "{a: await b}",
        "class A extends (await f()) {}",
        "`${await x}`",
    ] {
        assert!(script(source).is_async, "{source}");
    }
    for source in ["async () => await f()", "async function f() { for await (const x of y) {} }", "1", "class A { async f() { await x } }"]
    {
        assert!(!script(source).is_async, "{source}");
    }
    assert!(!script("var await = 1; await + 1").is_async, "a script may use the word as a name");
}

#[test]
fn a_lone_object_literal_is_a_value() {
    for source in ["{a: 1}", "{}", " {a: 1} // why", "// first\n{a: 1}", "{a, b}", "{...a}"] {
        assert!(code(source).trim_end_matches(&[';', '\n'][..]).ends_with("})"), "{source}: {}", code(source));
    }
    for source in ["{a: 1};", "{ f() }", "{ let a = 1; a }", "{a: 1}\n{b: 2}"] {
        assert!(!code(source).contains("({"), "{source}: {}", code(source));
    }
}

#[test]
fn what_a_script_cannot_give_is_refused_with_advice() {
    let table = [
        ("1;\nimport x from 'm' with { type: 'json' }", (2, 1), "import attributes"),
        ("export const x = 1", (1, 1), "remove the word"),
        ("export default 1", (1, 1), "remove the word"),
        ("using x = y", (1, 1), "using is not supported"),
        ("{ using x = y }", (1, 3), "using is not supported"),
        ("@d class A {}", (1, 1), "decorators are not supported"),
        ("f(import.meta.url)", (1, 3), "import.meta is not supported"),
    ];
    for (source, at, message) in table {
        let error = error(source);
        assert!(error.message.contains(message), "{source}: {error}");
        assert_eq!((error.line, error.column), at, "{source}: {error}");
        assert!(!error.at_end, "{source}");
    }
    assert!(code("await import('m')").contains("import(\"m\")"), "a dynamic import is the engine's to answer");
}

#[test]
fn imports_become_declarations() {
    let absent = |name: &str| {
        format!("await Promise.reject(new SyntaxError(\"The requested module 'm' does not provide an export named '{name}'\"))")
    };
    let table = [
        ("import x from 'm'", "var { default: x } = await import(\"m\");\nvoid 0;".to_owned()),
        ("import * as n from 'm'", "var n = await import(\"m\");\nvoid 0;".to_owned()),
        ("import 'm'", "var {} = await import(\"m\");\nvoid 0;".to_owned()),
        ("import d, * as n from 'm'", "var n = await import(\"m\"), { default: d } = await import(\"m\");\nvoid 0;".to_owned()),
        ("import { a as b } from 'm'", format!("var {{ a: b = {} }} = await import(\"m\");\nvoid 0;", absent("a"))),
        ("f(x); import x from 'm'", "var { default: x } = await import(\"m\");\nf(x);".to_owned()),
        ("import { type A, b } from 'm'; b", format!("var {{ b = {} }} = await import(\"m\");\nb;", absent("b"))),
        ("import { A } from 'm'; let x: A", "var { A } = await import(\"m\");\nvar x = void 0;\nvoid 0;".to_owned()),
        ("import x = require('m')", "var x = require(\"m\");\nvoid 0;".to_owned()),
    ];
    for (source, expected) in table {
        assert_eq!(code(source), expected, "{source}");
    }
    assert!(script("import x from 'm'").is_async);
    assert!(!script("import x = require('m')").is_async);
    assert!(!script("import type { A } from 'm'").is_async);
    let script = script("1;\nimport {\n  nope } from 'm'");
    let (row, line) = script.code.split('\n').enumerate().find(|(_, line)| line.contains("reject")).unwrap();
    let at = line.find("reject").unwrap() as u32;
    assert_eq!(script.original_position(row as u32 + 1, at + 1).map(|(line, _)| line), Some(3));
}

#[test]
fn errors_are_where_the_user_made_them() {
    let table = [
        ("let x = ;", (1, 9)),
        ("1 +\n* 2", (2, 1)),
        ("const ä = 'ö' @", (1, 14)),
        ("let a = 1;\nlet a = 2;", (1, 5)),
        ("break", (1, 1)),
        ("function f() {\n  await g()\n}", (2, 3)),
        ("return 1", (1, 1)),
    ];
    for (source, at) in table {
        let error = error(source);
        assert_eq!((error.line, error.column), at, "{source}: {error}");
    }
    let options = Options { language: Language::Javascript, filename: "a.js".to_owned() };
    assert!(compile("let x: number = 1", &options).is_err(), "JavaScript has no types");
    assert!(compile("let x = 1; with (o) { x }", &options).is_ok(), "a script is not strict");
}

#[test]
fn an_unfinished_cell_is_known() {
    for source in [
        "function f() {",
        "f(1,",
        "`abc\n",
        "/* abc",
        "[1, 2",
        "x +",
        "class A {\n  f() {\n  }\n",
        "if (a)",
        "({a: 1",
        "{a: 1",
        "const x =",
    ] {
        assert!(error(source).at_end, "{source}: {:?}", error(source));
    }
    for source in ["let x = ;", "f(1))", "'abc", "x y", "}"] {
        assert!(!error(source).at_end, "{source}");
    }
}

/// Every identifier of the script that stands in the source once leads to its own place there.
#[test]
fn every_name_leads_back_to_its_place() {
    let source = "// ä comment\nconst alpha: number = 1\n\nclass Beta<T> { constructor(public gamma: string, private delta = 'ö€𝒳' + epsilon(zeta)) {} }\n\
        enum Eta { Theta = 1 }\ninterface Iota { kappa: string }\nfunction lambda(mu: string): asserts mu is 'x' {\n  throw new Nu(`${xi} 𝒳 ${omicron}`)\n}\n\
        (pi as any).rho!.sigma<string>(tau, async () => { await upsilon })[phi]?.chi(psi satisfies object)\n";
    let script = script(source);
    let mut seen = 0;
    for (index, line) in script.code.split('\n').enumerate() {
        for name in
            ["alpha", "epsilon", "zeta", "lambda", "Nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi"]
        {
            for (at, _) in line.match_indices(name) {
                let alone = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
                if !alone(line[..at].chars().next_back()) || !alone(line[at + name.len()..].chars().next()) {
                    continue;
                }
                let found = script.original_position(index as u32 + 1, at as u32 + 1);
                let wanted = source.split('\n').enumerate().find_map(|(row, text)| {
                    text.match_indices(name)
                        .find(|(at, _)| alone(text[..*at].chars().next_back()) && alone(text[at + name.len()..].chars().next()))
                        .map(|(at, _)| (row as u32 + 1, text[..at].chars().count() as u32 + 1))
                });
                assert_eq!(found, wanted, "{name} in {line}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 15, "{seen} names in {}", script.code);
    assert_eq!(script.original_position(0, 1), None);
    assert_eq!(script.original_position(10_000, 1), None);
}

#[test]
fn positions_between_names_are_exact_where_the_text_is() {
    let script = script("{ a: 1,\n  b: f(x) }");
    let (row, line) = script.code.split('\n').enumerate().find(|(_, line)| line.contains("f(x)")).unwrap();
    let paren = line.find("(x)").unwrap();
    assert_eq!(script.original_position(row as u32 + 1, paren as u32 + 1), Some((2, 7)));
}

#[test]
fn depth_and_size_are_bounded_and_no_stack_overflows() {
    assert!(error(&"x".repeat(SOURCE_BYTES_MAX + 1)).message.contains("split it"));
    assert!(error(&"(".repeat(NESTING_MAX + 1)).message.contains("nested deeper"));
    let depth = NESTING_MAX / 2;
    let half = SOURCE_BYTES_MAX / 2;
    for source in [
        format!("{}1{}", "(".repeat(depth), ")".repeat(depth)),
        format!("{}1{}", "[".repeat(depth), "]".repeat(depth)),
        format!("{}{}", "{".repeat(depth), "}".repeat(depth)),
        format!("{}1", "!".repeat(half)),
        format!("{}1", "a=>".repeat(half / 3)),
        format!("1{}", "+1".repeat(half / 2)),
        format!("a{}", ".a".repeat(half / 2)),
        format!("a{}", "()".repeat(half / 2)),
        format!("{}1", "a?a:".repeat(half / 4)),
        format!("{}1", "a=".repeat(half / 2)),
        format!("{}1", "if(1)".repeat(half / 5)),
        format!("type A = {}1", "A|".repeat(half / 2)),
        format!("type A = {}1{}", "A<".repeat(half / 4), ">".repeat(half / 4)),
        format!("{}1", "new ".repeat(half / 4)),
        format!("{}x;", "if(1);else ".repeat(half / 11)),
    ] {
        // Whether it compiles matters less than that the process lives.
        let _ = compile(&source, &Options::default());
    }
}

/// Runs cells in one node realm, one script after another, and gives each value as JSON.
fn run(cells: &[&str]) -> Vec<String> {
    let scripts: Vec<String> = cells.iter().map(|cell| format!("{:?}", script(cell).code)).collect();
    let js_strings: Vec<String> = scripts.iter().map(|text| text.replace("\\'", "'")).collect();
    let program = format!(
        "const vm=require('vm');for(const s of [{}]){{let v;try{{v=vm.runInThisContext(s)}}catch(e){{v=String(e)}};console.log(JSON.stringify(v)??'undefined')}}",
        js_strings.join(",")
    );
    let output = Command::new("node").arg("-e").arg(program).output().expect("node is a tool of this project");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn cells_run_one_after_another() {
    let table: &[(&[&str], &[&str])] = &[
        (&["const x = 1", "const x = 2", "x"], &["undefined", "undefined", "2"]),
        (&["let x = 5", "let x", "x"], &["undefined", "undefined", "undefined"]),
        (&["class A { v = 1 }", "class A { v = 2 }", "new A().v"], &["undefined", "undefined", "2"]),
        (&["class P { constructor(public a: number, readonly b = a + 1) {} }", "new P(1)"], &["undefined", "{\"a\":1,\"b\":2}"]),
        (&["const c = (() => { let n = 0; return () => ++n })()", "c()", "c()"], &["undefined", "1", "2"]),
        (
            &["enum E { A, B = 'b' }", "E", "enum E { C = 7 }", "E"],
            &["undefined", "{\"0\":\"A\",\"A\":0,\"B\":\"b\"}", "undefined", "{\"7\":\"C\",\"C\":7}"],
        ),
        (&["enum E { A } enum E { B = 2 }", "E.A + E.B"], &["undefined", "2"]),
        (&["const enum K { A = 3 }", "K.A"], &["undefined", "3"]),
        (
            &["namespace N { export const a = 1 }", "N.a", "namespace N { export const b = 2 }", "N"],
            &["undefined", "1", "undefined", "{\"b\":2}"],
        ),
        (&["{a: 1}", "{a: 1}.a"], &["{\"a\":1}", "1"]),
        (&["function f() { return 1 }", "f()", "function f() { return 2 }", "f()"], &["undefined", "1", "undefined", "2"]),
        (&["if (true) { 7 }", "for (let i = 0; i < 3; i++) i * 2", "try { 1 } finally { 2 }"], &["7", "4", "1"]),
        (&["'use strict'", "\"hello\"", "'ö€𝒳'"], &["\"use strict\"", "\"hello\"", "\"ö€𝒳\""]),
        (&["const { a, ...rest } = { a: 1, b: 2 }; rest", "a"], &["{\"b\":2}", "1"]),
        (&["this === globalThis", "typeof undefinedName"], &["true", "\"undefined\""]),
        (&["x as any; var x = 3 as number; x!", "<number>x"], &["3", "3"]),
        (&["5;;", "5; var q = 1"], &["5", "undefined"]),
        (&["let s = `a${1}\\n`; s", "/a\\/b/.source"], &["\"a1\\n\"", "\"a\\\\/b\""]),
    ];
    for (cells, expected) in table {
        assert_eq!(run(cells), *expected, "{cells:?}");
    }
}
