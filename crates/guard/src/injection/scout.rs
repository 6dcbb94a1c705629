//! The quick look over all of a text: which parts of it are worth reading.
//!
//! One pass over the raw bytes does two things. It looks for what is telling alone: tokens of chat templates, the phrases
//! every attack begins with, and how the words of an order look when they are spelled with digits, letter by letter, or
//! encoded; a small filter over four bytes in a row says where one of them may begin. And it sums what each word has been
//! seen to mean ([`gate`]). A text that is short is read whatever it says: reading it costs little. Where letters of several
//! alphabets or characters nobody sees stand among Latin letters, the part is read too. Everything else is let through.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};

use super::{encoded, fold, gate, model::Model};

/// How far around an anchor text is read, in bytes.
const AROUND: usize = 400;
/// How far around blocks the gate stops at text is read, in bytes.
const AROUND_STOP: usize = 64;
/// A text up to this length in bytes is read whatever it says.
const SHORT: usize = 256;

/// A part to read, and what it may be encoded in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range<usize>,
    pub(super) form: Form,
}

/// How a part is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Base64,
    Hex,
    Rot13,
    Reversed,
    /// Words that are run together.
    Joined,
    /// Not read at all but for the addresses of links.
    Link,
}

/// The parts of the text worth reading, in order; those read the same way do not overlap.
pub(super) fn parts(text: &str, model: &Model<'_>) -> Vec<Part> {
    let mut parts = Parts { text, list: Vec::new() };
    if text.len() <= SHORT {
        parts.add_plain(0..text.len());
    }
    scan(&mut parts, model);
    odd_letters(text, |range| parts.add(range, Form::Plain));
    parts.list.sort_by_key(|part| (part.form as u8, part.range.start));
    merge(parts.list)
}

/// The pass over the bytes, block by block.
fn scan(parts: &mut Parts<'_>, model: &Model<'_>) {
    let (anchors, bytes) = (&*ANCHORS, parts.text.as_bytes());
    let (mut reader, mut last) = (gate::Reader::new(), 0);
    for start in (0..bytes.len()).step_by(gate::BLOCK) {
        let end = (start + gate::BLOCK).min(bytes.len());
        let (block, mut sum) = (&bytes[start..end], 0);
        let mut look_at = |at: usize| {
            let prefix = bytes.get(start + at..).and_then(<[u8]>::first_chunk);
            if prefix.is_some_and(|prefix| anchors.may_begin(*prefix)) {
                anchors.look(start + at, parts);
            }
        };
        if block.is_ascii() {
            sum += reader.weigh_ascii(block, model, look_at);
        } else {
            (0..block.len()).for_each(&mut look_at);
            block.iter().for_each(|byte| reader.read(*byte, |index| sum += model.gate_weight(index)));
        }
        if end == bytes.len() {
            reader.end(|index| sum += model.gate_weight(index));
        }
        if last + sum >= model.gate_least() {
            let from = start.saturating_sub(gate::BLOCK + AROUND_STOP);
            parts.add_plain(from..(end + AROUND_STOP).min(bytes.len()));
        }
        last = sum;
    }
}

struct Parts<'a> {
    text: &'a str,
    list: Vec<Part>,
}

impl Parts<'_> {
    fn add_plain(&mut self, range: Range<usize>) {
        let range = self.text.floor_char_boundary(range.start)..self.text.ceil_char_boundary(range.end);
        match self.list.last_mut() {
            Some(last) if last.form == Form::Plain && last.range.contains(&range.start) => {
                last.range.end = last.range.end.max(range.end);
            }
            _ => self.list.push(Part { range, form: Form::Plain }),
        }
    }

    fn add(&mut self, at: Range<usize>, form: Form) {
        let is_run = matches!(form, Form::Base64 | Form::Hex | Form::Joined);
        // A run may have an anchor at every word, and is walked through once.
        if is_run && self.list.last().is_some_and(|last| last.form == form && last.range.end >= at.end) {
            return;
        }
        let range = match form {
            Form::Plain | Form::Rot13 | Form::Reversed | Form::Link => around(self.text, at, AROUND),
            Form::Base64 => encoded::run(self.text, at, encoded::is_base64),
            Form::Hex => encoded::run(self.text, at, encoded::is_hex),
            Form::Joined => encoded::run(self.text, at, encoded::is_joined),
        };
        match self.list.last_mut() {
            Some(last) if last.form == form && last.range.end >= range.start && last.range.start <= range.start => {
                last.range.end = last.range.end.max(range.end);
            }
            _ => self.list.push(Part { range, form }),
        }
    }
}

fn merge(sorted: Vec<Part>) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::with_capacity(sorted.len());
    for part in sorted {
        match merged.last_mut() {
            Some(last) if last.form == part.form && last.range.end >= part.range.start => {
                last.range.end = last.range.end.max(part.range.end);
            }
            _ => merged.push(part),
        }
    }
    merged
}

fn around(text: &str, at: Range<usize>, reach: usize) -> Range<usize> {
    text.floor_char_boundary(at.start.saturating_sub(reach))..text.ceil_char_boundary((at.end + reach).min(text.len()))
}

/// Tells where letters are dressed up: styled alphabets, other scripts inside Latin words, what nobody sees.
fn odd_letters(text: &str, mut tell: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let chunk = &bytes[at..(at + 64).min(bytes.len())];
        if chunk.is_ascii() {
            at += chunk.len();
            continue;
        }
        let Some(skip) = chunk.iter().position(|b| *b >= 0x80) else { break };
        let start = text.floor_char_boundary(at + skip);
        let Some(c) = text[start..].chars().next() else { break };
        let end = start + c.len_utf8();
        let latin = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_alphabetic);
        let joined = latin(start.checked_sub(1)) || latin(Some(end));
        let odd = match c {
            '\u{370}'..='\u{58f}' => joined,
            '\u{1d00}'..='\u{1d7f}' | '\u{2460}'..='\u{24ff}' | '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}' => {
                true
            }
            '\u{1f130}'..='\u{1f189}' | '\u{e0020}'..='\u{e007e}' => true,
            '\u{300}'..='\u{36f}' => joined,
            _ => joined && fold::is_invisible(c),
        };
        if odd {
            tell(start..end);
        }
        at = end;
    }
}

struct Anchors {
    /// One bit for every hash of the first bytes of an anchor.
    filter: [u64; 1 << (FILTER_BITS - 6)],
    automaton: AhoCorasick,
    forms: Vec<Form>,
}

/// Bytes of an anchor the filter knows; no anchor is shorter.
const PREFIX: usize = 4;
const FILTER_BITS: u32 = 16;

impl Anchors {
    /// Whether an anchor may begin with these bytes.
    #[inline(always)]
    fn may_begin(&self, prefix: [u8; PREFIX]) -> bool {
        let (word, bit) = filter_place(prefix);
        self.filter[word] >> bit & 1 == 1
    }

    /// Adds the longest anchor that begins here.
    #[cold]
    fn look(&self, at: usize, parts: &mut Parts<'_>) {
        let here = Input::new(parts.text.as_bytes()).range(at..).anchored(Anchored::Yes);
        if let Some(hit) = self.automaton.find(here) {
            parts.add(hit.start()..hit.end(), self.forms[hit.pattern().as_usize()]);
        }
    }
}

/// Where the filter keeps these bytes. Letters of either case share a place, and so do some signs.
#[inline(always)]
fn filter_place(prefix: [u8; PREFIX]) -> (usize, u32) {
    let hash = (u32::from_le_bytes(prefix) | 0x2020_2020).wrapping_mul(0x9e37_79b1) >> (32 - FILTER_BITS);
    ((hash >> 6) as usize, hash & 63)
}

#[expect(clippy::expect_used, reason = "the lists are constants, and a test builds the automaton")]
static ANCHORS: LazyLock<Anchors> = LazyLock::new(|| {
    let plain = TOKENS.iter().map(|token| (Form::Plain, token.as_bytes().to_vec()));
    let links = LINKS.iter().map(|opening| (Form::Link, opening.as_bytes().to_vec()));
    let joined = encoded::joined().into_iter().map(|words| (Form::Joined, words));
    let (forms, words): (Vec<Form>, Vec<Vec<u8>>) =
        plain.chain(links).chain(joined).chain(encoded::spellings()).unzip();
    let mut filter = [0; 1 << (FILTER_BITS - 6)];
    for word in &words {
        if let Some(prefix) = word.first_chunk() {
            let (word, bit) = filter_place(*prefix);
            filter[word] |= 1 << bit;
        }
    }
    let automaton = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .start_kind(StartKind::Anchored)
        .ascii_case_insensitive(true)
        .build(&words)
        .expect("the anchors are few");
    Anchors { filter, automaton, forms }
});

/// How a link to elsewhere or to a file opens.
const LINKS: &[&str] = &["](http", "src=\"http", "src='http", "href=\"http", "](file:", "<file:"];

/// What is worth reading wherever it stands.
#[rustfmt::skip]
const TOKENS: &[&str] = &[
    "<|im_", "<|sys", "<|user", "<|assist", "<|eot", "<|start", "<|begin", "<|end", "<|tool", "<|channel", "[inst]", "[/inst]", "<<sys>>", "<start_of_turn>", "<end_of_turn>",
    "</system>", "<system>", "<system_prompt", "<system-", "<important>", "<information>", "<function_calls>", "<tool_call>", "</tool_re", "</document>", "</user_",
    "ignore all", "ignore prev", "ignore any", "ignore the above", "ignore your", "ignore prior", "disregard all", "disregard prev", "disregard any", "disregard the", "disregard your", "forget all", "forget everything", "forget your", "forget prev",
    "previous instruction", "prior instruction", "system prompt", "your instructions", "you are now", "from now on", "tell the user", "developer mode",
    "忽略", "无视", "無視", "忘记", "忘記", "忘掉", "指令", "系统提示", "系統提示", "提示词", "扮演", "假装", "从现在", "從現在", "你现在是", "不要告诉", "不要告訴", "越狱", "不受限制",
    "指示", "プロンプト", "忘れて", "言わないで", "伝えないで", "무시", "지시", "프롬프트", "이제부터", "지금부터", "말하지 마", "알리지 마", "개발자 모드",
    "تجاهل", "التعليمات", "النظام", "لا تخبر", "نادیده", "دستورات", "فراموش کن", "अनदेखा", "नज़रअंदाज़", "निर्देश", "भूल जा", "אל תספר", "התעלם", "ההוראות", "ละเว้น", "คำสั่ง", "αγνόησε", "αγνοήστε",
    "игнориру", "забудь", "инструкци", "отныне", "теперь ты", "не говори", "не сообщай", "ігнору", "інструкці", "відтепер", "не кажи",
    "ignoriere", "vergiss", "anweisung", "systemprompt", "ab jetzt", "ignorez", "oublie", "instructions précédentes", "consignes", "ignora ", "olvida", "instrucciones", "ignore todas", "ignore as", "esqueça", "instruções", "dimentica", "istruzioni", "negeer", "vergeet", "instructies",
    "zignoruj", "ignoruj", "zapomnij", "polecenia", "instrukcj", "yok say", "görmezden", "talimat", "önceki", "abaikan", "lupakan", "instruksi", "bỏ qua", "hướng dẫn", "chỉ thị",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, Form)]) {
        let parts = parts(text, &Model::embedded());
        let found: Vec<(&str, Form)> = parts.iter().map(|part| (&text[part.range.clone()], part.form)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_anchor_passes_the_filter() {
        let anchors = TOKENS.iter().chain(LINKS).map(|word| word.as_bytes().to_vec());
        let anchors = anchors.chain(encoded::joined());
        for word in anchors.chain(encoded::spellings().into_iter().map(|(_, word)| word)) {
            assert!(word.len() >= PREFIX, "{word:?}");
            let text = format!("{}{}", "- ".repeat(600), String::from_utf8_lossy(&word).to_ascii_uppercase());
            let found = parts(&text, &Model::new(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f]))
                .iter()
                .any(|part| part.range.end == text.len());
            assert!(found, "{text}");
        }
    }

    #[test]
    fn what_holds_no_anchor_is_let_through() {
        check(&"fn main() { println!(\"hello\"); }\n".repeat(20), &[]);
    }

    #[test]
    fn a_short_text_is_read_whatever_it_says() {
        let text = "-".repeat(SHORT);
        check(&text, &[(&text, Form::Plain)]);
        check(&"-".repeat(SHORT + 1), &[]);
    }

    #[test]
    fn the_text_around_an_anchor_is_read() {
        let text = format!("{}<|im_start|>{}", ". ".repeat(2000), ". ".repeat(2000));
        let parts = parts(&text, &Model::embedded());
        let [Part { range, form: Form::Plain }] = parts.as_slice() else { panic!("{parts:?}") };
        assert!(range.start <= 3600 && range.end >= 4405 && range.len() < 2000, "{range:?}");
    }

    #[test]
    fn dressed_up_letters_are_read() {
        let odd = |text: &str| {
            let mut count = 0;
            odd_letters(text, |_| count += 1);
            count
        };
        assert_eq!((odd("іgnоrе"), odd("привет"), odd("Ｉ"), odd("café"), odd("a\u{200b}b")), (3, 0, 1, 0, 1));
    }
}
