//! A stream that is packed: raw deflate inside the frame of zlib or gzip.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use crate::compression::{hand_out, Format, Step, DATA_ERROR, OK, STREAM_END};

/// A zlib of Unix says so in gzip's head.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
/// Bytes that a match may lie back.
const WINDOW_BYTES: usize = 32 * 1024;
const FINISH: u32 = 4;

/// What the end of a frame says of its content.
pub enum Sum {
    None,
    Adler(adler2::Adler32),
    Crc(Crc),
}

impl Sum {
    pub fn of(format: Format) -> Self {
        match format {
            Format::Gzip => Self::Crc(Crc::new()),
            Format::Zlib => Self::Adler(adler2::Adler32::new()),
            Format::Raw | Format::Either => Self::None,
        }
    }

    pub fn add(&mut self, data: &[u8]) {
        match self {
            Self::None => {}
            Self::Adler(sum) => sum.write_slice(data),
            Self::Crc(sum) => sum.update(data),
        }
    }

    /// The end of the frame.
    pub fn tail(&self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Adler(sum) => sum.checksum().to_be_bytes().to_vec(),
            Self::Crc(sum) => [sum.sum().to_le_bytes(), sum.amount().to_le_bytes()].concat(),
        }
    }
}

/// See the module.
pub struct Deflater {
    raw: Compress,
    sum: Sum,
    /// Of the frame: what is to be written before anything else.
    waiting: Vec<u8>,
    ended: bool,
}

fn compressor(level: u32) -> Compress {
    Compress::new(Compression::new(level.min(9)), false)
}

impl Deflater {
    pub fn new(format: Format, level: u32, dictionary: &[u8]) -> Self {
        let mut raw = compressor(level);
        if !dictionary.is_empty() {
            // What was packed and is thrown away is what later matches lie in, as a dictionary's are.
            let tail = &dictionary[dictionary.len().saturating_sub(WINDOW_BYTES)..];
            let mut nowhere = vec![0; tail.len() * 2 + 1024];
            let _ = raw.compress(tail, &mut nowhere, FlushCompress::Sync);
        }
        let waiting = match format {
            Format::Gzip => {
                let mut head = GZIP_HEAD.to_vec();
                head[8] = if level == 9 { 2 } else if level == 1 { 4 } else { 0 };
                head
            }
            Format::Zlib => zlib_head(level, dictionary),
            Format::Raw | Format::Either => Vec::new(),
        };
        Self { raw, sum: Sum::of(format), waiting, ended: false }
    }

    /// Another compressor goes on behind the flush: it looks back at nothing before.
    pub fn set_level(&mut self, level: u32) {
        self.raw = compressor(level);
    }

    pub fn step(&mut self, flush: u32, input: &[u8], output: &mut [u8]) -> Step {
        let mut made = hand_out(&mut self.waiting, output);
        if !self.waiting.is_empty() {
            return Step::fine(0, made, OK);
        }
        if self.ended {
            return Step::fine(0, made, STREAM_END);
        }
        let kind = match flush {
            0 => FlushCompress::None,
            1 => FlushCompress::Partial,
            3 => FlushCompress::Full,
            FINISH => FlushCompress::Finish,
            _ => FlushCompress::Sync,
        };
        let (took, gave) = (self.raw.total_in(), self.raw.total_out());
        let status = self.raw.compress(input, &mut output[made..], kind);
        let used = (self.raw.total_in() - took) as usize;
        made += (self.raw.total_out() - gave) as usize;
        self.sum.add(&input[..used]);
        match status {
            Ok(Status::StreamEnd) => {
                self.ended = true;
                self.waiting = self.sum.tail();
                made += hand_out(&mut self.waiting, &mut output[made..]);
                Step::fine(used, made, if self.waiting.is_empty() { STREAM_END } else { OK })
            }
            Ok(_) => Step::fine(used, made, OK),
            Err(_) => Step::wrong(used, made, DATA_ERROR, "stream error"),
        }
    }
}

/// Method and window, level, and the dictionary's sum.
fn zlib_head(level: u32, dictionary: &[u8]) -> Vec<u8> {
    let strength: u16 = match level {
        0 | 1 => 0,
        2..=5 => 1,
        6 => 2,
        _ => 3,
    };
    let preset = u16::from(!dictionary.is_empty());
    let bare = 0x7800 | strength << 6 | preset << 5;
    let mut head = (bare + 31 - bare % 31).to_be_bytes().to_vec();
    if preset == 1 {
        head.extend(adler2::adler32_slice(dictionary).to_be_bytes());
    }
    head
}
