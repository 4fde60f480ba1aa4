//! The modules and web globals that a session finds, and that they live in the heap like everything else.

use dormouse_engine::{OpResult, PAGE_BYTES};
use serde_json::{Value, json};

use crate::support::{Session, real};

/// Runs an expression that may await; timers fire as soon as they are asked for.
async fn waited(session: &mut Session, code: &str) -> Value {
    let turn = session.turn(code, true).await;
    let mut ops = turn.ops;
    let mut end = turn.cell;
    while end.is_none() {
        assert!(!ops.is_empty(), "{code}: it waits for nothing");
        let op = ops.remove(0);
        let turn = session.deliver(op.id, OpResult::Fired).await;
        ops.extend(turn.ops);
        end = turn.cell;
    }
    let cell = end.unwrap();
    assert!(cell.ok, "{code}: {:?}", cell.error);
    cell.value.unwrap_or_else(|| panic!("{code}: {} is not JSON", cell.preview))
}

/// The bytecode of all modules is more than three times as large.
const HEAP_OF_NO_MODULE_BYTES_MAX: usize = 600_000;

const NODE: [&str; 17] = [
    "assert",
    "assert/strict",
    "buffer",
    "crypto",
    "events",
    "fs",
    "fs/promises",
    "path",
    "querystring",
    "stream",
    "stream/promises",
    "string_decoder",
    "timers",
    "timers/promises",
    "url",
    "util",
    "util/types",
];
const NPM: [&str; 5] = ["dayjs", "lodash", "ramda", "uuid", "zod"];

#[tokio::test]
async fn every_module_is_there_by_each_of_its_names() {
    let mut session = Session::new(real());
    for name in NODE {
        let code = format!("require('{name}') === require('node:{name}') && ['object', 'function'].includes(typeof require('{name}'))");
        assert_eq!(session.value(&code).await, json!(true), "{name}");
        let code = format!("(await import('{name}')).default === (await import('node:{name}')).default");
        assert_eq!(waited(&mut session, &code).await, json!(true), "{name}");
    }
    for name in NPM {
        assert_eq!(session.value(&format!("require('{name}') === require('npm:{name}')")).await, json!(true), "{name}");
        let code = format!("['function', 'object'].includes(typeof (await import('npm:{name}')).default)");
        assert_eq!(waited(&mut session, &code).await, json!(true), "{name}");
    }
}

#[tokio::test]
async fn the_packages_do_their_work() {
    let mut session = Session::new(real());
    for (code, expected) in [
        ("require('lodash').chunk([1, 2, 3], 2)", json!([[1, 2], [3]])),
        ("require('lodash/map')([1, 2], (x) => x * 2)", json!([2, 4])),
        ("require('lodash/fp').map((x) => x + 1)([1])", json!([2])),
        ("require('dayjs')('2026-01-31T00:00:00Z').add(1, 'month').toISOString().slice(0, 10)", json!("2026-02-28")),
        ("{ const dayjs = require('dayjs'); dayjs.extend(require('dayjs/plugin/utc')); dayjs.utc(0).format('YYYY') }", json!("1970")),
        ("require('ramda').pipe(require('ramda').sum, (x) => x * 2)([1, 2])", json!(6)),
        ("var crypto = require('crypto'); crypto.randomUUID().length", json!(36)),
        ("require('uuid').validate(require('uuid').v4())", json!(true)),
        ("require('uuid').v5('a', require('uuid').NIL).length", json!(36)),
        ("require('zod').z.object({a: require('zod').z.number().min(3)}).safeParse({a: 2}).error.issues[0].code", json!("too_small")),
        ("require('zod').z.string().safeParse(5).error.issues[0].message", json!("Invalid input: expected string, received number")),
        (
            "{ const { z } = require('zod'); z.config(z.locales.de()); const m = z.string().safeParse(5).error.issues[0].message; z.config(z.locales.en()); m }",
            json!("Ungültige Eingabe: erwartet string, erhalten Zahl"),
        ),
    ] {
        assert_eq!(session.value(code).await, expected, "{code}");
    }
}

#[tokio::test]
async fn the_last_result_leaves_lodash_its_name() {
    let mut session = Session::new(real());
    for (code, expected) in [
        ("1 + 1", json!(2)),
        ("_ + 1", json!(3)),
        ("var { default: _ } = await import('lodash'); _.last([1, 2])", json!(2)),
        ("_.first([7])", json!(7)),
        ("typeof _.map", json!("function")),
        ("delete globalThis._", json!(true)),
        ("typeof _", json!("boolean")),
    ] {
        assert_eq!(waited(&mut session, code).await, expected, "{code}");
    }
}

#[tokio::test]
async fn imports_see_names_and_a_default() {
    let mut session = Session::new(real());
    for (code, expected) in [
        ("const { default: _, map } = await import('lodash'); [map === _.map, typeof _.map]", json!([true, "function"])),
        ("const { z, default: all } = await import('zod'); all === z", json!(true)),
        ("const path = await import('path'); [path.join('a', 'b'), path.default.join('a', 'b')]", json!(["a/b", "a/b"])),
        ("await import('lodash') === await import('lodash')", json!(true)),
        (
            "await import('no-such').catch((e) => [e.code, e.message.includes('lodash'), e.message.includes('buffer')])",
            json!(["ERR_MODULE_NOT_FOUND", true, true]),
        ),
    ] {
        assert_eq!(waited(&mut session, code).await, expected, "{code}");
    }
    let refused = "(() => { try { require('nothing') } catch (e) { return [e.code, e.message.includes('node:')] } })()";
    assert_eq!(session.value(refused).await, json!(["MODULE_NOT_FOUND", true]));
    assert_eq!(session.value("(() => { try { require('node:lodash') } catch (e) { return e.code } })()").await, json!("MODULE_NOT_FOUND"));
    assert_eq!(session.value("(() => { try { require(5) } catch (e) { return e.name } })()").await, json!("TypeError"));
    assert_eq!(session.value("(() => { try { require('web/url') } catch (e) { return e.code } })()").await, json!("MODULE_NOT_FOUND"));
}

#[tokio::test]
async fn globals_are_ordinary_properties_that_may_be_replaced() {
    let mut session = Session::new(real());
    for (code, expected) in [
        ("Object.keys(globalThis).includes('URL')", json!(false)),
        ("typeof URL", json!("function")),
        ("Object.getOwnPropertyDescriptor(globalThis, 'URL').writable", json!(true)),
        ("var Headers = 5; Headers", json!(5)),
        ("function Request() { return 1 } Request()", json!(1)),
        ("globalThis.Buffer = 'mine'; Buffer", json!("mine")),
        ("typeof require('buffer').Buffer.from", json!("function")),
        ("delete globalThis.Event && typeof Event", json!("undefined")),
        (
            "[CustomEvent.name, AbortSignal.name, ReadableStream.name, Response.name]",
            json!(["CustomEvent", "AbortSignal", "ReadableStream", "Response"]),
        ),
    ] {
        assert_eq!(session.value(code).await, expected, "{code}");
    }
}

#[tokio::test]
async fn what_modules_made_survives_hibernation() {
    let mut session = Session::new(real());
    let set_up = "
        const EventEmitter = require('events');
        var seen = [];
        var emitter = new EventEmitter();
        emitter.on('x', (n) => seen.push(n));
        emitter.once('x', () => seen.push('once'));
        emitter.emit('x', 1);
        var buffer = Buffer.from('é€');
        const { z } = require('zod');
        var schema = z.object({ name: z.string().min(2), tags: z.array(z.enum(['a', 'b'])).default(['a']) });
        require('fs').mkdirSync('/data');
        require('fs').writeFileSync('/data/file', 'kept');
        var stream = new ReadableStream({ start(c) { c.enqueue('one'); c.enqueue('two'); c.close(); } });
        var reader = stream.getReader();
        var first = (await reader.read()).value;
        var url = new URL('http://h/?a=1');
        var params = url.searchParams;
        var hash = require('crypto').createHash('sha256').update('a');
        var key = await crypto.subtle.generateKey({ name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify']);
        var code = await crypto.subtle.sign('HMAC', key, buffer);
        var decoder = new TextDecoder();
        decoder.decode(new Uint8Array([0xe2, 0x82]), { stream: true });
        var abort = new AbortController();
        abort.signal.addEventListener('abort', () => seen.push('aborted'));
        var _ = require('lodash');
        first";
    assert_eq!(waited(&mut session, set_up).await, json!("one"));
    let mut session = session.hibernate().await;
    for (code, expected) in [
        ("emitter.emit('x', 2); seen", json!([1, "once", 2])),
        ("[buffer.toString(), buffer.toString('hex'), Buffer.isBuffer(buffer)]", json!(["é€", "c3a9e282ac", true])),
        ("[schema.parse({ name: 'ab' }), schema.safeParse({ name: 'x' }).success]", json!([{"name": "ab", "tags": ["a"]}, false])),
        ("require('fs').readFileSync('/data/file', 'utf8')", json!("kept")),
        ("(await reader.read()).value", json!("two")),
        ("(await reader.read()).done", json!(true)),
        ("params.append('b', '2'); url.href", json!("http://h/?a=1&b=2")),
        ("hash.update('b').digest('hex') === require('crypto').createHash('sha256').update('ab').digest('hex')", json!(true)),
        ("await crypto.subtle.verify('HMAC', key, code, buffer)", json!(true)),
        ("decoder.decode(new Uint8Array([0xac]))", json!("€")),
        ("abort.abort(); seen.at(-1)", json!("aborted")),
        ("[require('lodash') === _, (await import('lodash')).default === _]", json!([true, true])),
    ] {
        assert_eq!(waited(&mut session, code).await, expected, "{code}");
    }
}

#[tokio::test]
async fn modules_cost_a_session_that_uses_none_nothing() {
    let mut session = Session::new(real());
    session.cell("1").await;
    let pages = session.instance.image().await.pages.len();
    assert!(pages * PAGE_BYTES < HEAP_OF_NO_MODULE_BYTES_MAX, "{pages} pages");
    let heap = session.instance.heap_bytes();
    assert!(heap < HEAP_OF_NO_MODULE_BYTES_MAX as u64, "{heap} bytes");
    session.cell("require('lodash')").await;
    assert!(session.instance.heap_bytes() > heap + 100_000, "the first use brings it into the heap");
}

#[tokio::test]
async fn a_module_that_a_limit_stopped_can_be_asked_for_again() {
    let mut session = Session::new(dormouse_engine::Settings { heap_bytes: session_heap(1_000_000).await, determinism: None });
    let cell = session.cell("require('zod')").await;
    assert!(!cell.ok, "a million bytes do not hold zod");
    session.settings.heap_bytes = crate::support::HEAP_BYTES;
    let mut session = session.hibernate().await;
    assert_eq!(session.value("require('zod').z.string().parse('a')").await, json!("a"));
}

/// The heap of a fresh session and this much more.
async fn session_heap(more: u64) -> u64 {
    let mut session = Session::new(real());
    session.cell("0").await;
    session.instance.heap_bytes() + more
}

#[tokio::test]
async fn a_polluted_prototype_stops_no_module_from_being_found() {
    let mut session = Session::new(real());
    session.cell("require('querystring'); 0").await;
    session.cell("Object.prototype.exports = 1; Object.prototype.get = () => 1; Array.prototype.join = () => 'x'; String.prototype.slice = () => ''; Map.prototype.get = () => ({}); 0").await;
    assert_eq!(session.value("require('querystring') === require('node:querystring')").await, json!(true));
    assert_eq!(
        session.value("(() => { try { require('nope') } catch (e) { return e.message.includes('assert, async_hooks, buffer') } })()").await,
        json!(true)
    );
}

#[tokio::test]
async fn what_a_sandbox_will_not_do_is_refused_by_name_with_what_to_use_instead() {
    let mut session = Session::new(real());
    for (name, instead) in
        [("child_process", "call a tool"), ("node:worker_threads", "another session"), ("http2", "use fetch"), ("node:vm", "eval")]
    {
        let code = format!("try {{ require('{name}') }} catch (error) {{ [error.code, error.message] }}");
        let told = session.value(&code).await;
        assert_eq!(told[0], json!("MODULE_NOT_FOUND"), "{told}");
        let message = told[1].as_str().unwrap();
        assert!(message.contains(name) && message.contains(instead), "{message}");
    }
    assert_eq!(session.value("try { require('nothing') } catch (error) { error.code }").await, json!("MODULE_NOT_FOUND"));
    assert_eq!(
        session.value("[require.resolve('fs'), typeof module.exports, __dirname, process.platform]").await,
        json!(["fs", "object", "/", "linux"])
    );
}

#[tokio::test]
async fn a_json_file_of_the_session_is_a_module() {
    let mut session = Session::new(real());
    session.cell("require('fs').mkdirSync('/d'); require('fs').writeFileSync('/d/some.json', '{\"n\":[1]}'); require('fs').writeFileSync('/top.json', '5'); 0").await;
    assert_eq!(session.value("[require('/d/some.json').n, require('./top.json')]").await, json!([[1], 5]));
    let imported = session.turn("(await import('/d/some.json')).default.n", true).await.cell.unwrap();
    assert_eq!(imported.value, Some(json!([1])), "{:?}", imported.error);
    let missing = "try { require('./none.json') } catch (error) { error.code }";
    assert_eq!(session.value(missing).await, json!("MODULE_NOT_FOUND"));
}

/// What the body of an asynchronous function comes to.
async fn awaited(session: &mut Session, body: &str) -> serde_json::Value {
    let cell = session.turn(&format!("await (async () => {{ {body} }})()"), true).await.cell.unwrap();
    assert!(cell.ok, "{:?}", cell.error);
    cell.value.unwrap()
}

#[tokio::test]
async fn files_of_the_session_are_modules_of_both_kinds() {
    let mut session = Session::new(real());
    let write = "const fs = require('fs'); fs.mkdirSync('/lib/deep', { recursive: true }); \
        fs.writeFileSync('/lib/index.js', 'exports.deep = require(\"./deep/one\"); exports.here = [__filename, __dirname, module.id]'); \
        fs.writeFileSync('/lib/deep/one.js', 'module.exports = { n: 1, path: require(\"path\").basename(__filename), up: () => require(\"..\").here }'); \
        fs.writeFileSync('/sum.mjs', 'import { n } from \"./lib/deep/one.js\"; import rates from \"./rates.json\" with { type: \"json\" }; \
            export let calls = 0; export const sum = (by) => { calls++; return n + rates[0] + by }; export default import.meta.url'); \
        fs.writeFileSync('/typed.js', 'export const kind = \"module\"'); \
        fs.writeFileSync('/rates.json', '[10]'); 0";
    session.cell(write).await;
    assert_eq!(
        session.value("const lib = require('./lib'); [lib.deep.n, lib.deep.path, lib.deep.up(), require('/lib/index.js') === lib]").await,
        json!([1, "one.js", ["/lib/index.js", "/lib", "/lib/index.js"], true])
    );
    let imported = "const it = await import('./sum.mjs'); return [it.sum(100), it.calls, it.default, Object.keys(it)]";
    assert_eq!(awaited(&mut session, imported).await, json!([111, 1, "file:///sum.mjs", ["calls", "default", "sum"]]));
    assert_eq!(awaited(&mut session, "return (await import('/sum.mjs')).calls").await, json!(1), "the same module in every cell");
    assert_eq!(awaited(&mut session, "return (await import('./typed.js')).kind + require('/typed').kind").await, json!("modulemodule"));
    assert_eq!(session.value("[require.resolve('./lib'), require.resolve('./rates')]").await, json!(["/lib/index.js", "/rates.json"]));
}

#[tokio::test]
async fn a_file_that_has_changed_is_another_module_once_it_is_asked_for_as_one() {
    let mut session = Session::new(real());
    let code = "const fs = require('fs'); fs.writeFileSync('/a.js', 'module.exports = 1'); const first = require('./a'); \
        fs.writeFileSync('/a.js', 'module.exports = 2'); const kept = require('./a'); delete require.cache[require.resolve('./a')]; [first, kept, require('./a')]";
    assert_eq!(session.value(code).await, json!([1, 1, 2]));
    let code = "fs.writeFileSync('/b.mjs', 'export default 1'); const one = await import('./b.mjs'); fs.writeFileSync('/b.mjs', 'export default 2'); \
        return [one.default, (await import('./b.mjs')).default, (await import('./b.mjs?v=2')).default, (await import('file:///b.mjs?v=2')).default]";
    assert_eq!(awaited(&mut session, code).await, json!([1, 1, 2, 2]));
}

#[tokio::test]
async fn a_file_that_is_no_module_says_why() {
    let mut session = Session::new(real());
    session.cell("const fs = require('fs'); fs.writeFileSync('/t.ts', 'export let n: number = 1'); fs.writeFileSync('/bad.js', 'let ='); fs.writeFileSync('/asks.js', 'require(\"./gone\")'); 0").await;
    let told = |name: &str| format!("try {{ require('{name}') }} catch (error) {{ [error.name, error.code, error.message] }}");
    for (name, error, code, message) in [
        ("./none", "Error", Some("MODULE_NOT_FOUND"), "Cannot find module './none': the session has no such file"),
        ("../up", "Error", Some("MODULE_NOT_FOUND"), "Cannot find module '../up': the session has no such file"),
        ("./asks", "Error", Some("MODULE_NOT_FOUND"), "Cannot find module './gone', which file:///asks.js asks for"),
        (
            "./t.ts",
            "Error",
            Some("ERR_UNKNOWN_FILE_EXTENSION"),
            "file:///t.ts is no JavaScript: only cells are compiled; write it as .js, or run its text as a cell",
        ),
        ("./bad.js", "SyntaxError", None, "variable name expected"),
    ] {
        let told = session.value(&told(name)).await;
        assert_eq!((&told[0], &told[1]), (&json!(error), &json!(code)), "{name}: {told}");
        assert!(told[2].as_str().unwrap().contains(message), "{name}: {told}");
    }
    let missing = session.turn("await import('./none.mjs')", true).await.cell.unwrap().error.unwrap();
    assert!(missing.message.contains("the session has no such file"), "{}", missing.message);
}

#[tokio::test]
async fn what_other_engines_have_is_not_defined_and_says_what_to_use_instead() {
    let mut session = Session::new(real());
    for (name, instead) in
        [("WebAssembly", "call a tool"), ("localStorage", "variables of a session last"), ("WebSocket", "use fetch or a tool")]
    {
        let told =
            session.value(&format!("[typeof {name}, (() => {{ try {{ {name}.x }} catch (error) {{ return `${{error}}` }} }})()]")).await;
        assert_eq!(told, json!(["undefined", format!("ReferenceError: {name} is not defined: {instead}")]));
    }
    assert_eq!(
        session.value("(() => { try { nothing.x } catch (error) { return error.message } })()").await,
        json!("nothing is not defined")
    );
}

/// A decompression that the heap has no room for is an error of the cell's, and the session goes on.
#[tokio::test]
async fn what_is_unpacked_has_no_more_than_the_heap_has_room_for() {
    let mut session = Session::new(real());
    let code = "const zlib = require('zlib'); const packed = zlib.gzipSync(Buffer.alloc(1 << 20)); let all = packed; \
        for (let i = 0; i < 7; i++) all = Buffer.concat([all, all]); try { zlib.gunzipSync(all); 'fine' } catch (error) { error.code ?? error.name }";
    let told = session.value(code).await;
    assert_ne!(told, json!("fine"));
    assert_eq!(session.value("require('zlib').gunzipSync(packed).length").await, json!(1 << 20));
}

#[tokio::test]
async fn what_most_sessions_use_is_in_the_base_image() {
    const CHANGED_PAGES_MAX: usize = 60;
    let mut session = Session::new(real());
    let cell = session
        .cell("Buffer; process; fetch; ReadableStream; for (const it of ['events', 'fs', 'path', 'stream', 'util']) require(it); 0")
        .await;
    assert!(cell.ok, "{:?}", cell.error);
    let changed = session.instance.image().await.pages.len();
    assert!(changed <= CHANGED_PAGES_MAX, "{changed} pages are the session's own");
}

#[tokio::test]
async fn nothing_is_seen_of_what_the_base_image_has_run() {
    let mut session = Session::new(real());
    let names = "[typeof _, '_' in globalThis, Object.getOwnPropertyNames(globalThis).filter((name) => /^w\\d/.test(name)), Object.keys(globalThis)]";
    assert_eq!(session.value(names).await, json!(["undefined", false, [], []]));
    let cell = session.cell("throw new Error('mine')").await;
    let stack = cell.error.unwrap().stack;
    assert!(stack.contains("cell-1.ts") && !stack.contains("cell-0"), "{stack}");
}

#[tokio::test]
async fn a_small_cell_changes_few_pages() {
    const CHANGED_PAGES_MAX: usize = 25;
    let mut session = Session::new(real());
    for _ in 0..3 {
        session.cell("1 + 1").await;
    }
    let changed = session.instance.image().await.pages.len();
    assert!(changed <= CHANGED_PAGES_MAX, "{changed} pages are the session's own");
}

#[tokio::test]
async fn circles_that_hold_what_is_in_the_base_image_are_collected() {
    let mut session = Session::new(dormouse_engine::Settings { heap_bytes: 16 << 20, determinism: None });
    let circles = "for (let i = 0; i < 300000; i++) { const a = { held: [Buffer, process, Buffer.prototype] }; a.a = a }; 0";
    let cell = session.cell(circles).await;
    assert!(cell.ok, "{:?}", cell.error);
    assert!(session.instance.heap_bytes() < 8 << 20, "{}", session.instance.heap_bytes());
    assert_eq!(session.value("Buffer.from('still here').toString() + typeof process.nextTick").await, "still herefunction");
}

#[tokio::test]
async fn a_step_of_zlib_stays_inside_its_buffers_whatever_it_is_told() {
    let mut session = Session::new(real());
    session.value("globalThis.far = 2 ** 32 - 1; globalThis.zlib = require('zlib'); 0").await;
    for parts in
        ["far, 2, room, 0, 64", "0, far, room, 0, 64", "0, 4, room, far, 2", "0, 4, room, 1, far", "1, 4, room, 0, 64", "0, 4, room, 1, 64"]
    {
        let code = format!(
            "(() => {{ const [room, stream] = [Buffer.from(new ArrayBuffer(64)), zlib.createDeflate()];
                try {{ stream._handle.writeSync(0, Buffer.from(new ArrayBuffer(4)), {parts}); return 'taken'; }}
                catch (error) {{ return error.message; }} finally {{ stream.close(); }} }})()"
        );
        assert_eq!(session.value(&code).await, json!("the buffer is detached or too short"), "{parts}");
    }
}

#[tokio::test]
async fn streams_of_zlib_are_as_many_as_may_be_open_at_once() {
    let mut session = Session::new(real());
    session
        .value(
            "globalThis.zlib = require('zlib');
             globalThis.begin = (stream) => { stream._handle.writeSync(0, Buffer.from('x'), 0, 1, Buffer.alloc(64), 0, 64); return stream; };
             globalThis.most = (make) => {
                 const open = [];
                 let told;
                 try { for (;;) open.push(begin(make())); } catch (error) { told = error.message; }
                 // One that is closed leaves its place to another.
                 open[0].close();
                 begin(make()).close();
                 for (const stream of open) stream.close();
                 return [open.length, told];
             }; 0",
        )
        .await;
    let told = session.value("most(() => zlib.createDeflate())").await;
    assert_eq!(told, json!([128, "at most 128 streams of zlib may be open at once; end or close some"]));
    let told = session.value("most(() => zlib.createBrotliCompress())").await;
    assert_eq!(told, json!([8, "at most 8 streams may pack as brotli at once; end or close some"]));
}
