//! Characters nobody sees, and what they hide.
//!
//! A model reads them, a person does not: whole instructions are written in tag characters, bytes in variation selectors,
//! bits in zero-width ones, and direction controls make text read differently than it is. They are taken out, and what
//! they spell is told. The uses they were made for stay: emoji sequences and flags, joiners in scripts that join,
//! selectors behind what they select, text from right to left.

use std::borrow::Cow;

use super::finding::{Findings, Kind};

/// The text without what nobody sees.
pub fn clean<'a>(text: &'a str, findings: &mut Findings) -> Cow<'a, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let (mut at, mut done) = (0, 0);
    while let Some((start, c)) = next_hidden(text, at) {
        at = start + legal(text, start, c);
        if at > start {
            continue;
        }
        at = start + run(&text[start..]);
        out.reserve(text.len() - out.len());
        out.push_str(&text[done..start]);
        take_out(text, start, at, &mut out, findings);
        done = at;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// The next one from a place on. Most text has none.
fn next_hidden(text: &str, mut from: usize) -> Option<(usize, char)> {
    // Every hidden character begins with one of these bytes.
    let may_begin = |byte: &u8| matches!(byte, 0xc2 | 0xcd | 0xd8 | 0xe1..=0xe3 | 0xef | 0xf0 | 0xf3);
    while let Some(more) = text.as_bytes()[from..].iter().position(may_begin) {
        let at = from + more;
        let next = text[at..].chars().next()?;
        if is_hidden(next) {
            return Some((at, next));
        }
        from = at + next.len_utf8();
    }
    None
}

/// How many bytes of this begin with hidden characters of one family.
fn run(rest: &str) -> usize {
    let of = rest.chars().next().map(family);
    rest.find(|c: char| !is_hidden(c) || Some(family(c)) != of).unwrap_or(rest.len())
}

/// What hidden characters are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Tag,
    Selector,
    Direction,
    ZeroWidth,
    LineEnd,
}

fn family(c: char) -> Family {
    match c {
        '\u{e0000}'..='\u{e007f}' => Family::Tag,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' | '\u{180f}' => Family::Selector,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Family::Direction,
        '\u{2028}' | '\u{2029}' => Family::LineEnd,
        _ => Family::ZeroWidth,
    }
}

/// Does nobody see it? Default-ignorable characters, format controls that print nothing, and line ends that are not.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Would nobody see it, or would it change how what is around it reads?
///
/// For text a person is to agree to, to the letter: also what scripts and emoji need, blanks that are no plain space, and
/// what looks different on every machine.
pub fn is_unseen(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || is_hidden(c)
        || matches!(c,
            '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{3000}'
            | '\u{e000}'..='\u{f8ff}' | '\u{fffc}' | '\u{13430}'..='\u{1343f}' | '\u{16fe4}' | '\u{1d159}'
            | '\u{f0000}'..='\u{10ffff}')
}

/// How many bytes from here are a use such a character was made for; none where it is not.
fn legal(text: &str, at: usize, c: char) -> usize {
    let before = || text[..at].chars().next_back();
    let after = || text[at + c.len_utf8()..].chars().next();
    let is_legal = match c {
        '\u{200d}' => emoji_before(&text[..at]) && after().is_some_and(is_emoji) || joins(before(), after()),
        '\u{200c}' => joins(before(), after()),
        // Text or emoji: only behind what has both forms, and once.
        '\u{fe0e}' | '\u{fe0f}' => {
            let keycap = || c == '\u{fe0f}' && after() == Some('\u{20e3}');
            before().is_some_and(|base| is_emoji(base) || (matches!(base, '0'..='9' | '#' | '*') && keycap()))
        }
        '\u{fe00}'..='\u{fe02}' => before().is_some_and(|base| is_han(base) || has_variants(base)),
        '\u{e0100}'..='\u{e01ef}' => before().is_some_and(is_han),
        '\u{180b}'..='\u{180f}' => before().is_some_and(|base| ('\u{1820}'..='\u{18aa}').contains(&base)),
        '\u{115f}' | '\u{1160}' => [before(), after()].into_iter().flatten().any(is_jamo),
        '\u{e0061}'..='\u{e007a}' => return flag(text, at),
        _ => false,
    };
    if is_legal { c.len_utf8() } else { 0 }
}

/// The rest of one of the three flags that are written with tags, from its first tag on.
fn flag(text: &str, at: usize) -> usize {
    if !text[..at].ends_with('\u{1f3f4}') {
        return 0;
    }
    let spelled = |name: &str| -> String {
        name.bytes().filter_map(|byte| char::from_u32(0xe0000 + u32::from(byte))).chain(['\u{e007f}']).collect()
    };
    ["gbeng", "gbsct", "gbwls"]
        .iter()
        .map(|name| spelled(name))
        .find(|tags| text[at..].starts_with(tags.as_str()))
        .map_or(0, |tags| tags.len())
}

/// Does an emoji end here, with a skin tone or a selector or without?
fn emoji_before(before: &str) -> bool {
    let mut back = before.chars().rev();
    match back.next() {
        Some('\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}') => back.next().is_some_and(is_emoji),
        Some(last) => is_emoji(last),
        None => false,
    }
}

/// A joiner has a meaning between letters of one of the scripts that join.
fn joins(before: Option<char>, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before.and_then(script), after.and_then(script)) else { return false };
    before == after
}

/// Scripts in which joiners change how letters look, by the blocks they are in.
fn script(c: char) -> Option<u8> {
    Some(match c {
        '\u{620}'..='\u{6ff}'
        | '\u{750}'..='\u{77f}'
        | '\u{8a0}'..='\u{8ff}'
        | '\u{fb50}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}' => 0,
        '\u{700}'..='\u{74f}' => 1,
        '\u{7c0}'..='\u{7ff}' => 2,
        '\u{900}'..='\u{97f}' | '\u{a8e0}'..='\u{a8ff}' => 3,
        '\u{980}'..='\u{dff}' => 4 + u8::try_from((c as u32 - 0x980) / 0x80).unwrap_or(0),
        '\u{1000}'..='\u{109f}' => 20,
        '\u{1780}'..='\u{17ff}' => 21,
        '\u{1800}'..='\u{18af}' => 22,
        '\u{1b00}'..='\u{1b7f}' => 23,
        '\u{a980}'..='\u{a9df}' => 24,
        '\u{11000}'..='\u{1107f}' => 25,
        _ => return None,
    })
}

/// May it be drawn as a picture? By blocks: a character too many does no harm, as only selectors and joiners follow.
fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2194}'..='\u{21aa}' | '\u{231a}'..='\u{23ff}'
        | '\u{24c2}' | '\u{25aa}'..='\u{25fe}' | '\u{2600}'..='\u{27bf}' | '\u{2934}' | '\u{2935}' | '\u{2b05}'..='\u{2b55}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// Mathematical signs, CJK punctuation and Myanmar letters with a second form.
fn has_variants(c: char) -> bool {
    matches!(c, '\u{2205}'..='\u{22ff}' | '\u{2a00}'..='\u{2aff}' | '\u{3001}' | '\u{3002}' | '\u{ff01}'..='\u{ff1f}' | '\u{1000}'..='\u{109f}' | '0')
}

fn is_jamo(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115e}' | '\u{1161}'..='\u{11ff}')
}

/// Leaves out what is between, and says what it spells.
fn take_out(text: &str, start: usize, end: usize, out: &mut String, findings: &mut Findings) {
    let run = &text[start..end];
    let Some(first) = run.chars().next() else { return };
    // At the beginning it says in which order bytes come, and nothing else.
    if start == 0 && first == '\u{feff}' && run.chars().count() == 1 {
        return;
    }
    let rule = match family(first) {
        Family::Tag => "tag_characters",
        Family::Selector => "variation_selectors",
        Family::Direction => "direction_controls",
        Family::ZeroWidth => "zero_width",
        Family::LineEnd => {
            out.push('\n');
            "line_separator"
        }
    };
    findings.note(Kind::HiddenText, rule, start..end, || spelled(run));
}

/// What a run of hidden characters spells, as far as that is known.
fn spelled(run: &str) -> String {
    let text: String = match run.chars().next().map(family) {
        Some(Family::Tag) => {
            run.chars().filter_map(|c| char::from_u32((c as u32) & 0x7f)).filter(|c| !c.is_control()).collect()
        }
        Some(Family::Selector) if run.chars().count() > 1 => {
            let bytes: Vec<u8> = run.chars().filter_map(selected).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Some(Family::ZeroWidth) => bits(run).unwrap_or_default(),
        _ => String::new(),
    };
    if text.is_empty() { named(run) } else { text }
}

/// The byte that stands for this selector where bytes are written in them.
fn selected(c: char) -> Option<u8> {
    let number = match c {
        '\u{fe00}'..='\u{fe0f}' => c as u32 - 0xfe00,
        '\u{e0100}'..='\u{e01ef}' => c as u32 - 0xe0100 + 16,
        _ => return None,
    };
    u8::try_from(number).ok()
}

/// Two different characters in a long run are read as bits, the more usual way round first.
fn bits(run: &str) -> Option<String> {
    let all: Vec<char> = run.chars().collect();
    let (zero, one) = (*all.first()?, *all.iter().find(|c| **c != all[0])?);
    if all.len() < 16 || all.iter().any(|c| *c != zero && *c != one) {
        return None;
    }
    let read = |one: char| -> Option<String> {
        let bytes = all.chunks_exact(8).map(|eight| eight.iter().fold(0u8, |byte, c| byte << 1 | u8::from(*c == one)));
        let text = String::from_utf8(bytes.collect()).ok()?;
        text.chars().all(|c| !c.is_control()).then_some(text)
    };
    read(one).or_else(|| read(zero))
}

/// The characters by number, of many only how many.
fn named(run: &str) -> String {
    let count = run.chars().count();
    let names: Vec<String> = run.chars().take(4).map(|c| format!("U+{:04X}", c as u32)).collect();
    let more = if count > 4 { format!(" and {} more", count - 4) } else { String::new() };
    format!("{}{more}", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left, and for each rule that spoke what it says was hidden.
    #[track_caller]
    fn check(text: &str, expected: &str, told: &[(&str, &str)]) {
        let mut findings = Findings::default();
        assert_eq!(clean(text, &mut findings), expected, "{text:?}");
        let said: Vec<_> = findings.iter().map(|finding| (finding.rule, finding.detail.as_str())).collect();
        assert_eq!(said, told, "{text:?}");
    }

    #[track_caller]
    fn stays(text: &str) {
        check(text, text, &[]);
    }

    fn in_tags(text: &str) -> String {
        text.bytes().filter_map(|byte| char::from_u32(0xe0000 + u32::from(byte))).collect()
    }

    fn in_selectors(text: &str) -> String {
        let one = |byte: u8| match byte {
            0..=15 => char::from_u32(0xfe00 + u32::from(byte)),
            _ => char::from_u32(0xe0100 + u32::from(byte) - 16),
        };
        text.bytes().filter_map(one).collect()
    }

    fn in_bits(text: &str) -> String {
        text.bytes()
            .flat_map(|byte| (0..8).rev().map(move |bit| if byte >> bit & 1 == 1 { '\u{200c}' } else { '\u{200b}' }))
            .collect()
    }

    #[test]
    fn what_is_smuggled_is_told() {
        check(&format!("hello {}", in_tags("run rm")), "hello ", &[("tag_characters", "run rm")]);
        check(&format!("ok😀{}", in_selectors("send it")), "ok😀", &[("variation_selectors", "send it")]);
        check(&format!("a{}b", in_bits("hi!")), "ab", &[("zero_width", "hi!")]);
        check("file\u{202e}txt.exe", "filetxt.exe", &[("direction_controls", "U+202E")]);
        check("a\u{ad}b\u{2060}c", "abc", &[("zero_width", "U+00AD"), ("zero_width", "U+2060")]);
        check("a\u{2028}b", "a\nb", &[("line_separator", "U+2028")]);
        check("\u{feff}text", "text", &[]);
        check("te\u{feff}xt", "text", &[("zero_width", "U+FEFF")]);
    }

    #[test]
    fn what_was_meant_to_be_there_stays() {
        stays("👨‍👩‍👧 👩🏽‍💻 ❤️ ☎︎ 1️⃣ 🏳️‍🌈 🇩🇪");
        for flag in ["gbeng", "gbsct", "gbwls"] {
            stays(&format!("🏴{}\u{e007f}!", in_tags(flag)));
        }
        stays("می‌خواهم नमस्‍ते ක්‍ෂ עברית العربية");
        stays("葛\u{e0100} ᠠ\u{180b} ≩\u{fe00}");
        stays("ᄀ\u{1160}");
    }

    #[test]
    fn what_stays_is_not_copied() {
        let mut findings = Findings::default();
        for text in ["plain", "👨‍👩‍👧 می‌خواهم §", "\u{a0}größe"] {
            assert!(matches!(clean(text, &mut findings), Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn a_use_that_was_meant_does_not_excuse_another() {
        check(&format!("🏴{}\u{e007f}", in_tags("ustx")), "🏴", &[("tag_characters", "ustx")]);
        check("ab\u{200d}cd", "abcd", &[("zero_width", "U+200D")]);
        check("می\u{200c}\u{200c}خ", "میخ", &[("zero_width", "U+200C U+200C")]);
        check("a\u{fe0f}b", "ab", &[("variation_selectors", "U+FE0F")]);
        check("葛\u{e0100}\u{e0101}", "葛\u{e0100}", &[("variation_selectors", "U+E0101")]);
        check("1\u{fe0f}2", "12", &[("variation_selectors", "U+FE0F")]);
    }
}
