//! Host names, in the one spelling in which they are compared, asked for and dialled.

use std::fmt;

/// The longest name, without its trailing dot.
const MAX_NAME: usize = 253;
/// The longest label.
const MAX_LABEL: usize = 63;

/// A host name: lower-case labels of letters, digits, hyphens and underscores.
///
/// One trailing dot is dropped and capitals are lowered. Everything else that is not already such a name is refused
/// and not repaired, so that the name that was judged and the name that is looked up cannot be two names. What an old
/// resolver would read as an address (`127.1`, `0x7f.1`, `2130706433`) is refused too. Other scripts come in their
/// ASCII form (`xn--...`) or not at all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// The name this text spells.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(BadName::Empty);
        }
        if text.len() > MAX_NAME {
            return Err(BadName::TooLong);
        }
        text.split('.').try_for_each(check_label)?;
        let name = text.to_ascii_lowercase();
        match name.rsplit('.').next() {
            Some(last) if is_number(last) => Err(BadName::LooksLikeAddress),
            _ => Ok(Self(name)),
        }
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its labels, the most specific first.
    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('.')
    }

    /// Is it `above` with one label or more in front?
    pub fn is_under(&self, above: &Self) -> bool {
        let mut own = self.labels().rev();
        above.labels().rev().all(|label| own.next() == Some(label)) && own.next().is_some()
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is no host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Nothing there.
    #[error("it is empty")]
    Empty,
    /// Longer than a name can be.
    #[error("it is longer than {MAX_NAME} characters")]
    TooLong,
    /// Two dots in a row, or one in front.
    #[error("a part between two dots is empty")]
    EmptyLabel,
    /// A part is longer than it can be.
    #[error("a part between two dots is longer than {MAX_LABEL} characters")]
    LongLabel,
    /// A character that no host name has.
    #[error("host names have only letters, digits, hyphens and underscores between their dots")]
    BadCharacter,
    /// A hyphen in front or at the end.
    #[error("a part begins or ends with a hyphen")]
    EdgeHyphen,
    /// Some resolver would take it for an address.
    #[error("it reads as an address in an unusual spelling")]
    LooksLikeAddress,
}

fn check_label(label: &str) -> Result<(), BadName> {
    if label.is_empty() {
        return Err(BadName::EmptyLabel);
    }
    if !label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
        return Err(BadName::BadCharacter);
    }
    if label.len() > MAX_LABEL {
        return Err(BadName::LongLabel);
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(BadName::EdgeHyphen);
    }
    Ok(())
}

/// Every spelling of an address that `inet_aton` or a browser takes ends in a decimal, octal or hexadecimal number,
/// and no top-level domain is one.
fn is_number(label: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
    label.bytes().all(|b| b.is_ascii_digit()) || label.strip_prefix("0x").is_some_and(is_hex)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, BadName>) {
        assert_eq!(HostName::parse(text).as_ref().map(HostName::as_str).map_err(|bad| *bad), expected, "{text:?}");
    }

    #[test]
    fn names_are_lowered_and_lose_one_trailing_dot() {
        check("example.com", Ok("example.com"));
        check("EXAMPLE.Com.", Ok("example.com"));
        check("localhost", Ok("localhost"));
        check("a-1.b2.xn--bcher-kva.example", Ok("a-1.b2.xn--bcher-kva.example"));
        check("3com.com", Ok("3com.com"));
        check("My_Bucket.example.com", Ok("my_bucket.example.com"));
        check("0xcafe.example", Ok("0xcafe.example"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        check("", Err(BadName::Empty));
        check(".", Err(BadName::Empty));
        check("example.com..", Err(BadName::EmptyLabel));
        check(".example.com", Err(BadName::EmptyLabel));
        check("a..b", Err(BadName::EmptyLabel));
        check("-a.com", Err(BadName::EdgeHyphen));
        check("a-.com", Err(BadName::EdgeHyphen));
        for bad in [
            "evil.com\0.allowed.com",
            "allowed.com\r\nHost: evil.com",
            "allowed.com@evil.com",
            "allowed.com#.evil.com",
            "allowed.com/evil",
            "allowed%2ecom",
            "a b.com",
            "*.example.com",
            "b\u{fc}cher.example",
            "\u{ff45}xample.com",
            "example\u{3002}com",
            "[::1]",
            "::1",
            "fe80::1%lo",
            "::ffff:127.0.0.1",
        ] {
            check(bad, Err(BadName::BadCharacter));
        }
    }

    #[test]
    fn every_spelling_of_an_address_is_refused() {
        for address in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "0177.0.0.1",
            "0x7f.1",
            "0x7f000001",
            "0X7F000001",
            "2130706433",
            "017700000001",
            "1.0x",
            "example.1",
            "999.999.999.999",
        ] {
            check(address, Err(BadName::LooksLikeAddress));
        }
    }

    #[test]
    fn lengths_are_bounded() {
        let label = "a".repeat(63);
        let longest = [&label[..], &label, &label, &label[..61]].join(".");
        check(&longest, Ok(&longest));
        check(&format!("{longest}."), Ok(&longest));
        check(&format!("{longest}b"), Err(BadName::TooLong));
        check(&format!("a{label}.com"), Err(BadName::LongLabel));
    }

    #[test]
    fn under_is_by_labels_and_never_by_text() {
        let under = |name: &str, above: &str| HostName::parse(name).unwrap().is_under(&HostName::parse(above).unwrap());
        assert!(under("a.example.com", "example.com"));
        assert!(under("a.b.example.com", "example.com"));
        assert!(!under("example.com", "example.com"));
        assert!(!under("evilexample.com", "example.com"));
        assert!(!under("example.com.evil.net", "example.com"));
        assert!(!under("com", "example.com"));
    }

    proptest! {
        #[test]
        fn a_parsed_name_parses_to_itself(text in "[a-zA-Z0-9.x-]{0,80}") {
            if let Ok(name) = HostName::parse(&text) {
                prop_assert_eq!(HostName::parse(name.as_str()), Ok(name.clone()));
                prop_assert!(name.as_str().parse::<std::net::IpAddr>().is_err());
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,300}") {
            let _ = HostName::parse(&text);
        }
    }
}
