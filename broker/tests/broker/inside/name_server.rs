//! A name server that answers with inside addresses.

use std::{collections::HashMap, net::IpAddr};

use tokio::net::UdpSocket;

use super::PUBLIC;

/// A name server. `at-HEX` has that address, `alias-HEX` has it behind two aliases, `both-HEX` beside the public one, and `later-HEX` from the second
/// question on; any other name has the public one.
pub(super) async fn serve_names() {
    let socket = UdpSocket::bind("127.0.0.1:53").await.unwrap();
    let mut asked: HashMap<(String, u16), u32> = HashMap::new();
    let mut question = [0; 1_500];
    loop {
        let (length, from) = socket.recv_from(&mut question).await.unwrap();
        let Some((name, kind, end)) = parse(&question[..length]) else { continue };
        let times = asked.entry((name.clone(), kind)).or_default();
        *times += 1;
        let label = name.split('.').next().unwrap_or_default();
        let (how, digits) = label.split_once('-').unwrap_or((label, ""));
        let inside = address_of(digits).filter(|_| name.ends_with(".evil.example"));
        let public = IpAddr::V4(PUBLIC);
        let found = match (how, inside) {
            ("both", Some(inside)) => vec![public, inside],
            ("later", Some(_)) if *times == 1 => vec![public],
            (_, Some(inside)) => vec![inside],
            _ => vec![public],
        };
        let mut answer = vec![question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0];
        answer.extend_from_slice(&question[12..end]);
        let (mut count, mut owner) = (0, vec![0xc0, 12]);
        if how == "alias" {
            for hop in ["one", "two"] {
                let target = labels(&format!("{hop}.{name}"));
                record(&mut answer, &owner, 5, &target);
                (count, owner) = (count + 1, target);
            }
        }
        for address in found {
            match (kind, address) {
                (1, IpAddr::V4(address)) => record(&mut answer, &owner, 1, &address.octets()),
                (28, IpAddr::V6(address)) => record(&mut answer, &owner, 28, &address.octets()),
                _ => continue,
            }
            count += 1;
        }
        answer[7] = count;
        socket.send_to(&answer, from).await.unwrap();
    }
}

/// Name, type, and where the question ends.
fn parse(message: &[u8]) -> Option<(String, u16, usize)> {
    let (mut at, mut name) = (12, Vec::new());
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        name.push(String::from_utf8_lossy(message.get(at..at + length)?).to_lowercase());
        at += length;
    }
    Some((name.join("."), u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]), at + 4))
}

fn labels(name: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    bytes.push(0);
    bytes
}

/// One that nobody may keep.
fn record(answer: &mut Vec<u8>, owner: &[u8], kind: u8, data: &[u8]) {
    answer.extend_from_slice(owner);
    answer.extend_from_slice(&[0, kind, 0, 1, 0, 0, 0, 0, 0, data.len() as u8]);
    answer.extend_from_slice(data);
}

fn address_of(digits: &str) -> Option<IpAddr> {
    let bytes: Option<Vec<u8>> = (0..digits.len() / 2).map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok()).collect();
    let bytes = bytes?;
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}
