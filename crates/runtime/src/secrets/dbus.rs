//! A small client for D-Bus: calls to the session bus, and their answers.
//!
//! It speaks as much as the keyring takes: strings, paths, their arrays and dictionaries, and variants of a string.
//! Everything that comes back is bounded and checked; nothing is believed to be as long as it says.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixStream},
    },
    time::{Duration, Instant},
};

use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

/// How long all calls together may take. A service may have to be started first.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest message that is read.
const MOST_BYTES: usize = 1 << 20;

const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;

const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// Why a call had no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// Whoever was called said no, with this word.
    Refused(String),
    /// The bus is not there, went away or spoke nonsense.
    Failed(io::Error),
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Whom a call is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Callee<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
}

/// A connection to the bus.
pub(super) struct Bus {
    stream: UnixStream,
    serial: u32,
    until: Instant,
}

impl Bus {
    /// Connects to a bus by its address, as `DBUS_SESSION_BUS_ADDRESS` has it.
    pub(super) fn connect(address: &str) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "its address names no socket of this machine");
        for one in address.split(';') {
            match read_address(one).map(|socket| UnixStream::connect_addr(&socket)) {
                Some(Ok(stream)) => return Self::greet(stream),
                Some(Err(error)) => last = error,
                None => {}
            }
        }
        Err(last)
    }

    fn greet(stream: UnixStream) -> io::Result<Self> {
        let mut bus = Self { stream, serial: 0, until: Instant::now() + PATIENCE };
        let user: String =
            rustix::process::geteuid().as_raw().to_string().bytes().map(|b| format!("{b:02x}")).collect();
        bus.stream.set_write_timeout(Some(PATIENCE))?;
        bus.stream.write_all(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") && line.len() < 512 {
            let mut byte = [0];
            bus.fill(&mut byte)?;
            line.extend(byte);
        }
        if !line.starts_with(b"OK ") {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the bus does not let this user in"));
        }
        bus.stream.write_all(b"BEGIN\r\n")?;
        let itself = Callee {
            destination: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
        };
        bus.call(itself, "Hello", "", &Body::default()).map_err(|error| match error {
            NoAnswer::Failed(error) => error,
            NoAnswer::Refused(word) => io::Error::other(format!("the bus said `{word}`")),
        })?;
        Ok(bus)
    }

    /// Makes a call and waits for the answer to it. Whatever else comes meanwhile is dropped.
    pub(super) fn call(
        &mut self,
        callee: Callee<'_>,
        member: &str,
        signature: &str,
        body: &Body,
    ) -> Result<Answer, NoAnswer> {
        self.serial += 1;
        self.stream.write_all(&message(self.serial, callee, member, signature, &body.0))?;
        loop {
            let (head, body) = self.message()?;
            if head.reply_to != Some(self.serial) {
                continue;
            }
            return match head.kind {
                RETURN => Ok(Answer { bytes: body, at: 0 }),
                ERROR => Err(NoAnswer::Refused(head.error.unwrap_or_default())),
                _ => continue,
            };
        }
    }

    fn message(&mut self) -> io::Result<(Head, Zeroizing<Vec<u8>>)> {
        let mut fixed = [0; 16];
        self.fill(&mut fixed)?;
        if fixed[0] != b'l' {
            return Err(nonsense("a message in another byte order"));
        }
        let number = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]) as usize;
        let (body, fields) = (number(4), number(12));
        if body > MOST_BYTES || fields > MOST_BYTES {
            return Err(nonsense("a message that is too long"));
        }
        // The fields are read as they stand in the message: what they are aligned to is counted from its start.
        let mut head = fixed.to_vec();
        head.resize((16 + fields).next_multiple_of(8), 0);
        self.fill(&mut head[16..])?;
        let mut bytes = Zeroizing::new(vec![0; body]);
        self.fill(&mut bytes)?;
        Ok((Head::read(fixed[1], &head, 16 + fields)?, bytes))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 10 s"));
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut buffer[done..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the bus sent {what}"))
}

fn read_address(text: &str) -> Option<SocketAddr> {
    let (key, value) = text.strip_prefix("unix:")?.split(',').filter_map(|pair| pair.split_once('=')).next()?;
    let value = percent_decode_str(value).decode_utf8().ok()?;
    match key {
        "path" => SocketAddr::from_pathname(&*value).ok(),
        "abstract" => SocketAddr::from_abstract_name(value.as_bytes()).ok(),
        _ => None,
    }
}

fn message(serial: u32, callee: Callee<'_>, member: &str, signature: &str, body: &[u8]) -> Vec<u8> {
    let mut head = Body(vec![b'l', CALL, 0, 1]);
    head.number(u32::try_from(body.len()).unwrap_or(u32::MAX));
    head.number(serial);
    head.array(8, |fields| {
        let texts = [
            (PATH, "o", callee.path),
            (DESTINATION, "s", callee.destination),
            (INTERFACE, "s", callee.interface),
            (MEMBER, "s", member),
        ];
        for (code, kind, text) in texts {
            fields.align(8);
            fields.0.push(code);
            fields.signature(kind);
            fields.text(text);
        }
        if !signature.is_empty() {
            fields.align(8);
            fields.0.push(SIGNATURE);
            fields.signature("g");
            fields.signature(signature);
        }
    });
    head.align(8);
    head.0.extend_from_slice(body);
    head.0
}

/// The arguments of a call, in the order they are written.
#[derive(Debug, Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A string or an object path.
    pub(super) fn text(&mut self, text: &str) {
        self.number(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, signature: &str) {
        self.0.push(u8::try_from(signature.len()).unwrap_or(u8::MAX));
        self.0.extend_from_slice(signature.as_bytes());
        self.0.push(0);
    }

    /// A variant that holds a string.
    pub(super) fn variant(&mut self, text: &str) {
        self.signature("s");
        self.text(text);
    }

    /// Strings or object paths.
    pub(super) fn texts(&mut self, texts: &[String]) {
        self.array(4, |body| texts.iter().for_each(|text| body.text(text)));
    }

    /// A dictionary from strings to strings.
    pub(super) fn pairs(&mut self, pairs: &[(&str, &str)]) {
        self.array(8, |body| {
            for (key, value) in pairs {
                body.align(8);
                body.text(key);
                body.text(value);
            }
        });
    }

    /// An array: how many bytes its elements take, not counting what comes before the first.
    fn array(&mut self, element: usize, fill: impl FnOnce(&mut Self)) {
        self.number(0);
        let length = self.0.len() - 4;
        self.align(element);
        let start = self.0.len();
        fill(self);
        let bytes = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        self.0[length..length + 4].copy_from_slice(&bytes.to_le_bytes());
    }
}

/// What is known of a message besides its body.
struct Head {
    kind: u8,
    reply_to: Option<u32>,
    error: Option<String>,
}

impl Head {
    fn read(kind: u8, bytes: &[u8], end: usize) -> io::Result<Self> {
        let mut fields = Answer { bytes: Zeroizing::new(bytes.get(..end).unwrap_or_default().to_vec()), at: 16 };
        let mut head = Self { kind, reply_to: None, error: None };
        while fields.at < end {
            fields.align(8)?;
            let code = fields.take(1)?[0];
            match (code, &*fields.signature()?) {
                (REPLY_SERIAL, "u") => head.reply_to = Some(fields.number()?),
                (ERROR_NAME, "s") => head.error = Some(fields.text()?),
                (_, "u") => drop(fields.number()?),
                (_, "s" | "o") => drop(fields.text()?),
                (_, "g") => drop(fields.signature()?),
                _ => return Err(nonsense("a field nobody knows")),
            }
        }
        Ok(head)
    }
}

/// The values of an answer, read in the order they come.
pub(super) struct Answer {
    bytes: Zeroizing<Vec<u8>>,
    at: usize,
}

impl Answer {
    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| nonsense("less than it said"))?;
        let start = std::mem::replace(&mut self.at, end);
        Ok(&self.bytes[start..end])
    }

    fn align(&mut self, to: usize) -> io::Result<()> {
        self.take(self.at.next_multiple_of(to) - self.at).map(drop)
    }

    fn number(&mut self) -> io::Result<u32> {
        self.align(4)?;
        let bytes = self.take(4)?.first_chunk().copied();
        Ok(u32::from_le_bytes(bytes.unwrap_or_default()))
    }

    /// A string or an object path.
    pub(super) fn text(&mut self) -> io::Result<String> {
        let length = self.number()? as usize;
        self.terminated(length)
    }

    fn signature(&mut self) -> io::Result<String> {
        let length = usize::from(self.take(1)?[0]);
        self.terminated(length)
    }

    fn terminated(&mut self, length: usize) -> io::Result<String> {
        let text = str::from_utf8(self.take(length)?).map(str::to_owned);
        self.take(1)?;
        text.map_err(|_| nonsense("text that is not UTF-8"))
    }

    /// Strings or object paths.
    pub(super) fn texts(&mut self) -> io::Result<Vec<String>> {
        let length = self.number()? as usize;
        let end = self.at.saturating_add(length);
        let mut texts = Vec::new();
        while self.at < end {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    /// Bytes.
    pub(super) fn bytes(&mut self) -> io::Result<Zeroizing<Vec<u8>>> {
        let length = self.number()? as usize;
        self.take(length).map(|bytes| Zeroizing::new(bytes.to_vec()))
    }

    /// A variant that holds a string.
    pub(super) fn variant(&mut self) -> io::Result<String> {
        match &*self.signature()? {
            "s" => self.text(),
            _ => Err(nonsense("another type than was asked for")),
        }
    }

    /// Goes on to a structure.
    pub(super) fn structure(&mut self) -> io::Result<()> {
        self.align(8)
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, path::Path, thread};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_what_the_protocol_wants() {
        let mut body = Body::default();
        body.text("ab");
        body.pairs(&[("k", "v")]);
        body.variant("x");
        body.texts(&["/a".into()]);
        #[rustfmt::skip]
        let expected = [
            2, 0, 0, 0, b'a', b'b', 0, 0,
            14, 0, 0, 0, 0, 0, 0, 0,
            1, 0, 0, 0, b'k', 0, 0, 0, 1, 0, 0, 0, b'v', 0,
            1, b's', 0, 0, 0, 0, 1, 0, 0, 0, b'x', 0, 0, 0,
            7, 0, 0, 0, 2, 0, 0, 0, b'/', b'a', 0,
        ];
        assert_eq!(body.0, expected);
    }

    #[test]
    fn an_address_names_a_socket_of_this_machine() {
        let path = |text: &str| read_address(text).and_then(|socket| socket.as_pathname().map(Path::to_owned));
        assert_eq!(path("unix:path=/run/user/1/bus"), Some("/run/user/1/bus".into()));
        assert_eq!(path("unix:path=/tmp/a%20b,guid=00"), Some("/tmp/a b".into()));
        let hidden = read_address("unix:abstract=/tmp/x,guid=00").unwrap();
        assert_eq!(hidden.as_abstract_name(), Some(&b"/tmp/x"[..]));
        for other in ["", "unix:", "unix:tmpdir=/tmp", "tcp:host=a,port=1", "unixexec:path=ssh", "unix:path=/a%ff"] {
            assert!(read_address(other).is_none(), "{other}");
        }
    }

    /// A bus that lets us in, says this and goes.
    fn against(said: Vec<u8>) -> io::Result<Bus> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("bus");
        let listener = UnixListener::bind(&path)?;
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            let _ = stream.read(&mut [0; 64])?;
            stream.write_all(b"OK 1234\r\n")?;
            stream.write_all(&said)?;
            stream.shutdown(std::net::Shutdown::Write)?;
            // Whoever still writes is heard to the end.
            stream.read_to_end(&mut Vec::new())
        });
        let bus = Bus::connect(&format!("unix:path={}", path.display()));
        if bus.is_err() {
            let _ = server.join();
        }
        bus
    }

    fn message_of(kind: u8, body: u32, fields: &[u8]) -> Vec<u8> {
        let length = u32::try_from(fields.len()).unwrap();
        let numbers = [body, 1, length].map(u32::to_le_bytes).concat();
        let mut message = [&[b'l', kind, 0, 1], &*numbers, fields].concat();
        message.resize(message.len().next_multiple_of(8), 0);
        message
    }

    const TO_THE_FIRST: [u8; 8] = [REPLY_SERIAL, 1, b'u', 0, 1, 0, 0, 0];

    #[test]
    fn a_bus_that_answers_is_talked_to() {
        assert!(against(message_of(RETURN, 0, &TO_THE_FIRST)).is_ok());
        let signal = message_of(4, 3, &[REPLY_SERIAL, 1, b'u', 0, 9, 0, 0, 0]);
        assert!(against([signal, vec![0; 3], message_of(RETURN, 0, &TO_THE_FIRST)].concat()).is_ok());
        let name = [ERROR_NAME, 1, b's', 0, 3, 0, 0, 0, b'a', b'.', b'b', 0];
        let refused = message_of(ERROR, 0, &[&TO_THE_FIRST[..], &name].concat());
        assert!(against(refused).is_err_and(|error| error.to_string().contains("a.b")));
    }

    #[test]
    fn a_bus_that_speaks_nonsense_is_left() {
        let whole = message_of(RETURN, 0, &TO_THE_FIRST);
        for said in [
            vec![],
            vec![0; 16],
            whole[..20].to_vec(),
            message_of(RETURN, u32::MAX, &TO_THE_FIRST),
            [&whole[..12], &u32::MAX.to_le_bytes(), &whole[16..]].concat(),
            message_of(RETURN, 4, &TO_THE_FIRST),
            message_of(RETURN, 0, &[REPLY_SERIAL, 1, b'x', 0, 1, 0, 0, 0]),
            message_of(RETURN, 0, &[REPLY_SERIAL, 200, b'u', 0, 1, 0, 0, 0]),
            message_of(RETURN, 0, &[ERROR_NAME, 1, b's', 0, 255, 255, 255, 255]),
            message_of(RETURN, 0, &[REPLY_SERIAL, 1, b'u', 0, 2, 0, 0, 0]),
        ] {
            assert!(against(said.clone()).is_err(), "{said:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), at in 0..8_usize) {
            let answer = || Answer { bytes: Zeroizing::new(bytes.clone()), at: at.min(bytes.len()) };
            let _ = (answer().text(), answer().texts(), answer().bytes(), answer().variant(), answer().structure());
            let _ = Head::read(RETURN, &bytes, bytes.len());
        }
    }
}
