//! What is inside stays unreached, whatever a tenant writes and whatever a name server answers.
//!
//! The test runs itself again in a network of its own, where every address is this machine's: a connection to any address arrives at its listener, which
//! notes where to. Names are resolved by a real name server, which answers with inside addresses, in clothes, behind aliases, and second.
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use dormouse_broker::{Broker, BrokerStore, Secrets};
use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::{
    broker::{DeliveriesCall, FETCH, FetchCall, Notice},
    eval::{EvalWebhook, SecretKeyRef},
};
use dormouse_seal::Seal;
use dormouse_service::Metrics;
use dormouse_store::{Memory, SnapshotStore};
use dormouse_testkit::{again::again, wait::eventually};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
};

use crate::world::call;

/// Set for the run inside.
const INSIDE: &str = "DORMOUSE_TEST_INSIDE";
const NAME: &str = "inside::nothing_inside_is_connected_to";
/// The one address that may be reached, and its name.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
const FRONT: &str = "front.example";
const SECRET: &str = "whsec_YSBrZXkgb2YgZm91ciBhbmQgdHdlbnR5IGJ5";
/// Every address is local; names come from the server of the test.
const NETWORK: &str = "ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo && \
                       mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";

/// Inside addresses of every kind.
const V4: [[u8; 4]; 20] = [
    [127, 0, 0, 1],
    [127, 8, 9, 10],
    [0, 0, 0, 0],
    [0, 1, 2, 3],
    [10, 0, 0, 1],
    [10, 255, 255, 254],
    [172, 16, 0, 1],
    [172, 31, 255, 254],
    [192, 168, 1, 1],
    [100, 64, 0, 1],
    [100, 127, 255, 254],
    [169, 254, 1, 1],
    [192, 0, 0, 1],
    [198, 18, 0, 1],
    [192, 0, 2, 1],
    [203, 0, 113, 9],
    [240, 0, 0, 1],
    [169, 254, 169, 254],
    [168, 63, 129, 16],
    [100, 100, 100, 200],
];
const V6: [&str; 14] = [
    "::1",
    "::",
    "fe80::1",
    "fec0::1",
    "fc00::1",
    "fd12:3456::1",
    "ff02::1",
    "2001:db8::1",
    "2001::1",
    "100::1",
    "5f00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "3fff::1",
];
/// Those where clouds keep their metadata: no administrator can open them either.
const METADATA_V4: usize = 17;
const METADATA_V6: usize = 11;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Names that the server of the test answers so.
fn name_of(kind: &str, address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("{kind}-{}.evil.example", hex(&address.octets())),
        IpAddr::V6(address) => format!("{kind}-{}.evil.example", hex(&address.octets())),
    }
}

/// An IPv4 address in IPv6 clothes: mapped, translated (NAT64), and as 6to4 has it.
fn dressed(address: Ipv4Addr) -> [Ipv6Addr; 4] {
    let [a, b, c, d] = address.octets().map(u16::from);
    let (high, low) = (a << 8 | b, c << 8 | d);
    [
        Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
        Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
    ]
}

/// Hosts that are names with this address at the end.
fn names(address: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = ["at", "alias", "both", "later"].map(|kind| name_of(kind, address)).into();
    if let IpAddr::V4(address) = address {
        names.extend(dressed(address).map(|address| name_of("at", address.into())));
    }
    names
}

/// URLs that lead inside.
fn vectors() -> Vec<String> {
    let mut urls = Vec::new();
    for octets in V4 {
        let [a, b, c, d] = octets;
        let number = u32::from_be_bytes(octets);
        let dotted = Ipv4Addr::from(octets).to_string();
        // As IDNA maps them: digits of full width, and an ideographic full stop.
        let wide: String = dotted.chars().map(|c| if c == '.' { '\u{3002}' } else { fullwidth(c) }).collect();
        let mut hosts = vec![
            dotted.clone(),
            number.to_string(),
            format!("0x{number:08x}"),
            format!("0{number:o}"),
            format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
            format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
            format!("{a}.{}", number & 0x00ff_ffff),
            format!("{a}.{b}.{}", number & 0xffff),
            format!("{dotted}."),
            dotted.replace('.', "%2e"),
            wide,
            format!("{FRONT}@{dotted}"),
            format!("{dotted}:443"),
            format!("{dotted}:8080"),
        ];
        hosts.extend(dressed(octets.into()).map(|address| format!("[{address}]")));
        hosts.extend(names(IpAddr::V4(octets.into())));
        urls.extend(hosts.into_iter().map(|host| format!("http://{host}/")));
        urls.push(format!("https://{}/", name_of("at", Ipv4Addr::from(octets).into())));
    }
    for text in V6 {
        let address: Ipv6Addr = text.parse().unwrap();
        urls.extend([format!("http://[{text}]/"), format!("https://[{text}]/"), format!("http://[{text}]:8080/")]);
        urls.extend(names(address.into()).into_iter().map(|host| format!("http://{host}/")));
    }
    for odd in ["http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://127.0.0.1\\@front.example/", "http:127.0.0.1/"] {
        urls.push(odd.to_owned());
    }
    for scheme in ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:80/", "ws://127.0.0.1/", "unix:/run/x.sock"] {
        urls.push(scheme.to_owned());
    }
    urls
}

fn fullwidth(c: char) -> char {
    char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c)
}

/// A name server. `at-HEX` has that address, `alias-HEX` has it behind two aliases, `both-HEX` beside the public one, and `later-HEX` from the second
/// question on; any other name has the public one.
async fn serve_names() {
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

/// Where connections went to.
type Arrived = Arc<Mutex<Vec<IpAddr>>>;

/// Takes every connection to a port, whatever its address, of either kind.
async fn listen(port: u16, arrived: Arrived) {
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

/// A URL of the public server that redirects to `url`.
fn by_way_of_front(url: &str) -> String {
    format!("http://{FRONT}/to/{}", hex(url.as_bytes()))
}

fn broker(spec: Value) -> Broker {
    let values = [
        ("secret".to_owned(), SECRET.as_bytes().to_vec()),
        ("clientId".to_owned(), b"id".to_vec()),
        ("clientSecret".to_owned(), b"s".to_vec()),
    ];
    let secrets = Secrets::memory([("keys".to_owned(), values.into_iter().collect())].into_iter().collect());
    let place = BrokerStore {
        store: Arc::new(Memory::new()) as Arc<dyn SnapshotStore>,
        prefix: String::new(),
        namespace: "team-a".to_owned(),
        broker: "tools".to_owned(),
        seal: Arc::new(Seal::none()),
    };
    Broker::with_store(&serde_json::from_value(spec).unwrap(), secrets, &Metrics::new(), Some(place)).unwrap()
}

fn secret() -> Value {
    json!({ "name": "keys", "key": "secret" })
}

/// Fetches each of these as a cell would, through rules that hold everything.
async fn fetch_all(urls: &[String], rule: Value) {
    let broker = broker(json!({ "egress": { "allow": [rule] } }));
    let allow: Vec<_> = serde_json::from_value(json!([{ "host": "*:*", "methods": ["GET", "POST"] }])).unwrap();
    let fetches = urls.iter().enumerate().map(|(n, url)| {
        let mut call = call(1, FETCH, json!({ "method": "GET", "url": url }));
        call.session_uid = format!("u-{n}");
        let call = FetchCall { call, allow: allow.clone() };
        let broker = broker.clone();
        async move {
            // Whether it fails, and how, is the cell's matter; a URL that is none may be refused as such.
            let _ = broker.fetch(call).await;
        }
    });
    futures::stream::iter(fetches).buffer_unordered(32).collect::<Vec<()>>().await;
}

/// Has the broker ask each of these URLs as what a ToolBroker names them for, with `egress` as its rules.
async fn ask_all_as_services(urls: &[String], egress: &Value) {
    let plain: Vec<&String> = urls.iter().filter(|url| !url.contains('@')).collect();
    let each = |make: &dyn Fn(usize, &str) -> Value| plain.iter().enumerate().map(|(n, url)| make(n, url)).collect::<Vec<Value>>();
    let service = |n: usize, base: &str, auth: Value| json!({ "name": format!("s{n}"), "baseUrl": base, "auth": auth, "direct": { "timeoutMs": 5_000 }, "retries": 0 });
    let front = format!("http://{FRONT}");
    let specs = [
        json!({ "services": each(&|n, url| service(n, url.trim_end_matches('/'), json!({}))) }),
        json!({ "services": each(&|n, url| service(n, &front, json!({ "type": "custom", "hook": { "url": url } }))) }),
        json!({ "services": each(&|n, url| service(n, &front, json!({ "type": "oauth2ClientCredentials", "tokenUrl": url, "secretRef": { "name": "keys" } }))) }),
    ];
    for mut spec in specs {
        spec["egress"] = egress.clone();
        let broker = broker(spec);
        let calls = (0..plain.len()).map(|n| {
            let mut call = call(1, "callService", json!({ "service": format!("s{n}"), "path": "/" }));
            call.session_uid = format!("u-{n}");
            let broker = broker.clone();
            async move { drop(broker.call(call).await) }
        });
        futures::stream::iter(calls).buffer_unordered(32).collect::<Vec<()>>().await;
    }
    let sources = json!({
        "services": [service(0, &front, json!({}))],
        "openapi": each(&|n, url| json!({ "name": format!("o{n}"), "service": "s0", "document": { "url": url } })),
        "knowledge": plain.chunks(64).enumerate().map(|(n, urls)| json!({ "name": format!("k{n}"), "urls": urls })).collect::<Vec<Value>>(),
        "mcpServers": each(&|n, url| json!({ "name": format!("m{n}"), "url": url, "timeoutMs": 5_000 })),
        "egress": egress,
    });
    drop(broker(sources).look_for_tools().await);
    let hooks = json!({
        "webhooks": each(&|_, url| json!({ "url": url, "events": ["completed"], "secretRef": secret() })), "egress": egress,
    });
    deliver(&broker(hooks), vec![notice(1, None)], plain.len()).await;
}

fn notice(number: u64, url: Option<&str>) -> Notice {
    let secret_ref = SecretKeyRef { name: "keys".to_owned(), key: "secret".to_owned() };
    Notice {
        namespace: "team-a".to_owned(),
        session: "agent".to_owned(),
        session_uid: "u-1".to_owned(),
        number,
        key: None,
        event: if url.is_some() { EventKind::ApprovalRequired } else { EventKind::Completed },
        time: String::new(),
        data: serde_json::Map::new(),
        webhook: url.map(|url| EvalWebhook { url: url.to_owned(), secret_ref }),
    }
}

/// Waits until every message was tried.
async fn deliver(broker: &Broker, notices: Vec<Notice>, messages: usize) {
    for notice in notices {
        broker.take_notice(notice).await.unwrap();
    }
    let delivering = tokio::spawn(broker.clone().keep_delivering());
    eventually("every message was tried", async || {
        let call = DeliveriesCall { namespace: "team-a".to_owned(), session: None, limit: 500 };
        let items = broker.deliveries(&call).await.unwrap().items;
        items.len() == messages && items.iter().all(|item| !item.attempts.is_empty())
    })
    .await;
    delivering.abort();
}

async fn all_of_it() {
    let arrived = Arrived::default();
    tokio::spawn(serve_names());
    for port in [80, 443, 8_080] {
        listen(port, Arc::clone(&arrived)).await;
    }
    // The listener sees what goes inside, or it would prove nothing.
    for inside in ["10.0.0.1:80", "169.254.169.254:443", "[fd00:ec2::254]:8080", "[64:ff9b::a9fe:a9fe]:80", "[::1]:80"] {
        drop(TcpStream::connect(inside).await.unwrap_or_else(|error| panic!("{inside}: {error}")));
    }
    for name in [name_of("at", IpAddr::from([10, 0, 0, 1])), name_of("alias", IpAddr::from([10, 0, 0, 1]))] {
        let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 80)).await.unwrap().map(|address| address.ip()).collect();
        assert_eq!(found, [IpAddr::from([10, 0, 0, 1])], "{name}");
    }
    eventually("they are seen", async || arrived.lock().unwrap().len() == 5).await;
    arrived.lock().unwrap().clear();

    let direct = vectors();
    assert!(direct.len() >= 300, "{}", direct.len());
    let redirected: Vec<String> = direct.iter().map(|url| by_way_of_front(url)).collect();
    let everything = json!({ "host": "*:*", "methods": ["GET", "POST"] });
    let outside = |what: &str, least: usize| {
        let arrived: Vec<IpAddr> = std::mem::take(&mut *arrived.lock().unwrap());
        let inside: Vec<&IpAddr> = arrived.iter().filter(|address| **address != IpAddr::V4(PUBLIC)).collect();
        assert!(inside.is_empty(), "{what}: {inside:?}");
        assert!(arrived.len() >= least, "{what}: {} arrived at the public address, which shows that it was tried", arrived.len());
    };
    // What of them has the public address, too, is reached there.
    let also_public = direct.iter().filter(|url| url.contains("both-") || url.contains("later-")).count();
    fetch_all(&direct, everything.clone()).await;
    outside("fetch", also_public / 2);
    fetch_all(&direct, everything.clone()).await;
    outside("fetch, again: names have moved inside", 1);
    fetch_all(&redirected, everything).await;
    outside("redirects of fetch", direct.len());
    for chunk in direct.chunks(400) {
        let notices: Vec<Notice> = (1..).zip(chunk).map(|(number, url)| notice(number, Some(url))).collect();
        deliver(
            &broker(json!({ "webhooks": [{ "url": format!("http://{FRONT}/"), "events": ["completed"], "secretRef": secret() }] })),
            notices,
            chunk.len(),
        )
        .await;
    }
    outside("webhooks of cells", 1);
    for chunk in redirected.chunks(400) {
        ask_all_as_services(chunk, &json!({})).await;
    }
    outside("redirects of services, hooks, tokens, documents, bases, MCP servers and webhooks", direct.len() * 6);

    // A name may come to stand for what is inside, wherever it is written; `later` does while it is looked at.
    let mut named: Vec<String> = direct.iter().filter(|url| url.contains(".evil.example")).cloned().collect();
    // `::` is also what 0.0.0.0 is in clothes; a message goes to a URL once.
    named.sort();
    named.dedup();
    assert!(named.len() >= 200, "{}", named.len());
    for chunk in named.chunks(400) {
        ask_all_as_services(chunk, &json!({})).await;
    }
    outside("names of services, hooks, tokens, documents, bases, MCP servers and webhooks", 1);

    // An administrator may name what is private, but not where clouds keep their metadata.
    let metadata: Vec<IpAddr> = V4[METADATA_V4..]
        .iter()
        .map(|octets| IpAddr::from(*octets))
        .chain(V6[METADATA_V6..METADATA_V6 + 2].iter().map(|text| text.parse().unwrap()))
        .collect();
    let names: Vec<String> = metadata.into_iter().flat_map(names).map(|host| format!("http://{host}/")).collect();
    fetch_all(&names, json!({ "host": "*.evil.example", "private": true })).await;
    outside("fetch by a rule for private addresses", 1);
    ask_all_as_services(&names, &json!({ "allow": [{ "host": "*.evil.example", "private": true }] })).await;
    outside("services and all the others at the addresses of metadata", 1);
}

#[test]
fn nothing_inside_is_connected_to() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(async { tokio::time::timeout(Duration::from_secs(500), all_of_it()).await.expect("it ends") });
    }
    let dir = tempfile::tempdir().unwrap();
    let names = dir.path().join("resolv.conf");
    std::fs::write(&names, "nameserver 127.0.0.1\noptions timeout:5\n").unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["--map-root-user", "--net", "--mount", "sh", "-c", NETWORK, "sh"]).arg(&names).env(INSIDE, "yes");
    again(inside, NAME).unwrap();
}
