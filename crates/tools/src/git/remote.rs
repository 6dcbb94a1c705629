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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{
            fetch, push,
            scene::{jobs, scene, words},
        },
        *,
    };
    use crate::programs::stage::ran;

    const REMOTES: &str = "[remote \"origin\"]\n\turl = gh:team/x.git\n\tfetch = +refs/heads/*:refs/heads/*\n\
        [remote \"two\"]\n\turl = https://a.example/x\n\turl = https://b.example/x\n\
        [remote \"apart\"]\n\turl = https://a.example/x\n\tpushurl = https://b.example:8443/x\n\
        [remote \"kept\"]\n\turl = https://a.example/x\n\tfetch = refs/heads/*:refs/remotes/kept/*\n\
        [remote \"secret\"]\n\turl = https://ada:hunter2@a.example/x\n\
        [url \"https://forge.example/\"]\n\tinsteadOf = gh:\n";

    /// The address, the hosts and what git is told of a remote.
    fn of(remote: &str, way: Way) -> Result<(String, String), Fault> {
        let (tool, arguments): (fn() -> crate::Tool, _) = match way {
            Way::Fetch => (fetch::tool, json!({ "remote": remote })),
            Way::Push => (push::tool, json!({ "remote": remote })),
        };
        let stage = scene(REMOTES, []);
        stage.call(tool, arguments)?;
        let reached = jobs(&stage).into_iter().find_map(|(job, reach)| Some((job, reach?))).unwrap();
        let (job, reach) = reached;
        assert_eq!(reach.credential, None);
        let config = &job.argv[10];
        let section = format!("[remote \"{remote}\"]\n");
        let about: String = config.split_inclusive("\n[").filter(|part| part.contains(&section[1..])).collect();
        Ok((reach.hosts.join(","), about.replace(['\t', '\n'], " ")))
    }

    #[test]
    fn the_address_that_is_judged_is_the_one_that_is_used() {
        let (hosts, about) = of("origin", Way::Fetch).unwrap();
        assert_eq!(hosts, "forge.example:443");
        assert!(about.contains("url = \"https://forge.example/team/x.git\""), "{about}");
        assert!(about.contains("fetch = \"+refs/heads/*:refs/remotes/origin/*\"") && !about.contains("refs/heads/*\""));
        assert_eq!(of("apart", Way::Fetch).unwrap().0, "a.example:443");
        assert_eq!(of("apart", Way::Push).unwrap().0, "b.example:8443");
        let (_, about) = of("kept", Way::Fetch).unwrap();
        assert!(about.contains("fetch = \"refs/heads/*:refs/remotes/kept/*\"") && !about.contains('+'), "{about}");
    }

    #[test]
    fn a_remote_without_one_address_that_is_taken_is_not_talked_to() {
        for (remote, code) in [("two", "unknown_remote"), ("none", "unknown_remote"), ("secret", "url_refused")] {
            let fault = of(remote, Way::Fetch).unwrap_err();
            assert_eq!(fault.code, code, "{remote}");
            assert!(!fault.to_string().contains("hunter2"), "{fault}");
        }
    }

    #[test]
    fn a_credential_is_for_one_server_and_comes_by_the_environment() {
        let stage = scene("[remote \"origin\"]\n\turl = https://forge.example:8443/x\n", []);
        stage.call(push::tool, json!({ "connection": "forge" })).unwrap();
        let (job, reach) = jobs(&stage).pop().unwrap();
        let reach = reach.unwrap();
        assert_eq!(reach.hosts, ["forge.example:8443"]);
        let variable = CredentialVariable { variable: "REMOTE_HEADER".into(), connection: "forge".into() };
        assert_eq!((reach.credential, job.env.len()), (Some(variable), 0));
        let option = "--config-env=http.https://forge.example:8443/.extraHeader=REMOTE_HEADER";
        assert_eq!(words(&stage)[0][0], option);
        assert_eq!(
            push::tool().reading.connection(&json!({ "connection": "forge" })),
            Ok(Some(ConnectionUse { connection: "forge".into(), writes: true }))
        );
        assert_eq!(
            fetch::tool().reading.connection(&json!({ "connection": "forge" })),
            Ok(Some(ConnectionUse { connection: "forge".into(), writes: false }))
        );
        assert_eq!(fetch::tool().reading.connection(&json!({})), Ok(None));
    }

    #[test]
    fn what_the_room_says_about_a_host_is_passed_on() {
        let refused = Fault::refused("host_refused", "`a.example:443` is not on the list", "Ask the operator.");
        let stage =
            scene("[remote \"origin\"]\n\turl = https://a.example/x\n", [Ok(ran(0, "", "")), Err(refused.clone())]);
        assert_eq!(stage.call(fetch::tool, json!({})), Err(refused));
    }
}
