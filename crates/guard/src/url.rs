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
    #[error("`{address}` is another way to write the IPv4 address `{carried}`")]
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
pub fn read_port(text: &str) -> Option<u16> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text as it is read, or why it is not, or why its host is not let through.
    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let read = WebUrl::read(text).map_err(BadUrl::code);
        let judged = read.and_then(|url| judge_host(url.host()).map(|()| url).map_err(|problem| problem.code()));
        assert_eq!(judged.as_ref().map(WebUrl::as_str).map_err(|code| *code), expected, "{text:?}");
    }

    #[test]
    fn plain_urls_are_read_and_normalised() {
        for (text, expected) in [
            ("https://docs.rs", "https://docs.rs/"),
            ("HTTPS://Docs.RS:443/a/../b?q=1#part", "https://docs.rs/b?q=1#part"),
            ("http://docs.rs:8080/%2e%2e/x", "http://docs.rs:8080/x"),
            ("http://docs.rs:/", "http://docs.rs/"),
            ("https://docs.rs./x", "https://docs.rs/x"),
            ("https://docs.rs/?to=http://127.0.0.1/&at=a@b", "https://docs.rs/?to=http://127.0.0.1/&at=a@b"),
            ("https://docs.rs/~me/a:b;c,d@e", "https://docs.rs/~me/a:b;c,d@e"),
            ("https://docs.rs/é?q=ü", "https://docs.rs/%C3%A9?q=%C3%BC"),
            ("https://docs.rs?q", "https://docs.rs/?q"),
            ("https://docs.rs#x", "https://docs.rs/#x"),
            ("https://my_bucket.s3.amazonaws.com/", "https://my_bucket.s3.amazonaws.com/"),
            ("https://r3---sn-4g5e.googlevideo.com/", "https://r3---sn-4g5e.googlevideo.com/"),
            ("https://10.docs.rs/", "https://10.docs.rs/"),
            ("https://127.0.0.1.docs.rs/", "https://127.0.0.1.docs.rs/"),
            ("https://localhost.docs.rs/", "https://localhost.docs.rs/"),
            ("https://1.1.1.1/", "https://1.1.1.1/"),
            ("https://[2606:4700:4700:0000::1111]:8443/", "https://[2606:4700:4700::1111]:8443/"),
            ("https://[2606:4700:4700::ABCD]/", "https://[2606:4700:4700::abcd]/"),
        ] {
            check(text, Ok(expected));
        }
    }

    #[test]
    fn only_the_web_is_spoken() {
        for other in [
            "file:///etc/passwd",
            "FILE://localhost/etc/passwd",
            "ftp://docs.rs/",
            "gopher://docs.rs:25/_x",
            "ws://docs.rs/",
            "ssh://git@docs.rs/x",
            "data:text/plain,x",
            "javascript:alert(1)",
            "blob:https://docs.rs/x",
            "view-source:https://docs.rs/",
            "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
            "docs.rs:443/x",
            "httpss://docs.rs/",
        ] {
            check(other, Err("scheme_refused"));
        }
        for none in ["", "docs.rs", "//docs.rs/", "/x", "?x", "0://docs.rs/", ":80", "://docs.rs/", "héttp://docs.rs/"]
        {
            check(none, Err("no_scheme"));
        }
    }

    #[test]
    fn what_readers_split_differently_is_refused() {
        for (text, code) in [
            ("http:docs.rs/", "no_slashes"),
            ("http:/docs.rs/", "no_slashes"),
            ("http:", "no_slashes"),
            ("http://", "empty_host"),
            ("http:///docs.rs/", "empty_host"),
            ("http://?x", "empty_host"),
            ("http://#x", "empty_host"),
            ("http://:80/", "empty_host"),
            ("http://::1/", "empty_host"),
            ("http://user@docs.rs/", "userinfo"),
            ("http://user:secret@docs.rs/", "userinfo"),
            ("http://@docs.rs/", "userinfo"),
            ("http://:@docs.rs/", "userinfo"),
            ("http://docs.rs%2f@127.0.0.1/", "userinfo"),
            ("http://docs.rs:80@127.0.0.1/", "userinfo"),
            ("http://[::1]:80@docs.rs/", "userinfo"),
            ("http://docs.rs:0/", "bad_port"),
            ("http://docs.rs:080/", "bad_port"),
            ("http://docs.rs:65536/", "bad_port"),
            ("http://docs.rs:99999999999/", "bad_port"),
            ("http://docs.rs:80:80/", "bad_port"),
            ("http://docs.rs:+80/", "bad_port"),
            ("http://docs.rs:８０/", "bad_port"),
            ("http://docs.rs:8o/", "bad_port"),
        ] {
            check(text, Err(code));
        }
        for text in [
            " http://docs.rs/",
            "http://docs.rs/ ",
            "http:// docs.rs/",
            "http://docs.rs/a b",
            "http://docs.rs/\n",
            "ht\ntp://docs.rs/",
            "http://docs\t.rs/",
            "http://docs.rs/\r\nHost: x",
            "http://docs.rs/\0",
            "http://docs.rs/\u{7f}",
            "http://docs.rs/\u{85}",
            "http://docs.rs/\u{a0}",
            "http://docs.rs/\u{2028}",
            "http://docs.rs/\u{3000}",
            "http:\\\\docs.rs\\",
            "http://docs.rs\\@127.0.0.1/",
            "http://docs.rs/#\\@127.0.0.1/",
            "\\\\docs.rs\\share",
        ] {
            check(text, Err("bad_character"));
        }
    }

    #[test]
    fn an_address_has_one_spelling() {
        for odd in [
            "2130706433",
            "134744072",
            "0x7f000001",
            "0X7F000001",
            "0x7f.0.0.1",
            "0x7f.1",
            "0x",
            "0",
            "00",
            "0.0",
            "017700000001",
            "0177.0.0.1",
            "00000177.0.0.1",
            "010.0.0.1",
            "8.8.8.010",
            "127.1",
            "127.0.1",
            "192.168.257",
            "127.0.0.1.",
            "8.8.8.8.",
            "127。0。0。1",
            "127．0．0．1",
            "127｡0｡0｡1",
            "１２７.0.0.1",
            "①②⑦.⓪.⓪.①",
            "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
            "127.0.0.1\u{200b}",
            "127.0.0.\u{ad}1",
            "１",
        ] {
            check(&format!("http://{odd}/"), Err("odd_address"));
        }
        for none in [
            "256.256.256.256",
            "127.0.0.1.1",
            "4294967296",
            "0x100000000",
            "08.8.8.8",
            "docs.1",
            "docs.0x1",
            "1.2.3.4.5",
        ] {
            check(&format!("http://{none}/"), Err("bad_address"));
        }
        for (inside, code) in [
            ("[::1", "bad_address"),
            ("[::1]x", "bad_address"),
            ("[::1]x:80", "bad_address"),
            ("[]", "bad_address"),
            ("[1.1.1.1]", "bad_address"),
            ("[docs.rs]", "bad_address"),
            ("[::ffff:1.2.3]", "bad_address"),
            ("[1:2:3:4:5:6:7:8:9]", "bad_address"),
            ("[fe80::1%25eth0]", "zone_id"),
            ("[fe80::1%eth0]", "zone_id"),
            ("[::ffff:127.0.0.1%0]", "zone_id"),
        ] {
            check(&format!("http://{inside}/"), Err(code));
        }
    }

    #[test]
    fn no_host_is_decoded() {
        for host in ["%31%30.0.0.1", "docs%2ers", "127.0.0.1%23.docs.rs", "127.0.0.1%0d%0aX:1", "%", "127%E3%80%820"] {
            check(&format!("http://{host}/"), Err("percent_in_host"));
        }
    }

    #[test]
    fn other_scripts_are_encoded_when_nothing_changes_on_the_way() {
        for (text, expected) in [
            ("https://bücher.de/", "https://xn--bcher-kva.de/"),
            ("https://BÜCHER.de/", "https://xn--bcher-kva.de/"),
            ("https://bu\u{308}cher.de/", "https://xn--bcher-kva.de/"),
            ("https://xn--bcher-kva.de/", "https://xn--bcher-kva.de/"),
            ("https://XN--BCHER-KVA.de/", "https://xn--bcher-kva.de/"),
            ("https://faß.de/", "https://xn--fa-hia.de/"),
            ("https://россия.рф/", "https://xn--h1alffa9f.xn--p1ai/"),
            ("https://россия.xn--p1ai/", "https://xn--h1alffa9f.xn--p1ai/"),
            ("https://例え.jp/", "https://xn--r8jz45g.jp/"),
            ("https://ソニーstore.jp/", "https://xn--store-8q4drd9r.jp/"),
            ("https://i❤.ws/", "https://xn--i-7iq.ws/"),
            ("https://ΕΛΛΑΣ.gr/", "https://xn--mxahsa5b.gr/"),
        ] {
            check(text, Ok(expected));
        }
        for odd in [
            "do\u{ad}cs.rs",
            "do\u{200b}cs.rs",
            "do\u{2060}cs.rs",
            "do\u{feff}cs.rs",
            "docs.rs\u{fe0f}",
            "ｄocs.rs",
            "ⓓⓞⓒⓢ.rs",
            "docs。rs",
            "docs．rs",
            "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
            "𝐥𝐨𝐜𝐚𝐥𝐡𝐨𝐬𝐭",
            "ﬁle.docs.rs",
            "\u{212a}.docs.rs",
            "docs.ﾃｽﾄ",
        ] {
            check(&format!("http://{odd}/"), Err("odd_host"));
        }
        for mixed in ["gооgle.com", "xn--ggle-55da.com", "раypal.com", "lоcalhost", "αpple.com"] {
            check(&format!("http://{mixed}/"), Err("mixed_scripts"));
        }
        for bad in [
            "xn--a",
            "xn--.com",
            "xn--localhost-.com",
            "xn--zzzzzz99999999.com",
            "docs.rs／x",
            "a℀.com",
            "docs.rs\u{202e}",
            "docs<.rs",
            "docs^.rs",
            "a..b",
            ".docs.rs",
            "docs.rs..",
            "-docs.rs",
            "docs-.rs",
            "*.docs.rs",
            "docs,rs",
            "a'b.docs.rs",
        ] {
            check(&format!("http://{bad}/"), Err("bad_host"));
        }
        check(&format!("http://{}.rs/", "a".repeat(64)), Err("bad_host"));
        check(&format!("http://{}rs/", "a.".repeat(127)), Err("bad_host"));
    }

    #[test]
    fn names_that_are_not_of_the_internet_are_refused() {
        for (host, code) in [
            ("localhost", "localhost_name"),
            ("LOCALHOST.", "localhost_name"),
            ("a.b.localhost", "localhost_name"),
            ("docker.for.mac.localhost", "localhost_name"),
            ("localhost.localdomain", "internal_name"),
            ("localhost6.localdomain6", "internal_name"),
            ("printer.local", "internal_name"),
            ("kubernetes.default.svc.cluster.local", "internal_name"),
            ("kubernetes.default.svc", "internal_name"),
            ("kubernetes.default", "internal_name"),
            ("host.docker.internal", "internal_name"),
            ("ip-10-0-0-1.ec2.internal", "internal_name"),
            ("router.lan", "internal_name"),
            ("nas.home", "internal_name"),
            ("nas.home.arpa", "internal_name"),
            ("wiki.corp", "internal_name"),
            ("wiki.intranet", "internal_name"),
            ("wiki.private", "internal_name"),
            ("mx.mail", "internal_name"),
            ("db.service.consul", "internal_name"),
            ("intranet", "internal_name"),
            ("wiki", "single_label_name"),
            ("com", "single_label_name"),
            ("foolocalhost", "single_label_name"),
            ("metadata", "metadata_name"),
            ("instance-data", "metadata_name"),
            ("Metadata.Google.Internal.", "metadata_name"),
            ("metadata.goog", "metadata_name"),
            ("instance-data.ec2.internal", "metadata_name"),
            ("1.0.0.127.in-addr.arpa", "reserved_name"),
            ("a.test", "reserved_name"),
            ("a.invalid", "reserved_name"),
            ("a.example", "reserved_name"),
            ("a.alt", "reserved_name"),
            ("a.onion", "overlay_name"),
            ("a.i2p", "overlay_name"),
        ] {
            check(&format!("http://{host}/"), Err(code));
        }
        for host in
            ["example.com", "a.locals.com", "lan.de", "notlocal.net", "test.de", "127.0.0.1.nip.io", "localtest.me"]
        {
            check(&format!("http://{host}/"), Ok(&format!("http://{host}/")));
        }
    }

    #[test]
    fn addresses_are_judged_by_the_table() {
        for (host, code) in [
            ("127.0.0.1", "loopback"),
            ("10.0.0.1", "private"),
            ("169.254.169.254", "metadata"),
            ("168.63.129.16", "metadata"),
            ("0.0.0.0", "this_network"),
            ("100.64.0.1", "carrier_nat"),
            ("[::1]", "loopback"),
            ("[::]", "this_network"),
            ("[fe80::1]", "link_local"),
            ("[fd00:ec2::254]", "metadata"),
            ("[::ffff:127.0.0.1]", "loopback"),
            ("[0:0:0:0:0:ffff:a9fe:a9fe]", "metadata"),
            ("[64:ff9b::10.0.0.1]", "private"),
            ("[2002:7f00:1::1]", "tunnel"),
            ("[::ffff:8.8.8.8]", "carries_ipv4"),
            ("[64:ff9b::8.8.8.8]", "carries_ipv4"),
            ("[2a00:1450::5efe:8.8.8.8]", "carries_ipv4"),
            ("[2a00:1450::5efe:10.0.0.1]", "private"),
        ] {
            check(&format!("http://{host}/"), Err(code));
        }
    }

    #[test]
    fn the_parts_are_those_of_the_normalised_text() {
        let url = WebUrl::read("HTTPS://Docs.RS.:8443/a/./b?q=1#part").unwrap();
        assert_eq!(url.to_string(), "https://docs.rs:8443/a/b?q=1#part");
        assert_eq!(url.without_fragment(), "https://docs.rs:8443/a/b?q=1");
        assert_eq!((url.authority(), url.path_and_query(), url.path()), ("docs.rs:8443", "/a/b?q=1", "/a/b"));
        assert_eq!((url.scheme(), url.port()), (Scheme::Https, 8443));
        assert_eq!(url.host(), &Host::Name(HostName::parse("docs.rs").unwrap()));
        let url = WebUrl::read("http://[2606:4700::1]:80").unwrap();
        assert_eq!((url.authority(), url.path_and_query(), url.port()), ("[2606:4700::1]", "/", 80));
        assert_eq!(url.host().address(), "2606:4700::1".parse().ok());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same = |a: &str, b: &str| WebUrl::read(a).unwrap().same_origin(&WebUrl::read(b).unwrap());
        assert!(same("https://docs.rs/a", "https://DOCS.rs.:443/b#c"));
        assert!(!same("https://docs.rs/", "http://docs.rs/"));
        assert!(!same("https://docs.rs/", "https://docs.rs:8443/"));
        assert!(!same("https://docs.rs/", "https://a.docs.rs/"));
        assert!(!same("http://docs.rs:443/", "https://docs.rs/"));
    }

    #[test]
    fn redirects_are_read_like_urls() {
        let from = WebUrl::read("https://docs.rs/a/b?q#f").unwrap();
        for (location, expected) in [
            ("", Ok("https://docs.rs/a/b?q")),
            ("c", Ok("https://docs.rs/a/c")),
            ("/c?x=http://10.0.0.1/", Ok("https://docs.rs/c?x=http://10.0.0.1/")),
            ("../../../c:d", Ok("https://docs.rs/c:d")),
            ("?r", Ok("https://docs.rs/a/b?r")),
            ("/é", Ok("https://docs.rs/%C3%A9")),
            ("//Crates.IO./x", Ok("https://crates.io/x")),
            ("http://crates.io", Ok("http://crates.io/")),
            ("///crates.io/", Err(BadUrl::EmptyHost)),
            ("https:/crates.io/", Err(BadUrl::NoSlashes)),
            ("https:crates.io/", Err(BadUrl::NoSlashes)),
            ("//user@crates.io/", Err(BadUrl::Userinfo)),
            ("//0x7f.1/", Err(BadUrl::OddAddress)),
            ("file:///etc/passwd", Err(BadUrl::Scheme)),
            ("c:d", Err(BadUrl::Scheme)),
            ("/\\crates.io/", Err(BadUrl::BadCharacter)),
            ("\t//crates.io/", Err(BadUrl::BadCharacter)),
            ("/a b", Err(BadUrl::BadCharacter)),
        ] {
            assert_eq!(from.join(location).as_ref().map(WebUrl::as_str).map_err(|bad| *bad), expected, "{location:?}");
        }
        assert_eq!(from.join(&"a".repeat(MAX_URL)), Err(BadUrl::TooLong));
    }

    #[test]
    fn length_is_bounded() {
        let longest = format!("https://docs.rs/{}", "a".repeat(MAX_URL - 16));
        check(&longest, Ok(&longest));
        check(&format!("{longest}a"), Err("url_too_long"));
    }

    #[test]
    fn giving_up_encryption_is_seen() {
        let (open, closed) = (WebUrl::read("http://docs.rs").unwrap(), WebUrl::read("https://docs.rs").unwrap());
        assert!(closed.downgrades_to(&open));
        assert!(!open.downgrades_to(&closed) && !open.downgrades_to(&open) && !closed.downgrades_to(&closed));
    }

    /// Reads an address as the C library does: one to four parts, decimal, octal or hexadecimal.
    fn as_c_reads_it(text: &str) -> Option<Ipv4Addr> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let parts: Vec<u64> = text.split('.').map(number).collect::<Option<_>>()?;
        let (last, front) = parts.split_last()?;
        if front.len() > 3 || front.iter().any(|part| *part > 255) || *last >= 1 << (8 * (4 - front.len())) {
            return None;
        }
        let high = front.iter().enumerate().map(|(index, part)| part << (24 - 8 * index)).sum::<u64>();
        u32::try_from(high + last).ok().map(Ipv4Addr::from)
    }

    fn number(text: &str) -> Option<u64> {
        let lowered = text.to_ascii_lowercase();
        match lowered.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(if hex.is_empty() { "0" } else { hex }, 16).ok(),
            None if lowered.len() > 1 && lowered.starts_with('0') => u64::from_str_radix(&lowered, 8).ok(),
            None => lowered.parse().ok(),
        }
    }

    /// What the standard library knows about, beside the table.
    fn is_inside(address: Ipv4Addr) -> bool {
        address.is_private() || address.is_loopback() || address.is_link_local() || address.is_unspecified()
    }

    fn is_inside_v6(address: Ipv6Addr) -> bool {
        address.is_loopback()
            || address.is_unspecified()
            || address.is_unique_local()
            || address.is_unicast_link_local()
            || address.to_ipv4().is_some()
    }

    fn spelled(address: Ipv4Addr, form: u8) -> String {
        let [a, b, c, d] = address.octets();
        let whole = u32::from(address);
        match form {
            0 => format!("{whole}"),
            1 => format!("{whole:#x}"),
            2 => format!("0{whole:o}"),
            3 => format!("{a:#x}.{b:#x}.{c:#X}.{d:#x}"),
            4 => format!("0{a:o}.0{b:o}.{c}.{d}"),
            5 => format!("{a}.{}", whole & 0xff_ffff),
            6 => format!("{a}.{b}.{}", whole & 0xffff),
            7 => format!("{a}.{b}.{c}.{d}."),
            8 => format!("{a:03}.{b:03}.{c:03}.{d:03}"),
            9 => format!("[::ffff:{address}]"),
            10 => format!("[::{address}]"),
            11 => format!("[64:ff9b::{address}]"),
            12 => format!("[2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1]"),
            13 => format!("[::ffff:0:{address}]"),
            14 => format!("[2a00:1450::5efe:{address}]"),
            15 => address.to_string().replace('.', "。"),
            16 => address.to_string().chars().map(|c| if c == '.' { c } else { wide(c) }).collect(),
            _ => address.to_string(),
        }
    }

    fn wide(digit: char) -> char {
        char::from_u32(digit as u32 + 0xfee0).unwrap()
    }

    fn let_through(text: &str) -> Option<WebUrl> {
        WebUrl::read(text).ok().filter(|url| judge_host(url.host()).is_ok())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}", location in "\\PC{0,40}") {
            let _ = WebUrl::read(&text);
            let _ = WebUrl::read(&format!("https://{text}/"));
            let _ = WebUrl::read("https://docs.rs/a").unwrap().join(&location);
        }

        #[test]
        fn what_is_read_reads_the_same_again(host in "[a-zA-Z0-9.xX:@%\\[\\]_-]{1,24}|\\PC{1,8}\\.com", rest in "[/?#]?\\PC{0,12}") {
            if let Ok(url) = WebUrl::read(&format!("http://{host}{rest}")) {
                prop_assert_eq!(WebUrl::read(url.as_str()), Ok(url.clone()));
                prop_assert_eq!(url.authority().split(':').next().unwrap().contains('@'), false);
            }
        }

        /// Whatever the text, what is let through is no address inside to any of three readers.
        #[test]
        fn no_spelling_reaches_an_address_inside(host in "([0-9]{1,3}|0x?[0-9a-f]{0,4}|[0-9]{8,11}){1}([.。．]([0-9]{1,3}|0[0-7]{1,3}|0x[0-9a-f]{1,2})){0,3}\\.?|\\[[0-9a-f:.]{2,20}\\]") {
            if let Some(url) = let_through(&format!("http://{host}/")) {
                prop_assert!(!as_c_reads_it(&host).is_some_and(is_inside));
                prop_assert!(!host.parse().is_ok_and(is_inside));
                match url.host() {
                    Host::Name(name) => prop_assert_eq!(as_c_reads_it(name.as_str()), None),
                    Host::V4(v4) => prop_assert!(!is_inside(*v4) && v4.to_string() == host),
                    Host::V6(v6) => prop_assert!(!is_inside_v6(*v6)),
                }
            }
        }

        #[test]
        fn every_spelling_of_an_address_inside_is_refused(low in any::<u32>(), block in 0..6usize, form in 0..18u8) {
            let (block, length) = [(0x7f00_0000, 8), (0x0a00_0000, 8), (0xc0a8_0000, 16), (0xac10_0000, 12), (0xa9fe_0000, 16), (0, 8)][block];
            let address = Ipv4Addr::from(block | low & (u32::MAX >> length));
            let host = spelled(address, form);
            prop_assert_eq!(let_through(&format!("http://{host}/")), None);
        }
    }
}
