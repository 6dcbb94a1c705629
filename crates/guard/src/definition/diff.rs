//! What changed from one definition to another, in lines that a person reads before they agree to it.
//!
//! What nobody would see is spelt out, and so is what would look the same on both sides: a change that cannot be seen is
//! the one that matters.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Definition;
use crate::names;

/// How much of what stayed the same is shown around a change in a long text.
const AROUND: usize = 60;

/// The lines: `- place: value` for what goes, `+ place: value` for what comes. Without an old one, all of it comes.
pub fn diff(old: Option<&Definition>, new: &Definition) -> Vec<String> {
    let old = old.map(|old| leaves(&old.to_json())).unwrap_or_default();
    let new = leaves(&new.to_json());
    let places: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut lines = Vec::new();
    for place in places {
        let (gone, come) = (old.get(place), new.get(place));
        if gone == come {
            continue;
        }
        let place = spelt(place, Spelling::Hidden);
        let (gone, come) = match (gone, come) {
            (Some(Value::String(gone)), Some(Value::String(come))) => {
                let (gone, come) = changed(gone, come);
                (Some(gone), Some(come))
            }
            (gone, come) => (gone.map(shown), come.map(shown)),
        };
        lines.extend(gone.map(|gone| format!("- {place}: {gone}")));
        lines.extend(come.map(|come| format!("+ {place}: {come}")));
    }
    lines
}

/// Which parts differ, in words that hold nothing of what the author wrote.
pub fn parts(old: &Definition, new: &Definition) -> Vec<&'static str> {
    let differs = [
        ("name", old.name != new.name),
        ("title", old.title != new.title),
        ("description", old.description != new.description),
        ("input schema", old.input_schema != new.input_schema),
        ("output schema", old.output_schema != new.output_schema),
        ("annotations", old.annotations != new.annotations),
        ("icons", old.more.get("icons") != new.more.get("icons")),
        ("metadata", old.more.get("_meta") != new.more.get("_meta")),
        ("other fields", others(old) != others(new)),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(part, _)| part).collect()
}

/// The fields the protocol has no word for.
fn others(definition: &Definition) -> Vec<(&String, &Value)> {
    definition.more.iter().filter(|(key, _)| !matches!(key.as_str(), "icons" | "_meta")).collect()
}

/// Every value that holds no other, by its JSON pointer.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    let mut left = vec![(String::new(), value)];
    while let Some((at, value)) = left.pop() {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                left.extend(fields.iter().map(|(name, value)| (super::under(&at, name), value)));
            }
            Value::Array(items) if !items.is_empty() => {
                left.extend(items.iter().enumerate().map(|(index, item)| (format!("{at}/{index}"), item)));
            }
            leaf => _ = leaves.insert(at, leaf.clone()),
        }
    }
    leaves
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", spelt(text, Spelling::Hidden)),
        other => other.to_string(),
    }
}

/// Two texts, without most of what they have in common.
fn changed(old: &str, new: &str) -> (String, String) {
    // Letters of two alphabets can look the same; then every letter that is not ASCII is spelt out.
    let spelling = if names::skeleton(old) == names::skeleton(new) { Spelling::Ascii } else { Spelling::Hidden };
    let (a, b): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    let head = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (from, after) = (head.saturating_sub(AROUND), tail.saturating_sub(AROUND));
    let part = |text: &[char]| {
        let middle: String = text[from..text.len() - after].iter().collect();
        let (before, behind) = (if from > 0 { "…" } else { "" }, if after > 0 { "…" } else { "" });
        format!("\"{before}{}{behind}\"", spelt(&middle, spelling))
    };
    (part(&a), part(&b))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// What nobody sees is spelt out.
    Hidden,
    /// Everything that is not ASCII is.
    Ascii,
}

fn spelt(text: &str, spelling: Spelling) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let is_plain = match spelling {
            Spelling::Hidden => !names::is_invisible(c) && (c == ' ' || !c.is_whitespace()),
            Spelling::Ascii => c.is_ascii() && !c.is_control(),
        };
        match (is_plain, c) {
            (true, '"' | '\\') => out.extend(['\\', c]),
            (true, _) => out.push(c),
            (false, '\n' | '\t' | '\r') => out.extend(c.escape_default()),
            (false, _) => out.extend(c.escape_unicode()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(more: Value) -> Definition {
        let mut tool = json!({ "name": "add", "description": "Add two numbers.", "inputSchema": { "type": "object", "properties": { "a": { "type": "number" } } } });
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(tool).unwrap()
    }

    #[track_caller]
    fn check(more: Value, expected: &[&str]) {
        assert_eq!(diff(Some(&tool(json!({}))), &tool(more)), expected);
    }

    #[test]
    fn what_stayed_is_not_shown_and_what_changed_is() {
        check(json!({}), &[]);
        check(
            json!({ "description": "Add two numbers. Quickly." }),
            &["- /description: \"Add two numbers.\"", "+ /description: \"Add two numbers. Quickly.\""],
        );
        check(
            json!({ "inputSchema": { "type": "object", "properties": { "a": { "type": "string" }, "b/c": {} } } }),
            &[
                "- /inputSchema/properties/a/type: \"number\"",
                "+ /inputSchema/properties/a/type: \"string\"",
                "+ /inputSchema/properties/b~1c: {}",
            ],
        );
        check(json!({ "annotations": { "readOnlyHint": true } }), &["+ /annotations/readOnlyHint: true"]);
    }

    #[test]
    fn of_a_long_text_the_change_and_what_stands_around_it_is_shown() {
        let (head, tail) = ("x".repeat(300), "y".repeat(300));
        let old = tool(json!({ "description": format!("{head}old{tail}") }));
        let new = tool(json!({ "description": format!("{head}new{tail}") }));
        let (head, tail) = ("x".repeat(60), "y".repeat(60));
        assert_eq!(
            diff(Some(&old), &new),
            [format!("- /description: \"…{head}old{tail}…\""), format!("+ /description: \"…{head}new{tail}…\"")]
        );
    }

    #[test]
    fn what_nobody_would_see_is_spelt_out() {
        check(
            json!({ "description": "Add two\u{200b} numbers.\n\u{1b}[8m\u{e0041}" }),
            &[
                "- /description: \"Add two numbers.\"",
                "+ /description: \"Add two\\u{200b} numbers.\\n\\u{1b}[8m\\u{e0041}\"",
            ],
        );
        // A Cyrillic letter for a Latin one.
        check(
            json!({ "description": "Аdd two numbers." }),
            &["- /description: \"Add two numbers.\"", "+ /description: \"\\u{410}dd two numbers.\""],
        );
        check(
            json!({ "inputSchema": { "type": "object", "properties": { "a": { "type": "number" }, "a\n+ /b": 1 } } }),
            &["+ /inputSchema/properties/a\\n+ ~1b: 1"],
        );
    }

    #[test]
    fn the_parts_that_changed_are_named_in_our_words() {
        let old = tool(json!({}));
        assert_eq!(parts(&old, &old), Vec::<&str>::new());
        let new = tool(json!({ "title": "x", "description": "y", "outputSchema": {}, "annotations": {} }));
        assert_eq!(parts(&old, &new), ["title", "description", "output schema", "annotations"]);
        let new = tool(json!({ "name": "sum", "inputSchema": {} }));
        assert_eq!(parts(&old, &new), ["name", "input schema"]);
        let new = tool(json!({ "icons": [], "_meta": {}, "execution": {}, "x-vendor": 1 }));
        assert_eq!(parts(&old, &new), ["icons", "metadata", "other fields"]);
    }

    #[test]
    fn of_a_new_one_all_is_shown() {
        assert_eq!(
            diff(None, &tool(json!({}))),
            [
                "+ /description: \"Add two numbers.\"",
                "+ /inputSchema/properties/a/type: \"number\"",
                "+ /inputSchema/type: \"object\"",
                "+ /name: \"add\"",
            ]
        );
    }
}
