//! How values are shown.

use crate::support::{Session, real};

#[tokio::test]
async fn every_kind_of_value_has_its_preview() {
    let table = [
        ("undefined", "undefined"),
        ("null", "null"),
        ("-0", "-0"),
        ("1.5", "1.5"),
        ("12n", "12n"),
        ("'it\\'s'", "\"it's\""),
        ("'a\\nb'", "'a\\nb'"),
        ("true", "true"),
        ("Symbol('q')", "Symbol(q)"),
        ("[1, 'a', [2]]", "[ 1, 'a', [ 2 ] ]"),
        ("[1,,3]", "[ 1, <1 empty item>, 3 ]"),
        ("[]", "[]"),
        ("({})", "{}"),
        ("({a: 1, 'b-c': {d: 'x'}, [Symbol('s')]: 2})", "{ a: 1, 'b-c': { d: 'x' }, [Symbol(s)]: 2 }"),
        ("Object.create(null)", "[Object: null prototype] {}"),
        ("({get a() { throw 1 }, set b(v) {}})", "{ a: [Getter], b: [Setter] }"),
        ("new Map([['k', {v: 1}]])", "Map(1) { 'k' => { v: 1 } }"),
        ("new Set([1, 'b'])", "Set(2) { 1, 'b' }"),
        ("new WeakMap()", "WeakMap { <items unknown> }"),
        ("new Promise(() => {})", "Promise { <pending> }"),
        ("Promise.resolve(4)", "Promise { 4 }"),
        ("new (class Point { constructor() { this.x = 1 } })", "Point { x: 1 }"),
        ("class A {}; class B extends A {}; B", "[class B extends A]"),
        ("function named() {}; named", "[Function: named]"),
        ("(() => {})", "[Function (anonymous)]"),
        ("(async function f() {})", "[AsyncFunction: f]"),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("new Date(NaN)", "Invalid Date"),
        ("/a+/gi", "/a+/gi"),
        ("new Uint8Array([1, 2])", "Uint8Array(2) [ 1, 2 ]"),
        ("new ArrayBuffer(3)", "ArrayBuffer { [Uint8Contents]: <00 00 00>, byteLength: 3 }"),
        ("var c = {n: 1}; c.self = c; c", "<ref *1> { n: 1, self: [Circular *1] }"),
        ("({a: {b: {c: {d: {e: {f: 1}}}}}})", "{\n  a: {\n    b: { c: { d: { e: [Object] } } }\n  }\n}"),
        ("new Number(3)", "[Number: 3]"),
        ("(function* () {})()", "Object [Generator] {}"),
        ("new Proxy({a: new Proxy([1], {})}, {get() { throw 1 }, ownKeys() { throw 2 }})", "Proxy({ a: Proxy([ 1 ]) })"),
        ("var r = Proxy.revocable({}, {}); r.revoke(); r.proxy", "<Revoked Proxy>"),
        ("var it = new Map([[1, 2], [3, 4]]).entries(); it.next(); it", "[Map Entries] { [ 3, 4 ] }"),
        ("new Set([1]).values()", "[Set Iterator] { 1 }"),
        ("(function () { return arguments })(1)", "[Arguments] { '0': 1 }"),
        ("({[Symbol.for('nodejs.util.inspect.custom')]() { return 'custom' }})", "custom"),
        (
            "({[Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('no') }, a: 1})",
            "{\n  a: 1,\n  [Symbol(nodejs.util.inspect.custom)]: [Function: [nodejs.util.inspect.custom]]\n}",
        ),
        ("new (class { get [Symbol.toStringTag]() { throw 1 } })", "{}"),
        ("globalThis.Foo = class Foo extends Map {}; new Foo([[1, 2]])", "Foo(1) [Map] { 1 => 2 }"),
    ];
    for (code, expected) in table {
        let mut session = Session::new(real());
        let cell = session.cell(code).await;
        assert!(cell.ok, "{code}: {:?}", cell.error);
        assert_eq!(cell.preview, expected, "{code}");
    }
}

#[tokio::test]
async fn errors_show_stack_and_cause() {
    let mut session = Session::new(real());
    let preview = session.cell("new TypeError('outer', {cause: new Error('inner')})").await.preview;
    assert!(preview.starts_with("TypeError: outer\n    at cell-1.ts:1:"), "{preview}");
    assert!(preview.contains("[cause]: Error: inner"), "{preview}");
}

#[tokio::test]
async fn large_values_are_cut_and_long_lines_broken() {
    let mut session = Session::new(real());
    for code in [
        "Array.from({length: 1e6}, (_, i) => i)",
        "'x'.repeat(1e6)",
        "Object.fromEntries(Array.from({length: 1e4}, (_, i) => ['key' + i, 'value'.repeat(50)]))",
        "new Map(Array.from({length: 1e5}, (_, i) => [i, {i}]))",
    ] {
        session.budget.output_bytes = 1 << 30;
        let cell = session.cell(code).await;
        assert!(cell.preview.len() < 100_000, "{code}: {}", cell.preview.len());
        assert!(cell.preview.contains("more"), "{code}: {}", cell.preview.get(..200).unwrap_or_default());
    }
    let preview = session.cell("({first: 'a'.repeat(30), second: 'b'.repeat(30), third: 'c'.repeat(30)})").await.preview;
    assert!(preview.starts_with("{\n  first: 'aaa"), "{preview}");
}

#[tokio::test]
async fn a_stack_names_the_cell_and_none_of_our_frames() {
    let mut session = Session::new(real());
    let code = "function inner() { return new RangeError('deep').stack }\n[1].map(inner)[0]";
    let stack = session.value(code).await;
    let lines: Vec<&str> = stack.as_str().unwrap().lines().collect();
    assert_eq!(lines[0], "RangeError: deep");
    assert!(lines[1].starts_with("    at inner (cell-1.ts:1:"), "{lines:?}");
    assert!(lines[2].starts_with("    at cell-1.ts:2:"), "{lines:?}");
    assert_eq!(lines.len(), 3, "{lines:?}");
    let captured = session.value("var o = {}; Error.captureStackTrace(o); o.stack.split('\\n').length").await;
    assert_eq!(captured, 2);
    assert_eq!(session.value("var own = new Error('x'); own.stack = 'mine'; own.stack").await, "mine");
}

#[tokio::test]
async fn an_aggregate_error_tells_every_error() {
    let mut session = Session::new(real());
    let error = session.cell("throw new AggregateError([new Error('one'), new TypeError('two')], 'both')").await.error.unwrap();
    assert_eq!((error.name.as_str(), error.message.as_str(), error.line), ("AggregateError", "both", 1));
    assert!(error.stack.contains("Error 1 of 2: Error: one") && error.stack.contains("Error 2 of 2: TypeError: two"), "{}", error.stack);
    let error = session.cell("throw new Error('outer', {cause: new Error('inner')})").await.error.unwrap();
    assert!(error.stack.contains("Caused by: Error: inner"), "{}", error.stack);
}
