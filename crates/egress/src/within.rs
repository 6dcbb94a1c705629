//! Whom one request may reach.

use toolgate_contract::Fault;
use toolgate_guard::{
    host_entry::HostEntry,
    url::{Scheme, WebUrl},
};

/// Whom one request may reach, with all its redirects. By which address is the judge's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Within {
    /// Everybody on the internet.
    Public,
    /// These hosts: `host`, `*.host` or an address, each with a port or without. Without one the ports of the web are
    /// meant. What cannot be read lists nobody.
    Listed(Vec<String>),
    /// The server this URL leads to: scheme, host and port. Redirects are given back and not followed.
    Origin(WebUrl),
}

impl Within {
    /// May this be asked for?
    pub(crate) fn check(&self, url: &WebUrl) -> Result<(), Fault> {
        let is_within = match self {
            Self::Public => true,
            Self::Listed(texts) => texts.iter().any(|text| HostEntry::read(text).is_ok_and(|entry| lists(&entry, url))),
            Self::Origin(origin) => origin.same_origin(url),
        };
        if is_within {
            return Ok(());
        }
        let asked = format!("{}://{}:{}", url.scheme(), url.host(), url.port());
        Err(match self {
            Self::Origin(origin) => Fault::refused(
                "host_refused",
                format!("`{asked}` is not the server of this connection, which is `{}`", origin.authority()),
                "Use a path below the connection's address.",
            ),
            Self::Public | Self::Listed(_) => Fault::refused(
                "host_refused",
                format!("`{asked}` is not a host this agent may talk to"),
                "Use a host on the agent's list, or ask the operator to put this one on `network_allowlist`.",
            ),
        })
    }

    pub(crate) fn follows_redirects(&self) -> bool {
        !matches!(self, Self::Origin(_))
    }
}

fn lists(entry: &HostEntry, url: &WebUrl) -> bool {
    let web = [Scheme::Http, Scheme::Https].map(Scheme::default_port);
    let at_port = entry.port.map_or_else(|| web.contains(&url.port()), |port| port == url.port());
    let at_host = match (url.host().name(), url.host().address()) {
        (Some(name), _) => entry.names(name),
        (None, Some(address)) => entry.lists(address.to_canonical()),
        (None, None) => false,
    };
    at_port && at_host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(within: &Within, allowed: &[&str], refused: &[&str]) {
        let code = |url: &str| within.check(&WebUrl::read(url).unwrap()).err().map(|fault| fault.code.into_owned());
        for url in allowed {
            assert_eq!(code(url), None, "{url}");
        }
        for url in refused {
            assert_eq!(code(url).as_deref(), Some("host_refused"), "{url}");
        }
    }

    fn listed(texts: &[&str]) -> Within {
        Within::Listed(texts.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn everybody_is_public() {
        check(&Within::Public, &["https://a.example/", "http://1.1.1.1:8080/"], &[]);
    }

    #[test]
    fn a_list_is_by_label_and_port() {
        check(
            &listed(&["a.example", "b.example:8080", "*.c.example", "1.1.1.1"]),
            &[
                "https://a.example/x",
                "http://A.example./",
                "https://b.example:8080/",
                "http://b.example:8080/",
                "https://x.y.c.example",
                "https://1.1.1.1/",
            ],
            &[
                "https://a.example:8443/",
                "https://b.example/",
                "https://c.example/",
                "https://x.a.example/",
                "https://xa.example/",
                "https://a.example.evil.com/",
                "https://1.1.1.2/",
            ],
        );
    }

    #[test]
    fn what_lists_nobody_lists_nobody() {
        check(&listed(&[]), &[], &["https://a.example/"]);
        check(
            &listed(&["", "*", "*.com", "https://a.example", "0.0.0.0/0", "a.example:0"]),
            &[],
            &["https://a.example/"],
        );
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        check(
            &Within::Origin(WebUrl::read("https://api.example/v1/").unwrap()),
            &["https://api.example/", "https://api.example:443/other?x#y"],
            &["http://api.example/", "https://api.example:8443/", "https://x.api.example/", "https://evil.example/"],
        );
    }
}
