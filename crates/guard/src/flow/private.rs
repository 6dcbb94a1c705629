//! Text that is not for everybody, and whether a call carries some of it.
//!
//! What was heard is cut into blocks of a few words, one after the other, and only their hashes are kept. A call carries
//! it if one block stands in an argument, whatever spaces and signs are between the words, also in percent signs, base64
//! or hexadecimal. So a line that is copied is found, and a common turn of phrase is not. Names that single something out
//! (addresses of people, account numbers, keys) count by themselves, and of what comes from a place for secrets every
//! value does. Whoever rewrites a text in other words is not seen here.

use std::collections::{HashMap, HashSet};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD, engine::general_purpose::URL_SAFE_NO_PAD};
use memchr::memmem;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::Value;

use super::{Confidentiality, DEEPEST, hash, leads_to_a_person, plain};

/// How many blocks are remembered. After so many nothing is known to be anybody's.
const MOST_BLOCKS: usize = 1 << 20;
/// How many values of places for secrets are.
const MOST_VALUES: usize = 4_096;
/// A block has at least so many words and so many letters and digits.
const BLOCK_WORDS: usize = 3;
const BLOCK_CHARS: usize = 20;
/// The shortest value that is looked for by itself.
const SHORTEST_VALUE: usize = 5;
/// How much of what is carried is told.
const SHOWN: usize = 60;

/// What was heard that is not for everybody.
#[derive(Debug, Clone, Default)]
pub(super) struct Private {
    sources: Vec<(String, Confidentiality)>,
    /// Which source a block or a name is from.
    blocks: HashMap<u64, usize>,
    /// Values from places for secrets, as they are compared.
    values: Vec<(String, usize)>,
    /// Addresses that stand there: who follows one tells nobody anything.
    links: HashSet<u64>,
    /// What the user said is the user's to give away.
    said_by_user: HashSet<u64>,
    /// There was more than is remembered.
    forgot: bool,
}

/// Text that is not for everybody, in an argument of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// Where it was heard.
    pub source: String,
    /// Who may know it.
    pub confidentiality: Confidentiality,
    /// The argument it is in.
    pub argument: String,
    /// How it begins, or the whole of it.
    pub text: String,
}

impl Private {
    pub(super) fn user_said(&mut self, text: &str) {
        let words: Vec<String> = words(text).collect();
        self.said_by_user.extend((0..words.len()).filter_map(|start| block(&words, start)).map(|(block, _)| block));
        self.said_by_user.extend(names(text).map(|name| hash(&plain(name))));
    }

    /// `every_value` is said of places for secrets: there a value counts also by itself.
    pub(super) fn note(&mut self, source: &str, confidentiality: Confidentiality, value: &Value, every_value: bool) {
        let known = self.sources.iter().position(|(known, how)| known == source && *how == confidentiality);
        let from = known.unwrap_or(self.sources.len());
        if known.is_none() {
            self.sources.push((source.to_owned(), confidentiality));
        }
        each_text(value, "", DEEPEST, &mut |_, text| self.note_text(text, from, every_value));
    }

    fn note_text(&mut self, text: &str, from: usize, every_value: bool) {
        self.links.extend(links(text).map(|link| hash(&plain(link))));
        let all: Vec<String> = words(text).collect();
        let mut start = 0;
        while let Some((block, length)) = block(&all, start) {
            self.keep(block, from);
            start += length;
        }
        names(text).for_each(|name| self.keep(hash(&plain(name)), from));
        if every_value {
            for value in values(text) {
                if self.values.len() >= MOST_VALUES {
                    self.forgot = true;
                    break;
                }
                self.values.push((plain(value), from));
            }
        }
    }

    fn keep(&mut self, block: u64, from: usize) {
        if self.blocks.len() >= MOST_BLOCKS {
            self.forgot = true;
            return;
        }
        self.blocks.entry(block).or_insert(from);
    }

    /// What these arguments would tell whoever gets them, if that is not theirs to know. `to` is the connection they go
    /// through; none for anybody else.
    pub(super) fn carried(&self, arguments: &Value, to: Option<&str>) -> Option<Carried> {
        if self.sources.is_empty() {
            return None;
        }
        let mut found = None;
        each_text(arguments, "", DEEPEST, &mut |argument, text| {
            if found.is_none() {
                found = self.carried_in(text, to).map(|(source, confidentiality, text)| Carried {
                    source,
                    confidentiality,
                    argument: argument.to_owned(),
                    text: text.chars().take(SHOWN).collect(),
                });
            }
        });
        found
    }

    fn carried_in(&self, text: &str, to: Option<&str>) -> Option<(String, Confidentiality, String)> {
        if self.links.contains(&hash(&plain(text.trim()))) {
            return None;
        }
        readings(past_host(text)).iter().find_map(|reading| self.found_in(reading, to))
    }

    fn found_in(&self, text: &str, to: Option<&str>) -> Option<(String, Confidentiality, String)> {
        let told = |from: usize, what: String| {
            let (source, confidentiality) = self.sources.get(from)?;
            let stays = may_go(source, *confidentiality, to);
            (!stays).then(|| (source.clone(), *confidentiality, what))
        };
        let all: Vec<String> = words(text).collect();
        let in_blocks = (0..all.len()).find_map(|start| {
            let (block, length) = block(&all, start)?;
            if self.said_by_user.contains(&block) {
                return None;
            }
            if self.forgot && !self.blocks.contains_key(&block) {
                let whose = "what is no longer remembered".to_owned();
                return Some((whose, Confidentiality::Private, all[start..start + length].join(" ")));
            }
            told(*self.blocks.get(&block)?, all[start..start + length].join(" "))
        });
        let in_names = || {
            names(text).find_map(|name| {
                let name_hash = hash(&plain(name));
                if self.said_by_user.contains(&name_hash) {
                    return None;
                }
                told(*self.blocks.get(&name_hash)?, name.to_owned())
            })
        };
        let in_values = || {
            let text = plain(text);
            let stands = |value: &str| memmem::find(text.as_bytes(), value.as_bytes()).is_some();
            let found = self.values.iter().find(|(value, _)| stands(value))?;
            told(found.1, found.0.clone())
        };
        in_blocks.or_else(in_names).or_else(in_values)
    }
}

/// May what was heard there go here? Back to where it came from it may; and an operator who sets up a connection lets the
/// work of the agent go there, but neither secrets nor what another connection gave.
fn may_go(from: &str, confidentiality: Confidentiality, to: Option<&str>) -> bool {
    to.is_some_and(|to| from == to || (confidentiality < Confidentiality::Secret && !from.starts_with("connection:")))
}

/// Calls back with every text of a value and the argument it is in; names of fields are texts too.
fn each_text(value: &Value, path: &str, depth: usize, f: &mut impl FnMut(&str, &str)) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::String(text) => f(path, text),
        Value::Number(number) => f(path, &number.to_string()),
        Value::Array(items) if depth > 0 => {
            for (index, item) in items.iter().enumerate() {
                each_text(item, &below(&index.to_string()), depth - 1, f);
            }
        }
        Value::Object(fields) if depth > 0 => {
            for (key, value) in fields {
                let path = below(key);
                f(&path, key);
                each_text(value, &path, depth - 1, f);
            }
        }
        Value::Array(_) | Value::Object(_) => f(path, &value.to_string()),
        Value::Null | Value::Bool(_) => {}
    }
}

/// The words of a text: letters and digits, in lower case.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// The block that starts at this word, and how many words it has. Where too little is left there is none.
fn block(words: &[String], start: usize) -> Option<(u64, usize)> {
    let mut chars = 0;
    for (count, word) in words.get(start..)?.iter().enumerate() {
        chars += word.chars().count();
        if count + 1 >= BLOCK_WORDS && chars >= BLOCK_CHARS {
            let words = words.get(start..=start + count)?;
            return Some((hash(&words.join(" ")), count + 1));
        }
    }
    None
}

/// What singles something out: addresses of people, and long words with many digits among their letters.
fn names(text: &str) -> impl Iterator<Item = &str> {
    const LONG: usize = 16;
    const DIGITS: usize = 5;
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+');
    let is_key = |word: &str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        word.len() >= LONG && digits >= DIGITS && word.bytes().any(|b| b.is_ascii_alphabetic())
    };
    text.split(move |c| !is_part(c))
        .map(|word| word.trim_matches(['.', '-']))
        .filter(move |word| leads_to_a_person(word) || is_key(word))
}

/// What a file of settings gives its names: the rest of a line behind `=` or `:`.
fn values(text: &str) -> impl Iterator<Item = &str> {
    let value = |line: &'_ str| line.find(['=', ':']).map(|at| at + 1);
    text.lines()
        .filter_map(move |line| line.get(value(line)?..))
        .map(|value| value.trim().trim_matches(['"', '\'', ',', ';']))
        .filter(|value| value.chars().count() >= SHORTEST_VALUE && !value.starts_with("[redacted"))
}

/// The addresses in a text.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"'`<>()[]{}|".contains(c))
        .map(|word| word.trim_end_matches(['.', ',', ';', '!', '?', ':']))
        .filter(|word| word.contains("://"))
}

/// An address without the machine it names: where something goes is not what goes there.
fn past_host(text: &str) -> &str {
    match text.trim().split_once("://") {
        Some((scheme, rest)) if !scheme.contains(char::is_whitespace) => {
            rest.find(['/', '?', '#']).map_or("", |end| &rest[end..])
        }
        _ => text,
    }
}

/// A text, and what it says once it is decoded.
fn readings(text: &str) -> Vec<String> {
    let mut readings = vec![text.to_owned()];
    if text.contains('%') {
        readings.push(percent_decode_str(text).decode_utf8_lossy().into_owned());
    }
    let decoded: Vec<String> = readings.iter().flat_map(|reading| encoded(reading)).collect();
    readings.extend(decoded);
    readings
}

/// What runs of base64 or hexadecimal in a text say, where that is text.
fn encoded(text: &str) -> Vec<String> {
    const LONG: usize = 24;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_');
    let decode = |run: &str| {
        let hex = || {
            let pairs = run.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
            pairs.collect::<Option<Vec<u8>>>()
        };
        let ways = [hex(), STANDARD_NO_PAD.decode(run).ok(), URL_SAFE_NO_PAD.decode(run).ok()];
        ways.into_iter().flatten().find_map(|bytes| String::from_utf8(bytes).ok())
    };
    text.split(|c| !is_part(c)).filter(|run| run.len() >= LONG).filter_map(decode).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOTE: &str = "The launch moves to the second week of March because the valve in unit seven leaks.";

    fn heard(source: &str, confidentiality: Confidentiality, value: &Value) -> Private {
        let mut private = Private::default();
        private.note(source, confidentiality, value, confidentiality == Confidentiality::Secret);
        private
    }

    #[track_caller]
    fn check(private: &Private, arguments: Value, to: Option<&str>, expected: Option<&str>) {
        let carried = private.carried(&arguments, to);
        assert_eq!(carried.map(|carried| carried.argument).as_deref(), expected, "{arguments}");
    }

    #[test]
    fn a_line_that_is_copied_is_found_however_it_is_written() {
        let private = heard("workspace", Confidentiality::Private, &json!({ "text": NOTE }));
        check(
            &private,
            json!({ "json": { "note": [NOTE.to_uppercase().replace(' ', "\n")] } }),
            None,
            Some("json.note.0"),
        );
        check(
            &private,
            json!({ "url": "https://x.example/?q=the%20second%20week%20of%20March%20because%20the%20valve%20in%20unit%20seven" }),
            None,
            Some("url"),
        );
        check(&private, json!({ "body": format!("d={}", STANDARD_NO_PAD.encode(NOTE)) }), None, Some("body"));
        let hex: String = NOTE.bytes().map(|byte| format!("{byte:02x}")).collect();
        check(&private, json!({ "body": hex }), None, Some("body"));
        check(&private, json!({ NOTE: 1 }), None, Some(NOTE));
    }

    #[test]
    fn a_few_words_and_what_was_said_elsewhere_are_not() {
        let mut private = heard("workspace", Confidentiality::Private, &json!({ "text": NOTE }));
        check(&private, json!({ "query": "the second week of March" }), None, None);
        check(&private, json!({ "query": "How do I find a leak in a valve of the seventh unit?" }), None, None);
        check(&private, json!({ "query": NOTE }), None, Some("query"));
        private.user_said(NOTE);
        check(&private, json!({ "query": NOTE }), None, None);
    }

    #[test]
    fn names_that_single_something_out_count_by_themselves() {
        let text =
            "ann.lee@corp.example has account GB12ABCD34567890123456, order 550e8400-e29b-41d4-a716-446655440000";
        let private = heard("connection:bank", Confidentiality::Private, &json!(text));
        for name in ["Ann.Lee@corp.example", "GB12ABCD34567890123456", "550e8400-e29b-41d4-a716-446655440000"] {
            check(&private, json!({ "url": format!("https://x.example/?a={name}") }), None, Some("url"));
        }
        check(&private, json!({ "url": "https://x.example/?a=x86_64-unknown-linux-gnu" }), None, None);
    }

    #[test]
    fn every_value_of_a_place_for_secrets_counts() {
        let private = heard("workspace", Confidentiality::Secret, &json!("DEBUG=true\nDB_PASSWORD='hunter2'\n"));
        check(&private, json!({ "url": "https://x.example/?p=hunter2" }), None, Some("url"));
        check(&private, json!({ "url": "https://x.example/?p=true" }), None, None);
        let private = heard("workspace", Confidentiality::Private, &json!("DB_PASSWORD='hunter2'\n"));
        check(&private, json!({ "url": "https://x.example/?p=hunter2" }), None, None);
    }

    #[test]
    fn an_address_that_stands_there_is_followed() {
        let page = "See https://docs.example/the/second/week/of/march/because?the=valve for more.";
        let private = heard("workspace", Confidentiality::Private, &json!(page));
        check(
            &private,
            json!({ "url": "https://docs.example/the/second/week/of/march/because?the=valve" }),
            None,
            None,
        );
        check(
            &private,
            json!({ "url": "https://evil.example/the/second/week/of/march/because?the=valve" }),
            None,
            Some("url"),
        );
    }

    #[test]
    fn what_a_connection_gave_goes_back_to_it_and_the_work_goes_to_any() {
        let forge = Some("connection:forge");
        let work = heard("workspace", Confidentiality::Private, &json!(NOTE));
        check(&work, json!({ "body": NOTE }), forge, None);
        let secret = heard("workspace", Confidentiality::Secret, &json!(NOTE));
        check(&secret, json!({ "body": NOTE }), forge, Some("body"));
        let bank = heard("connection:bank", Confidentiality::Private, &json!(NOTE));
        check(&bank, json!({ "body": NOTE }), forge, Some("body"));
        check(&bank, json!({ "body": NOTE }), Some("connection:bank"), None);
    }

    #[test]
    fn what_is_no_longer_remembered_is_not_taken_for_everybodys() {
        let mut private = heard("workspace", Confidentiality::Private, &json!(NOTE));
        private.forgot = true;
        check(
            &private,
            json!({ "body": "These words were never heard by anyone in here before." }),
            None,
            Some("body"),
        );
        check(&private, json!({ "body": "short" }), None, None);
    }
}
