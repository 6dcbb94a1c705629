//! The one judge of addresses: by which of them a host may be reached.
//!
//! Who may be talked to is said elsewhere (the rules of a room, what an agent may reach). By which address is said here,
//! for rooms and for the runtime's own client alike: public ones, and those the operator listed as internal.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use toolgate_contract::Fault;
use toolgate_guard::{
    address::{Special, carried, judge},
    host_entry::HostEntry,
    host_name::HostName,
    url::{Host, HostProblem, judge_host},
};

use crate::rule::Rules;

/// Says by which addresses a host may be reached.
#[derive(Debug, Clone, Default)]
pub struct Judge {
    internal: Internal,
    barred: Barred,
}

impl Judge {
    /// A judge who knows of these internal hosts.
    pub fn new(internal: Internal) -> Self {
        Self { internal, barred: Barred::default() }
    }

    /// The same judge, who lets nobody reach these hosts, whatever else is said about them.
    #[must_use]
    pub fn barring(self, barred: Barred) -> Self {
        Self { barred, ..self }
    }

    /// May this host be asked for at all, by its name or, where it is an address, by that?
    pub fn host(&self, host: &Host, port: u16) -> Result<(), Refusal> {
        match host {
            Host::Name(name) if self.barred.names(name, port) => Err(Refusal::Barred(None)),
            Host::Name(name) if self.internal.names(name, port) => Ok(()),
            Host::Name(_) => judge_host(host).map_err(Refusal::Host),
            Host::V4(address) => self.literal(host, (*address).into(), port),
            Host::V6(address) => self.literal(host, (*address).into(), port),
        }
    }

    fn literal(&self, host: &Host, ip: IpAddr, port: u16) -> Result<(), Refusal> {
        self.admit(None, port, &[ip])?;
        match judge_host(host) {
            // There are spellings that nobody has to use for an address that may be reached.
            Err(problem) if !self.internal.lists(ip.to_canonical(), port) => Err(Refusal::Host(problem)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// What may be dialled of what a host was found to lead to: all of it or nothing.
    ///
    /// One bad address spoils the answer. Who controls a name controls which of its addresses is tried, so that picking
    /// the good ones would let an attacker answer with both and wait.
    pub fn admit(&self, name: Option<&HostName>, port: u16, found: &[IpAddr]) -> Result<Vec<SocketAddr>, Refusal> {
        if found.is_empty() {
            return Err(Refusal::NoAddress);
        }
        if name.is_some_and(|name| self.barred.names(name, port)) {
            return Err(Refusal::Barred(None));
        }
        let is_internal = name.is_some_and(|name| self.internal.names(name, port));
        found.iter().map(|ip| self.admit_one(ip.to_canonical(), port, is_internal)).collect()
    }

    fn admit_one(&self, ip: IpAddr, port: u16, is_internal: bool) -> Result<SocketAddr, Refusal> {
        if self.barred.lists(ip, port) {
            return Err(Refusal::Barred(Some(ip)));
        }
        let admitted = Ok(SocketAddr::new(ip, port));
        if self.internal.lists(ip, port) {
            return admitted;
        }
        match judge(ip) {
            Ok(()) if is_internal || !is_own(ip) => admitted,
            Ok(()) => Err(Refusal::Own(ip)),
            // Where a company keeps its services. Other special addresses are nobody's services: they are listed
            // by themselves or not reached.
            Err(Special::Private | Special::Loopback | Special::CarrierNat) if is_internal && !is_detour(ip) => {
                admitted
            }
            Err(special) => Err(Refusal::NotPublic(ip, special)),
        }
    }

    /// The ports some entry speaks of. At all others the judge says the same.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> {
        self.internal.0.iter().chain(&self.barred.0).filter_map(|entry| entry.port)
    }
}

/// Why a host may not be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The host is not one of the public internet.
    #[error("{0}")]
    Host(HostProblem),
    /// It has no address.
    #[error("it has no address")]
    NoAddress,
    /// It leads to an address that is not public and that nobody listed.
    #[error("it leads to `{0}`, which is {about}", about = .1.about())]
    NotPublic(IpAddr, Special),
    /// It leads to this very machine.
    #[error("it leads to `{0}`, which is this machine itself")]
    Own(IpAddr),
    /// A rule puts it out of reach, by its name or by an address it leads to.
    #[error("a rule puts {} out of reach", .0.map_or_else(|| "it".to_owned(), |ip| format!("`{ip}`, which it leads to,")))]
    Barred(Option<IpAddr>),
}

impl Refusal {
    /// The address that is in the way.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::NotPublic(ip, _) | Self::Own(ip) => Some(*ip),
            Self::Barred(address) => *address,
            Self::Host(_) | Self::NoAddress => None,
        }
    }

    /// What a caller is told who asked for this host.
    pub fn fault(&self, host: &str) -> Fault {
        let message = format!("`{host}` is not reached: {self}");
        const INTERNAL: &str =
            "Use a host of the public internet, or ask the operator to put this one on `egress.hostname_allowlist`.";
        match self {
            Self::Host(_) => Fault::refused("host_refused", message, INTERNAL),
            Self::Barred(_) => {
                Fault::refused("host_denied", message, "Use another host, or ask the operator to change the rule.")
            }
            Self::NotPublic(..) | Self::Own(_) => Fault::refused("address_refused", message, INTERNAL),
            Self::NoAddress => Fault::failed("resolve_failed", message, "Check the spelling of the host's name."),
        }
    }
}

/// Hosts that may be internal.
///
/// `host` and `*.host` may have an internal name, and lead to private addresses and to this machine. `10.1.2.3`,
/// `10.0.0.0/8`, `::1` and `fd00::/8` are addresses that may be reached by themselves and by every name that leads to
/// them. A port behind an entry (`host:8080`, `[::1]:8080`) makes it hold at that port only. The addresses under which
/// clouds hand out credentials are reached only where one of them is listed by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Internal(Vec<HostEntry>);

impl Internal {
    /// The hosts these texts spell; one bad text spoils the list.
    pub fn parse(texts: &[String]) -> Result<Self, Fault> {
        let entry = |text: &String| {
            HostEntry::read(text).map_err(|why| {
                let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
                Fault::failed(
                    "bad_internal_host",
                    format!("`{shown}` does not say which host may be internal: {why}"),
                    "Write `host`, `*.host`, an address or a block of addresses, each with `:port` or without.",
                )
            })
        };
        texts.iter().map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// These, and the addresses that a room's rules list.
    #[must_use]
    pub fn with_addresses_of(mut self, rules: &Rules) -> Self {
        let listed = rules.blocks().map(|(address, length, port)| HostEntry::block(address.into(), length, port));
        self.0.extend(listed);
        self
    }

    fn names(&self, name: &HostName, port: u16) -> bool {
        self.0.iter().any(|entry| holds_at(entry, port) && entry.names(name))
    }

    fn lists(&self, ip: IpAddr, port: u16) -> bool {
        self.0.iter().any(|entry| holds_at(entry, port) && entry.lists(ip))
    }
}

/// Hosts that are out of reach, spelt like [`Internal`] ones. Without a port an entry holds at every one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Barred(Vec<HostEntry>);

impl Barred {
    /// The hosts these texts spell; one bad text spoils the list.
    pub fn parse(texts: &[String]) -> Result<Self, Fault> {
        let entry = |text: &String| {
            HostEntry::read(text).map_err(|why| {
                let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
                Fault::failed(
                    "bad_denied_host",
                    format!("`{shown}` does not say which host is out of reach: {why}"),
                    "Write `host`, `*.host`, an address or a block of addresses, each with `:port` or without.",
                )
            })
        };
        texts.iter().map(entry).collect::<Result<_, _>>().map(Self)
    }

    fn names(&self, name: &HostName, port: u16) -> bool {
        self.0.iter().any(|entry| holds_at(entry, port) && entry.names(name))
    }

    fn lists(&self, ip: IpAddr, port: u16) -> bool {
        self.0.iter().any(|entry| holds_at(entry, port) && entry.bars(ip))
    }
}

/// An entry without a port holds at every one.
fn holds_at(entry: &HostEntry, port: u16) -> bool {
    entry.port.is_none_or(|own| own == port)
}

/// Is it an IPv6 address that leads to an IPv4 one? Nobody names a service of their own by one.
fn is_detour(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if carried(v6).is_some())
}

/// Is it an address of this machine, which may well be a public one?
///
/// Connecting a datagram socket sends nothing; it asks the routing table which address a packet would leave from, and
/// to oneself one speaks as oneself.
fn is_own(ip: IpAddr) -> bool {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let leaves_from = |socket: UdpSocket| {
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    UdpSocket::bind((any, 0)).and_then(leaves_from).is_ok_and(|local| local.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge_with(internal: &[&str]) -> Judge {
        Judge::new(Internal::parse(&internal.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap())
    }

    /// What may be dialled at port 443 for `app.corp.example`, or the address that is in the way.
    #[track_caller]
    fn check(internal: &[&str], found: &[&str], expected: Result<&[&str], Option<&str>>) {
        let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().unwrap()).collect();
        let expected = expected
            .map(|all| all.iter().map(|one| one.parse().unwrap()).collect::<Vec<SocketAddr>>())
            .map_err(|address| address.map(|one| one.parse::<IpAddr>().unwrap()));
        let name = HostName::parse("app.corp.example").unwrap();
        let admitted = judge_with(internal).admit(Some(&name), 443, &found);
        assert_eq!(admitted.map_err(|refusal| refusal.address()), expected, "{internal:?} {found:?}");
    }

    const BAD: [&str; 16] = [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.1.1",
        "169.254.169.254",
        "168.63.129.16",
        "198.18.0.1",
        "224.0.0.1",
        "0.0.0.0",
        "::1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "fd00:ec2::254",
        "fe80::1",
    ];

    #[test]
    fn public_addresses_are_dialled_as_they_are() {
        check(&[], &["93.184.216.34"], Ok(&["93.184.216.34:443"]));
        check(&[], &["2606:4700:4700::1111", "1.1.1.1"], Ok(&["[2606:4700:4700::1111]:443", "1.1.1.1:443"]));
        check(&[], &["::ffff:1.1.1.1"], Ok(&["1.1.1.1:443"]));
    }

    #[test]
    fn one_bad_address_spoils_the_answer() {
        check(&[], &[], Err(None));
        for bad in BAD {
            check(&[], &[bad], Err(Some(bad)));
            check(&[], &["93.184.216.34", bad], Err(Some(bad)));
            check(&[], &[bad, "93.184.216.34"], Err(Some(bad)));
        }
        check(&[], &["::ffff:10.0.0.1"], Err(Some("10.0.0.1")));
    }

    #[test]
    fn an_internal_host_leads_to_private_addresses_and_to_no_other_special_ones() {
        let private = ["127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "::1"];
        for internal in ["app.corp.example", "*.corp.example", "app.corp.example:443", "APP.corp.example."] {
            for address in BAD {
                let dialled = SocketAddr::new(address.parse().unwrap(), 443).to_string();
                let expected: Result<&[&str], _> =
                    if private.contains(&address) { Ok(&[&dialled]) } else { Err(Some(address)) };
                check(&[internal], &[address], expected);
            }
        }
        check(&["app.corp.example"], &["10.0.0.1", "169.254.169.254"], Err(Some("169.254.169.254")));
        check(&["app.corp.example"], &[], Err(None));
    }

    #[test]
    fn other_hosts_and_other_ports_are_not_internal() {
        for other in
            ["corp.example", "*.app.corp.example", "app.corp.example:80", "pp.corp.example", "xapp.corp.example"]
        {
            check(&[other], &["10.0.0.1"], Err(Some("10.0.0.1")));
        }
    }

    #[test]
    fn a_listed_address_is_dialled_whoever_leads_to_it() {
        for listed in ["10.0.0.1", "10.0.0.1:443", "10.0.0.0/8", "10.0.0.0/8:443", "::ffff:10.0.0.1"] {
            check(&[listed], &["10.0.0.1", "1.1.1.1"], Ok(&["10.0.0.1:443", "1.1.1.1:443"]));
        }
        for other in ["10.0.0.2", "10.0.0.1:80", "10.1.0.0/16", "::a00:1"] {
            check(&[other], &["10.0.0.1"], Err(Some("10.0.0.1")));
        }
        check(&["fd00::/8"], &["fd00::5"], Ok(&["[fd00::5]:443"]));
        check(&["[fd00::5]:443"], &["fd00::5"], Ok(&["[fd00::5]:443"]));
        check(&["[fd00::/8]:80"], &["fd00::5"], Err(Some("fd00::5")));
    }

    #[test]
    fn credentials_of_machines_are_handed_out_only_where_they_are_listed_by_themselves() {
        check(&["169.254.0.0/16"], &["169.254.169.254"], Err(Some("169.254.169.254")));
        check(&["169.254.0.0/16"], &["169.254.1.1"], Ok(&["169.254.1.1:443"]));
        check(&["fd00::/8"], &["fd00:ec2::254"], Err(Some("fd00:ec2::254")));
        check(&["app.corp.example", "169.254.169.254:80"], &["169.254.169.254"], Err(Some("169.254.169.254")));
        check(&["169.254.169.254"], &["169.254.169.254"], Ok(&["169.254.169.254:443"]));
    }

    #[test]
    fn addresses_that_rules_list_are_dialled_at_their_ports() {
        let rules = Rules::parse(&["10.0.0.0/8:443".into(), "app.corp.example:443".into()]).unwrap();
        let judge = Judge::new(Internal::default().with_addresses_of(&rules));
        let admits = |ip: &str, port| judge.admit(None, port, &[ip.parse().unwrap()]).is_ok();
        assert!(admits("10.9.9.9", 443));
        assert!(!admits("10.9.9.9", 80));
        assert!(!admits("192.168.0.1", 443));
    }

    #[track_caller]
    fn check_host(internal: &[&str], host: &str, expected: Result<(), &str>) {
        let judged = judge_with(internal).host(&Host::read(host).unwrap(), 443);
        assert_eq!(judged.map_err(|refusal| refusal.fault(host).code.into_owned()), expected.map_err(str::to_owned));
    }

    #[test]
    fn hosts_are_judged_by_what_is_written_unless_they_are_listed() {
        check_host(&[], "example.org", Ok(()));
        check_host(&[], "1.1.1.1", Ok(()));
        for internal in ["localhost", "db.internal", "printer.local", "intranet", "metadata.google.internal"] {
            check_host(&[], internal, Err("host_refused"));
            check_host(&[internal], internal, Ok(()));
            check_host(&[&format!("{internal}:80")], internal, Err("host_refused"));
        }
        check_host(&["*.internal"], "db.internal", Ok(()));
        for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]"] {
            check_host(&[], address, Err("address_refused"));
            check_host(&[address], address, Ok(()));
        }
        check_host(&[], "[64:ff9b::101:101]", Err("host_refused"));
        check_host(&[], "[2606:4700:4700::1111]", Ok(()));
    }

    #[test]
    fn what_is_no_internal_host_is_told_why() {
        for (text, why) in [
            ("", "it is empty"),
            ("a b", "host names have only letters, digits, hyphens and underscores between their dots"),
            ("http://a.example", "the port is not a number from 1 to 65535"),
            ("*", "host names have only letters, digits, hyphens and underscores between their dots"),
            ("*.com", "`*.com` would be everybody under a top-level domain"),
            ("a.example:", "the port is not a number from 1 to 65535"),
            ("a.example:0", "the port is not a number from 1 to 65535"),
            ("[::1", "a bracket is not closed"),
            ("[::1]x", "behind the bracket stands no port"),
            ("127.1", "it reads as an address in an unusual spelling"),
            ("0.0.0.0/0", "the length of the block is not from 8 to 32"),
            ("::/0", "the length of the block is not from 7 to 128"),
            ("10.0.0.0/+8", "the length of the block is not a number"),
            ("10.0.0.1/8", "the block has bits set behind its length"),
        ] {
            let fault = Internal::parse(&[text.to_owned()]).unwrap_err();
            assert_eq!(fault.message, format!("`{text}` does not say which host may be internal: {why}"));
        }
    }

    #[test]
    fn what_is_barred_is_not_reached_by_name_by_address_or_by_a_name_that_leads_there() {
        let barred = ["app.corp.example", "*.paste.org", "93.184.216.0/24", "169.254.0.0/16", "10.0.0.9:443"];
        let barred = Barred::parse(&barred.map(str::to_owned)).unwrap();
        let judge = judge_with(&["app.corp.example", "10.0.0.0/8"]).barring(barred);
        let host = |text: &str, port| judge.host(&Host::read(text).unwrap(), port).is_ok();
        assert!(!host("app.corp.example", 443) && !host("APP.corp.example.", 80) && !host("a.b.paste.org", 443));
        assert!(host("paste.org", 443) && host("www.example.org", 443));
        assert!(!host("93.184.216.34", 443) && host("1.1.1.1", 443));
        assert!(!host("10.0.0.9", 443) && host("10.0.0.9", 80) && host("10.0.0.8", 443));
        let admits = |name: &str, found: &[&str]| {
            let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().unwrap()).collect();
            judge.admit(Some(&HostName::parse(name).unwrap()), 443, &found).map_err(|refusal| refusal.address())
        };
        assert_eq!(admits("app.corp.example", &["1.1.1.1"]), Err(None));
        let bad = "93.184.216.34".parse().unwrap();
        assert_eq!(admits("www.example.org", &["1.1.1.1", "93.184.216.34"]), Err(Some(bad)));
        assert_eq!(admits("www.example.org", &["::ffff:93.184.216.34"]), Err(Some(bad)));
        assert!(admits("www.example.org", &["1.1.1.1"]).is_ok());
        assert!(judge.ports().any(|port| port == 443), "the client keeps a port of its own for it");
        assert!(Barred::parse(&["*".to_owned()]).is_err());
    }

    #[test]
    fn the_machine_knows_itself() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(93, 184, 216, 34).into()));
    }
}
