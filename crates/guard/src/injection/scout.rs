//! The quick look over all of a text: which parts of it are worth reading.
//!
//! One pass of an automaton over the raw bytes finds what is telling alone: tokens of chat templates, the phrases every
//! attack begins with, and how the words of an order look when they are spelled with digits, letter by letter, or
//! encoded. A second pass sums what each word has been seen to mean ([`gate`]). Where letters of several alphabets or
//! characters nobody sees stand among Latin letters, the part is read whatever it says. Everything else is let through.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::{encoded, fold, gate};

/// How far around an anchor text is read, in bytes.
const AROUND: usize = 400;

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
    /// Not read at all but for the addresses of links.
    Link,
}

/// The parts of the text worth reading, in order; those read the same way do not overlap.
pub(super) fn parts(text: &str) -> Vec<Part> {
    let anchors = &*ANCHORS;
    let mut parts = Parts { text, list: Vec::new() };
    for hit in anchors.automaton.find_iter(text) {
        parts.add(hit.start()..hit.end(), anchors.forms[hit.pattern().as_usize()]);
    }
    gate::stops(text, |range| parts.add_plain(range));
    odd_letters(text, |range| parts.add(range, Form::Plain));
    parts.list.sort_by_key(|part| (part.form as u8, part.range.start));
    merge(parts.list)
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
        let range = match form {
            Form::Plain | Form::Rot13 | Form::Reversed | Form::Link => around(self.text, at, AROUND),
            Form::Base64 => encoded::run(self.text, at, encoded::is_base64),
            Form::Hex => encoded::run(self.text, at, encoded::is_hex),
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
    automaton: AhoCorasick,
    forms: Vec<Form>,
}

#[expect(clippy::expect_used, reason = "the lists are constants, and a test builds the automaton")]
static ANCHORS: LazyLock<Anchors> = LazyLock::new(|| {
    let plain = TOKENS.iter().map(|token| (Form::Plain, token.as_bytes().to_vec()));
    let links = LINKS.iter().map(|opening| (Form::Link, opening.as_bytes().to_vec()));
    let (forms, words): (Vec<Form>, Vec<Vec<u8>>) = plain.chain(links).chain(encoded::spellings()).unzip();
    let automaton = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(&words)
        .expect("the anchors are few");
    Anchors { automaton, forms }
});

/// How a link to elsewhere opens.
const LINKS: &[&str] = &["](http", "src=\"http", "src='http", "href=\"http"];

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
        let parts = parts(text);
        let found: Vec<(&str, Form)> = parts.iter().map(|part| (&text[part.range.clone()], part.form)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_holds_no_anchor_is_let_through() {
        check("fn main() { println!(\"hello\"); }", &[]);
    }

    #[test]
    fn the_text_around_an_anchor_is_read() {
        let text = format!("{}<|im_start|>{}", ". ".repeat(2000), ". ".repeat(2000));
        let parts = parts(&text);
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
