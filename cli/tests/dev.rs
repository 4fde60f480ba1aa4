//! `dormouse dev` and the client's verbs, as real processes.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Command,
};

use crate::support::{Dev, http};
use dormouse_store::SnapshotStore as _;
use dormouse_testkit::{minio::Minio, wait::eventually};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_session_outlives_sleep_a_kill_and_a_stop() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval("const counter = (() => { let n = 0; return (): number => ++n })()");
    dev.eval("class Greeter { constructor(private name: string) {} greet() { return `hello ${this.name}` } }");
    dev.eval("const greeter = new Greeter('world'), map = new Map([['a', { deep: [1, 2] }]])");
    assert_eq!(dev.eval("counter()"), "1");
    assert_eq!(dev.eval("greeter.greet()").trim_matches(['\'', '"']), "hello world");

    let slept = dev.command(&["sessions", "hibernate", "s", "-o", "json"], "");
    assert_eq!(json(&slept.out)["state"], "Hibernated", "{}", slept.err);
    assert_eq!(dev.eval("counter()"), "2", "the next cell wakes it");
    dev.kill();

    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("counter()"), "3", "what was acked is there after kill -9");
    assert_eq!(dev.eval("map.get('a').deep.length + counter()"), "6");
    assert!(dev.terminate().success(), "SIGTERM ends it with success");

    let dev = Dev::start(data.path(), &[]);
    let listed = dev.command(&["sessions", "-o", "json"], "");
    assert_eq!(json(&listed.out)["state"], "Hibernated", "a stop puts every session to sleep");
    assert_eq!(dev.eval("counter()"), "5");
    assert!(dev.command(&["sessions", "delete", "s"], "").status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_slept_at_a_kill_sleeps_and_a_timer_that_was_acked_fires_by_itself() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let get = |dev: &Dev, name: &str| json(&dev.command(&["sessions", "get", name, "-o", "json"], "").out);
    assert_eq!(dev.command(&["eval", "--session", "asleep", "let n = 1; n"], "").out.trim(), "1");
    let slept = dev.command(&["sessions", "hibernate", "asleep", "-o", "json"], "");
    assert_eq!(json(&slept.out)["state"], "Hibernated", "{}", slept.err);
    assert_eq!(dev.eval("let fired = 0; setTimeout(() => { fired = Date.now() }, 3000); fired"), "0");
    dev.kill();

    let dev = Dev::start(data.path(), &[]);
    assert_eq!(get(&dev, "asleep")["state"], "Hibernated", "its file did not say so, and what is stored does");
    let fired = async {
        let mut looks = tokio::time::interval(std::time::Duration::from_millis(100));
        while get(&dev, "s")["state"] != "Idle" {
            looks.tick().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), fired).await.expect("nobody asked for the session, and its timer wakes it");
    assert_eq!(dev.eval("fired > 0"), "true");
    assert_eq!(get(&dev, "asleep")["state"], "Hibernated");
    assert_eq!(dev.command(&["eval", "--session", "asleep", "n"], "").out.trim(), "1");
}

#[test]
fn a_repl_reads_cells_from_a_pipe() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let input = "interface Point { x: number }\nfunction f(p: Point) {\n  console.log('called')\n  return p.x * 2\n}\n\nf({ x: 21 })\n.hibernate\n{a: 1}\n\
        const late = await new Promise(r => setTimeout(() => r('later'), 5))\nlate\nnull.x\n1 +\n";
    let said = dev.command(&["repl", "piped"], input);
    assert_eq!(said.status.code(), Some(1), "a cell failed");
    assert!(said.out.contains("called\n42\n"), "{}", said.out);
    assert!(said.out.contains("piped is Hibernated"), "{}", said.out);
    assert!(said.out.contains("a: 1") && said.out.contains("later"), "{}", said.out);
    assert!(said.err.contains("TypeError") && said.err.contains("SyntaxError"), "{}", said.err);
    let again = dev.command(&["repl", "piped"], "f({ x: 4 })");
    assert!(again.status.success() && again.out.contains("called\n8\n"), "{}{}", again.out, again.err);
}

#[test]
fn errors_show_the_users_line() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let file = data.path().join("program.ts");
    std::fs::write(&file, "type T = string\nfunction inner(): T {\n  throw new RangeError('too far')\n}\n\ninner()\n").unwrap();
    let said = dev.command(&["run", file.to_str().unwrap()], "");
    assert_eq!(said.status.code(), Some(1));
    assert!(said.err.contains("RangeError: too far") && said.err.contains("3 |   throw new RangeError('too far')"), "{}", said.err);
    assert!(said.err.contains("program.ts:3:") && said.err.contains("program.ts:6:"), "{}", said.err);
    let left = dev.command(&["sessions", "-o", "json"], "");
    assert!(left.out.is_empty(), "the session of a file is gone: {}", left.out);

    let said = dev.command(&["eval", "let x: number = ;"], "");
    assert!(said.err.contains("SyntaxError") && said.err.contains("1 | let x: number = ;"), "{}", said.err);
}

#[test]
fn events_outlive_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval("console.log('one'); 1");
    dev.eval("console.log('two'); 2");
    let before = dev.command(&["logs", "s"], "").out;
    assert!(before.contains("log   one") && before.contains("log   two"), "{before}");
    dev.kill();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.command(&["logs", "s"], "").out, before);
    dev.eval("console.log('three'); 3");
    let after = dev.command(&["logs", "s"], "").out;
    assert!(after.starts_with(&before), "{before}{after}");
    let numbers: Vec<usize> = after.lines().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
    let last = dev.command(&["logs", "s", "--after", &before.lines().count().to_string()], "").out;
    assert_eq!(format!("{before}{last}"), after);
}

#[test]
fn events_are_logged() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval("console.warn('careful'); 7");
    let said = dev.command(&["logs", "s"], "");
    assert!(said.out.contains("warn  careful") && said.out.contains("cell  1 7"), "{}{}", said.out, said.err);
}

#[test]
fn tools_are_called_through_a_broker_that_keeps_the_secret() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = service.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let (mut connection, _) = service.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.windows(4).any(|window| window == b"\r\n\r\n") {
            let read = connection.read(&mut buffer).unwrap();
            assert_ne!(read, 0, "the request ended early");
            request.extend_from_slice(&buffer[..read]);
        }
        let body = r#"{"id":"7","colour":"red"}"#;
        write!(
            connection,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        String::from_utf8(request).unwrap()
    });
    let data = tempfile::tempdir().unwrap();
    let manifest = data.path().join("tools.yaml");
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/toolbroker.yaml")).unwrap();
    std::fs::write(
        &manifest,
        text.replace("http://widgets.default.svc", &format!("http://{address}")).replace("replace-me", "s3cr3t-token"),
    )
    .unwrap();
    let session = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/session.yaml");
    let dev = Dev::start(data.path(), &["--broker", manifest.to_str().unwrap(), "--session", session]);

    let said = dev.command(&["eval", "--session", "analyst", "(await callTool('getWidget', { id: '7' })).colour"], "");
    assert!(said.out.contains("red"), "{}{}", said.out, said.err);
    let request = serving.join().unwrap();
    assert!(
        request.starts_with("GET /widgets/7 ") && request.to_ascii_lowercase().contains("authorization: bearer s3cr3t-token"),
        "{request}"
    );
    assert!(dev.terminate().success());
    let found = Command::new("grep").args(["-r", "-l", "s3cr3t-token"]).arg(data.path()).output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap().trim(), manifest.to_str().unwrap(), "the secret is in its manifest only");
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_and_the_metrics_of_all_that_it_runs_are_at_its_own_address() {
    let data = tempfile::tempdir().unwrap();
    let (manifest, token) = (data.path().join("brokers.yaml"), data.path().join("token"));
    let broker = |name: &str| format!("apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: {name}}}\nspec: {{}}\n");
    std::fs::write(&manifest, [broker("one"), broker("two")].join("---\n")).unwrap();
    std::fs::write(&token, "the-token").unwrap();
    let flags = ["--broker", manifest.to_str().unwrap(), "--token-file", token.to_str().unwrap()];
    let dev = Dev::start(data.path(), &flags);
    let http = http();
    let get = async |path: &str| http.get(format!("{}{path}", dev.server)).send().await.unwrap();
    let live = get("/livez").await;
    assert_eq!((live.status(), live.text().await.unwrap().as_str()), (reqwest::StatusCode::OK, "ok"), "without the token");
    eventually("its store has passed the probe", async || get("/readyz").await.status() == 200).await;
    assert_eq!(get("/v1/namespaces/default/sessions").await.status(), 401, "the API asks for it");
    let cell = serde_json::json!({ "code": "1" });
    let sessions = format!("{}/v1/namespaces/default/sessions", dev.server);
    for (path, body) in [("", serde_json::json!({ "name": "s" })), ("/s/eval", cell)] {
        let answer = http.post(format!("{sessions}{path}")).bearer_auth("the-token").json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
    }
    let metrics = get("/metrics").await.text().await.unwrap();
    for line in [
        "dormouse_kernel_cells_total{outcome=\"ok\"} 1",
        "dormouse_gateway_requests_total{class=\"2xx\",route=\"/v1/namespaces/{namespace}/sessions/{name}/eval\"} 1",
        "dormouse_broker_calls_in_flight{broker=\"one\"} 0",
        "dormouse_broker_calls_in_flight{broker=\"two\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let elsewhere = http.get(format!("{}/metrics", dev.server)).header("host", "evil.example").send().await.unwrap();
    assert_eq!(elsewhere.status(), 403, "a page whose name leads here is not told");
}

#[test]
fn what_cannot_be_done_is_said() {
    let data = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_dormouse");
    let open = Command::new(binary).args(["dev", "--listen", "0.0.0.0:0", "--data"]).arg(data.path()).output().unwrap();
    assert!(!open.status.success() && String::from_utf8_lossy(&open.stderr).contains("loopback only"));

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let alone = Command::new(binary).args(["--server", &format!("http://{nobody}"), "sessions"]).output().unwrap();
    assert!(!alone.status.success() && String::from_utf8_lossy(&alone.stderr).contains("dormouse dev"));

    let dev = Dev::start(data.path(), &[]);
    let second = Command::new(binary).args(["dev", "--listen", "127.0.0.1:0", "--data"]).arg(data.path()).output().unwrap();
    assert!(
        !second.status.success() && String::from_utf8_lossy(&second.stderr).contains("another `dormouse dev`"),
        "a folder has one process"
    );
    let unknown = dev.command(&["sessions", "get", "nobody"], "");
    assert!(!unknown.status.success() && unknown.err.contains("SessionNotFound"), "{}", unknown.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_sleep_in_a_bucket() {
    let minio = Minio::start().await.unwrap();
    let bucket = minio.create_bucket("sleepers").await.unwrap();
    let (endpoint, credentials) = (minio.endpoint(), minio.credentials());
    let flags = ["--s3-endpoint", &endpoint, "--s3-bucket", "sleepers"];
    let variables = [("AWS_ACCESS_KEY_ID", credentials.access_key_id.as_str()), ("AWS_SECRET_ACCESS_KEY", &credentials.secret_access_key)];
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start_with(data.path(), &flags, &variables);
    dev.eval("const counter = (() => { let n = 0; return () => ++n })(); counter()");
    assert!(!bucket.list("t/default/s/").await.unwrap().is_empty(), "the head is in the bucket");
    dev.kill();

    let dev = Dev::start_with(data.path(), &flags, &variables);
    assert_eq!(dev.eval("counter()"), "2");
    assert!(dev.command(&["sessions", "delete", "s"], "").status.success());
    let gone = async {
        let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
        while !bucket.list("t/default/s/").await.unwrap().is_empty() {
            looks.tick().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), gone).await.expect("a deleted session leaves nothing in the bucket");
}

/// Every file of the store below `under`, by name.
fn stored(data: &std::path::Path, under: &str) -> Vec<String> {
    let found = Command::new("find").arg(data.join("store/objects").join(under)).args(["-type", "f"]).output().unwrap();
    let mut names: Vec<String> = String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// Waits until a `dormouse dev` that has just begun to serve has no object below `under`.
async fn is_collected(data: &std::path::Path, under: &str) -> bool {
    let gone = async {
        let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
        while !stored(data, under).is_empty() {
            looks.tick().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_of_sessions_without_a_file_goes_at_the_next_start() {
    const GONE: &str = "t/default/s/default/0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01";
    let data = tempfile::tempdir().unwrap();
    let litter = || {
        std::fs::create_dir_all(data.path().join("store/objects").join(GONE)).unwrap();
        std::fs::write(data.path().join("store/objects").join(GONE).join("1-1-ab"), "x").unwrap();
    };
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("let n = 1; n"), "1");
    assert!(dev.terminate().success());
    litter();
    let dev = Dev::start(data.path(), &[]);
    assert!(is_collected(data.path(), GONE).await, "{:?}", stored(data.path(), ""));
    assert_eq!(dev.eval("++n"), "2", "a session that has a file is as it was");
    assert!(dev.terminate().success());

    // A file that cannot be read is of a session, whichever. The pod's own writes below show that the start is over.
    litter();
    let file = data.path().join("sessions/default/s.json");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, "{").unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.command(&["eval", "--session", "other", "1"], "").out.trim(), "1");
    assert!(dev.terminate().success());
    assert_eq!(stored(data.path(), GONE).len(), 1);
    std::fs::write(&file, whole).unwrap();

    // Without its folder of sessions nobody knows which there are: who comes then is another in the same store.
    std::fs::rename(data.path().join("sessions"), data.path().join("kept")).unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.command(&["eval", "--session", "new", "1"], "").out.trim(), "1");
    assert!(dev.terminate().success());
    std::fs::remove_dir_all(data.path().join("sessions")).unwrap();
    std::fs::rename(data.path().join("kept"), data.path().join("sessions")).unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("++n"), "3", "the folder was put back, and nothing was lost meanwhile");
    assert_eq!(stored(data.path(), GONE).len(), 1, "nothing is collected where two have stored sessions");
}

#[test]
fn a_store_that_was_put_back_is_not_believed_until_somebody_says_so() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("let n = 1; n"), "1");
    let heads = || {
        let found = Command::new("find").arg(data.path().join("store")).args(["-name", "head"]).output().unwrap();
        std::path::PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
    };
    assert!(dev.terminate().success());
    let head = heads();
    let old = std::fs::read(&head).unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("n = 2"), "2");
    assert!(dev.terminate().success());
    std::fs::write(&head, old).unwrap();

    let dev = Dev::start(data.path(), &[]);
    let said = dev.command(&["eval", "--session", "s", "n"], "");
    assert!(!said.status.success() && said.err.contains("SnapshotCorrupt") && said.err.contains("rolled back"), "{}{}", said.out, said.err);
    let listed = dev.command(&["checkpoints", "s", "-o", "json"], "");
    let id = json(listed.out.lines().last().unwrap())["id"].as_str().unwrap().to_owned();
    assert!(dev.command(&["restore", "s", &id], "").status.success(), "{}", listed.out);
    assert_eq!(dev.eval("n"), "1");
    assert!(dev.terminate().success());
    std::fs::remove_file(&head).unwrap();
    let dev = Dev::start(data.path(), &[]);
    let said = dev.command(&["eval", "--session", "s", "n"], "");
    assert!(!said.status.success() && said.err.contains("the head is gone"), "{}{}", said.out, said.err);
}
