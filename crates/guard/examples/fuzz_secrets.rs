//! Throws texts at the search for secrets until it falls over.
//!
//!     cargo run --release -p toolgate-guard --example fuzz_secrets -- [COUNT] [SEED]
//!
//! Every text is made from a seed, so a run can be repeated: examples of rules, names, separators and chance put together
//! and cut up again. What is found must stand in order and on character boundaries, what is redacted must stay as it is
//! when redacted again, and no secret that was found may survive.

#![expect(clippy::print_stdout, reason = "the counts are what it is for")]

use std::{collections::BTreeMap, env, process::ExitCode};

use toolgate_guard::secrets::{
    Known, Redactor, Secret, find,
    rules::{RULES, fill},
};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let count: u64 = args.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let seed: u64 = args.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);

    let examples: Vec<&str> =
        RULES.iter().flat_map(|rule| rule.examples.iter().chain(rule.counters)).copied().collect();
    let redactor = Redactor { key: [1; 32], personal: true };
    let mut known = Known::default();
    known.remember("mine", KNOWN);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for n in 0..count {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n);
        let text = text(&mut dice, &examples);
        let found = find(&text);
        if let Some(wrong) = wrong(&text, &found, &redactor, &known) {
            println!("{wrong}, seed {seed}, text {n}: {text:?}");
            return ExitCode::FAILURE;
        }
        for secret in found {
            *counts.entry(secret.rule).or_default() += 1;
        }
    }
    println!("{count} texts from seed {seed}");
    for (rule, count) in counts {
        println!("{count:>9} {rule}");
    }
    ExitCode::SUCCESS
}

/// A value that is known, and never made by chance.
const KNOWN: &str = "qZ/known value\u{e9}~1";

/// What must never be.
fn wrong(text: &str, found: &[Secret], redactor: &Redactor, known: &Known) -> Option<&'static str> {
    let mut end = 0;
    for secret in found {
        if secret.span.start < end || secret.span.is_empty() || text.get(secret.span.clone()).is_none() {
            return Some("a span out of order");
        }
        end = secret.span.end;
    }
    let (once, _) = redactor.redact(text);
    let (twice, again) = redactor.redact(&once);
    if once != twice || !again.is_empty() {
        return Some("redacting twice is not redacting once");
    }
    let survives = |secret: &Secret| {
        let value = &text[secret.span.clone()];
        let mixed =
            value.bytes().any(|byte| byte.is_ascii_digit()) && value.bytes().any(|byte| byte.is_ascii_alphabetic());
        value.len() >= 12 && mixed && once.contains(value)
    };
    if found.iter().any(survives) {
        return Some("a secret survives");
    }
    known.redact(&format!("{text}{KNOWN}{text}")).contains(KNOWN).then_some("a known value survives")
}

/// One text: pieces, examples of rules, and either cut up.
fn text(dice: &mut Dice, examples: &[&str]) -> String {
    let mut text = String::new();
    for _ in 0..dice.up_to(10) {
        match dice.up_to(6) {
            0 | 1 => text += &fill(dice.one_of(examples)),
            2 => text.extend((0..dice.up_to(60)).map(|_| dice.one_of(ODD))),
            _ => text += dice.one_of(PIECES),
        }
    }
    if dice.up_to(3) == 0 { mutated(dice, &text) } else { text }
}

/// Characters removed, doubled, moved or replaced.
fn mutated(dice: &mut Dice, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=dice.up_to(6) {
        if chars.is_empty() {
            break;
        }
        let at = dice.index(chars.len());
        match dice.up_to(5) {
            0 => drop(chars.remove(at)),
            1 => chars.insert(at, chars[at]),
            2 => {
                let other = dice.index(chars.len());
                chars.swap(at, other);
            }
            3 => chars.truncate(at),
            _ => chars[at] = dice.one_of(ODD),
        }
    }
    chars.into_iter().collect()
}

/// Small, quick and the same everywhere; nothing here needs more of chance.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`.
    fn up_to(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % len
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())]
    }
}

const PIECES: &[&str] = &[
    "key",
    "KEY",
    "token",
    "TOKEN=",
    "secret",
    "secret-",
    "SECRET: ",
    "password",
    "password=",
    "password: '",
    "PASS=",
    "api_key",
    "apiKey\": \"",
    "auth",
    "access ",
    "private ",
    "client_id=",
    "Bearer ",
    "Basic ",
    "://",
    "://u:",
    "@h/",
    "postgres://u:p",
    "eyJ",
    "sk-",
    "-----BEGIN ",
    "RSA PRIVATE KEY-----",
    "-----END ",
    "[redacted:",
    "[redacted:jwt:00aa11bb]",
    "]",
    "=",
    ":",
    "=>",
    " ",
    "  ",
    "\n",
    "\\n",
    "\"",
    "'",
    "\\\"",
    ",",
    ";",
    "${X}",
    "<x>",
    "%20",
    "trello ",
    "heroku=",
    "curl -u a:",
    "mysql -p",
    "machine h login l password ",
    "é",
    "\u{1f600}",
    "\u{200b}",
    "\u{fffd}",
    "\0",
    "xxxx",
    "....",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "deadbeefdeadbeefdeadbeefdeadbeef01234567",
    "Zq81xKd93mWp20Lr",
    "2024-01-02",
    "1.2.3-4",
    "http://example.com/a/b",
    "AccountKey=",
    "PWD=",
    "Server=h;",
    "id",
    "_id: ",
    ".",
    "/",
    "-",
    "_",
];

const ODD: &[char] = &[
    'a',
    'Z',
    'q',
    'X',
    '0',
    '7',
    '9',
    'f',
    'e',
    '-',
    '_',
    '.',
    '/',
    '+',
    '=',
    ':',
    '@',
    '$',
    '{',
    '}',
    '<',
    '>',
    '[',
    ']',
    '(',
    ')',
    '"',
    '\'',
    '`',
    '\\',
    '\n',
    ' ',
    '\t',
    ',',
    ';',
    '%',
    '#',
    '!',
    '~',
    'é',
    '\u{1f600}',
    '\u{fffd}',
];
