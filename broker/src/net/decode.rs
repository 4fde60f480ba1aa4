//! What a server has compressed, as it was before. The output is handed on as it comes, so a small body cannot become a large memory.

use std::io::{self, Write as _};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

/// Compressed bytes that are decoded in one go: their output is at most about a thousand times as large.
const PIECE_BYTES: usize = 1 << 10;

/// Decodes a body in pieces.
pub(crate) enum Decoder {
    /// It was not compressed, or in a way that nobody asked for.
    Plain,
    Gzip(MultiGzDecoder<Vec<u8>>),
    /// `deflate`, before its first byte: zlib by the standard, bare by some servers.
    Undecided,
    Zlib(ZlibDecoder<Vec<u8>>),
    Bare(DeflateDecoder<Vec<u8>>),
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()).map(str::to_ascii_lowercase).as_deref() {
            Some("gzip" | "x-gzip") => Self::Gzip(MultiGzDecoder::new(Vec::new())),
            Some("deflate") => Self::Undecided,
            _ => Self::Plain,
        }
    }

    /// Decodes the beginning of `input` to the end of `output`; answers how much of the input that was.
    pub(crate) fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> io::Result<usize> {
        if let Self::Undecided = self {
            let Some(first) = input.first() else { return Ok(0) };
            // The first byte of zlib names its method, 8, in its lower half.
            *self = if first & 0x0f == 8 { Self::Zlib(ZlibDecoder::new(Vec::new())) } else { Self::Bare(DeflateDecoder::new(Vec::new())) };
        }
        let piece = input.get(..PIECE_BYTES).unwrap_or(input);
        match self {
            Self::Plain | Self::Undecided => {
                output.extend_from_slice(input);
                return Ok(input.len());
            }
            Self::Gzip(decoder) => {
                decoder.write_all(piece)?;
                output.append(decoder.get_mut());
            }
            Self::Zlib(decoder) => {
                decoder.write_all(piece)?;
                output.append(decoder.get_mut());
            }
            Self::Bare(decoder) => {
                decoder.write_all(piece)?;
                output.append(decoder.get_mut());
            }
        }
        Ok(piece.len())
    }

    /// The body has ended; what is left goes to the end of `output`.
    pub(crate) fn finish(&mut self, output: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Plain | Self::Undecided => {}
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                output.append(decoder.get_mut());
            }
            Self::Zlib(decoder) => {
                decoder.try_finish()?;
                output.append(decoder.get_mut());
            }
            Self::Bare(decoder) => {
                decoder.try_finish()?;
                output.append(decoder.get_mut());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };
    use reqwest::header::HeaderValue;

    use super::*;

    fn decoded(encoding: &'static str, body: &[u8], chunk: usize) -> io::Result<Vec<u8>> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        let (mut decoder, mut output) = (Decoder::of(&headers), Vec::new());
        for mut input in body.chunks(chunk) {
            while !input.is_empty() {
                input = &input[decoder.push(input, &mut output)?..];
            }
        }
        decoder.finish(&mut output)?;
        Ok(output)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_encoding_that_is_asked_for_decodes_in_any_pieces() {
        let text: Vec<u8> = (0..50_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&text).unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        bare.write_all(&text).unwrap();
        let (zlib, bare) = (zlib.finish().unwrap(), bare.finish().unwrap());
        for chunk in [1, 7, 1_000, 1 << 20] {
            for (encoding, body) in
                [("gzip", &gzip(&text)), ("X-GZIP", &gzip(&text)), ("deflate", &zlib), ("deflate", &bare), ("br", &text)]
            {
                assert_eq!(decoded(encoding, body, chunk).unwrap(), text, "{encoding} {chunk}");
            }
        }
    }

    #[test]
    fn a_cut_or_damaged_body_is_an_error_and_none_at_all_is_not() {
        let whole = gzip(b"some text that is long enough to be cut in two");
        assert!(decoded("gzip", &whole[..whole.len() / 2], 5).is_err());
        assert!(decoded("gzip", b"not gzip at all", 5).is_err());
        assert_eq!(decoded("deflate", b"", 5).unwrap(), b"");
    }

    #[test]
    fn a_piece_bounds_what_comes_out_at_once() {
        let bomb = gzip(&vec![0; 64 << 20]);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let (mut decoder, mut output) = (Decoder::of(&headers), Vec::new());
        let used = decoder.push(&bomb, &mut output).unwrap();
        assert_eq!(used, PIECE_BYTES);
        assert!(output.len() <= PIECE_BYTES * 1_100, "{}", output.len());
    }
}
