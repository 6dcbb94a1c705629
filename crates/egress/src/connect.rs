//! The second door: HTTP CONNECT, for programs that know about proxies.

use toolgate_guard::{host_entry::read_port, host_name::HostName};

use crate::{
    event::Reason,
    target::{Host, Target},
};

/// The longest head of a request.
pub(crate) const MAX_HEAD: usize = 8 * 1024;

/// A request, and how many bytes of what was said it takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) target: Target,
    pub(crate) length: usize,
}

/// What is wrong with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It is no request at all.
    Malformed,
    /// It asks for something else than a connection.
    Method,
    /// What it asks for is no host and port.
    Authority(String),
}

/// How much of what is no host is told.
const SHOWN: usize = 100;

/// Reads the head of a request. `None`: more has to come.
pub(crate) fn read(said: &[u8]) -> Result<Option<Request>, Wrong> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(end) = said.windows(END.len()).position(|four| four == END) else {
        return if said.len() < MAX_HEAD { Ok(None) } else { Err(Wrong::Malformed) };
    };
    let head = std::str::from_utf8(&said[..end]).map_err(|_| Wrong::Malformed)?;
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default();
    if head.len() > MAX_HEAD || !lines.all(is_header) {
        return Err(Wrong::Malformed);
    }
    let target = match line.split(' ').collect::<Vec<_>>()[..] {
        ["CONNECT", authority, "HTTP/1.1" | "HTTP/1.0"] => read_authority(authority)?,
        [_, _, "HTTP/1.1" | "HTTP/1.0"] => return Err(Wrong::Method),
        _ => return Err(Wrong::Malformed),
    };
    Ok(Some(Request { target, length: end + END.len() }))
}

/// The same judge as for a connection that was caught: a name is a [`HostName`] or nothing, and only the plain spelling of
/// an address is one.
fn read_authority(authority: &str) -> Result<Target, Wrong> {
    let target = || {
        let (host, port) = authority.rsplit_once(':')?;
        let port = read_port(port)?;
        let host = match host.parse() {
            Ok(address) => Host::Address(address),
            Err(_) => Host::Name(HostName::parse(host).ok()?),
        };
        Some(Target { host, port })
    };
    target().ok_or_else(|| Wrong::Authority(authority.chars().take(SHOWN).flat_map(char::escape_debug).collect()))
}

fn is_header(line: &str) -> bool {
    let is_clean = |b: u8| b == b'\t' || (b' '..0x7f).contains(&b);
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
    line.bytes().all(is_clean) && line.split_once(':').is_some_and(|(name, _)| is_name(name))
}

/// The answer to somebody who is let through.
pub(crate) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// The answer to somebody who is not, with the reason for a person to read.
pub(crate) fn refusal(reason: Reason) -> Vec<u8> {
    let status = match reason {
        Reason::BadRequest => "400 Bad Request",
        Reason::TooSlow => "408 Request Timeout",
        Reason::ResolveFailed | Reason::DialFailed => "502 Bad Gateway",
        Reason::TooMany => "503 Service Unavailable",
        _ => "403 Forbidden",
    };
    say(status, &format!("{}: {reason}\n", reason.as_str()))
}

/// The answer to somebody who sent the request itself and not the wish for a connection.
pub(crate) fn wrong_method() -> Vec<u8> {
    say("405 Method Not Allowed", "bad_request: only CONNECT is taken here; plain HTTP goes to its host directly\n")
}

fn say(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(said: &str, expected: Result<Option<(&str, u16)>, Wrong>) {
        let got = read(said.as_bytes()).map(|request| {
            request.map(|request| {
                assert_eq!(request.length, said.find("\r\n\r\n").unwrap() + 4);
                (request.target.host.to_string(), request.target.port)
            })
        });
        assert_eq!(got, expected.map(|target| target.map(|(host, port)| (host.to_owned(), port))), "{said:?}");
    }

    #[test]
    fn requests_are_read() {
        check("CONNECT example.com:443 HTTP/1.1\r\n\r\n", Ok(Some(("example.com", 443))));
        check("CONNECT Example.COM.:443 HTTP/1.0\r\nHost: whatever\r\nA:\r\n\r\nrest", Ok(Some(("example.com", 443))));
        check("CONNECT 10.0.0.1:80 HTTP/1.1\r\n\r\n", Ok(Some(("10.0.0.1", 80))));
        check("CONNECT example.com:443 HTTP/1.1\r\n", Ok(None));
        check("", Ok(None));
    }

    #[test]
    fn what_is_no_host_and_port_is_told_back_escaped() {
        for (authority, shown) in [
            ("example.com", "example.com"),
            ("example.com:", "example.com:"),
            ("example.com:0", "example.com:0"),
            ("example.com:+443", "example.com:+443"),
            ("example.com:99999", "example.com:99999"),
            ("evil.com\0.allowed.com:443", "evil.com\\0.allowed.com:443"),
            ("allowed.com%00.evil.com:443", "allowed.com%00.evil.com:443"),
            ("allowed.com@evil.com:443", "allowed.com@evil.com:443"),
            ("allowed.com#.evil.com:443", "allowed.com#.evil.com:443"),
            ("0x7f000001:80", "0x7f000001:80"),
            ("2130706433:80", "2130706433:80"),
            ("127.1:80", "127.1:80"),
            ("0177.0.0.1:80", "0177.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80"),
            ("::1:80", "::1:80"),
            ("*.allowed.com:443", "*.allowed.com:443"),
        ] {
            check(&format!("CONNECT {authority} HTTP/1.1\r\n\r\n"), Err(Wrong::Authority(shown.into())));
        }
        let long = format!("{}:443", "a".repeat(300));
        check(&format!("CONNECT {long} HTTP/1.1\r\n\r\n"), Err(Wrong::Authority(long[..SHOWN].into())));
    }

    #[test]
    fn anything_else_is_no_request() {
        check("GET http://example.com/ HTTP/1.1\r\n\r\n", Err(Wrong::Method));
        check("connect example.com:443 HTTP/1.1\r\n\r\n", Err(Wrong::Method));
        for said in [
            "CONNECT  example.com:443 HTTP/1.1\r\n\r\n",
            "CONNECT example.com:443\r\n\r\n",
            "CONNECT example.com:443 HTTP/2.0\r\n\r\n",
            "CONNECT example.com:443 HTTP/1.1 \r\n\r\n",
            "CONNECT\texample.com:443\tHTTP/1.1\r\n\r\n",
            "CONNECT allowed.com:443 HTTP/1.1\nHost: x\r\n\r\n",
            "CONNECT allowed.com\r\n.evil.com:443 HTTP/1.1\r\n\r\n",
            "CONNECT allowed.com:443 HTTP/1.1\r\nno header\r\n\r\n",
            "CONNECT allowed.com:443 HTTP/1.1\r\n folded: x\r\n\r\n",
            "CONNECT allowed.com:443 HTTP/1.1\r\na: b\0\r\n\r\n",
            "CONNECT allowed.com:443 HTTP/1.1\r\na: b\nc: d\r\n\r\n",
            "\r\n\r\n",
            "\x16\x03\x01\r\n\r\n",
        ] {
            check(said, Err(Wrong::Malformed));
        }
        check(&"a".repeat(MAX_HEAD), Err(Wrong::Malformed));
        check(&format!("CONNECT a.com:1 HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(MAX_HEAD)), Err(Wrong::Malformed));
    }

    #[test]
    fn a_refusal_says_why() {
        let said = String::from_utf8(refusal(Reason::NotAllowed)).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "not_allowed: no rule lets this room talk to this host at this port\n");
        let length = body.len();
        assert_eq!(
            head,
            format!(
                "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close"
            )
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(said in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut whole = b"CONNECT ".to_vec();
            whole.extend(&said);
            whole.extend(b" HTTP/1.1\r\n\r\n");
            let _ = read(&said);
            if let Ok(Some(request)) = read(&whole) {
                prop_assert!(request.target.port > 0);
            }
        }
    }
}
