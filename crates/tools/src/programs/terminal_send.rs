//! `terminal_send`: types into a terminal.

use std::{borrow::Cow, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CommandForm, CommandLine, Example, Fault, SafetyClass, ToolDef, nearest,
};

use super::{
    AT_ONCE, NEEDS,
    fault::{BAD_KEY, NOTHING_TYPED, terminal_modes},
};
use crate::{Answer, Cx, Tool, files::text::brief};

pub(crate) fn tool() -> Tool {
    Tool::starting(
        ToolDef {
            name: "terminal_send".into(),
            summary: "Type text and press keys on a terminal.".into(),
            description: "Types `text`, then presses `keys` in order. Text alone starts nothing: a command needs the key \
                `enter` after it. Keys: `enter`, `tab`, `escape`, `backspace`, `delete`, `space`, `up`, `down`, `left`, \
                `right`, `home`, `end`, `page_up`, `page_down`, `f1` to `f12`, `ctrl-a` to `ctrl-z`. Then look with \
                `terminal_read`."
                .into(),
            category: Category::Terminal,
            action: ActionType::CodeWrite,
            safety: SafetyClass::Write,
            needs: NEEDS,
            timeout: Duration::from_secs(30),
            concurrency: AT_ONCE,
            examples: vec![
                Example {
                    title: "A command".into(),
                    arguments: json!({ "terminal": "t1", "text": "ls -la", "keys": ["enter"] }),
                },
                Example {
                    title: "Stop what runs".into(),
                    arguments: json!({ "terminal": "t1", "keys": ["ctrl-c"] }),
                },
            ],
            failures: terminal_modes(&[&BAD_KEY, &NOTHING_TYPED]),
            ..ToolDef::default()
        },
        |input: &Input| CommandLine::new(CommandForm::Typed(as_script(&input.text, &input.keys))),
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The terminal's name.
    terminal: String,
    /// The text to type. A line break in it is the key `enter`.
    #[serde(default)]
    #[schemars(length(max = 65_536))]
    text: String,
    /// The keys to press after the text. Example: `["enter"]`.
    #[serde(default)]
    #[schemars(length(max = 256))]
    keys: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// How many bytes the terminal got.
    bytes_sent: u64,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    // A terminal is sent what the key sends, also for the line breaks of a text.
    let mut bytes = input.text.replace("\r\n", "\r").replace('\n', "\r").into_bytes();
    for key in &input.keys {
        bytes.extend_from_slice(sent_by(key).ok_or_else(|| no_such_key(key))?.as_bytes());
    }
    if bytes.is_empty() {
        return Err(NOTHING_TYPED.failed("neither `text` nor `keys` holds anything", "Give one of them."));
    }
    cx.programs()?.type_into(&input.terminal, &bytes)?;
    let bytes_sent = bytes.len() as u64;
    Ok(Answer::with_text(Output { bytes_sent }, format!("Sent {bytes_sent} bytes; look with `terminal_read`")))
}

/// What is typed, as the gate reads it: every `enter` ends a line. A key that changes what was typed is a character
/// that stands in no line; one that is pressed where nothing was typed adds nothing to be read.
fn as_script(text: &str, keys: &[String]) -> String {
    let mut script = text.replace("\r\n", "\n").replace('\r', "\n");
    for key in keys {
        match key.as_str() {
            "enter" if !script.is_empty() => script.push('\n'),
            "space" => script.push(' '),
            _ if !script.is_empty() && !script.ends_with('\n') => script.push('\u{1b}'),
            _ => {}
        }
    }
    script
}

/// The named keys and what each sends.
const KEYS: [(&str, &str); 14] = [
    ("enter", "\r"),
    ("tab", "\t"),
    ("escape", "\x1b"),
    ("backspace", "\x7f"),
    ("delete", "\x1b[3~"),
    ("space", " "),
    ("up", "\x1b[A"),
    ("down", "\x1b[B"),
    ("right", "\x1b[C"),
    ("left", "\x1b[D"),
    ("home", "\x1b[H"),
    ("end", "\x1b[F"),
    ("page_up", "\x1b[5~"),
    ("page_down", "\x1b[6~"),
];

/// `f1` to `f12`.
const FUNCTION_KEYS: [&str; 12] = [
    "\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS", "\x1b[15~", "\x1b[17~", "\x1b[18~", "\x1b[19~", "\x1b[20~", "\x1b[21~",
    "\x1b[23~", "\x1b[24~",
];

fn sent_by(key: &str) -> Option<Cow<'static, str>> {
    let named = KEYS.iter().find(|(name, _)| *name == key).map(|(_, sent)| *sent);
    if let Some(sent) = named.or_else(|| function_key(key)) {
        return Some(Cow::Borrowed(sent));
    }
    match key.strip_prefix("ctrl-")?.as_bytes() {
        [letter @ b'a'..=b'z'] => Some(Cow::Owned(char::from(letter - b'a' + 1).to_string())),
        _ => None,
    }
}

fn function_key(key: &str) -> Option<&'static str> {
    let number: usize = key.strip_prefix('f')?.parse().ok()?;
    FUNCTION_KEYS.get(number.checked_sub(1)?).copied()
}

fn no_such_key(key: &str) -> Fault {
    let remedy = match nearest(key, KEYS.iter().map(|(name, _)| *name)) {
        Some(near) => format!("Did you mean `{near}`? Plain characters belong in `text`."),
        None => "Use a name such as `enter`, `up` or `ctrl-c`; plain characters belong in `text`.".to_owned(),
    };
    BAD_KEY.failed(format!("there is no key `{}`", brief(&key.escape_debug().to_string())), remedy)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{
        super::stage::{Asked, Stage},
        *,
    };

    /// The bytes a terminal gets.
    fn check(arguments: Value, expected: &str) {
        let stage = Stage::quiet();
        let output = stage.call(tool, arguments).unwrap();
        assert_eq!(stage.asked(), [Asked::Type("t1".into(), expected.as_bytes().to_vec())]);
        assert_eq!(output.structured, json!({ "bytes_sent": expected.len() }));
    }

    #[test]
    fn text_is_typed_and_then_keys_are_pressed() {
        check(json!({ "terminal": "t1", "text": "ls -la", "keys": ["enter"] }), "ls -la\r");
        check(json!({ "terminal": "t1", "text": "é" }), "é");
        check(json!({ "terminal": "t1", "text": "a\nb\r\nc\r" }), "a\rb\rc\r");
        check(json!({ "terminal": "t1", "keys": ["ctrl-c", "ctrl-z", "ctrl-a"] }), "\x03\x1a\x01");
        check(json!({ "terminal": "t1", "keys": ["up", "tab", "escape", "space"] }), "\x1b[A\t\x1b ");
        check(json!({ "terminal": "t1", "keys": ["f1", "f5", "f12"] }), "\x1bOP\x1b[15~\x1b[24~");
    }

    #[test]
    fn what_is_no_key_is_told_with_the_nearest() {
        for (key, remedy) in [
            ("entr", "Did you mean `enter`?"),
            ("ctrl-1", "Use a name"),
            ("f0", "Use a name"),
            ("f13", "Use a name"),
            ("ctrl-", "Use a name"),
            ("x", "Use a name"),
        ] {
            let stage = Stage::quiet();
            let fault = stage.call(tool, json!({ "terminal": "t1", "text": "x", "keys": [key] })).unwrap_err();
            assert_eq!(fault.code, "bad_key", "{key}");
            assert!(fault.remedy.starts_with(remedy), "{key}: {fault}");
            assert_eq!(stage.asked(), [], "{key}");
        }
        let code = Stage::quiet().call(tool, json!({ "terminal": "t1" })).unwrap_err().code;
        assert_eq!(code, "nothing_typed");
    }

    #[test]
    fn the_gate_reads_lines_and_sees_what_is_not_one() {
        for (text, keys, expected) in [
            ("ls", &["enter"][..], "ls\n"),
            ("ls\r\npwd\n", &[], "ls\npwd\n"),
            ("ls", &[], "ls"),
            ("ls", &["tab", "enter"], "ls\u{1b}\n"),
            ("ls", &["enter", "up", "enter"], "ls\n\n"),
            ("ls", &["ctrl-a", "enter"], "ls\u{1b}\n"),
            ("", &["ctrl-c"], ""),
            ("", &["up", "enter"], ""),
        ] {
            let line =
                tool().reading.command(&json!({ "terminal": "t1", "text": text, "keys": keys })).unwrap().unwrap();
            assert_eq!(line.form, CommandForm::Typed(expected.into()), "{text:?} {keys:?}");
        }
    }

    #[test]
    fn a_terminal_that_is_not_there_is_told_by_the_room() {
        let fault = Fault::failed("unknown_terminal", "there is no terminal `t9`", "Open one.");
        let stage = Stage::answering([Err(fault.clone())]);
        assert_eq!(stage.call(tool, json!({ "terminal": "t9", "text": "x" })), Err(fault));
    }
}
