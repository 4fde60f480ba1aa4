//! Where the characters, words and sentences of a text end, by Unicode's rules (UAX #29).

use rquickjs::{function::Func, Ctx, Exception, Object, Result};
use unicode_segmentation::UnicodeSegmentation;

/// Adds the functions.
pub fn add_to(part: &Object<'_>) -> Result<()> {
    part.set("segment", Func::from(segment))
}

/// The end of each segment in code units; of a word that holds letters or digits as a negative number.
fn segment(ctx: Ctx<'_>, kind: String, text: String) -> Result<Vec<i32>> {
    let mut end = 0;
    let mut step = |segment: &str, is_word: bool| {
        end += segment.encode_utf16().count() as i32;
        if is_word { -end } else { end }
    };
    Ok(match kind.as_str() {
        "grapheme" => text.graphemes(true).map(|it| step(it, false)).collect(),
        "word" => text.split_word_bounds().map(|it| step(it, it.chars().any(char::is_alphanumeric))).collect(),
        "sentence" => text.split_sentence_bounds().map(|it| step(it, false)).collect(),
        _ => return Err(Exception::throw_type(&ctx, "there are no such segments")),
    })
}
