//! The probe that must fail: a door is ready once it has refused somebody.
//!
//! Plain blocking code, run by whoever sits in the room before the first job does: it goes the way a job would go. A
//! door that is not served yet does not answer, a door that lets everybody through answers wrongly, and both are found.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

/// A name that is never anybody's.
const NAME: &str = "toolgate-probe.invalid";
/// The one synthetic address that never stands for a name.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// Where a job in the room would meet the doors.
#[derive(Debug, Clone, Copy)]
pub struct Ways {
    /// Any connection; in a room everything is caught, so that [`Ways::caught`] will do.
    pub tcp: SocketAddr,
    /// The name server; none where nobody is to be asked.
    pub dns: Option<SocketAddr>,
    /// The door for HTTP CONNECT.
    pub connect: SocketAddr,
}

impl Ways {
    /// In a room whose traffic is caught, with the CONNECT door at this address.
    pub fn caught(connect: SocketAddr) -> Self {
        Self { tcp: (ADDRESS, 443).into(), dns: Some((ADDRESS, 53).into()), connect }
    }
}

/// Asks each door for somebody who is not allowed. Ok: each has answered, and each has refused.
pub fn self_probe(ways: Ways, patience: Duration) -> io::Result<()> {
    probe_tcp(ways.tcp, patience)?;
    ways.dns.map_or(Ok(()), |dns| probe_dns(dns, patience))?;
    probe_connect(ways.connect, patience)
}

/// Is this whom the probe asks for?
pub(crate) fn is_probe(host: &str) -> bool {
    host == NAME || host.parse() == Ok(ADDRESS)
}

/// A reset, and not a refusal: somebody is there, and does not want it. It may come before this end has seen that the
/// connection was made.
fn probe_tcp(to: SocketAddr, patience: Duration) -> io::Result<()> {
    let heard = TcpStream::connect_timeout(&to, patience).and_then(|mut stream| {
        stream.set_read_timeout(Some(patience))?;
        stream.read(&mut [0])
    });
    match heard {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::other("a connection that is not allowed was not reset")),
    }
}

fn probe_dns(to: SocketAddr, patience: Duration) -> io::Result<()> {
    const NXDOMAIN: u8 = 3;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(patience))?;
    socket.send(&question())?;
    let mut reply = [0; 512];
    let length = socket.recv(&mut reply)?;
    match reply[..length] {
        [_, _, _, code, ..] if code & 0x0f == NXDOMAIN => Ok(()),
        _ => Err(io::Error::other("a name that is not allowed was not denied")),
    }
}

/// One question for the address of [`NAME`].
fn question() -> Vec<u8> {
    let mut message = vec![0x70, 0x62, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in NAME.split('.') {
        message.extend(u8::try_from(label.len()));
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

fn probe_connect(to: SocketAddr, patience: Duration) -> io::Result<()> {
    const REFUSED: &[u8] = b"HTTP/1.1 403 ";
    let mut stream = TcpStream::connect_timeout(&to, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(format!("CONNECT {NAME}:443 HTTP/1.1\r\n\r\n").as_bytes())?;
    let mut reply = [0; REFUSED.len()];
    stream.read_exact(&mut reply)?;
    if reply == REFUSED { Ok(()) } else { Err(io::Error::other("a host that is not allowed was not refused")) }
}
