//! Steps 3 and 5: files from outside, and what lies beside the heap.

use anyhow::{Context, Result, ensure};

use super::world::{SESSION, World};

/// A file that lies in the heap.
const SMALL: (&str, &[u8]) = ("/data/small.txt", b"three words here");
/// A file above 64 KiB, which does not, and a context likewise.
const LARGE: &str = "/data/large.bin";
const LARGE_BYTES: usize = (1 << 20) + 300_000;
/// Sums what the session reads, so that each byte counts and none travels.
const SUM: &str = "((bytes: Uint8Array) => bytes.reduce((sum, byte) => (sum * 31 + byte) % 1000003, bytes.length))";

/// Both files as the API takes them; cells read them, and put a context beside the heap.
pub async fn written(world: &World) -> Result<()> {
    let api = &world.api;
    for (path, content) in [(SMALL.0, SMALL.1.to_vec()), (LARGE, large())] {
        let bytes = content.len() as u64;
        let entry = api.write_file(SESSION, path, content).await?;
        ensure!(entry.path == path && entry.size == bytes, "{entry:?}");
    }
    let text = api.value(SESSION, &format!("const fs = require(\"fs\"); fs.readFileSync(\"{}\", \"utf8\")", SMALL.0)).await?;
    ensure!(text.as_str().map(str::as_bytes) == Some(SMALL.1), "{text}");
    api.value(SESSION, &format!("host.ctx.put(\"large\", fs.readFileSync(\"{LARGE}\"))")).await?;
    let head = world.bucket.head(&world.uid(SESSION).await?).await?.context("the session has no head")?;
    ensure!(head.blobs.bytes() == 2 * LARGE_BYTES as u64, "what is large does not lie beside the heap: {} bytes do", head.blobs.bytes());
    are_whole(world).await
}

/// Byte for byte, from outside and from inside.
pub async fn are_whole(world: &World) -> Result<()> {
    let api = &world.api;
    ensure!(api.read_file(SESSION, SMALL.0).await? == SMALL.1);
    ensure!(api.read_file(SESSION, LARGE).await? == large(), "the large file is another one");
    for read in [format!("fs.readFileSync(\"{LARGE}\")"), "host.ctx.get(\"large\")".to_owned()] {
        ensure!(api.value(SESSION, &format!("{SUM}({read})")).await? == sum(&large()), "{read} is something else");
    }
    let end = format!("[...host.ctx.slice(\"large\", {})]", LARGE_BYTES - 2);
    ensure!(api.value(SESSION, &end).await? == serde_json::json!(&large()[LARGE_BYTES - 2..]));
    Ok(())
}

/// Bytes of which no 64 KiB are like the next.
fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at ^ (at >> 8) ^ (at >> 16)).to_le_bytes()[0]).collect()
}

/// What [`SUM`] comes to.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, byte| (sum * 31 + u64::from(*byte)) % 1_000_003)
}
