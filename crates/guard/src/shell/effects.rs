//! What a command would do: the files it touches, the network, the rights it uses.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    ir::{Command, Flow, Role, Why, Word},
    paths::{self, Place, is_plain_device, is_secret, is_secret_pattern, resolve},
    programs::{self, Files},
};

/// The kinds of effects a command can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Reads files.
    FsRead,
    /// Creates or changes files.
    FsWrite,
    /// Removes files.
    FsDelete,
    /// Runs a program that is not known to be harmless.
    Exec,
    /// Talks to another machine.
    Network,
    /// Reads a file that usually holds a secret.
    ReadsSecret,
    /// Touches a path outside the workspace.
    OutsideWorkspace,
    /// Uses rights the agent does not have by itself.
    Privileged,
}

impl EffectKind {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FsRead => "fs_read",
            Self::FsWrite => "fs_write",
            Self::FsDelete => "fs_delete",
            Self::Exec => "exec",
            Self::Network => "network",
            Self::ReadsSecret => "reads_secret",
            Self::OutsideWorkspace => "outside_workspace",
            Self::Privileged => "privileged",
        }
    }
}

/// One thing a command would do, and to what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Effect {
    /// What it does.
    pub kind: EffectKind,
    /// To what: an absolute path, a program, a `host:port`; none where the words do not say for certain.
    pub target: Option<String>,
}

/// How a command touches a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Look,
    Write,
    Delete,
}

/// The files a command names, and how it touches each.
pub(super) fn touches(command: &Command) -> Vec<(Access, Word)> {
    let mut found: Vec<(Access, Word)> = Vec::new();
    for redirect in &command.redirects {
        match redirect.flow {
            Flow::Read => found.push((Access::Read, redirect.target.clone())),
            Flow::Write => found.push((Access::Write, redirect.target.clone())),
            Flow::Text | Flow::Descriptor => {}
        }
    }
    let program = command.program();
    let mut operands: Vec<Word> = command.operands().cloned().collect();
    let takes_first = match program {
        "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" | "zgrep" => {
            !(command.has_short('e')
                || command.has_short('f')
                || command.has_long("--regexp")
                || command.has_long("--files"))
        }
        "sed" | "awk" | "gawk" | "mawk" | "jq" | "yq" => !(command.has_short('e') || command.has_short('f')),
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" | "split" | "csplit" | "tr" => true,
        _ => false,
    };
    if takes_first && !operands.is_empty() {
        operands.remove(0);
    }
    let access = match programs::files(program) {
        Files::Reads if program == "sed" && programs::risky_option(command).is_some() => Access::Write,
        Files::Reads => Access::Read,
        Files::Looks if program == "find" && command.args().iter().any(|arg| arg.text() == "-delete") => Access::Delete,
        Files::Looks => Access::Look,
        Files::Writes if program == "dd" => {
            for word in &operands {
                if word.text().starts_with("of=") {
                    found.push((Access::Write, word.after(3)));
                } else if word.text().starts_with("if=") {
                    found.push((Access::Read, word.after(3)));
                }
            }
            return found;
        }
        Files::Writes => Access::Write,
        Files::Removes => Access::Delete,
        Files::Copies => {
            let source = if program == "mv" { Access::Delete } else { Access::Read };
            let target = operands.pop();
            found.extend(operands.into_iter().map(|word| (source, word)));
            found.extend(target.map(|word| (Access::Write, word)));
            return found;
        }
        Files::None => return found,
        // A program nobody knows may read whatever it is given, also behind `name=` or `@`.
        Files::Unknown => {
            // Words that git searches for or writes into a message are no files.
            let is_text = |at: usize| {
                let before = at.checked_sub(1).map_or("", |before| command.args()[before].text());
                program == "git" && matches!(before, "--grep" | "--author" | "-S" | "-G" | "-m" | "--message")
            };
            let words = command.args().iter().enumerate().filter(|(at, _)| !is_text(*at)).map(|(_, word)| word);
            let given = words.flat_map(|word| {
                let text = word.text();
                let inner = text.rfind(['=', '@', ':']).map(|at| word.after(at + 1));
                std::iter::once(word.clone()).chain(inner)
            });
            let secret = |word: &Word| is_secret(word.text()) && !word.text().starts_with('-');
            found.extend(given.filter(secret).map(|word| (Access::Read, word)));
            return found;
        }
    };
    if program == "find" {
        operands
            .truncate(operands.iter().position(|word| word.text().starts_with(['(', '!'])).unwrap_or(operands.len()));
        operands.truncate(1);
    }
    found.extend(operands.into_iter().filter(|word| word.text() != "-").map(|word| (access, word)));
    let files = command.args().windows(2).filter(|pair| matches!(pair[0].text(), "-f" | "--file"));
    if matches!(program, "grep" | "rg" | "sed" | "awk") {
        found.extend(files.map(|pair| (Access::Read, pair[1].clone())));
    }
    found
}

/// Does the command read a file that usually holds a secret? Which?
pub(super) fn secret_read(command: &Command) -> Option<String> {
    touches(command).into_iter().filter(|(access, _)| *access == Access::Read).find_map(|(_, word)| {
        let path = resolve(command.cwd.as_deref(), word.text()).unwrap_or_else(|| word.text().to_owned());
        let is_pattern = matches!(word.why(), Some(Why::Glob | Why::Braces));
        (is_secret(&path) || (is_pattern && is_secret_pattern(&path))).then_some(path)
    })
}

/// Everything the commands would do.
pub(super) fn effects(commands: &[Command], place: &Place) -> BTreeSet<Effect> {
    let mut found = BTreeSet::new();
    for command in commands {
        let program = command.program();
        let mut add = |kind, target: Option<String>| {
            found.insert(Effect { kind, target });
        };
        for (access, word) in touches(command) {
            let path = resolve(command.cwd.as_deref(), word.text());
            if path.as_deref().is_some_and(is_plain_device) {
                continue;
            }
            let kind = match access {
                Access::Read | Access::Look => EffectKind::FsRead,
                Access::Write => EffectKind::FsWrite,
                Access::Delete => EffectKind::FsDelete,
            };
            if path.as_deref().is_some_and(|path| place.is_outside(path)) {
                add(EffectKind::OutsideWorkspace, path.clone());
            }
            add(kind, path);
        }
        if let Some(path) = secret_read(command) {
            add(EffectKind::ReadsSecret, Some(path));
        }
        if programs::is_network(command) || command.redirects.iter().any(|r| is_socket(r.target.text())) {
            match hosts(command) {
                Some(hosts) => hosts.into_iter().for_each(|host| add(EffectKind::Network, Some(host))),
                None => add(EffectKind::Network, None),
            }
        }
        if programs::is_privileged(program) {
            add(EffectKind::Privileged, Some(program.to_owned()));
        }
        let is_work = matches!(command.role, Role::Plain | Role::Wrapper) && !command.words.is_empty();
        let is_known = programs::files(program) != Files::Unknown && command.is_system_program;
        let is_git_read = program == "git" && is_reading_git(command);
        if is_work && (!(is_known || is_git_read) || programs::risky_option(command).is_some()) {
            add(EffectKind::Exec, Some(program.to_owned()));
        }
        if is_git_read {
            add(EffectKind::FsRead, command.cwd.clone());
        }
    }
    found
}

/// The hosts a command names by URL, as `host:port`, without the machine itself; none where its words do not say whom
/// it talks to.
fn hosts(command: &Command) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    for word in command.operands() {
        let host = url_host(word.literal()?);
        hosts.extend(host);
    }
    if hosts.is_empty() {
        return None;
    }
    hosts.retain(|host| !is_loopback(host));
    Some(hosts)
}

/// `host:port` of a URL. This only names what is asked for; what a connection may reach is not decided by it.
fn url_host(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let port = match scheme {
        "http" | "ws" => "80",
        "https" | "wss" => "443",
        "ssh" | "sftp" => "22",
        "git" => "9418",
        "ftp" => "21",
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
        !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && (before.ends_with(']') || !before.contains(':'))
    });
    (!host.is_empty()).then(|| if has_port { host } else { format!("{host}:{port}") })
}

fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
    name == "localhost" || name == "[::1]" || name.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_reading_git(command: &Command) -> bool {
    let subcommand = command.operands().next().map_or("", Word::text);
    matches!(subcommand, "log" | "status" | "diff" | "show" | "blame" | "grep" | "ls-files" | "rev-parse" | "describe")
        || matches!(subcommand, "shortlog" | "cat-file" | "ls-tree" | "rev-list" | "merge-base" | "version" | "help")
}

/// Files that the shell itself turns into connections.
pub(super) fn is_socket(target: &str) -> bool {
    target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/")
}

/// Does the command write to a path for which `test` holds?
pub(super) fn writes(command: &Command, test: impl Fn(&str) -> bool) -> bool {
    touches(command).iter().any(|(access, word)| {
        let path = resolve(command.cwd.as_deref(), word.text());
        *access == Access::Write && path.is_some_and(|path| test(&path))
    })
}

/// Does the command remove, or move away, a path for which `test` holds?
pub(super) fn removes(command: &Command, place: &Place, test: impl Fn(&str, &Place) -> bool) -> bool {
    touches(command).iter().any(|(access, word)| {
        let path = resolve(command.cwd.as_deref(), word.text());
        *access == Access::Delete && path.is_some_and(|path| test(&path, place))
    })
}

/// A path that ends in a pattern for everything counts as the directory.
pub(super) fn is_vital(path: &str, place: &Place) -> bool {
    paths::is_vital(path, place)
}
