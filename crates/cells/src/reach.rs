//! How much of a text a TypeScript parser reads more than once.
//!
//! After an expression, `<` may open type arguments or compare. The parser reads on as if it opened types, and goes back where that fails;
//! `infer x extends` is read so, too. What is read ahead may hold further such read_aheads, and those inside an expression inside a type are read
//! ahead anew at each reading: each level of those doubles the work. So every place has its reach, up to where reading ahead surely ends, and
//! the number of times that it is read.

/// Deeper brackets than these are not looked into when reading ahead: the whole rest counts.
const BRACKETS_MAX: usize = 4_096;
/// Bytes that may be looked at beyond those that count, so that looking is linear, too.
const LOOKED_AT_MAX: u64 = 1 << 24;

/// Whether a byte is a part of a word.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// The bytes that are read again, or `None` when they are more than `bytes_max`.
pub(crate) fn bytes_read_again(text: &[u8], bytes_max: u64) -> Option<u64> {
    let read_aheads = read_aheads(text);
    // How often a place is read, beside the reading that counts for the text itself.
    let mut times = vec![1_u64; read_aheads.len()];
    let (mut sum, mut looked_at) = (0_u64, 0_u64);
    for (index, place) in read_aheads.iter().enumerate() {
        let own = times.get(index).copied().unwrap_or(1);
        let later = read_aheads.get(index + 1..).unwrap_or_default();
        let mut inner = later.iter().zip(times.get_mut(index + 1..).unwrap_or_default());
        let reach = Ahead::new(text, place.after).run(|at| {
            for (place, times) in inner.by_ref() {
                if place.at == at {
                    *times = times.saturating_add(own);
                }
                if place.at >= at {
                    break;
                }
            }
        });
        sum = sum.saturating_add(own.saturating_mul(reach));
        looked_at += reach;
        if sum > bytes_max || looked_at > LOOKED_AT_MAX {
            return None;
        }
    }
    Some(sum)
}

/// A place where the parser may read ahead.
struct ReadAhead {
    at: usize,
    after: usize,
}

fn read_aheads(text: &[u8]) -> Vec<ReadAhead> {
    let mut read_aheads = Vec::new();
    let mut at = 0;
    for run in text.chunk_by(|a, b| is_word(*a) && is_word(*b)) {
        if matches!(run, b"<" | b"infer") {
            read_aheads.push(ReadAhead { at, after: at + run.len() });
        }
        at += run.len();
    }
    read_aheads
}

/// Reading ahead from one place.
struct Ahead<'t> {
    text: &'t [u8],
    start: usize,
    at: usize,
    open: Vec<u8>,
    /// Open brackets that hold an expression inside a type: a computed name, the default of a parameter.
    expressions: usize,
    /// A regular expression may have begun, and nothing tells where it ends.
    is_lost: bool,
}

impl<'t> Ahead<'t> {
    fn new(text: &'t [u8], start: usize) -> Self {
        Self { text, start, at: start, open: Vec::new(), expressions: 0, is_lost: false }
    }

    /// The bytes up to where it ends. Calls back with every place inside that is read ahead again.
    fn run(mut self, mut again: impl FnMut(usize)) -> u64 {
        while let Some(byte) = self.text.get(self.at).copied() {
            if (byte == b'<' && self.expressions > 0) || (byte == b'i' && self.is_infer()) {
                again(self.at);
            }
            if self.open.last() == Some(&b'`') && !self.is_lost {
                self.template(byte);
            } else if !self.code(byte) {
                break;
            }
            self.at += 1;
            if self.open.len() > BRACKETS_MAX {
                self.is_lost = true;
                self.open.clear();
            }
        }
        (self.at.min(self.text.len()) - self.start) as u64
    }

    fn is_infer(&self) -> bool {
        let follows = |at: usize| self.text.get(at).is_some_and(|byte| is_word(*byte));
        self.rest().starts_with(b"infer") && !follows(self.at + 5) && !self.at.checked_sub(1).is_some_and(follows)
    }

    fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&self) -> Option<u8> {
        self.text.get(self.at + 1).copied()
    }

    fn template(&mut self, byte: u8) {
        match (byte, self.next()) {
            (b'\\', _) => self.at += 1,
            (b'`', _) => self.close(),
            (b'$', Some(b'{')) => {
                self.at += 1;
                self.open.push(b'$');
            }
            _ => {}
        }
    }

    /// Whether it goes on after this byte.
    fn code(&mut self, byte: u8) -> bool {
        if self.is_lost {
            return true;
        }
        match (byte, self.next()) {
            (b'/', Some(b'/' | b'*')) => self.comment(),
            (b'/', _) if self.expressions > 0 => self.is_lost = true,
            (b'"' | b'\'', _) => self.string(byte),
            (b'[', _) => self.push_if(b'[', self.open.last() == Some(&b'{')),
            (b'(' | b'{' | b'<' | b'`', _) => self.open.push(byte),
            (b'=', Some(b'>')) => self.at += 1,
            // The default of a parameter lasts until the parameters end; that of a type parameter is a type.
            (b'=', _) if matches!(self.open.last().map(|open| open & 0x7f), Some(b'(' | b'{' | b'[')) => self.push_if(b'=', true),
            (b'=', _) => return !self.open.is_empty(),
            // Text of a template that the place itself stands in: no type is followed by a brace.
            (b'$', Some(b'{')) => return !self.is_between_angles(),
            (b')' | b']' | b'}', _) => return self.close_to(byte),
            (b'>', _) => return self.close_angle(),
            (b';' | b'+' | b'*' | b'%' | b'^' | b'!' | b'~' | b'/', _) => return !self.is_between_angles(),
            (b'&', Some(b'&')) | (b'|', Some(b'|')) => return !self.is_between_angles(),
            _ => {}
        }
        true
    }

    fn is_between_angles(&self) -> bool {
        self.open.iter().all(|open| *open == b'<')
    }

    fn push_if(&mut self, byte: u8, is_expression: bool) {
        if is_expression {
            self.expressions += 1;
            // Told from other brackets by its upper bit.
            self.open.push(byte | 0x80);
        } else if byte != b'=' {
            self.open.push(byte);
        }
    }

    fn close(&mut self) {
        if self.open.pop().is_some_and(|open| open & 0x80 != 0) {
            self.expressions -= 1;
        }
    }

    /// A bracket that closes what was open before ends it; angles and defaults inside of one end with it.
    fn close_to(&mut self, byte: u8) -> bool {
        let fits = |open: u8| matches!((open & 0x7f, byte), (b'(', b')') | (b'[', b']') | (b'{' | b'$', b'}'));
        if !self.open.iter().any(|open| fits(*open)) {
            return false;
        }
        while let Some(open) = self.open.last().copied() {
            self.close();
            if fits(open) {
                break;
            }
        }
        true
    }

    fn close_angle(&mut self) -> bool {
        match self.open.last() {
            None => return false,
            Some(b'<') => self.close(),
            Some(_) => {}
        }
        true
    }

    fn string(&mut self, quote: u8) {
        while let Some(byte) = self.next() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => return,
                byte if byte == quote => return,
                _ => {}
            }
        }
    }

    fn comment(&mut self) {
        let is_line = self.next() == Some(b'/');
        self.at += 1;
        while let Some(byte) = self.next() {
            self.at += 1;
            if (is_line && byte == b'\n') || (!is_line && byte == b'*' && self.next() == Some(b'/')) {
                self.at += usize::from(!is_line);
                return;
            }
        }
    }
}
