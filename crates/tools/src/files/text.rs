//! Text in files: what it is encoded in, what is shown of it, and how a cut is told.

use std::{borrow::Cow, fmt::Write as _};

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_contract::{Truncated, Unit};

use crate::Cx;

/// Files up to this size are read, hashed and edited whole. It is also the most that is written at once.
pub(crate) const MAX_WHOLE: u64 = 10 * 1024 * 1024;

/// A NUL byte in so many first bytes means that it is no text.
pub(crate) const HEAD: usize = 8 * 1024;

/// What a file is encoded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum Encoding {
    /// UTF-8.
    #[serde(rename = "utf-8")]
    Utf8,
    /// UTF-8 after a byte order mark, which is not part of the text.
    #[serde(rename = "utf-8-bom")]
    Utf8Bom,
    /// UTF-16, low byte first, after a byte order mark.
    #[serde(rename = "utf-16le")]
    Utf16Le,
    /// UTF-16, high byte first, after a byte order mark.
    #[serde(rename = "utf-16be")]
    Utf16Be,
    /// Not text.
    #[serde(rename = "binary")]
    Binary,
}

impl Encoding {
    /// Judges by the first bytes.
    pub(crate) fn of(head: &[u8]) -> Self {
        match head {
            [0xef, 0xbb, 0xbf, ..] => Self::Utf8Bom,
            [0xff, 0xfe, ..] => Self::Utf16Le,
            [0xfe, 0xff, ..] => Self::Utf16Be,
            _ if head[..head.len().min(HEAD)].contains(&0) => Self::Binary,
            _ => Self::Utf8,
        }
    }

    /// How many bytes come before the text.
    pub(crate) fn mark_len(self) -> usize {
        match self {
            Self::Utf8 | Self::Binary => 0,
            Self::Utf8Bom => 3,
            Self::Utf16Le | Self::Utf16Be => 2,
        }
    }

    /// Turns bytes after the mark into text, piece by piece. What is broken becomes U+FFFD.
    pub(crate) fn decoder(self) -> encoding_rs::Decoder {
        match self {
            Self::Utf8 | Self::Utf8Bom | Self::Binary => encoding_rs::UTF_8.new_decoder_without_bom_handling(),
            Self::Utf16Le => encoding_rs::UTF_16LE.new_decoder_without_bom_handling(),
            Self::Utf16Be => encoding_rs::UTF_16BE.new_decoder_without_bom_handling(),
        }
    }
}

/// How many bytes of text a tool has, with room left to say that there is more.
pub(crate) fn byte_budget(cx: &Cx) -> usize {
    cx.caps().output_bytes.saturating_sub(512)
}

/// How many lines of text a tool has, with room left to say that there is more.
pub(crate) fn line_budget(cx: &Cx) -> usize {
    cx.caps().output_lines.saturating_sub(2)
}

/// Says at the end of a text how much of it is there. `items` is what entries of a list are called.
pub(crate) fn tell_cut(text: &mut String, cut: Option<Truncated>, items: &str, hint: &str) {
    let Some(Truncated { shown, total, unit }) = cut else { return };
    let unit = match unit {
        Unit::Bytes => "bytes",
        Unit::Lines => "lines",
        Unit::Items => items,
    };
    remark(text, &format!("truncated: {shown} of {total} {unit}{hint}"));
}

/// Puts a remark of ours below a text, on a line of its own.
pub(crate) fn remark(text: &mut String, remark: &str) {
    let line_break = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    // Writing to a string does not fail.
    let _ = write!(text, "{line_break}[{remark}]");
}

/// The cut of a list, if it is one.
pub(crate) fn cut_items(shown: usize, total: u64) -> Option<Truncated> {
    let shown = shown as u64;
    (shown < total).then_some(Truncated { shown, total, unit: Unit::Items })
}

/// The most of `text` that fits into `most` bytes and ends with a whole character.
pub(crate) fn prefix(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// What a caller wrote, as a message repeats it: enough to know it again.
pub(crate) fn brief(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_BRIEF {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}...", prefix(text, MAX_BRIEF - 3)))
}

const MAX_BRIEF: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8], expected: Encoding) {
        assert_eq!(Encoding::of(head), expected, "{head:?}");
    }

    #[test]
    fn the_first_bytes_tell() {
        check(b"", Encoding::Utf8);
        check(b"plain", Encoding::Utf8);
        check("\u{feff}x".as_bytes(), Encoding::Utf8Bom);
        check(b"\xff\xfea\0", Encoding::Utf16Le);
        check(b"\xfe\xff\0a", Encoding::Utf16Be);
        check(b"a\0b", Encoding::Binary);
        check(b"caf\xe9", Encoding::Utf8);
        let mut late = vec![b'a'; HEAD];
        late.push(0);
        check(&late, Encoding::Utf8);
    }

    #[test]
    fn a_cut_is_told_on_a_line_of_its_own() {
        let cut = cut_items(2, 5);
        let mut text = "a\nb".to_owned();
        tell_cut(&mut text, cut, "entries", "");
        assert_eq!(text, "a\nb\n[truncated: 2 of 5 entries]");
        let mut whole = "a".to_owned();
        tell_cut(&mut whole, cut_items(1, 1), "entries", "");
        assert_eq!(whole, "a");
    }

    #[test]
    fn a_prefix_ends_with_a_whole_character() {
        assert_eq!(prefix("aé", 2), "a");
        assert_eq!(prefix("aé", 3), "aé");
        assert_eq!(prefix("a", 9), "a");
    }

    #[test]
    fn a_long_text_is_repeated_in_part() {
        assert_eq!(brief(&"x".repeat(200)), "x".repeat(200));
        let cut = format!("{}...", "é".repeat(98));
        assert_eq!(brief(&"é".repeat(101)), cut);
        assert_eq!(brief(&cut), cut);
    }
}
