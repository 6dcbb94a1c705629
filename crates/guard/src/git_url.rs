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
        if names_helper(text) {
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
    #[error("its path is empty, or has something in it (`%`, `?`, `#`, a bracket) that programs read differently")]
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
    shell_url(user, host, port, path)
}

/// `user@host:path`. To git, a colon behind a slash is part of a path on this machine.
fn read_scp(text: &str) -> Result<GitUrl, BadGitUrl> {
    let at = text.find('@').map_or(0, |at| at + 1);
    let end = if text[at..].starts_with('[') {
        at + text[at..].find(']').ok_or(BadUrl::BadAddress)? + 1
    } else {
        text.find(':').ok_or(BadGitUrl::LocalPath)?
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
    if user.is_none() && path.contains('@') {
        return Err(BadGitUrl::Password);
    }
    shell_url(user, host, GitScheme::Ssh.default_port(), path)
}

fn shell_url(user: Option<String>, host: &str, port: u16, path: &str) -> Result<GitUrl, BadGitUrl> {
    if host.starts_with('-') || path.starts_with('-') {
        return Err(BadGitUrl::Option);
    }
    // Git looks for `@[` in the whole text and takes what follows for the host. It also drops the first character of a
    // path whose second is `~`.
    let loses_its_first = !path.starts_with('/') && path.chars().nth(1) == Some('~');
    if matches!(path, "" | "/") || loses_its_first || path.starts_with(':') || path.contains(['%', '?', '#', '[', ']'])
    {
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

/// Does it begin with `name::`? Git would run a program by that name.
fn names_helper(text: &str) -> bool {
    let is_named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    text.split_once("::").is_some_and(|(name, _)| name.bytes().all(is_named))
}

/// Is there an escape in the path that stands for a control character, a slash or a backslash, or that is none?
fn hides_something(path: &str) -> bool {
    path.split('%').skip(1).any(|after| {
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        byte.is_none_or(|byte| byte.is_ascii_control() || matches!(byte, b'/' | b'\\'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::url::judge_host;

    /// What git is given, or why nothing is.
    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let read = GitUrl::read(text).map(|url| url.to_string()).map_err(BadGitUrl::code);
        assert_eq!(read.as_deref().map_err(|code| *code), expected, "{text:?}");
    }

    #[test]
    fn three_forms_are_read() {
        for (text, expected) in [
            ("https://github.com/rust-lang/rust.git", "https://github.com/rust-lang/rust.git"),
            ("HTTPS://GitHub.com.:443/a/./b/../c", "https://github.com/a/c"),
            ("https://git.docs.rs:8443/a", "https://git.docs.rs:8443/a"),
            ("https://me@bitbucket.org/a/b", "https://me@bitbucket.org/a/b"),
            ("https://dev.azure.com/org/My%20Project/_git/a", "https://dev.azure.com/org/My%20Project/_git/a"),
            ("https://bücher.de/a", "https://xn--bcher-kva.de/a"),
            ("ssh://git@github.com/a/b.git", "ssh://git@github.com/a/b.git"),
            ("SSH://git@GitHub.com:22/a", "ssh://git@github.com/a"),
            ("ssh://git@docs.rs:2222/~me/a", "ssh://git@docs.rs:2222/~me/a"),
            ("ssh://docs.rs/a", "ssh://docs.rs/a"),
            ("ssh://git@[2606:4700::1]:2222/a", "ssh://git@[2606:4700::1]:2222/a"),
            ("git@github.com:a/b.git", "git@github.com:a/b.git"),
            ("github.com:a/b.git", "github.com:a/b.git"),
            ("git@github.com:/srv/a.git", "ssh://git@github.com/srv/a.git"),
            ("git@github.com:~me/a", "git@github.com:~me/a"),
            ("org-123@github.com:a:b", "org-123@github.com:a:b"),
            ("git@[2606:4700::1]:a", "git@[2606:4700::1]:a"),
            ("git@1.1.1.1:a", "git@1.1.1.1:a"),
        ] {
            check(text, Ok(expected));
            check(expected, Ok(expected));
        }
    }

    #[test]
    fn the_parts_are_told() {
        let read = GitUrl::read("ssh://git@docs.rs:2222/a/b").unwrap();
        let host = Host::read("docs.rs").unwrap();
        let user = Some("git".to_owned());
        assert_eq!(read, GitUrl { scheme: GitScheme::Ssh, user, host, port: 2222, path: "/a/b".into() });
        let read = GitUrl::read("https://1.1.1.1/a").unwrap();
        let host = Host::V4([1, 1, 1, 1].into());
        assert_eq!(read, GitUrl { scheme: GitScheme::Https, user: None, host, port: 443, path: "/a".into() });
    }

    #[test]
    fn what_makes_git_do_something_else_is_refused() {
        for (text, code) in [
            ("", "no_address"),
            ("ext::sh", "remote_helper"),
            ("ext::sh%20-c%20id", "remote_helper"),
            ("fd::17", "remote_helper"),
            ("http::https://docs.rs/a", "remote_helper"),
            ("transport-x::docs.rs/a", "remote_helper"),
            ("docs.rs::a", "remote_helper"),
            ("::x", "remote_helper"),
            ("ext::sh -c id", "bad_character"),
            ("--upload-pack=id", "option_in_address"),
            ("-oProxyCommand=id:a", "option_in_address"),
            ("ssh://-oProxyCommand=id/a", "option_in_address"),
            ("ssh://git@-oProxyCommand=id/a", "option_in_address"),
            ("ssh://-x@docs.rs/a", "option_in_address"),
            ("git@-oProxyCommand=id:a", "option_in_address"),
            ("git@docs.rs:--upload-pack=id", "option_in_address"),
            ("git@docs.rs:-x", "option_in_address"),
            ("https://-x@docs.rs/a", "option_in_address"),
            ("file:///srv/a", "scheme_refused"),
            ("file:/srv/a", "scheme_refused"),
            ("FILE://docs.rs/a", "scheme_refused"),
            ("git://docs.rs/a", "scheme_refused"),
            ("http://docs.rs/a", "scheme_refused"),
            ("ftp://docs.rs/a", "scheme_refused"),
            ("git+ssh://docs.rs/a", "scheme_refused"),
            ("rsync://docs.rs/a", "scheme_refused"),
            ("://docs.rs/a", "scheme_refused"),
            ("/srv/a", "local_path"),
            ("./a", "local_path"),
            ("../a:b", "local_path"),
            ("a", "local_path"),
            ("a/b:c", "local_path"),
            ("~/a", "local_path"),
            ("me@docs.rs", "local_path"),
            ("C:\\a", "bad_character"),
        ] {
            check(text, Err(code));
        }
    }

    #[test]
    fn what_programs_read_differently_is_refused() {
        for (text, code) in [
            ("https://me:secret@docs.rs/a", "password_in_address"),
            ("https://:secret@docs.rs/a", "password_in_address"),
            ("ssh://me:secret@docs.rs/a", "password_in_address"),
            ("me:secret@docs.rs:a", "password_in_address"),
            ("me:secret@[::1]:a", "password_in_address"),
            ("https://@docs.rs/a", "bad_user"),
            ("https://a@b@docs.rs/a", "bad_user"),
            ("ssh://a%20b@docs.rs/a", "bad_user"),
            ("ssh://a;id@docs.rs/a", "bad_user"),
            ("$(id)@docs.rs:a", "bad_user"),
            ("https://docs.rs", "bad_path"),
            ("https://docs.rs/", "bad_path"),
            ("https://docs.rs/a?b", "bad_path"),
            ("https://docs.rs/a#b", "bad_path"),
            ("https://docs.rs?/a", "bad_path"),
            ("https://docs.rs/a%2fb", "bad_path"),
            ("https://docs.rs/a%5Cb", "bad_path"),
            ("https://docs.rs/a%00", "bad_path"),
            ("https://docs.rs/a%0ab", "bad_path"),
            ("https://docs.rs/a%7f", "bad_path"),
            ("https://docs.rs/a%zz", "bad_path"),
            ("https://docs.rs/a%+1", "bad_path"),
            ("https://docs.rs/a%", "bad_path"),
            ("ssh://docs.rs", "bad_path"),
            ("ssh://docs.rs/", "bad_path"),
            ("ssh://docs.rs/a%2d", "bad_path"),
            ("ssh://docs.rs/a?b", "bad_path"),
            ("git@docs.rs:", "bad_path"),
            ("git@docs.rs:/", "bad_path"),
            ("git@docs.rs::a", "bad_path"),
            ("ssh://docs.rs/a@[10.0.0.1]/b", "bad_path"),
            ("git@docs.rs:a@[10.0.0.1]:b", "bad_path"),
            ("docs.rs:a/@[10.0.0.1]:b", "local_path"),
            ("git@docs.rs:x~me/a", "bad_path"),
            ("git@docs.rs:a%20b", "bad_path"),
            ("ssh://docs.rs%2f@x/a", "bad_user"),
            ("ssh://docs%2ers/a", "bad_host"),
            ("ssh://docs.rs:/a", "bad_port"),
            ("ssh://docs.rs:022/a", "bad_port"),
            ("ssh://docs.rs:0/a", "bad_port"),
            ("ssh://docs.rs:2222:1/a", "bad_port"),
            ("ssh://0x7f.1/a", "bad_host"),
            ("ssh://127.1/a", "bad_host"),
            ("ssh://2130706433/a", "bad_host"),
            ("git@0x7f.1:a", "bad_host"),
            ("git@127.0.0.1.:a", "bad_host"),
            ("git@bücher.de:a", "bad_host"),
            ("git@d\u{ad}ocs.rs:a", "bad_host"),
            ("git@[docs.rs:22]:a", "bad_address"),
            ("git@[::1]", "bad_address"),
            ("git@[::1]22:a", "bad_address"),
            ("git@[::1:a", "bad_address"),
            ("git@[fe80::1%eth0]:a", "bad_address"),
            ("[git@docs.rs]:a", "bad_user"),
            ("@docs.rs:a", "bad_user"),
            (":a", "bad_host"),
            ("ssh:///a", "empty_host"),
            ("https:///a", "empty_host"),
            ("https://127.1/a", "odd_address"),
            ("https://docs.rs/a\n", "bad_character"),
            ("git@docs.rs:a b", "bad_character"),
            ("git@docs.rs\0:a", "bad_character"),
        ] {
            check(text, Err(code));
        }
        check(&format!("git@docs.rs:{}", "a".repeat(MAX_URL)), Err("url_too_long"));
    }

    #[test]
    fn talking_in_the_open_has_to_be_asked_for() {
        let read = GitUrl::read_also_http("http://docs.rs:8080/a").unwrap();
        assert_eq!((read.scheme, read.port, read.to_string()), (GitScheme::Http, 8080, "http://docs.rs:8080/a".into()));
        assert_eq!(GitUrl::read_also_http("git://docs.rs/a"), Err(BadGitUrl::Scheme));
    }

    #[test]
    fn hosts_are_judged_like_those_of_the_web() {
        for (text, code) in [
            ("git@127.0.0.1:a", "loopback"),
            ("ssh://git@[::ffff:10.0.0.1]/a", "private"),
            ("https://169.254.169.254/a", "metadata"),
            ("C:/a", "single_label_name"),
            ("origin:a", "single_label_name"),
            ("git@localhost:a", "localhost_name"),
            ("git@git.internal:a", "internal_name"),
        ] {
            let host = GitUrl::read(text).unwrap().host;
            assert_eq!(judge_host(&host).map_err(|problem| problem.code()), Err(code), "{text}");
        }
    }

    proptest! {
        /// Git is given an address, whatever was read: never an option, a helper or a path on this machine.
        #[test]
        fn what_is_read_is_plain_to_git(text in "(https://|ssh://|git@|ext::|-)?[a-z.@:/%\\[\\]~-]{0,20}|\\PC{0,40}") {
            if let Ok(url) = GitUrl::read(&text) {
                let given = url.to_string();
                prop_assert_eq!(GitUrl::read(&given), Ok(url.clone()));
                prop_assert!(!given.starts_with('-') && !names_helper(&given));
                let parts = [url.user.unwrap_or_default(), url.host.to_string(), url.path];
                prop_assert!(!parts.iter().any(|part| part.starts_with('-')));
            }
        }
    }
}
