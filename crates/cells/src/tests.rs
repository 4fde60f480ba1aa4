//! Cells by table, and the scripts they become, run by node.

use std::process::Command;

use super::*;

pub(crate) fn script(source: &str) -> Script {
    compile(source, &Options::default()).unwrap_or_else(|error| panic!("{source}: {error}"))
}

pub(crate) fn code(source: &str) -> String {
    script(source).code.trim().to_owned()
}

pub(crate) fn error(source: &str) -> SyntaxError {
    compile(source, &Options::default()).expect_err(source)
}

#[test]
fn types_leave_nothing_behind() {
    for source in [
        "type A = { a: string }",
        "interface A { a: string }",
        "declare const x: number",
        "declare function f(): void",
        "import type { A } from 'a'",
        "",
        "  \n",
        "// nothing",
    ] {
        assert_eq!(run(&[source]), ["undefined"], "{source}: {}", code(source));
    }
}

#[test]
fn declared_names_are_told() {
    let names = |source| {
        let mut names: Vec<_> = script(source).declared.into_iter().map(|it| (it.name, it.is_constant)).collect();
        names.sort();
        names
    };
    let all = "const a = 1, {b} = o; let c; var d; function e() { const inner = 1 } class F {} enum G {} type H = 1; { const i = 1 }";
    let expected = [("F", false), ("G", false), ("a", true), ("b", true), ("c", false), ("d", false), ("e", false)];
    assert_eq!(names(all), expected.map(|(name, constant)| (name.to_owned(), constant)));
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
        assert!(code(source).starts_with('('), "{source}: {}", code(source));
    }
    for source in ["{a: 1};", "{ f() }", "{ let a = 1; a }", "{a: 1}\n{b: 2}"] {
        assert!(!code(source).contains("({"), "{source}: {}", code(source));
    }
}

#[test]
fn what_a_script_cannot_give_is_refused_with_advice() {
    let table = [
        ("1;\nimport x from 'm' with { type: 'css' }", (2, 1), "import attributes"),
        ("export * from 'm'", (1, 1), "another module"),
        ("export { a } from 'm'", (1, 1), "another module"),
        ("enum A {}\nclass B { accessor [x] = 1 }", (2, 11), "write a field with get and set"),
        ("/** @experimentalDecorators */ class A { @d accessor x = 1 }", (1, 42), "experimentalDecorators"),
        ("class A {\n @d #x = 1; constructor(@d a) {} }", (2, 2), "experimentalDecorators"),
    ];
    for (source, at, message) in table {
        let error = error(source);
        assert!(error.message.contains(message), "{source}: {error}");
        assert_eq!((error.line, error.column), at, "{source}: {error}");
        assert!(!error.at_end, "{source}");
    }
    assert!(code("await import('m')").contains("import('m')"), "a dynamic import is the engine's to answer");
}

#[test]
fn what_a_module_says_is_taken_as_a_script_says_it() {
    let table = [
        ("export const x = 1", "var   x = 1"),
        ("export default x + 1", "x + 1"),
        ("export default function () { return 1 }", "void 0,function () { return 1 }"),
        ("export function f() {}", "function f() {}"),
        ("const a = 1; export { a as b };", "var   a = 1;"),
        ("import.meta.url", "$importMeta.url"),
        ("import x from './a.json' with { type: 'json' }", "var { default: x } = await import(\"./a.json\");"),
        ("const y = f((a /* why? */ ?: number) => a)", "var   y = f((a /* why? */          ) => a)"),
    ];
    for (source, expected) in table {
        assert_eq!(code(source), expected, "{source}");
    }
    assert_eq!(code("export interface A { a: 1 }\nexport type B = 1").replace([' ', ';', '\n'], ""), "");
    assert_eq!(script("export const x = 1;\nnull.y").original_position(2, 1), Some((2, 1)));
}

#[test]
fn a_cell_may_return_and_use_resources() {
    assert_eq!(code("if (a) return 1; 2"), "$cell: {if (a) { host.final( 1); break $cell } 2\n}");
    assert_eq!(code("return"), "$cell: {{ host.final(); break $cell }\n}");
    assert_eq!(code("function f() { return 1 }"), "function f() { return 1 }");
    assert_eq!(code("using x = y; x"), "try {var   x = babelHelpers.using(y); x\n} finally { babelHelpers.dispose() }");
    let waits = script("await using x = y; x");
    assert!(waits.is_async && waits.code.ends_with("finally { await babelHelpers.disposeAsync() }"), "{}", waits.code);
    let imports = script("import { a } from 'm'\nawait using x = a;\nreturn x.y.z");
    assert!(imports.is_async && imports.code.starts_with("$cell: {\ntry {\nvar { a = await"), "{}", imports.code);
    assert!(imports.code.contains("var x = babelHelpers.usingAsync(a);\n{\nhost.final(x.y.z);\nbreak $cell;\n}"), "{}", imports.code);
    assert!(imports.code.contains("finally {\nawait babelHelpers.disposeAsync();\n}"), "{}", imports.code);
    let line = imports.code.lines().position(|line| line.starts_with("host.final")).map_or(0, |at| u32::try_from(at).unwrap() + 1);
    assert_eq!(imports.original_position(line, 12), Some((3, 8)), "{}", imports.code);
    assert_eq!(code("'use strict'; enum A {} return 1").lines().next(), Some("\"use strict\";"));
    // Of a lone object with an accessor every place is its own, too.
    let object = script("{ C: class { accessor x = nope } }");
    let at = object.code.find("nope").unwrap() as u32 + 1;
    assert_eq!(object.original_position(1, at), Some((1, 27)), "{}", object.code);
}

#[test]
fn a_cell_that_returns_or_uses_holds_whatever_another_does() {
    let table: &[(&[&str], &[&str])] = &[
        (&["enum E { A = 3 }\nif (E.A) return E.A; gone()", "[told, E.A]"], &["undefined", "[3,3]"]),
        (&["namespace N { export const a = 1 } using r = used('r'); r.name + N.a", "[freed, r.name]"], &["\"r1\"", "[\"r\",\"r\"]"]),
        (&["using a = used('a'), b = used('b'); enum F { X } return F.X", "[freed, told]"], &["undefined", "[\"ba\",0]"]),
        (&["class P { constructor(public a) {} } try { return new P(4).a } finally { told++ }", "told"], &["undefined", "5"]),
        (
            &[
                "enum G {} later(); async function later() {} function* many() {} function plain() {} return",
                "[typeof later, typeof many, typeof plain]",
            ],
            &["undefined", "[\"function\",\"function\",\"function\"]"],
        ),
        (
            &[
                "later(); async function later() {} function* many() {} function plain() {} return",
                "[typeof later, typeof many, typeof plain]",
            ],
            &["undefined", "[\"function\",\"function\",\"function\"]"],
        ),
        (&["const f = () => { return 1 }, o = { get x() { return 2 } }; enum H { A } return f() + o.x", "told"], &["undefined", "3"]),
        (
            &[
                "enum K { A } class Acc { private accessor 'a b' = 1; static accessor 7 = 2; accessor #p: number = 3; p() { return this.#p++ + this.#p } }",
                "const acc = new Acc(); acc['a b'] += 1; [acc['a b'], Acc[7], acc.p(), Object.keys(acc)]",
            ],
            &["undefined", "[2,2,7,[]]"],
        ),
        (&["abstract class Abs { abstract accessor x: number; public accessor y = 5 }", "new Abs().y"], &["undefined", "5"]),
        (
            &["abstract class Abs2 { a = [4]\n abstract accessor x: number\n ['b'] = 6 }", "const { a, b } = new Abs2(); [a, b]"],
            &["undefined", "[[4],6]"],
        ),
        (&["{ C: class { accessor x = 8 } }", "1"], &["{}", "1"]),
        (&["const outer = class { accessor x = class { static accessor y = 1 } }", "new outer().x.y"], &["undefined", "1"]),
    ];
    for (cells, expected) in table {
        let cells: Vec<&str> =
            std::iter::once("var told, freed = ''; var used = (name) => ({ name })").chain(cells.iter().copied()).collect();
        assert_eq!(run(&cells)[1..], **expected, "{cells:?}");
    }
}

#[test]
fn imports_become_declarations() {
    let absent = |name: &str| {
        format!("await Promise.reject(new SyntaxError(\"The requested module 'm' does not provide an export named '{name}'\"))")
    };
    let table = [
        ("import x from 'm'", "var { default: x } = await import(\"m\");".to_owned()),
        ("import * as n from 'm'", "var n = await import(\"m\");".to_owned()),
        ("import 'm'", "var {} = await import(\"m\");".to_owned()),
        ("import d, * as n from 'm'", "var n = await import(\"m\"), { default: d } = await import(\"m\");".to_owned()),
        ("import { a as b } from 'm'", format!("var {{ a: b = {} }} = await import(\"m\");", absent("a"))),
        ("f(x); import x from 'm'", "var { default: x } = await import(\"m\");\nf(x);".to_owned()),
        ("import { type A, b } from 'm'; b", format!("var {{ b = {} }} = await import(\"m\");\nb;", absent("b"))),
        ("import { A } from 'm'; let x: A", "var { A } = await import(\"m\");\nvar x = void 0;".to_owned()),
        ("import x = require('m')", "var x = require(\"m\");".to_owned()),
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
    ];
    for (source, at) in table {
        let error = error(source);
        assert_eq!((error.line, error.column), at, "{source}: {error}");
    }
    let options = Options { language: Language::Javascript, filename: "a.js".to_owned(), ..Options::default() };
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
    let scripts: Vec<String> = cells.iter().map(|cell| script(cell).code).collect();
    evaluate(&scripts)
}

/// Runs scripts in one node realm.
pub(crate) fn evaluate(scripts: &[String]) -> Vec<String> {
    let texts: Vec<String> = scripts.iter().map(|text| format!("{text:?}").replace("\\'", "'").replace("\\0", "\\x00")).collect();
    let program = format!(
        "{DECORATE};const vm=require('vm');for(const s of [{}]){{let v;try{{v=vm.runInThisContext(s)}}catch(e){{v=String(e)}};console.log(JSON.stringify(v)??'undefined')}}",
        texts.join(",")
    );
    let output = Command::new("node").arg("-e").arg(program).output().expect("node is a tool of this project");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// What the engine's prelude gives to decorated classes, and to cells that return or use resources.
const DECORATE: &str = "globalThis.babelHelpers={decorate(ds,t,k,d){let r=arguments.length<3?t:d===null?d=Object.getOwnPropertyDescriptor(t,k):d;\
    for(let i=ds.length-1;i>=0;i--)r=(arguments.length<3?ds[i](r):ds[i](t,k,r))||r;if(arguments.length>3&&r)Object.defineProperty(t,k,r);return r},\
    decorateParam(i,d){return(t,k)=>d(t,k,i)},using(v){open.push(v);return v},dispose(){while(open.length)freed+=open.pop().name}};\
    const open=[];globalThis.host={final(v){told=v}}";

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
        (
            &[
                "namespace C { export let n = 0; export function inc() { n++; ({ n } = { n: n + 1 }); return { n } } }",
                "[C.inc(), C.n]",
                "C.n = 7; C.inc()",
            ],
            &["undefined", "[{\"n\":2},2]", "{\"n\":9}"],
        ),
        (
            &[
                "namespace M { export const x = 1; export namespace In { export let y = x } } namespace M { const z = x; export const all = [x, z, In.y, ((x) => x)(5)] }",
                "M.all",
            ],
            &["undefined", "[1,1,1,5]"],
        ),
        (
            &["namespace A.B { export var n = 1; n += 1 } namespace A.B { n += 1; export const twice = n * 2 }", "[A.B.n, A.B.twice]"],
            &["undefined", "[3,6]"],
        ),
        (&["{a: 1}", "{a: 1}.a"], &["{\"a\":1}", "1"]),
        (&["function f() { return 1 }", "f()", "function f() { return 2 }", "f()"], &["undefined", "1", "undefined", "2"]),
        (&["if (true) { 7 }", "for (let i = 0; i < 3; i++) i * 2", "try { 1 } finally { 2 }"], &["7", "4", "1"]),
        (&["'use strict'", "\"hello\"", "'ö€𝒳'"], &["\"use strict\"", "\"hello\"", "\"ö€𝒳\""]),
        (&["const { a, ...rest } = { a: 1, b: 2 }; rest", "a"], &["{\"b\":2}", "1"]),
        (&["this === globalThis", "typeof undefinedName"], &["true", "\"undefined\""]),
        (&["x as any; var x = 3 as number; x!", "<number>x"], &["3", "3"]),
        (&["5;;", "5; var q = 1", "5; class Q {}", "5; function q2() {}"], &["5", "5", "5", "5"]),
        (
            &[
                "/** @experimentalDecorators */ function seal(c) { c.sealed = 1 } @seal class D { @log m() { return 1 } } function log(t, k, d) { return { value: () => 2 } }",
                "[D.sealed, new D().m()]",
            ],
            &["undefined", "[1,2]"],
        ),
        (
            &["class Acc { accessor v: number = 1 }", "const acc = new Acc(); acc.v += 1; [acc.v, Object.keys(acc)]"],
            &["undefined", "[2,[]]"],
        ),
        (
            &["switch (1) { case 1: 'one'; break; default: 'other' }", "do { 'body' } while (false)", "lab: { 'in'; break lab }"],
            &["\"one\"", "\"body\"", "\"in\""],
        ),
        (
            &[
                "abstract class Shape { abstract area(): number; describe(): string { return `area ${this.area()}` } }",
                "class Sq extends Shape { constructor(private readonly side: number) { super() } override area() { return this.side ** 2 } }",
                "new Sq(3).describe()",
            ],
            &["undefined", "undefined", "\"area 9\""],
        ),
        (&["function over(a: string): string\nfunction over(a: number): number\nfunction over(a: any) { return a }\nover(4)"], &["4"]),
        (
            &[
                "let tuple: [a: number, b?: string] = [1]\n;[...tuple]",
                "const asserted = { a: 1 } as const satisfies Record<string, number>; asserted.a",
            ],
            &["[1]", "1"],
        ),
        (&["let v: number\n(() => {})", "v"], &["undefined", "undefined"]),
        (
            &[
                "const gen = <T,>(x: T): T => x; gen<number>(3)",
                "const o2 = { m<T>(this: any, x?: T): T | undefined { return x } }; o2.m(2)",
            ],
            &["3", "2"],
        ),
        (&["let s = `a${1}\\n`; s", "/a\\/b/.source"], &["\"a1\\n\"", "\"a\\\\/b\""]),
    ];
    for (cells, expected) in table {
        assert_eq!(run(cells), *expected, "{cells:?}");
    }
}

#[test]
fn jsx_is_for_those_who_ask() {
    let options = |language| Options { language, ..Options::default() };
    let code = |source, language| compile(source, &options(language)).map(|script| script.code);
    assert!(code("<a b={1}>c</a>", Language::Jsx).unwrap().contains("React.createElement(\"a\", { b: 1 }, \"c\")"));
    assert_eq!(code("/** @jsx h */ <i/>", Language::Tsx).map(|code| code.contains("h(\"i\", null)")), Ok(true));
    assert!(code("const f = <T,>(x: T) => <i>{x}</i>", Language::Tsx).unwrap().contains("React.createElement(\"i\", null, x)"));
    assert!(code("<a>b</a>", Language::Javascript).is_err());
}
