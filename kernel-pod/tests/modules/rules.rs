//! Packages run by Node's rules: which file a name means, and what a module finds around it.

use serde_json::{Value, json};

use super::place::{Place, assign};
use crate::common::value;

#[tokio::test(flavor = "multi_thread")]
async fn a_package_that_every_session_has_comes_from_the_engine_unless_a_range_says_otherwise() {
    let place = Place::new().await;
    place.registry.publish("zod", "3.9.0", &json!({}), &[("index.js", "exports.version = 3")]);
    let a = place.pod("a");
    let session = assign(&a, "u1", 1, &["lodash", "npm:zod@^4"]);
    assert_eq!(
        value(&a, &session, "import { z } from 'zod'; [require('lodash').chunk([1, 2], 1), typeof z.object]").await,
        json!([[[1], [2]], "function"])
    );
    assert_eq!(place.registry.seen(), Vec::<String>::new());
    let other = assign(&a, "u2", 1, &["npm:zod@^3"]);
    assert_eq!(value(&a, &other, "import { version } from 'zod'; version").await, json!(3));
}

/// Runs `code` in a session that may use `app`, of these files and this package.json.
async fn in_app(manifest: Value, files: &[(&str, &str)], code: &str) -> Value {
    let place = Place::new().await;
    place.registry.publish("app", "1.0.0", &manifest, files);
    let a = place.pod("a");
    value(&a, &assign(&a, "u1", 1, &["app"]), code).await
}

#[tokio::test(flavor = "multi_thread")]
async fn common_modules_have_what_nodes_have() {
    let files = [
        (
            "lib/main.js",
            "#!/usr/bin/env node\nconst self = require('./other'); exports.self = self; exports.names = [typeof __filename, __dirname, module.id === require.resolve('./main.js'), this === exports];",
        ),
        (
            "lib/other/index.js",
            "module.exports = { data: require('../../data.json'), path: require('path').join('a', 'b'), env: process.env.NODE_ENV ?? 'none', g: global === globalThis };",
        ),
        ("lib/a.js", "exports.early = true; const b = require('./b'); exports.b = b.sawA;"),
        ("lib/b.js", "exports.sawA = require('./a').early;"),
        ("data.json", "\u{feff}{\"x\": 1}"),
        ("sub/package.json", "{\"main\": \"../lib/a.js\"}"),
        ("plain.js", "module.exports = function f() {}; module.exports.extra = 1;"),
    ];
    let code = "const app = require('app'); import plain, { extra } from 'app/plain'; \
                [app.self, app.names, require('app/sub').b, require('app/data.json').x, typeof plain, extra, (await import('app/lib/a.js')).default.b, app === require('app')]";
    let found = in_app(json!({"main": "./lib/main"}), &files, code).await;
    let path = "/npm/app@1.0.0/lib";
    let expected = json!([{"data": {"x": 1}, "path": "a/b", "env": "none", "g": true}, ["string", path, true, true], true, 1, "function", 1, true, true]);
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn es_modules_are_linked_as_the_language_says() {
    let files = [
        (
            "index.js",
            "export { count, add } from './count.js'; export * from './star.js'; export { default as fs } from 'node:fs'; import cjs, { named } from './old.cjs'; export { cjs, named }; export default class Main {}; export const url = import.meta.url;",
        ),
        ("count.js", "export let count = 0; export function add() { count += 1; }"),
        ("star.js", "import { ping } from './ring.js'; export const star = ping(3); export const env = process.env.X ?? 'none';"),
        ("ring.js", "import { pong } from './back.js'; export function ping(n) { return n === 0 ? 'done' : pong(n - 1); }"),
        ("back.js", "import { ping } from './ring.js'; export const pong = (n) => ping(n);"),
        ("old.cjs", "exports.named = 7; exports.__esModule = true; exports.default = 'inner';"),
        ("waits.js", "export const value = await Promise.resolve(4);"),
        ("own.js", "import process from 'node:process'; const global = 1; export const it = [typeof process.cwd, global];"),
    ];
    let code = "import Main, * as app from 'app'; const before = app.count; app.add(); \
                const required = require('app'); \
                let refused; try { require('app/waits.js') } catch (error) { refused = error.message } \
                [Main.name, before, app.count, app.star, app.env, typeof app.fs.readFileSync, app.cjs.default, app.named, app.url, required === app, required.count, \
                 (await import('app/waits.js')).value, refused, require('app/own.js').it]";
    let found = in_app(json!({"type": "module"}), &files, code).await;
    let url = "file:///npm/app@1.0.0/index.js";
    let refused = "the ES module awaits at its top level: import() it";
    assert_eq!(found, json!(["Main", 0, 1, "done", "none", "function", "inner", 7, url, true, 1, 4, refused, ["function", 1]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_and_imports_of_a_package_are_nodes() {
    let manifest = json!({
        "exports": {
            ".": {"import": "./esm/index.js", "require": "./index.js"},
            "./feature": [{"nothing": "./no.js"}, "./feature.js"],
            "./parts/*": "./parts/*.js", "./parts/inner/*": null, "./parts/x*y": {"node": {"default": "./deep.js"}},
            "./package.json": "./package.json", "./missing": "./missing.js",
        },
        "imports": {"#dep": {"import": "dep", "require": "dep"}, "#own/*": "./parts/*.js"},
        "dependencies": {"dep": "1"},
    });
    let files = [
        (
            "index.js",
            "exports.kind = 'common'; exports.dep = require('#dep'); exports.a = require('#own/a'); exports.self = require('app/feature');",
        ),
        ("esm/index.js", "export const kind = 'module'; export { default as dep } from '#dep';"),
        ("esm/package.json", "{\"type\": \"module\"}"),
        ("feature.js", "module.exports = 'feature'"),
        ("parts/a.js", "module.exports = 'a'"),
        ("parts/inner/b.js", ""),
        ("deep.js", "module.exports = 'deep'"),
    ];
    let place = Place::new().await;
    place.registry.publish("app", "1.0.0", &manifest, &files);
    place.registry.publish("dep", "1.0.0", &json!({}), &[("index.js", "module.exports = 'dep'")]);
    let a = place.pod("a");
    let session = assign(&a, "u1", 1, &["app"]);
    let code = "import { kind, dep } from 'app'; const common = require('app'); \
                [kind, dep, common, require('app/parts/a'), require('app/parts/x1y'), require('app/package.json').name]";
    let common = json!({"kind": "common", "dep": "dep", "a": "a", "self": "feature"});
    assert_eq!(value(&a, &session, code).await, json!(["module", "dep", common, "a", "deep", "app"]));
    let code = "['app/index.js', 'app/parts/inner/b', 'app/../x', 'app/missing', 'dep'].map((name) => { try { return require(name) } catch (error) { return error.code } })";
    let not = "ERR_PACKAGE_PATH_NOT_EXPORTED";
    assert_eq!(
        value(&a, &session, code).await,
        json!([not, not, not, "MODULE_NOT_FOUND", "MODULE_NOT_FOUND"]),
        "and a dependency is no cell's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_need_each_other_in_versions_of_their_own_and_in_circles() {
    let place = Place::new().await;
    place.registry.publish("leaf", "1.0.0", &json!({}), &[("index.js", "module.exports = 'leaf 1'")]);
    place.registry.publish("leaf", "2.0.0", &json!({"type": "module"}), &[("index.js", "export default 'leaf 2'")]);
    let ring = json!({"dependencies": {"right": "*", "leaf": "1"}});
    place.registry.publish(
        "left",
        "1.0.0",
        &ring,
        &[("index.js", "exports.name = 'left'; exports.other = () => require('right').name; exports.leaf = require('leaf');")],
    );
    let ring = json!({"dependencies": {"left": "*", "leaf": "2"}});
    place.registry.publish(
        "right",
        "1.0.0",
        &ring,
        &[(
            "index.js",
            "exports.name = 'right'; const left = require('left'); exports.left = left.name; exports.leaf = require('leaf').default;",
        )],
    );
    place.registry.publish(
        "@scope/app",
        "1.0.0",
        &json!({"dependencies": {"old": "npm:leaf@1"}, "peerDependencies": {"left": "*"}}),
        &[("index.js", "module.exports = [require('old'), require('left').name]")],
    );
    let a = place.pod("a");
    let session = assign(&a, "u1", 1, &["left", "right", "@scope/app"]);
    let code = "const left = require('left'); const right = require('right'); [left.other(), left.leaf, right.left, right.leaf, require('@scope/app'), right === require('npm:right')]";
    assert_eq!(value(&a, &session, code).await, json!(["right", "leaf 1", "left", "leaf 2", ["leaf 1", "left"], true]));
    let tarballs = place.registry.seen().iter().filter(|path| path.ends_with(".tgz")).count();
    assert_eq!(tarballs, 5, "each version came once");
}

#[tokio::test(flavor = "multi_thread")]
async fn syntax_decides_where_package_json_does_not() {
    let files = [
        ("index.js", "export const kind = 'module'; export { default as other } from './other.js';"),
        ("other.js", "module.exports = typeof require;"),
        ("user.cjs", "module.exports = require('./index.js').kind;"),
    ];
    let found = in_app(json!({}), &files, "[require('app').kind, (await import('app')).other, require('app/user.cjs')]").await;
    assert_eq!(found, json!(["module", "function", "module"]));
}
