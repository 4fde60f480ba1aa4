//! Word's documents (ECMA-376) as text and headings. Pure.
//!
//! A document is somebody's, and may be made to do harm: parts of it are read up to a bound, whatever they say of their size, nothing is expanded
//! but characters, and reading is a loop over events that keeps no tree.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read as _},
};

use dormouse_crds::knowledge::KNOWLEDGE_DOCUMENT_BYTES_MAX;
use quick_xml::{
    Reader, XmlVersion,
    events::{BytesRef, BytesStart, Event},
};
use zip::ZipArchive;

use super::parse::{Heading, heading};

/// Bytes of a part that is read, unpacked: its text with all that is said of how it looks.
const PART_BYTES_MAX: u64 = 32 << 20;
/// Files in the archive.
const FILES_MAX: usize = 4_096;
/// Elements within each other.
const DEPTH_MAX: usize = 256;
/// Styles that are looked at.
const STYLES_MAX: usize = 10_000;

const DOCUMENT: &str = "word/document.xml";
const STYLES: &str = "word/styles.xml";

/// The text of a document, a line a paragraph, and its headings.
///
/// # Errors
/// It is none, or larger than it may be.
pub(super) fn text_of_docx(bytes: &[u8]) -> Result<(String, Vec<Heading>), String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|_| "is no Word document".to_owned())?;
    if archive.len() > FILES_MAX {
        return Err(format!("has more than {FILES_MAX} files in it"));
    }
    let levels = match part(&mut archive, STYLES)? {
        Some(styles) => levels(&styles)?,
        None => BTreeMap::new(),
    };
    let document = part(&mut archive, DOCUMENT)?.ok_or("is no Word document")?;
    Text::of(&document, &levels)
}

/// A part of the archive, if it is there.
fn part(archive: &mut ZipArchive<Cursor<&[u8]>>, name: &str) -> Result<Option<String>, String> {
    let Ok(file) = archive.by_name(name) else { return Ok(None) };
    let mut text = String::new();
    // What the archive says of the size is somebody's word.
    let read = file.take(PART_BYTES_MAX + 1).read_to_string(&mut text);
    if text.len() as u64 > PART_BYTES_MAX {
        return Err(format!("has more than {PART_BYTES_MAX} bytes when it is unpacked"));
    }
    read.map_err(|error| format!("cannot be unpacked: {error}"))?;
    Ok(Some(text))
}

/// The next event of a document, and how deep it is.
struct Events<'a> {
    reader: Reader<&'a [u8]>,
    depth: usize,
}

impl<'a> Events<'a> {
    fn of(text: &'a str) -> Self {
        Self { reader: Reader::from_str(text), depth: 0 }
    }

    /// `None` at the end.
    fn next(&mut self) -> Result<Option<Event<'a>>, String> {
        let event = self.reader.read_event().map_err(|error| format!("is no XML: {error}"))?;
        match &event {
            Event::Eof => return Ok(None),
            Event::DocType(_) => return Err("defines entities, which no Word document does".to_owned()),
            Event::Start(_) => self.depth += 1,
            Event::End(_) => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.depth > DEPTH_MAX {
            return Err(format!("has more than {DEPTH_MAX} elements within each other"));
        }
        Ok(Some(event))
    }
}

/// The value of `w:val`.
fn value(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.try_get_attribute(name).ok().flatten()?;
    attribute.normalized_value(XmlVersion::Explicit1_0).ok().map(std::borrow::Cow::into_owned)
}

/// How deep the headings of each style are. Names of styles are English in every language, their ids are not.
fn levels(styles: &str) -> Result<BTreeMap<String, usize>, String> {
    let (mut events, mut levels, mut style) = (Events::of(styles), BTreeMap::new(), None);
    while let Some(event) = events.next()? {
        let (Event::Start(element) | Event::Empty(element)) = &event else { continue };
        match element.local_name().as_ref() {
            b"style" => style = value(element, "w:styleId"),
            b"name" if levels.len() < STYLES_MAX => {
                let name = value(element, "w:val").unwrap_or_default().to_ascii_lowercase();
                let level = match name.strip_prefix("heading ").map(str::parse::<usize>) {
                    Some(Ok(level)) => Some(level),
                    _ if name == "title" => Some(0),
                    _ => None,
                };
                levels.extend(style.take().zip(level));
            }
            _ => {}
        }
    }
    Ok(levels)
}

/// The text so far.
#[derive(Default)]
struct Text {
    text: String,
    headings: Vec<Heading>,
    /// Where the paragraph begins, and how deep a heading it is.
    begins: usize,
    level: Option<usize>,
    /// Whether what comes is text.
    reads: bool,
}

impl Text {
    fn of(document: &str, levels: &BTreeMap<String, usize>) -> Result<(String, Vec<Heading>), String> {
        let (mut events, mut text) = (Events::of(document), Self::default());
        while let Some(event) = events.next()? {
            match &event {
                Event::Start(element) => text.element(element, levels, false),
                Event::Empty(element) => text.element(element, levels, true),
                Event::End(element) => match element.local_name().as_ref() {
                    b"t" => text.reads = false,
                    b"p" => text.end_paragraph(),
                    b"tc" => text.text.push(' '),
                    _ => {}
                },
                Event::Text(piece) if text.reads => text.text.push_str(&piece.decode().map_err(|error| format!("is no XML: {error}"))?),
                Event::GeneralRef(name) if text.reads => text.text.extend(character(name)),
                _ => {}
            }
            if text.text.len() > KNOWLEDGE_DOCUMENT_BYTES_MAX {
                return Err(format!("has more than {KNOWLEDGE_DOCUMENT_BYTES_MAX} bytes of text"));
            }
        }
        Ok((text.text, text.headings))
    }

    fn element(&mut self, element: &BytesStart<'_>, levels: &BTreeMap<String, usize>, is_empty: bool) {
        match element.local_name().as_ref() {
            b"t" => self.reads = !is_empty,
            b"tab" => self.text.push('\t'),
            b"br" | b"cr" => self.text.push('\n'),
            b"pStyle" => self.level = value(element, "w:val").and_then(|style| levels.get(&style).copied()),
            b"p" => (self.begins, self.level) = (self.text.len(), None),
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let said = self.text.get(self.begins..).unwrap_or_default().trim().to_owned();
        if let Some(level) = self.level.take().filter(|_| !said.is_empty()) {
            self.headings.push(heading(self.begins, level, &said));
        }
        self.text.push('\n');
        self.begins = self.text.len();
    }
}

/// The character that a reference stands for; of the five names that XML has, and of numbers.
fn character(reference: &BytesRef<'_>) -> Option<char> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Some(character);
    }
    match reference.decode().ok()?.as_ref() {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    const STYLES_OF_WORD: &str = r#"<w:styles xmlns:w="w"><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style><w:style w:styleId="Titel"><w:name w:val="Title"/></w:style></w:styles>"#;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            archive.start_file(*name, SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated)).unwrap();
            archive.write_all(content).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    fn read(body: &str) -> Result<(String, Vec<Heading>), String> {
        let document = format!(r#"<?xml version="1.0"?><w:document xmlns:w="w"><w:body>{body}</w:body></w:document>"#);
        text_of_docx(&archive(&[(STYLES, STYLES_OF_WORD.as_bytes()), (DOCUMENT, document.as_bytes())]))
    }

    fn paragraph(style: &str, text: &str) -> String {
        let style = if style.is_empty() { String::new() } else { format!(r#"<w:pPr><w:pStyle w:val="{style}"/></w:pPr>"#) };
        format!(r#"<w:p>{style}<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>"#)
    }

    #[test]
    fn paragraphs_are_lines_and_styles_make_headings_in_any_language() {
        let table = format!("<w:tbl><w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr></w:tbl>", paragraph("", "tea"), paragraph("", "3"));
        let body = [paragraph("Titel", "All"), paragraph("berschrift1", "Tea &amp; &#x63;ups"), paragraph("Other", "a&lt;b ü"), table];
        let (text, headings) = read(&body.concat()).unwrap();
        assert_eq!(text, "All\nTea & cups\na<b ü\ntea\n 3\n ");
        let shown: Vec<_> = headings.iter().map(|heading| (heading.at, heading.level, heading.text.as_str())).collect();
        assert_eq!(shown, [(0, 0, "All"), (4, 1, "Tea & cups")]);
        let (text, _) = read("<w:p><w:r><w:instrText>HIDDEN</w:instrText><w:t>a</w:t><w:tab/><w:t/><w:br/></w:r></w:p>").unwrap();
        assert_eq!(text, "a\t\n\n");
    }

    #[test]
    fn what_is_made_to_do_harm_is_refused() {
        let bomb = archive(&[(DOCUMENT, &vec![b' '; usize::try_from(PART_BYTES_MAX).unwrap() + 1])]);
        assert!(bomb.len() < 64 << 10, "it is small before");
        assert!(text_of_docx(&bomb).err().unwrap().contains("when it is unpacked"));
        let long = paragraph("", &"x".repeat(KNOWLEDGE_DOCUMENT_BYTES_MAX + 1));
        assert!(read(&long).err().unwrap().contains("of text"));
        assert!(read(&format!("{}{}", "<w:p>".repeat(DEPTH_MAX), "</w:p>".repeat(DEPTH_MAX))).err().unwrap().contains("within each other"));
        let laughs = r#"<!DOCTYPE w:document [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><w:document><w:p><w:t>&b;</w:t></w:p></w:document>"#;
        assert!(text_of_docx(&archive(&[(DOCUMENT, laughs.as_bytes())])).err().unwrap().contains("entities"));
        assert_eq!(read(&paragraph("", "a&other;b")).unwrap().0, "ab\n", "what is not defined is nothing");
        let many: Vec<(String, &[u8])> = (0..=FILES_MAX).map(|n| (format!("f{n}"), b"".as_slice())).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|(name, content)| (name.as_str(), *content)).collect();
        assert!(text_of_docx(&archive(&many)).err().unwrap().contains("files"));
        for none in [b"".as_slice(), b"PK\x03\x04 cut", &archive(&[("other", b"x")]), &archive(&[(DOCUMENT, b"\xff\xfe")])] {
            assert!(text_of_docx(none).is_err());
        }
        assert!(read("<w:p><w:t>a</w:p>").is_err());
    }

    #[test]
    fn any_damage_is_an_error_or_a_text() {
        let whole = archive(&[(DOCUMENT, paragraph("", "hello").as_bytes()), (STYLES, STYLES_OF_WORD.as_bytes())]);
        for at in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                let _ = text_of_docx(&damaged);
            }
            let _ = text_of_docx(&whole[..at]);
        }
    }
}
