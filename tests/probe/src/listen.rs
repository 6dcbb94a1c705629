//! A door to the room, opened from inside: `listen PORT SECONDS`.

use std::{
    io::{ErrorKind, Read},
    net::TcpListener,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{count, tries::Tries};

/// Listens on every address and notes whether anyone came.
pub(crate) fn listen(args: &[String], tries: &mut Tries) {
    let (port, seconds) = (count(args, 0, 0), count(args, 1, 2).min(10));
    let listener = match TcpListener::bind(("0.0.0.0", port as u16)) {
        Ok(listener) => listener,
        Err(error) => return tries.io("listen", Err::<u8, _>(error)),
    };
    tries.io("listen", listener.set_nonblocking(true).map(|()| port));
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        match listener.accept() {
            Ok((mut caller, from)) => {
                let mut word = [0; 32];
                let heard = caller.read(&mut word).unwrap_or(0);
                return tries.found("called by", format!("{from} {}", String::from_utf8_lossy(&word[..heard])));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(20)),
            Err(error) => return tries.io("accept", Err::<u8, _>(error)),
        }
    }
    tries.call("called by", Err(libc::ETIMEDOUT));
}
