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
    preview,
    slot::{MissingDirs, Slot},
    text::{MAX_WHOLE, brief},
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
    .previewing(|cx: &Cx, input: Input| {
        let before = preview::now(cx, &input.path)?;
        Ok(preview::change(&input.path, before.as_ref(), Some(input.content.as_bytes())))
    })
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
    slot.replace(cx, input.content.as_bytes(), current.as_ref())?;
    let output = Output { path: slot.path(), bytes_written: size, created: current.is_none() };
    let text = format!("Wrote {size} bytes to {}{}", output.path, if output.created { " (new file)" } else { "" });
    Ok(Answer::with_text(output, text))
}

fn name_missing_directory(fault: Fault, path: &str) -> Fault {
    if !NOT_FOUND.is(&fault) {
        return fault;
    }
    NO_DIRECTORY.failed(format!("the directory of `{}` does not exist", brief(path)), "Set `create_dirs` to make it.")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{super::desk::Desk, *};

    fn check(desk: &Desk, arguments: Value, expected: Value) {
        assert_eq!(desk.call(tool, arguments).unwrap().structured, expected);
    }

    #[test]
    fn a_file_is_made_and_replaced() {
        let desk = Desk::new();
        let made = json!({ "path": "a", "bytes_written": 4, "created": true });
        check(&desk, json!({ "path": "./a", "content": "one\n" }), made);
        assert_eq!(desk.text("a"), "one\n");
        let replaced = json!({ "path": "a", "bytes_written": 3, "created": false });
        check(&desk, json!({ "path": "a", "content": "two" }), replaced);
        assert_eq!((desk.text("a").as_str(), desk.names()), ("two", vec!["a".to_owned()]));
    }

    #[test]
    fn permissions_stay_but_rights_given_to_the_old_content_go() {
        let desk = Desk::with(&[("a", ""), ("b", "")]);
        desk.set_mode("a", 0o640);
        desk.set_mode("b", 0o4755);
        for path in ["a", "b"] {
            desk.call(tool, json!({ "path": path, "content": "x" })).unwrap();
        }
        assert_eq!((desk.mode("a"), desk.mode("b")), (0o640, 0o755));
    }

    #[test]
    fn directories_are_made_only_when_asked_for() {
        let desk = Desk::new();
        let arguments = json!({ "path": "a/b/c", "content": "x" });
        assert_eq!(desk.code(tool, arguments), "no_directory");
        assert_eq!(desk.names(), Vec::<String>::new());
        let made = json!({ "path": "a/b/c", "bytes_written": 1, "created": true });
        check(&desk, json!({ "path": "a/b/c", "content": "x", "create_dirs": true }), made);
        assert_eq!(desk.text("a/b/c"), "x");
    }

    #[test]
    fn directories_are_made_through_links_that_stay_inside() {
        let desk = Desk::new();
        desk.dir("d");
        desk.link("l", "d");
        desk.dir("x");
        desk.link("x/up", "../d");
        desk.call(tool, json!({ "path": "l/n/f", "content": "1", "create_dirs": true })).unwrap();
        let output = desk.call(tool, json!({ "path": "x/up/m/f", "content": "2", "create_dirs": true })).unwrap();
        assert_eq!(output.structured["path"], json!("d/m/f"));
        assert_eq!((desk.text("d/n/f").as_str(), desk.text("d/m/f").as_str()), ("1", "2"));
    }

    #[test]
    fn too_much_is_refused_before_anything_is_touched() {
        let desk = Desk::with(&[("a", "old")]);
        let most = MAX_WHOLE as usize;
        assert_eq!(desk.code(tool, json!({ "path": "a", "content": "x".repeat(most + 1) })), "too_large");
        assert_eq!(desk.text("a"), "old");
        desk.call(tool, json!({ "path": "a", "content": "x".repeat(most) })).unwrap();
        assert_eq!(desk.content("a").len(), most);
        let as_json = serde_json::to_string(&"\n".repeat(most)).unwrap();
        assert!(tool().def.caps.input_bytes > as_json.len(), "content of escapes only must get in");
    }

    #[test]
    fn only_files_are_written() {
        let desk = Desk::with(&[("d/x", ""), ("f", "")]);
        for path in ["d", "d/", ".", "d/..", "new/", "new/."] {
            assert_eq!(desk.code(tool, json!({ "path": path, "content": "" })), "is_a_directory", "{path}");
        }
        assert_eq!(desk.code(tool, json!({ "path": "f/x", "content": "" })), "not_a_directory");
        let under_file = json!({ "path": "f/x/y", "content": "", "create_dirs": true });
        assert_eq!(desk.code(tool, under_file), "not_a_directory");
    }

    #[test]
    fn a_name_of_the_full_length_can_be_written() {
        let desk = Desk::new();
        let name = "n".repeat(255);
        desk.call(tool, json!({ "path": name, "content": "x" })).unwrap();
        assert_eq!(desk.names(), [name]);
    }
}
