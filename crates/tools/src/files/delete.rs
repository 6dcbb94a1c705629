//! `delete`: one file.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, Effect, EffectKind, Example, Fault, Needs, SafetyClass, ToolDef};

use super::{
    fault::{self, BUSY, IS_A_DIRECTORY, NOT_A_REGULAR_FILE, PATH_IS_A_LINK},
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
    let removed = slot.remove()?;
    let output = Output { path: slot.path(), size_bytes: workspace::size(&removed) };
    let text = format!("Deleted {} ({} bytes)", output.path, output.size_bytes);
    Ok(Answer::with_text(output, text))
}
