//! URLs of the web: one reader for everything that is fetched, followed or shown.
//!
//! The text is parsed once, by the rules browsers follow, and [`WebUrl`] is what everybody uses after that: to judge, to
//! look up, to dial, to send and to show. What other programs would read differently is not repaired but refused, so
//! that the host that was judged and the host that is talked to cannot be two.
//!
//! [`judge_host`] says whether a host belongs to the public internet by what is written. What a name leads to is only
//! known once it has been looked up; those addresses go through [`crate::address::judge`].

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use unicode_normalization::UnicodeNormalization as _;
use unicode_security::mixed_script::AugmentedScriptSet;
use url::{ParseError, Position, Url};

use crate::{
    address::{self, Special},
    host_name::{BadName, HostName},
};

/// The longest URL. Signed ones have a few thousand characters.
pub const MAX_URL: usize = 16 * 1024;

/// A URL of the web, read and normalised.
///
/// Its scheme is `http` or `https`, it names a host in the one spelling that everybody reads alike, and it carries no
/// user or password.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebUrl {
    url: Url,
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl WebUrl {
    /// The URL this text spells.
    pub fn read(text: &str) -> Result<Self, BadUrl> {
        if text.len() > MAX_URL {
            return Err(BadUrl::TooLong);
        }
        check_characters(text)?;
        let (scheme, authority) = split(text)?;
        if authority.contains('@') {
            return Err(BadUrl::Userinfo);
        }
        let (written_host, written_port) = split_port(authority)?;
        check_port(written_port)?;
        if written_host.contains('%') {
            return Err(if written_host.starts_with('[') { BadUrl::Zone } else { BadUrl::PercentInHost });
        }
        let mut url = Url::parse(text)?;
        let host = read_host(written_host, &url)?;
        if let Host::Name(name) = &host {
            // The trailing dot goes: a server is asked for the name that was judged.
            url.set_host(Some(name.as_str()))?;
        }
        let port = url.port().unwrap_or(scheme.default_port());
        Ok(Self { url, scheme, host, port })
    }

    /// Where a redirect leads: `location` is a whole URL, or one relative to this one.
    pub fn join(&self, location: &str) -> Result<Self, BadUrl> {
        check_characters(location)?;
        if location.starts_with("//") {
            return Self::read(&format!("{}:{location}", self.scheme));
        }
        match scheme_of(location) {
            Some(_) => Self::read(location),
            None => Self::read(self.url.join(location)?.as_str()),
        }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, as it is looked up or dialled.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, written or by default.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Do both lead to the same server, in the same way?
    pub fn same_origin(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// Would following a redirect from here to `next` give up encryption?
    pub fn downgrades_to(&self, next: &Self) -> bool {
        self.scheme == Scheme::Https && next.scheme == Scheme::Http
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// The normalised text as far as servers may know it.
    pub fn without_fragment(&self) -> &str {
        &self.url[..Position::AfterQuery]
    }

    /// The host, and the port unless it is the default one: what a `Host` header says.
    pub fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    /// The path and the query: what a request asks the host for.
    pub fn path_and_query(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// The path alone. It begins with `/`.
    pub fn path(&self) -> &str {
        self.url.path()
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a server is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// In the open.
    Http,
    /// Encrypted.
    Https,
}

impl Scheme {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port when none is written.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whom a URL is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// Somebody who has to be looked up.
    Name(HostName),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
}

impl Host {
    /// The host in its plain spelling: a name in ASCII, four decimal numbers, or an IPv6 address in brackets.
    pub fn read(text: &str) -> Result<Self, BadUrl> {
        if let Some(inside) = text.strip_prefix('[') {
            let inside = inside.strip_suffix(']').ok_or(BadUrl::BadAddress)?;
            return inside.parse().map(Self::V6).map_err(|_| BadUrl::BadAddress);
        }
        match text.parse() {
            Ok(address) => Ok(Self::V4(address)),
            Err(_) => Ok(Self::Name(HostName::parse(text)?)),
        }
    }

    /// The name, if it is one.
    pub fn name(&self) -> Option<&HostName> {
        match self {
            Self::Name(name) => Some(name),
            Self::V4(_) | Self::V6(_) => None,
        }
    }

    /// The address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::V4(address) => Some((*address).into()),
            Self::V6(address) => Some((*address).into()),
        }
    }
}

impl fmt::Display for Host {
    /// As it stands in a URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// Why a text is not taken for a URL of the web.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Longer than anybody needs.
    #[error("it is longer than {MAX_URL} bytes")]
    TooLong,
    /// Some readers drop these, others end at them, and some take `\` for `/`.
    #[error("it has a space, a control character or a backslash in it")]
    BadCharacter,
    /// Nothing says how to talk to the host.
    #[error("it does not begin with `http://` or `https://`")]
    NoScheme,
    /// Not the web.
    #[error("only `http` and `https` are spoken")]
    Scheme,
    /// Readers differ on where the host begins.
    #[error("its scheme is not followed by two slashes and a host")]
    NoSlashes,
    /// A user or password in front of the host.
    #[error("it has a user or a password in front of its host")]
    Userinfo,
    /// Nobody is named.
    #[error("its host is empty")]
    EmptyHost,
    /// Readers differ on whether a host is decoded.
    #[error("its host has an escape (`%`) in it")]
    PercentInHost,
    /// A zone names a cable of this machine.
    #[error("its address names a network interface of this machine (`%`)")]
    Zone,
    /// No port has this number.
    #[error("its port is not a plain number from 1 to 65535")]
    BadPort,
    /// Readers differ on which address it is.
    #[error("its address is in an unusual spelling, which programs read differently")]
    OddAddress,
    /// It looks like an address.
    #[error("its host looks like an address and is none")]
    BadAddress,
    /// What would be looked up is not what is written.
    #[error("its host has characters that change or vanish before it is looked up")]
    OddHost,
    /// A letter that passes for another.
    #[error("a part of its host mixes scripts whose letters pass for one another")]
    MixedScripts,
    /// Characters or an encoding that no name has.
    #[error("its host is not a name that can be looked up")]
    BadHost,
    /// A name that cannot be.
    #[error("its host is not a name: {0}")]
    BadName(#[from] BadName),
}

impl BadUrl {
    /// The stable word for it.
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLong => "url_too_long",
            Self::BadCharacter => "bad_character",
            Self::NoScheme => "no_scheme",
            Self::Scheme => "scheme_refused",
            Self::NoSlashes => "no_slashes",
            Self::Userinfo => "userinfo",
            Self::EmptyHost => "empty_host",
            Self::PercentInHost => "percent_in_host",
            Self::Zone => "zone_id",
            Self::BadPort => "bad_port",
            Self::OddAddress => "odd_address",
            Self::BadAddress => "bad_address",
            Self::OddHost => "odd_host",
            Self::MixedScripts => "mixed_scripts",
            Self::BadHost | Self::BadName(_) => "bad_host",
        }
    }
}

impl From<ParseError> for BadUrl {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::EmptyHost => Self::EmptyHost,
            ParseError::InvalidPort => Self::BadPort,
            ParseError::InvalidIpv4Address | ParseError::InvalidIpv6Address => Self::BadAddress,
            _ => Self::BadHost,
        }
    }
}

/// Is this a host of the public internet, as far as its spelling tells?
///
/// Names are only judged by whether they could belong to anybody on the internet. A name that spells a private address
/// for a wildcard service is like any other: what it leads to is judged when it has been looked up.
pub fn judge_host(host: &Host) -> Result<(), HostProblem> {
    match host {
        Host::Name(name) => judge_name(name),
        Host::V4(v4) => judge_literal((*v4).into()),
        Host::V6(v6) => match address::carried(*v6) {
            // A name may lead to such an address where IPv6 is all there is. Nobody has to write one.
            Some(carried) if address::judge((*v6).into()).is_ok() => {
                Err(HostProblem::Carries { address: *v6, carried })
            }
            _ => judge_literal((*v6).into()),
        },
    }
}

/// Why a host is not one of the public internet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostProblem {
    /// An address that is not public.
    #[error("`{address}` is {}", .special.about())]
    Address {
        /// Which.
        address: IpAddr,
        /// What it is.
        special: Special,
    },
    /// An IPv6 address that is another way to write an IPv4 one.
    #[error("`{address}` leads to the IPv4 address `{carried}`, which would be written as it is")]
    Carries {
        /// As written.
        address: Ipv6Addr,
        /// Where it leads.
        carried: Ipv4Addr,
    },
    /// A name that is not one of the internet.
    #[error("`{name}` {}", .kind.about())]
    Name {
        /// Which.
        name: HostName,
        /// What it is.
        kind: NameKind,
    },
}

impl HostProblem {
    /// The stable word for it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address { special, .. } => special.as_str(),
            Self::Carries { .. } => "carries_ipv4",
            Self::Name { kind, .. } => kind.as_str(),
        }
    }
}

/// What a name is that is not one of the internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// The machine itself.
    ThisMachine,
    /// Hands out a machine's credentials in some cloud.
    Metadata,
    /// One label: the search list of a network decides who that is.
    SingleLabel,
    /// Only known inside somebody's network or cluster.
    Internal,
    /// Belongs to nobody, by agreement.
    Reserved,
    /// Looked up by another network than the internet.
    Overlay,
}

impl NameKind {
    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ThisMachine => "localhost_name",
            Self::Metadata => "metadata_name",
            Self::SingleLabel => "single_label_name",
            Self::Internal => "internal_name",
            Self::Reserved => "reserved_name",
            Self::Overlay => "overlay_name",
        }
    }

    /// The rest of a sentence that begins with the name.
    pub fn about(self) -> &'static str {
        match self {
            Self::ThisMachine => "is the machine itself",
            Self::Metadata => "hands out a machine's credentials",
            Self::SingleLabel => "has a single label, and every network decides for itself who that is",
            Self::Internal => "is a name inside somebody's own network",
            Self::Reserved => "is reserved and belongs to nobody",
            Self::Overlay => "is not looked up on the internet",
        }
    }
}

/// Names under which clouds hand out credentials, whatever they lead to.
const METADATA_NAMES: [&str; 7] = [
    "metadata",
    "instance-data",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
];

/// Names that no registry gives out, with all that is under them.
///
/// From the registry of special-use domain names, the names withheld because networks use them inside (`home`, `corp`,
/// `mail` and the appendix of the multicast DNS standard), and those that clusters and their tools make up.
const RESERVED_ENDS: [(&str, NameKind); 22] = [
    ("localhost", NameKind::ThisMachine),
    ("local", NameKind::Internal),
    ("localdomain", NameKind::Internal),
    ("localdomain6", NameKind::Internal),
    ("internal", NameKind::Internal),
    ("intranet", NameKind::Internal),
    ("private", NameKind::Internal),
    ("lan", NameKind::Internal),
    ("home", NameKind::Internal),
    ("home.arpa", NameKind::Internal),
    ("corp", NameKind::Internal),
    ("mail", NameKind::Internal),
    ("svc", NameKind::Internal),
    ("kubernetes.default", NameKind::Internal),
    ("consul", NameKind::Internal),
    ("arpa", NameKind::Reserved),
    ("test", NameKind::Reserved),
    ("invalid", NameKind::Reserved),
    ("example", NameKind::Reserved),
    ("alt", NameKind::Reserved),
    ("onion", NameKind::Overlay),
    ("i2p", NameKind::Overlay),
];

fn judge_literal(address: IpAddr) -> Result<(), HostProblem> {
    address::judge(address).map_err(|special| HostProblem::Address { address, special })
}

fn judge_name(name: &HostName) -> Result<(), HostProblem> {
    let kind = if METADATA_NAMES.contains(&name.as_str()) {
        NameKind::Metadata
    } else if let Some((_, kind)) = RESERVED_ENDS.iter().find(|(end, _)| ends_with(name, end)) {
        *kind
    } else if name.labels().count() == 1 {
        NameKind::SingleLabel
    } else {
        return Ok(());
    };
    Err(HostProblem::Name { name: name.clone(), kind })
}

/// Is it `end`, or something under it?
fn ends_with(name: &HostName, end: &str) -> bool {
    name.as_str().strip_suffix(end).is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

fn check_characters(text: &str) -> Result<(), BadUrl> {
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    if text.contains(is_bad) { Err(BadUrl::BadCharacter) } else { Ok(()) }
}

/// The scheme and the authority, where every reader finds them.
fn split(text: &str) -> Result<(Scheme, &str), BadUrl> {
    let written = scheme_of(text).ok_or(BadUrl::NoScheme)?;
    let scheme = match written.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return Err(BadUrl::Scheme),
    };
    let rest = text[written.len() + 1..].strip_prefix("//").ok_or(BadUrl::NoSlashes)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() { Err(BadUrl::EmptyHost) } else { Ok((scheme, authority)) }
}

/// What stands in front of the first colon, if it can be a scheme.
pub(crate) fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    is_scheme.then_some(scheme)
}

/// The host, with the brackets of an IPv6 address, and what follows its colon.
pub(crate) fn split_port(authority: &str) -> Result<(&str, Option<&str>), BadUrl> {
    let end = if authority.starts_with('[') {
        authority.find(']').ok_or(BadUrl::BadAddress)? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    match authority.split_at(end) {
        ("", _) => Err(BadUrl::EmptyHost),
        (host, "") => Ok((host, None)),
        (host, rest) => Ok((host, Some(rest.strip_prefix(':').ok_or(BadUrl::BadAddress)?))),
    }
}

fn check_port(written: Option<&str>) -> Result<(), BadUrl> {
    match written {
        // An empty port is the default one to everybody.
        None | Some("") => Ok(()),
        Some(port) => read_port(port).map(drop).ok_or(BadUrl::BadPort),
    }
}

/// A port in its one spelling: digits, no sign, no leading zero.
pub(crate) fn read_port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    if is_plain { text.parse().ok() } else { None }
}

/// The host that was parsed, provided that it is what was written.
fn read_host(written: &str, url: &Url) -> Result<Host, BadUrl> {
    match url.host() {
        None => Err(BadUrl::EmptyHost),
        Some(url::Host::Ipv4(v4)) if written == v4.to_string() => Ok(Host::V4(v4)),
        Some(url::Host::Ipv6(v6)) if Host::read(written) == Ok(Host::V6(v6)) => Ok(Host::V6(v6)),
        Some(url::Host::Ipv4(_) | url::Host::Ipv6(_)) => Err(BadUrl::OddAddress),
        Some(url::Host::Domain(ascii)) => {
            let name = HostName::parse(ascii)?;
            check_name(written, &name)?;
            Ok(Host::Name(name))
        }
    }
}

/// Is the name in ASCII the one that was written, but for capitals and the order of accents?
///
/// On the way to ASCII, soft hyphens and other invisible characters vanish, and wide, circled or ornamental letters
/// become plain ones. No person means that, and programs differ on it.
fn check_name(written: &str, name: &HostName) -> Result<(), BadUrl> {
    let written = written.strip_suffix('.').unwrap_or(written);
    if written.split('.').count() != name.labels().count() {
        return Err(BadUrl::OddHost);
    }
    written.split('.').zip(name.labels()).try_for_each(|(written, ascii)| check_label(written, ascii))
}

fn check_label(written: &str, ascii: &str) -> Result<(), BadUrl> {
    let (shown, valid) = idna::domain_to_unicode(ascii);
    valid.map_err(|_| BadUrl::BadHost)?;
    let lowered: String = written.chars().flat_map(char::to_lowercase).nfc().collect();
    let is_as_written = if written.is_ascii() { lowered == ascii } else { lowered == shown && shown != ascii };
    if !is_as_written {
        return Err(BadUrl::OddHost);
    }
    if passes_for_another(&shown) { Err(BadUrl::MixedScripts) } else { Ok(()) }
}

/// Does a label mix scripts that nobody writes together? Latin beside Chinese, Japanese or Korean is what people write;
/// Latin with one Cyrillic letter is not.
fn passes_for_another(label: &str) -> bool {
    let others: String = label.chars().filter(|c| !c.is_ascii()).collect();
    let (all, others) = (AugmentedScriptSet::for_str(label), AugmentedScriptSet::for_str(&others));
    all.is_empty() && !(others.hanb || others.jpan || others.kore)
}
