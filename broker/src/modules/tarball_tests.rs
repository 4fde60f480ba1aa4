use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use super::*;

fn pack(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, content) in entries {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        // `set_path` refuses what an attacker would write.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(EntryType::Regular);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

const MANIFEST: (&str, &[u8]) = ("package/package.json", br#"{"name": "a", "main": "x.js", "scripts": {"install": "rm -rf /"}}"#);

fn code(result: Result<Unpacked, ApiError>) -> ErrorCode {
    result.unwrap_err().code
}

#[test]
fn sources_are_kept_and_nothing_else() {
    let files = [
        MANIFEST,
        ("package/x.js", b"1"),
        ("package/./lib//y.mjs", b"2"),
        ("package/z.node", b"3"),
        ("package/README.md", b"4"),
        ("package/n.js", b"\xff"),
    ];
    let unpacked = unpack("a@1.0.0", &pack(&files)).unwrap();
    assert_eq!(unpacked.files.keys().collect::<Vec<_>>(), ["lib/y.mjs", "package.json", "x.js"]);
    assert_eq!(unpacked.manifest, serde_json::json!({"name": "a", "main": "x.js"}));
}

#[test]
fn a_path_that_leads_out_is_refused() {
    for path in ["package/../../x.js", "/etc/x.js", "../x.js"] {
        assert_eq!(code(unpack("a@1.0.0", &pack(&[MANIFEST, (path, b"1")]))), ErrorCode::ModuleUnavailable, "{path}");
    }
}

#[test]
fn limits_hold_at_their_edges() {
    let packed = pack(&[MANIFEST, ("package/x.js", &[b' '; 4_000])]);
    let bytes = {
        let mut all = Vec::new();
        GzDecoder::new(packed.as_slice()).read_to_end(&mut all).unwrap() as u64
    };
    assert!(unpack_within("a@1.0.0", &packed, bytes, 2).is_ok());
    // A tape may end without its last blocks of zeros, so what is cut is the file.
    assert_eq!(code(unpack_within("a@1.0.0", &packed, 4_000, 2)), ErrorCode::ModuleUnavailable);
    assert_eq!(code(unpack_within("a@1.0.0", &packed, bytes, 1)), ErrorCode::SizeAdmissionError);
}

#[test]
fn what_does_not_verify_is_refused() {
    let bytes = pack(&[MANIFEST]);
    let right = format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(Sha512::digest(&bytes)));
    assert!(verify("a@1.0.0", &right, &bytes).is_ok());
    assert!(verify("a@1.0.0", &right, &bytes[1..]).is_err());
    assert!(verify("a@1.0.0", "sha512-", &bytes).is_err());
    assert_eq!(strongest(&format!("sha1-abc {right}?opt")), Some(right));
    assert_eq!(strongest("sha1-abc sha256-abc"), None, "weaker hashes vouch for nothing");
}

#[test]
fn what_is_no_package_is_refused() {
    assert_eq!(code(unpack("a@1.0.0", b"no gzip")), ErrorCode::ModuleUnavailable);
    assert_eq!(code(unpack("a@1.0.0", &pack(&[("package/x.js", b"1")]))), ErrorCode::ModuleUnavailable);
    assert_eq!(code(unpack("a@1.0.0", &pack(&[("package/package.json", b"{")]))), ErrorCode::ModuleUnavailable);
}

#[test]
fn a_path_may_be_so_long_and_no_longer() {
    let of = |bytes: usize| source_path(format!("package/{}.js", "x".repeat(bytes - 3)).as_bytes()).unwrap();
    assert!(of(PATH_BYTES_MAX).is_some() && of(PATH_BYTES_MAX + 1).is_none());
}
