//! Words to other machines, and to this one: each argument is `address:port`.

use std::{
    io::{Error, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

use libc::*;

use crate::{
    sys::{at, call},
    tries::Tries,
};

/// What a listener outside looks for.
pub(crate) const WORD: &[u8] = b"toolgate-probe was here\n";
const PATIENCE: Duration = Duration::from_secs(3);

/// Connects by TCP and says the word. The detail is how long it took, because a wall answers at once.
pub(crate) fn tcp(targets: &[String], tries: &mut Tries) {
    for target in targets {
        let begun = Instant::now();
        let said = resolved(target).and_then(|address| {
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(timed_out)?;
            stream.write_all(WORD)?;
            was_it_heard(&mut stream)
        });
        tries.io(format!("tcp {target}"), said.map(|()| "said it"));
        tries.found(format!("milliseconds for {target}"), begun.elapsed().as_millis());
    }
}

/// A door is open before it is known who stands in it: whoever is turned away is told a moment later.
fn was_it_heard(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    match stream.read(&mut [0]) {
        Err(error) if error.raw_os_error() == Some(ECONNRESET) => Err(error),
        _ => Ok(()),
    }
}

/// Sends the word by UDP.
pub(crate) fn udp(targets: &[String], tries: &mut Tries) {
    for target in targets {
        let sent = resolved(target).and_then(|address| {
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any)?;
            socket.set_broadcast(true)?;
            socket.send_to(WORD, address)
        });
        tries.io(format!("udp {target}"), sent);
    }
}

/// Connects and speaks in one call, which filters on `connect` do not see.
pub(crate) fn fast_open(targets: &[String], tries: &mut Tries) {
    for target in targets {
        let Some(address) = target.parse().ok().and_then(ipv4) else { continue };
        tries.in_child(format!("fast open {target}"), || {
            let socket = call(SYS_socket, [AF_INET as usize, SOCK_STREAM as usize, 0])?;
            let flags = (MSG_FASTOPEN | MSG_NOSIGNAL) as usize;
            call(SYS_sendto, [socket, at(WORD), WORD.len(), flags, at(&address), size_of_val(&address)])
        });
        tries.in_child(format!("fast open by message {target}"), || {
            let socket = call(SYS_socket, [AF_INET as usize, SOCK_STREAM as usize, 0])?;
            let part = iovec { iov_base: WORD.as_ptr().cast_mut().cast(), iov_len: WORD.len() };
            // SAFETY: an all-zero message header is a valid, empty one.
            let mut message: msghdr = unsafe { std::mem::zeroed() };
            message.msg_name = std::ptr::from_ref(&address).cast_mut().cast();
            message.msg_namelen = size_of_val(&address) as u32;
            message.msg_iov = std::ptr::from_ref(&part).cast_mut();
            message.msg_iovlen = 1;
            call(SYS_sendmsg, [socket, at(&message), (MSG_FASTOPEN | MSG_NOSIGNAL) as usize])
        });
    }
    through_unconnected(targets, tries);
}

/// Changes where a datagram socket speaks to after it was made.
fn through_unconnected(targets: &[String], tries: &mut Tries) {
    for target in targets {
        let reached = resolved(target).and_then(|address| {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(address)?;
            socket.send(WORD)?;
            Ok(socket.as_raw_fd())
        });
        tries.io(format!("connected datagram {target}"), reached);
    }
}

/// The address as the kernel takes it.
pub(crate) fn ipv4(address: SocketAddr) -> Option<sockaddr_in> {
    let SocketAddr::V4(address) = address else { return None };
    Some(sockaddr_in {
        sin_family: AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    })
}

fn resolved(target: &str) -> std::io::Result<SocketAddr> {
    if let Ok(address) = target.parse() {
        return Ok(address);
    }
    // A look-up that fails has no number of its own; "no such host" is what it means.
    let unknown = || Error::from_raw_os_error(ENXIO);
    target.to_socket_addrs().map_err(|_| unknown())?.next().ok_or_else(unknown)
}

fn timed_out(error: Error) -> Error {
    if error.kind() == std::io::ErrorKind::TimedOut { Error::from_raw_os_error(ETIMEDOUT) } else { error }
}
