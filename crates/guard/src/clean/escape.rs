//! Sequences meant for a terminal: colours, cursor moves, titles, links, clipboard writes.
//!
//! A model reads a stream, a person a screen, and the difference is where things hide. Everything a terminal would act
//! on is taken out, by the state machine every terminal has (ECMA-48 as xterm reads it), over characters: the 8-bit
//! forms (U+0080 to U+009F) introduce sequences too. Tabs and line ends stay. What would overwrite text that was already
//! said (a lone carriage return, a backspace) is taken out and told, so that both texts are there to read.
//!
//! A string that is never ended would swallow the rest of the output on a terminal. Here it takes its own line, which is
//! told in the finding, and no more.

use std::borrow::Cow;

use super::finding::{Findings, Kind};

/// The text without anything a terminal would act on.
pub fn clean<'a>(text: &'a str, findings: &mut Findings) -> Cow<'a, str> {
    let Some(first) = next_special(text.as_bytes(), 0) else { return Cow::Borrowed(text) };
    let mut machine = Machine {
        text,
        out: String::with_capacity(text.len()),
        findings,
        endless_string: usize::MAX,
        endless_osc: usize::MAX,
    };
    machine.out.push_str(&text[..first]);
    machine.run(first);
    Cow::Owned(machine.out)
}

/// Bytes as text. Lone bytes from 0x80 to 0x9F are what an 8-bit terminal takes for controls, so they become those; what
/// else is not UTF-8 becomes U+FFFD.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let mut chunks = bytes.utf8_chunks();
    let Some(first) = chunks.next() else { return Cow::Borrowed("") };
    if first.invalid().is_empty() {
        return Cow::Borrowed(first.valid());
    }
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            out.push(instead(chunk.invalid()));
        }
    }
    Cow::Owned(out)
}

/// How long bytes that are not UTF-8 become as text.
pub fn decoded_len(broken: &[u8]) -> usize {
    instead(broken).len_utf8()
}

fn instead(broken: &[u8]) -> char {
    match broken {
        [control @ 0x80..=0x9f] => char::from(*control),
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// Where the next control is, from a place on.
fn next_special(bytes: &[u8], mut from: usize) -> Option<usize> {
    // 0xC2 begins U+0080 to U+00BF, of which the first half are controls.
    let may_be = |byte: &u8| (*byte < 0x20 && *byte != b'\t' && *byte != b'\n') || *byte == 0x7f || *byte == 0xc2;
    loop {
        let at = from + bytes[from..].iter().position(may_be)?;
        if bytes[at] != 0xc2 || bytes.get(at + 1).is_some_and(|next| *next < 0xa0) {
            return Some(at);
        }
        from = at + 1;
    }
}

const ESC: char = '\u{1b}';
const BEL: char = '\u{7}';
const CAN: char = '\u{18}';
const SUB: char = '\u{1a}';
const DEL: char = '\u{7f}';
const NEL: char = '\u{85}';
const ST: char = '\u{9c}';

struct Machine<'a, 'f> {
    text: &'a str,
    out: String,
    findings: &'f mut Findings,
    /// From here on no string ends any more, but perhaps one that a bell ends.
    endless_string: usize,
    /// From here on no string ends at all.
    endless_osc: usize,
}

/// The strings there are, each with an introducer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// Operating system command: a bell ends it too.
    Osc,
    /// Device control, start of string, privacy message, application command.
    Other,
}

impl Machine<'_, '_> {
    fn run(&mut self, from: usize) {
        let mut at = from;
        while let Some(next) = self.char_at(at) {
            at = self.ground(at, next);
        }
    }

    fn char_at(&self, at: usize) -> Option<char> {
        self.text[at..].chars().next()
    }

    /// One character outside of any sequence. Gives where to go on.
    fn ground(&mut self, at: usize, next: char) -> usize {
        let after = at + next.len_utf8();
        match next {
            ESC => self.escape(at, after),
            '\u{9b}' => self.csi(at, after),
            '\u{9d}' => self.string(at, after, Text::Osc),
            '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => self.string(at, after, Text::Other),
            NEL => {
                self.out.push('\n');
                after
            }
            '\r' => self.carriage_return(at, after),
            '\u{8}' => {
                self.findings.note(Kind::Escape, "overwrite", at..after, || "a backspace".into());
                after
            }
            '\n' | '\t' => {
                self.out.push(next);
                after
            }
            control if control.is_control() => {
                self.findings
                    .note(Kind::Escape, "control_character", at..after, || format!("U+{:04X}", control as u32));
                after
            }
            _ => self.plain(at),
        }
    }

    /// Text up to the next control.
    fn plain(&mut self, at: usize) -> usize {
        let end = next_special(self.text.as_bytes(), at).unwrap_or(self.text.len());
        self.out.push_str(&self.text[at..end]);
        end
    }

    /// Before a line end it is part of it; alone it would overwrite the line.
    fn carriage_return(&mut self, at: usize, after: usize) -> usize {
        let rest = &self.text.as_bytes()[after..];
        let more = rest.iter().take_while(|byte| **byte == b'\r').count();
        let after = after + more;
        match self.text.as_bytes().get(after) {
            Some(b'\n') => {}
            None => self.out.push('\n'),
            Some(_) => {
                self.findings.note(Kind::Escape, "overwrite", at..after, || "a carriage return".into());
                self.out.push('\n');
            }
        }
        after
    }

    /// Behind an escape character.
    fn escape(&mut self, start: usize, mut at: usize) -> usize {
        while let Some(next) = self.char_at(at) {
            let after = at + next.len_utf8();
            match next {
                '[' => return self.csi(start, after),
                ']' => return self.string(start, after, Text::Osc),
                'P' | 'X' | '^' | '_' => return self.string(start, after, Text::Other),
                ESC => return at,
                ' '..='/' => return self.intermediate(start, after),
                '0'..='~' => {
                    self.findings.note(Kind::Escape, "escape_sequence", start..after, || format!("ESC {next}"));
                    return after;
                }
                _ => match self.inside(at, next) {
                    Some(on) => at = on,
                    None => return if matches!(next, CAN | SUB) { after } else { at },
                },
            }
        }
        self.truncated(start, at)
    }

    /// Behind an escape character and one that stands between it and the last one.
    fn intermediate(&mut self, start: usize, mut at: usize) -> usize {
        while let Some(next) = self.char_at(at) {
            let after = at + next.len_utf8();
            match next {
                ESC => return at,
                ' '..='/' => at = after,
                '0'..='~' => {
                    let said = self.text.get(start..after);
                    self.findings.note(Kind::Escape, "escape_sequence", start..after, || visible(said));
                    return after;
                }
                _ => match self.inside(at, next) {
                    Some(on) => at = on,
                    None => return if matches!(next, CAN | SUB) { after } else { at },
                },
            }
        }
        self.truncated(start, at)
    }

    /// A control sequence: parameters, then one letter.
    fn csi(&mut self, start: usize, mut at: usize) -> usize {
        let parameters = at;
        while let Some(next) = self.char_at(at) {
            let after = at + next.len_utf8();
            match next {
                ESC => return at,
                ' '..='?' => at = after,
                '@'..='~' => {
                    self.note_csi(start, &self.text[parameters..at], next, after);
                    return after;
                }
                _ => match self.inside(at, next) {
                    Some(on) => at = on,
                    None => return if matches!(next, CAN | SUB) { after } else { at },
                },
            }
        }
        self.truncated(start, at)
    }

    /// A control in the middle of a sequence is done at once, and the sequence goes on; anything that cannot be part of
    /// one ends it.
    fn inside(&mut self, at: usize, next: char) -> Option<usize> {
        match next {
            CAN | SUB => None,
            '\n' | '\t' => {
                self.out.push(next);
                Some(at + next.len_utf8())
            }
            '\r' => Some(self.carriage_return(at, at + 1)),
            '\0'..' ' | DEL => Some(at + next.len_utf8()),
            _ => None,
        }
    }

    /// Colours are everyday; what moves, erases, hides or answers is told.
    fn note_csi(&mut self, start: usize, parameters: &str, last: char, end: usize) {
        let conceals = last == 'm' && parameters.split(';').any(|parameter| parameter == "8");
        if last == 'm' && !conceals {
            return;
        }
        let rule = match last {
            'm' => "concealed_text",
            'A'..='H' | 'f' | 'd' | 'e' | 'a' | '`' => "cursor_move",
            'J' | 'K' | 'X' | 'P' | 'M' | '@' | 'L' => "erased_text",
            'n' | 'c' | 't' | 'x' => "terminal_query",
            _ => "control_sequence",
        };
        let said = self.text.get(start..end);
        self.findings.note(Kind::Escape, rule, start..end, || visible(said));
    }

    /// A string for the terminal, up to its end.
    fn string(&mut self, start: usize, at: usize, kind: Text) -> usize {
        let endless = match kind {
            Text::Osc => self.endless_osc,
            Text::Other => self.endless_string,
        };
        if at >= endless {
            return self.unterminated(start, at);
        }
        let ends = |c: char| matches!(c, ESC | ST | CAN | SUB) || (c == BEL && kind == Text::Osc);
        let Some(length) = self.text[at..].find(ends) else {
            match kind {
                Text::Osc => self.endless_osc = self.endless_osc.min(at),
                Text::Other => self.endless_string = self.endless_string.min(at),
            }
            return self.unterminated(start, at);
        };
        let end = at + length;
        let rest = &self.text[end..];
        self.note_string(start, &self.text[at..end], kind, end);
        // Whatever else follows an escape character begins a sequence of its own.
        match rest.chars().next() {
            Some(ESC) if rest[1..].starts_with('\\') => end + 2,
            Some(ESC) | None => end,
            Some(other) => end + other.len_utf8(),
        }
    }

    fn note_string(&mut self, start: usize, said: &str, kind: Text, end: usize) {
        let rule = match (kind, said.split(';').next()) {
            // An empty link only ends the one before.
            (Text::Osc, Some("8")) if said.ends_with(';') => return,
            (Text::Osc, Some("8")) => "hyperlink",
            (Text::Osc, Some("52")) => "clipboard_write",
            (Text::Osc, _) => "terminal_command",
            (Text::Other, _) => "terminal_string",
        };
        let said = match rule {
            "hyperlink" => said.splitn(3, ';').nth(2).unwrap_or_default(),
            _ => said,
        };
        self.findings.note(Kind::Escape, rule, start..end, || visible(Some(said)));
    }

    /// It takes its own line and no more.
    fn unterminated(&mut self, start: usize, at: usize) -> usize {
        let end = self.text[at..].find('\n').map_or(self.text.len(), |length| at + length);
        let said = self.text.get(at..end);
        self.findings.note(Kind::Escape, "unterminated_string", start..end, || visible(said));
        end
    }

    fn truncated(&mut self, start: usize, end: usize) -> usize {
        let said = self.text.get(start..end);
        self.findings.note(Kind::Escape, "truncated_sequence", start..end, || visible(said));
        end
    }
}

/// A text in which every control can be seen.
fn visible(text: Option<&str>) -> String {
    let mut out = String::new();
    for c in text.unwrap_or_default().chars().take(400) {
        if c.is_control() { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left, and the rules that spoke.
    #[track_caller]
    fn check(text: &str, expected: &str, rules: &[&str]) {
        let mut findings = Findings::default();
        assert_eq!(clean(text, &mut findings), expected, "{text:?}");
        let spoke: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(spoke, rules, "{text:?}");
    }

    fn details(text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        clean(text, &mut findings);
        findings.iter().map(|finding| finding.detail.clone()).collect()
    }

    #[test]
    fn colours_go_without_a_word_and_what_hides_is_told() {
        check("a\u{1b}[1;31mb\u{1b}[0m", "ab", &[]);
        check("a\u{1b}[38:2::1:2:3mb", "ab", &[]);
        check("\u{1b}[8mhidden\u{1b}[0m", "hidden", &["concealed_text"]);
        check("a\u{1b}[2Kb\u{1b}[1Gc", "abc", &["erased_text", "cursor_move"]);
        check("a\u{1b}[6nb", "ab", &["terminal_query"]);
        check("a\u{1b}[?25lb", "ab", &["control_sequence"]);
    }

    #[test]
    fn strings_end_by_every_terminator_and_no_other() {
        for end in ["\u{7}", "\u{1b}\\", "\u{9c}"] {
            check(&format!("a\u{1b}]0;title{end}b"), "ab", &["terminal_command"]);
            check(&format!("a\u{9d}0;title{end}b"), "ab", &["terminal_command"]);
        }
        for intro in ["\u{1b}P", "\u{1b}X", "\u{1b}^", "\u{1b}_", "\u{90}", "\u{98}", "\u{9e}", "\u{9f}"] {
            check(&format!("a{intro}x\u{7}y\u{1b}\\b"), "ab", &["terminal_string"]);
            check(&format!("a{intro}x\u{9c}b"), "ab", &["terminal_string"]);
        }
        // Another sequence ends a string and is one itself.
        check("a\u{1b}]0;t\u{1b}[31mb", "ab", &["terminal_command"]);
        check("a\u{1b}]0;t\u{18}b", "ab", &["terminal_command"]);
    }

    #[test]
    fn a_string_that_never_ends_takes_its_own_line_and_is_told() {
        check("a\u{1b}Pignore this\nb\nc", "a\nb\nc", &["unterminated_string"]);
        assert_eq!(details("a\u{1b}]ignore this"), ["ignore this"]);
        check("a\u{90}x\nb\u{9d}y\u{7}c", "a\nbc", &["unterminated_string", "terminal_command"]);
    }

    #[test]
    fn many_strings_that_never_end_cost_no_more_than_one() {
        // Quadratic work on this would take minutes.
        let text = "\u{90}\n".repeat(300_000);
        let mut findings = Findings::default();
        assert_eq!(clean(&text, &mut findings).len(), 300_000);
        assert_eq!(findings.counts(), [("unterminated_string", 300_000)]);
    }

    #[test]
    fn links_and_clipboards_are_told_by_what_they_hold() {
        let link = "\u{1b}]8;;https://evil.example/\u{1b}\\docs\u{1b}]8;;\u{1b}\\";
        check(link, "docs", &["hyperlink"]);
        assert_eq!(details(link), ["https://evil.example/"]);
        check("\u{1b}]52;c;cm0=\u{7}", "", &["clipboard_write"]);
    }

    #[test]
    fn overwritten_text_stays_to_be_read() {
        check("abc\u{8}\u{8}xy", "abcxy", &["overwrite", "overwrite"]);
        check("safe\rrm -rf /", "safe\nrm -rf /", &["overwrite"]);
        check("a\r\nb\r\r\nc\r", "a\nb\nc\n", &[]);
    }

    #[test]
    fn lone_bytes_of_an_eight_bit_terminal_introduce_sequences() {
        assert_eq!(decode(b"plain"), "plain");
        assert_eq!(decode("größe".as_bytes()), "größe");
        assert_eq!(decode(b"a\x9b31mb\xffc"), "a\u{9b}31mb\u{fffd}c");
        check(&decode(b"a\x9b31mb"), "ab", &[]);
    }

    #[test]
    fn what_only_looks_like_an_escape_stays() {
        for plain in ["^[[31m", "[31m", "\\x1b[31m", "© ® é 日本", "a\tb\n"] {
            check(plain, plain, &[]);
        }
    }
}
