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
