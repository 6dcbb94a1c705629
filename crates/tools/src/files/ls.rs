//! `ls`: what is in a directory.

use std::{ffi::CString, fmt::Write as _, time::Duration};

use jiff::Timestamp;
use rustix::fs::{FileType, Stat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, Effect, EffectKind, Example, Fault, Needs, SafetyClass, ToolDef};

use super::{
    fault::{self, BAD_PATTERN, NOT_A_REGULAR_FILE},
    glob::Glob,
    path::{one_line, shown},
    text, workspace,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "ls".into(),
            summary: "List a directory.".into(),
            description: "Lists what is directly in a directory, sorted by name, hidden names included: type, size in \
                bytes, time of the last change (UTC) and name. `pattern` is a glob over the names, such as `*.rs`. At \
                most 1000 entries are shown. For whole trees use `find`."
                .into(),
            category: Category::FileSystem,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            needs: Needs::READ_FILES,
            timeout: Duration::from_secs(10),
            examples: vec![
                Example { title: "The workspace".into(), arguments: json!({}) },
                Example { title: "Rust files in src".into(), arguments: json!({ "path": "src", "pattern": "*.rs" }) },
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
    /// The directory, relative to the workspace or absolute inside it.
    #[serde(default = "here")]
    path: String,
    /// Only names that this glob matches; empty for all.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pattern: String,
}

pub(crate) fn here() -> String {
    ".".to_owned()
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The directory that was listed, relative to the workspace.
    path: String,
    /// Its entries, sorted by name.
    entries: Vec<Entry>,
    /// How many entries there are, also those that are not shown.
    total: u64,
}

#[derive(Serialize, JsonSchema)]
struct Entry {
    /// The name; bytes that are no UTF-8 are written `\xNN`.
    name: String,
    /// What it is. A link is not followed.
    #[serde(rename = "type")]
    kind: Kind,
    /// Bytes; null for everything but files.
    size: Option<u64>,
    /// The last change, ISO 8601 in UTC.
    modified: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Dir,
    File,
    Link,
    Other,
}

impl Kind {
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Self::Dir,
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Dir => "dir",
            Self::File => "file",
            Self::Link => "link",
            Self::Other => "other",
        }
    }
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let glob = if input.pattern.is_empty() { None } else { Some(Glob::parse(&input.pattern)?) };
    let dir = cx.workspace()?.open_dir(&input.path)?;
    let mut names: Vec<(CString, FileType)> = Vec::new();
    dir.list(&mut Vec::new(), |name, kind| {
        cx.check()?;
        if glob.as_ref().is_none_or(|glob| glob.matches(name.to_bytes())) {
            names.push((name.to_owned(), kind));
        }
        Ok(())
    })?;
    names.sort_by(|(a, _), (b, _)| a.cmp(b));
    let total = names.len() as u64;

    let mut text = String::new();
    let mut entries = Vec::new();
    for (name, kind) in names.into_iter().take(cx.caps().items.min(text::line_budget(cx))) {
        cx.check()?;
        let entry = look(shown(name.to_bytes()), kind, dir.stat(&name).ok().as_ref());
        let line = line(&entry);
        if text.len() + line.len() > text::byte_budget(cx) {
            break;
        }
        text.push_str(&line);
        entries.push(entry);
    }
    let cut = text::cut_items(entries.len(), total);
    if total == 0 {
        text::remark(&mut text, "no entries");
    }
    text::tell_cut(&mut text, cut, "entries", "");
    Ok(Answer::with_text(Output { path: dir.path(), entries, total }, text.trim_end()).truncated(cut))
}

/// An entry that was removed since it was listed has no size and no time.
fn look(name: String, kind: FileType, stat: Option<&Stat>) -> Entry {
    let kind = Kind::of(stat.map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode)));
    Entry {
        name,
        kind,
        size: stat.filter(|_| kind == Kind::File).map(workspace::size),
        modified: stat.and_then(|stat| Timestamp::from_second(stat.st_mtime).ok()).map(|time| time.to_string()),
    }
}

fn line(entry: &Entry) -> String {
    let mut line = format!("{:<5} ", entry.kind.as_str());
    // Writing to a string does not fail.
    let _ = match entry.size {
        Some(size) => write!(line, "{size:>10}"),
        None => write!(line, "{:>10}", "-"),
    };
    let slash = if entry.kind == Kind::Dir { "/" } else { "" };
    let _ = writeln!(line, "  {}  {}{slash}", entry.modified.as_deref().unwrap_or("-"), one_line(&entry.name));
    line
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_contract::{Truncated, Unit};

    use super::{super::desk::Desk, *};

    /// The names and kinds that a listing shows.
    fn check(desk: &Desk, arguments: Value, expected: &[(&str, &str)]) {
        let listed = desk.call(tool, arguments).unwrap().structured;
        let entries: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|e| (&e["name"], &e["type"])).collect();
        let wanted: Vec<_> = expected.iter().map(|(name, kind)| (json!(name), json!(kind))).collect();
        assert_eq!(entries, wanted.iter().map(|(name, kind)| (name, kind)).collect::<Vec<_>>());
    }

    #[test]
    fn entries_are_sorted_and_typed() {
        let desk = Desk::with(&[("b.rs", "12345"), ("a/x", ""), (".h", ""), ("C", "")]);
        desk.link("l", "b.rs");
        check(&desk, json!({}), &[(".h", "file"), ("C", "file"), ("a", "dir"), ("b.rs", "file"), ("l", "link")]);
        check(&desk, json!({ "path": "a" }), &[("x", "file")]);
    }

    #[test]
    fn an_entry_has_its_size_and_time() {
        let desk = Desk::with(&[("a/b.rs", "12345")]);
        desk.dir("a/d");
        desk.set_time("a/b.rs", 1_700_000_000);
        desk.set_time("a/d", 0);
        let output = desk.call(tool, json!({ "path": "a" })).unwrap();
        assert_eq!(
            output.structured,
            json!({
                "path": "a",
                "entries": [
                    { "name": "b.rs", "type": "file", "size": 5, "modified": "2023-11-14T22:13:20Z" },
                    { "name": "d", "type": "dir", "size": null, "modified": "1970-01-01T00:00:00Z" },
                ],
                "total": 2,
            })
        );
        assert_eq!(
            output.text,
            "file           5  2023-11-14T22:13:20Z  b.rs\ndir            -  1970-01-01T00:00:00Z  d/"
        );
    }

    #[test]
    fn the_pattern_filters() {
        let desk = Desk::with(&[("a.rs", ""), ("b.rs", ""), ("a.txt", ""), ("rs", "")]);
        check(&desk, json!({ "pattern": "*.rs" }), &[("a.rs", "file"), ("b.rs", "file")]);
        check(&desk, json!({ "pattern": "a.*" }), &[("a.rs", "file"), ("a.txt", "file")]);
        check(&desk, json!({ "pattern": "none" }), &[]);
        assert_eq!(desk.call(tool, json!({ "pattern": "none" })).unwrap().text, "[no entries]");
        assert_eq!(desk.code(tool, json!({ "pattern": "[" })), "bad_pattern");
    }

    #[test]
    fn more_than_a_thousand_are_counted() {
        let desk = Desk::new();
        for n in 0..1003 {
            desk.file(&format!("{n:04}"), "");
        }
        let output = desk.call(tool, json!({})).unwrap();
        assert_eq!(output.truncated, Some(Truncated { shown: 1000, total: 1003, unit: Unit::Items }));
    }

    #[test]
    fn strange_names_stay_on_one_line() {
        let desk = Desk::with(&[("a\nb", "")]);
        desk.raw_file(b"c\xff");
        check(&desk, json!({}), &[("a\nb", "file"), ("c\\xff", "file")]);
        assert_eq!(desk.call(tool, json!({})).unwrap().text.lines().count(), 2);
    }

    #[test]
    fn only_directories_are_listed() {
        let desk = Desk::with(&[("a", "")]);
        desk.link("l", ".");
        assert_eq!(desk.code(tool, json!({ "path": "a" })), "not_a_directory");
        assert_eq!(desk.code(tool, json!({ "path": "none" })), "not_found");
        assert_eq!(desk.call(tool, json!({ "path": "l" })).unwrap().structured["path"], json!("."));
    }
}
