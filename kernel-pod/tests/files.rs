//! Files of a session: what cells and the files API see of each other's.

use std::convert::Infallible;
use std::sync::Arc;

use crate::common::{Faulty, World, assign, assign_spec, eval, spec, value};
use axum::body::{Bytes, to_bytes};
use axum::http::{HeaderMap, StatusCode};
use dormouse_crds::session::{KernelSessionSpec, Limits, Source};
use dormouse_kernel::Pod;
use dormouse_lifecycle::blobs::parse_piece;
use dormouse_protocol::file::{FileCall, FileEntry, FileKind, Preconditions};
use dormouse_protocol::kernel::Assignment;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_store::SnapshotStore as _;
use dormouse_testkit::wait::eventually;
use serde_json::json;

fn about(session: &Assignment, path: &str) -> FileCall {
    FileCall { assignment: session.clone(), path: path.to_owned(), recursive: false, preconditions: Preconditions::default() }
}

async fn put(pod: &Pod, call: FileCall, content: &[u8]) -> Result<(FileEntry, bool), ApiError> {
    let chunks: Vec<_> = content.chunks(300_007).map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk))).collect();
    pod.write_file(call, futures::stream::iter(chunks)).await
}

async fn get(pod: &Pod, call: FileCall) -> Result<(StatusCode, HeaderMap, Bytes), ApiError> {
    let response = pod.read_file(call).await?;
    let (parts, body) = response.into_parts();
    Ok((parts.status, parts.headers, to_bytes(body, usize::MAX).await.unwrap()))
}

async fn content(pod: &Pod, session: &Assignment, path: &str) -> Bytes {
    get(pod, about(session, path)).await.unwrap_or_else(|error| panic!("{path}: {error}")).2
}

/// Bytes that no run repeats within a piece.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

async fn pieces(world: &World) -> usize {
    world.store.list("p/t/team/s/default/u1/").await.unwrap().iter().filter(|key| parse_piece(key).is_some()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_reads_what_was_put_and_the_api_what_a_cell_wrote() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let (entry, is_new) = put(&pod, about(&session, "/data/in.txt"), b"from outside").await.unwrap();
    assert_eq!((entry.path.as_str(), entry.kind, entry.size, is_new), ("/data/in.txt", FileKind::File, 12, true));
    let both = "const fs = require('fs'); fs.writeFileSync('/out.txt', 'von innen'); fs.readFileSync('/data/in.txt', 'utf8')";
    assert_eq!(value(&pod, &session, both).await, json!("from outside"));
    assert_eq!(content(&pod, &session, "/out.txt").await, "von innen");
    let (_, is_new) = put(&pod, about(&session, "/out.txt"), b"").await.unwrap();
    assert!(!is_new);
    assert_eq!(value(&pod, &session, "fs.readFileSync('/out.txt').length").await, json!(0));
    pod.drain().await;
    let pod = world.pod("b");
    let session = assign(&pod, "u1", 2);
    assert_eq!(content(&pod, &session, "/data/in.txt").await, "from outside");
    let listed = pod.list_files(FileCall { recursive: true, ..about(&session, "/") }).await.unwrap();
    let paths: Vec<_> = listed.items.iter().map(|it| (it.path.as_str(), it.kind, it.size)).collect();
    let (dir, file) = (FileKind::Directory, FileKind::File);
    assert_eq!(paths, [("/data", dir, 0), ("/data/in.txt", file, 12), ("/out.txt", file, 0), ("/tmp", dir, 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_lie_outside_the_heap_and_cells_read_them_all_the_same() {
    let world = World::default();
    let pod = world.pod("a");
    let small = KernelSessionSpec { limits: Limits { heap_bytes: 24 << 20, ..spec().limits }, ..spec() };
    let session = assign_spec(&pod, "u1", 1, small);
    let big = noise((40 << 20) + 5);
    let (entry, _) = put(&pod, about(&session, "/big"), &big).await.unwrap();
    assert_eq!(entry.size, big.len() as u64);
    assert!(eval(&pod, &session, "require('fs').readFileSync('/big')").await.error.is_some(), "it is larger than the heap");
    let sum: u64 = big.iter().map(|byte| u64::from(*byte)).sum();
    let stream = "const fs = require('fs'); let sum = 0, bytes = 0; for await (const chunk of fs.createReadStream('/big', { highWaterMark: 1 << 20 })) \
                  { bytes += chunk.length; for (let i = 0; i < chunk.length; i++) sum += chunk[i]; } [bytes, sum]";
    assert_eq!(value(&pod, &session, stream).await, json!([big.len(), sum]));
    let part = "const fd = fs.openSync('/big', 'r'); const few = Buffer.alloc(4); fs.readSync(fd, few, 0, 4, 20 << 20); fs.closeSync(fd); \
                [[...few], fs.statSync('/big').size]";
    assert_eq!(value(&pod, &session, part).await, json!([big[20 << 20..(20 << 20) + 4], big.len()]));
    assert!(content(&pod, &session, "/big").await == big);
    // A stream that writes holds little in the heap, too.
    let write = "const { pipeline } = require('stream/promises'); await pipeline(fs.createReadStream('/big'), fs.createWriteStream('/copy')); \
                 fs.renameSync('/copy', '/moved'); fs.statSync('/moved').size";
    assert_eq!(value(&pod, &session, write).await, json!(big.len()));
    assert!(content(&pod, &session, "/moved").await == big);
    assert_eq!(pieces(&world).await, 82);
    value(&pod, &session, "fs.rmSync('/big'); fs.rmSync('/moved'); 0").await;
    eventually("nothing is left of removed files", async || pieces(&world).await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_of_writing_a_large_file_ends_in_the_same_bytes() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    // The same steps on a file that spills and on a buffer.
    let program = r"
        const fs = require('fs'), fsp = require('fs/promises');
        const fill = (n, from) => Buffer.from(Array.from({ length: n }, (_, i) => (i * 7 + from) & 255));
        let model = fill(200000, 1);
        fs.writeFileSync('/f', model);
        const same = (step) => { if (!fs.readFileSync('/f').equals(model) || fs.statSync('/f').size !== model.length) throw new Error(step); };
        same('written');
        fs.appendFileSync('/f', fill(70000, 2)); model = Buffer.concat([model, fill(70000, 2)]); same('appended');
        const fd = fs.openSync('/f', 'r+');
        fs.writeSync(fd, fill(10, 3), 0, 10, 100000); fill(10, 3).copy(model, 100000); same('patched');
        fs.writeSync(fd, fill(10, 4), 0, 10, model.length + 5); model = Buffer.concat([model, Buffer.alloc(5), fill(10, 4)]); same('with a hole');
        fs.ftruncateSync(fd, 150000); model = model.subarray(0, 150000); same('cut');
        fs.ftruncateSync(fd, 160000); model = Buffer.concat([model, Buffer.alloc(10000)]); same('grown');
        fs.ftruncateSync(fd, 65536); model = model.subarray(0, 65536); same('in the heap again');
        fs.closeSync(fd);
        await fsp.writeFile('/f', fill(65537, 5)); model = fill(65537, 5); same('promised');
        fs.copyFileSync('/f', '/g'); fs.linkSync('/f', '/h'); fs.rmSync('/f');
        if (!fs.readFileSync('/g').equals(model) || !fs.readFileSync('/h').equals(model)) throw new Error('copied and linked');
        fs.mkdirSync('/d/e', { recursive: true }); fs.renameSync('/h', '/d/e/h'); fs.renameSync('/g', '/d/e/h');
        if (!fs.readFileSync('/d/e/h').equals(model)) throw new Error('renamed over');
        const open = fs.openSync('/d/e/h', 'r'); fs.rmSync('/d', { recursive: true });
        const first = Buffer.alloc(3); fs.readSync(open, first, 0, 3, 0); fs.closeSync(open);
        fs.writeFileSync('/f', fill(3, 6)); fs.writeFileSync('/i', model); fs.writeFileSync('/i', 'small');
        [...first, fs.readdirSync('/').join()]";
    assert_eq!(value(&pod, &session, program).await, json!([5, 12, 19, "f,i,tmp"]));
    assert_eq!(content(&pod, &session, "/i").await, "small");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_those_of_http() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    for (path, bytes) in [("/small", noise(1000)), ("/large", noise(3 << 20))] {
        let (entry, _) = put(&pod, about(&session, path), &bytes).await.unwrap();
        let etag = entry.etag.unwrap();
        let with = |preconditions: Preconditions| FileCall { preconditions, ..about(&session, path) };
        let (status, headers, all) = get(&pod, about(&session, path)).await.unwrap();
        assert_eq!((status, all.len(), headers["etag"].to_str().unwrap()), (StatusCode::OK, bytes.len(), etag.as_str()));
        assert_eq!(headers["content-length"].to_str().unwrap(), bytes.len().to_string());
        assert!(headers["last-modified"].to_str().unwrap().ends_with(" GMT"));
        let ranged = Preconditions { range: Some("bytes=900-999".to_owned()), ..Preconditions::default() };
        let (status, headers, part) = get(&pod, with(ranged.clone())).await.unwrap();
        assert_eq!((status, &part[..]), (StatusCode::PARTIAL_CONTENT, &bytes[900..1000]));
        assert_eq!(headers["content-range"].to_str().unwrap(), format!("bytes 900-999/{}", bytes.len()));
        let other = Preconditions { if_range: Some("\"other\"".to_owned()), ..ranged };
        assert_eq!(get(&pod, with(other)).await.unwrap().2.len(), bytes.len());
        let outside = Preconditions { range: Some(format!("bytes={}-", bytes.len())), ..Preconditions::default() };
        assert_eq!(get(&pod, with(outside)).await.unwrap_err().code, ErrorCode::RangeNotSatisfiable);
        let known = Preconditions { if_none_match: Some(etag.clone()), ..Preconditions::default() };
        assert_eq!(get(&pod, with(known.clone())).await.unwrap().0, StatusCode::NOT_MODIFIED);
        let matching = Preconditions { if_match: Some(etag.clone()), ..Preconditions::default() };
        assert_eq!(get(&pod, with(matching.clone())).await.unwrap().0, StatusCode::OK);
        value(&pod, &session, &format!("require('fs').appendFileSync('{path}', 'x'); 0")).await;
        assert_eq!(get(&pod, with(known)).await.unwrap().2.len(), bytes.len() + 1);
        assert_eq!(get(&pod, with(matching.clone())).await.unwrap_err().code, ErrorCode::PreconditionFailed);
        assert_eq!(put(&pod, with(matching.clone()), b"lost").await.unwrap_err().code, ErrorCode::PreconditionFailed);
        assert_eq!(pod.remove_file(with(matching)).await.unwrap_err().code, ErrorCode::PreconditionFailed);
        let only_new = Preconditions { if_none_match: Some("*".to_owned()), ..Preconditions::default() };
        assert_eq!(put(&pod, with(only_new), b"lost").await.unwrap_err().code, ErrorCode::PreconditionFailed);
        assert_eq!(content(&pod, &session, path).await.len(), bytes.len() + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_typed() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "require('fs').mkdirSync('/d/e', { recursive: true }); require('fs').writeFileSync('/d/f', '1'); 0").await;
    let code = |result: Result<(StatusCode, HeaderMap, Bytes), ApiError>| result.unwrap_err().code;
    assert_eq!(code(get(&pod, about(&session, "/none")).await), ErrorCode::FileNotFound);
    assert_eq!(code(get(&pod, about(&session, "/d")).await), ErrorCode::Conflict);
    assert_eq!(put(&pod, about(&session, "/d/f/g"), b"x").await.unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(put(&pod, about(&session, "/d"), b"x").await.unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(pod.list_files(about(&session, "/none")).await.unwrap_err().code, ErrorCode::FileNotFound);
    assert_eq!(pod.remove_file(about(&session, "/none")).await.unwrap_err().code, ErrorCode::FileNotFound);
    assert_eq!(pod.remove_file(about(&session, "/d")).await.unwrap_err().code, ErrorCode::Conflict);
    pod.remove_file(FileCall { recursive: true, ..about(&session, "/d") }).await.unwrap();
    assert_eq!(value(&pod, &session, "require('fs').readdirSync('/').join()").await, json!("tmp"));
    let cut: [Result<Bytes, &str>; 2] = [Ok(Bytes::from(noise(2 << 20))), Err("the client left")];
    let lost = pod.write_file(about(&session, "/cut"), futures::stream::iter(cut)).await.unwrap_err();
    assert_eq!(lost.code, ErrorCode::InvalidRequest, "{lost}");
    assert_eq!(code(get(&pod, about(&session, "/cut")).await), ErrorCode::FileNotFound);
    value(&pod, &session, "1").await;
    let gone = async {
        while pieces(&world).await > 0 {
            value(&pod, &session, "1").await;
        }
    };
    tokio::time::timeout(crate::common::PATIENCE, gone).await.expect("nothing is left of a content that ended early");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_put_while_cells_wait_and_forks_have_them() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let call =
        crate::common::call(&session, "const fs = require('fs'); await callTool('slow', 1); fs.readFileSync('/late').length", "waits");
    let waiting = tokio::spawn({
        let pod = pod.clone();
        async move { pod.eval(call).await }
    });
    world.tools.attempts(1).await;
    put(&pod, about(&session, "/late"), &noise(2 << 20)).await.unwrap();
    assert_eq!(content(&pod, &session, "/late").await.len(), 2 << 20);
    world.tools.open();
    assert_eq!(waiting.await.unwrap().unwrap().value, Some(json!(2 << 20)));
    let child_spec = KernelSessionSpec { source: Some(Source { session: "session-u1".to_owned(), checkpoint: None }), ..spec() };
    let child = Assignment { source_uid: Some("u1".to_owned()), ..assign_spec(&pod, "u2", 1, child_spec) };
    assert!(content(&pod, &child, "/late").await == noise(2 << 20));
    put(&pod, about(&child, "/late"), b"mine").await.unwrap();
    assert!(content(&pod, &session, "/late").await == noise(2 << 20));
}

/// More than last pieces are held in memory, while cells commit to a store that takes its time.
#[tokio::test(flavor = "multi_thread")]
async fn many_files_come_in_at_once_and_each_has_all_its_bytes() {
    const FILES: usize = 8;
    let store = Arc::new(Faulty::default().slow(200));
    let world = World::default();
    let pod = world.pod_over("a", Arc::<Faulty>::clone(&store));
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 0; n").await;
    let puts: Vec<_> = (0..FILES)
        .map(|file| {
            let (pod, call) = (pod.clone(), about(&session, &format!("/f{file}")));
            tokio::spawn(async move { put(&pod, call, &noise((2 << 20) + file)).await })
        })
        .collect();
    let mut cells = 0;
    while !puts.iter().all(tokio::task::JoinHandle::is_finished) {
        cells += 1;
        assert_eq!(value(&pod, &session, "++n").await, json!(cells));
    }
    for put in puts {
        put.await.unwrap().unwrap();
    }
    let other = world.pod_over("b", store);
    let moved = assign(&other, "u1", 2);
    for file in 0..FILES {
        assert!(content(&other, &moved, &format!("/f{file}")).await == noise((2 << 20) + file), "file {file}");
    }
}
