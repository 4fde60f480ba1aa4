//! What a session stores holds no secret of its tools, by construction; and where it is encrypted, nothing else that can be read either.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::TcpListener,
};

use crate::support::Dev;
use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use bytes::Bytes;
use dormouse_engine::{EngineOptions, Engines};
use dormouse_kms::KmsArgs;
use dormouse_lifecycle::{Head, assemble, keys, log};
use dormouse_store::SnapshotStore as _;
use dormouse_testkit::{minio::Minio, transit::Transit};

const SECRET: &str = "s3cr3t-T0ken/of+widgets";
/// What the service answers, and what a cell says: they are the session's own, and are in its memory.
const ANSWER: &str = "answer-canary-19c2";
const CELL: &str = "cell-canary-8d41";

/// A service that answers every request with the credential that it was sent, and with a canary.
fn echoing_service() -> std::net::SocketAddr {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = service.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut connection, _)) = service.accept() {
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                match connection.read(&mut buffer) {
                    Ok(read @ 1..) => request.extend_from_slice(buffer.get(..read).unwrap()),
                    _ => return,
                }
            }
            let request = String::from_utf8(request).unwrap();
            let sent = request.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:")).unwrap();
            let body = format!(r#"{{"id":"{ANSWER}","colour":"{sent}"}}"#);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            write!(connection, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    address
}

/// `text` as it may lie somewhere: as it is, in two bytes a character, in hex, and in base64 at any of its three alignments.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let wide = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut forms = vec![text.as_bytes().to_vec(), wide, hex.to_ascii_uppercase().into_bytes(), hex.into_bytes()];
    for shift in 0..3 {
        let shifted = BASE64_STANDARD_NO_PAD.encode([&vec![0; shift], text.as_bytes()].concat());
        // The first and last characters depend on what stands beside.
        let inner = shifted.get(shift + 1..shifted.len() - 2).unwrap();
        forms.push(inner.as_bytes().to_vec());
    }
    forms
}

fn holds(bytes: &[u8], text: &str) -> bool {
    forms(text).iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_slice()))
}

/// All that the stored objects say: manifests, journals, and the memory of the session now and at each checkpoint.
fn said(objects: &BTreeMap<String, Bytes>, engines: &Engines) -> Vec<u8> {
    let mut said = Vec::new();
    for (key, bytes) in objects {
        if let Ok(head) = Head::decode(bytes) {
            said.extend(serde_json::to_vec(&head).unwrap());
            let engine = engines.get(&head.engine_digest).unwrap();
            let segments: Vec<Bytes> = head.segments.iter().map(|segment| objects.get(&segment.key).unwrap().clone()).collect();
            for (number, page) in assemble(&head, &segments).unwrap() {
                said.extend(engine.content(number, &page).iter());
            }
        } else if let Ok(entries) = log::decode(bytes) {
            said.extend(serde_json::to_vec(&entries.entries).unwrap());
        } else {
            assert!(keys::parse_object(key).is_some(), "{key} is nothing that a session stores");
        }
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_any_stored_byte_and_no_value_in_an_encrypted_one() {
    let minio = Minio::start().await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let manifest = data.path().join("tools.yaml");
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/toolbroker.yaml")).unwrap();
    let service = format!("http://{}", echoing_service());
    std::fs::write(&manifest, text.replace("http://widgets.default.svc", &service).replace("replace-me", SECRET)).unwrap();
    let keys_folder = data.path().join("keys");
    std::fs::create_dir(&keys_folder).unwrap();
    std::fs::write(keys_folder.join("first"), [0xb7; 32]).unwrap();
    std::fs::write(keys_folder.join("current"), "first").unwrap();
    let session = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/session.yaml");
    let (endpoint, credentials) = (minio.endpoint(), minio.credentials());
    let variables = [("AWS_ACCESS_KEY_ID", credentials.access_key_id.as_str()), ("AWS_SECRET_ACCESS_KEY", &credentials.secret_access_key)];
    let engines = tokio::task::spawn_blocking(|| Engines::new(EngineOptions::for_user()).unwrap()).await.unwrap();

    let kms = Transit::start("sessions").await.unwrap();
    let (kms_url, kms_folder) = (kms.url(), kms.credentials());
    for name in ["plain", "secret", "kms"] {
        let encrypted = name != "plain";
        let bucket = minio.create_bucket(name).await.unwrap();
        let folder = data.path().join(name);
        let mut flags = vec!["--s3-endpoint", &endpoint, "--s3-bucket", name, "--broker", manifest.to_str().unwrap(), "--session", session];
        match name {
            "secret" => flags.extend(["--encryption-keys", keys_folder.to_str().unwrap()]),
            "kms" => flags.extend(["--kms-url", &kms_url, "--kms-key", "sessions", "--kms-credentials-dir", kms_folder.to_str().unwrap()]),
            _ => {}
        }
        let dev = Dev::start_with(&folder, &flags, &variables);
        let run = |code: &str| {
            let said = dev.command(&["eval", "--session", "analyst", code], "");
            assert!(said.status.success(), "{code}: {}{}", said.out, said.err);
            said.out
        };
        let colour = run(&format!("const mine = '{CELL}'; const widget = await callTool('getWidget', {{ id: '7' }}); widget.colour"));
        assert!(colour.to_ascii_lowercase().contains("authorization") && !colour.contains(SECRET), "{colour}");
        let noise = "const noise = crypto.getRandomValues(new Uint8Array(60000)), more = crypto.getRandomValues(new Uint8Array(60000))";
        run(&format!("{noise}; widget.id + mine"));
        assert!(dev.command(&["checkpoints", "analyst", "--label", "good"], "").status.success());
        run(&format!("/* {} */ await callTool('getWidget', {{ id: '8' }})", CELL.repeat(900)));
        run(&format!("/* {} */ 1", CELL.repeat(900)));
        assert!(dev.terminate().success());

        let (mut raw, mut opened) = (BTreeMap::new(), BTreeMap::new());
        let kms_url = (name == "kms").then(|| kms_url.clone());
        let kms_args =
            KmsArgs { kms_url, kms_key: Some("sessions".into()), kms_mount: "transit".into(), kms_credentials_dir: kms_folder.clone() };
        let seal = dormouse_kms::seal("default", (name == "secret").then_some(keys_folder.as_path()), &kms_args).unwrap();
        for key in bucket.list("t/default/s/").await.unwrap() {
            let bytes = bucket.get(&key).await.unwrap().unwrap().bytes;
            let object = seal.open(bytes.clone()).await.unwrap();
            assert_eq!(object.sealed.is_some(), encrypted, "{key}");
            opened.insert(key.clone(), object.bytes);
            raw.insert(key, bytes);
        }
        assert!(raw.len() >= 4, "head, segment, checkpoint and journal: {:?}", raw.keys());
        for (key, bytes) in &raw {
            assert!(!holds(bytes, SECRET), "{key} holds the secret");
            assert!(!encrypted || !(holds(bytes, ANSWER) || holds(bytes, CELL)), "{key} can be read");
        }
        let said = said(&opened, &engines);
        assert!(holds(&said, ANSWER) && holds(&said, CELL), "the search finds what is there");
        assert!(!holds(&said, SECRET), "the secret is in a memory image");
    }
}
