//! What a door tells about the connections it was asked for.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// Something happened at a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A connection was let through.
    Opened {
        /// The name it was asked for by, or the listed address.
        host: String,
        /// At which port.
        port: u16,
        /// Who was dialled.
        address: SocketAddr,
    },
    /// A connection that was let through has ended.
    Closed {
        /// The name it was asked for by, or the listed address.
        host: String,
        /// At which port.
        port: u16,
        /// Who was dialled.
        address: SocketAddr,
        /// Bytes that left the room.
        sent: u64,
        /// Bytes that came into it.
        received: u64,
    },
    /// Somebody was not let through.
    Refused {
        /// Who was asked for: a name, an address, or what was written in place of one.
        host: String,
        /// At which port; none where only a name was looked up.
        port: Option<u16>,
        /// Why not.
        reason: Reason,
        /// The address that was in the way.
        address: Option<IpAddr>,
    },
}

/// Why somebody was not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No rule names this host with this port.
    NotAllowed,
    /// What was written is no host and port.
    BadRequest,
    /// The TLS client asks for another host than it connected to.
    SniMismatch,
    /// The HTTP request names another host than it was sent to, or none.
    HostMismatch,
    /// The first words are TLS or HTTP, but not so that their host can be read.
    Unreadable,
    /// The name leads to an address that is not public and that no rule lists.
    PrivateAddress,
    /// The name leads to this very machine.
    OwnAddress,
    /// A rule puts the host out of reach, by its name or by an address it leads to.
    Barred,
    /// The name has no address.
    ResolveFailed,
    /// Nobody answers at the address.
    DialFailed,
    /// The room has as many connections as it may have.
    TooMany,
    /// The client took too long to say what it wants.
    TooSlow,
}

impl Reason {
    /// The stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "not_allowed",
            Self::BadRequest => "bad_request",
            Self::SniMismatch => "sni_mismatch",
            Self::HostMismatch => "host_mismatch",
            Self::Unreadable => "unreadable",
            Self::PrivateAddress => "private_address",
            Self::OwnAddress => "own_address",
            Self::Barred => "host_denied",
            Self::ResolveFailed => "resolve_failed",
            Self::DialFailed => "dial_failed",
            Self::TooMany => "too_many",
            Self::TooSlow => "too_slow",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllowed => "no rule lets this room talk to this host at this port",
            Self::BadRequest => "this is no host and port",
            Self::SniMismatch => "the TLS client asks for another host than it connected to",
            Self::HostMismatch => "the request names another host than it was sent to, or none",
            Self::Unreadable => "the host in the first bytes cannot be read for certain",
            Self::PrivateAddress => "the name leads to an address that is not public and not listed",
            Self::OwnAddress => "the name leads to the machine the room runs on",
            Self::Barred => "a rule puts this host out of reach",
            Self::ResolveFailed => "the name has no address",
            Self::DialFailed => "nobody answers at the address",
            Self::TooMany => "the room has as many connections as it may have",
            Self::TooSlow => "the client took too long to say what it wants",
        })
    }
}
