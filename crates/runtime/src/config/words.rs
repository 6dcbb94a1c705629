//! Small spellings: hosts, sizes, time spans, shares of a processor.

use std::time::Duration;

/// Does a host need a port?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    /// Without one, every port is meant.
    Optional,
    /// It must be there.
    Required,
}

/// A host name or IPv4 address, in lower case, with its port.
///
/// Names are compared as a whole, so there are no wildcards, and IPv6 addresses are left out: their colons would
/// read as ports.
pub(super) fn parse_host(text: &str, port: Port) -> Result<String, (String, String)> {
    let example = match port {
        Port::Optional => "Write a host such as `api.example.com` or `api.example.com:443`.",
        Port::Required => "Write host and port, such as `api.example.com:443`.",
    };
    let wrong = |why: &str| Err((format!("`{text}` {why}"), example.to_owned()));
    if text.contains("://") || text.contains('/') {
        return wrong("is a URL, not a host");
    }
    if text.contains('*') {
        return wrong("has a wildcard, and hosts are compared as a whole");
    }
    let (host, given) = match text.split_once(':') {
        None => (text, None),
        Some((host, number)) => (host, Some(number)),
    };
    if !is_host(host) {
        return wrong("is not a host name or IPv4 address");
    }
    match (given, port) {
        (None, Port::Required) => wrong("names no port"),
        (None, Port::Optional) => Ok(host.to_ascii_lowercase()),
        (Some(number), _) if is_port(number) => Ok(format!("{}:{number}", host.to_ascii_lowercase())),
        (Some(_), _) => wrong("has no port from 1 to 65535"),
    }
}

fn is_port(text: &str) -> bool {
    // One spelling a port: `+443` and `0443` parse as numbers too, and would never match.
    text.parse::<u16>().is_ok_and(|port| port > 0 && port.to_string() == text)
}

fn is_host(text: &str) -> bool {
    let label = |part: &str| {
        (1..=63).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Bytes, as containers spell them: `512m`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let shift = match unit.to_ascii_lowercase() {
        'b' => 0,
        'k' => 10,
        'm' => 20,
        'g' => 30,
        _ => return None,
    };
    whole(&text[..text.len() - 1])?.checked_mul(1 << shift)
}

/// Bytes, as Kubernetes spells them: `256Mi`.
pub(super) fn parse_quantity(text: &str) -> Option<u64> {
    let units: [(&str, u64); 8] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("", 1),
    ];
    let (number, unit) = units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)))?;
    whole(number)?.checked_mul(*unit)
}

/// Thousandths of a processor, as Kubernetes spells them: `250m`, `1`, `0.5`.
pub(super) fn parse_millicores(text: &str) -> Option<u64> {
    match text.strip_suffix('m') {
        Some(number) => whole(number),
        None => parse_processors(text).map(|share| (share * 1_000.0).round() as u64),
    }
}

/// Processors, as containers spell them: `1.0`.
pub(super) fn parse_processors(text: &str) -> Option<f64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse::<f64>().ok().filter(|share| digits && share.is_finite() && *share > 0.0)
}

/// A time span: `90s`, `15m`, `4h`, `2d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return None,
    };
    // A century is for ever.
    let most = 100 * 365 * 24 * 3600;
    whole(&text[..text.len() - 1])?.checked_mul(seconds).filter(|all| *all <= most).map(Duration::from_secs)
}

/// Digits and nothing else, more than zero.
fn whole(digits: &str) -> Option<u64> {
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let check = |text: &str, port: Port, expected: Result<&str, &str>| match (parse_host(text, port), expected) {
            (Ok(host), Ok(expected)) => assert_eq!(host, expected),
            (Err((message, _)), Err(expected)) => assert!(message.contains(expected), "{message}"),
            (given, expected) => panic!("{text}: {given:?}, not {expected:?}"),
        };
        check("API.example.com", Port::Optional, Ok("api.example.com"));
        check("db.internal:5432", Port::Required, Ok("db.internal:5432"));
        check("10.0.0.1:80", Port::Required, Ok("10.0.0.1:80"));
        check("api.example.com", Port::Required, Err("names no port"));
        for bad in ["a:0", "a:65536", "a:+443", "a:0443", "a:", "a:b", "a:1:2"] {
            check(bad, Port::Optional, Err("no port from 1"));
        }
        check("https://a", Port::Optional, Err("is a URL"));
        check("a/b", Port::Optional, Err("is a URL"));
        check("*.example.com", Port::Optional, Err("wildcard"));
        for bad in ["", "a..b", "-a", "a-", "a b", "ä.de", ".", "a.", "[::1]:80"] {
            check(bad, Port::Optional, Err("is not a host name"));
        }
    }

    #[test]
    fn sizes() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(parse_size(text), expected, "{text}");
        check("512m", Some(512 << 20));
        check("1G", Some(1 << 30));
        check("64k", Some(64 << 10));
        check("100b", Some(100));
        for bad in [
            "",
            "m",
            "512",
            "512mb",
            "0m",
            "-1m",
            "+1m",
            "1.5g",
            "99999999999999999999g",
            "18446744073709551615g",
            "5ä",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn quantities() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(parse_quantity(text), expected, "{text}");
        check("256Mi", Some(256 << 20));
        check("1Gi", Some(1 << 30));
        check("500M", Some(500_000_000));
        check("1024", Some(1024));
        for bad in ["", "Mi", "256MiB", "256 Mi", "0", "-1Gi", "lots"] {
            check(bad, None);
        }
    }

    #[test]
    fn processors() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(parse_millicores(text), expected, "{text}");
        check("250m", Some(250));
        check("1", Some(1_000));
        check("0.5", Some(500));
        for bad in ["", "m", "0", "0m", "-1", "1e3", "inf", "NaN", "1.5m"] {
            check(bad, None);
        }
    }
}
