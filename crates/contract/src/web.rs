//! A request to another machine, and what came back; whose credentials go with it, and whom a program may reach.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// What is asked of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// What is to be done.
    pub method: Method,
    /// Where. With a connection it may be a path, which is joined to the connection's address.
    pub url: String,
    /// Sent along, in this order. Names and values are checked before anything is sent.
    pub headers: Vec<(String, String)>,
    /// Sent along.
    pub body: Vec<u8>,
    /// The connection whose credentials are put in, and whose host is then the only one reached.
    pub connection: Option<String>,
    /// Asks the server's `robots.txt` first and keeps the pause it wants between fetches.
    pub polite: bool,
    /// How long and how much.
    pub limits: WebLimits,
}

impl WebRequest {
    /// A plain look at a page.
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            method: Method::Get,
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            connection: None,
            polite: false,
            limits: WebLimits::default(),
        }
    }
}

/// How long one request may take and how much may come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebLimits {
    /// Time on the wall, over all redirects.
    pub wall: Duration,
    /// Bytes of the body once it is unpacked. More is a fault.
    pub body: u64,
    /// How many redirects are followed; none gives the redirect itself back.
    pub redirects: u8,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self { wall: Duration::from_secs(30), body: 10 << 20, redirects: 5 }
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Look.
    Get,
    /// Look at the head only.
    Head,
    /// Ask what can be done.
    Options,
    /// Hand something in.
    Post,
    /// Put something in place.
    Put,
    /// Change a part.
    Patch,
    /// Remove.
    Delete,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::Get, Self::Head, Self::Options, Self::Post, Self::Put, Self::Patch, Self::Delete];

    /// As it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// May it change something at the server?
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::Head | Self::Options)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebResponse {
    /// Where it came from in the end.
    pub url: String,
    /// The addresses that were left on the way, oldest first.
    pub redirects: Vec<String>,
    /// The status.
    pub status: u16,
    /// The headers, names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// The body, unpacked.
    pub body: Vec<u8>,
}

impl WebResponse {
    /// The first header of this name, which is written in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Would the same request perhaps be answered later? So it is with 429 and every 5xx but 501 and 505.
    pub fn is_retryable(&self) -> bool {
        self.status == 429 || (500..600).contains(&self.status) && !matches!(self.status, 501 | 505)
    }
}

/// What a call would do through a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionUse {
    /// Which.
    pub connection: String,
    /// It may change something on the other side.
    pub writes: bool,
}

/// What a tool may know about a connection: everything but its credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionInfo {
    /// Its name.
    pub name: String,
    /// Scheme, host, port and the path every request begins with.
    pub base_url: String,
    /// What answers there.
    pub kind: ServiceKind,
}

/// What answers at a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceKind {
    /// Some API.
    Generic,
    /// The API of GitHub.
    Github,
    /// The API of GitLab, version 4.
    Gitlab,
    /// The API of Forgejo and Gitea, version 1.
    Forgejo,
}

/// Who is asked for pages about something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SearchEngine {
    /// Which language it speaks.
    pub provider: SearchProvider,
    /// Where it is asked.
    pub endpoint: String,
    /// The connection whose credentials it wants.
    pub connection: Option<String>,
}

/// The languages of search engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchProvider {
    /// The HTML page of DuckDuckGo.
    Duckduckgo,
    /// The JSON interface of a SearXNG instance.
    Searxng,
    /// The Brave Search API.
    Brave,
}

/// Whom one program may talk to, and with whose credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Each as `host:port`. Every one is judged before the program starts.
    pub hosts: Vec<String>,
    /// A credential for its environment.
    pub credential: Option<CredentialVariable>,
}

/// A variable that holds what a connection proves itself with. Whoever runs the program puts the value in; a tool never
/// sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialVariable {
    /// The variable. Its value is a whole header line, such as `Authorization: Bearer ...`.
    pub variable: String,
    /// The connection. Its host must be the only one the program reaches.
    pub connection: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_does_not_write() {
        let writing: Vec<_> = Method::ALL.into_iter().filter(|method| method.writes()).map(Method::as_str).collect();
        assert_eq!(writing, ["POST", "PUT", "PATCH", "DELETE"]);
    }

    #[test]
    fn busy_servers_are_asked_again_and_others_are_not() {
        let with = |status| WebResponse {
            url: String::new(),
            redirects: Vec::new(),
            status,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let retryable: Vec<u16> = [200, 301, 400, 404, 408, 429, 500, 501, 502, 503, 504, 505, 600]
            .into_iter()
            .filter(|s| with(*s).is_retryable())
            .collect();
        assert_eq!(retryable, [429, 500, 502, 503, 504]);
    }
}
