//! Where a git repository is: an address that git reads the same way as we do.
//!
//! Git takes much for an address: helpers that run a program (`ext::`), files, options in disguise (`--upload-pack`),
//! and it decodes escapes where others do not. [`GitUrl`] takes three forms and spells them out again for git.

use std::fmt;

use crate::url::{BadUrl, Host, MAX_URL, Scheme, WebUrl, read_port, scheme_of, split_port};

/// Where a repository is.
///
/// [`Display`](fmt::Display) is what git is given. Only [`GitUrl::read`] and its sibling make one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct GitUrl {
    /// How it is talked to.
    pub scheme: GitScheme,
    /// As whom. Never with a password.
    pub user: Option<String>,
    /// Who has it. Not judged yet: see [`crate::url::judge_host`].
    pub host: Host,
    /// Where it listens, written or by default.
    pub port: u16,
    /// Which repository there. Without a leading slash, it lies in the user's home on an SSH server.
    pub path: String,
}

/// How a repository is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GitScheme {
    /// Encrypted, over the web.
    Https,
    /// In the open.
    Http,
    /// Over a secure shell.
    Ssh,
}

impl GitScheme {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
        }
    }

    /// The port when none is written.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Ssh => 22,
        }
    }
}

impl GitUrl {
    /// The address this text spells: `https://host/path`, `ssh://user@host/path` or `user@host:path`.
    pub fn read(text: &str) -> Result<Self, BadGitUrl> {
        let url = Self::read_also_http(text)?;
        if url.scheme == GitScheme::Http { Err(BadGitUrl::Scheme) } else { Ok(url) }
    }

    /// The same, for a place where repositories may also be talked to in the open.
    pub fn read_also_http(text: &str) -> Result<Self, BadGitUrl> {
        if text.len() > MAX_URL {
            return Err(BadUrl::TooLong.into());
        }
        if text.is_empty() {
            return Err(BadGitUrl::NoAddress);
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err(BadUrl::BadCharacter.into());
        }
        if text.starts_with('-') {
            return Err(BadGitUrl::Option);
        }
        // Everything in front of `::` names a program that git would run.
        if text.split_once("::").is_some_and(|(helper, _)| helper.bytes().all(|b| b.is_ascii_alphanumeric())) {
            return Err(BadGitUrl::Helper);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return read_scp(text);
        };
        match scheme.to_ascii_lowercase().as_str() {
            "https" | "http" => read_web(scheme, rest),
            "ssh" => read_ssh(rest),
            _ => Err(BadGitUrl::Scheme),
        }
    }

    fn authority(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        format!("{user}{}", self.host)
    }
}

impl fmt::Display for GitUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.starts_with('/') {
            return write!(f, "{}:{}", self.authority(), self.path);
        }
        write!(f, "{}://{}", self.scheme.as_str(), self.authority())?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path)
    }
}

/// Why a text is not taken for the address of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadGitUrl {
    /// Nothing there.
    #[error("it is empty")]
    NoAddress,
    /// Git would take it, or a part of it, for an option.
    #[error("it begins with `-`, or its user, host or path does")]
    Option,
    /// Git would run a program by that name.
    #[error("`name::` would make git run a program")]
    Helper,
    /// Neither the web nor a secure shell.
    #[error("repositories are reached by `https://`, `ssh://` or `user@host:path`")]
    Scheme,
    /// A place on this machine.
    #[error("it is a path on this machine")]
    LocalPath,
    /// A secret in the address would end up in files and logs.
    #[error("it has a password in it")]
    Password,
    /// A user's name that could be something else.
    #[error("its user has characters other than letters, digits, `.`, `_`, `+` and `-`")]
    BadUser,
    /// Programs differ on what it is.
    #[error("its path is empty, or has an escape, a query or a fragment in it that programs read differently")]
    BadPath,
    /// The host, the port, or the whole.
    #[error(transparent)]
    Url(#[from] BadUrl),
}

impl BadGitUrl {
    /// The stable word for it.
    pub fn code(self) -> &'static str {
        match self {
            Self::NoAddress => "no_address",
            Self::Option => "option_in_address",
            Self::Helper => "remote_helper",
            Self::Scheme => "scheme_refused",
            Self::LocalPath => "local_path",
            Self::Password => "password_in_address",
            Self::BadUser => "bad_user",
            Self::BadPath => "bad_path",
            Self::Url(bad) => bad.code(),
        }
    }
}

/// `https://host/path`: what the web's reader takes, with a user at most.
fn read_web(scheme: &str, rest: &str) -> Result<GitUrl, BadGitUrl> {
    if rest.contains(['?', '#']) {
        return Err(BadGitUrl::BadPath);
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, server) = split_user(authority)?;
    let url = WebUrl::read(&format!("{scheme}://{server}{path}"))?;
    if url.path() == "/" || hides_something(url.path()) {
        return Err(BadGitUrl::BadPath);
    }
    let scheme = match url.scheme() {
        Scheme::Https => GitScheme::Https,
        Scheme::Http => GitScheme::Http,
    };
    Ok(GitUrl { scheme, user, host: url.host().clone(), port: url.port(), path: url.path().to_owned() })
}

/// `ssh://user@host:port/path`. Git decodes escapes in all of it, so that there may be none.
fn read_ssh(rest: &str) -> Result<GitUrl, BadGitUrl> {
    let (authority, path) = rest.split_at(rest.find('/').ok_or(BadGitUrl::BadPath)?);
    let (user, server) = split_user(authority)?;
    let (host, port) = split_port(server)?;
    let port = match port {
        None => GitScheme::Ssh.default_port(),
        Some(port) => read_port(port).ok_or(BadUrl::BadPort)?,
    };
    if path == "/" {
        return Err(BadGitUrl::BadPath);
    }
    shell_url(user, host, port, path)
}

/// `user@host:path`. To git, a colon behind a slash is part of a path on this machine.
fn read_scp(text: &str) -> Result<GitUrl, BadGitUrl> {
    let at = text.find('@').map_or(0, |at| at + 1);
    let end = match text[at..].starts_with('[') {
        true => at + text[at..].find(']').ok_or(BadUrl::BadAddress)? + 1,
        false => text.find(':').ok_or(BadGitUrl::LocalPath)?,
    };
    let (authority, path) = text.split_at(end);
    if authority.contains('/') {
        return Err(BadGitUrl::LocalPath);
    }
    if scheme_of(text).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file")) {
        return Err(BadGitUrl::Scheme);
    }
    let path = path.strip_prefix(':').ok_or(BadUrl::BadAddress)?;
    let (user, host) = split_user(authority)?;
    shell_url(user, host, GitScheme::Ssh.default_port(), path)
}

fn shell_url(user: Option<String>, host: &str, port: u16, path: &str) -> Result<GitUrl, BadGitUrl> {
    if host.starts_with('-') || path.starts_with('-') {
        return Err(BadGitUrl::Option);
    }
    if path.is_empty() || path.starts_with(':') || path.contains(['%', '?', '#']) {
        return Err(BadGitUrl::BadPath);
    }
    Ok(GitUrl { scheme: GitScheme::Ssh, user, host: Host::read(host)?, port, path: path.to_owned() })
}

/// The user and the server of an authority.
fn split_user(authority: &str) -> Result<(Option<String>, &str), BadGitUrl> {
    let Some((user, server)) = authority.rsplit_once('@') else {
        return Ok((None, authority));
    };
    if user.contains(':') {
        return Err(BadGitUrl::Password);
    }
    if user.starts_with('-') {
        return Err(BadGitUrl::Option);
    }
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'+' | b'-');
    if user.is_empty() || !user.bytes().all(is_plain) {
        return Err(BadGitUrl::BadUser);
    }
    Ok((Some(user.to_owned()), server))
}

/// Is there an escape in the path that stands for a control character, a slash or a backslash, or that is none?
fn hides_something(path: &str) -> bool {
    path.split('%').skip(1).any(|after| {
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        byte.is_none_or(|byte| byte.is_ascii_control() || matches!(byte, b'/' | b'\\'))
    })
}
