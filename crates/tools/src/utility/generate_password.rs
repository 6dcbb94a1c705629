//! `generate_password`: a password nobody can guess.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, FailureMode, Fault, SafetyClass, ToolDef};

use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "generate_password".into(),
            summary: "Make a random password.".into(),
            description:
                "Returns a password of `length` characters from the kernel's random source, with at least one \
                lower-case letter, one upper-case letter, one digit and, unless `include_symbols` is false, one of \
                `!@#$%^&*`. A length outside 4 to 128 is taken as the nearest one inside."
                    .into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(1),
            examples: vec![
                Example { title: "Sixteen characters".into(), arguments: json!({}) },
                Example {
                    title: "Letters and digits only".into(),
                    arguments: json!({ "length": 32, "include_symbols": false }),
                },
            ],
            failures: vec![FailureMode {
                code: "no_randomness".into(),
                when: "The kernel gives no random bytes. Try again.".into(),
            }],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// How many characters, 4 to 128.
    #[serde(default = "sixteen")]
    length: i64,
    /// Use the symbols `!@#$%^&*` as well.
    #[serde(default = "yes")]
    include_symbols: bool,
}

fn sixteen() -> i64 {
    16
}

fn yes() -> bool {
    true
}

const LETTERS_AND_DIGITS: [&str; 3] = ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"];
const SYMBOLS: &str = "!@#$%^&*";

fn run(cx: &Cx, input: Input) -> Result<Answer<String>, Fault> {
    let length = usize::try_from(input.length.clamp(4, 128)).unwrap_or(128);
    let mut classes = LETTERS_AND_DIGITS.to_vec();
    if input.include_symbols {
        classes.push(SYMBOLS);
    }
    let alphabet = classes.concat();

    let mut password = Vec::with_capacity(length);
    for class in classes {
        password.push(pick(cx, class)?);
    }
    while password.len() < length {
        password.push(pick(cx, &alphabet)?);
    }
    shuffle(cx, &mut password)?;
    Ok(Answer::new(password.into_iter().collect::<String>()))
}

fn pick(cx: &Cx, alphabet: &str) -> Result<char, Fault> {
    Ok(char::from(alphabet.as_bytes()[below(cx, alphabet.len())?]))
}

/// Fisher and Yates: every order is as likely as every other.
fn shuffle(cx: &Cx, password: &mut [char]) -> Result<(), Fault> {
    for last in (1..password.len()).rev() {
        password.swap(last, below(cx, last + 1)?);
    }
    Ok(())
}

/// A random index below `bound`.
fn below(cx: &Cx, bound: usize) -> Result<usize, Fault> {
    let mut byte = [0];
    loop {
        cx.random(&mut byte)?;
        if let Some(index) = fair(byte[0], bound) {
            return Ok(index);
        }
    }
}

/// The index a random byte stands for, or none: where 256 is no multiple of `bound`, the last few bytes would make
/// the first indices likelier. `bound` is 1 to 256.
fn fair(byte: u8, bound: usize) -> Option<usize> {
    let byte = usize::from(byte);
    (byte < 256 - 256 % bound).then_some(byte % bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::testing::call;
    use serde_json::Value;

    /// Makes many, because a class could be there by luck.
    fn check(arguments: Value, length: usize, symbols: bool) {
        for _ in 0..200 {
            let output = call(tool, arguments.clone()).unwrap();
            let password = output.text;
            assert_eq!(output.structured, json!(password));
            assert_eq!(password.len(), length, "{password}");
            for class in LETTERS_AND_DIGITS {
                assert!(password.contains(|c| class.contains(c)), "{password} has none of {class}");
            }
            assert_eq!(password.contains(|c| SYMBOLS.contains(c)), symbols, "{password}");
            assert!(password.chars().all(|c| c.is_ascii_alphanumeric() || SYMBOLS.contains(c)), "{password}");
        }
    }

    #[test]
    fn every_class_is_in_it() {
        check(json!({}), 16, true);
        check(json!({ "length": 4 }), 4, true);
        check(json!({ "length": 40, "include_symbols": false }), 40, false);
    }

    #[test]
    fn the_length_is_clamped() {
        check(json!({ "length": 0 }), 4, true);
        check(json!({ "length": -7 }), 4, true);
        check(json!({ "length": 9_007_199_254_740_992_i64 }), 128, true);
    }

    #[test]
    fn every_index_is_as_likely_as_every_other() {
        for bound in 1..=128 {
            let mut times = vec![0; bound];
            (0..=255).filter_map(|byte| fair(byte, bound)).for_each(|index| times[index] += 1);
            assert_eq!(times, vec![256 / bound; bound]);
        }
    }

    #[test]
    fn the_classes_come_in_no_fixed_order() {
        let first = |_| call(tool, json!({ "length": 4 })).unwrap().text.remove(0);
        let firsts: String = (0..200).map(first).collect();
        for class in LETTERS_AND_DIGITS.into_iter().chain([SYMBOLS]) {
            assert!(firsts.contains(|c| class.contains(c)), "no password of 200 starts with one of {class}");
        }
    }
}
