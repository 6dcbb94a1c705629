//! The six dimensions an access level constrains: files, code, network, git, terminal, approvals.
//!
//! Each is a scale whose earlier values permit less, so "may only tighten" is a comparison.

use std::collections::BTreeMap;

use serde::Serialize;
use toolgate_contract::{
    ActionType, Category, Effect, EffectKind, Files, Level, Network, SafetyClass, SourceLine, scale,
};

use crate::{Request, Sourced};

scale! {
    /// Which files a tool may reach.
    FileScope {
        /// The agent's workspace.
        WorkspaceOnly = "workspace_only",
        /// The project the workspace belongs to.
        ProjectDirectory = "project_directory",
        /// Whatever the operator opened to it.
        Full = "full",
    }
}

scale! {
    /// Where code runs.
    CodeIsolation {
        /// Nowhere: no program is started.
        None = "none",
        /// In a room.
        Containerized = "containerized",
    }
}

scale! {
    /// Whom a tool may talk to.
    NetworkMode {
        /// Nobody.
        None = "none",
        /// The hosts on the agent's list.
        AllowlistOnly = "allowlist_only",
        /// Any public host.
        Open = "open",
    }
}

scale! {
    /// How far git goes.
    GitLevel {
        /// Nothing leaves or enters the machine.
        LocalOnly = "local_only",
        /// Fetching too, never pushing.
        ReadAndBranch = "read_and_branch",
        /// Everything.
        Full = "full",
    }
}

scale! {
    /// Which commands a terminal runs.
    TerminalMode {
        /// No terminal.
        None = "none",
        /// Those a profile admits.
        RestrictedCommands = "restricted_commands",
        /// Any.
        Full = "full",
    }
}

/// What binds one agent, each dimension with the line that set it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Constraints {
    /// Files.
    pub file_system: Sourced<FileScope>,
    /// Code.
    pub code_execution: Sourced<CodeIsolation>,
    /// Network.
    pub network: Sourced<NetworkMode>,
    /// The hosts of `allowlist_only`, as `host` for the web or `host:port`.
    pub network_allowlist: Vec<Sourced<String>>,
    /// Git.
    pub git: Sourced<GitLevel>,
    /// Terminal.
    pub terminal: Sourced<TerminalMode>,
    /// Actions a person is asked about even where they are granted.
    pub requires_approval: BTreeMap<ActionType, SourceLine>,
    /// Files are read and not written, and who says so. Programs are left to their room, which is for reading too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<SourceLine>,
}

impl Constraints {
    /// What a level means unless the config says otherwise. `custom` starts from the tightest values.
    pub fn of(level: Level) -> Self {
        let (files, network, git, terminal) = match level {
            Level::Sandboxed | Level::Custom => {
                (FileScope::WorkspaceOnly, NetworkMode::None, GitLevel::LocalOnly, TerminalMode::None)
            }
            Level::Restricted => {
                (FileScope::ProjectDirectory, NetworkMode::AllowlistOnly, GitLevel::ReadAndBranch, TerminalMode::None)
            }
            Level::Standard => {
                (FileScope::ProjectDirectory, NetworkMode::Open, GitLevel::Full, TerminalMode::RestrictedCommands)
            }
            Level::Elevated => (FileScope::Full, NetworkMode::Open, GitLevel::Full, TerminalMode::Full),
        };
        // The lowest level asks too: a list that allows one of these must not give it more than the level above has.
        let asks: &[ActionType] = match level {
            Level::Sandboxed | Level::Restricted => {
                &[ActionType::DeployStaging, ActionType::DeployProduction, ActionType::DbMutate]
            }
            Level::Standard | Level::Elevated | Level::Custom => &[],
        };
        Self {
            file_system: Sourced::built_in(files),
            code_execution: Sourced::built_in(CodeIsolation::Containerized),
            network: Sourced::built_in(network),
            network_allowlist: Vec::new(),
            git: Sourced::built_in(git),
            terminal: Sourced::built_in(terminal),
            requires_approval: asks.iter().map(|action| (action.clone(), SourceLine::built_in())).collect(),
            read_only: None,
        }
    }

    /// The first dimension this call would overstep, with a sentence about it.
    pub(crate) fn overstepped(&self, request: &Request<'_>) -> Option<(&'static str, String, SourceLine)> {
        let needs_network = request.def.safety == SafetyClass::Network
            || request.def.needs.network != Network::None
            || request.effects.iter().any(|effect| effect.kind == EffectKind::Network);
        if self.code_execution.value == CodeIsolation::None && starts_programs(request) {
            let text = "the agent starts no programs".into();
            return Some(("code_execution_constraint", text, self.code_execution.source.clone()));
        }
        if request.def.category == Category::Terminal && self.terminal.value == TerminalMode::None {
            return Some(("terminal_constraint", "the agent has no terminal".into(), self.terminal.source.clone()));
        }
        if git_level(request, needs_network) > self.git.value {
            let text = format!("git is limited to `{}`", self.git.value.as_str());
            return Some(("git_constraint", text, self.git.source.clone()));
        }
        if let Some(source) = self.read_only.as_ref().filter(|_| writes_here(request)) {
            return Some(("read_only_constraint", "files are read here, and not written".into(), source.clone()));
        }
        if let Some(path) = left_behind(request) {
            let text = format!(
                "`{path}` is not inside the workspace: files are limited to `{}`",
                self.file_system.value.as_str()
            );
            return Some(("file_system_constraint", text, self.file_system.source.clone()));
        }
        if needs_network {
            let text = self.network_overstepped(request)?;
            return Some(("network_constraint", text, self.network.source.clone()));
        }
        None
    }

    /// May something be said to this host, named as `host:port`? If not, why.
    ///
    /// The gate asks about what a call names; whoever dials asks again about what the call led to.
    pub fn may_reach(&self, target: &str) -> Result<(), String> {
        match self.network.value {
            NetworkMode::Open => Ok(()),
            NetworkMode::None => Err("the agent has no network".into()),
            NetworkMode::AllowlistOnly if self.lists(target) => Ok(()),
            NetworkMode::AllowlistOnly => Err(format!("`{target}` is not on the agent's network allowlist")),
        }
    }

    fn network_overstepped(&self, request: &Request<'_>) -> Option<String> {
        match self.network.value {
            NetworkMode::Open => None,
            NetworkMode::None => Some("the agent has no network".into()),
            // Which hosts is known only with the arguments; the call itself is decided again.
            NetworkMode::AllowlistOnly if request.arguments.is_none() => None,
            NetworkMode::AllowlistOnly => {
                // A program need not say whom it talks to: its room has the same list.
                let has_room = request.command.is_some() || request.def.needs.exec;
                let is_named = |effect: &&Effect| !has_room || effect.target.is_some();
                let talks = |effect: &&Effect| effect.kind == EffectKind::Network;
                let mut hosts = request.effects.iter().filter(talks).filter(is_named).peekable();
                if hosts.peek().is_none() && !has_room {
                    return Some("the call names no host, and the agent's network is an allowlist".into());
                }
                hosts.find_map(|effect| {
                    self.may_reach(effect.target.as_deref().unwrap_or("a host without a name")).err()
                })
            }
        }
    }

    /// An entry without a port is meant for the web: rooms and the client read it the same way.
    fn lists(&self, target: &str) -> bool {
        let (host, port) = target.rsplit_once(':').unwrap_or((target, "443"));
        let is_web = matches!(port, "80" | "443");
        self.network_allowlist.iter().any(|entry| entry.value == target || (is_web && entry.value == host))
    }
}

/// How far a call takes git: by what it amounts to, by the command it was given, or by being a git tool that talks to
/// somebody.
fn git_level(request: &Request<'_>, needs_network: bool) -> GitLevel {
    if request.actions().any(|action| *action == ActionType::VcsPush) {
        return GitLevel::Full;
    }
    let fetches = request.def.category == Category::VersionControl && needs_network;
    request.git.max(if fetches { GitLevel::ReadAndBranch } else { GitLevel::LocalOnly })
}

/// The first file of a call that lies, by its words, in no directory that is open. Programs are left to their room:
/// it holds more than what is open, and nothing that is not.
fn left_behind<'a>(request: &Request<'a>) -> Option<&'a str> {
    if request.command.is_some() || request.def.needs.exec {
        return None;
    }
    let is_file =
        |effect: &&Effect| matches!(effect.kind, EffectKind::FsRead | EffectKind::FsWrite | EffectKind::FsDelete);
    let mut files = request.effects.iter().filter(is_file).filter_map(|effect| effect.target.as_deref());
    files.find(|path| !request.terrain.holds(path))
}

/// Does it write files itself? A program writes what its room lets it.
fn writes_here(request: &Request<'_>) -> bool {
    let writes = |effect: &Effect| matches!(effect.kind, EffectKind::FsWrite | EffectKind::FsDelete);
    let has_room = request.command.is_some() || request.def.needs.exec;
    !has_room && (request.def.needs.files == Files::Write || request.effects.iter().any(writes))
}

/// By its declaration, by the command it was given, or by what it does with these arguments.
fn starts_programs(request: &Request<'_>) -> bool {
    let executes = |effect: &Effect| effect.kind == EffectKind::Exec;
    request.def.needs.exec || request.command.is_some() || request.effects.iter().any(executes)
}

#[cfg(test)]
mod tests {
    use toolgate_contract::{Needs, ToolDef, Verdict};
    use toolgate_guard::shell::policy::Judgement;

    use super::*;

    #[test]
    fn no_level_of_the_ladder_is_tighter_than_the_one_below() {
        for pair in Level::LADDER.windows(2) {
            let (low, high) = (Constraints::of(pair[0]), Constraints::of(pair[1]));
            assert!(low.file_system.value <= high.file_system.value);
            assert!(low.code_execution.value <= high.code_execution.value);
            assert!(low.network.value <= high.network.value);
            assert!(low.git.value <= high.git.value);
            assert!(low.terminal.value <= high.terminal.value);
        }
    }

    #[test]
    fn an_allowlist_entry_without_a_port_stands_for_the_web() {
        let mut constraints = Constraints::of(Level::Restricted);
        constraints.network_allowlist =
            vec![Sourced::built_in("api.example.com".into()), Sourced::built_in("db.example.com:5432".into())];
        assert!(constraints.lists("api.example.com:443") && constraints.lists("api.example.com:80"));
        assert!(constraints.lists("api.example.com") && !constraints.lists("api.example.com:8443"));
        assert!(constraints.lists("db.example.com:5432"));
        assert!(!constraints.lists("db.example.com:22"));
        assert!(!constraints.lists("example.com:443"));
    }

    /// Where files are only read, whoever would write them itself is refused; a program is held by its room.
    #[test]
    fn what_is_read_only_is_written_by_nobody_here() {
        let line = SourceLine { file: "t.yaml".into(), line: 3 };
        let constraints = Constraints { read_only: Some(line.clone()), ..Constraints::of(Level::Elevated) };
        let check = |needs: Needs, kinds: &[EffectKind], command: Option<&Judgement>, refused: bool| {
            let def = ToolDef { needs, ..ToolDef::default() };
            let effects: Vec<Effect> = kinds.iter().map(|kind| Effect { kind: *kind, target: None }).collect();
            let request = Request { effects: &effects, command, ..Request::of(&def) };
            let said = constraints.overstepped(&request).filter(|(rule, ..)| *rule == "read_only_constraint");
            assert_eq!(said.map(|(_, _, source)| source), refused.then(|| line.clone()), "{needs:?} {kinds:?}");
        };
        let reads = Needs { files: Files::Read, ..Needs::NOTHING };
        let program = Needs { exec: true, ..Needs::WRITE_FILES };
        check(Needs::WRITE_FILES, &[], None, true);
        check(Needs::WRITE_FILES, &[EffectKind::FsRead], None, true);
        check(reads, &[EffectKind::FsWrite], None, true);
        check(reads, &[EffectKind::FsRead, EffectKind::FsDelete], None, true);
        check(reads, &[EffectKind::FsRead], None, false);
        check(reads, &[], None, false);
        check(program, &[EffectKind::FsWrite], None, false);
        let command = Judgement { verdict: Verdict::Allow, spoke: Vec::new() };
        check(Needs::WRITE_FILES, &[EffectKind::FsWrite], Some(&command), false);
    }
}
