//! What a pattern cannot say: checksums, things that must decode, and words that must stand nearby.

use std::ops::Range;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::shape;

/// Is what stands at this place of the text the secret the pattern takes it for?
pub(super) type Check = fn(&str, Range<usize>) -> bool;

/// With the right checksum a token is one whatever it looks like; without, it has to look like chance.
pub(super) fn github(text: &str, span: Range<usize>) -> bool {
    let token = &text[span];
    let checked = token.len() == 40 && github_checksum(&token[4..34]) == token[34..];
    checked || shape::entropy(token) >= 3.5
}

/// The six digits at the end of a GitHub token: the CRC-32 of the thirty before them, in base 62.
pub(super) fn github_checksum(random: &str) -> String {
    let mut left = crc32(random.as_bytes());
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[(left % 62) as usize];
        left /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// The head is base64 of an object that names an algorithm or a type.
pub(super) fn jwt(text: &str, span: Range<usize>) -> bool {
    let head = text[span].split('.').next().unwrap_or_default();
    decoded(head).is_some_and(|head| is_jwt_head(&head))
}

/// Base64 of a text that begins like a token.
pub(super) fn jwt_in_base64(text: &str, span: Range<usize>) -> bool {
    let Some(inner) = decoded(&text[span]) else { return false };
    let head = inner.split(|byte| *byte == b'.').next().unwrap_or_default();
    str::from_utf8(head).ok().and_then(decoded).is_some_and(|head| is_jwt_head(&head))
}

fn is_jwt_head(head: &[u8]) -> bool {
    let has = |name: &[u8]| head.windows(name.len()).any(|window| window == name);
    head.starts_with(b"{") && (has(b"\"alg\"") || has(b"\"typ\"") || has(b"\"enc\"") || has(b"\"kid\""))
}

/// The last part is the secret one, and it is not left out.
pub(super) fn slack(text: &str, span: Range<usize>) -> bool {
    let last = text[span.clone()].rsplit('-').next().unwrap_or_default();
    last.bytes().any(|byte| byte.is_ascii_alphabetic()) && text.as_bytes().get(span.end) != Some(&b'-')
}

/// What comes after the prefix is no name from a program.
pub(super) fn no_words(text: &str, span: Range<usize>) -> bool {
    let token = &text[span];
    let mix = shape::Mix::of(token);
    (mix.upper > 0 || mix.digits > 0) && shape::wordiness(token) < 0.72
}

/// Base64 of a name, a colon and a password.
pub(super) fn user_and_password(text: &str, span: Range<usize>) -> bool {
    let Some(pair) = decoded(&text[span]) else { return false };
    let Ok(pair) = str::from_utf8(&pair) else { return false };
    pair.split_once(':').is_some_and(|(user, password)| {
        let shortest = if user.is_empty() { 4 } else { 1 };
        password.len() >= shortest && !pair.chars().any(char::is_control)
    })
}

/// The lines between the marks are base64, and more than an example would have.
pub(super) fn pem(text: &str, span: Range<usize>) -> bool {
    let body = text[span].split("-----").nth(2).unwrap_or_default();
    let digits = body.bytes().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')).count();
    digits >= 48 && !body.contains("...") && shape::entropy(body) > 3.5
}

/// Base64 of a private key, not of a certificate.
pub(super) fn base64_private(text: &str, span: Range<usize>) -> bool {
    let digits = &text[span];
    let head = digits.get(..digits.len().min(80) / 4 * 4).unwrap_or_default();
    decoded(head).is_some_and(|head| head.windows(11).any(|window| window == b"PRIVATE KEY"))
}

/// A signature is a secret where the rest of a shared access address stands before it.
pub(super) fn sas(text: &str, span: Range<usize>) -> bool {
    let before = before(text, span.start, 400);
    ["sv=", "se=", "skoid="].iter().any(|part| before.contains(part))
}

/// The word before tells a key of Mailgun from the name of a file or a row.
pub(super) fn mailgun(text: &str, span: Range<usize>) -> bool {
    !before(text, span.start, 1).ends_with(['/', '.', '_', '-', '#'])
}

/// `-u` means a name and a password to curl.
pub(super) fn curl(text: &str, span: Range<usize>) -> bool {
    let line = before(text, span.start, 400);
    line.contains("curl") && password(text, span)
}

/// A password that is none: a reference, a stand-in, or the word itself.
pub(super) fn password(text: &str, span: Range<usize>) -> bool {
    let value = &text[span];
    let lower = value.to_ascii_lowercase();
    let said = ["password", "passwd", "pass", "secret", "pwd", "token", "key", "none", "null", "true", "false"];
    !said.contains(&lower.as_str()) && !value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// A connection string names a server or a user beside the password.
pub(super) fn connection_string(text: &str, span: Range<usize>) -> bool {
    let from = floor(text, span.start.saturating_sub(300));
    let to = floor(text, (span.end + 200).min(text.len()));
    let around = text[from..to].to_ascii_lowercase();
    let named = [
        "server=",
        "data source=",
        "host=",
        "hostname=",
        "driver=",
        "uid=",
        "user id=",
        "user=",
        "database=",
        "provider=",
        "username=",
        "dsn=",
    ];
    // Beside those even a plain word is what opens the door.
    named.iter().any(|name| around.contains(name)) && !shape::is_reference(&text[span])
}

/// The end of the text before a place.
fn before(text: &str, at: usize, most: usize) -> &str {
    &text[floor(text, at.saturating_sub(most))..at]
}

fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);

/// The bytes of base64 in either alphabet, with or without padding.
fn decoded(digits: &str) -> Option<Vec<u8>> {
    let alphabet = if digits.contains(['-', '_']) { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    GeneralPurpose::new(alphabet, LENIENT).decode(digits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(github_checksum("000000000000000000000000000000").len(), 6);
    }
}
