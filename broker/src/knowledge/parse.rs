//! Documents as text with sections. Pure.

use std::ops::Range;

use super::{docx, pdf};

/// Characters of a section's heading that are kept.
const HEADING_CHARS_MAX: usize = 200;
/// Between the headings of a path.
const WITHIN: &str = " > ";

/// A document: what is searched and read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parsed {
    /// Its first heading, or nothing.
    pub(super) title: String,
    /// Offsets are in bytes of this.
    pub(super) text: String,
    /// In order; together they are the text.
    pub(super) sections: Vec<Section>,
}

/// A part of a document under a heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// The headings that it stands under, outermost first, with ` > ` between them; empty before the first.
    pub(super) path: String,
    pub(super) range: Range<usize>,
}

/// How a document is written, by how its name ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Markdown,
    Html,
    Csv,
    /// Word's.
    Docx,
    Pdf,
}

impl Form {
    /// `None`: of a form that cannot be read here.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (_, ending) = name.rsplit('/').next()?.rsplit_once('.').unwrap_or(("", "txt"));
        match ending.to_ascii_lowercase().as_str() {
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            "csv" => Some(Self::Csv),
            "docx" => Some(Self::Docx),
            "pdf" => Some(Self::Pdf),
            "doc" | "xlsx" | "png" | "jpg" | "jpeg" | "gif" | "zip" | "gz" => None,
            _ => Some(Self::Text),
        }
    }

    /// The same of a media type.
    pub(super) fn of_type(media: &str) -> Option<Self> {
        match media.split(';').next().unwrap_or_default().trim() {
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            "text/markdown" => Some(Self::Markdown),
            "text/csv" => Some(Self::Csv),
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => Some(Self::Docx),
            "application/pdf" => Some(Self::Pdf),
            media if media.starts_with("text/") => Some(Self::Text),
            _ => None,
        }
    }
}

/// Reads a document.
///
/// # Errors
/// It is not UTF-8, no table, no Word document, or no PDF.
pub(super) fn parse(form: Form, bytes: &[u8]) -> Result<Parsed, String> {
    let packed = match form {
        Form::Docx => Some(docx::text_of_docx(bytes)?),
        Form::Pdf => Some(pdf::text_of_pdf(bytes)?),
        _ => None,
    };
    if let Some((text, headings)) = packed {
        return Ok(Parsed::of_headings(text, &headings));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match form {
        Form::Text | Form::Docx | Form::Pdf => Ok(Parsed::of_headings(text.to_owned(), &[])),
        Form::Markdown => {
            let headings = headings_of_markdown(text);
            Ok(Parsed::of_headings(text.to_owned(), &headings))
        }
        Form::Html => {
            let (text, headings) = text_of_html(text);
            Ok(Parsed::of_headings(text, &headings))
        }
        Form::Csv => text_of_csv(text).map(|text| Parsed::of_headings(text, &[])),
    }
}

/// A heading: where its line begins, how deep it is, and what it says.
pub(super) struct Heading {
    pub(super) at: usize,
    pub(super) level: usize,
    pub(super) text: String,
}

impl Parsed {
    fn of_headings(text: String, headings: &[Heading]) -> Self {
        let mut sections = Vec::new();
        let mut above: Vec<(usize, &str)> = Vec::new();
        let first = headings.first().map_or(text.len(), |heading| heading.at);
        if first > 0 || headings.is_empty() {
            sections.push(Section { path: String::new(), range: 0..first });
        }
        for (index, heading) in headings.iter().enumerate() {
            let end = headings.get(index + 1).map_or(text.len(), |next| next.at);
            above.retain(|(level, _)| *level < heading.level);
            above.push((heading.level, &heading.text));
            let path = above.iter().map(|(_, text)| *text).collect::<Vec<_>>().join(WITHIN);
            sections.push(Section { path, range: heading.at..end });
        }
        let title = headings.first().map_or_else(String::new, |heading| heading.text.clone());
        Self { title, text, sections }
    }
}

pub(super) fn heading(at: usize, level: usize, text: &str) -> Heading {
    Heading { at, level, text: text.trim().chars().take(HEADING_CHARS_MAX).collect() }
}

/// ATX headings outside of fenced code.
fn headings_of_markdown(text: &str) -> Vec<Heading> {
    let (mut headings, mut at, mut fence) = (Vec::new(), 0, None::<&str>);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start();
        let marks = ["```", "~~~"].into_iter().find(|marks| bare.starts_with(marks));
        match (fence, marks) {
            (None, Some(marks)) => fence = Some(marks),
            (Some(open), Some(marks)) if open == marks => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let level = line.bytes().take_while(|byte| *byte == b'#').count();
                let rest = line.get(level..).unwrap_or_default();
                if (1..=6).contains(&level) && rest.starts_with([' ', '\t']) {
                    headings.push(heading(at, level, rest.trim().trim_end_matches('#')));
                }
            }
        }
        at += line.len();
    }
    headings
}

/// Elements whose content nobody sees.
const UNSEEN: [&str; 6] = ["script", "style", "noscript", "template", "svg", "head"];
/// Elements that end a line.
const BLOCKS: [&str; 26] = [
    "p",
    "div",
    "br",
    "li",
    "ul",
    "ol",
    "tr",
    "table",
    "section",
    "article",
    "header",
    "footer",
    "main",
    "nav",
    "aside",
    "pre",
    "blockquote",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "dt",
    "dd",
    "hr",
];

/// What a reader sees, and its headings. Tags that are wrong are text or nothing, as their kind is: nothing of a page is run or asked for.
fn text_of_html(page: &str) -> (String, Vec<Heading>) {
    let (mut text, mut headings, mut rest) = (String::new(), Vec::new(), page);
    let mut open: Option<(usize, usize)> = None;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        append(&mut text, before);
        if let Some(comment) = tag.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
            continue;
        }
        let Some(end) = end_of_tag(tag) else {
            rest = "";
            break;
        };
        let (inside, after) = (tag.get(1..end).unwrap_or_default(), tag.get(end + 1..).unwrap_or_default());
        rest = after;
        let closes = inside.starts_with('/');
        let name: String =
            inside.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        if !closes && UNSEEN.contains(&name.as_str()) && !inside.ends_with('/') {
            rest = after_end_of(rest, &name);
            continue;
        }
        if BLOCKS.contains(&name.as_str()) {
            end_line(&mut text);
        } else if matches!(name.as_str(), "td" | "th") {
            append(&mut text, " ");
        }
        match (heading_level(&name), closes) {
            (Some(level), false) => open = Some((text.len(), level)),
            (Some(_), true) => {
                if let Some((from, level)) = open.take() {
                    let said = text.get(from..).unwrap_or_default().trim().to_owned();
                    if !said.is_empty() {
                        headings.push(heading(from, level, &said));
                    }
                }
            }
            (None, _) => {}
        }
    }
    append(&mut text, rest);
    end_line(&mut text);
    (text, headings)
}

fn heading_level(name: &str) -> Option<usize> {
    name.strip_prefix('h')?.parse().ok().filter(|level| (1..=6).contains(level))
}

/// Where the `>` of a tag is, which may stand in a quoted value, too.
fn end_of_tag(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

fn after_end_of<'a>(text: &'a str, name: &str) -> &'a str {
    let lower = text.to_ascii_lowercase();
    let Some(at) = lower.find(&format!("</{name}")) else { return "" };
    let rest = text.get(at..).unwrap_or_default();
    end_of_tag(rest).and_then(|end| rest.get(end + 1..)).unwrap_or_default()
}

/// Adds text with each run of blanks as one, and characters in place of their references.
fn append(text: &mut String, more: &str) {
    let mut rest = more;
    while let Some(c) = rest.chars().next() {
        let (c, length) = match c {
            '&' => reference(rest).unwrap_or(('&', 1)),
            c => (c, c.len_utf8()),
        };
        rest = rest.get(length..).unwrap_or_default();
        if !c.is_whitespace() {
            text.push(c);
        } else if !text.is_empty() && !text.ends_with(char::is_whitespace) {
            text.push(' ');
        }
    }
}

fn end_line(text: &mut String) {
    let length = text.trim_end_matches(' ').len();
    text.truncate(length);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Longest character reference that is looked for, in bytes.
const REFERENCE_BYTES_MAX: usize = 12;

fn reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(REFERENCE_BYTES_MAX).position(|byte| byte == b';')?;
    let name = text.get(1..end)?;
    let c = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        name => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((c, end + 1))
}

/// Each row as `COLUMN: VALUE; …`, a line each: so a row that is found says what its values are.
fn text_of_csv(table: &str) -> Result<String, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(table.as_bytes());
    let columns = reader.headers().map_err(|error| format!("is no table: {error}"))?.clone();
    let mut text = String::new();
    for row in reader.records() {
        let row = row.map_err(|error| format!("is no table: {error}"))?;
        let cells = row.iter().enumerate().filter(|(_, value)| !value.trim().is_empty()).map(|(at, value)| {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            columns.get(at).filter(|column| !column.is_empty()).map_or_else(|| value.clone(), |column| format!("{column}: {value}"))
        });
        text.push_str(&cells.collect::<Vec<_>>().join("; "));
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(parsed: &Parsed) -> Vec<(&str, &str)> {
        parsed.sections.iter().map(|section| (section.path.as_str(), &parsed.text[section.range.clone()])).collect()
    }

    #[test]
    fn markdown_has_sections_by_its_headings_and_none_in_code() {
        let page = "before\n# One\na\n## Two ##\n```sh\n# no heading\n```\n# Three\n#no\n";
        let parsed = parse(Form::Markdown, page.as_bytes()).unwrap();
        assert_eq!(parsed.title, "One");
        assert_eq!(
            paths(&parsed),
            [("", "before\n"), ("One", "# One\na\n"), ("One > Two", "## Two ##\n```sh\n# no heading\n```\n"), ("Three", "# Three\n#no\n")]
        );
    }

    #[test]
    fn html_is_what_a_reader_sees() {
        let page = "<!doctype html><head><title>t</title></head><body><h1 title=\"a>b\">Tea &amp; caf&#xe9;</h1><!-- <h2>no</h2> -->\n\
                    <p>Two   <b>cups</b>,&nbsp;please</p><script>if (a < b) alert('<h2>x</h2>')</script><h2>Prices</h2><table><tr><td>1</td><td>2</td></tr></table> 3 &lt 4 <unclosed";
        let parsed = parse(Form::Html, page.as_bytes()).unwrap();
        assert_eq!(parsed.text, "Tea & café\nTwo cups, please\nPrices\n1 2\n3 &lt 4\n");
        assert_eq!(paths(&parsed), [("Tea & café", "Tea & café\nTwo cups, please\n"), ("Tea & café > Prices", "Prices\n1 2\n3 &lt 4\n")]);
    }

    #[test]
    fn a_table_says_what_its_values_are() {
        let parsed = parse(Form::Csv, b"name,price,\nGreen tea,\"1,50\",new\n\n\"a \"\"b\"\"\nc\",,\n").unwrap();
        assert_eq!(parsed.text, "name: Green tea; price: 1,50; new\nname: a \"b\" c\n");
    }

    #[test]
    fn forms_are_told_by_names_and_media_types() {
        for (name, form) in [
            ("a.md", Some(Form::Markdown)),
            ("x/A.HTM", Some(Form::Html)),
            ("a.csv", Some(Form::Csv)),
            ("README", Some(Form::Text)),
            ("notes.rst", Some(Form::Text)),
            ("a.DOCX", Some(Form::Docx)),
            ("a.PDF", Some(Form::Pdf)),
            ("a.xlsx", None),
        ] {
            assert_eq!(Form::of_name(name), form, "{name}");
        }
        assert_eq!(Form::of_type("text/html; charset=utf-8"), Some(Form::Html));
        assert_eq!((Form::of_type("text/plain"), Form::of_type("image/png")), (Some(Form::Text), None));
        assert!(parse(Form::Text, &[0xff]).is_err());
    }

    /// Whatever a page holds, nothing fails, and sections are the text.
    #[test]
    fn no_page_is_too_odd() {
        for page in
            ["", "<", "<h1>", "</h1><h1></h1>", "<h1>a<h2>b</h1></h2>", "<script>", "&#xd800;&#99999999;&", "<p title='>", "é<é>é", "<!--"]
        {
            let parsed = parse(Form::Html, page.as_bytes()).unwrap();
            let joined: String = paths(&parsed).into_iter().map(|(_, text)| text).collect();
            assert_eq!(joined, parsed.text, "{page}");
        }
    }
}
