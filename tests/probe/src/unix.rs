//! Local sockets: names without files, files of services, and sockets that are already held.

use std::{
    io::Write,
    os::{
        fd::AsRawFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixStream},
    },
};

use libc::*;

use crate::{connect::WORD, sys::call, tries::Tries};

/// Connects to each name that has no file.
pub(crate) fn abstract_names(names: &[String], tries: &mut Tries) {
    for name in names {
        let stream = SocketAddr::from_abstract_name(name)
            .and_then(|address| UnixStream::connect_addr(&address)?.write_all(WORD));
        tries.io(format!("abstract stream {name}"), stream.map(|()| "said it"));
        let datagram = SocketAddr::from_abstract_name(format!("{name}.dgram"))
            .and_then(|address| UnixDatagram::unbound()?.send_to_addr(WORD, &address));
        tries.io(format!("abstract datagram {name}.dgram"), datagram);
    }
}

/// Connects to each file.
pub(crate) fn pathnames(paths: &[String], tries: &mut Tries) {
    for path in paths {
        let said = UnixStream::connect(path).and_then(|mut stream| {
            stream.write_all(WORD)?;
            Ok(stream.as_raw_fd())
        });
        tries.io(format!("unix {path}"), said);
    }
}

/// A socket among the first descriptors would be a channel to pass others through.
pub(crate) fn held_sockets(_: &[String], tries: &mut Tries) {
    for fd in 0..64usize {
        let (mut kind, mut length) = (0i32, 4u32);
        let asked = call(
            SYS_getsockopt,
            [fd, SOL_SOCKET as usize, SO_TYPE as usize, crate::sys::into(&mut kind), crate::sys::into(&mut length)],
        );
        match asked {
            Ok(_) => tries.found(format!("socket {fd}"), kind),
            Err(EBADF) => {}
            Err(errno) => tries.call(format!("socket {fd}"), Err(errno)),
        }
    }
}
