//! Strict reading of JSON text that somebody else wrote.
//!
//! JSON has corners where two readers of the same text see different values: a key given twice, an integer too large
//! for a double, text after the end. A call that is checked by one reader and run by another must not pass through
//! such a corner, so all of them are faults here. Size and nesting are bounded before anything is built.
//!
//! What another server answers is a different matter ([`read_to_relay`]): nobody but us reads its text, and whoever comes
//! after gets the value, spelled by us. Numbers are kept as far as a value can hold them, and half a surrogate pair is the
//! sign for what cannot be shown. A key given twice is told: whatever has it says two things.
//!
//! [`Reader`] walks the text once, without recursion, and hands out tokens; [`read`] builds a value from them,
//! [`check_text`] builds nothing. A serde visitor would be shorter, but it sees `100000000000000000001` as a float
//! and could no longer tell it from `1e20`, which is exact.

use std::{borrow::Cow, collections::BTreeSet, io};

use serde_json::{Map, Number, Value};
use toolgate_contract::Fault;

/// How much text, how deeply nested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text.
    pub bytes: usize,
    /// Arrays and objects inside each other: `[[1]]` has two.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 1024 * 1024, depth: 64 }
    }
}

/// What is wrong with a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// It is not JSON. Lines and columns count from 1, columns in characters.
    #[error("not JSON at line {line}, column {column}: expected {expected}")]
    NotJson {
        /// In which line.
        line: usize,
        /// At which character of it.
        column: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// It is too long to be read at all.
    #[error("the JSON text has {bytes} bytes, and {limit} are allowed")]
    TooLarge {
        /// How long it is; for a value that was never text, at least this long.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// It nests too deeply.
    #[error("the JSON text nests deeper than {limit} levels")]
    TooDeep {
        /// How deep it may nest.
        limit: usize,
    },
    /// An object gives one key twice, and readers disagree which one counts.
    #[error("the key at `{pointer}` is given twice")]
    DuplicateKey {
        /// The key, as a JSON pointer.
        pointer: String,
    },
    /// A number that a double cannot hold, so that some reader would round it.
    #[error("the number `{number}` at `{pointer}` cannot be read exactly")]
    NumberNotExact {
        /// Where it stands, as a JSON pointer; empty for the top level.
        pointer: String,
        /// As written, shortened if it is very long.
        number: String,
    },
}

impl JsonFault {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotJson { .. } => "not_json",
            Self::TooLarge { .. } => "too_large",
            Self::TooDeep { .. } => "too_deep",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::NumberNotExact { .. } => "number_not_exact",
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::NotJson { .. } => "Send one complete JSON value and nothing after it.",
            Self::TooLarge { .. } => "Send less at once.",
            Self::TooDeep { .. } => "Flatten the value.",
            Self::DuplicateKey { .. } => "Give every key once.",
            Self::NumberNotExact { .. } => "Send it as a string.",
        }
    }
}

impl From<JsonFault> for Fault {
    fn from(fault: JsonFault) -> Self {
        Fault::failed(fault.code(), fault.to_string(), fault.remedy())
    }
}

/// The value of a JSON text.
pub fn read(text: &[u8], limits: &Limits) -> Result<Value, JsonFault> {
    build(&mut Reader::new(text, limits)?)
}

/// A value that is passed on, and nothing else is done with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct ToRelay {
    /// As far as a value can hold it. Integers of 64 bits are exact; any other number is the nearest double.
    pub value: Value,
    /// Keys that are given twice, as JSON pointers. The last one counts.
    pub twice: Vec<String>,
}

/// The value of a JSON text of another server.
pub fn read_to_relay(text: &[u8], limits: &Limits) -> Result<ToRelay, JsonFault> {
    let mut reader = Reader { relays: true, ..Reader::new(text, limits)? };
    Ok(ToRelay { value: build(&mut reader)?, twice: reader.twice })
}

fn build(reader: &mut Reader<'_>) -> Result<Value, JsonFault> {
    let mut root = Value::Null;
    let mut open: Vec<Value> = Vec::new();
    let mut keys: Vec<String> = Vec::new();
    while let Some(token) = reader.token()? {
        let value = match token {
            Token::StartArray => {
                open.push(Value::Array(Vec::new()));
                continue;
            }
            Token::StartObject => {
                open.push(Value::Object(Map::new()));
                continue;
            }
            Token::Key(key) => {
                keys.push(key.decode().into_owned());
                continue;
            }
            Token::EndArray | Token::EndObject => open.pop().unwrap_or_default(),
            Token::String(text) => Value::String(text.decode().into_owned()),
            Token::Number(number) if reader.relays => Value::Number(nearest(number)),
            Token::Number(number) => Value::Number(reader.exact(number)?),
            Token::Bool(value) => Value::Bool(value),
            Token::Null => Value::Null,
        };
        match open.last_mut() {
            Some(Value::Array(items)) => items.push(value),
            Some(Value::Object(members)) => {
                members.insert(keys.pop().unwrap_or_default(), value);
            }
            _ => root = value,
        }
    }
    Ok(root)
}

/// Says whether [`read`] would read the text, without building anything: for a reader of lines whose values are
/// built elsewhere.
pub fn check_text(text: &[u8], limits: &Limits) -> Result<(), JsonFault> {
    let mut reader = Reader::new(text, limits)?;
    while let Some(token) = reader.token()? {
        if let Token::Number(number) = token {
            reader.exact(number)?;
        }
    }
    Ok(())
}

/// Says the same of a value that somebody has parsed already. Its size is that of its shortest spelling.
pub fn check(value: &Value, limits: &Limits) -> Result<(), JsonFault> {
    check_bounds(value, limits)?;
    check_numbers(value, &mut Vec::new())
}

/// Says only whether it is too deep or too large.
pub fn check_bounds(value: &Value, limits: &Limits) -> Result<(), JsonFault> {
    check_depth(value, limits)?;
    check_size(value, limits)
}

fn check_depth(value: &Value, limits: &Limits) -> Result<(), JsonFault> {
    // A list of what is left to look at, because a recursive walk would overflow on the very values it is to refuse.
    let mut left = vec![(value, 0)];
    while let Some((value, depth)) = left.pop() {
        let depth = depth + 1;
        match value {
            Value::Array(_) | Value::Object(_) if depth > limits.depth => {
                return Err(JsonFault::TooDeep { limit: limits.depth });
            }
            Value::Array(items) => left.extend(items.iter().map(|item| (item, depth))),
            Value::Object(members) => left.extend(members.values().map(|member| (member, depth))),
            _ => {}
        }
    }
    Ok(())
}

fn check_size(value: &Value, limits: &Limits) -> Result<(), JsonFault> {
    let mut counter = Counter { bytes: 0, limit: limits.bytes };
    serde_json::to_writer(&mut counter, value)
        .map_err(|_| JsonFault::TooLarge { bytes: counter.bytes, limit: limits.bytes })
}

/// Counts what is written to it and gives up beyond the limit.
struct Counter {
    bytes: usize,
    limit: usize,
}

impl io::Write for Counter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.bytes += buffer.len();
        if self.bytes > self.limit { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(buffer.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Recursive, and called only once the depth is known to be bounded.
fn check_numbers<'v>(value: &'v Value, path: &mut Vec<Cow<'v, str>>) -> Result<(), JsonFault> {
    match value {
        Value::Number(number) if !is_exact(number) => Err(JsonFault::NumberNotExact {
            pointer: pointer(path.iter().map(|step| Cow::Borrowed(&**step))),
            number: number.to_string(),
        }),
        Value::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            path.push(index.to_string().into());
            check_numbers(item, path)?;
            path.pop();
            Ok(())
        }),
        Value::Object(members) => members.iter().try_for_each(|(key, member)| {
            path.push(key.into());
            check_numbers(member, path)?;
            path.pop();
            Ok(())
        }),
        _ => Ok(()),
    }
}

/// Up to here every integer has a double of its own.
const EXACT: u64 = 1 << 53;

/// Would no reader round this number?
pub fn is_exact(number: &Number) -> bool {
    match (number.as_u64(), number.as_i64()) {
        (Some(n), _) => n <= EXACT,
        (None, Some(n)) => n.unsigned_abs() <= EXACT,
        (None, None) => true,
    }
}

/// One piece of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'t> {
    /// `{`
    StartObject,
    /// `}`
    EndObject,
    /// `[`
    StartArray,
    /// `]`
    EndArray,
    /// The key of the member that follows.
    Key(Text<'t>),
    /// A string.
    String(Text<'t>),
    /// A number as written; [`Reader::exact`] reads it.
    Number(&'t str),
    /// `true` or `false`.
    Bool(bool),
    /// `null`
    Null,
}

/// What stands between two quotes, its escapes checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'t>(&'t str);

impl<'t> Text<'t> {
    /// As written, without the quotes.
    pub fn raw(self) -> &'t str {
        self.0
    }

    /// As meant.
    pub fn decode(self) -> Cow<'t, str> {
        let Some((plain, mut rest)) = self.0.find('\\').map(|at| self.0.split_at(at)) else {
            return Cow::Borrowed(self.0);
        };
        let mut out = String::with_capacity(self.0.len());
        out.push_str(plain);
        while !rest.is_empty() {
            // The reader has checked every escape: what is none is half of a pair, and was to be passed on.
            let (c, length) = escape(rest).unwrap_or((char::REPLACEMENT_CHARACTER, HALF_A_PAIR));
            out.push(c);
            rest = &rest[length..];
            let plain = rest.find('\\').unwrap_or(rest.len());
            out.push_str(&rest[..plain]);
            rest = &rest[plain..];
        }
        Cow::Owned(out)
    }
}

/// Walks over a JSON text. Every token it gives is part of valid JSON so far; only numbers may still be inexact.
#[derive(Debug)]
pub struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    open: Vec<Open<'t>>,
    next: Next,
    /// What was read is passed on and not acted upon.
    relays: bool,
    twice: Vec<String>,
}

/// Keys given twice that are told one by one. A text with more of them is none.
const MOST_TWICE: usize = 1_000;

#[derive(Debug)]
enum Open<'t> {
    Array { index: usize },
    Object { key: Text<'t>, seen: Keys<'t> },
}

/// The keys an object has given so far. Most objects have few, and a short list is searched faster than a tree.
#[derive(Debug, Default)]
struct Keys<'t> {
    first: Vec<Cow<'t, str>>,
    rest: BTreeSet<Cow<'t, str>>,
}

impl<'t> Keys<'t> {
    const SHORT: usize = 16;

    /// Adds a key, and says whether it is new.
    fn insert(&mut self, key: Cow<'t, str>) -> bool {
        if self.first.contains(&key) {
            return false;
        }
        if self.first.len() == Self::SHORT {
            return self.rest.insert(key);
        }
        self.first.push(key);
        true
    }
}

/// Where the reader stands.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// Before a value that must come.
    Value,
    /// Right after an opening bracket.
    First,
    /// After a value.
    After,
}

impl<'t> Reader<'t> {
    /// A reader at the start of the text.
    pub fn new(text: &'t [u8], limits: &Limits) -> Result<Self, JsonFault> {
        if text.len() > limits.bytes {
            return Err(JsonFault::TooLarge { bytes: text.len(), limit: limits.bytes });
        }
        let text = std::str::from_utf8(text)
            .map_err(|error| not_json(text.get(..error.valid_up_to()).unwrap_or_default(), "valid UTF-8"))?;
        let (open, twice) = (Vec::new(), Vec::new());
        Ok(Self { text, at: 0, depth: limits.depth, open, next: Next::Value, relays: false, twice })
    }

    /// The next token, or none after the one value of the text.
    pub fn token(&mut self) -> Result<Option<Token<'t>>, JsonFault> {
        self.skip_space();
        let byte = self.peek();
        let token = match (self.next, self.open.last_mut(), byte) {
            (Next::Value, _, _) => self.value()?,
            (_, None, None) => return Ok(None),
            (_, None, Some(_)) => return Err(self.expected("the end of the text")),
            (_, Some(Open::Array { .. }), Some(b']')) => self.close(Token::EndArray),
            (_, Some(Open::Object { .. }), Some(b'}')) => self.close(Token::EndObject),
            (Next::First, Some(Open::Array { .. }), _) => self.value()?,
            (Next::First, Some(Open::Object { .. }), _) => self.key()?,
            (Next::After, Some(Open::Array { index }), Some(b',')) => {
                *index += 1;
                self.at += 1;
                self.skip_space();
                self.value()?
            }
            (Next::After, Some(Open::Object { .. }), Some(b',')) => {
                self.at += 1;
                self.skip_space();
                self.key()?
            }
            (Next::After, Some(Open::Array { .. }), _) => return Err(self.expected("`,` or `]`")),
            (Next::After, Some(Open::Object { .. }), _) => return Err(self.expected("`,` or `}`")),
        };
        Ok(Some(token))
    }

    /// The value of the number token that was read last. An integer beyond 2^53 and a float beyond all doubles are
    /// faults: whoever reads them next might round them.
    pub fn exact(&self, number: &str) -> Result<Number, JsonFault> {
        let is_float = number == "-0" || number.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'));
        let value = if is_float {
            number.parse().ok().and_then(Number::from_f64)
        } else {
            number.parse::<i64>().ok().map(Number::from).filter(is_exact)
        };
        value.ok_or_else(|| JsonFault::NumberNotExact { pointer: self.pointer(), number: shorten(number.to_owned()) })
    }

    /// Where the reader stands, as a JSON pointer.
    fn pointer(&self) -> String {
        pointer(self.open.iter().map(|open| match open {
            Open::Array { index } => Cow::Owned(index.to_string()),
            Open::Object { key, .. } => key.decode(),
        }))
    }

    fn value(&mut self) -> Result<Token<'t>, JsonFault> {
        self.next = Next::After;
        match self.peek() {
            Some(b'"') => self.string().map(Token::String),
            Some(b'{') => self.open(Open::Object { key: Text(""), seen: Keys::default() }, Token::StartObject),
            Some(b'[') => self.open(Open::Array { index: 0 }, Token::StartArray),
            Some(b'-' | b'0'..=b'9') => self.number().map(Token::Number),
            Some(b't') => self.word("true", Token::Bool(true)),
            Some(b'f') => self.word("false", Token::Bool(false)),
            Some(b'n') => self.word("null", Token::Null),
            _ => Err(self.expected("a value")),
        }
    }

    fn open(&mut self, open: Open<'t>, token: Token<'t>) -> Result<Token<'t>, JsonFault> {
        if self.open.len() == self.depth {
            return Err(JsonFault::TooDeep { limit: self.depth });
        }
        self.open.push(open);
        self.at += 1;
        self.next = Next::First;
        Ok(token)
    }

    fn close(&mut self, token: Token<'t>) -> Token<'t> {
        self.open.pop();
        self.at += 1;
        self.next = Next::After;
        token
    }

    fn key(&mut self) -> Result<Token<'t>, JsonFault> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key in double quotes"));
        }
        let name = self.string()?;
        if let Some(Open::Object { key, seen }) = self.open.last_mut() {
            *key = name;
            if !seen.insert(name.decode()) {
                let pointer = self.pointer();
                if !self.relays || self.twice.len() == MOST_TWICE {
                    return Err(JsonFault::DuplicateKey { pointer });
                }
                self.twice.push(pointer);
            }
        }
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.expected("`:`"));
        }
        self.at += 1;
        self.next = Next::Value;
        Ok(Token::Key(name))
    }

    fn string(&mut self) -> Result<Text<'t>, JsonFault> {
        self.at += 1;
        let start = self.at;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            self.at += rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len());
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += match escape(&self.text[self.at..]) {
                        Ok((_, length)) => length,
                        Err(OTHER_HALF) if self.relays => HALF_A_PAIR,
                        Err(expected) => return Err(self.expected(expected)),
                    };
                }
                Some(_) => return Err(self.expected("an escape instead of a control character")),
                None => return Err(self.expected("a closing quote")),
            }
        }
        self.at += 1;
        Ok(Text(&self.text[start..self.at - 1]))
    }

    fn number(&mut self) -> Result<&'t str, JsonFault> {
        let start = self.at;
        self.skip(b"-");
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.skip(b".") {
            self.digits()?;
        }
        if self.skip(b"eE") {
            self.skip(b"+-");
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn word(&mut self, word: &'static str, token: Token<'t>) -> Result<Token<'t>, JsonFault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(token)
    }

    fn skip(&mut self, any_of: &[u8]) -> bool {
        let found = self.peek().is_some_and(|b| any_of.contains(&b));
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expected(&self, what: &'static str) -> JsonFault {
        not_json(&self.text.as_bytes()[..self.at], what)
    }
}

/// The nearest number that a value can hold: an integer of 64 bits as it is, any other as a double.
fn nearest(number: &str) -> Number {
    let whole = number.parse::<i64>().map(Number::from).or_else(|_| number.parse::<u64>().map(Number::from));
    let float = || {
        let value: f64 = number.parse().unwrap_or_default();
        Number::from_f64(value.clamp(f64::MIN, f64::MAX))
    };
    match whole {
        Ok(whole) if number != "-0" => whole,
        _ => float().unwrap_or_else(|| 0.into()),
    }
}

/// What is missing where one half of a surrogate pair stands alone, and how long that half is.
const OTHER_HALF: &str = "the other half of a surrogate pair";
const HALF_A_PAIR: usize = 6;

/// The character an escape stands for and how long the escape is, or what should stand there.
fn escape(text: &str) -> Result<(char, usize), &'static str> {
    let c = match text.as_bytes().get(1) {
        Some(b'u') => return unicode_escape(text),
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        _ => return Err("one of the escapes `\\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX`"),
    };
    Ok((c, 2))
}

fn unicode_escape(text: &str) -> Result<(char, usize), &'static str> {
    let unit = |start: usize| {
        let digits = text.get(start..start + 6)?.strip_prefix("\\u")?;
        // `from_str_radix` alone would take a sign.
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    };
    let first = unit(0).ok_or("four hex digits after `\\u`")?;
    // A pair of surrogates is one character in two escapes; one without the other is none.
    let units = [first, unit(6).unwrap_or_default()];
    match char::decode_utf16(units).next() {
        Some(Ok(c)) => Ok((c, HALF_A_PAIR * c.len_utf16())),
        _ => Err(OTHER_HALF),
    }
}

fn not_json(before: &[u8], expected: &'static str) -> JsonFault {
    let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let is_char_start = |b: &&u8| **b & 0xC0 != 0x80;
    JsonFault::NotJson {
        line: before.iter().filter(|b| **b == b'\n').count() + 1,
        column: before[line_start..].iter().filter(is_char_start).count() + 1,
        expected,
    }
}

fn pointer<'p>(steps: impl Iterator<Item = Cow<'p, str>>) -> String {
    let mut out = String::new();
    for step in steps {
        out.push('/');
        out.push_str(&step.replace('~', "~0").replace('/', "~1"));
    }
    shorten(out)
}

/// Messages quote what somebody else wrote; a key of a megabyte must not become a message of a megabyte.
fn shorten(mut text: String) -> String {
    const MOST: usize = 200;
    if text.len() > MOST {
        text.truncate(text.floor_char_boundary(MOST));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const LIMITS: Limits = Limits { bytes: 64 * 1024, depth: 8 };

    /// Both ways of reading text must say the same.
    fn check_read(text: impl AsRef<[u8]>, expected: Result<Value, JsonFault>) {
        let text = text.as_ref();
        let what = String::from_utf8_lossy(text);
        assert_eq!(read(text, &LIMITS), expected, "{what}");
        assert_eq!(check_text(text, &LIMITS), expected.map(|_| ()), "{what}");
    }

    fn not_json_at(line: usize, column: usize, expected: &'static str) -> Result<Value, JsonFault> {
        Err(JsonFault::NotJson { line, column, expected })
    }

    #[test]
    fn reads_values() {
        check_read(" null\r\n", Ok(json!(null)));
        check_read("[]", Ok(json!([])));
        check_read("{ }", Ok(json!({})));
        check_read(
            r#"{"a": [1, -2, 0.5, 1e3, true, false, null, {"b": {}}], "ü": "é"}"#,
            Ok(json!({"a": [1, -2, 0.5, 1000.0, true, false, null, {"b": {}}], "ü": "é"})),
        );
        check_read(r#""a\"\\\/\b\f\n\r\t\u0041\ud83d\ude00z""#, Ok(json!("a\"\\/\u{8}\u{c}\n\r\tA😀z")));
        check_read("-0", Ok(json!(-0.0)));
    }

    #[test]
    fn malformed_text_is_located() {
        check_read("", not_json_at(1, 1, "a value"));
        check_read("[1,\n  ü]", not_json_at(2, 3, "a value"));
        check_read("[\"ü\" 1]", not_json_at(1, 6, "`,` or `]`"));
        check_read("[1,]", not_json_at(1, 4, "a value"));
        check_read("[,1]", not_json_at(1, 2, "a value"));
        check_read("{\"a\":1,}", not_json_at(1, 8, "a key in double quotes"));
        check_read("{a:1}", not_json_at(1, 2, "a key in double quotes"));
        check_read("{\"a\" 1}", not_json_at(1, 6, "`:`"));
        check_read("{\"a\":}", not_json_at(1, 6, "a value"));
        check_read("{\"a\":1]", not_json_at(1, 7, "`,` or `}`"));
        check_read("[1}", not_json_at(1, 3, "`,` or `]`"));
        check_read("[", not_json_at(1, 2, "a value"));
        check_read("\"abc", not_json_at(1, 5, "a closing quote"));
        check_read("tru", not_json_at(1, 1, "a value"));
        check_read("NaN", not_json_at(1, 1, "a value"));
        check_read("'a'", not_json_at(1, 1, "a value"));
        check_read("\u{feff}1", not_json_at(1, 1, "a value"));
    }

    #[test]
    fn text_after_the_value_is_refused() {
        check_read("1 2", not_json_at(1, 3, "the end of the text"));
        check_read("{}\n{}", not_json_at(2, 1, "the end of the text"));
        check_read("[]]", not_json_at(1, 3, "the end of the text"));
        check_read("1\0", not_json_at(1, 2, "the end of the text"));
    }

    #[test]
    fn numbers_have_one_grammar() {
        check_read("01", not_json_at(1, 2, "the end of the text"));
        check_read("+1", not_json_at(1, 1, "a value"));
        check_read(".5", not_json_at(1, 1, "a value"));
        check_read("5.", not_json_at(1, 3, "a digit"));
        check_read("1e", not_json_at(1, 3, "a digit"));
        check_read("-", not_json_at(1, 2, "a digit"));
        check_read("0x10", not_json_at(1, 2, "the end of the text"));
        check_read("-0.5E+2", Ok(json!(-50.0)));
    }

    #[test]
    fn strings_hold_no_raw_controls_and_no_half_characters() {
        const PAIR: &str = "the other half of a surrogate pair";
        const HEX: &str = "four hex digits after `\\u`";
        check_read("\"a\nb\"", not_json_at(1, 3, "an escape instead of a control character"));
        check_read(r#""\x41""#, not_json_at(1, 2, "one of the escapes `\\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX`"));
        check_read(r#""\u+041""#, not_json_at(1, 2, HEX));
        check_read(r#""\u00""#, not_json_at(1, 2, HEX));
        check_read("\"\\u00é\"", not_json_at(1, 2, HEX));
        check_read(r#""\ud83d""#, not_json_at(1, 2, PAIR));
        check_read(r#""\ude00""#, not_json_at(1, 2, PAIR));
        check_read(r#""\ud83d\u0041""#, not_json_at(1, 2, PAIR));
        check_read(b"[\"a\xff\"]", not_json_at(1, 4, "valid UTF-8"));
        check_read(b"\"\xed\xa0\x80\"", not_json_at(1, 2, "valid UTF-8"));
    }

    #[test]
    fn a_key_given_twice_is_refused_at_any_level_however_it_is_spelled() {
        let twice = |pointer: &str| Err(JsonFault::DuplicateKey { pointer: pointer.into() });
        check_read(r#"{"a":1,"a":1}"#, twice("/a"));
        check_read(r#"{"a":1,"\u0061":2}"#, twice("/a"));
        check_read(r#"{"x":[0,{"a/b~c":1,"d":{"a":1},"a/b~c":2}]}"#, twice("/x/1/a~1b~0c"));
        check_read(r#"{"":1,"":1}"#, twice("/"));
        let many: String = (0..40).map(|n| format!("\"k{n}\":0,")).collect();
        check_read(format!("{{{many}\"k39\":0}}"), twice("/k39"));
        check_read(format!("{{{many}\"k0\":0}}"), twice("/k0"));
        check_read(
            r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#,
            Ok(json!({"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]})),
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        check_read(nested(8), Ok(json!([[[[[[[[]]]]]]]])));
        check_read(nested(9), Err(JsonFault::TooDeep { limit: 8 }));
        check_read(nested(10_000), Err(JsonFault::TooDeep { limit: 8 }));
        check_read("{\"a\":".repeat(10_000), Err(JsonFault::TooDeep { limit: 8 }));
        assert_eq!(
            check_text(nested(10_000).as_bytes(), &Limits { bytes: 20_000, depth: 10_000 }),
            Ok(()),
            "the reader itself does not recurse"
        );
    }

    #[test]
    fn size_is_bounded_before_anything_is_read() {
        let text = format!("\"{}", "x".repeat(LIMITS.bytes));
        check_read(text, Err(JsonFault::TooLarge { bytes: LIMITS.bytes + 1, limit: LIMITS.bytes }));
    }

    #[test]
    fn integers_that_would_be_rounded_are_refused() {
        let inexact = |pointer: &str, number: &str| {
            Err(JsonFault::NumberNotExact { pointer: pointer.into(), number: number.into() })
        };
        check_read("9007199254740992", Ok(json!(9_007_199_254_740_992_u64)));
        check_read("-9007199254740992", Ok(json!(-9_007_199_254_740_992_i64)));
        check_read("9007199254740993", inexact("", "9007199254740993"));
        check_read(r#"{"id":[0,-9007199254740993]}"#, inexact("/id/1", "-9007199254740993"));
        check_read("100000000000000000001", inexact("", "100000000000000000001"));
        check_read("1e400", inexact("", "1e400"));
        check_read("1e20", Ok(json!(1e20)));
        check_read("9".repeat(300), inexact("", &format!("{}…", "9".repeat(200))));
    }

    #[test]
    fn what_is_passed_on_keeps_its_numbers_and_its_words() {
        let check = |text: &str, value: Value, twice: &[&str]| {
            let twice = twice.iter().map(|pointer| (*pointer).to_owned()).collect();
            assert_eq!(read_to_relay(text.as_bytes(), &LIMITS), Ok(ToRelay { value, twice }), "{text}");
        };
        check("[1, -0, 1.0, 0.1]", json!([1, -0.0, 1.0, 0.1]), &[]);
        check("[9007199254740993, -9223372036854775808]", json!([9_007_199_254_740_993_i64, i64::MIN]), &[]);
        check("[18446744073709551615, 18446744073709551616]", json!([u64::MAX, 18_446_744_073_709_551_616.0]), &[]);
        check("[1e400, -1e400, 1e-400]", json!([f64::MAX, f64::MIN, 0.0]), &[]);
        check(r#"["a\ud83d", "\ude00\u0041", "\ud83d\ude00"]"#, json!(["a\u{fffd}", "\u{fffd}A", "😀"]), &[]);
        check(r#"{"a":1,"b":[{"c":1,"\u0063":2}],"a":3}"#, json!({"a": 3, "b": [{"c": 2}]}), &["/b/0/c", "/a"]);
        // Everything else is as it was.
        for bad in ["", "[1,]", "{}{}", r#""\ud83""#, "\"\u{7}\"", "[[[[[[[[[1]]]]]]]]]"] {
            assert_eq!(read_to_relay(bad.as_bytes(), &LIMITS).err(), read(bad.as_bytes(), &LIMITS).err(), "{bad}");
            assert!(read(bad.as_bytes(), &LIMITS).is_err(), "{bad}");
        }
        let many = format!("{{{}\"a\":0}}", "\"a\":0,".repeat(MOST_TWICE + 1));
        assert_eq!(read_to_relay(many.as_bytes(), &LIMITS), Err(JsonFault::DuplicateKey { pointer: "/a".into() }));
    }

    #[test]
    fn a_value_that_is_parsed_already_is_held_to_the_same() {
        let limits = Limits { bytes: 20, depth: 2 };
        let at = |value: Value| check(&value, &limits);
        assert_eq!(at(json!({"a": [1]})), Ok(()));
        assert_eq!(at(json!({"a": [[]]})), Err(JsonFault::TooDeep { limit: 2 }));
        assert_eq!(at(json!("123456789012345678")), Ok(()));
        assert_eq!(at(json!("1234567890123456789")), Err(JsonFault::TooLarge { bytes: 21, limit: 20 }));
        assert_eq!(at(json!("\u{1}\u{1}\u{1}")).map_err(|fault| fault.code()), Ok(()));
        assert_eq!(at(json!("\u{1}\u{1}\u{1}\u{1}")).map_err(|fault| fault.code()), Err("too_large"));
        assert_eq!(
            check(&json!({"a/b": [1, 9_007_199_254_740_993_u64]}), &LIMITS),
            Err(JsonFault::NumberNotExact { pointer: "/a~1b/1".into(), number: "9007199254740993".into() })
        );
        assert_eq!(check(&json!([i64::MIN]), &LIMITS).map_err(|fault| fault.code()), Err("number_not_exact"));
        assert_eq!(check(&json!([1e300]), &LIMITS), Ok(()));
    }

    #[test]
    fn checking_a_value_of_ten_thousand_levels_does_not_overflow() {
        let mut value = json!([]);
        for _ in 0..10_000 {
            value = Value::Array(vec![value]);
        }
        assert_eq!(check(&value, &Limits::default()), Err(JsonFault::TooDeep { limit: 64 }));
        while let Value::Array(mut items) = value {
            value = items.pop().unwrap_or_default();
        }
    }

    #[test]
    fn a_message_does_not_grow_with_what_it_quotes() {
        let key = "k".repeat(10_000);
        let fault = read(format!("{{\"{key}\":1,\"{key}\":2}}").as_bytes(), &LIMITS).unwrap_err();
        assert!(fault.to_string().len() < 300, "{fault}");
    }

    #[test]
    fn a_fault_says_what_to_do() {
        let fault = read(b"[9007199254740993]", &LIMITS).unwrap_err();
        assert_eq!(
            Fault::from(fault),
            Fault::failed(
                "number_not_exact",
                "the number `9007199254740993` at `/0` cannot be read exactly",
                "Send it as a string."
            )
        );
    }

    /// JSON values with numbers a double holds.
    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(Value::from),
            any::<String>().prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Another reader in the same process must not see another value in a text we let through, nor may we refuse
    /// ordinary JSON. That reader may be off by the last digit of a fraction.
    fn agrees_with_serde_json(text: &str) -> Result<(), TestCaseError> {
        let ours = read(text.as_bytes(), &Limits::default());
        prop_assert_eq!(check_text(text.as_bytes(), &Limits::default()), ours.clone().map(|_| ()));
        let theirs: Result<Value, _> = serde_json::from_str(text);
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) if !text.contains(['.', 'e', 'E']) => prop_assert_eq!(ours, theirs),
            (Ok(_), theirs) => prop_assert!(theirs.is_ok(), "{:?}", theirs),
            (Err(JsonFault::NotJson { .. }), theirs) => prop_assert!(theirs.is_err(), "{:?}", theirs),
            (Err(_), _) => {}
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in any_value()) {
            for text in [value.to_string(), format!("{value:#}")] {
                prop_assert_eq!(read(text.as_bytes(), &Limits::default()), Ok(value.clone()));
                prop_assert_eq!(check_text(text.as_bytes(), &Limits::default()), Ok(()));
            }
        }

        /// The alphabet is made of the characters JSON turns on.
        #[test]
        fn we_agree_with_the_other_reader(text in r#"[\[\]{}:,"\\/ubntrue0-9.eE+\-aDdé \n\x00]{0,24}"#) {
            agrees_with_serde_json(&text)?;
        }

        #[test]
        fn we_agree_about_json_with_one_character_wrong(value in any_value(), at in any::<prop::sample::Index>(), c in any::<char>()) {
            let mut text: Vec<char> = value.to_string().chars().collect();
            let at = at.index(text.len());
            text[at] = c;
            agrees_with_serde_json(&text.iter().collect::<String>())?;
            text.remove(at);
            agrees_with_serde_json(&text.iter().collect::<String>())?;
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let ours = read(&bytes, &LIMITS).map(|_| ());
            prop_assert_eq!(check_text(&bytes, &LIMITS), ours);
        }
    }
}
