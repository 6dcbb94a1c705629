//! Cleaning: what the model gets is bounded. What was cut is told in the text, typed in the outcome, and kept in the
//! record as it was.

use serde_json::{Value, json};
use toolgate_contract::{Caps, Raw, Truncated, Unit};
use toolgate_guard::cut;
use toolgate_tools::Output;

/// A result fit for the model.
#[derive(Debug)]
pub(crate) struct Cleaned {
    pub(crate) text: String,
    pub(crate) structured: Value,
    pub(crate) truncated: Option<Truncated>,
    /// The result before cleaning, where that is not the same.
    pub(crate) raw: Option<Raw>,
}

/// Bounds a result.
pub(crate) fn clean(output: Output, caps: &Caps) -> Cleaned {
    let Output { structured, text, truncated } = output;
    let too_long = text.len() > caps.output_bytes || text.lines().count() > caps.output_lines;
    let too_big = longest(&structured) > caps.output_bytes;
    if !too_long && !too_big {
        return Cleaned { text, structured, truncated, raw: None };
    }
    let raw = Raw(json!({ "text": text, "structured": structured }).to_string().into_bytes());
    let (text, cut_text) = cut(text, caps.output_bytes, caps.output_lines);
    let mut structured = structured;
    let cut_structured = shorten(&mut structured, caps.output_bytes);
    // What the body itself left out is the larger loss, so it is the one that is typed.
    Cleaned { text, structured, truncated: truncated.or(cut_text).or(cut_structured), raw: Some(raw) }
}

/// The length of the longest string in a value.
fn longest(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(longest).max().unwrap_or(0),
        Value::Object(fields) => fields.values().map(longest).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Cuts every string that is longer than the cap, so that a typed output keeps its type.
fn shorten(value: &mut Value, most: usize) -> Option<Truncated> {
    match value {
        Value::String(text) if text.len() > most => {
            let total = text.len();
            text.truncate(text.floor_char_boundary(most));
            let count = |n| u64::try_from(n).unwrap_or(u64::MAX);
            Some(Truncated { shown: count(text.len()), total: count(total), unit: Unit::Bytes })
        }
        Value::Array(items) => items.iter_mut().filter_map(|item| shorten(item, most)).last(),
        Value::Object(fields) => fields.values_mut().filter_map(|field| shorten(field, most)).last(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_result_passes_as_it_is() {
        let output = Output { structured: json!({ "a": "b" }), text: "b".into(), truncated: None };
        let cleaned = clean(output, &Caps::DEFAULT);
        assert_eq!((cleaned.text.as_str(), cleaned.structured), ("b", json!({ "a": "b" })));
        assert!(cleaned.raw.is_none() && cleaned.truncated.is_none());
    }

    #[test]
    fn a_large_result_is_cut_told_and_kept() {
        let long = "é".repeat(40_000);
        let output = Output { structured: json!([long]), text: long.clone(), truncated: None };
        let cleaned = clean(output, &Caps::DEFAULT);
        assert!(cleaned.text.len() < 52_000 && cleaned.text.ends_with(']'), "{}", cleaned.text.len());
        assert!(cleaned.text.contains("[truncated: "));
        assert_eq!(cleaned.truncated.map(|t| (t.total, t.unit)), Some((80_000, Unit::Bytes)));
        assert_eq!(cleaned.structured[0].as_str().map(str::len), Some(51_200));
        let Raw(raw) = cleaned.raw.unwrap();
        let raw: Value = serde_json::from_slice(&raw).unwrap();
        assert_eq!(raw["text"], json!(long));
    }
}
