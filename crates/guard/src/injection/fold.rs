//! Text as matching sees it: one spelling for what a reader takes for the same words, and a way back to where it stood.
//!
//! Characters nobody sees are dropped, compatibility forms and lookalikes become plain letters, marks fall off, case is
//! folded, white space is one blank or one line end, digits that stand for letters become letters, letters spelled out
//! one by one become a word, and `&#105;`, `%69`, `\u0069` and `\n` are read as what they stand for.

use std::ops::Range;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Folded text that knows which bytes of the original each of its bytes came from.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub(super) text: String,
    /// For every byte of `text`, where its character starts in the original; one more entry for the end.
    from: Vec<u32>,
    /// Words that were spelled out letter by letter, as ranges of `text`.
    pub(super) spelled: Vec<Range<usize>>,
}

impl Folded {
    /// The bytes of the original that became `range`, on character boundaries of it.
    pub(super) fn origin(&self, range: Range<usize>) -> Range<usize> {
        let at = |i: usize| self.from.get(i.min(self.from.len().saturating_sub(1))).copied().unwrap_or(0) as usize;
        let (start, end) = (at(range.start), at(range.end));
        start..end.max(start)
    }
}

/// Folds one piece of text. Pieces are a few thousand bytes, so that what this holds is bounded.
pub(super) fn fold(text: &str) -> Folded {
    let mut folder = Folder::default();
    let mut at = 0;
    while let Some((c, len)) = next_char(&text[at..]) {
        folder.take(c, at);
        at += len;
    }
    folder.end_word();
    folder.out.from.push(offset(at));
    join_spelled(folder.out)
}

/// Folded text alone, for words of the tables.
pub(super) fn fold_words(text: &str) -> String {
    fold(text).text
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The next character, with one level of escaping read, and how many bytes it took.
fn next_char(text: &str) -> Option<(char, usize)> {
    let c = text.chars().next()?;
    let escaped = match c {
        '&' => entity(text),
        '%' => percent(text),
        '\\' => backslash(text),
        _ => None,
    };
    Some(escaped.unwrap_or((c, c.len_utf8())))
}

fn entity(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(10).position(|b| b == b';')?;
    let name = text.get(1..end)?;
    let c = match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((c, end + 1))
}

/// Only what stands for plain text: a percent sign before anything else is itself.
fn percent(text: &str) -> Option<(char, usize)> {
    let code = u8::from_str_radix(text.get(1..3)?, 16).ok()?;
    (code.is_ascii_graphic() || code == b' ' || code == b'\n').then_some((code as char, 3))
}

fn backslash(text: &str) -> Option<(char, usize)> {
    match text.as_bytes().get(1)? {
        b'n' => Some(('\n', 2)),
        b'r' | b't' => Some((' ', 2)),
        b'"' => Some(('"', 2)),
        b'u' => Some((char::from_u32(u32::from_str_radix(text.get(2..6)?, 16).ok()?)?, 6)),
        b'x' => Some((char::from(u8::from_str_radix(text.get(2..4)?, 16).ok()?), 4)),
        _ => None,
    }
}

#[derive(Default)]
struct Folder {
    out: Folded,
    /// The word being read: its letters and where each stood.
    word: Vec<(char, u32)>,
}

impl Folder {
    fn take(&mut self, c: char, at: usize) {
        let at = offset(at);
        if c.is_ascii() {
            return self.plain(c.to_ascii_lowercase(), at);
        }
        if is_invisible(c) {
            return;
        }
        if let Some(letter) = stands_for(c) {
            return self.plain(letter, at);
        }
        if ('\u{ac00}'..='\u{d7af}').contains(&c) {
            return self.word.push((c, at));
        }
        decompose_compatible(c, |part| {
            if !is_combining_mark(part) {
                for low in part.to_lowercase().filter(|low| !is_combining_mark(*low)) {
                    self.plain(low, at);
                }
            }
        });
    }

    fn plain(&mut self, c: char, at: u32) {
        if c.is_alphanumeric() {
            return self.word.push((c, at));
        }
        self.end_word();
        let white = c.is_whitespace() || (c.is_control() && c != '\u{1b}');
        match (white, c, self.out.text.as_bytes().last()) {
            (true, '\n', Some(b' ')) => {
                self.out.text.pop();
                self.out.text.push('\n');
            }
            (true, _, Some(b' ' | b'\n')) => {}
            (true, '\n', _) => self.put('\n', at),
            (true, ..) => self.put(' ', at),
            (false, '\u{2018}' | '\u{2019}' | '\u{2bc}' | '`' | '\u{b4}', _) => self.put('\'', at),
            (false, '\u{201c}' | '\u{201d}' | '\u{ab}' | '\u{bb}', _) => self.put('"', at),
            (false, '\u{2010}'..='\u{2015}', _) => self.put('-', at),
            (false, ..) => self.put(c, at),
        }
    }

    fn put(&mut self, c: char, at: u32) {
        self.out.text.push(c);
        self.out.from.extend(std::iter::repeat_n(at, c.len_utf8()));
    }

    fn end_word(&mut self) {
        let mut word = std::mem::take(&mut self.word);
        let latin = word.iter().any(|(c, _)| c.is_ascii_alphabetic());
        if latin && word.iter().any(|(c, _)| !c.is_ascii()) {
            for (c, _) in &mut word {
                *c = lookalike(*c).unwrap_or(*c);
            }
        }
        if latin && is_leet(&word) {
            for (c, _) in &mut word {
                *c = letter_for(*c).unwrap_or(*c);
            }
        }
        for (c, at) in word.drain(..) {
            self.put(c, at);
        }
        self.word = word;
    }
}

/// Digits that stand for letters, and one of them before a letter: `pr3vious` and `1gnore`, not `python3` or `a64`.
fn is_leet(word: &[(char, u32)]) -> bool {
    let digits = word.iter().filter(|(c, _)| c.is_ascii_digit()).count();
    digits > 0
        && word.len() >= 4
        && digits * 2 <= word.len()
        && word.iter().all(|(c, _)| !c.is_ascii_digit() || letter_for(*c).is_some())
        && word.windows(2).any(|pair| pair[0].0.is_ascii_digit() && pair[1].0.is_alphabetic())
}

fn letter_for(digit: char) -> Option<char> {
    Some(match digit {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        _ => return None,
    })
}

/// Letters drawn in a frame or smuggled as tags, which have no decomposition but one meaning.
fn stands_for(c: char) -> Option<char> {
    let code = c as u32;
    let letter = match code {
        0xe0020..=0xe007e => return char::from_u32(code - 0xe0000).map(|c| c.to_ascii_lowercase()),
        0x1f150..=0x1f169 => code - 0x1f150,
        0x1f170..=0x1f189 => code - 0x1f170,
        0x1f1e6..=0x1f1ff => code - 0x1f1e6,
        _ => return SMALL_CAPITALS.iter().find(|(from, _)| *from == c).map(|(_, to)| *to),
    };
    char::from_u32(u32::from(b'a') + letter)
}

const SMALL_CAPITALS: &[(char, char)] = &[
    ('ᴀ', 'a'),
    ('ʙ', 'b'),
    ('ᴄ', 'c'),
    ('ᴅ', 'd'),
    ('ᴇ', 'e'),
    ('ꜰ', 'f'),
    ('ɢ', 'g'),
    ('ʜ', 'h'),
    ('ɪ', 'i'),
    ('ᴊ', 'j'),
    ('ᴋ', 'k'),
    ('ʟ', 'l'),
    ('ᴍ', 'm'),
    ('ɴ', 'n'),
    ('ᴏ', 'o'),
    ('ᴘ', 'p'),
    ('ǫ', 'q'),
    ('ʀ', 'r'),
    ('ꜱ', 's'),
    ('ᴛ', 't'),
    ('ᴜ', 'u'),
    ('ᴠ', 'v'),
    ('ᴡ', 'w'),
    ('ʏ', 'y'),
    ('ᴢ', 'z'),
];

/// The Latin letter a letter of another script is taken for, when it stands among Latin letters.
fn lookalike(c: char) -> Option<char> {
    Some(match c {
        'а' | 'α' | 'ɑ' => 'a',
        'Ь' | 'ь' | 'в' | 'β' => 'b',
        'с' | 'ϲ' | 'ᴄ' => 'c',
        'ԁ' | 'ɗ' => 'd',
        'е' | 'є' | 'ҽ' | 'ε' | 'э' => 'e',
        'ғ' => 'f',
        'ɡ' | 'ց' => 'g',
        'һ' | 'н' | 'հ' | 'η' => 'h',
        'і' | 'ι' | 'ı' | 'ɩ' | 'ӏ' | 'ї' => 'i',
        'ј' | 'ϳ' => 'j',
        'к' | 'κ' => 'k',
        'ⅼ' | 'ɫ' | 'ł' => 'l',
        'м' | 'μ' => 'm',
        'ո' | 'п' | 'ν' => 'n',
        'о' | 'ο' | 'օ' | 'σ' | 'ø' => 'o',
        'р' | 'ρ' | 'ҏ' => 'p',
        'ԛ' | 'զ' => 'q',
        'г' | 'ɾ' | 'я' => 'r',
        'ѕ' | 'ʂ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ս' | 'ц' => 'u',
        'ѵ' => 'v',
        'ԝ' | 'ѡ' | 'ω' | 'ш' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'ү' | 'γ' => 'y',
        'ᴢ' => 'z',
        _ => return None,
    })
}

/// What takes no place on the screen.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{640}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e001f}' | '\u{e007f}'..='\u{e0fff}')
}

/// Five letters and more that stand alone with the same sign between them become one word.
fn join_spelled(folded: Folded) -> Folded {
    let bytes = folded.text.as_bytes();
    let alone = |i: usize| {
        bytes.get(i).is_some_and(u8::is_ascii_lowercase)
            && !bytes.get(i + 1).is_some_and(|b| b.is_ascii_alphanumeric() || *b >= 0x80)
    };
    let mut runs = Vec::new();
    let mut i = 0;
    while i + 9 <= bytes.len() {
        let opens = i == 0 || !(bytes[i - 1].is_ascii_alphanumeric() || bytes[i - 1] >= 0x80);
        let sign = bytes[i + 1];
        if !(opens && alone(i) && b" -._*|/+~,".contains(&sign)) {
            i += 1;
            continue;
        }
        let mut end = i;
        while bytes.get(end + 1) == Some(&sign) && alone(end + 2) {
            end += 2;
        }
        if end >= i + 8 {
            runs.push(i..end + 1);
        }
        i = end + 1;
    }
    if runs.is_empty() {
        return folded;
    }
    let mut out = Folded::default();
    let mut at = 0;
    for run in runs {
        out.text.push_str(&folded.text[at..run.start]);
        out.from.extend_from_slice(&folded.from[at..run.start]);
        let start = out.text.len();
        for i in run.clone().step_by(2) {
            out.text.push(char::from(bytes[i]));
            out.from.push(folded.from[i]);
        }
        out.spelled.push(start..out.text.len());
        at = run.end;
    }
    out.text.push_str(&folded.text[at..]);
    out.from.extend_from_slice(&folded.from[at..]);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(fold_words(text), expected, "{text}");
    }

    #[test]
    fn one_spelling_for_what_reads_the_same() {
        check("Ign\u{200b}ore  ALL\u{a0}\n\n rules", "ignore all\nrules");
        check("Ｉｇｎｏｒｅ 𝐢𝐠𝐧𝐨𝐫𝐞 ⓘⓖⓝⓞⓡⓔ 🅸🅶🅽🅾🆁🅴 ɪɢɴᴏʀᴇ", "ignore ignore ignore ignore ignore");
        check("іgnоrе игнор", "ignore игнор");
        check("précédentes ä Ł", "precedentes a ł");
        check("\u{e0069}\u{e0067}\u{e006e}", "ign");
    }

    #[test]
    fn digits_that_stand_for_letters() {
        check("1gn0r3 pr3v10us python3 utf8 a64 2024", "ignore previous python3 utf8 a64 2024");
    }

    #[test]
    fn letters_spelled_out() {
        check("i g n o r e this, i-g-n-o-r-e", "ignore this, ignore");
        check("a b c d", "a b c d");
    }

    #[test]
    fn escapes_are_read_once() {
        check(
            "&#105;&#x67;n%6Fre\\u0020\\nall &amp;#105; 100% \\q",
            "ignore \nall &#105; 100% \\q".replace(" \n", "\n").as_str(),
        );
    }

    #[test]
    fn a_span_leads_back_to_where_it_stood() {
        let text = "x Ｉg\u{200b}n0re y";
        let folded = fold(text);
        let at = folded.text.find("ignore").unwrap();
        assert_eq!(&text[folded.origin(at..at + 6)], "Ｉg\u{200b}n0re");
    }

    proptest! {
        #[test]
        fn spans_are_on_boundaries(text in "(?s).{0,80}", a in 0usize..200, b in 0usize..200) {
            let folded = fold(&text);
            let (a, b) = (a.min(b), a.max(b));
            let range = folded.origin(a..b);
            prop_assert!(text.get(range.clone()).is_some(), "{range:?} of {text:?}");
        }
    }
}
