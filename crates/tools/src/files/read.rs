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
