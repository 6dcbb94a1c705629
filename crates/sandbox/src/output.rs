//! What is kept of a stream: its head and its tail, never more than was agreed, however much comes.

use std::collections::VecDeque;

use toolgate_contract::Stream;
use toolgate_guard::clean::escape::{decode, decoded_len};

/// Takes a stream piece by piece. How it is cut into pieces makes no difference to what is kept.
#[derive(Debug)]
pub(crate) struct Keep {
    most: Share,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    newlines: u64,
    ends_a_line: bool,
    utf8: Utf8,
}

impl Keep {
    /// Keeps at most this much: half of it for the head, the rest for the tail.
    pub(crate) fn new(keep_bytes: usize, keep_lines: usize) -> Self {
        Self {
            most: Share { bytes: keep_bytes, lines: keep_lines },
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            newlines: 0,
            ends_a_line: true,
            utf8: Utf8::default(),
        }
    }

    /// The next piece.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.newlines += newlines(piece);
        self.ends_a_line = piece.last().map_or(self.ends_a_line, |last| *last == b'\n');
        self.utf8.push(piece);

        let room = self.most.half().bytes - self.head.len();
        let (first, rest) = piece.split_at(room.min(piece.len()));
        self.head.extend_from_slice(first);

        let most = self.most.other_half().bytes;
        let last = &rest[rest.len().saturating_sub(most)..];
        let over = (self.tail.len() + last.len()).saturating_sub(most);
        self.tail.drain(..over);
        self.tail.extend(last);
    }

    /// What was kept.
    pub(crate) fn finish(self) -> Stream {
        let all = Stream {
            text: String::new(),
            bytes: self.bytes,
            lines: self.newlines + u64::from(!self.ends_a_line),
            shown_bytes: self.bytes,
            lossy: self.utf8.is_broken(),
        };
        let mut head = self.head;
        let mut tail = Vec::from(self.tail);
        let (head, tail) = if (head.len() + tail.len()) as u64 == self.bytes {
            head.append(&mut tail);
            if measure(&head).fits(self.most) {
                return Stream { text: decode(&head).into_owned(), ..all };
            }
            (prefix(&head, self.most.half()), suffix(&head, self.most.other_half()))
        } else {
            (prefix(without_cut_end(&head), self.most.half()), suffix(without_cut_start(&tail), self.most.other_half()))
        };
        let shown_bytes = (head.len() + tail.len()) as u64;
        let lines = self.newlines - newlines(head) - newlines(tail);
        let text = join(head, &missing(lines, self.bytes - shown_bytes), tail);
        Stream { text, shown_bytes, ..all }
    }
}

/// The line that stands for what is not shown, on a line of its own.
fn join(head: &[u8], missing: &str, tail: &[u8]) -> String {
    let mut text = decode(head).into_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(missing);
    text.push('\n');
    text.push_str(&decode(tail));
    text
}

fn missing(lines: u64, bytes: u64) -> String {
    format!("[... {lines} lines, {bytes} bytes not shown ...]")
}

/// So much text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Share {
    bytes: usize,
    lines: usize,
}

impl Share {
    fn half(self) -> Self {
        Self { bytes: self.bytes / 2, lines: self.lines / 2 }
    }

    fn other_half(self) -> Self {
        Self { bytes: self.bytes - self.bytes / 2, lines: self.lines - self.lines / 2 }
    }

    fn fits(self, most: Self) -> bool {
        self.bytes <= most.bytes && self.lines <= most.lines
    }
}

/// A character, or bytes that are none.
struct Sign {
    bytes: usize,
    /// Bytes it takes once it is text.
    shown: usize,
    newline: bool,
}

fn signs(bytes: &[u8]) -> impl Iterator<Item = Sign> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let valid =
            chunk.valid().chars().map(|c| Sign { bytes: c.len_utf8(), shown: c.len_utf8(), newline: c == '\n' });
        let broken = chunk.invalid();
        let replaced = Sign { bytes: broken.len(), shown: decoded_len(broken), newline: false };
        valid.chain((!broken.is_empty()).then_some(replaced))
    })
}

/// How much text this is. A last line without an end is a line.
fn measure(bytes: &[u8]) -> Share {
    let shown = signs(bytes).map(|sign| sign.shown).sum();
    let open = bytes.last().is_some_and(|last| *last != b'\n');
    Share { bytes: shown, lines: newlines(bytes) as usize + usize::from(open) }
}

/// The longest beginning that fits. It ends with a line, unless half of it would be lost that way.
fn prefix(bytes: &[u8], most: Share) -> &[u8] {
    let (mut len, mut taken, mut at_start) = (0, Share::default(), true);
    for sign in signs(bytes) {
        taken.bytes += sign.shown;
        taken.lines += usize::from(at_start);
        if !taken.fits(most) {
            break;
        }
        at_start = sign.newline;
        len += sign.bytes;
    }
    let whole = bytes[..len].iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    if whole * 2 > len { &bytes[..whole] } else { &bytes[..len] }
}

/// The longest end that fits. It starts with a line, unless half of it would be lost that way.
fn suffix(bytes: &[u8], most: Share) -> &[u8] {
    let mut left = measure(bytes);
    let mut start = 0;
    for sign in signs(bytes) {
        if left.fits(most) {
            break;
        }
        left.bytes -= sign.shown;
        left.lines -= usize::from(sign.newline);
        start += sign.bytes;
    }
    let end = &bytes[start..];
    if bytes[..start].ends_with(b"\n") {
        return end;
    }
    let whole = end.iter().position(|byte| *byte == b'\n').map_or(end.len(), |first| first + 1);
    if whole * 2 < end.len() { &end[whole..] } else { end }
}

/// Without the beginning of a character that was cut here.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    match bytes.utf8_chunks().last() {
        Some(chunk) if is_beginning(chunk.invalid()) => &bytes[..bytes.len() - chunk.invalid().len()],
        _ => bytes,
    }
}

/// Without the end of a character that was cut here.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    &bytes[rest..]
}

/// Could these bytes become a character if more came?
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Is a stream UTF-8 throughout, also where nothing of it is kept?
#[derive(Debug, Default)]
struct Utf8 {
    /// The beginning of a character whose rest has not come yet.
    open: Vec<u8>,
    broken: bool,
}

impl Utf8 {
    fn push(&mut self, mut piece: &[u8]) {
        if self.broken {
            return;
        }
        while !self.open.is_empty() {
            let Some((first, rest)) = piece.split_first() else { return };
            piece = rest;
            let mut open = std::mem::take(&mut self.open);
            open.push(*first);
            self.check(&open);
        }
        self.check(piece);
    }

    fn check(&mut self, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(_) => {}
            Err(error) if error.error_len().is_none() => self.open = bytes[error.valid_up_to()..].to_vec(),
            Err(_) => self.broken = true,
        }
    }

    fn is_broken(&self) -> bool {
        self.broken || !self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keep(most: (usize, usize), pieces: &[&[u8]]) -> Stream {
        let mut keep = Keep::new(most.0, most.1);
        pieces.iter().for_each(|piece| keep.push(piece));
        keep.finish()
    }

    fn stream(text: &str, bytes: u64, lines: u64, shown_bytes: u64) -> Stream {
        Stream { text: text.into(), bytes, lines, shown_bytes, lossy: false }
    }

    /// What is kept of `input` when it comes at once, and when it comes byte by byte.
    fn check(most: (usize, usize), input: impl AsRef<[u8]>, expected: Stream) {
        let input = input.as_ref();
        assert_eq!(keep(most, &[input]), expected);
        assert_eq!(keep(most, &input.chunks(1).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn what_fits_is_kept_as_it_is() {
        check((10, 10), "", stream("", 0, 0, 0));
        check((0, 0), "", stream("", 0, 0, 0));
        check((10, 2), "one\ntwo\n", stream("one\ntwo\n", 8, 2, 8));
        check((10, 2), "one\ntwo", stream("one\ntwo", 7, 2, 7));
        check((10, 1), "0123456789", stream("0123456789", 10, 1, 10));
        check((3, 3), "\n\n\n", stream("\n\n\n", 3, 3, 3));
    }

    #[test]
    fn too_many_lines_leave_the_first_and_the_last() {
        check((1_000, 4), "1\n2\n3\n4\n5\n6\n", stream("1\n2\n[... 2 lines, 4 bytes not shown ...]\n5\n6\n", 12, 6, 8));
        // The tail starts with a line as it is, and loses none for it.
        check(
            (1_000, 6),
            "1\n2\n3\n4\n5\n6\n7\n8\n",
            stream("1\n2\n3\n[... 2 lines, 4 bytes not shown ...]\n6\n7\n8\n", 16, 8, 12),
        );
        check((1_000, 2), "1\n2\n3", stream("1\n[... 1 lines, 2 bytes not shown ...]\n3", 5, 3, 3));
        check((1_000, 1), "1\n2\n3", stream("[... 2 lines, 4 bytes not shown ...]\n3", 5, 3, 1));
        check((1_000, 0), "1\n2\n3", stream("[... 2 lines, 5 bytes not shown ...]\n", 5, 3, 0));
    }

    #[test]
    fn too_many_bytes_leave_whole_lines() {
        let lines: String = (100..200).map(|n| format!("{n}\n")).collect();
        check((18, 100), &lines, stream("100\n101\n[... 96 lines, 384 bytes not shown ...]\n198\n199\n", 400, 100, 16));
    }

    #[test]
    fn a_long_line_is_cut_where_it_must_be() {
        check(
            (10, 10),
            "abcdefghijklmnopqrstuvwxyz",
            stream("abcde\n[... 0 lines, 16 bytes not shown ...]\nvwxyz", 26, 1, 10),
        );
        // The start of the long line is more than half of the head, its end more than half of the tail.
        check(
            (10, 10),
            "a\nbcdefghijklmnopqrstuvwx\ny",
            stream("a\nbcd\n[... 0 lines, 17 bytes not shown ...]\nvwx\ny", 27, 3, 10),
        );
        check((0, 10), "abc\n", stream("[... 1 lines, 4 bytes not shown ...]\n", 4, 1, 0));
        check((1, 10), "abc", stream("[... 0 lines, 2 bytes not shown ...]\nc", 3, 1, 1));
    }

    #[test]
    fn a_character_is_kept_whole_or_not_at_all() {
        // Each takes three bytes, and five go to either end.
        check(
            (10, 10),
            "\u{20AC}".repeat(10),
            stream("\u{20AC}\n[... 0 lines, 24 bytes not shown ...]\n\u{20AC}", 30, 1, 6),
        );
        // Four bytes, and three.
        check((6, 10), "\u{1F600}".repeat(10), stream("[... 0 lines, 40 bytes not shown ...]\n", 40, 1, 0));
        // Two: a cut in the middle of one is not the stream's fault.
        check((6, 10), "\u{E9}".repeat(10), stream("\u{E9}\n[... 0 lines, 16 bytes not shown ...]\n\u{E9}", 20, 1, 4));
    }

    #[test]
    fn what_is_not_text_is_replaced_and_told() {
        let lossy = |stream: Stream| Stream { lossy: true, ..stream };
        check((20, 9), b"a\xFFb\0c", lossy(stream("a\u{FFFD}b\0c", 5, 1, 5)));
        // What an 8-bit terminal takes for a control is one, so that whoever cleans the text finds it.
        check((20, 9), b"a\x9B31mb\x85", lossy(stream("a\u{9B}31mb\u{85}", 7, 1, 7)));
        // The end of the stream is in the middle of a character.
        check((20, 9), b"a\xE2\x82", lossy(stream("a\u{FFFD}", 3, 1, 3)));
        // As text these take more than the six bytes they are.
        check((8, 9), [0xFF; 6], lossy(stream("\u{FFFD}\n[... 0 lines, 4 bytes not shown ...]\n\u{FFFD}", 6, 1, 2)));
        // Nothing of the broken part is kept.
        let mut far = vec![b'x'; 100];
        far[50] = 0x80;
        check((4, 9), far, lossy(stream("xx\n[... 0 lines, 96 bytes not shown ...]\nxx", 100, 1, 4)));
    }

    #[test]
    fn memory_stays_bounded_on_one_endless_line() {
        let mut keep = Keep::new(1_000, 10);
        let piece = vec![b'x'; 1 << 16];
        for _ in 0..1 << 10 {
            keep.push(&piece);
            keep.push(b"x");
            assert!(keep.head.capacity() + keep.tail.capacity() <= 4_000);
        }
        let stream = keep.finish();
        assert_eq!((stream.bytes, stream.lines, stream.shown_bytes), ((1 << 26) + (1 << 10), 1, 1_000));
    }

    /// Bytes with many line ends, characters of every length and broken ones.
    fn noise() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            4 => "[a-z]{0,6}".prop_map(String::into_bytes),
            4 => Just(b"\n".to_vec()),
            2 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
            1 => prop::collection::vec(any::<u8>(), 1..4),
        ];
        prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
    }

    /// The text without the line that stands for what is missing, and that line.
    fn taken_apart(text: &str) -> Option<(&str, &str)> {
        let start = text.find("[... ")?;
        let end = start + text[start..].find("not shown ...]\n")? + "not shown ...]\n".len();
        Some((&text[..start], &text[end..]))
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            input in noise(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            most in (0_usize..80, 0_usize..20),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
            cuts.extend([0, input.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &input[cut[0]..cut[1]]).collect();
            prop_assert_eq!(keep(most, &pieces), keep(most, &[&input]));
        }

        #[test]
        fn nothing_exceeds_what_was_agreed(input in noise(), most in (0_usize..120, 0_usize..30)) {
            let stream = keep(most, &[&input]);
            let all = decode(&input);
            prop_assert_eq!(stream.bytes, input.len() as u64);
            prop_assert_eq!(stream.lines, input.split_inclusive(|byte| *byte == b'\n').count() as u64);
            prop_assert_eq!(stream.lossy, std::str::from_utf8(&input).is_err());
            if measure(&input).fits(Share { bytes: most.0, lines: most.1 }) {
                prop_assert_eq!(stream.shown_bytes, stream.bytes);
                prop_assert_eq!(stream.text, all);
                return Ok(());
            }
            let (head, tail) = taken_apart(&stream.text).expect("a line that says what is missing");
            // A line end is added where the head has none, and then it came not from the stream.
            let added = stream.lossy || (head.len() + tail.len()) as u64 != stream.shown_bytes;
            let head = if added { head.strip_suffix('\n').unwrap_or(head) } else { head };
            prop_assert!(stream.shown_bytes < stream.bytes);
            prop_assert!(head.len() + tail.len() <= most.0);
            prop_assert!(head.lines().count() + tail.lines().count() <= most.1);
            prop_assert!(all.starts_with(head) && all.ends_with(tail));
            if !stream.lossy {
                prop_assert_eq!((head.len() + tail.len()) as u64, stream.shown_bytes);
            }
        }
    }
}
