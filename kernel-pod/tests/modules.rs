//! Packages of npm in sessions: a real broker, a registry on loopback, and pods that lose both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use common::{World, assign_spec, eval, spec, try_eval, value};
use dormouse_broker::{Broker, Secrets};
use dormouse_crds::session::KernelSessionSpec;
use dormouse_engine::{Engine, EngineOptions, Engines};
use dormouse_kernel::{Pod, PodConfig, Tools};
use dormouse_protocol::broker::{ModulesAnswer, ModulesCall, Package, ToolAnswer, ToolCall};
use dormouse_protocol::kernel::Assignment;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_testkit::registry::Registry;
use serde_json::{Value, json};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(EngineOptions::default()).unwrap());

/// The way to a broker in this process.
struct Direct(Broker);

#[async_trait]
impl Tools for Direct {
    async fn call(&self, _: &str, _: ToolCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::ToolNotFound, "there are no tools"))
    }

    async fn modules(&self, _: &str, call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        self.0.modules(call).await
    }
}

/// A registry, pods that reach it, and sessions that may use what it has.
struct Place {
    world: World,
    registry: Registry,
    tools: Arc<Direct>,
}

impl Place {
    async fn new() -> Self {
        let registry = Registry::start().await.unwrap();
        let broker = serde_json::from_value(json!({"modules": {"registry": registry.url()}})).unwrap();
        let broker = Broker::new(broker, Secrets::memory(BTreeMap::new())).unwrap();
        Self { world: World::default(), registry, tools: Arc::new(Direct(broker)) }
    }

    fn pod(&self, name: &str) -> Pod {
        self.pod_of(name, ENGINE.clone())
    }

    fn pod_of(&self, name: &str, engine: Engine) -> Pod {
        let config = PodConfig {
            pod: name.to_owned(),
            namespace: "team".to_owned(),
            slots: 10,
            cache_bytes: 64 << 20,
            store_prefix: "p/".to_owned(),
        };
        Pod::new(config, engine, self.world.store.clone(), Arc::<Direct>::clone(&self.tools)).unwrap()
    }
}

fn assign(pod: &Pod, uid: &str, epoch: u64, allow: &[&str]) -> Assignment {
    let modules = serde_json::from_value(json!({ "allow": allow })).unwrap();
    assign_spec(pod, uid, epoch, KernelSessionSpec { modules: Some(modules), ..spec() })
}

/// What a cell fails with: name and message.
async fn failure(pod: &Pod, session: &Assignment, code: &str) -> (String, String) {
    let error = eval(pod, session, code).await.error.expect("the cell fails");
    (error.name, error.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_resolved_once_whatever_comes_after() {
    let place = Place::new().await;
    place.registry.publish("counter", "1.0.0", &json!({}), &[("index.js", "exports.version = '1.0.0'; exports.n = 0;")]);
    let (a, b) = (place.pod("a"), place.pod("b"));
    let on_a = assign(&a, "u1", 1, &["npm:counter@^1"]);
    assert_eq!(value(&a, &on_a, "import counter from 'counter'; counter.n += 1; counter.version").await, json!("1.0.0"));
    place.registry.publish("counter", "1.1.0", &json!({}), &[("index.js", "exports.version = '1.1.0'")]);
    let asked = place.registry.seen().len();
    place.registry.set_down(true);
    let same = "const again = require('counter'); [again === counter, again.n, (await import('npm:counter@^1')).version]";
    assert_eq!(value(&a, &on_a, same).await, json!([true, 1, "1.0.0"]), "in the heap");
    a.hibernate(on_a.clone()).await.unwrap();
    assert_eq!(value(&a, &on_a, same).await, json!([true, 1, "1.0.0"]), "asleep and awake");
    a.forget(on_a).await.unwrap();
    let on_b = assign(&b, "u1", 2, &["npm:counter@^1"]);
    assert_eq!(value(&b, &on_b, same).await, json!([true, 1, "1.0.0"]), "on another pod");
    assert_eq!(place.registry.seen().len(), asked);
    place.registry.set_down(false);
    let other = assign(&b, "u2", 1, &["npm:counter@^1"]);
    assert_eq!(value(&b, &other, "require('counter').version").await, json!("1.1.0"), "another session resolves for itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_loaded_and_not_evaluated_needs_no_registry_either() {
    let place = Place::new().await;
    let files = [("index.js", "exports.late = () => require('./late.js')"), ("late.js", "module.exports = 'late'")];
    place.registry.publish("lazy", "1.0.0", &json!({}), &files);
    let (a, b) = (place.pod("a"), place.pod("b"));
    let on_a = assign(&a, "u1", 1, &["lazy"]);
    value(&a, &on_a, "const lazy = require('lazy'); 0").await;
    a.forget(on_a).await.unwrap();
    place.registry.set_down(true);
    let on_b = assign(&b, "u1", 2, &["lazy"]);
    assert_eq!(value(&b, &on_b, "[lazy.late(), require('lazy/late')]").await, json!(["late", "late"]));
    let mut fork = assign(&b, "u2", 1, &["lazy"]);
    (fork.spec.source, fork.source_uid) = (Some(serde_json::from_value(json!({"session": "session-u1"})).unwrap()), Some("u1".to_owned()));
    assert_eq!(value(&b, &fork, "[lazy.late(), require('lazy/late')]").await, json!(["late", "late"]), "nor does a fork");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_allowed_is_not_there() {
    let place = Place::new().await;
    place.registry.publish("secret", "1.0.0", &json!({}), &[("index.js", "")]);
    let a = place.pod("a");
    let on_a = assign(&a, "u1", 1, &["other"]);
    for code in ["import 'secret'", "require('secret')", "await import('npm:secret@1')"] {
        let (name, message) = failure(&a, &on_a, code).await;
        assert!(name == "Error" && message.contains("Cannot find module") && message.contains("spec.modules.allow"), "{name} {message}");
    }
    assert_eq!(place.registry.seen(), Vec::<String>::new());
    let (name, message) = failure(&a, &on_a, "require('other')").await;
    assert_eq!((name.as_str(), message.as_str()), ("ModuleNotFound", "the registry has no package other"));
    let without = Assignment { spec: KernelSessionSpec { tool_broker_ref: None, ..on_a.spec.clone() }, ..assign(&a, "u2", 1, &[]) };
    let (name, message) = failure(&a, &without, "require('other')").await;
    assert!(name == "EgressDenied" && message.contains("spec.toolBrokerRef"), "{name} {message}");
    let code = "try { require('other') } catch (error) { [error.code, error instanceof Error] }";
    assert_eq!(value(&a, &on_a, code).await, json!(["ModuleNotFound", true]), "a cell can tell");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_spec_allows_more_and_takes_nothing_away() {
    let place = Place::new().await;
    place.registry.publish("one", "1.0.0", &json!({}), &[("index.js", "module.exports = 1")]);
    place.registry.publish("two", "2.0.0", &json!({}), &[("index.js", "module.exports = 2")]);
    let a = place.pod("a");
    let mut session = assign(&a, "u1", 1, &["one"]);
    assert_eq!(value(&a, &session, "require('one')").await, json!(1));
    session = Assignment { generation: 2, ..assign(&a, "u1", 1, &["two"]) };
    assert_eq!(value(&a, &session, "[require('one'), require('two')]").await, json!([1, 2]));
    let (name, message) = failure(&a, &session, "require('npm:two@^9')").await;
    assert!(name == "Conflict" && message.contains("two@2.0.0"), "{name} {message}");
}

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

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_lost_leaves_nothing_and_a_package_that_fails_is_told() {
    let place = Place::new().await;
    let broken = [
        ("index.js", "exports.x = 1; throw new Error('not today')"),
        ("bad.js", "let let = 1"),
        ("lost.mjs", "import { a } from './none.mjs'; import 'no-such';"),
    ];
    place.registry.publish("broken", "1.0.0", &json!({}), &broken);
    let a = place.pod("a");
    let session = assign(&a, "u1", 1, &["broken"]);
    assert_eq!(failure(&a, &session, "require('broken')").await, ("Error".to_owned(), "not today".to_owned()));
    assert_eq!(failure(&a, &session, "await import('broken')").await, ("Error".to_owned(), "not today".to_owned()));
    assert_eq!(failure(&a, &session, "require('broken/bad')").await.0, "SyntaxError");
    let (_, message) = failure(&a, &session, "await import('broken/lost.mjs')").await;
    assert!(message.contains("Cannot find module './none.mjs'"), "{message}");
    let (_, message) = failure(&a, &session, "require('broken/nowhere')").await;
    assert!(message.contains("Cannot find module 'broken@1.0.0/nowhere'"), "{message}");
    assert_eq!(value(&a, &session, "1 + 1").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_have_the_packages_of_their_time() {
    let place = Place::new().await;
    place.registry.publish("tool", "1.0.0", &json!({}), &[("index.js", "module.exports = 1")]);
    let a = place.pod("a");
    let session = assign(&a, "u1", 1, &["tool"]);
    value(&a, &session, "0").await;
    a.checkpoint(session.clone(), "before".to_owned()).await.unwrap();
    assert_eq!(value(&a, &session, "require('tool')").await, json!(1));
    place.registry.publish("tool", "2.0.0", &json!({}), &[("index.js", "module.exports = 2")]);
    assert_eq!(value(&a, &session, "require('tool')").await, json!(1));
    a.restore(session.clone(), "before".to_owned()).await.unwrap();
    assert_eq!(value(&a, &session, "require('tool')").await, json!(2), "before it was resolved it was not resolved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_an_earlier_engine_finds_packages_once_it_is_migrated() {
    let place = Place::new().await;
    place.registry.publish("tool", "1.0.0", &json!({}), &[("index.js", "module.exports = 1")]);
    let engines = Engines::new(EngineOptions::default()).unwrap();
    let digest = engines.earlier().next().expect("an earlier engine is kept");
    let old = place.pod_of("old", engines.get(&digest).unwrap());
    let session = assign(&old, "u1", 1, &["tool"]);
    assert_eq!(value(&old, &session, "let n = 1; n").await, json!(1));
    assert!(eval(&old, &session, "require('tool')").await.error.is_some());
    old.drain().await;
    let new = place.pod("new");
    let session = assign(&new, "u1", 2, &["tool"]);
    let report = new.migrate(session.clone(), false).await.unwrap();
    assert!(report.migrated, "{report:?}");
    assert_eq!(value(&new, &session, "[n, require('tool')]").await, json!([1, 1]));
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

#[tokio::test(flavor = "multi_thread")]
async fn the_same_cells_make_the_same_memory() {
    let place = Place::new().await;
    place.registry.publish(
        "dice",
        "1.0.0",
        &json!({"type": "module"}),
        &[("index.js", "export const roll = () => Math.floor(Math.random() * 1e9);")],
    );
    let (a, b) = (place.pod("a"), place.pod("b"));
    let mut rolls = Vec::new();
    for (pod, uid) in [(&a, "u1"), (&b, "u2")] {
        let mut session = assign(pod, uid, 1, &["dice"]);
        session.spec.determinism = Some(serde_json::from_value(json!({"seed": 7})).unwrap());
        rolls.push(value(pod, &session, "import { roll } from 'dice'; [roll(), roll(), Date.now()]").await);
    }
    assert_eq!(rolls[0], rolls[1]);
}

/// Answers each name with as many packages as it says, the first of which is an empty module.
struct Many;

#[async_trait]
impl Tools for Many {
    async fn call(&self, _: &str, _: ToolCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::ToolNotFound, "there are no tools"))
    }

    async fn modules(&self, _: &str, call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        let count: usize = call.specifier.trim_start_matches('n').parse().unwrap();
        let packages = (0..count).map(|at| Package {
            id: format!("{}-{at}@1.0.0", call.specifier),
            integrity: "sha512-".to_owned(),
            manifest: json!({}),
            dependencies: BTreeMap::new(),
            files: [("index.js".to_owned(), String::new())].into(),
        });
        Ok(ModulesAnswer { root: format!("{}-0@1.0.0", call.specifier), packages: packages.collect() })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_have_so_many_packages_and_no_more() {
    let config =
        PodConfig { pod: "a".to_owned(), namespace: "team".to_owned(), slots: 10, cache_bytes: 64 << 20, store_prefix: "p/".to_owned() };
    let a = Pod::new(config, ENGINE.clone(), World::default().store.clone(), Arc::new(Many)).unwrap();
    let session = assign(&a, "u1", 1, &["n999", "n2", "n1"]);
    value(&a, &session, "require('n999'); 0").await;
    assert_eq!(failure(&a, &session, "require('n2')").await.0, "QuotaExceeded");
    assert_eq!(value(&a, &session, "typeof require('n1')").await, json!("object"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_an_api_server_would_refuse_is_refused() {
    let place = Place::new().await;
    let a = place.pod("a");
    let names: Vec<String> = (0..65).map(|at| format!("p{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(try_eval(&a, &assign(&a, "u1", 1, &names[..64]), "0").await.is_ok());
    for (uid, allow) in [("u2", &names[..]), ("u3", &["fine", "../not"])] {
        let error = try_eval(&a, &assign(&a, uid, 1, allow), "0").await.unwrap_err();
        assert!(error.code == ErrorCode::InvalidRequest && error.message.contains("spec.modules.allow"), "{error}");
    }
}
