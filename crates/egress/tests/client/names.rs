//! A name server that says what a test wants, and the client asking it.

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use toolgate_egress::{Client, ClientTerms, Resolver};
use toolgate_guard::url::Host;

use crate::stage::{HOME, terms};

/// What the server says to a question for IPv4 addresses. To one for IPv6 addresses it says that there are none.
pub(crate) enum Said {
    Addresses(Vec<IpAddr>),
    /// The name is another name for this one, which has that address.
    Alias(&'static str, IpAddr),
    /// Nothing, but that the answer does not fit; over TCP it does.
    TooLongForUdp(IpAddr),
    /// An answer with the number of another question, before the right one.
    StrayFirst(IpAddr, IpAddr),
    Code(u8),
}

/// A name server on loopback, over UDP and TCP.
pub(crate) struct NameServer {
    address: SocketAddr,
    questions: Arc<AtomicUsize>,
}

impl NameServer {
    /// Says what the function says to a name that is asked for the nth time, counting from 0.
    pub(crate) fn new(says: impl Fn(&str, usize) -> Said + Send + Sync + 'static) -> Self {
        let (udp, tcp) = both();
        let address = udp.local_addr().unwrap();
        let questions = Arc::new(AtomicUsize::new(0));
        let says = Arc::new(says);
        let (counted, heard) = (Arc::clone(&questions), Arc::clone(&says));
        thread::spawn(move || {
            let mut message = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut message) {
                let question = &message[..length];
                let said = match kind(question) {
                    1 => heard(&name(question), counted.fetch_add(1, Ordering::SeqCst)),
                    _ => Said::Addresses(Vec::new()),
                };
                for reply in replies(question, &said, Over::Udp) {
                    udp.send_to(&reply, from).unwrap();
                }
            }
        });
        thread::spawn(move || {
            for visitor in tcp.incoming() {
                let mut visitor = visitor.unwrap();
                let mut length = [0; 2];
                visitor.read_exact(&mut length).unwrap();
                let mut question = vec![0; u16::from_be_bytes(length).into()];
                visitor.read_exact(&mut question).unwrap();
                let said = says(&name(&question), usize::MAX);
                for reply in replies(&question, &said, Over::Tcp) {
                    visitor.write_all(&(reply.len() as u16).to_be_bytes()).unwrap();
                    visitor.write_all(&reply).unwrap();
                }
            }
        });
        Self { address, questions }
    }

    pub(crate) fn resolver(&self) -> Resolver {
        Resolver::Servers(vec![self.address])
    }

    /// How often somebody asked over UDP for the IPv4 addresses of a name.
    pub(crate) fn questions(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }
}

/// The same port for both, which somebody else may hold for one of them.
fn both() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
            return (udp, tcp);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Over {
    Udp,
    Tcp,
}

fn name(question: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut at = 12;
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8(question[at + 1..end].to_vec()).unwrap());
        at = end;
    }
    labels.join(".")
}

fn kind(question: &[u8]) -> u8 {
    question[question.len() - 3]
}

fn replies(question: &[u8], said: &Said, over: Over) -> Vec<Vec<u8>> {
    match said {
        Said::Addresses(found) => {
            vec![reply(question, 0, &found.iter().map(|ip| record(OWN, *ip)).collect::<Vec<_>>())]
        }
        Said::Alias(other, ip) => {
            let mut alias = OWN.to_vec();
            alias.extend([0, 5, 0, 1, 0, 0, 0, 60]);
            alias.extend((wire(other).len() as u16).to_be_bytes());
            alias.extend(wire(other));
            vec![reply(question, 0, &[alias, record(&wire(other), *ip)])]
        }
        Said::TooLongForUdp(_) if over == Over::Udp => {
            let mut cut = reply(question, 0, &[]);
            cut[2] |= 0x02;
            vec![cut]
        }
        Said::TooLongForUdp(ip) => vec![reply(question, 0, &[record(OWN, *ip)])],
        Said::StrayFirst(stray, ip) => {
            let mut other = reply(question, 0, &[record(OWN, *stray)]);
            other[0] ^= 1;
            vec![other, reply(question, 0, &[record(OWN, *ip)])]
        }
        Said::Code(code) => vec![reply(question, *code, &[])],
    }
}

const OWN: &[u8] = &[0xc0, 12];

fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.') {
        wire.push(label.len() as u8);
        wire.extend(label.as_bytes());
    }
    wire.push(0);
    wire
}

fn record(owner: &[u8], ip: IpAddr) -> Vec<u8> {
    let IpAddr::V4(v4) = ip else { panic!("the server says IPv4 addresses only") };
    [owner, &[0, 1, 0, 1, 0, 0, 0, 60, 0, 4], &v4.octets()].concat()
}

fn reply(question: &[u8], code: u8, records: &[Vec<u8>]) -> Vec<u8> {
    let mut reply = question.to_vec();
    reply[2..4].copy_from_slice(&[0x81, 0x80 | code]);
    reply[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    reply.extend(records.concat());
    reply
}

/// What a client finds that asks these servers.
async fn find(servers: &[&NameServer]) -> Result<Vec<String>, String> {
    let resolver = Resolver::Servers(servers.iter().map(|server| server.address).collect());
    let client = Client::new(ClientTerms { resolver, ..terms(&["site.test"]) }).unwrap();
    let found = client.addresses(&Host::read("site.test").unwrap(), 80).await;
    found.map(|all| all.iter().map(ToString::to_string).collect()).map_err(|fault| fault.code.into_owned())
}

const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 9));

#[tokio::test]
async fn what_the_server_says_is_found() {
    let server = NameServer::new(|name, _| {
        assert_eq!(name, "site.test");
        Said::Addresses(vec![HOME, OTHER])
    });
    assert_eq!(find(&[&server]).await, Ok(vec!["127.0.0.1:80".into(), "127.0.0.9:80".into()]));
}

#[tokio::test]
async fn an_alias_is_followed() {
    let server = NameServer::new(|_, _| Said::Alias("Other.TEST", HOME));
    assert_eq!(find(&[&server]).await, Ok(vec!["127.0.0.1:80".into()]));
}

#[tokio::test]
async fn an_answer_that_does_not_fit_comes_over_tcp() {
    let server = NameServer::new(|_, _| Said::TooLongForUdp(HOME));
    assert_eq!(find(&[&server]).await, Ok(vec!["127.0.0.1:80".into()]));
    assert_eq!(server.questions(), 1);
}

#[tokio::test]
async fn an_answer_to_another_question_is_passed_over() {
    let server = NameServer::new(|_, _| Said::StrayFirst(OTHER, HOME));
    assert_eq!(find(&[&server]).await, Ok(vec!["127.0.0.1:80".into()]));
}

#[tokio::test]
async fn the_next_server_is_asked_where_the_first_cannot_say() {
    let cannot = NameServer::new(|_, _| Said::Code(2));
    let can = NameServer::new(|_, _| Said::Addresses(vec![HOME]));
    assert_eq!(find(&[&cannot, &can]).await, Ok(vec!["127.0.0.1:80".into()]));
    assert_eq!((cannot.questions(), can.questions()), (1, 1));
    assert_eq!(find(&[&cannot]).await, Err("resolve_failed".into()));
}

#[tokio::test]
async fn a_name_that_does_not_exist_has_no_address_and_nobody_else_is_asked() {
    let says_no = NameServer::new(|_, _| Said::Code(3));
    let says_yes = NameServer::new(|_, _| Said::Addresses(vec![HOME]));
    assert_eq!(find(&[&says_no, &says_yes]).await, Err("resolve_failed".into()));
    assert_eq!((says_no.questions(), says_yes.questions()), (1, 0));
}
