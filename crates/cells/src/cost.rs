//! What a cell's text can cost its compiler, told from the text alone, before anything is parsed.
//!
//! The parser, the checker and the printer bound neither their memory nor their stack, and what overflows either ends the whole process. So a
//! cell is admitted by an upper bound of what they can need. It is linear to compute and errs on the dear side: bytes of strings and comments
//! count as code.

use crate::{
    Language,
    reach::{self, is_word},
    syntax_error::SyntaxError,
};

/// Bytes of heap that compiling a cell may take, whatever its text.
pub const HEAP_BYTES_MAX: u64 = 64 << 20;
/// Levels that the operators and keywords of a cell may nest if each stands inside the one before it.
pub const LEVELS_MAX: usize = 96 << 10;
/// Steps up the syntax tree that the checker may make, a few nanoseconds each: some words look for what they are in.
const STEPS_MAX: usize = 1 << 30;

/// Heap that any compilation takes.
const BYTES_BASE: u64 = 1 << 18;
/// Heap for a byte of source: its copies, its lines.
const BYTES_PER_BYTE: u64 = 5;
/// Heap for a word or a number: a node of the tree, and the room that lists and arenas keep for growth.
const BYTES_PER_WORD: u64 = 180;
/// Heap for a mark: a node, and an edit.
const BYTES_PER_MARK: u64 = 160;
/// Heap for one of the two quotes of a string.
const BYTES_PER_QUOTE: u64 = 160;
/// Heap for an equals sign: what may give a parameter of a type its default, and so declare it.
const BYTES_PER_EQUALS: u64 = 500;
/// Heap for a brace: what opens a scope.
const BYTES_PER_BRACE: u64 = 300;
/// Heap for a word that declares a name.
const BYTES_PER_DECLARATION: u64 = 1_000;
/// Heap for what makes code, and a whole cell that is printed anew.
const BYTES_PER_MADE_CODE: u64 = 5_000;
/// Heap for each byte that is read as types and then read again.
const BYTES_PER_BYTE_READ_AGAIN: u64 = 200;

/// What the text can need at most.
#[derive(Default)]
struct Cost {
    heap_bytes: u64,
    levels: usize,
    /// Words and labels for which the checker walks up the tree.
    seekers: usize,
}

impl Cost {
    fn of(source: &str) -> Self {
        let bytes = source.as_bytes();
        let mut cost = Self { heap_bytes: BYTES_BASE + bytes.len() as u64 * BYTES_PER_BYTE, ..Self::default() };
        for run in bytes.chunk_by(|a, b| is_word(*a) && is_word(*b)) {
            match run {
                [byte] if !is_word(*byte) => cost.mark(*byte),
                word => cost.word(word),
            }
        }
        cost
    }

    fn mark(&mut self, byte: u8) {
        self.heap_bytes += match byte {
            b'"' | b'\'' => BYTES_PER_QUOTE,
            b'=' => BYTES_PER_EQUALS,
            b'{' => BYTES_PER_BRACE,
            b'@' => BYTES_PER_DECLARATION,
            byte if byte.is_ascii_whitespace() => 0,
            _ => BYTES_PER_MARK,
        };
        let ends = matches!(byte, b')' | b']' | b'}' | b';' | b',' | b'"' | b'\'' | b'\\');
        self.levels += usize::from(!ends && !byte.is_ascii_whitespace());
        self.seekers += usize::from(byte == b':');
    }

    fn word(&mut self, word: &[u8]) {
        self.heap_bytes += match word {
            b"enum" | b"namespace" | b"module" => BYTES_PER_MADE_CODE,
            b"import" | b"export" | b"as" => 2 * BYTES_PER_DECLARATION,
            b"let" | b"const" | b"var" | b"using" | b"function" | b"class" | b"catch" | b"accessor" | b"public" | b"private"
            | b"protected" | b"readonly" | b"override" => BYTES_PER_DECLARATION,
            _ => BYTES_PER_WORD,
        };
        match word {
            b"await" | b"yield" | b"infer" => {
                self.levels += 1;
                self.seekers += 1;
            }
            // Each one looks up through all that it is in, and more than once.
            b"with" => self.seekers += 4,
            b"super" | b"break" | b"continue" | b"arguments" | b"eval" | b"target" | b"namespace" | b"module" => self.seekers += 1,
            b"typeof" | b"void" | b"delete" | b"new" | b"else" | b"do" | b"async" | b"as" | b"satisfies" | b"in" | b"instanceof"
            | b"extends" => self.levels += 1,
            // Operators of types: a level of theirs takes more stack than others.
            b"keyof" | b"unique" | b"readonly" | b"asserts" | b"is" => self.levels += 2,
            _ => {}
        }
    }
}

/// Refuses what could take more than a compilation may.
pub(crate) fn admit(source: &str, language: Language) -> Result<(), SyntaxError> {
    const SPLIT: &str = "split it into several cells, or read data from a file or a tool instead of writing it out as code";
    let mut cost = Cost::of(source);
    if cost.levels > LEVELS_MAX {
        let message = format!("the cell has {} operators and brackets; at most {LEVELS_MAX} are allowed: {SPLIT}", cost.levels);
        return Err(SyntaxError::at(source, 0, message));
    }
    if cost.levels.saturating_mul(cost.seekers) > STEPS_MAX {
        let message = format!("the cell has too many labels, or await, yield, super, break and continue, among its operators: {SPLIT}");
        return Err(SyntaxError::at(source, 0, message));
    }
    if cost.heap_bytes <= HEAP_BYTES_MAX && matches!(language, Language::Typescript | Language::Tsx) {
        let bytes_max = (HEAP_BYTES_MAX - cost.heap_bytes) / BYTES_PER_BYTE_READ_AGAIN;
        let Some(read_again) = reach::bytes_read_again(source.as_bytes(), bytes_max) else {
            const TWICE: &str = "too much of the cell can be read both as types and as comparisons: put a < b into parentheses, or write the \
                                 cell in JavaScript";
            return Err(SyntaxError::at(source, 0, TWICE));
        };
        cost.heap_bytes += read_again * BYTES_PER_BYTE_READ_AGAIN;
    }
    if cost.heap_bytes > HEAP_BYTES_MAX {
        let message =
            format!("the cell could take {} MiB to compile; at most {} are allowed: {SPLIT}", cost.heap_bytes >> 20, HEAP_BYTES_MAX >> 20);
        return Err(SyntaxError::at(source, 0, message));
    }
    Ok(())
}
