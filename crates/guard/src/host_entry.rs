//! One line of a list of hosts: a name, a wildcard, an address or a block of them, with a port or without.

use std::net::IpAddr;

use crate::{
    address::{Special, judge},
    host_name::HostName,
    url::{Host, judge_host},
};

/// `host`, `*.host`, `10.1.2.3`, `10.0.0.0/8`, `::1` or `fd00::/8`, and each with a port (`host:8080`, `[::1]:8080`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    who: Who,
    /// None is written; what that means is the list's business.
    pub port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    Name(HostName),
    Under(HostName),
    Block(Block),
}

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    first: IpAddr,
    length: u32,
}

impl HostEntry {
    /// What this text spells.
    pub fn read(text: &str) -> Result<Self, String> {
        let (who, port) = split_port(text)?;
        Ok(Self { who: read_who(who)?, port })
    }

    /// The addresses that begin with these bits, at this port.
    pub fn block(first: IpAddr, length: u32, port: u16) -> Self {
        Self { who: Who::Block(Block { first, length }), port: Some(port) }
    }

    /// Is this name meant?
    pub fn names(&self, name: &HostName) -> bool {
        match &self.who {
            Who::Name(own) => own == name,
            Who::Under(above) => name.is_under(above),
            Who::Block(_) => false,
        }
    }

    /// Is this address one that may be reached? A block never covers an address that hands out credentials: that one
    /// is listed by itself, on purpose.
    pub fn lists(&self, ip: IpAddr) -> bool {
        match &self.who {
            Who::Block(block) => block.covers(ip),
            Who::Name(_) | Who::Under(_) => false,
        }
    }

    /// Is this address one that is meant to be out of reach? Then a block is the whole block.
    pub fn bars(&self, ip: IpAddr) -> bool {
        match &self.who {
            Who::Block(block) => block.holds(ip.to_canonical()),
            Who::Name(_) | Who::Under(_) => false,
        }
    }
}

impl Block {
    fn covers(&self, ip: IpAddr) -> bool {
        self.first == ip || self.holds(ip) && judge(ip) != Err(Special::Metadata)
    }

    fn holds(&self, ip: IpAddr) -> bool {
        match (self.first, ip) {
            (IpAddr::V4(first), IpAddr::V4(ip)) => (u32::from(first) ^ u32::from(ip)).leading_zeros() >= self.length,
            (IpAddr::V6(first), IpAddr::V6(ip)) => (u128::from(first) ^ u128::from(ip)).leading_zeros() >= self.length,
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// An address of IPv6 has colons of its own; with a port it stands in brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (who, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']').ok_or("a bracket is not closed")? {
            (who, "") => return Ok((who, None)),
            (who, port) => (who, port.strip_prefix(':').ok_or("behind the bracket stands no port")?),
        },
        None if text.matches(':').count() != 1 => return Ok((text, None)),
        None => text.split_once(':').unwrap_or((text, "")),
    };
    Ok((who, Some(read_port(port).ok_or("the port is not a number from 1 to 65535")?)))
}

/// A port in its one spelling: digits, no sign, no leading zero.
pub fn read_port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    if is_plain { text.parse().ok() } else { None }
}

fn read_who(text: &str) -> Result<Who, String> {
    if let Some((first, length)) = text.split_once('/') {
        return read_block(first, length).map(Who::Block);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        let first = address.to_canonical();
        return Ok(Who::Block(Block { first, length: if first.is_ipv4() { 32 } else { 128 } }));
    }
    let Some(above) = text.strip_prefix("*.") else {
        return HostName::parse(text).map(Who::Name).map_err(|bad| bad.to_string());
    };
    let above = HostName::parse(above).map_err(|bad| bad.to_string())?;
    if above.labels().count() < 2 && is_public_name(&format!("a.{above}")) {
        return Err(format!("`*.{above}` would be everybody under a top-level domain"));
    }
    Ok(Who::Under(above))
}

fn is_public_name(text: &str) -> bool {
    HostName::parse(text).is_ok_and(|name| judge_host(&Host::Name(name)).is_ok())
}

/// There is no block for everybody.
fn read_block(first: &str, length: &str) -> Result<Block, String> {
    const WIDEST_V4: u32 = 8;
    const WIDEST_V6: u32 = 7;
    let first: IpAddr = first.parse().map_err(|_| "the block does not begin with an address")?;
    let is_plain = (1..=3).contains(&length.len()) && length.bytes().all(|b| b.is_ascii_digit());
    let length: u32 = length.parse().ok().filter(|_| is_plain).ok_or("the length of the block is not a number")?;
    let (widest, whole, free_bits) = match first {
        IpAddr::V4(first) => (WIDEST_V4, 32, u32::from(first).trailing_zeros()),
        IpAddr::V6(first) => (WIDEST_V6, 128, u128::from(first).trailing_zeros()),
    };
    if !(widest..=whole).contains(&length) {
        return Err(format!("the length of the block is not from {widest} to {whole}"));
    }
    if free_bits < whole - length {
        return Err("the block has bits set behind its length".into());
    }
    Ok(Block { first, length })
}
