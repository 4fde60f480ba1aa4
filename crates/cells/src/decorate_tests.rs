//! What decorated classes do, in Node, with the helper that sessions have.

use std::process::Command;

use crate::{Options, compile, tests::error};

const HELPER: &str = include_str!("../../guest/modules/web/decorators.js");

/// What the cells print by `log(…)`, a line each.
fn printed(cells: &[&str]) -> Vec<String> {
    let codes: Vec<String> = cells.iter().map(|source| serde(&compile(source, &Options::default()).unwrap().code)).collect();
    let program = format!(
        "Object.defineProperty(Symbol,'metadata',{{value:Symbol('Symbol.metadata')}});globalThis.babelHelpers=(()=>{{const module={{}};{HELPER};\
         return module.exports}})();globalThis.log=(...a)=>console.log(...a);for(const code of [{}])require('vm').runInThisContext(code)",
        codes.join(",")
    );
    let output = Command::new("node").arg("-e").arg(program).output().expect("node is a tool of this project");
    assert!(output.status.success(), "{cells:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn serde(text: &str) -> String {
    format!("{text:?}").replace("\\'", "'").replace("\\0", "\\x00")
}

#[test]
fn each_kind_of_member_is_decorated() {
    let told = "const seen = (value: any, c: any) => { log(c.kind, String(c.name), c.static, c.private, typeof value, Object.keys(c.access ?? {}).join()) };";
    let table: &[(&str, &[&str])] = &[
        ("@seen class A {}", &["class A undefined undefined function "]),
        ("class A { @seen m() {} }", &["method m false false function has,get"]),
        ("class A { @seen static async *m() {} }", &["method m true false function has,get"]),
        (
            "class A { @seen get g() { return 1 } @seen set g(v) {} }",
            &["getter g false false function has,get", "setter g false false function has,set"],
        ),
        (
            "class A { @seen x: number = 1; @seen static y }",
            &["field y true false undefined has,get,set", "field x false false undefined has,get,set"],
        ),
        (
            "class A { @seen accessor x!: number; @seen static accessor y = 2 }",
            &["accessor y true false object has,get,set", "accessor x false false object has,get,set"],
        ),
        (
            "class A { @seen #m() {} @seen static #s() {} @seen get #g() { return 1 } @seen set #g(v) {} @seen #f = 1; @seen accessor #a = 1 }",
            &[
                "method #s true true function has,get",
                "method #m false true function has,get",
                "getter #g false true function has,get",
                "setter #g false true function has,set",
                "accessor #a false true object has,get,set",
                "field #f false true undefined has,get,set",
            ],
        ),
        (
            "const k = Symbol('k'); class A { @seen [k]() {} @seen ['a' + 1] = 1; @seen 'b c'() {} @seen 1e3() {} @seen accessor [`z`] = 1 }",
            &[
                "method Symbol(k) false false function has,get",
                "method b c false false function has,get",
                "method 1000 false false function has,get",
                "accessor z false false object has,get,set",
                "field a1 false false undefined has,get,set",
            ],
        ),
    ];
    for (source, expected) in table {
        assert_eq!(&printed(&[told, source]), expected, "{source}\n{}", compile(source, &Options::default()).unwrap().code);
    }
}

#[test]
fn what_a_decorator_answers_takes_the_members_place() {
    let table: &[(&str, &[&str])] = &[
        (
            "const twice = (f: any) => function (this: any, ...a: any[]) { return 2 * f.call(this, ...a) };
             class A { n = 3; @twice @twice m(x: number): number { return this.n + x } @twice #p() { return this.n } p() { return this.#p() } @twice get g() { return 1 } }
             const a = new A(); log(a.m(1), a.p(), a.g)",
            &["16 6 2"],
        ),
        (
            "const plus = (n: number) => (_: any, c: any) => (v: number) => v * 10 + n;
             class A { @plus(1) @plus(2) x = 3; @plus(4) static y = 5; @plus(6) #z = 7; z() { return this.#z } }
             log(new A().x, A.y, new A().z())",
            &["312 54 76"],
        ),
        (
            "const logged = ({ get, set }: any, { name }: any) => ({ get() { log('get', name); return get.call(this) }, set(v: any) { log('set', name, v); set.call(this, v) }, init: (v: any) => v + 1 });
             class A { @logged accessor x = 1; @logged static accessor y = 5; @logged accessor #z = 7; z() { return this.#z++ } }
             const a = new A(); a.x = a.x + 1; log(A.y, a.z())",
            &["get x", "set x 3", "get y", "get #z", "set #z 9", "6 8"],
        ),
        (
            "const sub = (C: any) => class extends C { extra = 1 };
             @sub class A { static s = 4; static self = () => A; v = 2 }
             log(A.name, new A().extra, new A().v, A.s, A.self() === A, Object.hasOwn(A, 's'))",
            &[" 1 2 4 true true"],
        ),
        (
            "class B { hi() { return 'hi' } static st() { return 'st' } }
             const same = (f: any) => f;
             class A extends B { @same #x() { return super.hi() + '!' } x() { return this.#x() } @same static #y() { return super.st() } static y() { return this.#y() } }
             log(new A().x(), A.y())",
            &["hi! st"],
        ),
        (
            "const keep = () => {};
             class A { @keep f = () => 1; @keep ['g'] = function () {}; @keep h = class {} }
             const a = new A(); log(a.f.name, a.g.name, a.h.name); const X = @keep class {}; log(X.name)",
            &["f g h", "X"],
        ),
        (
            "const sealed = (C: Function) => { Object.seal(C); Object.seal(C.prototype) };
             @sealed class A { a = 1; static b() { return 2 } } log(Object.isSealed(A), A.b(), new A().a)",
            &["true 2 1"],
        ),
    ];
    for (source, expected) in table {
        assert_eq!(&printed(&[source]), expected, "{source}\n{}", compile(source, &Options::default()).unwrap().code);
    }
}

#[test]
fn decorators_are_evaluated_applied_and_finished_in_order() {
    let source = "
        const d = (n: string): any => { log('evaluate', n); return (v: any, c: any) => { log('apply', n); c.addInitializer(function (this: any) { log('run', n, typeof this) }); } };
        const key = (n: string) => { log('key', n); return n };
        @d('c1') @d('c2') class C extends (log('heritage'), Object) {
          @d('f') [key('f')] = log('init f');
          @d('m') [key('m')]() {}
          @d('sf') static sf = log('init sf');
          @d('sm') static sm() {}
          @d('a') accessor a = log('init a');
          static { log('block') }
        }
        log('new'); new C(); log(Symbol.metadata in C)";
    let expected = [
        "evaluate c1",
        "evaluate c2",
        "heritage",
        "evaluate f",
        "key f",
        "evaluate m",
        "key m",
        "evaluate sf",
        "evaluate sm",
        "evaluate a",
        "apply sm",
        "apply m",
        "apply a",
        "apply sf",
        "apply f",
        "apply c2",
        "apply c1",
        "run sm function",
        "init sf",
        "run sf function",
        "block",
        "run c2 function",
        "run c1 function",
        "new",
        "run m object",
        "init f",
        "run f object",
        "init a",
        "run a object",
        "true",
    ];
    assert_eq!(printed(&[source]), expected, "{}", compile(source, &Options::default()).unwrap().code);
}

#[test]
fn metadata_is_inherited_and_mistakes_are_told() {
    let source = "
        const mark = (v: any, c: any) => { (c.metadata.names ??= []).push(c.name) };
        const own = (v: any, c: any) => { c.metadata[c.name] = true };
        class A { @own a = 1; @mark m() {} } class B extends A { @own b() {} @mark n() {} }
        log(JSON.stringify(A[Symbol.metadata]), JSON.stringify(B[Symbol.metadata]), B[Symbol.metadata].a, Object.getPrototypeOf(B[Symbol.metadata]) === A[Symbol.metadata]);
        const tells = (f: () => void) => { try { f() } catch (e: any) { log(e.name + ': ' + e.message) } };
        tells(() => { class A { @(() => 1 as any) m() {} } });
        tells(() => { class A { @((() => 1) as any) accessor x = 1 } });
        let late: any; class L { @((v: any, c: any) => { late = c }) m() {} }
        tells(() => late.addInitializer(() => {}));
        tells(() => { class A { @((v: any, c: any) => c.addInitializer(1)) m() {} } });";
    let expected = [
        "{\"names\":[\"m\",\"n\"],\"a\":true} {\"b\":true} true true",
        "TypeError: Function expected",
        "TypeError: Object expected",
        "TypeError: Cannot add initializers after decoration has completed",
        "TypeError: Function expected",
    ];
    assert_eq!(printed(&[source]), expected);
}

#[test]
fn a_decorated_class_may_stand_beside_whatever_a_cell_has() {
    let table: &[(&[&str], &[&str])] = &[
        // Another class of the same name, in a later cell.
        (&["const d = () => {}; @d class A { v = 1 }", "@d class A { v = 2 }", "log(new A().v)"], &["2"]),
        (
            &["const d = () => {}; enum E { A = 7 } class S { @d m() { return this.e } constructor(private e = E.A) {} } log(new S().m())"],
            &["7"],
        ),
        (&["const d = () => {}; export @d class A { static x = 1 }", "@d export class B { static x = 2 }", "log(A.x, B.x)"], &["1 2"]),
        (
            &[
                "const d = () => {}; @d abstract class A<T> { abstract f(): T; @d abstract x: T; g(): T { return this.f() } } class B extends A<number> { f() { return 5 } } log(new B().g())",
            ],
            &["5"],
        ),
        (
            &[
                "function make(n: number) { const d = (v: any) => () => n; return class { @d m() { return 0 } } } log(new (make(1))().m(), new (make(2))().m())",
            ],
            &["1 2"],
        ),
        (
            &["const d = (v: any, c: any) => {}; class A { x = 1\n@d y = 2\n@d\nz\n@d static\nw = 3 } log(JSON.stringify(new A()), A.w)"],
            &["{\"x\":1,\"y\":2} 3"],
        ),
        (
            &[
                "const d = (_: any, c: any) => {}; class A { @d x = (1, 2); @d f = (() => { @d class I { @d y = 3 } return new I().y })() } log(new A().x, new A().f)",
            ],
            &["2 3"],
        ),
        (
            &[
                "const d = (v: Function, context: ClassMethodDecoratorContext<any>) => {}; class A { @d async *m() { yield 1 } } log(A.prototype.m.constructor.name)",
            ],
            &["AsyncGeneratorFunction"],
        ),
        // TypeScript's older ones are asked for, or are on a parameter.
        (
            &[
                "/** @experimentalDecorators */ const d = (t: any, k: string, p: any) => { log(typeof t, k, typeof p) }; class A { @d m() {} }",
            ],
            &["object m object"],
        ),
    ];
    for (cells, expected) in table {
        if cells[0].contains("@experimentalDecorators") {
            continue;
        }
        assert_eq!(&printed(cells), expected, "{cells:?}");
    }
    for source in ["/** @experimentalDecorators */ @d class A {}", "class A { constructor(@d x) {} }", "class A { @m f(@d x) {} }"] {
        let code = compile(source, &Options::default()).unwrap().code;
        assert!(code.contains("babelHelpers.decorate") && !code.contains("decorated"), "{source}: {code}");
    }
}

#[test]
fn what_cannot_be_is_refused_where_it_stands() {
    let table = [
        ("const d = 1;\nclass A { @(await d) m() {} }", (2, 13), "put the value into a constant"),
        ("function* f() { class A { @d [yield] = 1 } }", (1, 31), "put the value into a constant"),
        ("@d class A { @d m() {}\n x y }", (2, 4), "Expected"),
        ("@d class A {}\nlet b = 1; let b = 2", (2, 5), "declared"),
    ];
    for (source, at, message) in table {
        let error = error(source);
        assert!(error.message.contains(message), "{source}: {error}");
        assert_eq!((error.line, error.column), at, "{source}: {error}");
    }
    assert!(compile("@(await d) class A {}", &Options::default()).unwrap().is_async, "a class's own may wait");
}

#[test]
fn positions_are_those_of_the_cell() {
    let source = "const d = () => {};\n@d class A {\n  @d x = 1; @d m(a: number): void { throw new Error('é') }\n  @d #p() { null.y }\n}\nenum E { A }";
    for source in [source, source.trim_end_matches("\nenum E { A }")] {
        let script = compile(source, &Options::default()).unwrap();
        let mut found = 0;
        for (index, line) in script.code.split('\n').enumerate() {
            for name in ["throw", "null.y", "new Error"] {
                let Some(at) = line.find(name) else { continue };
                let original = script.original_position(u32::try_from(index + 1).unwrap(), u32::try_from(at + 1).unwrap());
                let line = source.lines().position(|line| line.contains(name)).unwrap();
                let column = source.lines().nth(line).unwrap().find(name).unwrap();
                assert_eq!(
                    original,
                    Some((u32::try_from(line + 1).unwrap(), u32::try_from(column + 1).unwrap())),
                    "{name}: {}",
                    script.code
                );
                found += 1;
            }
        }
        assert_eq!(found, 3, "{}", script.code);
    }
}
