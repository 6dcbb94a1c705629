//! `string_stats`: how long a text is, in several ways.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, Fault, SafetyClass, ToolDef};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "string_stats".into(),
            summary: "Count the characters, words and lines of a text.".into(),
            description: "Counts `text`: `characters` as a reader sees them (an emoji or an accented letter is one), \
                `code_points`, `bytes` in UTF-8, `words` between white space of any kind, and `lines`. A newline at \
                the very end does not start another line."
                .into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(1),
            examples: vec![Example { title: "Two lines".into(), arguments: json!({ "text": "one two\nthree" }) }],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The text to count.
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// Characters as a reader sees them.
    characters: usize,
    /// Unicode code points.
    code_points: usize,
    /// Bytes in UTF-8.
    bytes: usize,
    /// Words between white space.
    words: usize,
    /// Lines.
    lines: usize,
}

fn run(_cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let text = input.text;
    Ok(Answer::new(Output {
        characters: text.graphemes(true).count(),
        code_points: text.chars().count(),
        bytes: text.len(),
        words: text.split_whitespace().count(),
        lines: text.lines().count(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::testing::outcome;

    /// Characters, code points, bytes, words, lines.
    fn check(text: &str, [characters, code_points, bytes, words, lines]: [usize; 5]) {
        let expected = json!({
            "characters": characters, "code_points": code_points, "bytes": bytes, "words": words, "lines": lines,
        });
        assert_eq!(outcome(tool, json!({ "text": text })), Ok(expected), "{text:?}");
    }

    #[test]
    fn counts() {
        check("", [0, 0, 0, 0, 0]);
        check("one two\nthree", [13, 13, 13, 3, 2]);
        check("a\tb\u{a0}c\u{3000}d", [7, 7, 10, 4, 1]);
        check("end\n", [4, 4, 4, 1, 1]);
        check("\n\n", [2, 2, 2, 0, 2]);
        check("a\r\nb", [3, 4, 4, 2, 2]);
    }

    #[test]
    fn a_character_is_what_a_reader_sees() {
        check("é", [1, 1, 2, 1, 1]);
        check("e\u{301}", [1, 2, 3, 1, 1]);
        check("👩‍👩‍👧", [1, 5, 18, 1, 1]);
        check("🇫🇷🇩🇪", [2, 4, 16, 1, 1]);
    }
}
