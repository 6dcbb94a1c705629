//! `url_encode`: percent-encoding, there and back.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, FailureMode, Fault, SafetyClass, ToolDef};

use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "url_encode".into(),
            summary: "Percent-encode a text for a URL, or decode one.".into(),
            description:
                "Encodes every byte of `text` but `A-Z a-z 0-9 - _ . ~` as `%XX`, ready for a path segment or a \
                query value. With `decode` it does the reverse, and `+` becomes a space."
                    .into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(1),
            examples: vec![
                Example { title: "Encode".into(), arguments: json!({ "text": "a b&c=d/é" }) },
                Example { title: "Decode".into(), arguments: json!({ "text": "a+b%26c", "decode": true }) },
            ],
            failures: vec![FailureMode {
                code: BAD_ENCODING.into(),
                when: "A `%` is not followed by two hex digits, or the decoded bytes are not UTF-8.".into(),
            }],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

const BAD_ENCODING: &str = "bad_encoding";

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The text to encode or decode.
    text: String,
    /// Decode instead of encoding.
    #[serde(default)]
    decode: bool,
}

fn run(_cx: &Cx, input: Input) -> Result<Answer<String>, Fault> {
    if input.decode {
        return decode(&input.text).map(Answer::new);
    }
    Ok(Answer::new(utf8_percent_encode(&input.text, RESERVED).to_string()))
}

fn decode(text: &str) -> Result<String, Fault> {
    let mut bytes = Vec::with_capacity(text.len());
    for unit in Units(text.bytes().enumerate()) {
        let (_, byte) = unit.map_err(|at| {
            Fault::failed(
                BAD_ENCODING,
                format!("the `%` at character {} is not followed by two hex digits", character(text, at)),
                "Write a percent sign itself as `%25`.",
            )
        })?;
        bytes.push(byte);
    }
    String::from_utf8(bytes).map_err(|error| {
        let bad = error.utf8_error().valid_up_to();
        let at = Units(text.bytes().enumerate()).flatten().nth(bad).map_or(text.len(), |(at, _)| at);
        Fault::failed(
            BAD_ENCODING,
            format!("the bytes from character {} on are not UTF-8", character(text, at)),
            "Encode the text as UTF-8 before percent-encoding it.",
        )
    })
}

/// The decoded bytes, each with where it was written; or where a `%` stands that is no escape.
struct Units<I>(I);

impl<I: Iterator<Item = (usize, u8)>> Iterator for Units<I> {
    type Item = Result<(usize, u8), usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let (at, byte) = self.0.next()?;
        match byte {
            b'%' => {
                let mut digit = || self.0.next().and_then(|(_, byte)| char::from(byte).to_digit(16));
                let value = digit().zip(digit()).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                Some(value.map(|value| (at, value)).ok_or(at))
            }
            b'+' => Some(Ok((at, b' '))),
            byte => Some(Ok((at, byte))),
        }
    }
}

/// Which character starts at this byte, counting from 1.
fn character(text: &str, at: usize) -> usize {
    text.char_indices().take_while(|(start, _)| *start < at).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::testing::outcome;
    use proptest::prelude::*;

    fn check(text: &str, encoded: &str) {
        assert_eq!(outcome(tool, json!({ "text": text })), Ok(json!(encoded)), "{text}");
        check_decode(encoded, text);
    }

    fn check_decode(text: &str, decoded: &str) {
        assert_eq!(outcome(tool, json!({ "text": text, "decode": true })), Ok(json!(decoded)), "{text}");
    }

    fn check_fault(text: &str, message: &str) {
        let expected = Err(("bad_encoding".to_owned(), message.to_owned()));
        assert_eq!(outcome(tool, json!({ "text": text, "decode": true })), expected, "{text}");
    }

    #[test]
    fn there_and_back() {
        check("", "");
        check("AZaz09-_.~", "AZaz09-_.~");
        check("a b", "a%20b");
        check("a/b?c=d&e#f+g%", "a%2Fb%3Fc%3Dd%26e%23f%2Bg%25");
        check("é😀\0\n", "%C3%A9%F0%9F%98%80%00%0A");
    }

    #[test]
    fn decoding_takes_what_others_write() {
        check_decode("a+b", "a b");
        check_decode("%41", "A");
        check_decode("x%41", "xA");
        check_decode("%2b%2B", "++");
        check_decode("%2541", "%41");
        check_decode("é?&=", "é?&=");
    }

    #[test]
    fn bad_escapes_are_located() {
        check_fault("%", "the `%` at character 1 is not followed by two hex digits");
        check_fault("a%4", "the `%` at character 2 is not followed by two hex digits");
        check_fault("é%zz1", "the `%` at character 2 is not followed by two hex digits");
        check_fault("%+1", "the `%` at character 1 is not followed by two hex digits");
        check_fault("%4é", "the `%` at character 1 is not followed by two hex digits");
        check_fault("100%", "the `%` at character 4 is not followed by two hex digits");
    }

    #[test]
    fn decoded_bytes_must_be_text() {
        check_fault("ab%ff", "the bytes from character 3 on are not UTF-8");
        check_fault("é%C3x", "the bytes from character 2 on are not UTF-8");
        check_fault("%41%C3", "the bytes from character 4 on are not UTF-8");
        check_fault("%C3+%A9", "the bytes from character 1 on are not UTF-8");
    }

    proptest! {
        #[test]
        fn every_text_survives(text in any::<String>()) {
            let encoded = outcome(tool, json!({ "text": text })).unwrap();
            let kept = |c: char| c.is_ascii_alphanumeric() || "-_.~%".contains(c);
            prop_assert!(encoded.as_str().unwrap().chars().all(kept));
            prop_assert_eq!(outcome(tool, json!({ "text": encoded, "decode": true })), Ok(json!(text)));
        }

        #[test]
        fn no_text_makes_decoding_panic(text in "[%0-9a-fA-Fé+]{0,20}") {
            let _ = outcome(tool, json!({ "text": text, "decode": true }));
        }
    }
}
