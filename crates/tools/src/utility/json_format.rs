//! `json_format`: JSON, checked and laid out.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, FailureMode, Fault, SafetyClass, ToolDef};
use toolgate_guard::json::{JsonFault, Limits, Reader, Token};

use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "json_format".into(),
            summary: "Check a JSON text and lay it out with indentation.".into(),
            description:
                "Reads `json` strictly and returns it indented by two spaces. Keys keep their order, numbers and \
                strings their spelling. A key given twice in one object is refused, because readers disagree about \
                which one counts."
                    .into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(2),
            examples: vec![Example {
                title: "An object".into(),
                arguments: json!({ "json": "{\"b\": [1, 2.50], \"a\": {}}" }),
            }],
            failures: vec![
                FailureMode {
                    code: INVALID_JSON.into(),
                    when: "The text is not JSON. The message names the line, the column and what was expected.".into(),
                },
                FailureMode { code: "duplicate_key".into(), when: "An object gives a key twice.".into() },
                FailureMode {
                    code: "too_deep".into(),
                    when: "More than 64 arrays and objects inside each other.".into(),
                },
                FailureMode {
                    code: TOO_LARGE.into(),
                    when: "More than 1 MB of text, or of laid out text 4 MB.".into(),
                },
            ],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

const INVALID_JSON: &str = "invalid_json";
const TOO_LARGE: &str = "too_large";

/// Indentation can make a short text of deep brackets very long.
const MAX_OUTPUT: usize = 4 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The JSON text.
    json: String,
}

fn run(_cx: &Cx, input: Input) -> Result<Answer<String>, Fault> {
    let mut reader = Reader::new(input.json.as_bytes(), &Limits::default()).map_err(fault)?;
    let mut page = Page::default();
    while let Some(token) = reader.token().map_err(fault)? {
        page.put(token);
        if page.text.len() > MAX_OUTPUT {
            return Err(Fault::failed(
                TOO_LARGE,
                format!("the laid out text would be longer than {MAX_OUTPUT} bytes"),
                "Format a part of it.",
            ));
        }
    }
    Ok(Answer::new(page.text))
}

fn fault(fault: JsonFault) -> Fault {
    match fault {
        JsonFault::NotJson { .. } => Fault::failed(INVALID_JSON, fault.to_string(), "Correct the text at that place."),
        other => other.into(),
    }
}

/// Lays out one token after the other. The reader vouches for their order.
#[derive(Default)]
struct Page {
    text: String,
    depth: usize,
    last: Last,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    Opened,
    Key,
    Value,
}

impl Page {
    fn put(&mut self, token: Token<'_>) {
        match token {
            Token::StartObject => self.open('{'),
            Token::StartArray => self.open('['),
            Token::EndObject => self.close('}'),
            Token::EndArray => self.close(']'),
            Token::Key(key) => {
                self.quoted(key.raw());
                self.text.push_str(": ");
                self.last = Last::Key;
            }
            Token::String(text) => self.quoted(text.raw()),
            Token::Number(number) => self.plain(number),
            Token::Bool(true) => self.plain("true"),
            Token::Bool(false) => self.plain("false"),
            Token::Null => self.plain("null"),
        }
    }

    fn open(&mut self, bracket: char) {
        self.begin();
        self.text.push(bracket);
        self.depth += 1;
        self.last = Last::Opened;
    }

    fn close(&mut self, bracket: char) {
        self.depth -= 1;
        if self.last != Last::Opened {
            self.new_line();
        }
        self.text.push(bracket);
        self.last = Last::Value;
    }

    fn quoted(&mut self, raw: &str) {
        self.begin();
        self.text.push('"');
        self.text.push_str(raw);
        self.text.push('"');
        self.last = Last::Value;
    }

    fn plain(&mut self, word: &str) {
        self.begin();
        self.text.push_str(word);
        self.last = Last::Value;
    }

    /// What stands before a key or a value: nothing after a key, else a line of its own.
    fn begin(&mut self) {
        match self.last {
            Last::Nothing | Last::Key => {}
            Last::Opened => self.new_line(),
            Last::Value => {
                self.text.push(',');
                self.new_line();
            }
        }
    }

    fn new_line(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::testing::outcome;
    use proptest::prelude::*;
    use serde_json::Value;

    fn check(text: &str, expected: &str) {
        assert_eq!(outcome(tool, json!({ "json": text })), Ok(json!(expected)), "{text}");
    }

    fn check_fault(text: &str, code: &str, message: &str) {
        let expected = Err((code.to_owned(), message.to_owned()));
        assert_eq!(outcome(tool, json!({ "json": text })), expected, "{text:.80}");
    }

    #[test]
    fn lays_out_with_the_order_of_keys_kept() {
        check(
            r#"{"z":1,"a":[true,{"y":null,"b":[]}],"m":{}}"#,
            r#"{
  "z": 1,
  "a": [
    true,
    {
      "y": null,
      "b": []
    }
  ],
  "m": {}
}"#,
        );
        check(" [ ] ", "[]");
        check("\"x\"", "\"x\"");
    }

    #[test]
    fn numbers_and_strings_keep_their_spelling() {
        check("1.50", "1.50");
        check("123456789012345678901234567890", "123456789012345678901234567890");
        check("1e400", "1e400");
        check("-0", "-0");
        check(r#""\u00e9\/é""#, r#""\u00e9\/é""#);
    }

    #[test]
    fn what_is_not_json_is_located() {
        check_fault("", "invalid_json", "not JSON at line 1, column 1: expected a value");
        check_fault("{\n  'a': 1}", "invalid_json", "not JSON at line 2, column 3: expected a key in double quotes");
        check_fault("[1, 2,]", "invalid_json", "not JSON at line 1, column 7: expected a value");
        check_fault("{} x", "invalid_json", "not JSON at line 1, column 4: expected the end of the text");
        check_fault("{\"a\": 1, \"a\": 2}", "duplicate_key", "the key at `/a` is given twice");
    }

    #[test]
    fn depth_and_size_are_bounded() {
        check_fault(&"[".repeat(10_000), "too_deep", "the JSON text nests deeper than 64 levels");
        let wide = format!("{}{}0{}", "[".repeat(64), "0,".repeat(100_000), "]".repeat(64));
        check_fault(&wide, "too_large", "the laid out text would be longer than 4194304 bytes");
    }

    proptest! {
        #[test]
        fn the_value_stays_the_same(words in prop::collection::vec(any::<String>(), 0..5), numbers in prop::collection::vec(any::<i32>(), 0..5)) {
            let value = json!([words, numbers, { "k": words, "n": { "e": {} } }, []]);
            let once = outcome(tool, json!({ "json": value.to_string() })).unwrap();
            let text = once.as_str().unwrap();
            prop_assert_eq!(text, format!("{value:#}"));
            prop_assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
        }
    }
}
