//! `find`: files by name.

use std::{
    num::NonZero,
    sync::{Mutex, PoisonError},
    time::Duration,
};

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
    text,
    walk::{Ignored, walk},
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "find".into(),
            summary: "Find files by name.".into(),
            description:
                "Finds files (not directories) below `path` by glob, sorted by path. A pattern without `/` is \
                matched against the name anywhere in the tree: `*.rs`. One with `/` is matched against the path \
                relative to `path`: `src/**/*_test.rs`. `*` stays within a name, `**` crosses directories. Names that \
                begin with a dot are included. What `.gitignore` and `.ignore` exclude is left out, and so are `.git`, \
                `node_modules`, `_build` and `_opam`, unless `include_ignored` is set. Links are listed, not followed. \
                At most 1000 paths are shown; the total is counted."
                    .into(),
            category: Category::FileSystem,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            needs: Needs::READ_FILES,
            timeout: Duration::from_secs(30),
            cost: CostTier::Medium,
            examples: vec![
                Example { title: "All Rust files".into(), arguments: json!({ "pattern": "*.rs" }) },
                Example {
                    title: "Tests of one crate".into(),
                    arguments: json!({ "pattern": "tests/**/*.rs", "path": "." }),
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
    /// A glob, such as `*.rs` or `src/**/mod.rs`.
    #[schemars(length(max = 1024))]
    pattern: String,
    /// Where to look, relative to the workspace or absolute inside it.
    #[serde(default = "here")]
    path: String,
    /// How many directories deep: 1 is only what is directly in `path`, 0 is no limit.
    #[serde(default)]
    max_depth: u32,
    /// Also look at what ignore files and the built-in list leave out.
    #[serde(default)]
    include_ignored: bool,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// Where it looked, relative to the workspace.
    path: String,
    /// The files, relative to the workspace, sorted.
    paths: Vec<String>,
    /// How many files match, also those that are not shown.
    total: u64,
    /// How many directories could not be opened.
    unreadable: u64,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let glob = Glob::parse(&input.pattern)?;
    let start = cx.workspace()?.open_dir(&input.path)?;
    let path = start.path();
    let above = if start.place.is_empty() { 0 } else { start.place.len() + 1 };
    let ignored = if input.include_ignored { Ignored::Include } else { Ignored::Skip };
    let kept = Mutex::new(Kept::new(cx.caps().items.min(text::line_budget(cx))));
    let walked = walk(
        cx,
        start,
        NonZero::new(input.max_depth),
        ignored,
        || (),
        |(), found| {
            if glob.matches(&found.place[above..]) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).add(found.place, 1, 1, ());
            }
            Ok(())
        },
    )?;
    let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    let total = kept.total();

    let mut text = String::new();
    let mut paths = Vec::new();
    for (place, ()) in kept.into_sorted() {
        let path = shown(&place);
        let line = one_line(&path);
        if text.len() + line.len() + 1 > text::byte_budget(cx) {
            break;
        }
        text.push_str(&line);
        text.push('\n');
        paths.push(path);
    }
    let cut = text::cut_items(paths.len(), total);
    if total == 0 {
        text::remark(&mut text, "no files match");
    }
    if walked.unreadable > 0 {
        text::remark(&mut text, &format!("{} directories could not be opened", walked.unreadable));
    }
    text::tell_cut(&mut text, cut, "files", "; narrow the pattern or the path");
    let output = Output { path, paths, total, unreadable: walked.unreadable };
    Ok(Answer::with_text(output, text.trim_end()).truncated(cut))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_contract::{Truncated, Unit};

    use super::{super::desk::Desk, *};

    fn check(desk: &Desk, arguments: Value, expected: &[&str]) {
        let output = desk.call(tool, arguments).unwrap();
        assert_eq!(output.structured["paths"], json!(expected));
        assert_eq!(output.structured["total"], json!(expected.len()));
        let text = if expected.is_empty() { "[no files match]".to_owned() } else { expected.join("\n") };
        assert_eq!((output.text, output.truncated), (text, None));
    }

    #[test]
    fn a_name_is_found_anywhere_and_a_path_from_where_the_search_starts() {
        let desk = Desk::with(&[("a.ml", ""), ("src/b.ml", ""), ("src/x/c.ml", ""), ("src/b.mli", ""), (".h.ml", "")]);
        check(&desk, json!({ "pattern": "*.ml" }), &[".h.ml", "a.ml", "src/b.ml", "src/x/c.ml"]);
        check(&desk, json!({ "pattern": "src/*.ml" }), &["src/b.ml"]);
        check(&desk, json!({ "pattern": "**/*.ml", "path": "src" }), &["src/b.ml", "src/x/c.ml"]);
        check(&desk, json!({ "pattern": "x/*", "path": "src" }), &["src/x/c.ml"]);
        check(&desk, json!({ "pattern": "src" }), &[]);
        check(&desk, json!({ "pattern": "b" }), &[]);
    }

    #[test]
    fn depth_is_counted_from_where_the_search_starts() {
        let desk = Desk::with(&[("1", ""), ("d/2", ""), ("d/e/3", "")]);
        check(&desk, json!({ "pattern": "*", "max_depth": 1 }), &["1"]);
        check(&desk, json!({ "pattern": "*", "max_depth": 2 }), &["1", "d/2"]);
        check(&desk, json!({ "pattern": "*", "max_depth": 1, "path": "d" }), &["d/2"]);
        check(&desk, json!({ "pattern": "*", "max_depth": 0 }), &["1", "d/2", "d/e/3"]);
    }

    #[test]
    fn ignore_files_are_obeyed_and_the_nearest_wins() {
        let desk = Desk::with(&[
            (".gitignore", "*.log\n/top\nout/\n# no\n\nkept.log\n"),
            ("a.log", ""),
            ("a.txt", ""),
            ("top/x", ""),
            ("sub/top/x", ""),
            ("out/x", ""),
            ("sub/out", ""),
            ("sub/.gitignore", "!kept.log\nlocal\n"),
            ("sub/kept.log", ""),
            ("sub/other.log", ""),
            ("sub/local", ""),
            ("local", ""),
            ("both/.gitignore", "x*\n"),
            ("both/.ignore", "!x1\ny\n"),
            ("both/x1", ""),
            ("both/x2", ""),
            ("both/y", ""),
        ]);
        let found = [
            ".gitignore",
            "a.txt",
            "both/.gitignore",
            "both/.ignore",
            "both/x1",
            "local",
            "sub/.gitignore",
            "sub/kept.log",
            "sub/out",
            "sub/top/x",
        ];
        check(&desk, json!({ "pattern": "*" }), &found);
        // Rules above the start hold as well; a start that is ignored itself is searched all the same.
        check(&desk, json!({ "pattern": "*.log", "path": "sub" }), &["sub/kept.log"]);
        check(&desk, json!({ "pattern": "*", "path": "out" }), &["out/x"]);
        check(&desk, json!({ "pattern": "a.*", "include_ignored": true }), &["a.log", "a.txt"]);
    }

    #[test]
    fn directories_of_tools_are_left_out_unless_asked_for() {
        let desk = Desk::with(&[
            (".git/x", ""),
            ("a/node_modules/x", ""),
            ("_build/x", ""),
            ("_opam/x", ""),
            ("b/x", ""),
            ("c/.git", ""),
        ]);
        check(&desk, json!({ "pattern": "*" }), &["b/x", "c/.git"]);
        let all = [".git/x", "_build/x", "_opam/x", "a/node_modules/x", "b/x"];
        check(&desk, json!({ "pattern": "x", "include_ignored": true }), &all);
        check(&desk, json!({ "pattern": "x", "path": "a/node_modules" }), &["a/node_modules/x"]);
    }

    #[test]
    fn links_are_listed_and_not_followed() {
        let desk = Desk::with(&[("d/x", "")]);
        desk.link("l", "d");
        desk.link("d/up", "..");
        check(&desk, json!({ "pattern": "*" }), &["d/up", "d/x", "l"]);
        check(&desk, json!({ "pattern": "x", "path": "l" }), &["d/x"]);
    }

    #[test]
    fn the_first_thousand_are_the_same_each_time_and_all_are_counted() {
        let desk = Desk::new();
        for n in 0..1200 {
            desk.file(&format!("{}/{n:04}", n % 7), "");
        }
        let first = desk.call(tool, json!({ "pattern": "*" })).unwrap();
        let shown = first.structured["paths"].as_array().unwrap().clone();
        assert!(shown.is_sorted_by_key(|path| path.as_str().unwrap().to_owned()));
        assert_eq!(first.truncated, Some(Truncated { shown: 1000, total: 1200, unit: Unit::Items }));
        assert!(first.text.ends_with("[truncated: 1000 of 1200 files; narrow the pattern or the path]"));
        for _ in 0..5 {
            assert_eq!(desk.call(tool, json!({ "pattern": "*" })).unwrap(), first);
        }
    }

    #[test]
    fn a_deep_tree_is_walked_to_its_end() {
        let desk = Desk::new();
        let deep = "d/".repeat(300);
        desk.file(&format!("{deep}end"), "");
        check(&desk, json!({ "pattern": "end" }), &[&format!("{deep}end")]);
    }

    #[test]
    fn what_cannot_be_searched_is_said() {
        let desk = Desk::with(&[("a", "")]);
        assert_eq!(desk.code(tool, json!({ "pattern": "{" })), "bad_pattern");
        assert_eq!(desk.code(tool, json!({ "pattern": "*", "path": "a" })), "not_a_directory");
        assert_eq!(desk.code(tool, json!({ "pattern": "*", "path": ".." })), "path_outside_workspace");
    }

    #[test]
    fn typed_and_text_stay_small_whatever_the_names() {
        for c in ["x", "\\", "\"", "\u{1}", "日"] {
            let desk = Desk::new();
            for n in 0..900 {
                desk.file(&format!("{n:04}{}", c.repeat(240 / c.len())), "");
            }
            for (tool, arguments) in
                [(tool as fn() -> Tool, json!({ "pattern": "*" })), (super::super::ls::tool, json!({}))]
            {
                let output = desk.call(tool, arguments).unwrap();
                let size = output.structured.to_string().len();
                assert!(size < 4 * tool().def.caps.output_bytes, "{c:?}: {size}");
                assert!(output.truncated.is_some());
            }
        }
    }
}
