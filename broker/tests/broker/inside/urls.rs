//! URLs that lead inside: addresses of every kind, as they are, in clothes, and behind names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{FRONT, hex};

/// Inside addresses of every kind.
pub(super) const V4: [[u8; 4]; 20] = [
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
pub(super) const V6: [&str; 14] = [
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
pub(super) const METADATA_V4: usize = 17;
pub(super) const METADATA_V6: usize = 11;

/// Names that the server of the test answers so.
pub(super) fn name_of(kind: &str, address: IpAddr) -> String {
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
pub(super) fn names(address: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = ["at", "alias", "both", "later"].map(|kind| name_of(kind, address)).into();
    if let IpAddr::V4(address) = address {
        names.extend(dressed(address).map(|address| name_of("at", address.into())));
    }
    names
}

/// URLs that lead inside.
pub(super) fn vectors() -> Vec<String> {
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
