//! Secrets without a format of their own: what is assigned to a telling name, and the password in an address.
//!
//! `DB_PASSWORD=...`, `"apiKey": "..."`, `acme secret ...`. The name says that a secret follows; the value has to look like
//! one: not a word, a path, a version, a reference or a stand-in.

use std::ops::Range;

use super::shape::{self, Mix};

/// How much a name says about what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// `secret`, `token`: a secret follows.
    Telling,
    /// `key`, `access`: a secret may follow.
    Hinting,
    /// `password`: something a person chose may follow.
    Password,
    /// The name of a service whose secrets have no form.
    Service,
}

/// The names, in any case.
pub(super) const NAMES: &[(&str, Name)] = &[
    ("secret", Name::Telling),
    ("token", Name::Telling),
    ("apikey", Name::Telling),
    ("api_key", Name::Telling),
    ("api-key", Name::Telling),
    ("api key", Name::Telling),
    ("access_key", Name::Telling),
    ("accesskey", Name::Telling),
    ("access key", Name::Telling),
    ("access-key", Name::Telling),
    ("private_key", Name::Telling),
    ("privatekey", Name::Telling),
    ("private key", Name::Telling),
    ("private-key", Name::Telling),
    ("auth_key", Name::Telling),
    ("authkey", Name::Telling),
    ("encryption_key", Name::Telling),
    ("encryptionkey", Name::Telling),
    ("signing_key", Name::Telling),
    ("master_key", Name::Telling),
    ("credential", Name::Telling),
    ("bearer", Name::Telling),
    ("_pat", Name::Telling),
    ("authorization", Name::Telling),
    ("key", Name::Hinting),
    ("auth", Name::Hinting),
    ("access", Name::Hinting),
    ("private", Name::Hinting),
    ("client_id", Name::Hinting),
    ("clientid", Name::Hinting),
    ("login", Name::Hinting),
    ("password", Name::Password),
    ("passwd", Name::Password),
    ("passphrase", Name::Password),
    ("pwd", Name::Password),
    ("_pass", Name::Password),
    ("dbpass", Name::Password),
    ("userpass", Name::Password),
    ("bindpw", Name::Password),
    ("requirepass", Name::Password),
    ("masterauth", Name::Password),
    ("psk=", Name::Password),
    ("_pw", Name::Password),
    ("-pass ", Name::Password),
    ("pass ", Name::Password),
    ("pass=", Name::Password),
    ("pass:", Name::Password),
    ("pass\"", Name::Password),
    ("pass'", Name::Password),
];

/// Values are looked for this far behind a name.
const FAR: usize = 72;
/// Longer runs of letters and digits are data.
const LONGEST: usize = 4096;
/// So much of a value is looked at.
const ENOUGH: usize = 256;

/// A long run of letters, digits and joints that was met before. Many names can stand in one, and it is measured once and
/// judged a few times only.
#[derive(Debug, Default)]
pub(super) struct Met {
    run: Range<usize>,
    judged: u32,
}

const JUDGED_MOST: u32 = 8;

/// What a name stands before, if that is a secret.
pub(super) fn value(text: &str, name: Range<usize>, kind: Name, met: &mut Met) -> Option<Range<usize>> {
    match kind {
        Name::Password => password(text, name),
        Name::Service if name.start > 0 && text.as_bytes()[name.start - 1].is_ascii_alphabetic() => None,
        // `_pat` is a token, `_path` is not.
        Name::Telling if text[name.clone()].starts_with('_') && follows_letter(text, name.end) => None,
        _ if ends_with_public(&text[..name.start]) => None,
        Name::Telling => token(text, name.clone(), kind, met).or_else(|| quoted_secret(text, name)),
        Name::Hinting | Name::Service => token(text, name, kind, met),
    }
}

fn follows_letter(text: &str, at: usize) -> bool {
    text.as_bytes().get(at).is_some_and(u8::is_ascii_alphabetic)
}

fn ends_with_public(before: &str) -> bool {
    before.len() >= 7 && before.as_bytes()[before.len() - 7..].eq_ignore_ascii_case(b"public ")
}

/// Names that speak of keys and tokens which are no secrets.
const NOT_SECRET: &[&str] = &[
    "public",
    "pubkey",
    "cache",
    "fingerprint",
    "commit",
    "checksum",
    "primary",
    "foreign",
    "sha1",
    "sha256",
    "md5",
    "etag",
    "digest",
    "csrf",
    "authenticity",
    "integrity",
    "hash",
    "translation",
    "i18n",
    "keyboard",
];

fn speaks_of_no_secret(words: &str) -> bool {
    let lower = words.to_ascii_lowercase();
    NOT_SECRET.iter().any(|word| lower.contains(word))
}

/// The part of an identifier that stands before a place.
fn identifier_before(text: &str, at: usize) -> &str {
    let bytes = text.as_bytes();
    let joined = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let mut from = at;
    while from > 0 && at - from < 48 && joined(bytes[from - 1]) {
        from -= 1;
    }
    &text[from..at]
}

/// The way from a name to what may be its value.
struct Way<'t> {
    text: &'t str,
    name: Range<usize>,
    kind: Name,
    /// An `=` or a `:` was passed.
    assigned: bool,
}

impl Way<'_> {
    /// Everything from the beginning of the name to a place.
    fn words(&self, to: usize) -> &str {
        &self.text[self.name.start - identifier_before(self.text, self.name.start).len()..to]
    }

    /// Is a secret what has to follow, and nothing else?
    fn is_sure(&self, to: usize) -> bool {
        let name = &self.text[self.name.clone()];
        match self.kind {
            Name::Telling | Name::Service | Name::Password => true,
            Name::Hinting => {
                let between = self.text[self.name.end..to].to_ascii_lowercase();
                let in_query = self.text[..self.name.start].ends_with(['?', '&']);
                let qualified = in_query || identifier_before(self.text, self.name.start).len() >= 3;
                qualified
                    || name.bytes().all(|byte| byte.is_ascii_uppercase())
                    || TOLD.iter().any(|told| between.contains(told))
            }
        }
    }

    /// `credentialsId`, `key_id`: the name of a secret and not the secret.
    fn is_of_id(&self) -> bool {
        let tail = self.text.as_bytes().get(self.name.end..).unwrap_or_default();
        let tail = tail.strip_prefix(b"s").unwrap_or(tail);
        let tail = tail.strip_prefix(b"_").unwrap_or(tail);
        tail.len() >= 2 && tail[..2].eq_ignore_ascii_case(b"id") && !tail.get(2).is_some_and(u8::is_ascii_alphabetic)
    }

    /// A service is named, and that its secret follows.
    fn is_told_of_service(&self, to: usize) -> bool {
        let between = self.text[self.name.end..to].to_ascii_lowercase();
        self.kind == Name::Service && TOLD.iter().any(|told| between.contains(told))
    }
}

const TOLD: &[&str] =
    &["key", "token", "secret", "pat", "api", "access", "private", "auth", "client", "credential", "pass", "bearer"];

/// The first thing behind a name that looks like chance.
fn token(text: &str, name: Range<usize>, kind: Name, met: &mut Met) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut way = Way { text, name, kind, assigned: false };
    let mut at = way.name.end;
    let far = at + FAR;
    let mut attached = true;
    for _ in 0..6 {
        let end = run(bytes, at, met);
        if end > at {
            let found = if attached { attached_value(&way, at..end, met) } else { plain_value(&way, at..end, met) };
            if found.is_some() {
                return found.filter(|span| !speaks_of_no_secret(way.words(span.start)));
            }
            let word = &text[at..end];
            if !is_word(word) || (kind == Name::Service && !attached && !TOLD.iter().any(|told| contains(word, told))) {
                return None;
            }
        }
        at = separators(bytes, end, &mut way.assigned).filter(|at| *at < far)?;
        attached = false;
    }
    None
}

fn contains(word: &str, part: &str) -> bool {
    word.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

/// The end of the letters, digits and joints that begin here, with the padding of base64.
fn run(bytes: &[u8], from: usize, met: &mut Met) -> usize {
    if met.run.contains(&from) {
        return met.run.end;
    }
    let mut end = from;
    while end < bytes.len() && is_token_byte(bytes[end]) {
        end += 1;
    }
    let mut padded = end;
    while padded < bytes.len() && padded - end < 3 && bytes[padded] == b'=' {
        padded += 1;
    }
    // An equals sign before a value is an assignment and no padding.
    if padded > end && end - from >= 16 && !bytes.get(padded).copied().is_some_and(is_token_byte) {
        end = padded;
    }
    if end - from > FAR {
        *met = Met { run: from..end, judged: 0 };
    }
    end
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'~')
}

/// Passes what stands between names and values: at least one, at most a dozen.
fn separators(bytes: &[u8], from: usize, assigned: &mut bool) -> Option<usize> {
    let mut at = from;
    let mut lines = 0;
    while at < bytes.len() && at - from < 16 {
        match bytes[at] {
            b'=' | b':' => *assigned = true,
            b'\n' => lines += 1,
            b' ' | b'\t' | b'\r' | b'"' | b'\'' | b'`' | b'\\' | b'>' | b',' | b'(' | b'[' | b']' | b'|' | b'{'
            | b'?' => {}
            _ => break,
        }
        at += 1;
    }
    (at > from && lines <= 2).then_some(at)
}

fn is_word(word: &str) -> bool {
    word.len() <= 32 && word.bytes().filter(u8::is_ascii_digit).count() <= 2
}

/// A value that stands on its own.
fn plain_value(way: &Way<'_>, span: Range<usize>, met: &mut Met) -> Option<Range<usize>> {
    let run = &way.text[span.clone()];
    if run.len() < SHORTEST || run.len() > LONGEST || run.ends_with("..") {
        return None;
    }
    if met.run.contains(&span.start) {
        met.judged += 1;
        if met.judged > JUDGED_MOST {
            return None;
        }
    }
    let value = run.trim_end_matches(['.', '-', '_', '/']);
    let span = span.start..span.start + value.len();
    // What is called, indexed, reached through a path or set to something itself is code.
    let (before, after) = (&way.text[..span.start], &way.text[span.end..]);
    let then = after.trim_start_matches(' ');
    let is_set = after.starts_with(' ') && then.starts_with('=');
    if is_set || then.starts_with(['(', '[']) || after.starts_with("::") || before.ends_with("::") {
        return None;
    }
    if value.len() < SHORTEST_NAME && value.contains('_') && !before.ends_with(['"', '\'', '`']) {
        return None;
    }
    looks_secret(value, way, span.start).then_some(span)
}

/// A value that a dash, a dot or an underscore joins to its name: the words at the front belong to the name.
fn attached_value(way: &Way<'_>, span: Range<usize>, met: &mut Met) -> Option<Range<usize>> {
    let joined = Way { name: way.name.clone(), assigned: true, ..*way };
    let mut from = span.start;
    for _ in 0..3 {
        let rest = &way.text[from..span.end];
        let joint = rest.as_bytes().iter().take(17).position(|byte| matches!(byte, b'-' | b'.' | b'_' | b'/'))?;
        let path = way.kind == Name::Service && rest.as_bytes()[joint] == b'/';
        if path
            || rest.len() - joint <= SHORTEST_JOINED
            || !rest[..joint].bytes().all(|byte| byte.is_ascii_alphabetic())
        {
            return None;
        }
        from += joint + 1;
        if let Some(found) = plain_value(&joined, from..span.end, met) {
            return Some(found);
        }
    }
    None
}

/// Without quotes around it, what is shorter and has an underscore is a name.
const SHORTEST_NAME: usize = 20;
/// The shortest value that is joined to its name.
const SHORTEST_JOINED: usize = 20;
/// The shortest value under any name.
const SHORTEST: usize = 11;

/// Does a value behind such a name look like a secret?
fn looks_secret(value: &str, way: &Way<'_>, at: usize) -> bool {
    let len = value.len();
    let mix = Mix::of(value.get(..ENOUGH).unwrap_or(value));
    if mix.digits == 0 && len < 20 {
        return false;
    }
    let sure = way.is_sure(at);
    let mixed = mix.digits > 3 && mix.letters() > 3;
    let shortest = match (sure, way.assigned) {
        _ if way.is_told_of_service(at) => SHORTEST,
        (true, true) if (mix.upper > 0 && mix.lower > 0 && mix.digits > 1) || mixed => SHORTEST,
        (true, true) => 13,
        (true, false) if mixed => 16,
        (true, false) => 20,
        (false, true) => 24,
        (false, false) => 28,
    };
    let value = value.get(..ENOUGH).unwrap_or(value);
    if len < shortest || shape::is_stand_in(value) {
        return false;
    }
    if shape::is_uuid(value) || is_grouped(value) {
        return sure && !way.is_of_id();
    }
    if mix.letters() == 0 {
        return sure && mix.others == 0 && len >= if way.kind == Name::Service { 16 } else { 24 };
    }
    if value.starts_with(['/', '.', '-', '+']) || value.contains("//") || value.contains("..") {
        return false;
    }
    if is_file(value) || is_host(value) || is_version(value) || is_date(value) || is_public_key(value) {
        return false;
    }
    if is_number(value) || is_named_for_algorithm(value) {
        return false;
    }
    if mix.others == 0 && value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return sure && (mix.digits > 0 || len >= 30) && shape::entropy(value) >= 2.5;
    }
    let wordy = shape::wordiness(value);
    if mix.digits == 0 {
        let longest = value.split(['_', '-', '.']).map(str::len).max().unwrap_or(0);
        return longest >= 20 && wordy < 0.5 && shape::entropy(value) >= 3.3;
    }
    if wordy > 0.6 && value.contains('.') {
        return false;
    }
    if mix.letters() >= 6 && mix.digits * 4 < mix.letters() && wordy > 0.72 {
        return false;
    }
    chance(value) * 2 > value.len() && shape::entropy(value) >= 2.8
}

/// Groups between dashes, as licence keys have them.
fn is_grouped(value: &str) -> bool {
    let groups = value.split('-').count();
    let fits = |group: &str| (3..=14).contains(&group.len()) && group.bytes().all(|byte| byte.is_ascii_alphanumeric());
    value.len() >= 28
        && (4..=8).contains(&groups)
        && value.split('-').all(fits)
        && value.split('-').filter(|group| Mix::of(group).digits > 0).count() >= 2
        && Mix::of(value).letters() >= 4
        && shape::wordiness(value) < 0.7
}

/// How many characters stand in parts that look like chance: digits among letters, or letters no word has.
fn chance(value: &str) -> usize {
    let parts = value.split(['_', '-', '.', '/', '+', '~']);
    let random = |part: &&str| {
        let mix = Mix::of(part);
        let mixed = mix.digits > 0 && mix.letters() > 0 && (mix.digits > 1 || mix.upper > 0);
        match part.len() {
            0..=3 => false,
            4..=9 => mixed || mix.letters() == 0,
            _ => mixed || shape::wordiness(part) < 0.45,
        }
    };
    parts.filter(random).map(|part| part.len() + 1).sum()
}

/// A name of a file or a host, by how it ends.
fn is_file(value: &str) -> bool {
    let Some((_, end)) = value.rsplit_once('.') else { return false };
    let ending = (2..=5).contains(&end.len()) && end.bytes().all(|byte| byte.is_ascii_lowercase());
    ending && (shape::wordiness(value) > 0.3 || FILES.contains(&end))
}

/// A host, by a part of its name that ends the names of hosts.
fn is_host(value: &str) -> bool {
    let name = value.split('/').next().unwrap_or_default();
    name.split('.').any(|part| matches!(part, "com" | "org" | "net" | "io" | "dev"))
}

/// A number as programs write it, with its type behind it.
fn is_number(value: &str) -> bool {
    let digits = value.trim_start_matches("0x").trim_end_matches(['u', 'i', 'l', 'L', 'U']);
    let (digits, kind) = digits.split_at(digits.find(['u', 'i', 'f', '_']).unwrap_or(digits.len()));
    let typed = ["", "u32", "u64", "i32", "i64", "_u32", "_u64", "_i32", "_i64", "f32", "f64", "usize"].contains(&kind);
    typed && digits.bytes().all(|byte| byte.is_ascii_digit() || (value.starts_with("0x") && byte.is_ascii_hexdigit()))
}

/// Names of algorithms and encodings have digits in them that mean nothing else.
const ALGORITHMS: &[&str] = &[
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha3",
    "ed25519",
    "x25519",
    "curve25519",
    "ed448",
    "x448",
    "poly1305",
    "chacha20",
    "prime256v1",
    "secp256k1",
    "secp256r1",
    "secp384r1",
    "secp521r1",
    "p256",
    "p384",
    "p521",
    "256r1",
    "384r1",
    "512r1",
    "aes128",
    "aes192",
    "aes256",
    "sse41",
    "avx2",
    "avx512",
    "md5",
    "rsa2048",
    "rsa4096",
    "x509",
    "base64",
    "base32",
    "utf8",
    "oauth2",
    "pkcs8",
    "pkcs12",
    "hs256",
    "rs256",
    "es256",
    "x86_64",
    "blake2",
];

/// Without what is the name of an algorithm there are hardly any digits in it.
fn is_named_for_algorithm(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let Some(first) = ALGORITHMS.iter().find(|name| lower.contains(*name)) else { return false };
    let rest = ALGORITHMS.iter().fold(lower.replace(first, ""), |rest, name| rest.replace(name, ""));
    value.len() <= 48 && rest.bytes().filter(u8::is_ascii_digit).count() <= 3
}

/// A day, and perhaps a time.
fn is_date(value: &str) -> bool {
    let shape = |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    value.len() >= 10 && value.bytes().take(10).enumerate().all(shape)
}

/// A public key as SSH writes it.
fn is_public_key(value: &str) -> bool {
    ["AAAAB3Nza", "AAAAC3Nza", "AAAAE2Vj", "AAAAGnNr"].iter().any(|start| value.starts_with(start))
}

/// Numbers between dots.
fn is_version(value: &str) -> bool {
    let number = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = value.split(['.', '-', '+', '~', '_']).take(12).collect();
    value.contains('.') && parts.windows(3).any(|three| three.iter().all(number))
}

const FILES: &[&str] = &[
    "com", "org", "net", "io", "html", "json", "js", "py", "md", "png", "jpg", "svg", "css", "ts", "rs", "go", "pem",
    "gz", "zip", "pdf", "php", "txt", "xml", "yml", "yaml", "gif", "tgz", "deb", "rpm", "jar", "whl",
];

/// People choose no longer ones.
const LONGEST_PASSWORD: usize = 128;

/// What a password is set to.
fn password(text: &str, name: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let name_end = name.end - usize::from(text[name.clone()].ends_with([' ', '=', ':', '"', '\'']));
    // The name may go on for a little.
    let mut at = name_end;
    while at < bytes.len() && at - name_end < 16 && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
        at += 1;
    }
    let tail = text[name_end..at].to_ascii_lowercase();
    if NOT_PASSWORD.iter().any(|end| tail.contains(end)) || OTHER_WORDS.iter().any(|end| tail.starts_with(end)) {
        return None;
    }
    let set = assignment(bytes, at)?;
    let value = assigned(text, &set)?;
    let before = identifier_before(text, name.start);
    let whole = Chosen {
        // Where a whole line is the assignment, as in a file of variables, a plain word is a password.
        variable: set.quote.is_none()
            && set.by == By::Equals
            && is_capital(before)
            && is_capital(&text[name.start..at])
            && ends_a_statement(text, &value),
        flag: before.starts_with('-'),
        user_beside: ends_a_statement(text, &value) && has_user_beside(text, name.start, &value),
        set,
    };
    (is_password(&text[value.clone()], &whole) && !speaks_of_no_secret(before)).then_some(value)
}

/// Names that go on like this are of something else.
const NOT_PASSWORD: &[&str] = &[
    "file", "path", "field", "reset", "policy", "hint", "hash", "length", "input", "prompt", "url", "_id", "type",
    "manager",
];

/// What makes other words of `pass`.
const OTHER_WORDS: &[&str] = &["ing", "ed", "es", "ive", "age", "port", "through", "enger", "ion"];

fn is_capital(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// How a value comes to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// `name = value`, `name => value`.
    Equals,
    /// `name: value`.
    Colon,
    /// `"name", "value"` in a call or a list, and `name("value")`.
    Call,
    /// `<name>value</name>`.
    Element,
    /// `name value`.
    Space,
}

/// Where a value begins, what quotes it and how it comes to its name.
#[derive(Debug, Clone, Copy)]
struct Set {
    at: usize,
    quote: Option<u8>,
    by: By,
}

/// The way from a name to what it is set to.
fn assignment(bytes: &[u8], from: usize) -> Option<Set> {
    let (mut at, mut by, mut quote, mut spaced) = (from, None, None, false);
    while at < bytes.len() && at - from < 24 {
        match bytes[at] {
            byte @ (b'=' | b':') if quote.is_none() || matches!(by, None | Some(By::Call)) => {
                by = by.filter(|by| *by != By::Call).or(Some(if byte == b'=' { By::Equals } else { By::Colon }));
                quote = None;
            }
            b'>' if matches!(by, Some(By::Equals | By::Colon)) => {}
            b'>' if at == from => by = Some(By::Element),
            byte @ (b'"' | b'\'' | b'`') if quote.is_none() || by.is_none() => quote = Some(byte),
            b' ' | b'\t' if by.is_none() || quote.is_none() => spaced = true,
            b'(' | b',' if by.is_none() => (by, quote) = (Some(By::Call), None),
            b'\\' | b']' | b')' if by.is_none() => {}
            b'\\' if bytes.get(at + 1).is_some_and(|next| matches!(next, b'"' | b'\'')) => {}
            // The attribute beside one that is the name.
            b'v' if by.is_none() && quote.is_some() && bytes[at..].starts_with(b"value=") => at += 4,
            _ => break,
        }
        at += 1;
    }
    let quote = quote.filter(|quote| at > from && bytes[at - 1] == *quote);
    let by = by.or((spaced && at > from).then_some(By::Space))?;
    (by != By::Call || quote.is_some()).then_some(Set { at, quote, by })
}

/// The value that begins where it was set.
fn assigned(text: &str, set: &Set) -> Option<Range<usize>> {
    let rest = &text[set.at..text.floor_char_boundary((set.at + LONGEST_PASSWORD + 2).min(text.len()))];
    let ends =
        |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '&' | ')' | '}' | ']' | '"' | '\'' | '<' | '`' | '|');
    let length = match (set.quote, set.by) {
        (Some(quote), _) => {
            let length = rest.find([char::from(quote), '\n'])?;
            Some(length).filter(|length| rest.as_bytes()[*length] == quote)?
        }
        (None, By::Element) => {
            let length = rest.find(['<', '\n'])?;
            Some(length).filter(|length| rest[*length..].starts_with("</"))?
        }
        (None, By::Space) => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        (None, _) => rest.find(ends).unwrap_or(rest.len()),
    };
    Some(set.at..set.at + rest[..length].trim_end_matches('\\').len())
}

/// Does nothing follow that belongs to the same expression? Between fields that have no space around the sign one ends them.
fn ends_a_statement(text: &str, value: &Range<usize>) -> bool {
    let ends = |c: char| matches!(c, '\n' | '\r' | ';' | '&' | '"' | '\'');
    let after = &text[value.end..];
    after.is_empty() || after.starts_with(ends) || (after.starts_with(' ') && text[..value.start].ends_with('='))
}

/// Is a name of a user set close by? Then a plain word beside it is a password.
fn has_user_beside(text: &str, name: usize, value: &Range<usize>) -> bool {
    let before = &text[text.floor_char_boundary(name.saturating_sub(120))..name];
    let after = &text[value.end..text.floor_char_boundary((value.end + 80).min(text.len()))];
    [before, after].iter().any(|near| {
        let near = near.to_ascii_lowercase();
        ["user", "login", "uid"].iter().any(|word| {
            near.match_indices(word).any(|(at, _)| {
                let rest = near[at + word.len()..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
                let rest = rest.trim_start_matches(['"', '\'', ' ', ']']);
                rest.starts_with(['=', ':']) || rest.starts_with("value=")
            })
        })
    })
}

/// What is known of a value that a person may have chosen.
struct Chosen {
    set: Set,
    variable: bool,
    flag: bool,
    user_beside: bool,
}

/// Words that stand where a password is spoken of.
const SAID: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "username",
    "string",
    "none",
    "null",
    "true",
    "false",
    "required",
    "optional",
    "hidden",
    "invalid",
    "incorrect",
    "test",
];

/// Could a person have chosen this?
fn is_password(value: &str, chosen: &Chosen) -> bool {
    let lower = value.to_ascii_lowercase();
    if !(5..=LONGEST_PASSWORD).contains(&value.chars().count())
        || shape::is_stand_in(value)
        || SAID.iter().any(|word| lower.contains(word))
    {
        return false;
    }
    if value.contains([' ', '(', '[', '{', '<'])
        || value.contains("://")
        || value.contains("=>")
        || value.starts_with(['.', '/', '-', '=', ':', ',', '|', '?'])
    {
        return false;
    }
    let mix = Mix::of(value);
    if mix.letters() == 0 {
        return false;
    }
    if chosen.variable {
        return true;
    }
    let signs = value
        .bytes()
        .filter(|byte| matches!(byte, b'!' | b'@' | b'#' | b'%' | b'^' | b'*' | b'?' | b'+' | b'$' | b'&'))
        .count();
    let odd = mix.digits > 0 || signs > 0;
    let wordy = shape::wordiness(value);
    let plain = odd && (mix.digits > 1 || mix.others > 0) && value.len() >= 6 && !value.contains('.') && wordy < 0.75;
    match (chosen.set.by, chosen.set.quote) {
        (By::Space | By::Call, Some(_)) => odd && wordy < 0.75,
        (By::Space, None) if chosen.flag => plain,
        // Between words of a sentence only what cannot be one.
        (By::Space, None) => {
            value.len() >= 8 && mix.digits > 0 && mix.lower > 0 && (signs > 0 || mix.upper > 0) && plain && wordy < 0.5
        }
        (_, Some(_)) | (By::Element, None) => odd || value.len() >= 8,
        (By::Equals | By::Colon | By::Call, None) => plain || (chosen.user_beside && mix.others == 0),
    }
}

/// What a telling name is set to between quotes, where it has signs that tokens do not have.
fn quoted_secret(text: &str, name: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = name.end;
    while at < bytes.len() && at - name.end < 16 && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
        at += 1;
    }
    let set = assignment(bytes, at).filter(|set| set.quote.is_some() && set.by != By::Space)?;
    let span = assigned(text, &set)?;
    let value = &text[span.clone()];
    let mix = Mix::of(value);
    let sign = |byte: u8| matches!(byte, b'!' | b'@' | b'#' | b'%' | b'^' | b'*' | b'?' | b'$' | b'&' | b'~');
    let fits = (8..=LONGEST_PASSWORD).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_graphic())
        && value.bytes().any(sign)
        && mix.digits > 0
        && mix.letters() > 2
        && !value.starts_with(['/', '.', '-', '#', '?', '&'])
        && !value.contains("://")
        && !value.contains(['(', '<', '{', '\\'])
        && shape::wordiness(value) < 0.6
        && !shape::is_stand_in(value)
        && !speaks_of_no_secret(identifier_before(text, name.start));
    fits.then_some(span)
}

/// The password in `scheme://user:password@host`, given where the `://` is.
pub(super) fn address_password(text: &str, colon: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let from = colon + 3;
    let (mut first_colon, mut last_at) = (None, None);
    let mut at = from;
    while at < bytes.len() && at - from < 300 {
        match bytes[at] {
            b':' if first_colon.is_none() && last_at.is_none() => first_colon = Some(at),
            b'@' => last_at = Some(at),
            b'/' | b'?' | b'#' | b'\\' if last_at.is_some() => break,
            b'/' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'(' | b')' | b'{' | b'[' | b',' | b' ' | b'\n' | b'\t'
            | b'\r' => break,
            _ => {}
        }
        at += 1;
    }
    let (start, end) = (first_colon? + 1, last_at?);
    let value = text.get(start..end)?;
    let masked = value.is_empty()
        || shape::is_stand_in(value)
        || ["password", "passwd", "pass", "pwd", "user", "token"].contains(&value.to_ascii_lowercase().as_str());
    let port = value.bytes().all(|byte| byte.is_ascii_digit()) && value.len() <= 5;
    (!masked && !port && value.len() >= 3 && !value.contains("xxx")).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::super::{find, rules::fill};

    /// What is found in a text, in which a blank stands for chance.
    fn check(text: &str, expected: &[&str]) {
        let text = fill(text);
        let found: Vec<&str> = find(&text).into_iter().map(|secret| &text[secret.span]).collect();
        assert_eq!(found, expected, "{text}");
    }

    /// One secret is found, the one that a blank stands for.
    fn check_one(text: &str) {
        let (before, after) = text.split_once('<').unwrap();
        let (_, after) = after.split_once('>').unwrap();
        let text = fill(text);
        let found: Vec<&str> = find(&text).into_iter().map(|secret| &text[secret.span]).collect();
        assert_eq!(found, [&text[before.len()..text.len() - after.len()]], "{text}");
    }

    #[test]
    fn what_a_telling_name_is_set_to_is_found() {
        check_one("ACME_TOKEN=<w32>");
        check_one("api_key: '<w24>'");
        check_one(r#"{"clientSecret": "<w40>", "port": 80}"#);
        check_one(r#"{\"apiKey\": \"<w40>\"}"#);
        check_one("curl 'https://example.com/?access_token=<h40>&page=2'");
        check_one("Authorization: Bearer <w40>");
        check_one("acme secret <h32>");
        check_one("acmeKEY-<h40>");
        check_one("trello <h32>");
        check_one("secret_key_base: <h64>");
        check_one("auth.token ?= \"<uuid>\"");
    }

    #[test]
    fn chance_is_hardly_ever_taken_for_words() {
        let kinds = ["w24", "w32", "w40", "h32", "h40", "l20", "l32", "U26", "b40", "s43", "A40", "uuid"];
        let missed: Vec<String> = kinds
            .iter()
            .flat_map(|kind| (0..500).map(move |n| fill(&format!("TOKEN=<{kind}>\nline={n}"))))
            .filter(|text| find(text).is_empty())
            .collect();
        assert!(missed.len() < 60, "{} of 6000, {missed:#?}", missed.len());
    }

    #[test]
    fn what_only_looks_like_it_is_not() {
        for text in [
            "the key is to keep it simple and the token is a word",
            "api_key = os.environ['API_KEY']",
            "token: ${{ secrets.GITHUB_TOKEN }}",
            "api_key: <your-api-key>",
            "secret = changeme_changeme_changeme",
            "TOKEN=xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "public_key = <h64>",
            "cache key: <h40>",
            "commit <h40>",
            "key = <h40>",
            "request id: <uuid>",
            "credentialsId: '<uuid>'",
            "key: customers/2024/internationalization.json",
            "tokenizer = AutoTokenizer.from_pretrained(model_name_or_path)",
            "secret-sharing-1.0.1.2",
            "last_login: 2026-03-10T14:22:01Z",
            "authorized_keys: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI<w40>",
            "password: string",
            "password = get_password()",
            "password: must have at least 8 characters",
            "\"password\": \"********\"",
            "PASSWORD=$PASSWORD",
            "https://example.com:8080/a@b",
            "https://user:****@example.com/",
            "postgres://user:${PASSWORD}@db/shop",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn passwords_that_people_choose_are_found() {
        check("password = 'hunter2!'", &["hunter2!"]);
        check("DB_PASSWORD=whiteduke", &["whiteduke"]);
        check("\"password\": \"super$ecure\",", &["super$ecure"]);
        check("mysql.pwd: Zx81spec9", &["Zx81spec9"]);
    }

    #[test]
    fn a_password_is_found_however_it_is_set() {
        for text in [
            "<password>Tr0ub4dor!3</password>",
            "<add key=\"DbPassword\" value=\"Tr0ub4dor!3\"/>",
            "<property name='password' value='Tr0ub4dor!3' />",
            "ENV MYSQL_ROOT_PASSWORD Tr0ub4dor!3",
            "psql --password Tr0ub4dor!3 -h db",
            "tool --db-pass Tr0ub4dor!3",
            "requirepass Tr0ub4dor!3",
            "bindpw Tr0ub4dor!3",
            "psk=\"Tr0ub4dor!3\"",
            "password \"Tr0ub4dor!3\"",
            "user.setPassword(\"Tr0ub4dor!3\")",
            "config['db_password'] = 'Tr0ub4dor!3'",
            "ALTER USER bob WITH PASSWORD 'Tr0ub4dor!3'",
            "define('DB_PASSWORD', 'Tr0ub4dor!3');",
            "api_key = \"Tr0ub4dor!3\"",
            "jdbc:sqlserver://h:1433;user=sa;password=Tr0ub4dor!3",
        ] {
            check(text, &["Tr0ub4dor!3"]);
        }
        check("username: bob\npassword: correcthorse\n", &["correcthorse"]);
        check("user=bob password=correcthorse host=db", &["correcthorse"]);
        check_one("config['api_key'] = '<w24>'");
        check_one("https://example.com/?key=<w24>");
    }

    #[test]
    fn what_is_said_of_passwords_and_keys_is_none() {
        for text in [
            "<label>Password</label>",
            "the password \"field\" is empty and the password 'hint' is not",
            "Enter your password twice, then press Return.",
            "username: String,\n    password: Option<String>,",
            "login(user=user, password=chosen)",
            "password policy: at least 8 characters",
            "--password-file /run/secrets/db",
            "the secret: \"what's up?\"",
            "EC_KEY_new_by_curve_name(NID_X9_62_prime256v1)",
            "KemAlg::X25519HkdfSha256",
            "CRYPT_KEY_SPEC: u32 = 4294967295u32",
            "KEY_MAGIC = 0x8009210F_u32",
            "psk=${WIFI}",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn the_password_in_an_address_is_found() {
        check("postgres://shop:s2Tf2k@rLMy@db.example.com:5432/x", &["s2Tf2k@rLMy"]);
        check("amqps://admin:3eCa3P@192.0.2.10:5671/vhost", &["3eCa3P"]);
        check("redis://:p4ssw0rdish@cache:6379", &["p4ssw0rdish"]);
    }
}
