//! What a client says first: which protocol it speaks, and to which host it believes to speak.
//!
//! The name a client connected to by and the name it then asks the server for can be two: behind one address of a large
//! provider live thousands of hosts. So the first words are read before any of them is passed on, whenever they come.
//! TLS names its host in the first message (SNI), HTTP/1 in the head of a request. Of a plain HTTP connection only the
//! first request is read, and HTTP/2 without TLS is not: what holds there is the name, the port and the address.

use toolgate_guard::host_name::HostName;

/// How much a client may say before it is clear what it speaks.
pub(crate) const MAX_SAID: usize = 16 * 1024;

/// What the first words are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// A TLS client hello, with the host it names.
    Tls(Option<String>),
    /// A request in HTTP/1, with every host it names: at least one, and usually one.
    Http(Vec<String>),
    /// Something that names no host we can read.
    Other,
}

/// It speaks TLS or HTTP, but not so that two readers would agree on what it says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// Reads what was said so far. `None`: more has to come.
pub(crate) fn read(said: &[u8]) -> Result<Option<First>, Unreadable> {
    match said.first() {
        None => Ok(None),
        Some(&TLS_HANDSHAKE) => Ok(hello(said)?.map(First::Tls)),
        Some(_) => read_http(said),
    }
}

/// Reads what was said by a client that will say nothing more.
pub(crate) fn read_all(said: &[u8]) -> Result<First, Unreadable> {
    match read(said)? {
        Some(first) => Ok(first),
        // Half a hello or half a head does nothing at an honest server.
        None if said.first() == Some(&TLS_HANDSHAKE) || skip_blank(said).contains(&b'\n') => Err(Unreadable),
        None => Ok(First::Other),
    }
}

impl First {
    /// Does it name only `name`?
    pub(crate) fn is_about(&self, name: &HostName) -> bool {
        let is_name = |text: &String| HostName::parse(text).as_ref() == Ok(name);
        match self {
            Self::Tls(server) => server.iter().all(is_name),
            Self::Http(hosts) => !hosts.is_empty() && hosts.iter().all(is_name),
            Self::Other => true,
        }
    }
}

const TLS_HANDSHAKE: u8 = 0x16;

/// The host in a client hello, which may be cut over several records.
fn hello(said: &[u8]) -> Result<Option<Option<String>>, Unreadable> {
    let Some(message) = handshake(said)? else { return Ok(None) };
    let mut body = Bytes(&message);
    body.take(2 + 32)?; // version, random
    body.vector_u8()?; // session
    body.vector_u16()?; // ciphers
    body.vector_u8()?; // compression
    let mut server = None;
    if !body.0.is_empty() {
        let mut extensions = body.vector_u16()?;
        while !extensions.0.is_empty() {
            let kind = extensions.u16()?;
            let data = extensions.vector_u16()?;
            if kind == 0 && server.replace(server_name(data)?).is_some() {
                return Err(Unreadable);
            }
        }
    }
    if body.0.is_empty() { Ok(Some(server)) } else { Err(Unreadable) }
}

/// The body of the first handshake message.
fn handshake(said: &[u8]) -> Result<Option<Vec<u8>>, Unreadable> {
    const CLIENT_HELLO: u8 = 1;
    const MAX_RECORD: usize = 1 << 14;
    let mut message = Vec::new();
    let mut rest = said;
    while let Some(([kind, major, _, a, b], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*a, *b]));
        if *kind != TLS_HANDSHAKE || *major != 3 || length == 0 || length > MAX_RECORD {
            return Err(Unreadable);
        }
        let (record, after) = after.split_at(length.min(after.len()));
        message.extend(record);
        rest = after;
        let Some(([kind, a, b, c], body)) = message.split_first_chunk() else { continue };
        let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).map_err(|_| Unreadable)?;
        if *kind != CLIENT_HELLO || length > MAX_SAID {
            return Err(Unreadable);
        }
        if let Some(body) = body.get(..length) {
            return Ok(Some(body.to_vec()));
        }
    }
    Ok(None)
}

fn server_name(data: Bytes<'_>) -> Result<String, Unreadable> {
    const HOST_NAME: u8 = 0;
    let mut data = data;
    let mut list = data.vector_u16()?;
    let kind = list.u8()?;
    let name = list.vector_u16()?;
    if kind != HOST_NAME || !list.0.is_empty() || !data.0.is_empty() {
        return Err(Unreadable);
    }
    String::from_utf8(name.0.to_vec()).map_err(|_| Unreadable)
}

/// Bytes that are taken from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<Bytes<'a>, Unreadable> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Unreadable)?;
        self.0 = rest;
        Ok(Bytes(taken))
    }

    fn u8(&mut self) -> Result<u8, Unreadable> {
        self.take(1)?.0.first().copied().ok_or(Unreadable)
    }

    fn u16(&mut self) -> Result<u16, Unreadable> {
        self.take(2)?.0.first_chunk().map(|two| u16::from_be_bytes(*two)).ok_or(Unreadable)
    }

    fn vector_u8(&mut self) -> Result<Bytes<'a>, Unreadable> {
        let length = self.u8()?;
        self.take(length.into())
    }

    fn vector_u16(&mut self) -> Result<Bytes<'a>, Unreadable> {
        let length = self.u16()?;
        self.take(length.into())
    }
}

/// Servers are lenient about blanks and line ends, so that this is lenient in finding a request and strict in reading
/// it.
fn read_http(said: &[u8]) -> Result<Option<First>, Unreadable> {
    let said = skip_blank(said);
    let Some(end) = said.iter().position(|b| *b == b'\n') else {
        return Ok((!may_be_request(said)).then_some(First::Other));
    };
    let line = &said[..end];
    if !may_be_request(line) {
        return Ok(Some(First::Other));
    }
    let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let is_http = words.last().is_some_and(|last| last.len() > 5 && last[..5].eq_ignore_ascii_case(b"HTTP/"));
    if !is_http || words == [&b"PRI"[..], b"*", b"HTTP/2.0"] {
        return Ok(Some(First::Other));
    }
    let [method, target, _] = words[..] else { return Err(Unreadable) };
    let Some(mut hosts) = head(&said[end + 1..])? else { return Ok(None) };
    hosts.extend(host_of_target(method, target)?);
    Ok(Some(First::Http(hosts)))
}

/// Servers skip empty lines before a request.
fn skip_blank(said: &[u8]) -> &[u8] {
    let blank = said.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    &said[blank..]
}

/// Can a first line that begins like this be a request in HTTP?
fn may_be_request(line: &[u8]) -> bool {
    let method = line.iter().take_while(|b| is_token(**b)).count();
    match line.get(method) {
        Some(after) => method > 0 && after.is_ascii_whitespace(),
        None => true,
    }
}

/// The `Host` of the header lines; `None` while the empty line at their end has not come.
fn head(bytes: &[u8]) -> Result<Option<Vec<String>>, Unreadable> {
    let mut hosts = Vec::new();
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else { return Ok(None) };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return if hosts.len() == 1 { Ok(Some(hosts)) } else { Err(Unreadable) };
        }
        let colon = line.iter().position(|b| *b == b':').ok_or(Unreadable)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        let is_clean = |b: &u8| *b == b'\t' || (*b >= b' ' && *b != 0x7f);
        if name.is_empty() || !name.iter().all(|b| is_token(*b)) || !value.iter().all(is_clean) {
            return Err(Unreadable);
        }
        if name.eq_ignore_ascii_case(b"host") {
            hosts.push(without_port(value.trim_ascii())?);
        }
    }
    Ok(None)
}

/// A target may name a host by itself, and then servers believe it rather than the header.
fn host_of_target(method: &[u8], target: &[u8]) -> Result<Option<String>, Unreadable> {
    if method.eq_ignore_ascii_case(b"connect") {
        return without_port(target).map(Some);
    }
    if target.starts_with(b"/") || target == b"*" {
        return Ok(None);
    }
    let after = target.windows(3).position(|three| three == b"://").map(|at| &target[at + 3..]).ok_or(Unreadable)?;
    let end = after.iter().position(|b| matches!(b, b'/' | b'?' | b'#' | b'\\')).unwrap_or(after.len());
    without_port(&after[..end]).map(Some)
}

/// A host without the port behind it. What else is in there makes it no host name, and that is found when it is read.
fn without_port(authority: &[u8]) -> Result<String, Unreadable> {
    let authority = std::str::from_utf8(authority).map_err(|_| Unreadable)?;
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) => Ok(host.to_owned()),
        _ => Ok(authority.to_owned()),
    }
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// A client hello that names `server`, as little of one as servers take.
#[cfg(test)]
pub(crate) fn client_hello(server: Option<&str>) -> Vec<u8> {
    let vector = |bytes: &[u8]| {
        let mut vector = u16::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
        vector.extend(bytes);
        vector
    };
    let mut extensions = vec![0, 43, 0, 3, 2, 3, 4];
    if let Some(server) = server {
        let mut entry = vec![0];
        entry.extend(vector(server.as_bytes()));
        extensions.extend([0, 0]);
        extensions.extend(vector(&vector(&entry)));
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend(vector(&[0x13, 0x01]));
    body.extend([1, 0]);
    body.extend(vector(&extensions));
    let mut message = vec![1, 0];
    message.extend(vector(&body));
    let mut record = vec![TLS_HANDSHAKE, 3, 1];
    record.extend(vector(&message));
    record
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(said: &[u8], expected: Result<Option<First>, Unreadable>) {
        assert_eq!(read(said), expected, "{}", said.escape_ascii());
    }

    fn tls(server: &str) -> First {
        First::Tls(Some(server.into()))
    }

    fn http(hosts: &[&str]) -> First {
        First::Http(hosts.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_hello_names_its_server() {
        check(&client_hello(Some("example.com")), Ok(Some(tls("example.com"))));
        check(&client_hello(None), Ok(Some(First::Tls(None))));
        let mut with_more = client_hello(Some("example.com"));
        with_more.extend([0x14, 3, 3, 0, 1, 1]);
        check(&with_more, Ok(Some(tls("example.com"))));
    }

    #[test]
    fn a_hello_that_is_not_whole_is_waited_for() {
        let whole = client_hello(Some("example.com"));
        for cut in 0..whole.len() {
            check(&whole[..cut], Ok(None));
        }
        assert_eq!(read_all(&whole[..20]), Err(Unreadable));
    }

    #[test]
    fn a_hello_cut_over_records_is_put_together() {
        let whole = client_hello(Some("evil.com"));
        let mut cut = Vec::new();
        for piece in whole[5..].chunks(3) {
            cut.extend([TLS_HANDSHAKE, 3, 3, 0, u8::try_from(piece.len()).unwrap()]);
            cut.extend(piece);
        }
        check(&cut, Ok(Some(tls("evil.com"))));
    }

    #[test]
    fn a_hello_that_two_would_read_differently_is_unreadable() {
        let whole = client_hello(Some("example.com"));
        let changed = |at: usize, to: u8| {
            let mut said = whole.clone();
            said[at] = to;
            said
        };
        check(&changed(1, 2), Err(Unreadable));
        check(&changed(5, 2), Err(Unreadable));
        check(&changed(6, 1), Err(Unreadable));
        let (before, name) = (whole.len() - "example.com".len(), b"example.com");
        check(&changed(before - 3, 1), Err(Unreadable));
        check(&changed(before - 1, u8::try_from(name.len()).unwrap() - 1), Err(Unreadable));
        let mut twice = vec![];
        let one = &whole[before - 9..];
        twice.extend(one);
        twice.extend(one);
        let mut said = whole[..before - 9 - 7 - 2].to_vec();
        said.extend(u16::try_from(7 + twice.len()).unwrap().to_be_bytes());
        said.extend([0, 43, 0, 3, 2, 3, 4]);
        said.extend(&twice);
        let body = u16::try_from(said.len() - 9).unwrap().to_be_bytes();
        said[7..9].copy_from_slice(&body);
        let record = u16::try_from(said.len() - 5).unwrap().to_be_bytes();
        said[3..5].copy_from_slice(&record);
        check(&said, Err(Unreadable));
    }

    #[test]
    fn a_request_names_its_host() {
        check(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", Ok(Some(http(&["example.com"]))));
        check(b"GET / HTTP/1.1\r\nA: b\r\nhOST:example.com:8080 \r\n\r\nbody", Ok(Some(http(&["example.com"]))));
        check(b"POST /x HTTP/1.0\nHost: example.com\n\n", Ok(Some(http(&["example.com"]))));
        check(b"\r\n\r\nGET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", Ok(Some(http(&["evil.com"]))));
        check(b"get  /\tHTTP/1.1\r\nHost: evil.com\r\n\r\n", Ok(Some(http(&["evil.com"]))));
        check(
            b"GET http://evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
            Ok(Some(http(&["example.com", "evil.com"]))),
        );
        check(
            b"CONNECT evil.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
            Ok(Some(http(&["example.com", "evil.com"]))),
        );
    }

    #[test]
    fn a_head_that_is_not_whole_is_waited_for() {
        let whole = b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n";
        for cut in 0..whole.len() {
            check(&whole[..cut], Ok(None));
        }
        assert_eq!(read_all(&whole[..30]), Err(Unreadable));
    }

    #[test]
    fn a_head_that_two_would_read_differently_is_unreadable() {
        for head in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.com\r\nHost: a.com\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a.com\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: a.com\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.com\r\n b.com\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.com\rX: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.com\0\r\n\r\n",
            "GET / HTTP/1.1\r\nnonsense\r\n\r\n",
            "GET evil HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET /a b HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET /\x0b http/01.1\r\nHost: a.com\r\nHost: b.com\r\n\r\n",
        ] {
            check(head.as_bytes(), Err(Unreadable));
        }
    }

    #[test]
    fn other_protocols_are_seen_at_once() {
        for said in [
            &b"SSH-2.0-OpenSSH_9.9\r\n"[..],
            b"EHLO localhost\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"GET /\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"{\"json\":",
            b"a line of words\n",
            b"\x80\x2e\x01",
        ] {
            check(said, Ok(Some(First::Other)));
        }
        check(b"SSH-2.0-Open", Ok(None));
        assert_eq!(read_all(b"metric 1 2"), Ok(First::Other));
        assert_eq!(read_all(b""), Ok(First::Other));
    }

    #[test]
    fn every_host_that_is_named_has_to_be_the_one_that_was_asked_for() {
        let name = HostName::parse("example.com").unwrap();
        assert!(tls("Example.COM").is_about(&name));
        assert!(First::Tls(None).is_about(&name));
        assert!(!tls("evil.com").is_about(&name));
        assert!(!tls("example.com\0.evil.com").is_about(&name));
        assert!(!tls("").is_about(&name));
        assert!(http(&["example.com."]).is_about(&name));
        assert!(!http(&[]).is_about(&name));
        assert!(!http(&["example.com", "evil.com"]).is_about(&name));
        assert!(!http(&["user@example.com"]).is_about(&name));
        assert!(First::Other.is_about(&name));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(said in proptest::collection::vec(any::<u8>(), 0..300), first in 0u8..3) {
            let mut said = said;
            match first {
                0 if !said.is_empty() => said[0] = TLS_HANDSHAKE,
                1 => { said.splice(0..0, *b"GET / HTTP/1.1\r\nHost:"); }
                _ => {}
            }
            let _ = read(&said);
            let _ = read_all(&said);
        }

        #[test]
        fn a_changed_byte_never_hides_that_it_is_tls(at in 1usize..70, to: u8) {
            let mut said = client_hello(Some("evil.com"));
            if at < said.len() {
                said[at] = to;
            }
            prop_assert!(!matches!(read(&said), Ok(Some(First::Other | First::Http(_)))));
        }
    }
}
