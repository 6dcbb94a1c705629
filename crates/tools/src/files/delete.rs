//! `delete`: one file.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, Effect, EffectKind, Example, Fault, Needs, SafetyClass, ToolDef};

use super::{
    fault::{self, BUSY, IS_A_DIRECTORY, NOT_A_REGULAR_FILE, PATH_IS_A_LINK},
    preview,
    slot::{MissingDirs, Slot},
    workspace,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "delete".into(),
            summary: "Delete one file.".into(),
            description: "Deletes one regular file. It cannot be undone. Directories, links and devices are not \
                deleted."
                .into(),
            category: Category::FileSystem,
            action: ActionType::CodeDelete,
            safety: SafetyClass::Write,
            needs: Needs::WRITE_FILES,
            timeout: Duration::from_secs(30),
            examples: vec![Example { title: "A stray file".into(), arguments: json!({ "path": "old.txt" }) }],
            failures: fault::modes(&[&IS_A_DIRECTORY, &PATH_IS_A_LINK, &NOT_A_REGULAR_FILE, &BUSY]),
            ..ToolDef::default()
        },
        |input: &Input| vec![Effect::on(EffectKind::FsDelete, input.path.clone())],
        run,
    )
    .previewing(|cx: &Cx, input: Input| {
        let before = preview::now(cx, &input.path)?;
        Ok(preview::change(&input.path, before.as_ref(), None))
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file, relative to the workspace or absolute inside it.
    path: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The file that was deleted, relative to the workspace.
    path: String,
    /// How many bytes it had.
    size_bytes: u64,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let slot = Slot::take(cx, &input.path, MissingDirs::Fail)?;
    let removed = slot.remove(cx)?;
    let output = Output { path: slot.path(), size_bytes: workspace::size(&removed) };
    let text = format!("Deleted {} ({} bytes)", output.path, output.size_bytes);
    Ok(Answer::with_text(output, text))
}

#[cfg(test)]
mod tests {
    use super::{super::desk::Desk, *};

    fn check(desk: &Desk, path: &str, code: &str) {
        assert_eq!(desk.code(tool, json!({ "path": path })), code, "{path}");
    }

    #[test]
    fn a_file_goes_and_its_neighbours_stay() {
        let desk = Desk::with(&[("a", "12345"), ("b", "")]);
        let output = desk.call(tool, json!({ "path": "a" })).unwrap();
        assert_eq!(output.structured, json!({ "path": "a", "size_bytes": 5 }));
        assert_eq!(output.text, "Deleted a (5 bytes)");
        assert_eq!(desk.names(), ["b"]);
    }

    #[test]
    fn nothing_but_files_goes() {
        let desk = Desk::with(&[("d/x", ""), ("f", "")]);
        desk.link("l", "f");
        desk.dir("empty");
        check(&desk, "d", "is_a_directory");
        check(&desk, "empty", "is_a_directory");
        check(&desk, "empty/", "is_a_directory");
        check(&desk, "l", "path_is_a_link");
        check(&desk, "none", "not_found");
        check(&desk, "none/x", "not_found");
        assert_eq!(desk.names(), ["d", "d/x", "empty", "f", "l"]);
    }
}
