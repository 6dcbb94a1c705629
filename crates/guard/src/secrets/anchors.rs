//! Where keywords stand in a text, in any case.
//!
//! Of each keyword the bytes that are rarest in ordinary text are its anchor: three, and the one behind them where there is
//! one. One look at a small table says of every place of the text whether an anchor may begin there; almost nowhere one
//! does, and only there the keyword is compared.

use std::ops::Range;

use super::shape;

/// Bits of a hash. The part of the table that ordinary text asks for then fits into the first cache.
const BITS: u32 = 14;
/// How many bytes are hashed.
const LONG: usize = 3;

/// Keywords to look for.
#[derive(Debug)]
pub(super) struct Anchors {
    /// By the hash of an anchor, which bytes may follow it: each has one bit of 64, whatever its case.
    follows: Box<[u64; 1 << BITS]>,
    /// By hash, where the keywords with it begin in the list.
    firsts: Vec<u16>,
    /// Ordered by hash.
    keywords: Vec<Keyword>,
}

#[derive(Debug)]
struct Keyword {
    /// In lower case.
    text: &'static [u8],
    /// Where its anchor is in it.
    anchor: usize,
    /// Which one it is of those that were given.
    number: usize,
}

impl Anchors {
    /// For keywords in lower case, of at least three bytes.
    pub(super) fn new(keywords: impl IntoIterator<Item = &'static str>) -> Self {
        let anchored = |(number, text): (usize, &'static str)| {
            let text = text.as_bytes();
            let places = 0..=text.len().saturating_sub(LONG + 1);
            let rarest = places.min_by_key(|at| commonness(&text[*at..text.len().min(at + LONG + 1)]))?;
            (text.len() >= LONG).then_some(Keyword { text, anchor: rarest, number })
        };
        let mut keywords: Vec<Keyword> = keywords.into_iter().enumerate().filter_map(anchored).collect();
        let hash_of = |keyword: &Keyword| hash(&keyword.text[keyword.anchor..]);
        keywords.sort_by_key(hash_of);
        let mut follows = Box::new([0; 1 << BITS]);
        let mut firsts = vec![0; (1 << BITS) + 1];
        for keyword in &keywords {
            let hash = hash_of(keyword);
            follows[hash] |= keyword.text.get(keyword.anchor + LONG).map_or(u64::MAX, |next| bit(*next));
            firsts[hash + 1] += 1;
        }
        for at in 1..firsts.len() {
            firsts[at] += firsts[at - 1];
        }
        Self { follows, firsts, keywords }
    }

    /// Calls with the number of a keyword and where it stands, for each place where one does.
    pub(super) fn find(&self, text: &str, mut met: impl FnMut(usize, Range<usize>)) {
        let bytes = text.as_bytes();
        for (at, four) in bytes.array_windows().enumerate() {
            let four = u32::from_le_bytes(*four);
            let hash = hash_of(four);
            if self.follows[hash] & bit(four.to_le_bytes()[LONG]) != 0 {
                self.compare(bytes, at, hash, &mut met);
            }
        }
        // Nothing follows the last three.
        if let Some(at) = bytes.len().checked_sub(LONG) {
            self.compare(bytes, at, hash(&bytes[at..]), &mut met);
        }
    }

    /// Which keywords have their anchor here.
    fn compare(&self, bytes: &[u8], at: usize, hash: usize, met: &mut impl FnMut(usize, Range<usize>)) {
        let candidates = usize::from(self.firsts[hash])..usize::from(self.firsts[hash + 1]);
        for keyword in &self.keywords[candidates] {
            let Some(start) = at.checked_sub(keyword.anchor) else { continue };
            let span = start..start + keyword.text.len();
            if bytes.get(span.clone()).is_some_and(|here| here.eq_ignore_ascii_case(keyword.text)) {
                met(keyword.number, span);
            }
        }
    }
}

/// The hash of the first three bytes, whatever their case.
fn hash(bytes: &[u8]) -> usize {
    hash_of(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]))
}

/// The same, of bytes in little endian; the fourth does not count.
fn hash_of(bytes: u32) -> usize {
    let three = (bytes | 0x0020_2020) & 0x00ff_ffff;
    (three.wrapping_mul(0x9e37_79b1) >> (32 - BITS)) as usize
}

/// The bit of a byte, whatever its case.
fn bit(byte: u8) -> u64 {
    1 << ((byte | 0x20) & 63)
}

/// How often bytes stand together in prose and programs, roughly: how often each pair does, times the others.
fn commonness(bytes: &[u8]) -> u32 {
    let common = |pair: &[u8]| match shape::rank(pair[0], pair[1]) {
        Some(rank) => 400 - rank.min(399),
        None if pair.iter().all(u8::is_ascii_lowercase) => 12,
        None if pair[0] == pair[1] => 200,
        None => 40,
    };
    bytes.windows(2).map(common).product()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYWORDS: [&str; 7] = ["key", "secret_key", "key_", "sk-", "://", "abcdefgh", "bcd"];

    fn found(text: &str) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        Anchors::new(KEYWORDS).find(text, |number, span| all.push((number, span.start)));
        all.sort_unstable();
        all
    }

    fn slowly(text: &str) -> Vec<(usize, usize)> {
        let lower = text.to_ascii_lowercase();
        let places = |(number, keyword): (usize, &&str)| -> Vec<(usize, usize)> {
            (0..lower.len())
                .filter(|at| lower.as_bytes()[*at..].starts_with(keyword.as_bytes()))
                .map(|at| (number, at))
                .collect()
        };
        KEYWORDS.iter().enumerate().flat_map(places).collect()
    }

    #[test]
    fn keywords_are_found_in_any_case_and_over_each_other() {
        assert_eq!(found("My SECRET_KEY_x"), [(0, 10), (1, 3), (2, 10)]);
        assert_eq!(found("xABCDEFGH"), [(5, 1), (6, 2)]);
        assert_eq!(found("ke"), []);
        assert_eq!(found("é://é"), [(4, 2)]);
    }

    proptest! {
        #[test]
        fn every_place_is_found_and_no_other(text in "[a-hkKeEyY_:/é-]{0,60}", at in 0_usize..7, tail in "[a-h]{0,4}") {
            let text = format!("{text}{}{tail}", KEYWORDS[at]);
            prop_assert_eq!(found(&text), slowly(&text));
        }
    }
}
