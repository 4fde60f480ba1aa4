//! A small generator of cells: declarations, closures, classes, generators, collections, promises, timers, and what uses them later.

use proptest::{collection::vec, prelude::*};

const CELLS_MAX: usize = 10;
/// Names that cells share.
const NAMES: usize = 5;

/// A program.
pub fn cells() -> impl Strategy<Value = Vec<String>> {
    vec(cell(), 1..CELLS_MAX)
}

fn name() -> impl Strategy<Value = String> {
    (0..NAMES).prop_map(|n| format!("v{n}"))
}

fn cell() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => vec(statement(), 1..4).prop_map(|all| all.join("\n")),
        2 => (name(), expression()).prop_map(|(n, e)| format!("var {n} = {e}; {n}")),
        2 => expression(),
        1 => awaiting(),
    ]
}

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        (-1000i32..1000).prop_map(|n| format!("({n})")),
        any::<f64>().prop_filter("printable", |x| x.is_finite()).prop_map(|x| format!("({x:e})")),
        "[a-zé😀\\\\u{0}]{0,12}".prop_map(|s| serde_json::to_string(&s).unwrap()),
        (0u64..u64::MAX).prop_map(|n| format!("{n}n")),
        prop_oneof![Just("null"), Just("undefined"), Just("true"), Just("NaN"), Just("-0"), Just("Symbol('s')"), Just("Symbol.for('g')")]
            .prop_map(str::to_owned),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![2 => literal(), 1 => name().prop_map(|n| format!("(typeof {n} === 'undefined' ? 0 : {n})"))];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|all| format!("[{}]", all.join(", "))),
            vec((0..6usize, inner.clone()), 0..4).prop_map(|all| {
                let all: Vec<String> = all.into_iter().map(|(key, value)| format!("k{key}: {value}")).collect();
                format!("({{ {} }})", all.join(", "))
            }),
            two.clone().prop_map(|(a, b)| format!("(`${{String({a})}}` + String({b}))")),
            two.clone().prop_map(|(a, b)| format!("(Number(String({a})) + Number(String({b})))")),
            two.clone().prop_map(|(a, b)| format!("new Map([[{a}, {b}], ['k', {a}]])")),
            vec(inner.clone(), 0..6).prop_map(|all| format!("new Set([{}])", all.join(", "))),
            two.clone().prop_map(|(a, b)| format!("((n) => {{ let kept = {b}; return () => [n, kept] }})({a})")),
            two.clone()
                .prop_map(|(a, b)| format!("(function* () {{ yield {a}; try {{ yield {b} }} finally {{ console.log('left') }} }})()")),
            two.clone().prop_map(|(a, b)| format!("new (class K {{ #p = {a}; q = {b}; get p() {{ return this.#p }} }})()")),
            inner.clone().prop_map(|a| format!("Promise.resolve({a})")),
            inner.clone().prop_map(|a| format!("new Error(String({a}), {{ cause: {a} }})")),
            (1..200usize, inner.clone()).prop_map(|(n, a)| format!("Array.from({{ length: {n} }}, (_, i) => [i, {a}])")),
            (1..3000usize).prop_map(|n| format!("new Float64Array({n}).map((_, i) => Math.sqrt(i))")),
            (1..3000usize).prop_map(|n| format!("new Uint8Array({n}).fill({n})")),
            (1..300usize).prop_map(|n| format!("'x'.repeat({n})")),
            (1..2000u32).prop_map(|n| format!("(3n ** {n}n)")),
            two.prop_map(|(a, b)| format!("new WeakRef([{a}, {b}])")),
            prop_oneof![
                Just("Math.random()"),
                Just("Date.now()"),
                Just("crypto.randomUUID()"),
                Just("/(?<y>\\d+)-x/gy"),
                Just("new Date(0)")
            ]
            .prop_map(str::to_owned),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (name(), expression(), prop_oneof![Just("var"), Just("let"), Just("const")]).prop_map(|(n, e, word)| format!("{word} {n}{} = {e};", &word[..1])),
        4 => (name(), expression()).prop_map(|(n, e)| format!("var {n} = {e};")),
        3 => expression().prop_map(|e| format!("console.log({e});")),
        2 => name().prop_map(|n| format!("if (typeof {n} === 'function') {n} = {n}(); else if (typeof {n}?.next === 'function') console.log({n}.next());")),
        2 => (name(), expression()).prop_map(|(n, e)| format!("if (Array.isArray({n})) {n}.push({e}); else if ({n} instanceof Map) {n}.set({e}, 1); else if ({n} instanceof Set) {n}.delete({e});")),
        2 => (name(), 0..50u32, expression()).prop_map(|(n, ms, e)| format!("setTimeout(() => {{ var late = {e}; globalThis.{n} = late; console.log('timer', typeof late) }}, {ms});")),
        1 => (0..20u32).prop_map(|ms| format!("globalThis.every = setInterval(() => console.log('tick'), {ms}); setTimeout(() => clearInterval(every), {});", ms * 3)),
        1 => (name(), expression()).prop_map(|(n, e)| format!("Promise.resolve({e}).then((x) => {{ globalThis.{n} = x; console.log('then') }});")),
        1 => expression().prop_map(|e| format!("Promise.reject({e}).catch(() => console.log('caught'));")),
        1 => expression().prop_map(|e| format!("try {{ throw {e} }} catch (e) {{ console.log(typeof e) }} finally {{ var f = 1 }}")),
        1 => name().prop_map(|n| format!("delete globalThis.{n}; var {n};")),
        1 => (1..400usize).prop_map(|n| format!("for (let i = 0; i < {n}; i++) globalThis['g' + i] = {{ i }}; for (let i = 0; i < {n}; i += 2) delete globalThis['g' + i];")),
        1 => (name(), expression()).prop_map(|(n, e)| format!("async function late{n}() {{ await null; await sleep(3); return {e} }} late{n}().then((x) => console.log('late', typeof x));")),
    ]
}

fn awaiting() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..30u32, expression()).prop_map(|(ms, e)| format!("await sleep({ms}); var woke = {e}; woke")),
        (name(), expression())
            .prop_map(|(n, e)| format!("var {n} = await Promise.all([{e}, sleep(2), Promise.resolve(1)]); console.log({n}.length)")),
        expression().prop_map(|e| format!("for await (const x of [sleep(1), {e}]) console.log(typeof x);")),
        expression().prop_map(|e| format!("await sleep(1); throw {e}")),
    ]
}
