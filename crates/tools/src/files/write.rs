//! `write`: a whole file at once.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Caps, Category, Effect, EffectKind, Example, Fault, Needs, SafetyClass, ToolDef};

use super::{
    fault::{
        self, BUSY, IS_A_DIRECTORY, NO_DIRECTORY, NO_SPACE, NOT_A_REGULAR_FILE, NOT_FOUND, PATH_IS_A_LINK, TOO_LARGE,
    },
    slot::{MissingDirs, Slot},
    text::MAX_WHOLE,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "write".into(),
            summary: "Create a file, or replace all of it.".into(),
            description: "Writes `content` as the whole file, at most 10 MiB. An existing file is replaced and keeps \
                its permissions; it is never seen half written. To change a part of a file use `edit`: it is shorter \
                and notices when somebody else changed the file. Set `create_dirs` when the directory may not exist \
                yet."
                .into(),
            category: Category::FileSystem,
            action: ActionType::CodeWrite,
            safety: SafetyClass::Write,
            needs: Needs::WRITE_FILES,
            timeout: Duration::from_secs(30),
            // JSON can take two bytes for one of text.
            caps: Caps { input_bytes: 24 * 1024 * 1024, ..Caps::DEFAULT },
            examples: vec![
                Example {
                    title: "A small file".into(),
                    arguments: json!({ "path": "notes.txt", "content": "first line\n" }),
                },
                Example {
                    title: "In a new directory".into(),
                    arguments: json!({ "path": "docs/new/index.md", "content": "# Index\n", "create_dirs": true }),
                },
            ],
            failures: fault::modes(&[
                &NO_DIRECTORY,
                &TOO_LARGE,
                &IS_A_DIRECTORY,
                &PATH_IS_A_LINK,
                &NOT_A_REGULAR_FILE,
                &BUSY,
                &NO_SPACE,
            ]),
            ..ToolDef::default()
        },
        |input: &Input| vec![Effect::on(EffectKind::FsWrite, input.path.clone())],
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file, relative to the workspace or absolute inside it.
    path: String,
    /// All of the new content.
    content: String,
    /// Make the directories on the way when they do not exist.
    #[serde(default)]
    create_dirs: bool,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The file that was written, relative to the workspace.
    path: String,
    /// How many bytes it has now.
    bytes_written: u64,
    /// True when there was no such file before.
    created: bool,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let size = input.content.len() as u64;
    if size > MAX_WHOLE {
        return Err(TOO_LARGE.failed(
            format!("the content has {size} bytes, and {MAX_WHOLE} is the most"),
            "Write it in several files.",
        ));
    }
    let missing = if input.create_dirs { MissingDirs::Create } else { MissingDirs::Fail };
    let slot = Slot::take(cx, &input.path, missing).map_err(|fault| name_missing_directory(fault, &input.path))?;
    let current = slot.look()?;
    slot.replace(input.content.as_bytes(), current.as_ref())?;
    let output = Output { path: slot.path(), bytes_written: size, created: current.is_none() };
    let text = format!("Wrote {size} bytes to {}{}", output.path, if output.created { " (new file)" } else { "" });
    Ok(Answer::with_text(output, text))
}

fn name_missing_directory(fault: Fault, path: &str) -> Fault {
    if !NOT_FOUND.is(&fault) {
        return fault;
    }
    NO_DIRECTORY.failed(format!("the directory of `{path}` does not exist"), "Set `create_dirs` to make it.")
}
