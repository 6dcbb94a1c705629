//! Under which names the console is reached, and by nobody else's.
//!
//! A page in a browser can be made to speak to any address of this machine: a name of its own that suddenly resolves to
//! 127.0.0.1 is enough. What such a page cannot choose is the `Host` and the `Origin` the browser sends, so both have to be
//! ours.

use std::{net::SocketAddr, sync::Arc};

/// One name of the console, as browsers spell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// What `Host` says: the name, and the port unless it is the scheme's own.
    pub(crate) authority: String,
    /// What `Origin` says.
    pub(crate) origin: String,
    /// A browser reaches it over TLS, so cookies may say `Secure`.
    pub(crate) secure: bool,
    /// The name of the cookie. Cookies do not know of ports, so the name does: two consoles on one machine are two.
    pub(crate) cookie: String,
}

/// All of them.
#[derive(Debug, Clone)]
pub(crate) struct Sites(Arc<[Site]>);

impl Sites {
    /// The bound address, the names of the loopback where that is what is bound, and `more`: a host name, or a whole
    /// origin such as `https://tools.example.org` for a console behind a proxy.
    pub(crate) fn new(bound: SocketAddr, more: &[String]) -> Result<Self, String> {
        let port = bound.port();
        let mut sites = Vec::new();
        for name in more {
            sites.extend(named(name, port)?);
        }
        if !bound.ip().is_unspecified() {
            let host = if bound.is_ipv6() { format!("[{}]", bound.ip()) } else { bound.ip().to_string() };
            sites.push(Site::http(&host, port));
        }
        if bound.ip().is_loopback() || bound.ip().is_unspecified() {
            for host in ["127.0.0.1", "localhost", "[::1]"] {
                sites.push(Site::http(host, port));
            }
        }
        Ok(Self(sites.into()))
    }

    /// The origin a person is sent to: what the operator named, else the bound address, else the loopback.
    pub(crate) fn home(&self) -> &str {
        self.0.first().map_or("", |site| &site.origin)
    }

    /// The site a `Host` names.
    pub(crate) fn find(&self, host: &str) -> Option<&Site> {
        self.0.iter().find(|site| site.authority.eq_ignore_ascii_case(host))
    }
}

impl Site {
    fn http(host: &str, port: u16) -> Self {
        let authority = if port == 80 { host.to_owned() } else { format!("{host}:{port}") };
        let origin = format!("http://{authority}");
        Self { authority, origin, secure: false, cookie: format!("toolgate-{port}") }
    }

    fn https(authority: &str) -> Self {
        Self {
            authority: authority.to_owned(),
            origin: format!("https://{authority}"),
            secure: true,
            // Browsers take this prefix only from a TLS site, for the whole host and for no other.
            cookie: "__Host-toolgate".to_owned(),
        }
    }
}

fn named(name: &str, port: u16) -> Result<Vec<Site>, String> {
    let name = name.to_ascii_lowercase();
    let (scheme, host) = name.split_once("://").map_or(("", &*name), |(scheme, host)| (scheme, host));
    let is_host = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b));
    match scheme {
        _ if !is_host => {}
        "https" => return Ok(vec![Site::https(host.strip_suffix(":443").unwrap_or(host))]),
        "" | "http" => {
            let (host, own) = match host.rsplit_once(':') {
                Some((host, own)) if !own.ends_with(']') => (host, own.parse().ok()),
                _ => (host, None),
            };
            return Ok(match own {
                Some(own) => vec![Site::http(host, own)],
                // With and without the port: a proxy may have the scheme's own.
                None => vec![Site::http(host, port), Site::http(host, 80)],
            });
        }
        _ => {}
    }
    Err(format!("`{}` is neither a host name nor an origin such as https://tools.example.org", name.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bound: &str, more: &[&str], host: &str, expected: Option<&str>) {
        let more: Vec<_> = more.iter().map(ToString::to_string).collect();
        let sites = Sites::new(bound.parse().unwrap(), &more).unwrap();
        assert_eq!(sites.find(host).map(|site| &*site.origin), expected, "{bound} {more:?} {host}");
    }

    #[test]
    fn only_own_names_are_found() {
        let bound = "127.0.0.1:7433";
        check(bound, &[], "127.0.0.1:7433", Some("http://127.0.0.1:7433"));
        check(bound, &[], "LOCALHOST:7433", Some("http://localhost:7433"));
        check(bound, &[], "[::1]:7433", Some("http://[::1]:7433"));
        for foreign in ["", "localhost", "localhost:80", "evil.example:7433", "127.0.0.1:7433.evil.example", "0:7433"] {
            check(bound, &[], foreign, None);
        }
        check("192.0.2.7:80", &[], "192.0.2.7", Some("http://192.0.2.7"));
        check("192.0.2.7:80", &[], "localhost", None);
        check("0.0.0.0:7433", &[], "0.0.0.0:7433", None);
        check("0.0.0.0:7433", &[], "localhost:7433", Some("http://localhost:7433"));
    }

    #[test]
    fn people_are_sent_where_they_are_answered() {
        let check = |bound: &str, more: &[&str], expected: &str| {
            let more: Vec<_> = more.iter().map(ToString::to_string).collect();
            let sites = Sites::new(bound.parse().unwrap(), &more).unwrap();
            assert_eq!(sites.home(), expected, "{bound} {more:?}");
            assert!(sites.find(expected.split_once("://").unwrap().1).is_some(), "{bound} {more:?}");
        };
        check("127.0.0.1:7433", &[], "http://127.0.0.1:7433");
        check("[::1]:7433", &[], "http://[::1]:7433");
        check("192.0.2.7:80", &[], "http://192.0.2.7");
        check("0.0.0.0:7433", &[], "http://127.0.0.1:7433");
        check("[::]:7433", &[], "http://127.0.0.1:7433");
        check("0.0.0.0:7433", &["https://tools.example"], "https://tools.example");
        check("127.0.0.1:7433", &["tools.example"], "http://tools.example:7433");
    }

    #[test]
    fn names_are_added_by_the_operator() {
        let bound = "0.0.0.0:7433";
        check(bound, &["tools.example"], "tools.example:7433", Some("http://tools.example:7433"));
        check(bound, &["tools.example"], "tools.example", Some("http://tools.example"));
        check(bound, &["tools.example:81"], "tools.example:7433", None);
        check(bound, &["https://Tools.Example:443"], "tools.example", Some("https://tools.example"));
        check(bound, &["https://tools.example"], "tools.example:7433", None);
        for wrong in ["", "https://", "ftp://tools.example", "tools.example/path", "a b"] {
            let made = Sites::new(bound.parse().unwrap(), &[wrong.to_owned()]);
            assert!(made.is_err(), "{wrong}: {made:?}");
        }
    }
}
