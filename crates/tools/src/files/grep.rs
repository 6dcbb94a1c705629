//! `grep`: lines by regular expression.

use std::{
    fs::File,
    io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use rustix::fs::FileType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CostTier, Effect, EffectKind, Example, Fault, Needs, SafetyClass, ToolDef,
};

use super::{
    fault::{self, BAD_PATTERN, NOT_A_REGULAR_FILE},
    glob::Glob,
    kept::Kept,
    ls::here,
    path::{one_line, shown},
    text::{self, brief},
    walk::{Found, Ignored, walk},
    workspace::{Node, OpenDir, OpenFile},
};
use crate::{Answer, Cx, StopFlag, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "grep".into(),
            summary: "Search file contents by regular expression.".into(),
            description: "Searches a file, or all files below a directory, line by line. `pattern` is a Rust regular \
                expression (no look-around, no back-references) and matches anywhere in a line; escape `.`, `(` and \
                `[` to search for them. `glob` narrows to some files: `*.rs`, `src/**/*.ts`, or `!*.lock` to leave \
                some out. Results are `path:line:text`, sorted by path and line; with `context_lines` the lines around \
                come as `path-line-text`. Left out: binary files, what `.gitignore` and `.ignore` exclude, `.git`, \
                `node_modules`, `_build` and `_opam`; name such a directory as `path` to search it. Long lines are cut \
                around the match; files with a line over 256 KiB (less when the pattern is very large) are left out \
                and counted. When there are more matches than fit, the first are shown and the total is told."
                .into(),
            category: Category::FileSystem,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            needs: Needs::READ_FILES,
            timeout: Duration::from_secs(30),
            cost: CostTier::Medium,
            examples: vec![
                Example {
                    title: "Where a function is defined".into(),
                    arguments: json!({ "pattern": "fn main\\(", "glob": "*.rs" }),
                },
                Example {
                    title: "With two lines around".into(),
                    arguments: json!({ "pattern": "todo", "path": "src", "ignore_case": true, "context_lines": 2 }),
                },
            ],
            failures: fault::modes(&[&BAD_PATTERN, &NOT_A_REGULAR_FILE]),
            ..ToolDef::default()
        },
        |input: &Input| vec![Effect::on(EffectKind::FsRead, input.path.clone())],
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// A Rust regular expression.
    #[schemars(length(max = 4096))]
    pattern: String,
    /// The file or directory to search, relative to the workspace or absolute inside it.
    #[serde(default = "here")]
    path: String,
    /// Only files that this glob matches; with `!` in front, only those it does not. Empty for all.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    glob: String,
    /// How many lines to show before and after each match, at most 20.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context_lines: usize,
    /// Take upper and lower case as the same.
    #[serde(default)]
    ignore_case: bool,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// Where it searched, relative to the workspace.
    path: String,
    /// The lines that match, sorted by path and line.
    matches: Vec<Match>,
    /// How many lines match, also those that are not shown.
    total: u64,
    /// How many files were searched.
    files_searched: u64,
    /// How many files were left out because they are not text.
    skipped_binary: u64,
    /// How many files were left out because a line is too long to search for this pattern.
    skipped_long_lines: u64,
    /// How many files and directories could not be read.
    unreadable: u64,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    /// The file, relative to the workspace.
    path: String,
    /// The line number, counting from 1.
    line: u64,
    /// The line; a long one is cut around the match.
    text: String,
    /// The lines around it that do not match themselves; left out when there are none.
    #[serde(default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    context: Vec<ContextLine>,
}

#[derive(Serialize, JsonSchema)]
struct ContextLine {
    /// The line number, counting from 1.
    line: u64,
    /// The line.
    text: String,
}

const MAX_CONTEXT: usize = 20;

/// The most of one line that is shown.
const MAX_LINE: usize = 500;

/// How large a compiled pattern may be, and how much text it then sees at once, which is also its longest line.
///
/// The product bounds the work between two looks at whether the call is stopped: a search cannot be interrupted within
/// a piece of text, and at worst takes each of its bytes through every state of the pattern.
const REACH: [(usize, usize); 3] = [(64 * 1024, 256 * 1024), (256 * 1024, 64 * 1024), (1024 * 1024, 16 * 1024)];

/// How much memory each thread has for what it learns about a pattern.
const MAX_LEARNT: usize = 8 * 1024 * 1024;

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let (matcher, longest) = compile(&input)?;
    let filter = Filter::parse(&input.glob)?;
    let context = input.context_lines.min(MAX_CONTEXT);
    let most = cx.caps().items.min(text::line_budget(cx));
    let search = Search { matcher, longest, context, most, stop: cx.stop_flag(), kept: Mutex::new(Kept::new(most)) };

    let (path, counts) = match cx.workspace()?.open_node(&input.path)? {
        Node::File(opened) => {
            let path = opened.path();
            (path, search.one(opened))
        }
        Node::Dir(start) => {
            let path = start.path();
            (path, search.all(cx, start, &filter)?)
        }
    };
    cx.check()?;
    let kept = search.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    let total = kept.total();
    let page = Page::fill(cx, kept, context);
    let cut = text::cut_items(page.matches.len(), total);

    let mut text = page.text;
    if total == 0 {
        text::remark(&mut text, &format!("no matches in {} files", counts.searched));
    }
    if total == 0 && counts.binary > 0 {
        text::remark(&mut text, &format!("{} binary files were left out", counts.binary));
    }
    if counts.long_lines > 0 {
        let remark = format!("{} files have a line over {longest} bytes and were left out", counts.long_lines);
        text::remark(&mut text, &remark);
    }
    if counts.unreadable > 0 {
        text::remark(&mut text, &format!("{} files or directories could not be read", counts.unreadable));
    }
    text::tell_cut(&mut text, cut, "matches", "; narrow the pattern, the path or the glob");
    let output = Output {
        path,
        matches: page.matches,
        total,
        files_searched: counts.searched,
        skipped_binary: counts.binary,
        skipped_long_lines: counts.long_lines,
        unreadable: counts.unreadable,
    };
    Ok(Answer::with_text(output, text.trim_end()).truncated(cut))
}

/// The pattern, ready to search, and how long the lines may be that it is searched in.
fn compile(input: &Input) -> Result<(RegexMatcher, usize), Fault> {
    let mut why = String::new();
    for (size, longest) in REACH {
        let compiled = RegexMatcherBuilder::new()
            .case_insensitive(input.ignore_case)
            // `^` and `$` are about lines, and `$` comes before a carriage return as well.
            .multi_line(true)
            .crlf(true)
            .size_limit(size)
            .dfa_size_limit(MAX_LEARNT)
            .build(&input.pattern);
        match compiled {
            Ok(matcher) => return Ok((matcher, longest)),
            Err(error) => why = error.to_string(),
        }
    }
    // The pattern comes first in what the parser says, the reason last.
    let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
    Err(BAD_PATTERN.failed(
        format!("`{}` is not a regular expression: {}", brief(&input.pattern), brief(why)),
        "Correct it; put `\\` before `.`, `(`, `[`, `{`, `*`, `+`, `?` and `|` that are meant literally.",
    ))
}

/// Which files are searched.
enum Filter {
    All,
    Only(Glob),
    AllBut(Glob),
}

impl Filter {
    fn parse(glob: &str) -> Result<Self, Fault> {
        Ok(match (glob, glob.strip_prefix('!')) {
            ("", _) => Self::All,
            (_, Some(glob)) => Self::AllBut(Glob::parse(glob)?),
            (glob, None) => Self::Only(Glob::parse(glob)?),
        })
    }

    fn passes(&self, path: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Only(glob) => glob.matches(path),
            Self::AllBut(glob) => !glob.matches(path),
        }
    }
}

#[derive(Default)]
struct Counts {
    searched: u64,
    binary: u64,
    long_lines: u64,
    unreadable: u64,
}

/// One search, shared by all threads.
struct Search<'a> {
    matcher: RegexMatcher,
    longest: usize,
    context: usize,
    most: usize,
    stop: &'a StopFlag,
    kept: Mutex<Kept<Vec<Line>>>,
}

/// What a thread needs, used again for each file.
struct Worker {
    searcher: Searcher,
    matcher: RegexMatcher,
    counts: Counts,
}

impl Search<'_> {
    fn one(&self, opened: OpenFile) -> Counts {
        let mut worker = self.worker();
        self.file(&mut worker, opened.place, &opened.file);
        worker.counts
    }

    fn all(&self, cx: &Cx, start: OpenDir, filter: &Filter) -> Result<Counts, Fault> {
        let above = if start.place.is_empty() { 0 } else { start.place.len() + 1 };
        let visit = |worker: &mut Worker, found: Found<'_>| {
            // A device is not even opened: for some that alone is a command.
            if found.kind != FileType::RegularFile || !filter.passes(&found.place[above..]) {
                return Ok(());
            }
            match found.dir.open_entry(found.name) {
                Ok(Some((file, _))) => self.file(worker, found.place, &file),
                Ok(None) | Err(rustix::io::Errno::NOENT) => {}
                Err(_) => worker.counts.unreadable += 1,
            }
            Ok(())
        };
        let walked = walk(cx, start, None, Ignored::Skip, || self.worker(), visit)?;
        let mut counts = Counts { unreadable: walked.unreadable, ..Counts::default() };
        for worker in walked.gathered {
            counts.searched += worker.counts.searched;
            counts.binary += worker.counts.binary;
            counts.long_lines += worker.counts.long_lines;
            counts.unreadable += worker.counts.unreadable;
        }
        Ok(counts)
    }

    fn worker(&self) -> Worker {
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(self.longest))
            .build();
        Worker { searcher, matcher: self.matcher.clone(), counts: Counts::default() }
    }

    fn file(&self, worker: &mut Worker, place: Vec<u8>, file: &File) {
        let keep = if self.kept().wants(&place) { self.most } else { 0 };
        let matcher = &worker.matcher;
        let mut hits = Hits { matcher, stop: self.stop, keep, lines: Vec::new(), kept: 0, total: 0, binary: false };
        let reader = Stoppable { file, stop: self.stop };
        match worker.searcher.search_reader(&worker.matcher, reader, &mut hits) {
            // The kernel's errors have a number; without one it is the searcher's own, whose memory is full.
            Err(error) if error.raw_os_error().is_none() => worker.counts.long_lines += 1,
            Err(_) => worker.counts.unreadable += 1,
            Ok(()) if hits.binary => worker.counts.binary += 1,
            Ok(()) => {
                worker.counts.searched += 1;
                if hits.total > 0 {
                    self.kept().add(place, hits.kept, hits.total, hits.lines);
                }
            }
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept<Vec<Line>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that ends with an error when the call is stopped, so that a large one does not hold it up.
struct Stoppable<'a> {
    file: &'a File,
    stop: &'a StopFlag,
}

impl io::Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_raised() {
            return Err(io::Error::other("stopped"));
        }
        self.file.read(buffer)
    }
}

struct Line {
    number: u64,
    text: String,
    matches: bool,
}

/// What was found in one file.
struct Hits<'a> {
    matcher: &'a RegexMatcher,
    stop: &'a StopFlag,
    /// How many matching lines are kept; the rest are counted.
    keep: usize,
    lines: Vec<Line>,
    kept: usize,
    total: u64,
    binary: bool,
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.stop.is_raised() {
            return Err(io::Error::other("stopped"));
        }
        self.total += 1;
        if self.kept < self.keep {
            self.kept += 1;
            let at = self.matcher.find(found.bytes()).ok().flatten().map_or(0, |m| m.start());
            let text = clip(found.bytes(), at);
            self.lines.push(Line { number: found.line_number().unwrap_or(0), text, matches: true });
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let belongs = self.kept < self.keep
            || (self.total == self.kept as u64 && matches!(context.kind(), SinkContextKind::After));
        if belongs {
            let text = clip(context.bytes(), 0);
            self.lines.push(Line { number: context.line_number().unwrap_or(0), text, matches: false });
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A line as it is shown: without its ending, and when it is long, the part around `at`.
fn clip(line: &[u8], at: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = at.saturating_sub(MAX_LINE / 4).min(line.len() - MAX_LINE);
    let start = (0..=start).rev().find(|i| is_boundary(line, *i)).unwrap_or(0);
    let end = (start..=start + MAX_LINE).rev().find(|i| is_boundary(line, *i)).unwrap_or(start);
    let before = if start > 0 { "[..]" } else { "" };
    let after = if end < line.len() { "[..]" } else { "" };
    format!("{before}{}{after}", String::from_utf8_lossy(&line[start..end]))
}

/// Does a character start here, as far as one can tell?
fn is_boundary(line: &[u8], at: usize) -> bool {
    line.get(at).is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
}

/// As many matches as fit, as text and typed.
struct Page {
    text: String,
    matches: Vec<Match>,
}

impl Page {
    fn fill(cx: &Cx, kept: Kept<Vec<Line>>, context: usize) -> Self {
        let (bytes, lines_left) = (text::byte_budget(cx), text::line_budget(cx));
        let mut page = Self { text: String::new(), matches: Vec::new() };
        let mut lines_shown = 0;
        let mut typed = 0;
        for (place, lines) in kept.into_sorted() {
            let path = shown(&place);
            let named = one_line(&path).into_owned();
            let mut previous = None;
            for (i, line) in lines.iter().enumerate() {
                let apart = context > 0 && !page.text.is_empty() && previous.is_none_or(|n| line.number > n + 1);
                previous = Some(line.number);
                let mark = if line.matches { ':' } else { '-' };
                let shown =
                    format!("{}{named}{mark}{}{mark}{}\n", if apart { "--\n" } else { "" }, line.number, line.text);
                lines_shown += if apart { 2 } else { 1 };
                let full = page.text.len() + shown.len() > bytes
                    || lines_shown > lines_left
                    || (line.matches && page.matches.len() == cx.caps().items);
                if full {
                    return page;
                }
                if line.matches {
                    let found = Match {
                        path: path.clone(),
                        line: line.number,
                        text: line.text.clone(),
                        context: around(&lines, i, context),
                    };
                    // A line is context of many matches, so the typed form can be many times the text.
                    typed += serde_json::to_string(&found).map_or(0, |json| json.len());
                    if typed > 2 * cx.caps().output_bytes {
                        return page;
                    }
                    page.matches.push(found);
                }
                page.text.push_str(&shown);
            }
        }
        page
    }
}

fn around(lines: &[Line], i: usize, context: usize) -> Vec<ContextLine> {
    let middle = lines[i].number;
    let near = &lines[i.saturating_sub(context)..(i + context + 1).min(lines.len())];
    near.iter()
        .filter(|line| !line.matches && line.number.abs_diff(middle) <= context as u64)
        .map(|line| ContextLine { line: line.number, text: line.text.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_contract::{Caps, Truncated, Unit};

    use super::{super::desk::Desk, *};

    /// Searches and compares what the model reads.
    fn check(desk: &Desk, arguments: Value, expected: &str) -> Value {
        let output = desk.call(tool, arguments).unwrap();
        assert_eq!((output.text.as_str(), output.truncated), (expected, None));
        output.structured
    }

    #[test]
    fn a_match_is_anywhere_in_a_line_and_told_with_path_and_number() {
        let desk = Desk::with(&[("src/a.rs", "let x = 1;\nuse foo;\n  foo(x)\n"), ("b.txt", "foo")]);
        let structured =
            check(&desk, json!({ "pattern": "foo" }), "b.txt:1:foo\nsrc/a.rs:2:use foo;\nsrc/a.rs:3:  foo(x)");
        assert_eq!(
            structured,
            json!({
                "path": ".",
                "matches": [
                    { "path": "b.txt", "line": 1, "text": "foo" },
                    { "path": "src/a.rs", "line": 2, "text": "use foo;" },
                    { "path": "src/a.rs", "line": 3, "text": "  foo(x)" },
                ],
                "total": 3, "files_searched": 2, "skipped_binary": 0, "skipped_long_lines": 0, "unreadable": 0,
            })
        );
    }

    #[test]
    fn the_pattern_is_a_regular_expression() {
        let desk = Desk::with(&[("a", "fn main() {\nFN x\nprice: 12\r\n")]);
        check(&desk, json!({ "pattern": r"fn \w+\(" }), "a:1:fn main() {");
        check(&desk, json!({ "pattern": "^fn", "ignore_case": true }), "a:1:fn main() {\na:2:FN x");
        check(&desk, json!({ "pattern": r"\d+$" }), "a:3:price: 12");
        check(&desk, json!({ "pattern": "none" }), "[no matches in 1 files]");
        for pattern in ["(", "a\\nb", "(?=x)", "a{999999}", "(?:\\w{100}){100}"] {
            assert_eq!(desk.code(tool, json!({ "pattern": pattern })), "bad_pattern", "{pattern}");
        }
    }

    #[test]
    fn globs_take_in_and_leave_out() {
        let desk = Desk::with(&[("a.rs", "x"), ("src/b.rs", "x"), ("src/c.ts", "x")]);
        check(&desk, json!({ "pattern": "x", "glob": "*.rs" }), "a.rs:1:x\nsrc/b.rs:1:x");
        check(&desk, json!({ "pattern": "x", "glob": "!*.rs" }), "src/c.ts:1:x");
        check(&desk, json!({ "pattern": "x", "glob": "src/*" }), "src/b.rs:1:x\nsrc/c.ts:1:x");
        check(&desk, json!({ "pattern": "x", "glob": "b.*", "path": "src" }), "src/b.rs:1:x");
        assert_eq!(desk.code(tool, json!({ "pattern": "x", "glob": "[" })), "bad_pattern");
    }

    #[test]
    fn a_file_can_be_searched_alone() {
        let desk = Desk::with(&[("node_modules/a", "x\ny\n"), ("b", "x")]);
        desk.link("l", "b");
        check(&desk, json!({ "pattern": "x", "path": "node_modules/a" }), "node_modules/a:1:x");
        check(&desk, json!({ "pattern": "x", "path": "node_modules" }), "node_modules/a:1:x");
        check(&desk, json!({ "pattern": "x", "path": "l" }), "b:1:x");
        check(&desk, json!({ "pattern": "x" }), "b:1:x");
        assert_eq!(desk.code(tool, json!({ "pattern": "x", "path": "none" })), "not_found");
    }

    #[test]
    fn context_is_shown_once_and_groups_are_set_apart() {
        let desk = Desk::with(&[("a", "1\nhit 2\n3\n4\n5\n6\nhit 7\nhit 8\n"), ("b", "hit")]);
        let text = "a-1-1\na:2:hit 2\na-3-3\n--\na-6-6\na:7:hit 7\na:8:hit 8\n--\nb:1:hit";
        let structured = check(&desk, json!({ "pattern": "hit", "context_lines": 1 }), text);
        assert_eq!(
            structured["matches"],
            json!([
                { "path": "a", "line": 2, "text": "hit 2",
                  "context": [{ "line": 1, "text": "1" }, { "line": 3, "text": "3" }] },
                { "path": "a", "line": 7, "text": "hit 7", "context": [{ "line": 6, "text": "6" }] },
                { "path": "a", "line": 8, "text": "hit 8" },
                { "path": "b", "line": 1, "text": "hit" },
            ])
        );
    }

    #[test]
    fn what_is_no_text_is_left_out_and_counted() {
        let desk = Desk::with(&[("a", "x")]);
        desk.file("bin", b"x\nx\0\n");
        // The byte that tells comes after matches that were already seen.
        desk.file("late", [b"x\n".repeat(100_000), b"\0".to_vec()].concat());
        let structured = check(&desk, json!({ "pattern": "x" }), "a:1:x");
        assert_eq!((&structured["skipped_binary"], &structured["files_searched"]), (&json!(2), &json!(1)));
        let text = "[no matches in 0 files]\n[1 binary files were left out]";
        check(&desk, json!({ "pattern": "x", "path": "bin" }), text);
    }

    #[test]
    fn encodings_are_searched_as_text() {
        let desk = Desk::new();
        desk.file(
            "a",
            [b"\xff\xfe".to_vec(), "naïve\nx\n".encode_utf16().flat_map(u16::to_le_bytes).collect()].concat(),
        );
        desk.file("b", "\u{feff}naïve\n");
        desk.file("c", b"na\xefve\nnaive\n");
        check(&desk, json!({ "pattern": "^naïve$" }), "a:1:naïve\nb:1:naïve");
        check(&desk, json!({ "pattern": "ve", "path": "c" }), "c:1:na\u{fffd}ve\nc:2:naive");
    }

    #[test]
    fn a_long_line_is_cut_around_the_match() {
        let desk = Desk::with(&[("a", &format!("{}NEEDLE{}\n", "é".repeat(1000), "z".repeat(1000)))]);
        let text = desk.call(tool, json!({ "pattern": "NEEDLE" })).unwrap().structured["matches"][0]["text"].clone();
        let text = text.as_str().unwrap();
        assert!(text.contains("NEEDLE") && text.starts_with("[..]é") && text.ends_with("z[..]"), "{text}");
        assert!(text.len() <= MAX_LINE + 8, "{}", text.len());
    }

    /// A pattern and the longest line it is searched in, or none when it is too large altogether.
    fn check_reach(pattern: &str, expected: Option<usize>) {
        let desk = Desk::with(&[("a", "ab")]);
        let arguments = json!({ "pattern": pattern });
        let Some(longest) = expected else {
            return assert_eq!(desk.code(tool, arguments), "bad_pattern", "{pattern}");
        };
        desk.file("fits", [vec![b' '; longest - 2], b"\n".to_vec()].concat());
        let output = desk.call(tool, arguments.clone()).unwrap();
        assert_eq!(output.structured["skipped_long_lines"], json!(0), "{pattern}");
        desk.file("long", vec![b' '; longest + 1]);
        let output = desk.call(tool, arguments).unwrap();
        let remark = format!("[1 files have a line over {longest} bytes and were left out]");
        assert_eq!(output.text.lines().last(), Some(remark.as_str()), "{pattern}");
        let counts = (&output.structured["skipped_long_lines"], &output.structured["unreadable"]);
        assert_eq!(counts, (&json!(1), &json!(0)), "{pattern}");
    }

    #[test]
    fn the_larger_the_pattern_the_shorter_the_lines() {
        check_reach("fn main", Some(256 * 1024));
        check_reach("[ab]{0,999}a[ab]{999}c", Some(64 * 1024));
        check_reach("(?:[ab]{0,999}a[ab]{0,999}b){0,2}c", Some(16 * 1024));
        check_reach("(?:[ab]{0,999}a[ab]{0,999}b){0,8}c", None);
    }

    #[test]
    fn a_bad_pattern_is_told_in_short() {
        let desk = Desk::new();
        let told = |pattern: &str| desk.call(tool, json!({ "pattern": pattern })).unwrap_err().message;
        assert_eq!(told("a("), "`a(` is not a regular expression: unclosed group");
        assert_eq!(
            told(&"(".repeat(4000)),
            format!("`{}...` is not a regular expression: unclosed group", "(".repeat(197))
        );
    }

    #[test]
    fn the_first_matches_are_the_same_each_time_and_all_are_counted() {
        let desk = Desk::new();
        for n in 0..90 {
            desk.file(&format!("{}/{n:03}", n % 4), "hit\n".repeat(20));
        }
        let first = desk.call(tool, json!({ "pattern": "hit" })).unwrap();
        assert_eq!(first.truncated, Some(Truncated { shown: 1000, total: 1800, unit: Unit::Items }));
        assert!(first.text.starts_with("0/000:1:hit\n0/000:2:hit\n"));
        let end = "[truncated: 1000 of 1800 matches; narrow the pattern, the path or the glob]";
        assert_eq!(first.text.lines().last(), Some(end));
        for _ in 0..5 {
            assert_eq!(desk.call(tool, json!({ "pattern": "hit" })).unwrap(), first);
        }
    }

    #[test]
    fn text_and_structure_are_cut_at_the_same_match() {
        let desk = Desk::with(&[("a", "hit 1\nhit 2\nhit 3\n")]);
        let caps = Caps { output_bytes: 512 + 25, ..Caps::DEFAULT };
        let output = desk.call_capped(tool, json!({ "pattern": "hit" }), caps).unwrap();
        assert!(output.text.starts_with("a:1:hit 1\na:2:hit 2\n[truncated: 2 of 3 matches"), "{}", output.text);
        assert_eq!(output.structured["matches"].as_array().unwrap().len(), 2);
        assert_eq!(output.structured["total"], json!(3));
    }

    #[test]
    fn context_counts_for_each_match_that_repeats_it() {
        let line = format!("{}\n", "\u{1}".repeat(400));
        let lines: String = (0..200).map(|n| if n % 3 == 0 { "hit\n" } else { line.as_str() }).collect();
        let desk = Desk::with(&[("a", &lines)]);
        let output = desk.call(tool, json!({ "pattern": "hit", "context_lines": 20 })).unwrap();
        let size = output.structured.to_string().len();
        assert!(size < 2 * Caps::DEFAULT.output_bytes + 512, "{size}");
        let shown = output.structured["matches"].as_array().unwrap().len() as u64;
        assert!(shown > 0);
        assert_eq!(output.truncated, Some(Truncated { shown, total: 67, unit: Unit::Items }));
    }

    #[test]
    fn a_search_ends_at_the_next_match_when_the_call_is_stopped() {
        let (stop, matcher) = (StopFlag::default(), RegexMatcher::new("x").unwrap());
        let mut hits =
            Hits { matcher: &matcher, stop: &stop, keep: 0, lines: Vec::new(), kept: 0, total: 0, binary: false };
        Searcher::new().search_slice(&matcher, b"x\nx\n", &mut hits).unwrap();
        assert_eq!(hits.total, 2);
        stop.cancel();
        assert!(Searcher::new().search_slice(&matcher, b"x\nx\n", &mut hits).is_err());
        assert_eq!(hits.total, 2);
    }

    #[test]
    fn a_costly_search_ends_when_the_call_is_stopped() {
        // Searched to its end, this takes many minutes.
        let desk = Desk::with(&[("a", &format!("{}\n", "abbabaabbaababba".repeat(500)).repeat(1_000))]);
        let pattern = "(?:[ab]{0,999}a[ab]{0,999}b){0,4}c";
        std::thread::scope(|scope| {
            let search = scope.spawn(|| desk.call(tool, json!({ "pattern": pattern })));
            // Most likely it is in the middle of a piece by then.
            std::thread::sleep(Duration::from_millis(100));
            desk.stop.cancel();
            assert_eq!(search.join().unwrap().unwrap_err().code, "cancelled");
        });
    }

    #[test]
    fn a_read_ends_when_the_call_is_stopped() {
        let desk = Desk::with(&[("a", "x")]);
        let tool = tool();
        let cx = desk.cx(&tool, Caps::DEFAULT);
        let file = cx.workspace().unwrap().open_file("a").unwrap().file;
        let mut reader = Stoppable { file: &file, stop: cx.stop_flag() };
        assert_eq!(io::Read::read(&mut reader, &mut [0; 1]).unwrap(), 1);
        desk.stop.time_out();
        assert!(io::Read::read(&mut reader, &mut [0; 1]).is_err());
    }
}
