//! Asking name servers: one question over UDP, over TCP when the answer does not fit.
//!
//! An answer counts when it comes from the server that was asked, to the port that asked, with the number and the
//! question that were sent. Everything else is somebody else talking and is passed over, up to a bound, so that guessing
//! does not pay.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    time::timeout,
};
use toolgate_guard::host_name::HostName;

use crate::dns::{CLASS_IN, NOERROR, NXDOMAIN, Question, TYPE_A, TYPE_AAAA};

/// How long one server may take for one answer.
const EACH: Duration = Duration::from_secs(2);
/// How often all servers are gone through.
const ROUNDS: usize = 2;
/// Datagrams that are not the answer, before the server is given up for this round.
const STRAYS: usize = 32;
/// Records of an answer that are read.
const MAX_RECORDS: u16 = 128;
/// Addresses of one kind that a name may have. Who has more is not asked which of them are meant.
const MAX_ADDRESSES: usize = 64;
/// Names a name may lead to before it leads to an address.
const MAX_CHAIN: usize = 16;
/// Jumps inside a message while one name is read.
const MAX_JUMPS: usize = 32;

/// The addresses of a name by what these servers say. A name that does not exist has none.
pub(crate) async fn ask(servers: &[SocketAddr], name: &HostName) -> io::Result<Vec<IpAddr>> {
    match tokio::join!(ask_any(servers, name, TYPE_A), ask_any(servers, name, TYPE_AAAA)) {
        (Ok(mut found), Ok(more)) => {
            found.extend(more);
            Ok(found)
        }
        // Only what was found and judged is dialled, so that an answer that did not come hides nothing.
        (Ok(found), Err(_)) | (Err(_), Ok(found)) if !found.is_empty() => Ok(found),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

async fn ask_any(servers: &[SocketAddr], name: &HostName, kind: u16) -> io::Result<Vec<IpAddr>> {
    let mut last = io::Error::other("there is no name server to ask");
    for server in servers.iter().cycle().take(servers.len() * ROUNDS) {
        match timeout(EACH, ask_one(*server, name, kind)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

async fn ask_one(server: SocketAddr, name: &HostName, kind: u16) -> io::Result<Vec<IpAddr>> {
    let asked = Asked::new(name, kind)?;
    let reply = match asked.over_udp(server).await? {
        Reply::Cut => asked.over_tcp(server).await?,
        reply => reply,
    };
    match reply {
        Reply::Addresses(found) => Ok(found),
        Reply::Failed(code) => Err(io::Error::other(format!("the name server answers with code {code}"))),
        Reply::Cut => Err(malformed("an answer over TCP is cut short")),
    }
}

/// A question on the wire.
struct Asked {
    bytes: Vec<u8>,
    kind: u16,
}

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Addresses(Vec<IpAddr>),
    /// It did not fit.
    Cut,
    Failed(u8),
}

const HEADER: usize = 12;

impl Asked {
    fn new(name: &HostName, kind: u16) -> io::Result<Self> {
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        Ok(Self::with_id(id, name, kind))
    }

    fn with_id(id: [u8; 2], name: &HostName, kind: u16) -> Self {
        const RECURSION_DESIRED: u8 = 1;
        let mut bytes = Vec::with_capacity(HEADER + name.as_str().len() + 6);
        bytes.extend(id);
        bytes.extend([RECURSION_DESIRED, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        for label in name.labels() {
            // A label of a host name has at most 63 bytes.
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(CLASS_IN.to_be_bytes());
        Self { bytes, kind }
    }

    /// The port is the kernel's choice and new for every question; what comes from elsewhere does not arrive at a
    /// connected socket.
    async fn over_udp(&self, server: SocketAddr) -> io::Result<Reply> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(server).await?;
        socket.send(&self.bytes).await?;
        let mut message = vec![0; 4096];
        for _ in 0..STRAYS {
            let length = socket.recv(&mut message).await?;
            if let Some(reply) = self.read(&message[..length])? {
                return Ok(reply);
            }
        }
        Err(malformed("too much that is no answer came instead of one"))
    }

    /// Over TCP a length goes before every message.
    async fn over_tcp(&self, server: SocketAddr) -> io::Result<Reply> {
        let mut stream = TcpStream::connect(server).await?;
        let mut framed = (self.bytes.len() as u16).to_be_bytes().to_vec();
        framed.extend(&self.bytes);
        stream.write_all(&framed).await?;
        let mut message = vec![0; stream.read_u16().await?.into()];
        stream.read_exact(&mut message).await?;
        self.read(&message)?.ok_or_else(|| malformed("what came over TCP is no answer to the question"))
    }

    /// What the message says, if it is the answer.
    fn read(&self, message: &[u8]) -> io::Result<Option<Reply>> {
        const IS_REPLY: u8 = 0x80;
        const OPCODE: u8 = 0x78;
        const IS_CUT: u8 = 0x02;
        const CODE: u8 = 0x0f;
        let Some([a, b, flags, codes, counts @ ..]) = message.first_chunk::<HEADER>() else { return Ok(None) };
        if self.bytes[..2] != [*a, *b] || flags & (IS_REPLY | OPCODE) != IS_REPLY || counts[..2] != [0, 1] {
            return Ok(None);
        }
        let Ok(question) = Question::read(&message[HEADER..]) else { return Ok(None) };
        // Servers may change the capitals of a name.
        if !question.bytes.eq_ignore_ascii_case(&self.bytes[HEADER..]) {
            return Ok(None);
        }
        let reply = match codes & CODE {
            _ if flags & IS_CUT != 0 => Reply::Cut,
            NOERROR => {
                let records = Records {
                    message,
                    at: HEADER + question.bytes.len(),
                    left: u16::from_be_bytes([counts[2], counts[3]]),
                };
                Reply::Addresses(self.follow(&records.read()?)?)
            }
            NXDOMAIN => Reply::Addresses(Vec::new()),
            code => Reply::Failed(code),
        };
        Ok(Some(reply))
    }

    /// The addresses of the name that the name asked for leads to.
    fn follow(&self, records: &[Record]) -> io::Result<Vec<IpAddr>> {
        let mut name = &self.bytes[HEADER..self.bytes.len() - 4];
        for _ in 0..MAX_CHAIN {
            let own = || records.iter().filter(|record| record.owner == name);
            let addresses: Vec<IpAddr> = own().filter_map(|record| record.address(self.kind)).collect();
            if addresses.len() > MAX_ADDRESSES {
                return Err(malformed("the name has too many addresses"));
            }
            if !addresses.is_empty() {
                return Ok(addresses);
            }
            match own().find_map(Record::alias) {
                Some(next) => name = next,
                None => return Ok(Vec::new()),
            }
        }
        Err(malformed("the name leads to too many other names"))
    }
}

/// One line of an answer. Names are as on the wire, in lower case and in one piece.
struct Record {
    owner: Vec<u8>,
    says: Says,
}

enum Says {
    Address(IpAddr),
    Alias(Vec<u8>),
    /// Nothing that is asked for.
    Other,
}

impl Record {
    fn address(&self, kind: u16) -> Option<IpAddr> {
        match self.says {
            Says::Address(address) if address.is_ipv4() == (kind == TYPE_A) => Some(address),
            Says::Address(_) | Says::Alias(_) | Says::Other => None,
        }
    }

    fn alias(&self) -> Option<&[u8]> {
        match &self.says {
            Says::Alias(name) => Some(name),
            Says::Address(_) | Says::Other => None,
        }
    }
}

/// The records of a message that are still to be read.
struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: u16,
}

impl Records<'_> {
    fn read(mut self) -> io::Result<Vec<Record>> {
        if self.left > MAX_RECORDS {
            return Err(malformed("the answer has too many records"));
        }
        (0..self.left).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> io::Result<Record> {
        const TYPE_CNAME: u16 = 5;
        let (owner, after) = read_name(self.message, self.at)?;
        let fixed = self.message.get(after..).and_then(|rest| rest.first_chunk::<10>());
        let [a, b, c, d, _, _, _, _, e, f] = *fixed.ok_or_else(|| malformed("a record is cut short"))?;
        let (kind, class) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let start = after + 10;
        let end = start + usize::from(u16::from_be_bytes([e, f]));
        let data = self.message.get(start..end).ok_or_else(|| malformed("a record is cut short"))?;
        self.at = end;
        let says = match (class, kind) {
            (CLASS_IN, TYPE_A) => Says::Address(Ipv4Addr::from(whole::<4>(data)?).into()),
            (CLASS_IN, TYPE_AAAA) => Says::Address(Ipv6Addr::from(whole::<16>(data)?).into()),
            (CLASS_IN, TYPE_CNAME) => Says::Alias(read_name(self.message, start)?.0),
            _ => Says::Other,
        };
        Ok(Record { owner, says })
    }
}

fn whole<const LENGTH: usize>(data: &[u8]) -> io::Result<[u8; LENGTH]> {
    data.try_into().map_err(|_| malformed("an address has the wrong length"))
}

/// The name that begins here, and where what follows it begins. Jumps go back only, so that they end.
fn read_name(message: &[u8], start: usize) -> io::Result<(Vec<u8>, usize)> {
    const MAX_NAME: usize = 255;
    const JUMP: u8 = 0xc0;
    let cut = || malformed("a name is cut short");
    let mut name = Vec::new();
    let (mut at, mut after, mut jumps) = (start, None, 0);
    loop {
        let length = *message.get(at).ok_or_else(cut)?;
        match length & JUMP {
            0 => {
                let label = message.get(at..=at + usize::from(length)).ok_or_else(cut)?;
                name.extend(label.iter().map(u8::to_ascii_lowercase));
                at += label.len();
                if name.len() > MAX_NAME {
                    return Err(malformed("a name is too long"));
                }
                if length == 0 {
                    return Ok((name, after.unwrap_or(at)));
                }
            }
            JUMP => {
                let low = *message.get(at + 1).ok_or_else(cut)?;
                let target = usize::from(u16::from_be_bytes([length & !JUMP, low]));
                after.get_or_insert(at + 2);
                jumps += 1;
                if target >= at || jumps > MAX_JUMPS {
                    return Err(malformed("a name points at itself"));
                }
                at = target;
            }
            _ => return Err(malformed("a label is of a kind that is not used")),
        }
    }
}

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: [u8; 2] = [7, 9];
    const A: [u8; 4] = [93, 184, 216, 34];

    fn asked(kind: u16) -> Asked {
        Asked::with_id(ID, &HostName::parse("www.example.com").unwrap(), kind)
    }

    /// An answer to `asked`, with these records after its question.
    fn answer(asked: &Asked, records: &[Vec<u8>]) -> Vec<u8> {
        let mut message = asked.bytes.clone();
        message[2..4].copy_from_slice(&[0x81, 0x80]);
        message[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        message.extend(records.concat());
        message
    }

    fn record(owner: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
        let mut record = owner.to_vec();
        record.extend(kind.to_be_bytes());
        record.extend([0, 1, 0, 0, 0, 60]);
        record.extend((data.len() as u16).to_be_bytes());
        record.extend(data);
        record
    }

    /// The name of the question.
    const OWN: &[u8] = &[0xc0, 12];
    /// `example.com`, four bytes into it.
    const ABOVE: &[u8] = &[0xc0, 16];
    const CDN: &[u8] = b"\x03CDN\x03net\x00";

    #[track_caller]
    fn check(records: &[Vec<u8>], expected: Result<&[&str], &str>) {
        let asked = asked(TYPE_A);
        let found = asked.read(&answer(&asked, records)).map_err(|error| error.to_string());
        let expected = expected
            .map(|all| Some(Reply::Addresses(all.iter().map(|one| one.parse().unwrap()).collect())))
            .map_err(str::to_owned);
        assert_eq!(found, expected);
    }

    #[test]
    fn addresses_of_the_name_are_found() {
        check(&[], Ok(&[]));
        check(&[record(OWN, TYPE_A, &A)], Ok(&["93.184.216.34"]));
        check(
            &[record(OWN, TYPE_A, &A), record(b"\x03WWW\x07example\x03com\0", TYPE_A, &[1, 1, 1, 1])],
            Ok(&["93.184.216.34", "1.1.1.1"]),
        );
    }

    #[test]
    fn what_is_about_somebody_else_is_not_an_answer() {
        check(&[record(ABOVE, TYPE_A, &A)], Ok(&[]));
        check(&[record(OWN, TYPE_AAAA, &[0; 16])], Ok(&[]));
        check(&[record(OWN, 16, b"\x04text")], Ok(&[]));
    }

    #[test]
    fn aliases_are_followed_inside_the_answer() {
        check(&[record(OWN, 5, CDN), record(b"\x03cdn\x03NET\0", TYPE_A, &A)], Ok(&["93.184.216.34"]));
        check(&[record(b"\x03cdn\x03net\0", TYPE_A, &A), record(OWN, 5, CDN)], Ok(&["93.184.216.34"]));
        check(&[record(OWN, 5, ABOVE), record(ABOVE, TYPE_A, &A)], Ok(&["93.184.216.34"]));
        check(&[record(OWN, 5, CDN)], Ok(&[]));
        check(&[record(OWN, 5, OWN)], Err("the name leads to too many other names"));
        check(&[record(OWN, 5, ABOVE), record(ABOVE, 5, OWN)], Err("the name leads to too many other names"));
    }

    #[test]
    fn broken_records_spoil_the_answer() {
        check(&[record(OWN, TYPE_A, &A[..3])], Err("an address has the wrong length"));
        check(&[record(&[0xc0, 0xff], TYPE_A, &A)], Err("a name points at itself"));
        check(&[record(OWN, 5, &[0xc0, 63])], Err("a name points at itself"));
        check(&[record(&[0x40], TYPE_A, &A)], Err("a label is of a kind that is not used"));
        check(&[record(OWN, TYPE_A, &A)[..9].to_vec()], Err("a record is cut short"));
        check(&[record(OWN, TYPE_A, &A)[..14].to_vec()], Err("a record is cut short"));
        check(&[b"\x03ab".to_vec()], Err("a name is cut short"));
        let long = [[63].as_slice(), &[b'a'; 63]].concat().repeat(4);
        check(&[record(&[&long, &[0][..]].concat(), TYPE_A, &A)], Err("a name is too long"));
    }

    #[test]
    fn nobody_has_addresses_without_end() {
        check(&vec![record(OWN, TYPE_A, &A); 65], Err("the name has too many addresses"));
        check(&vec![record(OWN, 16, b"\0"); 129], Err("the answer has too many records"));
    }

    #[test]
    fn only_the_answer_to_the_question_counts() {
        let asked = asked(TYPE_A);
        let ok = answer(&asked, &[record(OWN, TYPE_A, &A)]);
        let changed = |at: usize, to: u8| {
            let mut message = ok.clone();
            message[at] = to;
            asked.read(&message).unwrap()
        };
        assert_eq!(changed(0, 8), None, "another number");
        assert_eq!(changed(2, 0x01), None, "a question");
        assert_eq!(changed(2, 0xa1), None, "an answer to an update");
        assert_eq!(changed(5, 2), None, "two questions");
        assert_eq!(changed(13, b'x'), None, "about another name");
        assert_eq!(changed(30, 28), None, "about another type");
        assert_eq!(changed(32, 3), None, "about another class");
        assert!(matches!(changed(13, b'W'), Some(Reply::Addresses(_))), "capitals do not matter");
        assert_eq!(changed(2, 0x83), Some(Reply::Cut));
        assert_eq!(changed(3, 0x83), Some(Reply::Addresses(Vec::new())), "no such name");
        assert_eq!(changed(3, 0x82), Some(Reply::Failed(2)));
        assert_eq!(asked.read(&ok[..11]).unwrap(), None);
        assert_eq!(asked.read(&ok[..20]).unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(noise in proptest::collection::vec(any::<u8>(), 0..300), records: u8) {
            let asked = asked(TYPE_A);
            let mut message = answer(&asked, &[noise]);
            message[7] = records;
            let _ = asked.read(&message);
        }
    }
}
