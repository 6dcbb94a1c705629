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
        _ => token(text, name, kind, met),
    }
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
                let qualified = identifier_before(self.text, self.name.start).len() >= 3;
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
            b' ' | b'\t' | b'\r' | b'"' | b'\'' | b'`' | b'\\' | b'>' | b',' | b'(' | b'[' | b'|' | b'{' | b'?' => {}
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
    // What is called or indexed is code.
    if matches!(way.text.as_bytes().get(span.end), Some(b'(' | b'[')) {
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
        if !rest[..joint].bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return None;
        }
        from += joint + 1;
        if let Some(found) = plain_value(&joined, from..span.end, met) {
            return Some(found);
        }
    }
    None
}

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
    let shortest = match (sure, way.assigned) {
        _ if way.is_told_of_service(at) => SHORTEST,
        (true, true) if mix.upper > 0 && mix.lower > 0 && mix.digits > 1 => SHORTEST,
        (true, true) => 13,
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
    let rest = &text[name.end - usize::from(text[name.clone()].ends_with([' ', '=', ':', '"', '\'']))..];
    let name_end = text.len() - rest.len();
    // The name may go on for a little.
    let mut at = name_end;
    while at < bytes.len() && at - name_end < 16 && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
        at += 1;
    }
    let tail = text[name_end..at].to_ascii_lowercase();
    if [
        "file", "path", "field", "reset", "policy", "hint", "hash", "length", "input", "prompt", "url", "_id", "type",
        "manager",
    ]
    .iter()
    .any(|end| tail.contains(end))
    {
        return None;
    }
    let (start, quote, colon) = assignment(bytes, at)?;
    let rest = &text[start..text.floor_char_boundary((start + LONGEST_PASSWORD + 2).min(text.len()))];
    let ends =
        |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '&' | ')' | '}' | ']' | '"' | '\'' | '<' | '`' | '|');
    let end = match quote {
        Some(quote) => start + rest.find([char::from(quote), '\n'])?,
        None => start + rest.find(ends).unwrap_or(rest.len()),
    };
    if quote.is_some_and(|quote| bytes.get(end) != Some(&quote)) {
        return None;
    }
    let value = text[start..end].trim_end_matches('\\');
    let end = start + value.len();
    // Where a whole line is the assignment, as in a file of variables, a plain word is a password.
    let variable =
        quote.is_none() && !colon && is_capital(identifier_before(text, name.end)) && is_capital(&text[name.start..at]);
    (is_password(value, quote.is_some(), variable) && !speaks_of_no_secret(identifier_before(text, name.start)))
        .then_some(start..end)
}

fn is_capital(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Where the value of an assignment begins, what quotes it, and whether a colon assigns it.
fn assignment(bytes: &[u8], from: usize) -> Option<(usize, Option<u8>, bool)> {
    let mut at = from;
    let mut sign = None;
    let mut quote = None;
    while at < bytes.len() && at - from < 24 {
        match bytes[at] {
            byte @ (b'=' | b':') if quote.is_none() || sign.is_none() => {
                sign = Some(sign.unwrap_or(byte));
                quote = None;
            }
            b'>' if sign.is_some() => {}
            byte @ (b'"' | b'\'' | b'`') if quote.is_none() || sign.is_none() => quote = Some(byte),
            b' ' | b'\t' if sign.is_none() || quote.is_none() => {}
            b'\\' | b']' | b')' | b',' if sign.is_none() => {
                if bytes[at] == b',' {
                    sign = Some(b',');
                }
            }
            b'\\' if bytes.get(at + 1).is_some_and(|next| matches!(next, b'"' | b'\'')) => {}
            _ => break,
        }
        at += 1;
    }
    // A comma assigns only between quotes, as in a call.
    sign.filter(|sign| *sign != b',' || quote.is_some()).map(|sign| (at, quote, sign == b':'))
}

/// Could a person have chosen this?
fn is_password(value: &str, quoted: bool, variable: bool) -> bool {
    let lower = value.to_ascii_lowercase();
    let said = [
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
    if !(5..=LONGEST_PASSWORD).contains(&value.chars().count())
        || shape::is_stand_in(value)
        || said.iter().any(|word| lower.contains(word))
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
    if variable && mix.letters() > 0 {
        return true;
    }
    if mix.letters() == 0 {
        return false;
    }
    let odd = mix.digits > 0
        || value
            .bytes()
            .any(|byte| matches!(byte, b'!' | b'@' | b'#' | b'%' | b'^' | b'*' | b'?' | b'+' | b'$' | b'&'));
    match quoted {
        true => odd || value.len() >= 8,
        false => {
            odd && (mix.digits > 1 || mix.others > 0)
                && value.len() >= 6
                && !value.contains('.')
                && shape::wordiness(value) < 0.75
        }
    }
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
    fn the_password_in_an_address_is_found() {
        check("postgres://shop:s2Tf2k@rLMy@db.example.com:5432/x", &["s2Tf2k@rLMy"]);
        check("amqps://admin:3eCa3P@192.0.2.10:5671/vhost", &["3eCa3P"]);
        check("redis://:p4ssw0rdish@cache:6379", &["p4ssw0rdish"]);
    }
}
