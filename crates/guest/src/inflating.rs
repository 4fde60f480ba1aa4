//! A stream that is unpacked: raw deflate inside the frame of zlib or gzip, told wrong in zlib's words.

use flate2::{Crc, Decompress, FlushDecompress, Status};

use crate::{
    compression::{Format, Step, DATA_ERROR, NEED_DICT, OK, STREAM_END},
    deflating::Sum,
};

/// Bytes that a match may lie back.
const WINDOW_BYTES: usize = 32 * 1024;
/// Gzip's flags: a sum of the head, a field of its own, a name, a comment; the rest is reserved.
const HEAD_SUM: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;

/// Where in the frame the next byte lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// In the fixed part of the head.
    Head,
    /// In the length of gzip's own field, in it, in a name or comment, in the sum of the head.
    ExtraLength,
    Extra(u16),
    Name,
    Comment,
    HeadSum,
    Body,
    Tail,
    End,
}

/// See the module.
pub struct Inflater {
    /// What the first bytes have said, or who made it.
    framing: Format,
    window: u32,
    dictionary: Vec<u8>,
    raw: Decompress,
    at: At,
    /// Bytes of the part of the frame that is being read.
    part: Vec<u8>,
    flags: u8,
    head: Crc,
    sum: Sum,
}

type Wrong = (i32, &'static str);

impl Inflater {
    pub fn new(format: Format, window: u32, dictionary: &[u8]) -> Self {
        let mut made = Self {
            framing: format,
            window: if window == 0 { 15 } else { window },
            dictionary: dictionary.to_vec(),
            raw: Decompress::new(false),
            at: At::Head,
            part: Vec::new(),
            flags: 0,
            head: Crc::new(),
            sum: Sum::of(format),
        };
        if format == Format::Raw {
            made.at = At::Body;
            made.prime();
        }
        made
    }

    /// What matches of the body may lie in: a block as it is, whose content nobody gets.
    fn prime(&mut self) {
        let tail = &self.dictionary[self.dictionary.len().saturating_sub(WINDOW_BYTES)..];
        if tail.is_empty() {
            return;
        }
        let len = tail.len() as u16;
        let block = [&[0], &len.to_le_bytes()[..], &(!len).to_le_bytes()[..], tail].concat();
        let mut nowhere = vec![0; tail.len() + 1];
        let _ = self.raw.decompress(&block, &mut nowhere, FlushDecompress::None);
    }

    pub fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let (mut used, mut made) = (0, 0);
        loop {
            match self.at {
                At::Body => {
                    let (took, gave) = (self.raw.total_in(), self.raw.total_out());
                    let status = self.raw.decompress(&input[used..], &mut output[made..], FlushDecompress::None);
                    used += (self.raw.total_in() - took) as usize;
                    let end = made + (self.raw.total_out() - gave) as usize;
                    self.sum.add(&output[made..end]);
                    made = end;
                    match status {
                        Ok(Status::StreamEnd) => self.enter(if self.framing == Format::Raw { At::End } else { At::Tail }),
                        Ok(_) => return Step::fine(used, made, OK),
                        Err(_) => return Step::wrong(used, made, DATA_ERROR, "invalid stored block lengths"),
                    }
                }
                At::End => {
                    // Members of a gzip follow each other; zeros behind the last are its padding.
                    if self.framing == Format::Gzip && input.get(used).is_some_and(|byte| *byte != 0) {
                        *self = Self::new(Format::Gzip, self.window, &[]);
                        continue;
                    }
                    return Step::fine(used, made, STREAM_END);
                }
                _ => {
                    let Some(byte) = input.get(used) else { return Step::fine(used, made, OK) };
                    used += 1;
                    if let Err((code, message)) = self.frame(*byte) {
                        return Step::wrong(used, made, code, message);
                    }
                }
            }
        }
    }

    fn enter(&mut self, at: At) {
        self.part.clear();
        self.at = at;
    }

    /// One byte of the frame.
    fn frame(&mut self, byte: u8) -> Result<(), Wrong> {
        self.part.push(byte);
        if !matches!(self.at, At::Tail | At::HeadSum) {
            self.head.update(&[byte]);
        }
        match self.at {
            At::Head => return self.fixed(),
            At::ExtraLength if self.part.len() == 2 => match u16::from_le_bytes([self.part[0], byte]) {
                0 => self.after(EXTRA),
                len => self.enter(At::Extra(len)),
            },
            At::Extra(len) if self.part.len() == usize::from(len) => self.after(EXTRA),
            At::Name | At::Comment => {
                // Nobody asks for them.
                self.part.clear();
                if byte == 0 {
                    self.after(if self.at == At::Name { NAME } else { COMMENT });
                }
            }
            At::HeadSum if self.part.len() == 2 => {
                if u32::from(u16::from_le_bytes([self.part[0], byte])) != self.head.sum() & 0xffff {
                    return Err((DATA_ERROR, "header crc mismatch"));
                }
                self.after(HEAD_SUM);
            }
            At::Tail => return self.tail(),
            _ => {}
        }
        Ok(())
    }

    /// The next part of gzip's head that its flags name, behind the one of `flag`.
    fn after(&mut self, flag: u8) {
        let parts = [(EXTRA, At::ExtraLength), (NAME, At::Name), (COMMENT, At::Comment), (HEAD_SUM, At::HeadSum)];
        let behind = parts.iter().position(|(one, _)| *one == flag).map_or(0, |at| at + 1);
        let next = parts[behind..].iter().find(|(one, _)| self.flags & one != 0);
        self.enter(next.map_or(At::Body, |(_, at)| *at));
    }

    /// The fixed part of a head, as far as it is there.
    fn fixed(&mut self) -> Result<(), Wrong> {
        let part = &self.part;
        if self.framing == Format::Either && part[0] != 0x1f {
            self.framing = Format::Zlib;
        }
        if part.len() < 2 {
            return Ok(());
        }
        if self.framing == Format::Either {
            self.framing = if part[1] == 0x8b { Format::Gzip } else { Format::Zlib };
        }
        self.sum = if part.len() == 2 { Sum::of(self.framing) } else { std::mem::replace(&mut self.sum, Sum::None) };
        if self.framing == Format::Gzip {
            if part[..2] != [0x1f, 0x8b] {
                return Err((DATA_ERROR, "incorrect header check"));
            }
            if part.get(2).is_some_and(|method| *method != 8) {
                return Err((DATA_ERROR, "unknown compression method"));
            }
            if part.get(3).is_some_and(|flags| flags & RESERVED != 0) {
                return Err((DATA_ERROR, "unknown header flags set"));
            }
            if part.len() == 10 {
                self.flags = part[3];
                self.after(0);
            }
            return Ok(());
        }
        let [method, more] = [part[0], part[1]];
        if u16::from_be_bytes([method, more]) % 31 != 0 {
            return Err((DATA_ERROR, "incorrect header check"));
        }
        if method & 15 != 8 {
            return Err((DATA_ERROR, "unknown compression method"));
        }
        if u32::from(method >> 4) + 8 > self.window {
            return Err((DATA_ERROR, "invalid window size"));
        }
        if more & 0x20 == 0 {
            self.enter(At::Body);
        } else if part.len() == 6 {
            if self.dictionary.is_empty() {
                return Err((NEED_DICT, "Missing dictionary"));
            }
            if part[2..] != adler2::adler32_slice(&self.dictionary).to_be_bytes() {
                return Err((NEED_DICT, "Bad dictionary"));
            }
            self.prime();
            self.enter(At::Body);
        }
        Ok(())
    }

    fn tail(&mut self) -> Result<(), Wrong> {
        let tail = self.sum.tail();
        if self.part.len() == 4 && self.part[..] != tail[..4] {
            return Err((DATA_ERROR, "incorrect data check"));
        }
        if self.part.len() == 8 && self.part[4..] != tail[4..] {
            return Err((DATA_ERROR, "incorrect length check"));
        }
        if self.part.len() == tail.len() {
            self.enter(At::End);
        }
        Ok(())
    }
}
