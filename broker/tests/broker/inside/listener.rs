//! Takes every connection of the test's network.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Where connections went to.
pub(super) type Arrived = Arc<Mutex<Vec<IpAddr>>>;

/// Takes every connection to a port, whatever its address, of either kind.
pub(super) async fn listen(port: u16, arrived: Arrived) {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await.unwrap();
    tokio::spawn(take_all(listener, arrived));
}

async fn take_all(listener: TcpListener, arrived: Arrived) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        arrived.lock().unwrap().push(stream.local_addr().unwrap().ip().to_canonical());
        tokio::spawn(answer(stream));
    }
}

/// `/to/HEX` redirects to the URL whose bytes these are.
async fn answer(mut stream: TcpStream) {
    let (mut request, mut buffer) = (Vec::new(), [0; 4_096]);
    let head = loop {
        match stream.read(&mut buffer).await {
            Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
            _ => return,
        }
        if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
    while request.len() < head + length {
        match stream.read(&mut buffer).await {
            Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    }
    let path = text.split(' ').nth(1).unwrap_or_default();
    let told = match path.strip_prefix("/to/") {
        Some(digits) => {
            let digits = digits.trim_end_matches('/');
            let url: Vec<u8> =
                (0..digits.len() / 2).filter_map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok()).collect();
            format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {}\r\ncontent-length: 0\r\n", String::from_utf8_lossy(&url))
        }
        None => "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n".to_owned(),
    };
    let body = if told.starts_with("HTTP/1.1 200") { "{}" } else { "" };
    let _ = stream.write_all(format!("{told}connection: close\r\n\r\n{body}").as_bytes()).await;
}
