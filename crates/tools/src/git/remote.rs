//! Other repositories: where they are, and with whose credentials they are talked to.
//!
//! Which address a remote has is read from the repository's config here, and git is told the result: the address that
//! is judged is the one that is used.

use toolgate_contract::{ConnectionUse, CredentialVariable, Effect, EffectKind, Fault};
use toolgate_guard::git_url::{GitScheme, GitUrl};

use super::{
    config::Setting,
    fault::{UNKNOWN_REMOTE, URL_REFUSED},
    name::{Named as _, RemoteName},
    repository::{Repository, is_tracking},
};
use crate::files::text::brief;

/// A repository to talk to.
#[derive(Debug)]
pub(super) struct Remote {
    url: GitUrl,
    connection: Option<String>,
    /// What git is told about it under its name.
    settings: Vec<Setting>,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Fetch,
    Push,
}

/// The variable of a room's environment with the header that proves who asks.
const HEADER: &str = "REMOTE_HEADER";

impl Remote {
    /// The one at this address.
    pub(super) fn at(address: &str, connection: Option<&str>) -> Result<Self, Fault> {
        let url = GitUrl::read_also_http(address).map_err(|bad| {
            // An address may have a password in it, so it is not repeated.
            URL_REFUSED.refused(format!("the address of the repository is refused: {bad}"), READABLE)
        })?;
        if connection.is_some() && url.scheme != GitScheme::Https {
            return Err(URL_REFUSED.refused(
                format!("credentials of a connection are not sent over `{}`", url.scheme.as_str()),
                "Use the `https` address, or no connection.",
            ));
        }
        Ok(Self { url, connection: connection.map(str::to_owned), settings: Vec::new() })
    }

    /// The one that a repository knows by this name.
    pub(super) fn named(
        repository: &Repository,
        name: &RemoteName,
        way: Way,
        connection: Option<&str>,
    ) -> Result<Self, Fault> {
        let fetched = repository.addresses(name, "url");
        let pushed = repository.addresses(name, "pushurl");
        let (address, key) = match way {
            Way::Push if !pushed.is_empty() => (pushed, "insteadof"),
            Way::Push if fetched.iter().any(|at| repository.rewritten(at, "pushinsteadof").is_some()) => {
                (fetched, "pushinsteadof")
            }
            Way::Push | Way::Fetch => (fetched, "insteadof"),
        };
        let shown = brief(name.as_str());
        let address = match address.as_slice() {
            [] => {
                return Err(UNKNOWN_REMOTE.failed(
                    format!("the repository has no remote `{shown}`"),
                    "Name one that its config has an address for.",
                ));
            }
            [address] => repository.rewritten(address, key).unwrap_or_else(|| (*address).to_owned()),
            _ => {
                return Err(UNKNOWN_REMOTE
                    .failed(format!("remote `{shown}` has more than one address"), "Name a remote that has one."));
            }
        };
        let remote = Self::at(&address, connection)?;
        let mut settings = vec![setting(name, "url", remote.url.to_string())];
        if !repository.addresses(name, "fetch").into_iter().any(is_tracking) {
            settings.push(setting(name, "fetch", format!("+refs/heads/*:refs/remotes/{}/*", name.as_str())));
        }
        Ok(Self { settings, ..remote })
    }

    pub(super) fn url(&self) -> &GitUrl {
        &self.url
    }

    pub(super) fn scheme(&self) -> &'static str {
        self.url.scheme.as_str()
    }

    /// Whom the room talks to.
    pub(super) fn target(&self) -> String {
        target(&self.url)
    }

    /// What the room's environment gets.
    pub(super) fn credential(&self) -> Option<CredentialVariable> {
        let connection = self.connection.clone()?;
        Some(CredentialVariable { variable: HEADER.to_owned(), connection })
    }

    /// What git's config says about it.
    pub(super) fn settings(&self) -> Vec<Setting> {
        self.settings.clone()
    }

    /// Git's own options: the header for this server, and for no other, comes from the environment.
    pub(super) fn options(&self) -> Vec<String> {
        let Some(_) = self.connection else { return Vec::new() };
        let GitUrl { scheme, host, port, .. } = &self.url;
        vec![format!("--config-env=http.{}://{host}:{port}/.extraHeader={HEADER}", scheme.as_str())]
    }
}

const READABLE: &str = "Use `https://host/path`, `ssh://user@host/path` or `user@host:path`, without a password.";

fn target(url: &GitUrl) -> String {
    format!("{}:{}", url.host, url.port)
}

fn setting(name: &RemoteName, key: &str, value: String) -> Setting {
    Setting { section: "remote".into(), subsection: Some(name.as_str().to_owned()), key: key.into(), value }
}

/// The effect of talking to this address; of an address that nobody reads only that somebody is talked to.
pub(super) fn talks_to(address: Option<&str>) -> Effect {
    let url = address.and_then(|address| GitUrl::read_also_http(address).ok());
    Effect { kind: EffectKind::Network, target: url.as_ref().map(target) }
}

/// What is said of a connection to the gate.
pub(super) fn through(connection: Option<&str>, way: Way) -> Option<ConnectionUse> {
    let connection = connection?.to_owned();
    Some(ConnectionUse { connection, writes: way == Way::Push })
}
