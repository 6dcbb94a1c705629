//! The network of a room, made inside the room's own network namespace: by its keeper, or for a container by whoever
//! furnishes it (`worker/furnish.rs`).
//!
//! A room is [`alone`] with its loopback, or it is [`with_door`]. Then every address leads to the loopback, every
//! connection and every question about a name is redirected to listeners that the runtime serves, and a fence lets
//! nothing else pass. The namespace has no other device: where the fence had a hole, there would be nothing behind it.
//!
//! What stays within the room stays: `127.0.0.0/8` and `::1` are the room's own, so that a server and its client can
//! run in it, unless its [`Fence`] forbids that. IPv6 has no other address and no route.
//!
//! The rules are sent to the kernel as netlink messages built here; no program and no library is needed for it.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket},
    os::fd::OwnedFd,
    time::Duration,
};

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType,
    netlink::{self, SocketAddrNetlink},
};
use serde::{Deserialize, Serialize};
use toolgate_egress::{Ways, self_probe};

/// Where the door for programs that know about proxies is, in every room with a door.
pub(crate) const CONNECT: SocketAddr = at(65_128);
/// Where redirected connections arrive. Above the ports that the kernel gives out by itself, like the others.
const CAUGHT: SocketAddr = at(65_443);
/// Where redirected questions about names arrive, over UDP and over TCP.
const NAMES: SocketAddr = at(65_053);

/// What programs find in `/etc/resolv.conf`. Any address: the room's network leads every question to the same door.
pub(crate) const RESOLVER: &str = "nameserver 198.18.0.1\noptions timeout:2 attempts:1\n";

const fn at(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

/// What those inside may do besides what the door lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fence {
    /// Ask the door about names. Without it no question about a name goes anywhere.
    pub(crate) names: bool,
    /// Talk to each other over the loopback.
    pub(crate) loopback: bool,
}

impl Fence {
    /// The fence of a room that says nothing about it.
    pub(crate) const ORDINARY: Self = Self { names: true, loopback: true };
}

/// The loopback and nothing else: there is no way to anybody.
pub(super) fn alone() -> io::Result<()> {
    Netlink::open(ROUTES)?.ask(vec![loopback_up()])
}

/// The loopback and one door. Gives the door's sockets: caught connections, names over UDP, names over TCP, CONNECT.
///
/// The fence stands before there is any way, and there is somebody to redirect to before anything is redirected.
pub(crate) fn with_door(fence: Fence) -> io::Result<Vec<OwnedFd>> {
    let filters = Netlink::open(FILTERS)?;
    let routes = Netlink::open(ROUTES)?;
    filters.ask(together(put_up(fence)))?;
    routes.ask(vec![loopback_up()])?;
    let listeners = listeners()?;
    filters.ask(together(redirect(fence)))?;
    routes.ask(vec![everything_to_loopback()])?;
    Ok(listeners)
}

fn listeners() -> io::Result<Vec<OwnedFd>> {
    Ok(vec![
        TcpListener::bind(CAUGHT)?.into(),
        UdpSocket::bind(NAMES)?.into(),
        TcpListener::bind(NAMES)?.into(),
        TcpListener::bind(CONNECT)?.into(),
    ])
}

/// Tries, from inside, what must not work. Ok: the door is served and refuses, and the fence stands.
pub(crate) fn probe(fence: Fence, patience: Duration) -> io::Result<()> {
    let caught = Ways::caught(CONNECT);
    let name_server = caught.dns.filter(|_| fence.names);
    self_probe(Ways { dns: name_server, ..caught }, patience)?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    if socket.send_to(b"?", caught.tcp).is_ok() {
        return Err(io::Error::other("a datagram passed the fence"));
    }
    if !fence.names && caught.dns.is_some_and(|anybody| socket.send_to(b"?", anybody).is_ok()) {
        return Err(io::Error::other("a question about a name passed the fence"));
    }
    if !fence.loopback {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        match TcpStream::connect_timeout(&listener.local_addr()?, patience) {
            Ok(_) => return Err(io::Error::other("a connection within the room passed the fence")),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            Err(_) => {}
        }
    }
    let anybody = SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 443));
    match TcpStream::connect_timeout(&anybody, patience) {
        Ok(_) => Err(io::Error::other("a connection over IPv6 passed the fence")),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error),
        Err(_) => Ok(()),
    }
}

/// One step of a rule: a rule whose tests all hold does what its last step says.
#[derive(Debug, Clone, Copy)]
enum Step {
    IfIpv4,
    IfIpv6,
    IfTcp,
    IfUdp,
    /// To this port.
    IfPort(u16),
    /// From this port.
    IfFromPort(u16),
    /// To this address.
    IfTo(Ipv4Addr),
    /// From this address.
    IfFrom(Ipv4Addr),
    /// A connection is refused or given up, in so many words and no more.
    IfReset,
    /// A refusal of the kernel's, which no program of a room can send.
    IfUnreachableV4,
    IfUnreachableV6,
    /// To `127.0.0.0/8`.
    IfToLoopbackV4,
    /// To `::1`.
    IfToLoopbackV6,
    /// Of a connection that was redirected, in either direction.
    IfRedirected,
    Accept,
    Redirect(u16),
    /// Refused so that a connection fails at once.
    Reset,
    /// Refused so that anything else fails at once.
    Unreachable,
}

use Step::{
    Accept, IfFrom, IfFromPort, IfIpv4, IfIpv6, IfPort, IfRedirected, IfReset, IfTcp, IfTo, IfToLoopbackV4,
    IfToLoopbackV6, IfUdp, IfUnreachableV4, IfUnreachableV6, Redirect, Reset, Unreachable,
};

/// A rule: its steps.
type Rule = &'static [Step];

const BY_REDIRECTION: [Rule; 4] = [
    &[IfRedirected, Accept],
    // Nobody comes to these but by redirection: who dials them means nobody.
    &[IfIpv4, IfTcp, IfPort(CAUGHT.port()), Reset],
    &[IfIpv4, IfTcp, IfPort(NAMES.port()), Reset],
    &[IfIpv4, IfUdp, IfPort(NAMES.port()), Unreachable],
];

/// Nobody is asked about a name, whoever it is: also nobody in the room, and nobody who is listed.
const NO_NAMES: [Rule; 2] = [&[IfTcp, IfPort(53), Reset], &[IfUdp, IfPort(53), Unreachable]];

const WITHIN_THE_ROOM: [Rule; 2] = [&[IfIpv4, IfToLoopbackV4, Accept], &[IfIpv6, IfToLoopbackV6, Accept]];

/// Of the loopback only the door for programs that know about proxies, by address and port: nobody else can have both
/// while it is open. A refusal comes over the loopback too, and without it whoever is refused would wait.
const ONLY_THE_DOOR: [Rule; 5] = [
    &[IfIpv4, IfTcp, IfTo(Ipv4Addr::LOCALHOST), IfPort(CONNECT.port()), Accept],
    &[IfIpv4, IfTcp, IfFrom(Ipv4Addr::LOCALHOST), IfFromPort(CONNECT.port()), Accept],
    &[IfTcp, IfReset, Accept],
    &[IfUnreachableV4, Accept],
    &[IfUnreachableV6, Accept],
];

const NOTHING_ELSE: [Rule; 2] = [&[IfTcp, Reset], &[Unreachable]];

/// What the room sends, after redirection. What no rule accepts is dropped.
fn fence_rules(fence: Fence) -> Vec<Rule> {
    let names: &[Rule] = if fence.names { &[] } else { &NO_NAMES };
    let loopback: &[Rule] = if fence.loopback { &WITHIN_THE_ROOM } else { &ONLY_THE_DOOR };
    [&BY_REDIRECTION, names, loopback, &NOTHING_ELSE].concat()
}

/// Also from the loopback: a program that knows no name server asks there.
const NAMES_TO_DOOR: [Rule; 2] =
    [&[IfIpv4, IfUdp, IfPort(53), Redirect(NAMES.port())], &[IfIpv4, IfTcp, IfPort(53), Redirect(NAMES.port())]];

/// Left to the fence: what is redirected passes it.
const NAMES_TO_NOBODY: [Rule; 1] = [&[IfTcp, IfPort(53), Accept]];

const ALL_TO_DOOR: [Rule; 2] = [&[IfIpv4, IfToLoopbackV4, Accept], &[IfIpv4, IfTcp, Redirect(CAUGHT.port())]];

/// Where what the room sends is led.
fn redirection_rules(fence: Fence) -> Vec<Rule> {
    let names: &[Rule] = if fence.names { &NAMES_TO_DOOR } else { &NAMES_TO_NOBODY };
    [names, &ALL_TO_DOOR].concat()
}

fn put_up(fence: Fence) -> Vec<Message> {
    let mut table = about_filters(nf::NEW_TABLE, nf::CREATE);
    table.attribute(nf::TABLE_NAME, TABLE);
    let mut messages = vec![table];
    messages.extend(chain(b"fence\0", b"filter\0", 0, nf::DROP, &fence_rules(fence)));
    messages
}

fn redirect(fence: Fence) -> Vec<Message> {
    /// Destinations are changed before anything is filtered.
    const BEFORE_FILTERS: i32 = -100;
    chain(b"redirection\0", b"nat\0", BEFORE_FILTERS, nf::ACCEPT, &redirection_rules(fence))
}

const TABLE: &[u8] = b"room\0";

/// A chain of rules about everything that is sent.
fn chain(name: &[u8], kind: &[u8], priority: i32, otherwise: u32, rules: &[Rule]) -> Vec<Message> {
    let mut chain = about_filters(nf::NEW_CHAIN, nf::CREATE);
    chain.attribute(nf::CHAIN_TABLE, TABLE);
    chain.attribute(nf::CHAIN_NAME, name);
    chain.nest(nf::CHAIN_HOOK, |hook| {
        hook.number(nf::HOOK_NUMBER, nf::LOCAL_OUT);
        hook.number(nf::HOOK_PRIORITY, priority.cast_unsigned());
    });
    chain.number(nf::CHAIN_POLICY, otherwise);
    chain.attribute(nf::CHAIN_TYPE, kind);
    let mut messages = vec![chain];
    for steps in rules {
        let mut rule = about_filters(nf::NEW_RULE, nf::CREATE | nf::APPEND);
        rule.attribute(nf::RULE_TABLE, TABLE);
        rule.attribute(nf::RULE_CHAIN, name);
        rule.nest(nf::RULE_EXPRESSIONS, |list| steps.iter().for_each(|step| list.step(*step)));
        messages.push(rule);
    }
    messages
}

/// A message about the filters for both IPv4 and IPv6.
fn about_filters(kind: u16, flags: u16) -> Message {
    let mut message = Message::new(nf::SUBSYSTEM << 8 | kind, nf::ACK | flags);
    message.put(&[nf::INET, 0, 0, 0]);
    message
}

/// Messages that take effect together or not at all.
fn together(messages: Vec<Message>) -> Vec<Message> {
    let mark = |kind| {
        let mut message = Message::new(kind, 0);
        message.put(&[0, 0]);
        message.put(&nf::SUBSYSTEM.to_be_bytes());
        message
    };
    std::iter::once(mark(nf::BATCH_BEGIN)).chain(messages).chain([mark(nf::BATCH_END)]).collect()
}

/// The kernel gives the loopback of a new namespace this number.
const LOOPBACK: u32 = 1;

fn loopback_up() -> Message {
    let up = rt::IS_UP.to_ne_bytes();
    let mut message = Message::new(rt::NEW_LINK, nf::ACK);
    message.put(&[0; 4]); // any family, any type
    message.put(&LOOPBACK.to_ne_bytes());
    message.put(&up); // the flags
    message.put(&up); // which of them are meant
    message
}

/// Without a route a connection would fail before it could be redirected.
fn everything_to_loopback() -> Message {
    let mut message = Message::new(rt::NEW_ROUTE, nf::ACK | nf::CREATE | nf::EXCLUSIVE);
    message.put(&[rt::IPV4, 0, 0, 0]); // every destination, every source
    message.put(&[rt::MAIN_TABLE, rt::BY_ADMINISTRATOR, rt::ON_LINK, rt::UNICAST]);
    message.put(&[0; 4]); // no flags
    message.attribute(rt::OUTPUT_DEVICE, &LOOPBACK.to_ne_bytes());
    message.attribute(rt::PREFERRED_SOURCE, &Ipv4Addr::LOCALHOST.octets());
    message
}

/// One message to the kernel.
#[derive(Debug)]
struct Message(Vec<u8>);

impl Message {
    const HEADER: usize = 16;
    const REQUEST: u16 = 1;

    fn new(kind: u16, flags: u16) -> Self {
        let mut message = Self(vec![0; 4]); // the length comes when it is known
        message.put(&kind.to_ne_bytes());
        message.put(&(Self::REQUEST | flags).to_ne_bytes());
        message.put(&[0; 8]); // number and sender: there is one conversation at a time
        message
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.wrap(kind, |inside| inside.put(value));
    }

    /// Netfilter has its numbers in network order.
    fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        self.wrap(nf::NESTED | kind, fill);
    }

    fn wrap(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.put(&[0; 2]);
        self.put(&kind.to_ne_bytes());
        fill(self);
        // Everything here is a few hundred bytes long; were it more, the kernel would refuse the wrong length.
        let length = u16::try_from(self.0.len() - start).unwrap_or(u16::MAX);
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }

    fn wants_answer(&self) -> bool {
        let flags = u16::from_ne_bytes([self.0[6], self.0[7]]);
        flags & nf::ACK != 0
    }

    fn step(&mut self, step: Step) {
        match step {
            IfIpv4 => self.if_meta(nf::META_FAMILY, nf::IPV4),
            IfIpv6 => self.if_meta(nf::META_FAMILY, nf::IPV6),
            IfTcp => self.if_meta(nf::META_PROTOCOL, nf::TCP),
            IfUdp => self.if_meta(nf::META_PROTOCOL, nf::UDP),
            IfPort(port) => {
                self.load(nf::TRANSPORT_HEADER, nf::DESTINATION_PORT_AT, 2);
                self.compare(nf::EQUAL, &port.to_be_bytes());
            }
            IfFromPort(port) => {
                self.load(nf::TRANSPORT_HEADER, nf::SOURCE_PORT_AT, 2);
                self.compare(nf::EQUAL, &port.to_be_bytes());
            }
            IfTo(address) => {
                self.load(nf::NETWORK_HEADER, nf::DESTINATION_V4_AT, 4);
                self.compare(nf::EQUAL, &address.octets());
            }
            IfFrom(address) => {
                self.load(nf::NETWORK_HEADER, nf::SOURCE_V4_AT, 4);
                self.compare(nf::EQUAL, &address.octets());
            }
            IfReset => {
                self.load(nf::TRANSPORT_HEADER, nf::TCP_FLAGS_AT, 1);
                self.mask(&[nf::TCP_RESET]);
                self.compare(nf::NOT_EQUAL, &[0]);
            }
            IfUnreachableV4 => self.if_icmp(nf::ICMP, nf::ICMP_UNREACHABLE),
            IfUnreachableV6 => self.if_icmp(nf::ICMP_V6, nf::ICMP_V6_UNREACHABLE),
            // The first byte of the address is the whole of the prefix.
            IfToLoopbackV4 => {
                self.load(nf::NETWORK_HEADER, nf::DESTINATION_V4_AT, 1);
                self.compare(nf::EQUAL, &[127]);
            }
            IfToLoopbackV6 => {
                self.load(nf::NETWORK_HEADER, nf::DESTINATION_V6_AT, 16);
                self.compare(nf::EQUAL, &Ipv6Addr::LOCALHOST.octets());
            }
            IfRedirected => self.if_redirected(),
            Accept => self.expression(b"immediate\0", |data| {
                data.number(nf::IMMEDIATE_TO, nf::VERDICT);
                data.nest(nf::IMMEDIATE_DATA, |value| {
                    value.nest(nf::DATA_VERDICT, |verdict| verdict.number(nf::VERDICT_CODE, nf::ACCEPT));
                });
            }),
            Redirect(port) => {
                self.expression(b"immediate\0", |data| {
                    data.number(nf::IMMEDIATE_TO, nf::REGISTER);
                    data.value(nf::IMMEDIATE_DATA, &port.to_be_bytes());
                });
                self.expression(b"redir\0", |data| data.number(nf::REDIRECT_PORT_FROM, nf::REGISTER));
            }
            Reset => self.expression(b"reject\0", |data| data.number(nf::REJECT_TYPE, nf::BY_RESET)),
            Unreachable => self.expression(b"reject\0", |data| {
                data.number(nf::REJECT_TYPE, nf::BY_ICMP);
                data.attribute(nf::REJECT_CODE, &[nf::PORT_UNREACHABLE]);
            }),
        }
    }

    fn if_meta(&mut self, key: u32, value: u8) {
        self.expression(b"meta\0", |data| {
            data.number(nf::META_TO, nf::REGISTER);
            data.number(nf::META_KEY, key);
        });
        self.compare(nf::EQUAL, &[value]);
    }

    fn if_redirected(&mut self) {
        self.expression(b"ct\0", |data| {
            data.number(nf::CONNECTION_TO, nf::REGISTER);
            data.number(nf::CONNECTION_KEY, nf::CONNECTION_STATUS);
        });
        self.mask(&nf::DESTINATION_CHANGED.to_ne_bytes());
        self.compare(nf::NOT_EQUAL, &[0; 4]);
    }

    /// Its first byte says what it is.
    fn if_icmp(&mut self, protocol: u8, kind: u8) {
        self.if_meta(nf::META_PROTOCOL, protocol);
        self.load(nf::TRANSPORT_HEADER, 0, 1);
        self.compare(nf::EQUAL, &[kind]);
    }

    /// Leaves of the register what is set here.
    fn mask<const LENGTH: usize>(&mut self, mask: &[u8; LENGTH]) {
        self.expression(b"bitwise\0", |data| {
            data.number(nf::BITWISE_FROM, nf::REGISTER);
            data.number(nf::BITWISE_TO, nf::REGISTER);
            data.number(nf::BITWISE_LENGTH, LENGTH as u32);
            data.value(nf::BITWISE_MASK, mask);
            data.value(nf::BITWISE_XOR, &[0; LENGTH]);
        });
    }

    /// Bytes of the packet into the register.
    fn load(&mut self, header: u32, offset: u32, length: u32) {
        self.expression(b"payload\0", |data| {
            data.number(nf::PAYLOAD_TO, nf::REGISTER);
            data.number(nf::PAYLOAD_BASE, header);
            data.number(nf::PAYLOAD_OFFSET, offset);
            data.number(nf::PAYLOAD_LENGTH, length);
        });
    }

    /// The register with these bytes.
    fn compare(&mut self, how: u32, with: &[u8]) {
        self.expression(b"cmp\0", |data| {
            data.number(nf::COMPARE_FROM, nf::REGISTER);
            data.number(nf::COMPARE_HOW, how);
            data.value(nf::COMPARE_WITH, with);
        });
    }

    fn expression(&mut self, name: &[u8], fill: impl FnOnce(&mut Self)) {
        self.nest(nf::LIST_ELEMENT, |element| {
            element.attribute(nf::EXPRESSION_NAME, name);
            element.nest(nf::EXPRESSION_DATA, fill);
        });
    }

    fn value(&mut self, kind: u16, bytes: &[u8]) {
        self.nest(kind, |data| data.attribute(nf::DATA_VALUE, bytes));
    }
}

/// A conversation with the kernel about its network.
#[derive(Debug)]
struct Netlink(OwnedFd);

const FILTERS: Option<Protocol> = Some(netlink::NETFILTER);
/// Devices and routes are what the kernel talks about where nothing else is said.
const ROUTES: Option<Protocol> = None;

impl Netlink {
    fn open(about: Option<Protocol>) -> io::Result<Self> {
        Ok(Self(rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, about)?))
    }

    /// Sends all of it at once, and hears a yes to each or the first no.
    fn ask(&self, messages: Vec<Message>) -> io::Result<()> {
        let mut answers_due = messages.iter().filter(|message| message.wants_answer()).count();
        let bytes: Vec<u8> = messages.into_iter().flat_map(Message::finish).collect();
        rustix::net::sendto(&self.0, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answers = [0; 8192];
        while answers_due > 0 {
            // The kernel has answered before sending returns; were it silent, this must not wait for it.
            let (length, _) = rustix::net::recv(&self.0, &mut answers[..], RecvFlags::DONTWAIT)?;
            answers_due = answers_due.saturating_sub(read_answers(&answers[..length])?);
        }
        Ok(())
    }
}

/// How many of these answers say yes; an error for the first no.
fn read_answers(mut bytes: &[u8]) -> io::Result<usize> {
    let bad = || io::Error::other("the kernel's answer about its network cannot be read");
    let mut count = 0;
    while !bytes.is_empty() {
        let length = u32::from_ne_bytes(*bytes.first_chunk().ok_or_else(bad)?);
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let message = bytes.get(..length).filter(|message| message.len() >= Message::HEADER + 4).ok_or_else(bad)?;
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        let code = i32::from_ne_bytes(*message[Message::HEADER..].first_chunk().ok_or_else(bad)?);
        match (kind, code) {
            (nf::ANSWER, 0) => count += 1,
            (nf::ANSWER, code) => return Err(io::Error::from_raw_os_error(-code)),
            _ => return Err(bad()),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(count)
}

/// The kernel's numbers for netlink messages and netfilter (`linux/netfilter/nf_tables.h`).
mod nf {
    pub(super) const ACK: u16 = 4;
    pub(super) const EXCLUSIVE: u16 = 0x200;
    pub(super) const CREATE: u16 = 0x400;
    pub(super) const APPEND: u16 = 0x800;
    pub(super) const NESTED: u16 = 0x8000;
    pub(super) const ANSWER: u16 = 2;
    pub(super) const BATCH_BEGIN: u16 = 16;
    pub(super) const BATCH_END: u16 = 17;
    pub(super) const SUBSYSTEM: u16 = 10;
    pub(super) const NEW_TABLE: u16 = 0;
    pub(super) const NEW_CHAIN: u16 = 3;
    pub(super) const NEW_RULE: u16 = 6;

    pub(super) const INET: u8 = 1;
    pub(super) const IPV4: u8 = 2;
    pub(super) const IPV6: u8 = 10;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const ICMP: u8 = 1;
    pub(super) const ICMP_UNREACHABLE: u8 = 3;
    pub(super) const ICMP_V6: u8 = 58;
    pub(super) const ICMP_V6_UNREACHABLE: u8 = 1;
    pub(super) const DROP: u32 = 0;
    pub(super) const ACCEPT: u32 = 1;
    pub(super) const LOCAL_OUT: u32 = 3;

    pub(super) const TABLE_NAME: u16 = 1;
    pub(super) const CHAIN_TABLE: u16 = 1;
    pub(super) const CHAIN_NAME: u16 = 3;
    pub(super) const CHAIN_HOOK: u16 = 4;
    pub(super) const CHAIN_POLICY: u16 = 5;
    pub(super) const CHAIN_TYPE: u16 = 7;
    pub(super) const HOOK_NUMBER: u16 = 1;
    pub(super) const HOOK_PRIORITY: u16 = 2;
    pub(super) const RULE_TABLE: u16 = 1;
    pub(super) const RULE_CHAIN: u16 = 2;
    pub(super) const RULE_EXPRESSIONS: u16 = 4;
    pub(super) const LIST_ELEMENT: u16 = 1;
    pub(super) const EXPRESSION_NAME: u16 = 1;
    pub(super) const EXPRESSION_DATA: u16 = 2;
    pub(super) const DATA_VALUE: u16 = 1;
    pub(super) const DATA_VERDICT: u16 = 2;
    pub(super) const VERDICT_CODE: u16 = 1;

    /// The register that says what happens to the packet, and the one that every rule works in.
    pub(super) const VERDICT: u32 = 0;
    pub(super) const REGISTER: u32 = 1;

    pub(super) const IMMEDIATE_TO: u16 = 1;
    pub(super) const IMMEDIATE_DATA: u16 = 2;
    pub(super) const META_TO: u16 = 1;
    pub(super) const META_KEY: u16 = 2;
    pub(super) const META_FAMILY: u32 = 15;
    pub(super) const META_PROTOCOL: u32 = 16;
    pub(super) const COMPARE_FROM: u16 = 1;
    pub(super) const COMPARE_HOW: u16 = 2;
    pub(super) const COMPARE_WITH: u16 = 3;
    pub(super) const EQUAL: u32 = 0;
    pub(super) const NOT_EQUAL: u32 = 1;
    pub(super) const PAYLOAD_TO: u16 = 1;
    pub(super) const PAYLOAD_BASE: u16 = 2;
    pub(super) const PAYLOAD_OFFSET: u16 = 3;
    pub(super) const PAYLOAD_LENGTH: u16 = 4;
    pub(super) const NETWORK_HEADER: u32 = 1;
    pub(super) const TRANSPORT_HEADER: u32 = 2;
    /// The same in TCP and UDP.
    pub(super) const SOURCE_PORT_AT: u32 = 0;
    pub(super) const DESTINATION_PORT_AT: u32 = 2;
    pub(super) const TCP_FLAGS_AT: u32 = 13;
    pub(super) const TCP_RESET: u8 = 4;
    pub(super) const SOURCE_V4_AT: u32 = 12;
    pub(super) const DESTINATION_V4_AT: u32 = 16;
    pub(super) const DESTINATION_V6_AT: u32 = 24;
    pub(super) const CONNECTION_TO: u16 = 1;
    pub(super) const CONNECTION_KEY: u16 = 2;
    pub(super) const CONNECTION_STATUS: u32 = 2;
    pub(super) const DESTINATION_CHANGED: u32 = 1 << 5;
    pub(super) const BITWISE_FROM: u16 = 1;
    pub(super) const BITWISE_TO: u16 = 2;
    pub(super) const BITWISE_LENGTH: u16 = 3;
    pub(super) const BITWISE_MASK: u16 = 4;
    pub(super) const BITWISE_XOR: u16 = 5;
    pub(super) const REDIRECT_PORT_FROM: u16 = 1;
    pub(super) const REJECT_TYPE: u16 = 1;
    pub(super) const REJECT_CODE: u16 = 2;
    pub(super) const BY_RESET: u32 = 1;
    pub(super) const BY_ICMP: u32 = 2;
    pub(super) const PORT_UNREACHABLE: u8 = 1;
}

/// The kernel's numbers for devices and routes (`linux/rtnetlink.h`).
mod rt {
    pub(super) const NEW_LINK: u16 = 16;
    pub(super) const NEW_ROUTE: u16 = 24;
    pub(super) const IS_UP: u32 = 1;
    pub(super) const IPV4: u8 = 2;
    pub(super) const MAIN_TABLE: u8 = 254;
    pub(super) const BY_ADMINISTRATOR: u8 = 4;
    pub(super) const ON_LINK: u8 = 253;
    pub(super) const UNICAST: u8 = 1;
    pub(super) const OUTPUT_DEVICE: u16 = 4;
    pub(super) const PREFERRED_SOURCE: u16 = 7;
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Read as _, Write as _},
        process::Command,
        sync::{Arc, Mutex},
    };

    use rustix::net::sockopt::set_socket_reuseaddr;
    use toolgate_egress::{
        Barred, Door, Event, Internal, Limits, Openings, Reason, Resolver, Rules, Terms, original_destination,
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);
    const INSIDE: &str = "TOOLGATE_TEST_INSIDE";

    /// Runs the test of this name again, in a network namespace of its own, and does the rest there.
    #[track_caller]
    fn in_a_namespace(test: &str, inside: impl FnOnce()) {
        if std::env::var_os(INSIDE).is_some() {
            return inside();
        }
        let program = std::env::current_exe().unwrap();
        let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
        let arguments = ["--user", "--map-root-user", "--net"];
        let run = Command::new("unshare")
            .args(arguments)
            .arg(program)
            .args([&test, "--exact", "--nocapture"])
            .env(INSIDE, "1")
            .output();
        let can = Command::new("unshare").args(arguments).arg("true").status();
        if !can.is_ok_and(|status| status.success()) {
            eprintln!("NOT RUN: {test}: this machine does not let `unshare` make a network namespace");
            return;
        }
        let run = run.unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && said.contains("1 passed"), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    }

    fn connect(to: &str) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&to.parse().unwrap(), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    #[track_caller]
    fn is_refused(to: &str) {
        let kind = connect(to).map_err(|error| error.kind()).unwrap_err();
        assert!(
            matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable),
            "{to}: {kind:?}"
        );
    }

    /// Sends a datagram; where that is not refused at once, what comes back has to be a refusal.
    #[track_caller]
    fn is_refused_udp(to: &str) {
        let to: SocketAddr = to.parse().unwrap();
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let told = socket.connect(to).and_then(|()| socket.send(b"?")).and_then(|_| socket.recv(&mut [0; 64]));
        let kind = told.map_err(|error| error.kind()).unwrap_err();
        assert!(
            matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied | ErrorKind::NetworkUnreachable),
            "{to}: {kind:?}"
        );
    }

    fn talk_within_the_room(address: &str) {
        let server = TcpListener::bind(address).unwrap();
        let mut client = connect(&server.local_addr().unwrap().to_string()).unwrap();
        client.write_all(b"within").unwrap();
        drop(client);
        let mut heard = String::new();
        server.accept().unwrap().0.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "within");
    }

    #[test]
    fn a_room_that_is_alone_has_its_loopback_and_nobody_else() {
        in_a_namespace("a_room_that_is_alone_has_its_loopback_and_nobody_else", || {
            is_refused("127.0.0.1:80");
            alone().unwrap();
            talk_within_the_room("127.0.0.1:0");
            talk_within_the_room("[::1]:0");
            is_refused("93.184.216.34:443");
            is_refused("[2606:4700:4700::1111]:443");
            is_refused_udp("8.8.8.8:53");
        });
    }

    fn original(stream: &TcpStream) -> SocketAddr {
        original_destination(stream).unwrap()
    }

    fn sockets(listeners: Vec<OwnedFd>) -> Openings {
        let [tcp, dns_udp, dns_tcp, connect] = listeners.try_into().unwrap();
        Openings { tcp: tcp.into(), dns_udp: dns_udp.into(), dns_tcp: dns_tcp.into(), connect: connect.into() }
    }

    #[test]
    fn every_connection_is_caught_with_where_it_was_meant_to_go() {
        in_a_namespace("every_connection_is_caught_with_where_it_was_meant_to_go", || {
            let openings = sockets(with_door(Fence::ORDINARY).unwrap());
            for to in ["93.184.216.34:443", "93.184.216.34:80", "10.0.0.1:22", "169.254.169.254:80", "198.18.0.1:65443"]
            {
                let mut client = connect(to).unwrap();
                client.write_all(b"out").unwrap();
                let (mut caught, _) = openings.tcp.accept().unwrap();
                assert_eq!(original(&caught), to.parse().unwrap());
                let mut heard = [0; 3];
                caught.read_exact(&mut heard).unwrap();
                caught.write_all(b"back").unwrap();
                drop(caught);
                let mut answer = String::new();
                client.read_to_string(&mut answer).unwrap();
                assert_eq!((&heard, answer.as_str()), (b"out", "back"));
            }
        });
    }

    #[test]
    fn two_connections_from_one_port_are_told_apart() {
        in_a_namespace("two_connections_from_one_port_are_told_apart", || {
            let openings = sockets(with_door(Fence::ORDINARY).unwrap());
            let from = |to: &str| {
                let family = AddressFamily::INET;
                let socket = rustix::net::socket(family, SocketType::STREAM, None).unwrap();
                set_socket_reuseaddr(&socket, true).unwrap();
                rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 45_678))).unwrap();
                rustix::net::connect(&socket, &to.parse::<SocketAddr>().unwrap()).unwrap();
                socket
            };
            let _clients = [from("1.1.1.1:443"), from("8.8.8.8:443")];
            let caught = [openings.tcp.accept().unwrap().0, openings.tcp.accept().unwrap().0];
            let mut meant = caught.map(|caught| original(&caught).to_string());
            meant.sort();
            assert_eq!(meant, ["1.1.1.1:443", "8.8.8.8:443"]);
        });
    }

    #[test]
    fn every_question_about_a_name_is_caught() {
        in_a_namespace("every_question_about_a_name_is_caught", || {
            let openings = sockets(with_door(Fence::ORDINARY).unwrap());
            for to in ["8.8.8.8:53", "127.0.0.53:53", "127.0.0.1:53"] {
                let client = UdpSocket::bind("0.0.0.0:0").unwrap();
                client.set_read_timeout(Some(PATIENCE)).unwrap();
                client.send_to(b"question", to).unwrap();
                let mut heard = [0; 64];
                let (length, from) = openings.dns_udp.recv_from(&mut heard).unwrap();
                openings.dns_udp.send_to(b"answer", from).unwrap();
                let (answered, by) = client.recv_from(&mut heard[length..]).unwrap();
                assert_eq!(&heard[..length + answered], b"questionanswer");
                assert_eq!(by, to.parse().unwrap(), "the answer seems to come from whom was asked");
                let mut client = connect(to).unwrap();
                client.write_all(b"?").unwrap();
                let (caught, _) = openings.dns_tcp.accept().unwrap();
                assert_eq!(original(&caught), to.parse().unwrap());
            }
        });
    }

    #[test]
    fn nothing_else_passes_the_fence_and_nothing_hangs() {
        in_a_namespace("nothing_else_passes_the_fence_and_nothing_hangs", || {
            let openings = sockets(with_door(Fence::ORDINARY).unwrap());
            for udp in
                ["1.1.1.1:443", "93.184.216.34:123", "224.0.0.251:5353", "255.255.255.255:67", "198.18.0.1:53053"]
            {
                is_refused_udp(udp);
            }
            is_refused_udp("[2001:4860:4860::8888]:53");
            is_refused_udp("[::1]:53");
            is_refused("[2606:4700:4700::1111]:443");
            is_refused("[::ffff:0:1.1.1.1]:443");
            // The listeners themselves, and nobody behind them.
            is_refused(&CAUGHT.to_string());
            is_refused(&NAMES.to_string());
            is_refused_udp(&NAMES.to_string());
            is_refused("127.0.0.2:65443");
            is_refused("127.0.0.1:1");
            is_refused("0.0.0.0:1");
            talk_within_the_room("127.0.0.1:0");
            talk_within_the_room("127.1.2.3:0");
            talk_within_the_room("[::1]:0");
            connect(&CONNECT.to_string()).unwrap();
            openings.connect.accept().unwrap();
        });
    }

    #[test]
    fn a_mapped_address_is_caught_like_the_one_it_maps() {
        in_a_namespace("a_mapped_address_is_caught_like_the_one_it_maps", || {
            let openings = sockets(with_door(Fence::ORDINARY).unwrap());
            let _client = connect("[::ffff:1.1.1.1]:443").unwrap();
            let (caught, _) = openings.tcp.accept().unwrap();
            assert_eq!(original(&caught), "1.1.1.1:443".parse().unwrap());
        });
    }

    #[test]
    fn where_nobody_serves_the_door_a_connection_is_refused() {
        in_a_namespace("where_nobody_serves_the_door_a_connection_is_refused", || {
            drop(with_door(Fence::ORDINARY).unwrap());
            is_refused("93.184.216.34:443");
            is_refused("8.8.8.8:53");
            is_refused_udp("8.8.8.8:53");
            assert!(probe(Fence::ORDINARY, PATIENCE).is_err());
        });
    }

    /// Serves a door that knows one name, and tells what happens at it.
    fn serve(listeners: Vec<OwnedFd>) -> (Door, Arc<Mutex<Vec<Event>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let events = Arc::clone(&told);
        let terms = Terms {
            rules: Rules::parse(&["allowed.com:443".into()]).unwrap(),
            internal: Internal::default(),
            barred: Barred::default(),
            resolver: Resolver::Given(Arc::new(|_| Ok(Vec::new()))),
            limits: Limits::default(),
            original: Arc::new(original_destination),
            events: Arc::new(move |event| events.lock().unwrap().push(event)),
        };
        (Door::open(sockets(listeners), terms).unwrap(), told)
    }

    #[test]
    fn a_served_door_passes_the_probe_that_must_fail() {
        in_a_namespace("a_served_door_passes_the_probe_that_must_fail", || {
            let (door, told) = serve(with_door(Fence::ORDINARY).unwrap());
            probe(Fence::ORDINARY, PATIENCE).unwrap();
            assert!(told.lock().unwrap().is_empty(), "the probe is nobody's doing");

            let heard = connect("93.184.216.34:443").and_then(|mut client| client.read(&mut [0]));
            assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
            let (host, port) = ("93.184.216.34".to_owned(), Some(443));
            let refused = Event::Refused { host, port, reason: Reason::NotAllowed, address: None };
            assert_eq!(*told.lock().unwrap(), [refused]);
            drop(door);
        });
    }

    #[test]
    fn the_probe_finds_that_there_is_no_fence() {
        in_a_namespace("the_probe_finds_that_there_is_no_fence", || {
            let filters = Netlink::open(FILTERS).unwrap();
            let routes = Netlink::open(ROUTES).unwrap();
            let table = put_up(Fence::ORDINARY).remove(0);
            filters.ask(together(vec![table])).unwrap();
            routes.ask(vec![loopback_up()]).unwrap();
            let (_door, _) = serve(listeners().unwrap());
            filters.ask(together(redirect(Fence::ORDINARY))).unwrap();
            routes.ask(vec![everything_to_loopback()]).unwrap();
            assert_eq!(probe(Fence::ORDINARY, PATIENCE).unwrap_err().to_string(), "a datagram passed the fence");
        });
    }

    #[test]
    fn the_fence_refuses_at_once_also_where_nothing_is_redirected() {
        in_a_namespace("the_fence_refuses_at_once_also_where_nothing_is_redirected", || {
            Netlink::open(FILTERS).unwrap().ask(together(put_up(Fence::ORDINARY))).unwrap();
            let routes = Netlink::open(ROUTES).unwrap();
            routes.ask(vec![loopback_up()]).unwrap();
            routes.ask(vec![everything_to_loopback()]).unwrap();
            is_refused("93.184.216.34:443");
            is_refused_udp("8.8.8.8:53");
        });
    }

    const NO_LOOPBACK: Fence = Fence { loopback: false, ..Fence::ORDINARY };
    const WITHOUT_NAMES: Fence = Fence { names: false, ..Fence::ORDINARY };

    #[test]
    fn without_the_loopback_nobody_inside_is_reached_and_nothing_hangs() {
        in_a_namespace("without_the_loopback_nobody_inside_is_reached_and_nothing_hangs", || {
            let (_door, _) = serve(with_door(NO_LOOPBACK).unwrap());
            probe(NO_LOOPBACK, PATIENCE).unwrap();
            for address in ["127.0.0.1:0", "127.1.2.3:0", "[::1]:0"] {
                let server = TcpListener::bind(address).unwrap();
                is_refused(&server.local_addr().unwrap().to_string());
                let server = UdpSocket::bind(address).unwrap();
                is_refused_udp(&server.local_addr().unwrap().to_string());
            }
            // Neither from the port of the door, at another address, nor to it.
            let server = TcpListener::bind("127.0.0.2:65128").unwrap();
            is_refused(&server.local_addr().unwrap().to_string());
            let server = TcpListener::bind("127.0.0.1:0").unwrap();
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            rustix::net::bind(&socket, &"127.0.0.3:65128".parse::<SocketAddr>().unwrap()).unwrap();
            let refused = rustix::net::connect(&socket, &server.local_addr().unwrap());
            assert_eq!(refused, Err(rustix::io::Errno::CONNREFUSED));
            let taken = TcpListener::bind(CONNECT).map_err(|error| error.kind()).unwrap_err();
            assert_eq!(taken, ErrorKind::AddrInUse);
        });
    }

    #[test]
    fn without_names_nobody_is_asked_and_nothing_hangs() {
        in_a_namespace("without_names_nobody_is_asked_and_nothing_hangs", || {
            let (_door, told) = serve(with_door(WITHOUT_NAMES).unwrap());
            probe(WITHOUT_NAMES, PATIENCE).unwrap();
            let _own = [TcpListener::bind("127.0.0.1:53").unwrap(), TcpListener::bind("[::1]:53").unwrap()];
            for to in ["8.8.8.8:53", "198.18.0.1:53", "127.0.0.1:53", "127.0.0.53:53", "[::1]:53"] {
                is_refused(to);
                is_refused_udp(to);
            }
            talk_within_the_room("127.0.0.1:0");
            assert!(told.lock().unwrap().is_empty(), "the door hears of nobody who asks");
        });
    }

    #[test]
    fn the_probe_finds_a_fence_that_is_not_the_one_that_was_asked_for() {
        in_a_namespace("the_probe_finds_a_fence_that_is_not_the_one_that_was_asked_for", || {
            let (_door, _) = serve(with_door(Fence::ORDINARY).unwrap());
            let found = |fence| probe(fence, PATIENCE).map_err(|error| error.to_string());
            assert_eq!(found(Fence::ORDINARY), Ok(()));
            assert_eq!(found(NO_LOOPBACK), Err("a connection within the room passed the fence".into()));
            assert_eq!(found(WITHOUT_NAMES), Err("a question about a name passed the fence".into()));
        });
    }

    #[test]
    fn a_no_of_the_kernel_is_an_error() {
        in_a_namespace("a_no_of_the_kernel_is_an_error", || {
            let filters = Netlink::open(FILTERS).unwrap();
            let kind = |messages| filters.ask(messages).map_err(|error| error.kind());
            assert_eq!(kind(together(redirect(Fence::ORDINARY))), Err(ErrorKind::NotFound), "there is no table yet");
            with_door(Fence::ORDINARY).unwrap();
            let twice = Netlink::open(ROUTES).unwrap().ask(vec![everything_to_loopback()]);
            assert_eq!(twice.map_err(|error| error.kind()), Err(ErrorKind::AlreadyExists));
        });
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_an_error() {
        assert!(read_answers(&[1, 2, 3]).is_err());
        assert!(read_answers(&[0; 20]).is_err());
        assert!(read_answers(&[255; 64]).is_err());
    }
}
