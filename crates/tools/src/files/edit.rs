//! `edit`: exact replacements in a file, all of them or none.

use std::{borrow::Cow, io::Read as _, ops::Range, time::Duration};

use memchr::memmem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Caps, Category, Digest, Effect, EffectKind, Example, Fault, Guide, GuideKind, Needs, SafetyClass,
    ToolDef,
};

use super::{
    fault::{
        self, BINARY_FILE, BUSY, CHANGED_MEANWHILE, HASH_MISMATCH, IS_A_DIRECTORY, NO_EDITS, NO_SPACE,
        NOT_A_REGULAR_FILE, OLD_EMPTY, OLD_NOT_FOUND, OLD_NOT_UNIQUE, OVERLAPPING, PATH_IS_A_LINK, TOO_LARGE,
    },
    preview,
    slot::{MissingDirs, Slot},
    text::{self, Encoding, MAX_WHOLE, brief},
};
use crate::{Answer, Cx, Tool};

/// Calls in the order that leaves nothing to chance.
const READ_THEN_EDIT: &str = "\
read {\"path\": \"notes.txt\"}
  1\tone
  2\ttwo
  3\ttwo
  sha256: 1f0c...
edit {\"path\": \"notes.txt\", \"expected_sha256\": \"1f0c...\", \"edits\": [{\"old\": \"two\", \"new\": \"2\"}]}
  [old_not_unique]: `two` is there twice. More of the text around it makes it unique, or `replace_all` takes them all.
edit {\"path\": \"notes.txt\", \"expected_sha256\": \"1f0c...\", \"edits\": [{\"old\": \"one\\ntwo\", \"new\": \"one\\n2\"}]}
  done; the answer has the new sha256 for the next edit
";

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "edit".into(),
            summary: "Replace exact pieces of text in a file.".into(),
            description: "Replaces pieces of a file. Each `old` is searched for in the file as it is before any edit, \
                must be there exactly once (or set `replace_all`), and must match to the letter, indentation \
                included; leave out the line numbers that `read` shows. `new` is taken literally. Edits must not \
                overlap. Either all edits are made or none. Permissions, encoding and line endings stay as they are: \
                in a file with `\\r\\n` endings, write `\\n`. Give `expected_sha256` from `read` to be sure nobody \
                changed the file since."
                .into(),
            category: Category::FileSystem,
            action: ActionType::CodeWrite,
            safety: SafetyClass::Write,
            needs: Needs::WRITE_FILES,
            timeout: Duration::from_secs(30),
            caps: Caps { input_bytes: 4 * 1024 * 1024, ..Caps::DEFAULT },
            examples: vec![
                Example {
                    title: "Two changes at once".into(),
                    arguments: json!({
                        "path": "src/main.rs",
                        "edits": [
                            { "old": "let x = 1;", "new": "let x = 2;" },
                            { "old": "println!(\"old\")", "new": "println!(\"new\")" },
                        ],
                    }),
                },
                Example {
                    title: "Rename everywhere in a file".into(),
                    arguments: json!({
                        "path": "src/lib.rs",
                        "edits": [{ "old": "count", "new": "total", "replace_all": true }],
                    }),
                },
            ],
            failures: fault::modes(&[
                &OLD_NOT_FOUND,
                &OLD_NOT_UNIQUE,
                &OLD_EMPTY,
                &OVERLAPPING,
                &NO_EDITS,
                &HASH_MISMATCH,
                &CHANGED_MEANWHILE,
                &BINARY_FILE,
                &TOO_LARGE,
                &IS_A_DIRECTORY,
                &PATH_IS_A_LINK,
                &NOT_A_REGULAR_FILE,
                &BUSY,
                &NO_SPACE,
            ]),
            guides: vec![Guide {
                id: "read_then_edit".into(),
                title: "From reading to editing".into(),
                kind: GuideKind::ExampleTrace,
                content: READ_THEN_EDIT.into(),
            }],
            ..ToolDef::default()
        },
        |input: &Input| vec![Effect::on(EffectKind::FsWrite, input.path.clone())],
        run,
    )
    .previewing(show)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file, relative to the workspace or absolute inside it.
    path: String,
    /// The replacements. Their order does not matter.
    edits: Vec<Edit>,
    /// The `sha256` that `read` gave; the edit fails when the file is another by now.
    #[serde(default)]
    expected_sha256: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The text that is there now, exactly.
    old: String,
    /// The text to put in its place; empty to remove it.
    new: String,
    /// Replace every place where `old` is found, not just the only one.
    #[serde(default)]
    replace_all: bool,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The file that was changed, relative to the workspace.
    path: String,
    /// How many edits were made.
    edits_applied: usize,
    /// How many places were changed.
    replacements: usize,
    /// The SHA-256 of the new content in hex.
    sha256: String,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let slot = Slot::take(cx, &input.path, MissingDirs::Fail)?;
    let (file, before) = slot.open()?;
    let mut bytes = Vec::new();
    file.take(MAX_WHOLE + 1).read_to_end(&mut bytes).map_err(|error| fault::from_io(&error, &input.path))?;
    check_size(&bytes, &input.path)?;
    if let Some(expected) = &input.expected_sha256 {
        check_hash(&bytes, expected, &input.path)?;
    }
    let old = Text::decode(&bytes, &input.path)?;
    let changes = place(&old.text, &input.edits)?;
    let new = old.encode(&rewrite(&old.text, &changes));
    check_size(&new, &input.path)?;
    slot.replace_unchanged(cx, &new, &before)?;

    let path = slot.path();
    let summary = summary(&path, &old.text, &changes, input.edits.len());
    let sha256 = Digest::of(&new).hex();
    let output = Output { path, edits_applied: input.edits.len(), replacements: changes.len(), sha256 };
    Ok(Answer::with_text(output, summary))
}

/// What would change. Also what would go wrong is worth knowing.
fn show(cx: &Cx, input: Input) -> Result<String, Fault> {
    let before = preview::now(cx, &input.path)?;
    let Some(bytes) = before.as_ref().and_then(preview::Now::bytes) else {
        let message = format!("`{}` is not there, or is too large to compare", brief(&input.path));
        return Err(TOO_LARGE.failed(message, "Look at the file."));
    };
    if let Some(expected) = &input.expected_sha256 {
        check_hash(bytes, expected, &input.path)?;
    }
    let old = Text::decode(bytes, &input.path)?;
    let after = old.encode(&rewrite(&old.text, &place(&old.text, &input.edits)?));
    Ok(preview::change(&input.path, before.as_ref(), Some(&after)))
}

fn check_size(bytes: &[u8], path: &str) -> Result<(), Fault> {
    if bytes.len() as u64 <= MAX_WHOLE {
        return Ok(());
    }
    Err(TOO_LARGE.failed(
        format!("`{}` would be over {MAX_WHOLE} bytes, or is already", brief(path)),
        "Edit a smaller file, or change this one with a command.",
    ))
}

fn check_hash(bytes: &[u8], expected: &str, path: &str) -> Result<(), Fault> {
    let found = Digest::of(bytes).hex();
    if expected.strip_prefix("sha256:").unwrap_or(expected).eq_ignore_ascii_case(&found) {
        return Ok(());
    }
    Err(HASH_MISMATCH.failed(
        format!("`{}` now has the SHA-256 `{found}`", brief(path)),
        "Read the file again and base the edit on what it says now.",
    ))
}

/// The text of a file, in bytes that are nearly always UTF-8, and how it was encoded.
///
/// UTF-8 is edited as it lies, so that a broken byte elsewhere in the file stays what it is.
struct Text<'a> {
    encoding: Encoding,
    text: Cow<'a, [u8]>,
}

impl<'a> Text<'a> {
    fn decode(bytes: &'a [u8], path: &str) -> Result<Self, Fault> {
        let binary =
            || BINARY_FILE.failed(format!("`{}` is not text", brief(path)), "Replace it whole, or use a command.");
        let encoding = Encoding::of(bytes);
        let text = match encoding {
            Encoding::Utf8 | Encoding::Utf8Bom => Cow::Borrowed(bytes),
            Encoding::Binary => return Err(binary()),
            Encoding::Utf16Le | Encoding::Utf16Be => {
                let codec = if encoding == Encoding::Utf16Le { encoding_rs::UTF_16LE } else { encoding_rs::UTF_16BE };
                let text = codec.decode_without_bom_handling_and_without_replacement(&bytes[encoding.mark_len()..]);
                Cow::Owned(text.ok_or_else(binary)?.into_owned().into_bytes())
            }
        };
        Ok(Self { encoding, text })
    }

    fn encode(&self, text: &[u8]) -> Vec<u8> {
        let units = || String::from_utf8_lossy(text).encode_utf16().collect::<Vec<u16>>();
        match self.encoding {
            Encoding::Utf8 | Encoding::Utf8Bom | Encoding::Binary => text.to_owned(),
            Encoding::Utf16Le => [0xfeff].into_iter().chain(units()).flat_map(u16::to_le_bytes).collect(),
            Encoding::Utf16Be => [0xfeff].into_iter().chain(units()).flat_map(u16::to_be_bytes).collect(),
        }
    }
}

/// One place of the text and what goes there.
struct Change<'a> {
    edit: usize,
    range: Range<usize>,
    new: Cow<'a, str>,
}

/// Where the edits go, in the order of the text.
fn place<'a>(text: &[u8], edits: &'a [Edit]) -> Result<Vec<Change<'a>>, Fault> {
    if edits.is_empty() {
        return Err(NO_EDITS.failed("there is nothing to do", "Name at least one replacement in `edits`."));
    }
    let crlf = has_crlf_endings(text);
    let mut changes = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        let new = with_endings(&edit.new, crlf);
        let old = with_endings(&edit.old, crlf);
        for start in occurrences(text, index, edit, &old)? {
            changes.push(Change { edit: index, range: start..start + old.len(), new: new.clone() });
        }
    }
    changes.sort_by_key(|change| (change.range.start, change.range.end));
    if let Some(pair) = changes.windows(2).find(|pair| pair[0].range.end > pair[1].range.start) {
        let (first, second) = (pair[0].edit.min(pair[1].edit), pair[0].edit.max(pair[1].edit));
        let line = line_at(text, pair[1].range.start);
        return Err(OVERLAPPING.failed(
            format!("`edits[{first}]` and `edits[{second}]` touch the same text in line {line}"),
            "Merge the two into one edit.",
        ));
    }
    Ok(changes)
}

/// Where `old`, the text of this edit, begins.
fn occurrences(text: &[u8], index: usize, edit: &Edit, old: &str) -> Result<Vec<usize>, Fault> {
    let finder = memmem::Finder::new(old.as_bytes());
    if old.is_empty() {
        return Err(OLD_EMPTY.failed(
            format!("`edits[{index}].old` is empty"),
            "Give the text that is to be replaced; to add a line, replace the one before it.",
        ));
    }
    let Some(first) = finder.find(text) else {
        return Err(OLD_NOT_FOUND.failed(
            format!("`edits[{index}].old` is not in the file: `{}`", text::prefix(&edit.old, 100)),
            "Read the file again and copy the text exactly, indentation included.",
        ));
    };
    if edit.replace_all {
        return Ok(finder.find_iter(text).collect());
    }
    // A second one may overlap the first, which a plain count would not see.
    if finder.find(&text[first + 1..]).is_some() {
        let count = finder.find_iter(text).count().max(2);
        return Err(OLD_NOT_UNIQUE.failed(
            format!("`edits[{index}].old` is in the file {count} times: `{}`", text::prefix(&edit.old, 100)),
            "Add surrounding text until it is unique, or set `replace_all`.",
        ));
    }
    Ok(vec![first])
}

/// Does every line end with a carriage return and a line feed?
fn has_crlf_endings(text: &[u8]) -> bool {
    let mut feeds = memchr::memchr_iter(b'\n', text).peekable();
    feeds.peek().is_some() && feeds.all(|at| at > 0 && text[at - 1] == b'\r')
}

/// The caller's text as a file with such endings has it: `read` shows them as plain line feeds.
fn with_endings(text: &str, crlf: bool) -> Cow<'_, str> {
    if crlf && !text.contains('\r') && text.contains('\n') {
        Cow::Owned(text.replace('\n', "\r\n"))
    } else {
        Cow::Borrowed(text)
    }
}

fn rewrite(text: &[u8], changes: &[Change<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for change in changes {
        out.extend_from_slice(&text[at..change.range.start]);
        out.extend_from_slice(change.new.as_bytes());
        at = change.range.end;
    }
    out.extend_from_slice(&text[at..]);
    out
}

fn line_at(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..at]).count() + 1
}

/// How many changed places are shown, and how many lines of each.
const SHOWN_HUNKS: usize = 10;
const SHOWN_LINES: usize = 12;
const SHOWN_LINE: usize = 200;

/// The changed lines, old and new.
fn summary(path: &str, text: &[u8], changes: &[Change<'_>], edits: usize) -> String {
    let mut out = format!("Applied {edits} edit(s), {} replacement(s), to {path}\n", changes.len());
    let mut rest = changes;
    let mut hunks = 0;
    while let Some(first) = rest.first() {
        if hunks == SHOWN_HUNKS {
            out.push_str(&format!("[{} more replacements]\n", rest.len()));
            break;
        }
        hunks += 1;
        let start = memchr::memrchr(b'\n', &text[..first.range.start]).map_or(0, |at| at + 1);
        let mut end = line_end(text, first.range.end);
        let mut here = 1;
        while let Some(next) = rest.get(here).filter(|next| next.range.start < end) {
            end = end.max(line_end(text, next.range.end));
            here += 1;
        }
        let (group, later) = rest.split_at(here);
        out.push_str(&format!("@@ line {} @@\n", line_at(text, start)));
        push_lines(&mut out, '-', &text[start..end]);
        push_lines(&mut out, '+', &replaced(text, start..end, group));
        rest = later;
    }
    out.truncate(out.trim_end().len());
    out
}

/// One past the end of the line that `at` is in; a place right after a line feed belongs to the line before.
fn line_end(text: &[u8], at: usize) -> usize {
    if at > 0 && text[at - 1] == b'\n' {
        return at;
    }
    memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |found| at + found + 1)
}

fn replaced(text: &[u8], lines: Range<usize>, changes: &[Change<'_>]) -> Vec<u8> {
    let moved: Vec<_> = changes
        .iter()
        .map(|change| Change {
            edit: change.edit,
            range: change.range.start - lines.start..change.range.end - lines.start,
            new: change.new.clone(),
        })
        .collect();
    rewrite(&text[lines], &moved)
}

fn push_lines(out: &mut String, mark: char, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    for line in text.lines().take(SHOWN_LINES) {
        let short = text::prefix(line, SHOWN_LINE);
        out.push(mark);
        out.push_str(short);
        out.push_str(if short.len() < line.len() { "[..]\n" } else { "\n" });
    }
    let more = text.lines().count().saturating_sub(SHOWN_LINES);
    if more > 0 {
        out.push_str(&format!("{mark}[{more} more lines]\n"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{super::desk::Desk, *};

    /// Edits `a`, which has this content. A code stands for a fault, and then nothing may have changed.
    fn check(content: impl AsRef<[u8]>, edits: Value, expected: Result<&[u8], &str>) {
        let content = content.as_ref();
        let desk = Desk::new();
        desk.file("a", content);
        let result = desk.call(tool, json!({ "path": "a", "edits": edits }));
        let code = result.map(|_| ()).map_err(|fault| fault.code.into_owned());
        let after = desk.content("a");
        match expected {
            Ok(new) => assert_eq!((code, String::from_utf8_lossy(&after)), (Ok(()), String::from_utf8_lossy(new))),
            Err(expected) => assert_eq!((code, after.as_slice()), (Err(expected.to_owned()), content)),
        }
        assert_eq!(desk.names(), ["a"], "something was left behind");
    }

    fn one(old: &str, new: &str) -> Value {
        json!([{ "old": old, "new": new }])
    }

    #[test]
    fn text_is_replaced_exactly() {
        check("let x = 1;\n", one("x = 1", "y = 2"), Ok(b"let y = 2;\n"));
        check("abc", one("b", ""), Ok(b"ac"));
        check("abc", one("abc", "abc"), Ok(b"abc"));
        check("a\tb  c", one("\tb  ", " "), Ok(b"a c"));
    }

    #[test]
    fn new_text_is_taken_literally() {
        check("x", one("x", r"\1 $1 \\ ${0} &"), Ok(br"\1 $1 \\ ${0} &"));
        check("a.c abc", one("a.c", "1"), Ok(b"1 abc"));
    }

    #[test]
    fn edits_look_at_the_original_text_and_their_order_does_not_matter() {
        check("a b", json!([{ "old": "a", "new": "b" }, { "old": "b", "new": "a" }]), Ok(b"b a"));
        check("a b", json!([{ "old": "b", "new": "1" }, { "old": "a", "new": "2" }]), Ok(b"2 1"));
        check("ab", json!([{ "old": "b", "new": "1" }, { "old": "a", "new": "2" }]), Ok(b"21"));
        check("a", json!([{ "old": "a", "new": "b" }, { "old": "b", "new": "c" }]), Err("edit_old_not_found"));
    }

    #[test]
    fn old_must_be_there_once() {
        check("a", one("b", "c"), Err("edit_old_not_found"));
        check("a a", one("a", "b"), Err("edit_old_not_unique"));
        check("aaa", one("aa", "b"), Err("edit_old_not_unique"));
        check("a", one("", "b"), Err("edit_old_empty"));
        check("a", json!([]), Err("no_edits"));
        check("a A", one("A", "b"), Ok(b"a b"));
    }

    #[test]
    fn the_fault_says_which_edit_and_how_often() {
        let desk = Desk::with(&[("a", "x y y y")]);
        let edits = json!([{ "old": "x", "new": "" }, { "old": "y", "new": "" }]);
        let fault = desk.call(tool, json!({ "path": "a", "edits": edits })).unwrap_err();
        assert_eq!(fault.message, "`edits[1].old` is in the file 3 times: `y`");
    }

    #[test]
    fn all_places_are_replaced_when_asked() {
        check("a a a", json!([{ "old": "a", "new": "b", "replace_all": true }]), Ok(b"b b b"));
        check("aaa", json!([{ "old": "aa", "new": "b", "replace_all": true }]), Ok(b"ba"));
        check("a", json!([{ "old": "b", "new": "", "replace_all": true }]), Err("edit_old_not_found"));
    }

    #[test]
    fn any_two_edits_that_overlap_are_rejected() {
        check("abc", json!([{ "old": "ab", "new": "" }, { "old": "bc", "new": "" }]), Err("overlapping_edits"));
        // The second and the third, not the first.
        let edits = json!([{ "old": "1", "new": "" }, { "old": "abc", "new": "" }, { "old": "c d", "new": "" }]);
        check("1 abc d", edits, Err("overlapping_edits"));
        check("abc", json!([{ "old": "b", "new": "x" }, { "old": "b", "new": "x" }]), Err("overlapping_edits"));
        check("abc", json!([{ "old": "abc", "new": "" }, { "old": "b", "new": "" }]), Err("overlapping_edits"));
        let all = json!([{ "old": "a", "new": "", "replace_all": true }, { "old": "a2", "new": "" }]);
        check("a1 a2", all, Err("overlapping_edits"));
    }

    #[test]
    fn one_bad_edit_stops_all() {
        check("a b", json!([{ "old": "a", "new": "1" }, { "old": "x", "new": "2" }]), Err("edit_old_not_found"));
    }

    #[test]
    fn line_endings_stay() {
        check("a\r\nb\r\nc\r\n", one("a\nb\n", "x\ny\nz\n"), Ok(b"x\r\ny\r\nz\r\nc\r\n"));
        check("a\r\nb\r\n", one("a\r\n", "x\r\n"), Ok(b"x\r\nb\r\n"));
        check("a\r\nb\r\n", one("b", "c\nd"), Ok(b"a\r\nc\r\nd\r\n"));
        // Where endings are mixed nothing is assumed.
        check("a\r\nb\n", one("a\nb", "x"), Err("edit_old_not_found"));
        check("a\r\nb\n", one("b", "c\nd"), Ok(b"a\r\nc\nd\n"));
        check("a\nb", one("a\nb", "c"), Ok(b"c"));
    }

    #[test]
    fn encodings_and_marks_stay() {
        check("\u{feff}a\n", one("a", "b"), Ok("\u{feff}b\n".as_bytes()));
        check(b"\xff\xfea\0b\0", one("a", "é"), Ok(b"\xff\xfe\xe9\0b\0"));
        check(b"\xfe\xff\0a\0b", one("b", "日"), Ok(b"\xfe\xff\0a\x65\xe5"));
        check(b"caf\xe9 x", one("x", "y"), Ok(b"caf\xe9 y"));
        check(b"a\0b", one("a", "c"), Err("binary_file"));
        check(b"\xff\xfea\0\x00\xd8", one("a", "c"), Err("binary_file"));
    }

    #[test]
    fn permissions_stay() {
        let desk = Desk::with(&[("a", "x")]);
        desk.set_mode("a", 0o750);
        desk.call(tool, json!({ "path": "a", "edits": one("x", "y") })).unwrap();
        assert_eq!(desk.mode("a"), 0o750);
    }

    #[test]
    fn the_expected_hash_guards_against_another_file() {
        let desk = Desk::with(&[("a", "x")]);
        let hash = super::super::read::tool;
        let read = desk.call(hash, json!({ "path": "a" })).unwrap().structured["sha256"].as_str().unwrap().to_owned();
        let edit = |expected: &str| {
            desk.call(tool, json!({ "path": "a", "edits": one("x", "x"), "expected_sha256": expected }))
        };
        for expected in [read.clone(), read.to_uppercase(), format!("sha256:{read}")] {
            assert_eq!(edit(&expected).unwrap().structured["sha256"], json!(read));
        }
        desk.file("a", "x ");
        assert_eq!(edit(&read).unwrap_err().code, "hash_mismatch");
        assert_eq!(edit("").unwrap_err().code, "hash_mismatch");
    }

    #[test]
    fn what_changed_is_shown() {
        let desk = Desk::with(&[("a", "one\ntwo three\nfour\nfive\n")]);
        let edits = json!([
            { "old": "two", "new": "2" }, { "old": "three", "new": "3" }, { "old": "five\n", "new": "" },
        ]);
        let output = desk.call(tool, json!({ "path": "a", "edits": edits })).unwrap();
        assert_eq!(
            output.text,
            "Applied 3 edit(s), 3 replacement(s), to a\n@@ line 2 @@\n-two three\n+2 3\n@@ line 4 @@\n-five"
        );
        let sha256 = Digest::of(b"one\n2 3\nfour\n").hex();
        assert_eq!(output.structured, json!({ "path": "a", "edits_applied": 3, "replacements": 3, "sha256": sha256 }));
    }

    #[test]
    fn a_long_summary_is_cut() {
        let desk = Desk::with(&[("a", &"line x\n".repeat(500))]);
        let edits = json!([{ "old": "x", "new": "y", "replace_all": true }]);
        let output = desk.call(tool, json!({ "path": "a", "edits": edits })).unwrap();
        assert!(output.text.ends_with("[490 more replacements]"), "{}", output.text);
        let edits = json!([{ "old": "line y\n".repeat(500), "new": "z".repeat(1000) }]);
        let output = desk.call(tool, json!({ "path": "a", "edits": edits })).unwrap();
        assert!(output.text.contains("-[488 more lines]\n+zzz") && output.text.ends_with("z[..]"), "{}", output.text);
    }

    #[test]
    fn a_file_that_is_or_gets_too_large_is_left_alone() {
        let large = [vec![b'a'; MAX_WHOLE as usize], b"x".to_vec()].concat();
        check(&large, one("x", ""), Err("too_large"));
        check(&large[1..], one("x", "yy"), Err("too_large"));
    }

    #[test]
    fn what_is_no_file_is_not_edited() {
        let desk = Desk::with(&[("d/x", "a")]);
        desk.link("l", "d/x");
        for (path, code) in [("d", "is_a_directory"), ("none", "not_found"), ("no/x", "not_found")] {
            assert_eq!(desk.code(tool, json!({ "path": path, "edits": one("a", "b") })), code);
        }
        let fault = desk.call(tool, json!({ "path": "l", "edits": one("a", "b") })).unwrap_err();
        assert_eq!(
            (fault.code.as_ref(), fault.remedy.as_str()),
            ("path_is_a_link", "Name the file it leads to: `d/x`.")
        );
        assert_eq!(desk.text("d/x"), "a");
    }

    #[test]
    fn edits_of_one_file_at_the_same_time_all_survive() {
        let desk = Desk::with(&[("a", &(0..8).map(|n| format!("<{n}>\n")).collect::<String>())]);
        std::thread::scope(|scope| {
            for n in 0..8 {
                let desk = &desk;
                scope.spawn(move || {
                    let edits = one(&format!("<{n}>"), &format!("done {n}"));
                    desk.call(tool, json!({ "path": "a", "edits": edits })).unwrap()
                });
            }
        });
        assert_eq!(desk.text("a"), (0..8).map(|n| format!("done {n}\n")).collect::<String>());
    }
    #[test]
    fn an_edit_never_overwrites_what_somebody_without_a_lock_wrote() {
        let desk = Desk::with(&[("a", "x0")]);
        let over = std::sync::atomic::AtomicBool::new(false);
        let mut noticed = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0.. {
                    if over.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    desk.replace("a", &format!("x{n}"));
                }
            });
            for _ in 0..200 {
                match desk.call(tool, json!({ "path": "a", "edits": one("x", "x") })) {
                    Ok(_) => {}
                    Err(fault) if fault.code == "changed_meanwhile" => noticed += 1,
                    Err(fault) => panic!("{fault}"),
                }
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(noticed > 0);
    }
}
