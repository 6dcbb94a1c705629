//! Cutting text that is too long, so that what is left is still text and says that it was cut.

use toolgate_contract::{Truncated, Unit};

/// The most that the notice adds to a cut text, in bytes.
pub const NOTICE: usize = 64;

/// Keeps the head of the text, at most `max_bytes` and `max_lines` of it. A cut text ends with a line that says how
/// much of it is there; that line comes on top, and is never longer than [`NOTICE`].
pub fn cut(mut text: String, max_bytes: usize, max_lines: usize) -> (String, Option<Truncated>) {
    let by_lines = end_of_line(&text, max_lines);
    let by_bytes = text.floor_char_boundary(max_bytes);
    let keep = by_lines.min(by_bytes);
    if keep == text.len() {
        return (text, None);
    }
    let truncated = if by_lines <= by_bytes {
        Truncated { shown: count(max_lines), total: count(text.lines().count()), unit: Unit::Lines }
    } else {
        Truncated { shown: count(keep), total: count(text.len()), unit: Unit::Bytes }
    };
    text.truncate(keep);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&notice(&truncated));
    (text, Some(truncated))
}

/// Where the line with this number ends, its newline included; the end of the text when there are fewer.
fn end_of_line(text: &str, number: usize) -> usize {
    match number.checked_sub(1) {
        None => 0,
        Some(newlines_before) => text
            .bytes()
            .enumerate()
            .filter(|(_, b)| *b == b'\n')
            .nth(newlines_before)
            .map_or(text.len(), |(at, _)| at + 1),
    }
}

fn notice(truncated: &Truncated) -> String {
    let unit = match truncated.unit {
        Unit::Bytes => "bytes",
        Unit::Lines => "lines",
        Unit::Items => "items",
    };
    format!("[truncated: {} of {} {unit}]", truncated.shown, truncated.total)
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, max_bytes: usize, max_lines: usize, expected: &str, truncated: Option<(u64, u64, Unit)>) {
        let truncated = truncated.map(|(shown, total, unit)| Truncated { shown, total, unit });
        assert_eq!(cut(text.into(), max_bytes, max_lines), (expected.into(), truncated), "{text:?}");
    }

    #[test]
    fn what_fits_is_left_alone() {
        check("", 0, 0, "", None);
        check("abc", 3, 1, "abc", None);
        check("a\nb\n", 4, 2, "a\nb\n", None);
        check("a\nb", 3, 2, "a\nb", None);
    }

    #[test]
    fn too_many_lines() {
        check("a\nb\nc\n", 100, 2, "a\nb\n[truncated: 2 of 3 lines]", Some((2, 3, Unit::Lines)));
        check("a\n\n\nd", 100, 2, "a\n\n[truncated: 2 of 4 lines]", Some((2, 4, Unit::Lines)));
        check("a\nb", 100, 0, "[truncated: 0 of 2 lines]", Some((0, 2, Unit::Lines)));
    }

    #[test]
    fn too_many_bytes() {
        check("abcdef", 4, 9, "abcd\n[truncated: 4 of 6 bytes]", Some((4, 6, Unit::Bytes)));
        check("abc\ndef", 4, 9, "abc\n[truncated: 4 of 7 bytes]", Some((4, 7, Unit::Bytes)));
        check("abc", 0, 9, "[truncated: 0 of 3 bytes]", Some((0, 3, Unit::Bytes)));
    }

    #[test]
    fn the_tighter_limit_speaks() {
        check("a\nbbbbbb\nc", 4, 2, "a\nbb\n[truncated: 4 of 10 bytes]", Some((4, 10, Unit::Bytes)));
        check("a\nbbbbbb\nc", 4, 1, "a\n[truncated: 1 of 3 lines]", Some((1, 3, Unit::Lines)));
    }

    #[test]
    fn a_character_is_kept_whole_or_not_at_all() {
        check("aé", 2, 9, "a\n[truncated: 1 of 3 bytes]", Some((1, 3, Unit::Bytes)));
        check("😀", 3, 9, "[truncated: 0 of 4 bytes]", Some((0, 4, Unit::Bytes)));
    }

    #[test]
    fn the_longest_notice_has_the_promised_length() {
        let longest = notice(&Truncated { shown: u64::MAX, total: u64::MAX, unit: Unit::Bytes });
        assert_eq!("\n".len() + longest.len(), NOTICE);
    }

    proptest! {
        #[test]
        fn a_cut_text_is_a_head_and_a_notice(text in "[aé😀\n]{0,40}", max_bytes in 0usize..60, max_lines in 0usize..12) {
            let (out, truncated) = cut(text.clone(), max_bytes, max_lines);
            let Some(truncated) = truncated else {
                prop_assert!(text.len() <= max_bytes && text.lines().count() <= max_lines);
                prop_assert_eq!(out, text);
                return Ok(());
            };
            prop_assert!(text.len() > max_bytes || text.lines().count() > max_lines);
            prop_assert!(out.len() <= max_bytes + NOTICE);
            let body = out.strip_suffix(&notice(&truncated)).unwrap();
            let head = match truncated.unit {
                Unit::Bytes => &body[..usize::try_from(truncated.shown).unwrap()],
                Unit::Lines | Unit::Items => body,
            };
            prop_assert!(body == head || (body.strip_suffix('\n') == Some(head) && !head.ends_with('\n')));
            prop_assert!(text.starts_with(head));
            prop_assert!(head.len() <= max_bytes && head.lines().count() <= max_lines);
            prop_assert!(truncated.shown < truncated.total);
            // As much as possible is kept: one more character breaks a limit.
            let more = &text[..head.len() + text[head.len()..].chars().next().unwrap().len_utf8()];
            prop_assert!(more.len() > max_bytes || more.lines().count() > max_lines);
        }
    }
}
