//! Positions of the generated script, led back to the user's source.

use std::collections::HashMap;

use oxc::codegen::CodegenReturn;

/// Byte offsets at which the lines of a text begin.
#[derive(Debug, Clone)]
pub(crate) struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Lines as ECMAScript ends them: LF, CR, CR LF, U+2028, U+2029. Source maps count the same way.
    pub(crate) fn new(text: &str) -> Self {
        let mut starts = vec![0];
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let ends = match c {
                '\n' | '\u{2028}' | '\u{2029}' => true,
                '\r' => chars.peek().is_none_or(|(_, next)| *next != '\n'),
                _ => false,
            };
            if ends {
                starts.push(at + c.len_utf8());
            }
        }
        Self { starts }
    }

    /// Lines as the engine counts them: LF only.
    fn by_line_feed(text: &str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1));
        Self { starts }
    }

    /// Line and column, in characters, of a byte offset; both from 1.
    pub(crate) fn position(&self, text: &str, offset: usize) -> (u32, u32) {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = text.get(start..).unwrap_or("").char_indices().take_while(|(at, _)| start + at < offset).count();
        (clamp(line), clamp(column + 1))
    }

    /// The byte offset of a line and a column as [`Self::position`] tells them.
    pub(crate) fn offset(&self, text: &str, line: u32, column: u32) -> usize {
        let start = self.starts.get((line as usize).saturating_sub(1)).copied().unwrap_or(text.len());
        let rest = text.get(start..).unwrap_or("");
        rest.char_indices().nth((column as usize).saturating_sub(1)).map_or(text.len(), |(at, _)| start + at)
    }
}

/// Where a place of an edited text came from.
pub(crate) fn under(anchors: &[Anchor], offset: usize) -> usize {
    let after = anchors.partition_point(|anchor| anchor.script <= offset);
    let Some(anchor) = anchors.get(after.saturating_sub(1)) else { return offset };
    let found = anchor.source + offset.saturating_sub(anchor.script);
    // What was put in leads to where it was put.
    anchors.get(after).map_or(found, |next| found.min(next.source))
}

/// Byte offsets of places that a source map names in UTF-16 units. A place costs the same however long its line is: minified code is one line.
struct Utf16Index {
    lines: LineIndex,
    length: usize,
    /// For each line that is not ASCII, the byte offset of each of its units.
    wide: HashMap<usize, Vec<usize>>,
}

impl Utf16Index {
    fn new(text: &str) -> Self {
        let lines = LineIndex::new(text);
        let mut wide = HashMap::new();
        for (line, start) in lines.starts.iter().enumerate() {
            let end = lines.starts.get(line + 1).copied().unwrap_or(text.len());
            let content = text.get(*start..end).unwrap_or("");
            if !content.is_ascii() {
                let units = content.char_indices().flat_map(|(at, c)| std::iter::repeat_n(start + at, c.len_utf16()));
                wide.insert(line, units.collect());
            }
        }
        Self { lines, length: text.len(), wide }
    }

    /// Byte offset of a line and a column, both from 0.
    fn offset(&self, line: u32, column: u32) -> Option<usize> {
        let (line, column) = (line as usize, column as usize);
        let offset = match self.wide.get(&line) {
            Some(units) => units.get(column).copied(),
            None => Some(self.lines.starts.get(line)? + column),
        };
        Some(offset.unwrap_or(self.length).min(self.length))
    }
}

fn clamp(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Where a stretch of the script came from. Byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// In the script.
    pub(crate) script: usize,
    /// In the source.
    pub(crate) source: usize,
}

impl Anchor {
    /// The same in what the user has written, before which `prefix` bytes stand: they lead to its first byte.
    pub(crate) fn behind(self, prefix: usize, source: &str) -> Self {
        let script = self.script + prefix.saturating_sub(self.source);
        Self { script, source: self.source.saturating_sub(prefix).min(source.len()) }
    }
}

/// The way back from a script to its cell.
#[derive(Debug, Clone)]
pub(crate) struct Positions {
    source: String,
    source_lines: LineIndex,
    script_lines: LineIndex,
    /// Sorted by `script`.
    anchors: Vec<Anchor>,
    /// The script is the source but for edits: between two anchors every byte has its own place.
    edited: bool,
    /// The source was made of another text by edits: that, and where the source came from.
    over: Vec<(String, LineIndex, Vec<Anchor>)>,
}

impl Positions {
    /// Of a script that was made by edits. `prefix` bytes stand before the user's source in what was edited.
    pub(crate) fn of_edits(source: &str, prefix: usize, mut anchors: Vec<Anchor>, script: &str) -> Self {
        for anchor in &mut anchors {
            *anchor = anchor.behind(prefix, source);
        }
        let (source_lines, script_lines) = (LineIndex::new(source), LineIndex::by_line_feed(script));
        Self { source: source.to_owned(), source_lines, script_lines, anchors, edited: true, over: Vec::new() }
    }

    /// Of a script that was printed anew. `prefix` bytes stand before the user's source in what was parsed.
    pub(crate) fn of_print(source: &str, prefix: usize, parsed: &str, generated: &CodegenReturn<'_>) -> Self {
        let script = &generated.code;
        let parsed_index = Utf16Index::new(parsed);
        let generated_index = Utf16Index::new(&generated.code);
        let mut anchors: Vec<Anchor> = generated
            .map
            .iter()
            .flat_map(|map| map.get_tokens())
            .filter_map(|token| {
                let script = generated_index.offset(token.get_dst_line(), token.get_dst_col())?;
                let from = parsed_index.offset(token.get_src_line(), token.get_src_col())?;
                Some(Anchor { script, source: from.checked_sub(prefix)?.min(source.len()) })
            })
            .collect();
        anchors.sort_by_key(|anchor| anchor.script);
        let (source_lines, script_lines) = (LineIndex::new(source), LineIndex::by_line_feed(script));
        Self { source: source.to_owned(), source_lines, script_lines, anchors, edited: false, over: Vec::new() }
    }

    /// The same of a source that edits have made of another.
    pub(crate) fn over(mut self, source: &str, anchors: Vec<Anchor>) -> Self {
        self.over.push((source.to_owned(), LineIndex::new(source), anchors));
        self
    }

    /// See [`crate::Script::original_position`].
    pub(crate) fn original(&self, script: &str, line: u32, column: u32) -> Option<(u32, u32)> {
        let start = *self.script_lines.starts.get(line.checked_sub(1)? as usize)?;
        let at = start.saturating_add(column.saturating_sub(1) as usize).min(script.len());
        let after = self.anchors.partition_point(|anchor| anchor.script <= at);
        let anchor = self.anchors.get(after.saturating_sub(1))?;
        // Between two anchors the script often repeats the source letter by letter; where it does, the distance is the same in both.
        let distance = at.saturating_sub(anchor.script);
        let same = script.get(anchor.script..at).is_some_and(|text| self.source.get(anchor.source..anchor.source + distance) == Some(text));
        let offset = if same || self.edited { (anchor.source + distance).min(self.source.len()) } else { anchor.source };
        let (mut offset, mut text, mut lines) = (offset, &self.source, &self.source_lines);
        for (source, source_lines, anchors) in &self.over {
            (offset, text, lines) = (under(anchors, offset).min(source.len()), source, source_lines);
        }
        Some(lines.position(text, offset))
    }
}
