//! Whom somebody in a room wants to talk to.

use std::{fmt, net::Ipv4Addr};

use toolgate_guard::host_name::HostName;

use crate::{event::Reason, rule::Rules};

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// A name, or an address that was asked for as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Name(HostName),
    Address(Ipv4Addr),
}

impl Target {
    /// Do the rules let it be talked to?
    pub(crate) fn judge(&self, rules: &Rules) -> Result<(), Reason> {
        let is_allowed = match &self.host {
            Host::Name(name) => rules.allows(name, self.port),
            Host::Address(address) => rules.lists(*address, self.port),
        };
        if is_allowed { Ok(()) } else { Err(Reason::NotAllowed) }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}
