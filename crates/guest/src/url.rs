//! The WHATWG URL parser and its form encoding, for the module behind `URL`. A URL is its text; every change parses it again.

use rquickjs::{function::Func, Object, Result};
use url::{form_urlencoded, quirks, Url};

/// Adds the functions.
pub fn add_to(natives: &Object<'_>) -> Result<()> {
    natives.set("urlParse", Func::from(parse))?;
    natives.set("urlSet", Func::from(set))?;
    natives.set("formParse", Func::from(form_parse))?;
    natives.set("formSerialize", Func::from(form_serialize))?;
    natives.set("domainToASCII", Func::from(|domain: String| quirks::domain_to_ascii(&domain)))?;
    natives.set("domainToUnicode", Func::from(|domain: String| quirks::domain_to_unicode(&domain)))
}

/// href, origin, protocol, username, password, host, hostname, port, pathname, search, hash.
fn parts(url: &Url) -> Vec<String> {
    vec![
        quirks::href(url).to_owned(),
        origin(url),
        quirks::protocol(url).to_owned(),
        quirks::username(url).to_owned(),
        quirks::password(url).to_owned(),
        quirks::host(url).to_owned(),
        quirks::hostname(url).to_owned(),
        quirks::port(url).to_owned(),
        quirks::pathname(url).to_owned(),
        quirks::search(url).to_owned(),
        quirks::hash(url).to_owned(),
    ]
}

/// A blob's is that of what it names, if that comes from the web.
fn origin(url: &Url) -> String {
    if url.scheme() != "blob" {
        return quirks::origin(url);
    }
    let named = Url::parse(url.path()).ok().filter(|named| matches!(named.scheme(), "http" | "https"));
    named.map_or_else(|| "null".to_owned(), |named| quirks::origin(&named))
}

fn parse(input: String, base: Option<String>) -> Option<Vec<String>> {
    let base = match base {
        Some(base) => Some(Url::parse(&base).ok()?),
        None => None,
    };
    Some(parts(&Url::options().base_url(base.as_ref()).parse(&input).ok()?))
}

/// The parts after a setter; a value that the setter ignores changes nothing. Nothing for an href that is no URL.
fn set(href: String, part: String, value: String) -> Option<Vec<String>> {
    let mut url = Url::parse(&href).ok()?;
    match part.as_str() {
        "href" => quirks::set_href(&mut url, &value).ok()?,
        "protocol" => drop(quirks::set_protocol(&mut url, &value)),
        "username" => drop(quirks::set_username(&mut url, &value)),
        "password" => drop(quirks::set_password(&mut url, &value)),
        "host" => drop(quirks::set_host(&mut url, &value)),
        "hostname" => drop(quirks::set_hostname(&mut url, &value)),
        "port" => drop(quirks::set_port(&mut url, &value)),
        "pathname" => quirks::set_pathname(&mut url, &value),
        "search" => quirks::set_search(&mut url, &value),
        _ => quirks::set_hash(&mut url, &value),
    }
    Some(parts(&url))
}

/// Name, value, name, value.
fn form_parse(text: String) -> Vec<String> {
    form_urlencoded::parse(text.as_bytes()).flat_map(|(name, value)| [name.into_owned(), value.into_owned()]).collect()
}

fn form_serialize(flat: Vec<String>) -> String {
    let mut out = form_urlencoded::Serializer::new(String::new());
    for pair in flat.chunks_exact(2) {
        out.append_pair(&pair[0], &pair[1]);
    }
    out.finish()
}
