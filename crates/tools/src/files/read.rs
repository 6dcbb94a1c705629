//! `read`: the lines of a file.

use std::{io::Read as _, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::Digest as _;
use toolgate_contract::{
    ActionType, Caps, Category, Effect, EffectKind, Example, Fault, Needs, SafetyClass, ToolDef, Truncated, Unit,
};

use super::{
    fault::{self, IS_A_DIRECTORY, NOT_A_REGULAR_FILE},
    text::{self, Encoding, HEAD, MAX_WHOLE},
    workspace::OpenFile,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "read".into(),
            summary: "Read a file, or some lines of it.".into(),
            description: "Reads a text file. Each line comes as its number, a tab and the text; the numbers are not \
                part of the file. Without a range you get the first 2000 lines, at most 50 KB. For more, call again \
                with `offset` set to the last line number you have; this works on files of any size. UTF-8 and UTF-16 \
                are decoded, and line endings are shown as `\\n` (`line_endings` says what they are). A binary file \
                comes as base64 from its start, whatever the range. `sha256` in the structured output can be given to \
                `edit` as `expected_sha256`."
                .into(),
            category: Category::FileSystem,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            needs: Needs::READ_FILES,
            timeout: Duration::from_secs(30),
            // The lines that are shown by default, and what is said below them.
            caps: Caps { output_lines: DEFAULT_LIMIT + 4, ..Caps::DEFAULT },
            examples: vec![
                Example { title: "A whole file".into(), arguments: json!({ "path": "src/main.rs" }) },
                Example {
                    title: "Lines 101 to 150".into(),
                    arguments: json!({ "path": "src/main.rs", "offset": 100, "limit": 50 }),
                },
            ],
            failures: fault::modes(&[&IS_A_DIRECTORY, &NOT_A_REGULAR_FILE]),
            ..ToolDef::default()
        },
        |input: &Input| vec![Effect::on(EffectKind::FsRead, input.path.clone())],
        run,
    )
}

const DEFAULT_LIMIT: usize = 2_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file, relative to the workspace or absolute inside it.
    path: String,
    /// How many lines to skip.
    #[serde(default)]
    offset: u64,
    /// How many lines to return at most; 2000 when it is left out.
    #[serde(default)]
    limit: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The file that was read, relative to the workspace.
    path: String,
    /// What the file is encoded in.
    encoding: Encoding,
    /// True when bytes could not be decoded and are shown as U+FFFD.
    lossy: bool,
    /// How the lines that were read end.
    line_endings: LineEndings,
    /// The lines without numbers; null for a binary file.
    text: Option<String>,
    /// The first bytes of a binary file; null for text.
    base64: Option<String>,
    /// The number of the first line in `text`, counting from 1; null when there is none.
    first_line: Option<u64>,
    /// The number of the last line in `text`.
    last_line: Option<u64>,
    /// How many lines the file has; null when a large file was not read to its end.
    total_lines: Option<u64>,
    /// The size of the file.
    size_bytes: u64,
    /// The SHA-256 of the whole file in hex; null for files over 10 MiB.
    sha256: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LineEndings {
    None,
    Lf,
    Crlf,
    Mixed,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let mut opened = cx.workspace()?.open_file(&input.path)?;
    let mut head = Vec::with_capacity(HEAD);
    (&mut opened.file).take(HEAD as u64).read_to_end(&mut head).map_err(|error| fault::from_io(&error, &input.path))?;
    match Encoding::of(&head) {
        Encoding::Binary => read_binary(cx, opened, head),
        encoding => read_text(cx, opened, head, encoding, &input),
    }
}

fn read_text(
    cx: &Cx,
    mut opened: OpenFile,
    head: Vec<u8>,
    encoding: Encoding,
    input: &Input,
) -> Result<Answer<Output>, Fault> {
    let most = text::line_budget(cx) as u64;
    let take = input.limit.unwrap_or(DEFAULT_LIMIT as u64).min(most);
    let mut lines = Lines::new(input.offset, take, text::byte_budget(cx));
    let mut source = Source::new(cx, &mut opened, head);
    let mut decoder = encoding.decoder();
    let mut decoded = String::with_capacity(2 * CHUNK);
    let mut lossy = false;
    let mut mark = encoding.mark_len();
    loop {
        let bytes = source.next()?;
        let last = bytes.is_empty();
        let mut rest = &bytes[mark..];
        mark = 0;
        loop {
            let (result, read, broken) = decoder.decode_to_string(rest, &mut decoded, last);
            lossy |= broken;
            lines.feed(&decoded);
            decoded.clear();
            rest = &rest[read..];
            if result == encoding_rs::CoderResult::InputEmpty {
                break;
            }
        }
        if last {
            lines.finish();
            break;
        }
        if lines.is_done() && !source.is_small() {
            break;
        }
    }
    let sha256 = source.finish();
    let size = opened.size();
    let cut = lines.cut(input.offset, input.limit, size);
    let total = lines.finished.then_some(lines.seen);

    let mut shown = lines.numbered;
    let hint = match lines.cut_line {
        true => format!("; line {} is cut, continue with offset {0}", input.offset + lines.shown),
        false => format!("; continue with offset {}", input.offset + lines.shown),
    };
    match total {
        Some(0) => text::remark(&mut shown, "the file is empty"),
        Some(total) if lines.shown == 0 => {
            text::remark(&mut shown, &format!("nothing here: the file has {total} lines"))
        }
        _ => {}
    }
    if matches!(encoding, Encoding::Utf16Le | Encoding::Utf16Be) {
        text::remark(&mut shown, "decoded from UTF-16");
    }
    if lossy {
        text::remark(&mut shown, "some bytes are no valid text and are shown as U+FFFD");
    }
    text::tell_cut(&mut shown, cut, "", &hint);
    let output = Output {
        path: opened.path(),
        encoding,
        lossy,
        line_endings: lines.endings.kind(),
        text: Some(lines.plain),
        base64: None,
        first_line: (lines.shown > 0).then_some(input.offset + 1),
        last_line: (lines.shown > 0).then_some(input.offset + lines.shown),
        total_lines: total,
        size_bytes: size,
        sha256,
    };
    Ok(Answer::with_text(output, shown).truncated(cut))
}

fn read_binary(cx: &Cx, mut opened: OpenFile, head: Vec<u8>) -> Result<Answer<Output>, Fault> {
    // Three bytes become four characters.
    let most = text::byte_budget(cx) / 4 * 3;
    let mut source = Source::new(cx, &mut opened, head);
    let mut kept = Vec::new();
    loop {
        let bytes = source.next()?;
        if bytes.is_empty() {
            break;
        }
        kept.extend_from_slice(&bytes[..bytes.len().min(most - kept.len())]);
        if kept.len() == most && !source.is_small() {
            break;
        }
    }
    let sha256 = source.finish();
    let size = opened.size();
    let shown = kept.len() as u64;
    let cut = (shown < size).then_some(Truncated { shown, total: size, unit: Unit::Bytes });
    let base64 = STANDARD.encode(kept);
    let mut text = format!("[binary file of {size} bytes, as base64]\n{base64}");
    text::tell_cut(&mut text, cut, "", "");
    let output = Output {
        path: opened.path(),
        encoding: Encoding::Binary,
        lossy: false,
        line_endings: LineEndings::None,
        text: None,
        base64: Some(base64),
        first_line: None,
        last_line: None,
        total_lines: None,
        size_bytes: size,
        sha256,
    };
    Ok(Answer::with_text(output, text).truncated(cut))
}

const CHUNK: usize = 64 * 1024;

/// The bytes of a file, in pieces, hashed on the way while the file is small.
struct Source<'a> {
    cx: &'a Cx,
    opened: &'a mut OpenFile,
    /// What was read before, and comes first.
    head: Option<Vec<u8>>,
    chunk: Vec<u8>,
    read: u64,
    hash: Option<sha2::Sha256>,
    ended: bool,
}

impl<'a> Source<'a> {
    fn new(cx: &'a Cx, opened: &'a mut OpenFile, head: Vec<u8>) -> Self {
        let hash = (opened.size() <= MAX_WHOLE).then(sha2::Sha256::new);
        Self { cx, opened, head: Some(head), chunk: vec![0; CHUNK], read: 0, hash, ended: false }
    }

    /// The next piece; empty at the end.
    fn next(&mut self) -> Result<&[u8], Fault> {
        self.cx.check()?;
        let len = match self.head.take().filter(|head| !head.is_empty()) {
            Some(head) => {
                self.chunk[..head.len()].copy_from_slice(&head);
                head.len()
            }
            None => (&self.opened.file)
                .read(&mut self.chunk)
                .map_err(|error| fault::from_io(&error, &self.opened.path()))?,
        };
        let bytes = &self.chunk[..len];
        self.ended = bytes.is_empty();
        self.read += len as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        Ok(bytes)
    }

    /// Is it worth reading to the end? A file that grows while it is read stops being small.
    fn is_small(&self) -> bool {
        self.hash.is_some() && self.read <= MAX_WHOLE
    }

    /// The hash of the file, if all of it was read.
    fn finish(self) -> Option<String> {
        let digest = self.hash.filter(|_| self.ended)?.finalize();
        Some(toolgate_contract::Digest(digest.into()).hex())
    }
}

/// Picks lines out of a text that comes in pieces, with bounded memory.
struct Lines {
    skip: u64,
    take: u64,
    budget: usize,
    /// The line being put together: no more of it than could be shown.
    line: String,
    line_overflows: bool,
    line_started: bool,
    seen: u64,
    shown: u64,
    full: bool,
    cut_line: bool,
    finished: bool,
    numbered: String,
    plain: String,
    endings: Endings,
}

#[derive(Default)]
struct Endings {
    lf: bool,
    crlf: bool,
}

impl Endings {
    fn kind(&self) -> LineEndings {
        match (self.lf, self.crlf) {
            (false, false) => LineEndings::None,
            (true, false) => LineEndings::Lf,
            (false, true) => LineEndings::Crlf,
            (true, true) => LineEndings::Mixed,
        }
    }
}

impl Lines {
    fn new(skip: u64, take: u64, budget: usize) -> Self {
        Self {
            skip,
            take,
            budget,
            line: String::new(),
            line_overflows: false,
            line_started: false,
            seen: 0,
            shown: 0,
            full: false,
            cut_line: false,
            finished: false,
            numbered: String::new(),
            plain: String::new(),
            endings: Endings::default(),
        }
    }

    fn feed(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            self.line_started = true;
            // One byte more than fits, so that a carriage return at the very end is still seen.
            let room = (self.budget + 2).saturating_sub(self.line.len());
            let part = text::prefix(piece, room);
            self.line_overflows |= part.len() < piece.len();
            self.line.push_str(part);
            if piece.ends_with('\n') {
                self.end_line();
            }
        }
    }

    fn finish(&mut self) {
        if self.line_started {
            self.end_line();
        }
        self.finished = true;
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line);
        self.line = line;
        self.line.clear();
        self.line_overflows = false;
        self.line_started = false;
    }

    fn take_line(&mut self, line: &str) {
        let (body, ending) = match line.strip_suffix('\n') {
            Some(body) => match body.strip_suffix('\r') {
                Some(body) => {
                    self.endings.crlf = true;
                    (body, "\n")
                }
                None => {
                    self.endings.lf = true;
                    (body, "\n")
                }
            },
            None => (line, ""),
        };
        self.seen += 1;
        if self.seen <= self.skip || self.shown >= self.take || self.full {
            return;
        }
        let number = format!("{:>6}\t", self.seen);
        let left = self.budget.saturating_sub(self.numbered.len() + number.len() + 1);
        let fits = body.len() <= left && !self.line_overflows;
        if !fits {
            self.full = true;
            // A line that is too long by itself is shown as far as it goes; any other waits for the next call.
            if self.shown > 0 {
                return;
            }
            self.cut_line = true;
        }
        let body = if fits { body } else { text::prefix(body, left) };
        if !self.numbered.is_empty() {
            self.numbered.push('\n');
        }
        self.numbered.push_str(&number);
        self.numbered.push_str(body);
        self.plain.push_str(body);
        self.plain.push_str(if fits { ending } else { "" });
        self.shown += 1;
    }

    /// Is everything that was asked for here?
    fn is_done(&self) -> bool {
        self.full || self.shown >= self.take
    }

    /// What is missing of what was asked for: in lines where their number is known, else in bytes of the file.
    fn cut(&self, offset: u64, limit: Option<u64>, size: u64) -> Option<Truncated> {
        let bytes = Truncated { shown: self.plain.len() as u64, total: size, unit: Unit::Bytes };
        if self.cut_line {
            return Some(bytes);
        }
        let asked = limit.unwrap_or(u64::MAX);
        if !self.finished {
            return (self.shown < asked).then_some(bytes);
        }
        let total = self.seen.saturating_sub(offset).min(asked);
        (self.shown < total).then_some(Truncated { shown: self.shown, total, unit: Unit::Lines })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_contract::Caps;

    use super::{super::desk::Desk, *};

    /// Reads `a`, which has this content, and compares what the model sees and where it was cut.
    fn check(content: impl AsRef<[u8]>, arguments: Value, text: &str, cut: Option<(u64, u64, Unit)>) -> Value {
        check_capped(content, arguments, tool().def.caps, text, cut)
    }

    fn check_capped(
        content: impl AsRef<[u8]>,
        mut arguments: Value,
        caps: Caps,
        text: &str,
        cut: Option<(u64, u64, Unit)>,
    ) -> Value {
        let desk = Desk::new();
        desk.file("a", content);
        arguments["path"] = json!("a");
        let output = desk.call_capped(tool, arguments, caps).unwrap();
        let cut = cut.map(|(shown, total, unit)| Truncated { shown, total, unit });
        assert_eq!((output.text.as_str(), output.truncated), (text, cut));
        assert!(output.text.len() <= caps.output_bytes && output.text.lines().count() <= caps.output_lines);
        output.structured
    }

    fn small(output_bytes: usize) -> Caps {
        // Most of it is room for the remark below the text.
        Caps { output_bytes: output_bytes + 512, ..tool().def.caps }
    }

    #[test]
    fn lines_come_with_their_numbers() {
        let structured = check("one\ntwo\n", json!({}), "     1\tone\n     2\ttwo", None);
        assert_eq!(
            structured,
            json!({
                "path": "a", "encoding": "utf-8", "lossy": false, "line_endings": "lf", "text": "one\ntwo\n",
                "base64": null, "first_line": 1, "last_line": 2, "total_lines": 2, "size_bytes": 8,
                "sha256": "c3f9c8c283a2b1f2f1896f27a01cbe3cddc0c9d93f752e4639035a0f5b36f6e8",
            })
        );
    }

    #[test]
    fn a_line_has_the_same_number_in_every_range() {
        let content = "a\nb\nc\nd";
        check(content, json!({ "offset": 2 }), "     3\tc\n     4\td", None);
        check(content, json!({ "offset": 1, "limit": 2 }), "     2\tb\n     3\tc", None);
        check(content, json!({ "offset": 3, "limit": 9 }), "     4\td", None);
        let structured = check(content, json!({ "offset": 1, "limit": 2 }), "     2\tb\n     3\tc", None);
        let range = ["text", "first_line", "last_line", "total_lines"].map(|key| structured[key].clone());
        assert_eq!(range, [json!("b\nc\n"), json!(2), json!(3), json!(4)]);
    }

    #[test]
    fn an_empty_answer_says_why() {
        check("", json!({}), "[the file is empty]", None);
        let structured = check("a\n", json!({ "offset": 5 }), "[nothing here: the file has 1 lines]", None);
        assert_eq!((&structured["first_line"], &structured["total_lines"]), (&Value::Null, &json!(1)));
    }

    #[test]
    fn two_thousand_lines_are_shown_unless_more_are_asked_for() {
        let content: String = (1..=2500).map(|n| format!("{n}\n")).collect();
        let numbered =
            |range: std::ops::RangeInclusive<u32>| range.map(|n| format!("{n:>6}\t{n}")).collect::<Vec<_>>().join("\n");
        let first = numbered(1..=2000) + "\n[truncated: 2000 of 2500 lines; continue with offset 2000]";
        check(&content, json!({}), &first, Some((2000, 2500, Unit::Lines)));
        check(&content, json!({ "offset": 2000 }), &numbered(2001..=2500), None);
        check(&content, json!({ "limit": 2000 }), &numbered(1..=2000), None);
        let capped = numbered(1..=2002) + "\n[truncated: 2002 of 2400 lines; continue with offset 2002]";
        check(&content, json!({ "limit": 2400 }), &capped, Some((2002, 2400, Unit::Lines)));
    }

    #[test]
    fn bytes_run_out_at_the_end_of_a_line() {
        let text = "     1\taaaa\n     2\tbbbb\n[truncated: 2 of 3 lines; continue with offset 2]";
        check_capped("aaaa\nbbbb\ncccc\n", json!({}), small(30), text, Some((2, 3, Unit::Lines)));
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_at_a_character_and_reading_goes_on_behind_it() {
        let content = format!("{}\nlast\n", "é".repeat(100));
        let first =
            format!("     1\t{}\n[truncated: 22 of 206 bytes; line 1 is cut, continue with offset 1]", "é".repeat(11));
        let structured = check_capped(&content, json!({}), small(30), &first, Some((22, 206, Unit::Bytes)));
        assert_eq!(structured["text"], json!("é".repeat(11)));
        check_capped(&content, json!({ "offset": 1 }), small(30), "     2\tlast", None);
    }

    #[test]
    fn line_endings_are_shown_plain_and_told() {
        let structured = check("a\r\nb\r\n", json!({}), "     1\ta\n     2\tb", None);
        assert_eq!((&structured["line_endings"], &structured["text"]), (&json!("crlf"), &json!("a\nb\n")));
        assert_eq!(check("a\r\nb\n", json!({}), "     1\ta\n     2\tb", None)["line_endings"], json!("mixed"));
        assert_eq!(check("a\rb", json!({}), "     1\ta\rb", None)["line_endings"], json!("none"));
    }

    #[test]
    fn a_carriage_return_at_the_edge_of_a_piece_is_part_of_the_ending() {
        let content = format!("{}\r\nx\r\n", "a".repeat(HEAD - 1));
        let text = format!("     1\t{}\n     2\tx", "a".repeat(HEAD - 1));
        assert_eq!(check(content, json!({}), &text, None)["line_endings"], json!("crlf"));
    }

    #[test]
    fn encodings_are_decoded_and_named() {
        let utf16 = |mark: &[u8], bytes: fn(u16) -> [u8; 2]| {
            [mark.to_vec(), "hé\n日".encode_utf16().flat_map(bytes).collect()].concat()
        };
        let text = "     1\thé\n     2\t日\n[decoded from UTF-16]";
        let le = check(utf16(b"\xff\xfe", u16::to_le_bytes), json!({}), text, None);
        let be = check(utf16(b"\xfe\xff", u16::to_be_bytes), json!({}), text, None);
        let bom = check("\u{feff}a\n", json!({}), "     1\ta", None);
        let named = [le, be, bom].map(|s| (s["encoding"].clone(), s["lossy"].clone()));
        assert_eq!(named, ["utf-16le", "utf-16be", "utf-8-bom"].map(|name| (json!(name), json!(false))));
    }

    #[test]
    fn broken_bytes_are_shown_as_such() {
        let text = "     1\tcaf\u{fffd}\n[some bytes are no valid text and are shown as U+FFFD]";
        assert_eq!(check(b"caf\xe9\n", json!({}), text, None)["lossy"], json!(true));
    }

    #[test]
    fn a_binary_file_comes_as_base64() {
        let structured = check(b"\x7fELF\0\0", json!({}), "[binary file of 6 bytes, as base64]\nf0VMRgAA", None);
        let told = ["encoding", "text", "base64", "size_bytes"].map(|key| structured[key].clone());
        assert_eq!(told, [json!("binary"), Value::Null, json!("f0VMRgAA"), json!(6)]);
        let text = "[binary file of 9 bytes, as base64]\nAAECAwQF\n[truncated: 6 of 9 bytes]";
        check_capped(b"\0\x01\x02\x03\x04\x05\x06\x07\x08", json!({}), small(8), text, Some((6, 9, Unit::Bytes)));
    }

    #[test]
    fn a_large_file_is_read_in_part_whatever_its_size() {
        let line = format!("{}\n", "x".repeat(99));
        let lines = MAX_WHOLE as usize / 100 + 10;
        let desk = Desk::new();
        desk.file("a", line.repeat(lines));
        let read = |arguments| desk.call(tool, arguments).unwrap();

        let start = read(json!({ "path": "a" }));
        let size = lines as u64 * 100;
        let shown = start.structured["last_line"].as_u64().unwrap();
        assert_eq!(start.truncated, Some(Truncated { shown: shown * 100, total: size, unit: Unit::Bytes }));
        assert_eq!((&start.structured["total_lines"], &start.structured["sha256"]), (&Value::Null, &Value::Null));
        assert!(start.text.ends_with(&format!("continue with offset {shown}]")), "{}", start.text.len());

        let end = read(json!({ "path": "a", "offset": lines - 2, "limit": 5 }));
        assert_eq!(end.text.lines().count(), 2);
        assert_eq!((&end.structured["total_lines"], end.truncated), (&json!(lines), None));
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        let desk = Desk::with(&[("d/x", "")]);
        assert_eq!(desk.code(tool, json!({ "path": "d" })), "is_a_directory");
        assert_eq!(desk.code(tool, json!({ "path": "none" })), "not_found");
        assert_eq!(desk.code(tool, json!({ "path": "d/x/y" })), "not_a_directory");
        assert_eq!(desk.code(tool, json!({ "path": "d/x/" })), "not_a_directory");
    }

    #[test]
    fn a_path_is_told_as_the_file_that_was_read() {
        let desk = Desk::with(&[("d/x", "1")]);
        desk.link("l", "d");
        let absolute = desk.at("d/x").to_string_lossy().into_owned();
        for path in ["d/x", "l/x", "./d//x", "d/../l/x", &absolute] {
            assert_eq!(desk.call(tool, json!({ "path": path })).unwrap().structured["path"], json!("d/x"), "{path}");
        }
    }
}
