//! Files of a session through the real binary: large ones by the command line, and what HTTP says of them.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use crate::support::Dev;

/// A request with these lines of headers; the answer's head, and its body.
fn http(dev: &Dev, method: &str, path: &str, headers: &str, body: &str) -> (String, Vec<u8>) {
    let address = dev.server.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let target = format!("/v1/namespaces/default/sessions/s/files{path}");
    let length = body.len();
    write!(stream, "{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
    (String::from_utf8_lossy(&answer[..end]).to_lowercase(), answer[end + 4..].to_vec())
}

/// The value of a header.
fn header<'a>(head: &'a str, name: &str) -> &'a str {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
}

#[test]
fn files_go_in_and_out_whole_and_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(&folder.path().join("data"), &[]);
    dev.eval("globalThis.fs = require('fs'); 1");
    let big: Vec<u8> = (0..20_000_003u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::write(&from, &big).unwrap();
    let said = dev.command(&["files", "put", "s", from.to_str().unwrap(), "/in/big.bin"], "");
    assert!(said.status.success(), "{}", said.err);
    assert!(dev.command(&["sessions", "hibernate", "s"], "").status.success());
    let said = dev.command(&["files", "get", "s", "/in/big.bin", to.to_str().unwrap()], "");
    assert!(said.status.success(), "{}", said.err);
    assert!(std::fs::read(&to).unwrap() == big, "what comes out is what went in");
    assert_eq!(
        dev.eval("const b = fs.readFileSync('/in/big.bin'); [b.length, b[19999999]].join()"),
        format!("'20000003,{}'", big[19_999_999])
    );

    let (head, part) = http(&dev, "GET", "/in/big.bin", "range: bytes=1048574-1048577\r\n", "");
    assert!(head.starts_with("http/1.1 206"), "{head}");
    assert_eq!((header(&head, "content-range"), &part[..]), ("bytes 1048574-1048577/20000003", &big[1_048_574..1_048_578]));
    assert_eq!((header(&head, "content-length"), header(&head, "x-content-type-options")), ("4", "nosniff"));
    let etag = header(&head, "etag").to_owned();
    let (head, body) = http(&dev, "GET", "/in/big.bin", &format!("if-none-match: {etag}\r\n"), "");
    assert!(head.starts_with("http/1.1 304") && body.is_empty(), "{head}");
    let (head, body) = http(&dev, "PUT", "/in/big.bin", "if-match: \"other\"\r\n", "lost");
    assert!(head.starts_with("http/1.1 412") && String::from_utf8_lossy(&body).contains("PreconditionFailed"), "{head}");
    let (head, _) = http(&dev, "PUT", "/in/big.bin", &format!("if-match: {etag}\r\n"), "taken");
    assert!(head.starts_with("http/1.1 200") && header(&head, "etag") != etag, "{head}");
    let (head, _) = http(&dev, "PUT", "/a%20b/%C3%A4", "", "new");
    assert!(head.starts_with("http/1.1 201"), "{head}");
    assert_eq!(dev.eval("fs.readFileSync('/in/big.bin', 'utf8') + fs.readFileSync('/a b/ä', 'utf8')"), "'takennew'");
    for (method, path, status) in [
        ("GET", "/none", 404),
        ("GET", "/in", 409),
        ("GET", "/in/%2E%2E/x", 400),
        ("PUT", "/in//x", 400),
        ("DELETE", "/in", 409),
        ("DELETE", "/in?recursive=true", 204),
        ("GET", "?path=/in", 404),
    ] {
        let (head, _) = http(&dev, method, path, "", "");
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{method} {path}: {head}");
    }
    let (head, body) = http(&dev, "HEAD", "/a%20b/%C3%A4", "", "");
    assert!(head.starts_with("http/1.1 200") && header(&head, "content-length") == "3" && body.is_empty(), "{head}");
}
