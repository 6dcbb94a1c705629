//! Rules: whom a room may talk to.

use std::{fmt, net::Ipv4Addr};

use toolgate_contract::Fault;

use toolgate_guard::{
    address::{Special, in_v4, judge},
    host_entry::read_port,
    host_name::HostName,
};

/// The widest block of addresses one rule may list. There is no rule for everybody.
const WIDEST_BLOCK: u32 = 8;
/// How much of a bad rule is quoted back.
const QUOTED: usize = 80;

/// One line of an allowlist: a host and a port.
///
/// `example.com:443` is that name. `*.example.com:443` is every name under it, at any depth, and not `example.com`
/// itself. `10.1.2.3:5432` and `10.1.0.0/16:5432` are addresses, and the only way to reach one that is not public, by
/// itself or by a name that leads to it. They are addresses as the machine sees them: to a room, `127.0.0.1` is the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    host: Host,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Name(HostName),
    Under(HostName),
    Block(Ipv4Addr, u32),
}

impl Rule {
    /// The rule this text spells.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        read(text).map_err(|why| {
            let shown: String = text.chars().take(QUOTED).flat_map(char::escape_debug).collect();
            Fault::failed(
                "bad_egress_rule",
                format!("`{shown}` does not say whom a room may talk to: {why}"),
                "Write `host:port`, `*.host.tld:port`, `1.2.3.4:port` or `10.0.0.0/8:port`.",
            )
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Under(name) => write!(f, "*.{name}:{}", self.port),
            Host::Block(address, 32) => write!(f, "{address}:{}", self.port),
            Host::Block(address, length) => write!(f, "{address}/{length}:{}", self.port),
        }
    }
}

/// An allowlist. What no rule in it names is not reached; an empty one names nobody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// The rules these texts spell; one bad text spoils the list.
    pub fn parse(texts: &[String]) -> Result<Self, Fault> {
        texts.iter().map(|text| Rule::parse(text)).collect::<Result<_, _>>().map(Self)
    }

    /// Does it name nobody?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// May this name be talked to at some port?
    pub fn knows(&self, name: &HostName) -> bool {
        self.0.iter().any(|rule| rule.names(name))
    }

    /// May this name be talked to at this port?
    pub fn allows(&self, name: &HostName, port: u16) -> bool {
        self.0.iter().any(|rule| rule.port == port && rule.names(name))
    }

    /// The addresses that are listed as such: the first of each block, its length, its port.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (Ipv4Addr, u32, u16)> {
        self.0.iter().filter_map(|rule| match rule.host {
            Host::Block(first, length) => Some((first, length, rule.port)),
            Host::Name(_) | Host::Under(_) => None,
        })
    }

    /// Is this address listed, with this port, as an address?
    pub fn lists(&self, address: Ipv4Addr, port: u16) -> bool {
        self.0.iter().any(|rule| rule.port == port && rule.covers(address))
    }
}

impl Rule {
    fn names(&self, name: &HostName) -> bool {
        match &self.host {
            Host::Name(own) => own == name,
            Host::Under(above) => name.is_under(above),
            Host::Block(..) => false,
        }
    }

    /// A block never covers an address that hands out credentials: that one is listed by itself, on purpose.
    fn covers(&self, address: Ipv4Addr) -> bool {
        match self.host {
            Host::Block(only, 32) => only == address,
            Host::Block(block, length) => {
                in_v4(address, block, length) && judge(address.into()) != Err(Special::Metadata)
            }
            Host::Name(_) | Host::Under(_) => false,
        }
    }
}

fn read(text: &str) -> Result<Rule, String> {
    let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
    let port = read_port(port).ok_or("the port is not a number from 1 to 65535")?;
    Ok(Rule { host: read_host(host)?, port })
}

fn read_host(text: &str) -> Result<Host, String> {
    if let Some((address, length)) = text.split_once('/') {
        return read_block(address, length);
    }
    if let Ok(address) = text.parse() {
        return Ok(Host::Block(address, 32));
    }
    if text.starts_with('[') || text.contains(':') {
        return Err("rooms speak IPv4 only, so that no IPv6 address can be listed".into());
    }
    let Some(above) = text.strip_prefix("*.") else {
        return HostName::parse(text).map(Host::Name).map_err(|bad| bad.to_string());
    };
    let above = HostName::parse(above).map_err(|bad| bad.to_string())?;
    if above.labels().count() < 2 {
        return Err(format!("`*.{above}` would be everybody under a top-level domain"));
    }
    Ok(Host::Under(above))
}

fn read_block(address: &str, length: &str) -> Result<Host, String> {
    let address: Ipv4Addr = address.parse().map_err(|_| "the block does not begin with an IPv4 address")?;
    let is_plain = length.len() <= 2 && length.bytes().all(|b| b.is_ascii_digit());
    let length = length.parse().ok().filter(|length| is_plain && (WIDEST_BLOCK..=32).contains(length));
    let length = length.ok_or_else(|| format!("the length of the block is not from {WIDEST_BLOCK} to 32"))?;
    if u32::from(address).trailing_zeros() < 32 - length {
        return Err("the block has bits set behind its length".into());
    }
    Ok(Host::Block(address, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        Rules::parse(&texts.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Rule::parse(text).map(|rule| rule.to_string()).unwrap_or_else(|fault| fault.message), expected);
    }

    #[test]
    fn rules_have_one_spelling() {
        check("example.com:443", "example.com:443");
        check("Example.COM.:443", "example.com:443");
        check("*.Example.com:80", "*.example.com:80");
        check("localhost:1", "localhost:1");
        check("10.1.2.3:65535", "10.1.2.3:65535");
        check("10.1.2.3/32:1", "10.1.2.3:1");
        check("10.0.0.0/8:5432", "10.0.0.0/8:5432");
    }

    #[test]
    fn what_is_no_rule_is_told_why() {
        for (text, why) in [
            ("", "it has no port"),
            ("example.com", "it has no port"),
            ("*", "it has no port"),
            ("example.com:", "the port is not a number from 1 to 65535"),
            ("example.com:0", "the port is not a number from 1 to 65535"),
            ("example.com:65536", "the port is not a number from 1 to 65535"),
            ("example.com:+80", "the port is not a number from 1 to 65535"),
            ("example.com:080", "the port is not a number from 1 to 65535"),
            ("example.com:*", "the port is not a number from 1 to 65535"),
            ("example.com:80-90", "the port is not a number from 1 to 65535"),
            (":443", "it is empty"),
            ("*:443", "host names have only letters, digits, hyphens and underscores between their dots"),
            ("*.:443", "it is empty"),
            ("*.com:443", "`*.com` would be everybody under a top-level domain"),
            ("*.com.:443", "`*.com` would be everybody under a top-level domain"),
            ("*.*.example.com:443", "host names have only letters, digits, hyphens and underscores between their dots"),
            ("a*.example.com:443", "host names have only letters, digits, hyphens and underscores between their dots"),
            ("https://example.com:443", "the block does not begin with an IPv4 address"),
            (
                "user@example.com:443",
                "host names have only letters, digits, hyphens and underscores between their dots",
            ),
            ("127.1:80", "it reads as an address in an unusual spelling"),
            ("010.0.0.1:80", "it reads as an address in an unusual spelling"),
            ("*.0.0.1:80", "it reads as an address in an unusual spelling"),
            ("[::1]:80", "rooms speak IPv4 only, so that no IPv6 address can be listed"),
            ("::1:80", "rooms speak IPv4 only, so that no IPv6 address can be listed"),
            ("0.0.0.0/0:443", "the length of the block is not from 8 to 32"),
            ("128.0.0.0/1:443", "the length of the block is not from 8 to 32"),
            ("10.0.0.0/33:443", "the length of the block is not from 8 to 32"),
            ("10.0.0.0/+8:443", "the length of the block is not from 8 to 32"),
            ("10.0.0.0/:443", "the length of the block is not from 8 to 32"),
            ("10.0.0.1/8:443", "the block has bits set behind its length"),
        ] {
            check(text, &format!("`{text}` does not say whom a room may talk to: {why}"));
        }
        let fault = Rule::parse("a\0b:1").unwrap_err();
        assert_eq!(fault.code, "bad_egress_rule");
        assert!(fault.message.starts_with("`a\\0b:1` "), "{}", fault.message);
    }

    #[test]
    fn one_bad_rule_spoils_the_list() {
        assert!(Rules::parse(&["example.com:443".into(), "example.com".into()]).is_err());
    }

    #[test]
    fn an_empty_list_names_nobody() {
        let nobody = rules(&[]);
        assert!(nobody.is_empty());
        assert!(!nobody.knows(&HostName::parse("example.com").unwrap()));
        assert!(!nobody.lists(Ipv4Addr::LOCALHOST, 80));
    }

    #[test]
    fn names_are_allowed_by_label_and_port() {
        let rules = rules(&["allowed.com:443", "*.wild.org:443", "*.wild.org:80", "127.0.0.1:9"]);
        let allows = |name: &str, port| rules.allows(&HostName::parse(name).unwrap(), port);
        for (name, port, expected) in [
            ("allowed.com", 443, true),
            ("ALLOWED.com.", 443, true),
            ("allowed.com", 80, false),
            ("a.allowed.com", 443, false),
            ("evilallowed.com", 443, false),
            ("allowed.com.evil.com", 443, false),
            ("xn--llowed-8ve.com", 443, false),
            ("wild.org", 443, false),
            ("a.wild.org", 443, true),
            ("a.b.wild.org", 80, true),
            ("a.b.wild.org", 22, false),
            ("evilwild.org", 443, false),
            ("a.wild.org.evil.com", 443, false),
        ] {
            assert_eq!(allows(name, port), expected, "{name}:{port}");
        }
        assert!(rules.knows(&HostName::parse("a.wild.org").unwrap()));
        assert!(!rules.knows(&HostName::parse("wild.org").unwrap()));
    }

    #[test]
    fn addresses_are_listed_by_block_and_port_but_credentials_only_by_themselves() {
        let lists = |texts: &[&str], address: &str, port| rules(texts).lists(address.parse().unwrap(), port);
        assert!(lists(&["10.1.0.0/16:5432"], "10.1.255.255", 5432));
        assert!(!lists(&["10.1.0.0/16:5432"], "10.2.0.0", 5432));
        assert!(!lists(&["10.1.0.0/16:5432"], "10.1.0.1", 22));
        assert!(!lists(&["10.1.2.3:5432"], "10.1.2.4", 5432));
        assert!(!lists(&["example.com:5432"], "10.1.2.3", 5432));
        assert!(!lists(&["169.254.0.0/16:80"], "169.254.169.254", 80));
        assert!(lists(&["169.254.0.0/16:80"], "169.254.1.1", 80));
        assert!(lists(&["169.254.169.254:80"], "169.254.169.254", 80));
    }
}
