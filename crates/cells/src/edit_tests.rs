//! Cells that keep their text: what edits make of them.

use crate::{
    Options, compile,
    tests::{code, error, evaluate, script},
};

#[test]
fn a_cell_keeps_its_text_but_for_edits() {
    let table = [
        ("const x: number = 1", "var   x         = 1"),
        ("let x = 1; x", "var x = 1; x"),
        ("let x", "var x = void 0;"),
        ("let x, y;", "var x = void 0, y = void 0;"),
        ("let x: string", "var x         = void 0;"),
        ("var x", "var x"),
        ("const {a, b: [c]} = o", "var   {a, b: [c]} = o"),
        ("{ let x = 1 }", "{ let x = 1 }"),
        ("for (const x of y) f(x)", "for (const x of y) f(x)"),
        ("class A {}", "var A = class A {};"),
        ("class A<T> extends B<T> implements C {}", "var A = class A    extends B                 {};"),
        ("abstract class A { abstract f(): void; private x = 1 }", "var A =          class A { ;                   ;       x = 1 };"),
        ("function f(x: number, y?: string): void {}", "function f(x        , y         )       {}"),
        ("function f(this: A, x) {} ", "function f(         x) {} "),
        ("5; type A = string", "5; ;              "),
        ("x as any\n(y)", "x ;     \n(y)"),
        ("(x as any).y!.z", "(x       ).y .z"),
        ("f<number>(x satisfies B)", "f        (x            )"),
        ("class A { a?: number\n['b'] = 1 }", "var A = class A { a ;       \n['b'] = 1 };"),
        (
            "class A { static accessor x: number = 1 }",
            "var A = class A { static #accessor_x         = 1; static get x() { return this.#accessor_x } static set x(value) { this.#accessor_x = value } };",
        ),
        ("try {} catch (e: unknown) {}", "try {} catch (e         ) {}"),
    ];
    for (source, expected) in table {
        assert_eq!(script(source).code, expected, "{source}");
    }
}

#[test]
fn a_cell_with_syntax_that_makes_code_is_printed_anew() {
    for source in [
        "enum A { B }",
        "namespace A { export const b = 1 }",
        "class A { constructor(public a) {} }",
        "let a = <T>b",
        "/** @experimentalDecorators */ @a class B {}",
    ] {
        assert_ne!(script(source).code.len(), source.len(), "{source}");
        assert!(!script(source).code.contains("  "), "{source}: {}", script(source).code);
    }
}

#[test]
fn a_constant_is_not_assigned_to() {
    let options = Options { constants: ["old".to_owned()].into(), ..Options::default() };
    for source in [
        "old = 1",
        "old++",
        "[old] = [1]",
        "({ old } = { old: 1 })",
        "({ a: old } = { a: 1 })",
        "for (old of [1]) {}",
        "old += 1",
        "const k = 1; k = 2",
        "const k = 1; (() => { k = 2 })()",
        "const { k } = { k: 1 }; k--",
    ] {
        // The second is printed anew.
        for source in [source.to_owned(), format!("enum Force {{}}\n{source}")] {
            let script = compile(&source, &options).unwrap();
            let code = &script.code;
            assert_eq!(evaluate(std::slice::from_ref(code)), ["\"TypeError: Assignment to constant variable.\""], "{code}");
            let (line, text) = code.split('\n').enumerate().find(|(_, text)| text.contains("throw new")).unwrap();
            let (line, column) = (line as u32 + 1, text.find("throw new").unwrap() as u32 + 1);
            let at = script.original_position(line, column).map(|(line, _)| line);
            assert_eq!(at, Some(source.lines().count() as u32), "{code}");
        }
    }
    for source in ["const old = 2; old", "let old = 2; old = 3; old", "(old => { old = 1 })(); 7", "{ let old; old = 1 }"] {
        for source in [source.to_owned(), format!("enum Force {{}}\n{source}")] {
            assert!(!compile(&source, &options).unwrap().code.contains("TypeError"), "{source}");
        }
    }
}

#[test]
fn positions_of_an_edited_cell_are_its_own() {
    let source = "const limit: number = 1; class A { private run(): never { throw new Error('é') } }\nnew A().run()";
    let script = script(source);
    for (index, line) in script.code.split('\n').enumerate() {
        for name in ["limit", "run", "throw", "Error", "new A"] {
            let Some(at) = line.find(name) else { continue };
            let wanted = source.split('\n').nth(index).unwrap().find(name).map(|at| (index as u32 + 1, at as u32 + 1));
            assert_eq!(script.original_position(index as u32 + 1, at as u32 + 1), wanted, "{name}");
        }
    }
}

/// Erasing types by hand and by oxc's transformer must come to the same: an enum at the end makes the printer run over both.
#[test]
fn what_edits_make_is_what_the_printer_makes() {
    let printed = |source: &str| {
        let code = code(&format!("{source}\nenum Force {{}}"));
        code.lines().filter(|line| *line != ";").collect::<Vec<_>>().join("\n")
    };
    for source in [
        "const a = <T,>(x: T, ...rest: T[]): T => x",
        "async function f<T>(this: Window, a?: T, b: number = 1, { c, d = 2 }: { c?: number, d: T } = {} as any): Promise<void> { await a! }",
        "function f(this: void) {}",
        "function assertIsString(val: any): asserts val is string { if (typeof val !== 'string') throw val }",
        "let x!: number, y: string = 'a', z",
        "let x: number\n[1].map(String)",
        "x = y as any\n`t`",
        "x = y!\n[0]",
        "type A = string\n(function () {})()",
        "f()\ninterface B { a: 1 }\n[1]",
        "class A<in out T extends object = {}> extends B<T> implements C<T>, D { }",
        "class A { private static readonly x: number = 1; protected y?: string; declare z: number; public override w!: boolean\n *gen(): Iterable<T> {} }",
        "class A { x = 1\n public *gen() {} }",
        "class A { static x\n private static y = 2\n readonly ['k']: string = 'v'\n get g(): number { return 1 } set g(v: number) {} }",
        "abstract class A { abstract x: number; abstract get y(): string; abstract m(): void; n(): void {} private async *o?(): any {} }",
        "class A { [key: string]: any; constructor(); constructor(a?: number) {} m(): void; m(x?: number): void {} static { let q: number = 1 } }",
        "class A { #p: number = 1; static #q?: string; m() { return this.#p! } }",
        "class A { 'quoted'?: number = 1; 5!: string; [Symbol.iterator]?: any }",
        "const o = { m<T>(x: T): T { return x }, get g(): number { return 1 }, async *[k]<U>(a: U) {}, p: 1 as const }",
        "new Map<string, number[]>([['a', [1]]] as [string, number[]][])",
        "const g = f<number>; const h = new Foo<Bar>; tag<string>`x${y as string}`",
        "for (const k of (o as any).list!) { k satisfies string }",
        "for (let i: number = 0, j = <number>1; i < 1; i++);",
        "try { x } catch (e: any) { (e as Error).message }",
        "const fn = async <T,>(x: T): Promise<T> => { return x as T }",
        "const p = (x: number): x is 5 => x === 5",
        "a ? (b: number) => c : (d): e => f",
        "let v = a! + b!.c![d!]!()!",
        "(x as any) = 1; [(y as any)] = [1]; ({ a: (z as any) } = { a: 1 })",
        "declare module 'm' { export const a: number }\n1",
        "declare global { interface Window { a: 1 } }\n1",
        "declare class D { m(): void }\ndeclare function e(): void\ndeclare let q: number, r: string\ndeclare enum E {}\n1",
        "function over(a: string): void\nfunction over(a: number): void\nfunction over(a: any) {}",
        "label: for (const a of <any>b) { continue label }",
        "let é: { ü: 'ö' } = { ü: 'ö' } as const; é.ü!",
        "const t = `a${b as string}c${(d!) satisfies any}`",
        "if (a) b as any\nelse c!",
        "do x as any\nwhile (y!)",
        "switch (a as number) { case b!: c as any; default: d satisfies e }",
        "return_: { break return_ }",
        "const { a, ...b }: { a: number, [k: string]: any } = c, [d, ...e]: any[] = f",
        "let f2: (a: number, b?: string) => void = (a, b) => {}, c2: new () => A = A, u: typeof import('x')",
        "let l: `a${string}` | keyof T & (readonly string[]), m: T extends infer U ? U : never",
        "var a = b < c, d = e > (f)",
        "let unique: unique symbol = Symbol() as any",
    ] {
        if compile(source, &Options::default()).is_err() {
            assert!(source.starts_with("declare module"), "{source}: {}", error(source));
            continue;
        }
        let edited = script(source).code;
        assert_eq!(printed(&edited), printed(source), "{source}\nbecame\n{edited}");
    }
}
