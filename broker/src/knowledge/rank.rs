//! Which passages of documents a question is about: Okapi BM25, as S. Robertson and H. Zaragoza describe it in "The Probabilistic Relevance Framework:
//! BM25 and Beyond" (Foundations and Trends in Information Retrieval 3, 2009), with the inverse document frequency that cannot be negative. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

/// How soon more occurrences of a word count less.
const K1: f64 = 1.2;
/// How much a passage's length counts.
const B: f64 = 0.75;
/// How often a word of a heading counts as if it stood in the passage.
const HEADING_WEIGHT: u32 = 2;
/// Bytes of a word at most; the rest of a longer one does not count.
const WORD_BYTES_MAX: usize = 64;
/// Different words of a question at most.
pub(super) const QUESTION_WORDS_MAX: usize = 64;
/// Bytes of a passage, about.
const PASSAGE_BYTES: usize = 1_000;

/// Passages by the words in them.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Which passages have a word, and how often.
    words: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
    total: u64,
}

impl Index {
    /// Takes in a passage; they are numbered from 0.
    pub(super) fn add(&mut self, heading: &str, text: &str) {
        let number = u32::try_from(self.lengths.len()).unwrap_or(u32::MAX);
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        words(text).for_each(|(word, _)| *counts.entry(word).or_default() += 1);
        words(heading).for_each(|(word, _)| *counts.entry(word).or_default() += HEADING_WEIGHT);
        let length: u32 = counts.values().sum();
        for (word, count) in counts {
            self.words.entry(word).or_default().push((number, count));
        }
        self.lengths.push(length);
        self.total += u64::from(length);
    }

    /// The numbers of the passages that a question is about and how much so, best first, of those that are `wanted`.
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer words than 2^52")]
    pub(super) fn find(&self, question: &[String], max: usize, wanted: impl Fn(u32) -> bool) -> Vec<(u32, f64)> {
        let passages = self.lengths.len() as f64;
        let average = (self.total as f64 / passages.max(1.0)).max(1.0);
        let mut scores: BTreeMap<u32, f64> = BTreeMap::new();
        for found in question.iter().filter_map(|word| self.words.get(word)) {
            let having = found.len() as f64;
            let rarity = (1.0 + (passages - having + 0.5) / (having + 0.5)).ln();
            for (number, count) in found.iter().filter(|(number, _)| wanted(*number)) {
                let length = self.lengths.get(*number as usize).copied().map_or(0.0, f64::from);
                let count = f64::from(*count);
                *scores.entry(*number).or_default() += rarity * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / average));
            }
        }
        let mut best: Vec<(u32, f64)> = scores.into_iter().collect();
        // Of two that are as good, the one that comes first.
        best.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        best.truncate(max);
        best
    }
}

/// The different words of a question, in order.
pub(super) fn question(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (word, _) in words(text) {
        if all.len() < QUESTION_WORDS_MAX && !all.contains(&word) {
            all.push(word);
        }
    }
    all
}

/// Words in lower case, and where each is: runs of letters and digits, and each character by itself of scripts that write no blanks.
pub(super) fn words(text: &str) -> impl Iterator<Item = (String, Range<usize>)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while rest.peek().is_some_and(|(_, c)| !c.is_alphanumeric()) {
            rest.next();
        }
        let (start, first) = rest.next()?;
        let (mut word, mut end): (String, usize) = (first.to_lowercase().collect(), start + first.len_utf8());
        if stands_alone(first) {
            return Some((word, start..end));
        }
        while let Some((at, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() && !stands_alone(*c)) {
            if word.len() < WORD_BYTES_MAX {
                word.extend(c.to_lowercase());
            }
            end = at + c.len_utf8();
        }
        Some((word, start..end))
    })
}

/// Chinese characters, kana, Thai and their like.
fn stands_alone(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0eff | 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

/// Parts of a text of about [`PASSAGE_BYTES`] that end where a paragraph or a line does, if one does.
pub(super) fn passages(text: &str) -> Vec<Range<usize>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    while start < text.len() {
        let rest = text.get(start..).unwrap_or_default();
        let end = if rest.len() <= PASSAGE_BYTES * 2 { text.len() } else { start + cut(rest) };
        if text.get(start..end).is_some_and(|part| !part.trim().is_empty()) {
            parts.push(start..end);
        }
        start = end;
    }
    parts
}

fn cut(rest: &str) -> usize {
    let window_end = (PASSAGE_BYTES..=PASSAGE_BYTES + 3).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
    let window = rest.get(..window_end).unwrap_or(rest);
    let ends = [("\n\n", 2), ("\n", 1), (". ", 2), (" ", 1)];
    let found = ends.into_iter().find_map(|(end, length)| window.rfind(end).map(|at| at + length).filter(|at| *at > PASSAGE_BYTES / 4));
    found.unwrap_or(window_end)
}

/// The part of a passage of about `bytes` with most different words of the question.
pub(super) fn snippet(passage: &str, question: &[String], bytes: usize) -> Range<usize> {
    let found: Vec<(String, Range<usize>)> = words(passage).filter(|(word, _)| question.contains(word)).collect();
    let count = |from: usize| {
        let within = found.iter().filter(|(_, at)| at.start >= from && at.end <= from + bytes).map(|(word, _)| word);
        within.collect::<std::collections::BTreeSet<_>>().len()
    };
    let mut best = (0, 0);
    for from in found.iter().map(|(_, at)| at.start) {
        let here = count(from);
        if here > best.0 {
            best = (here, from);
        }
    }
    // What stands before the first word, too, if there is room.
    let last = found.iter().filter(|(_, at)| at.end <= best.1 + bytes).map(|(_, at)| at.end).max().unwrap_or(best.1);
    let spare = bytes.saturating_sub(last.saturating_sub(best.1)) / 2;
    let start = boundary(passage, best.1.saturating_sub(spare));
    let start =
        passage.get(start..best.1).and_then(|lead| lead.find(char::is_whitespace)).filter(|_| start > 0).map_or(start, |at| start + at);
    start..boundary(passage, start + bytes)
}

/// The character boundary at or before an offset.
pub(super) fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str], asked: &str) -> Vec<u32> {
        let mut index = Index::default();
        texts.iter().for_each(|text| index.add("", text));
        index.find(&question(asked), 10, |_| true).into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn what_has_more_of_the_rarer_words_comes_first() {
        let texts = ["the tea is green", "the the the the", "black tea and green tea", "coffee"];
        assert_eq!(found(&texts, "GREEN tea!"), [2, 0]);
        assert_eq!(found(&texts, "the coffee"), [3, 1, 0]);
        assert!(found(&texts, "milk ...").is_empty());
        // As the formula has it, by hand: three passages of length 2, one with the word once.
        let mut index = Index::default();
        ["a b", "c d", "e f"].iter().for_each(|text| index.add("", text));
        let score = index.find(&question("a"), 1, |_| true)[0].1;
        assert!((score - (1.0 + 2.5_f64 / 1.5).ln()).abs() < 1e-9, "{score}");
    }

    #[test]
    fn a_heading_counts_and_so_does_being_short() {
        let mut index = Index::default();
        index.add("Prices", "one and two");
        index.add("", "prices of one and two and three and four");
        assert_eq!(index.find(&question("prices"), 2, |_| true).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn words_are_letters_and_digits_of_every_script() {
        let all = |text: &str| words(text).map(|(word, _)| word).collect::<Vec<_>>();
        assert_eq!(all("Ärger, im x86_64-Büro!"), ["ärger", "im", "x86", "64", "büro"]);
        assert_eq!(all("東京 tower"), ["東", "京", "tower"]);
        assert_eq!(all(&"x".repeat(100)), ["x".repeat(WORD_BYTES_MAX)]);
        assert_eq!(words("né a").map(|(_, at)| at).collect::<Vec<_>>(), [0..3, 4..5]);
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        assert_eq!(question(&many.join(" ")).len(), QUESTION_WORDS_MAX);
    }

    #[test]
    fn passages_and_snippets_end_between_characters() {
        let text = format!("{}\n\n{}", "é ".repeat(700), "ü".repeat(3_000));
        let parts = passages(&text);
        assert!(parts.len() > 3 && parts.iter().all(|part| text.get(part.clone()).is_some_and(|part| part.len() <= PASSAGE_BYTES * 2)));
        assert!(parts.windows(2).all(|two| two[0].end == two[1].start) && parts.last().unwrap().end == text.len());
        let passage = format!("{} needle and thread {}", "ä".repeat(400), "ö".repeat(400));
        let range = snippet(&passage, &question("thread needle"), 100);
        let shown = &passage[range];
        assert!(shown.contains("needle and thread") && shown.len() <= 100, "{shown}");
        assert_eq!(snippet("short", &question("none"), 100), 0..5);
        assert_eq!(passages(""), [] as [Range<usize>; 0]);
    }
}
