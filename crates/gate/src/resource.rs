//! Rules about files and hosts. They bind every tool alike: what a call names is judged here, by the effects it would
//! have, whichever tool has them; what a call leads to is judged again by whoever opens the file or dials the host.

use std::{
    net::IpAddr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use serde::Serialize;
use toolgate_contract::{Effect, EffectKind, Reason, SourceLine};
use toolgate_guard::{
    host_entry::HostEntry,
    host_name::HostName,
    path_pattern::{PathPattern, spellings, whole},
};

use crate::{Agent, FileScope, Policy, Request};

/// Rules about files and hosts: those of the policy, or those of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// About files.
    pub files: Vec<FileRule>,
    /// About hosts.
    pub hosts: Vec<HostRule>,
}

/// What is said about some files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRule {
    /// Reading, writing or both.
    pub access: FileAccess,
    /// Is it refused, or is a person asked?
    pub answer: Answer,
    /// Which files.
    pub paths: Vec<PathPattern>,
    /// Why, in the operator's words.
    pub because: String,
    /// Where it is written.
    pub source: SourceLine,
}

/// What is said about some hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostRule {
    /// Is it refused, or is a person asked?
    pub answer: Answer,
    /// Which hosts, as they are written.
    pub hosts: Vec<String>,
    /// Why, in the operator's words.
    pub because: String,
    /// Where it is written.
    pub source: SourceLine,
}

/// What a rule says. There is no rule that allows: a file or host nobody speaks about is left to everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A person is asked.
    Ask,
    /// It is refused.
    Deny,
}

/// What a rule about files is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAccess {
    /// Looking at them.
    Read,
    /// Changing or removing them.
    Write,
    /// Both.
    Any,
}

impl FileAccess {
    /// Does a rule about this speak about that?
    pub fn covers(self, other: Self) -> bool {
        self == other || self == Self::Any || other == Self::Any
    }
}

/// Where the paths of a call lead: from which directory, and which directories are open at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terrain {
    workspace: PathBuf,
    roots: Vec<PathBuf>,
}

impl Terrain {
    /// No directory is known.
    pub const NOWHERE: &'static Self = &Self { workspace: PathBuf::new(), roots: Vec::new() };

    /// What is open to an agent whose files are limited like this. Paths begin in the first spelling of its workspace.
    pub fn within(scope: FileScope, workspace: &[&Path], project: &Path, directories: &[&Path]) -> Self {
        let mut opened = workspace.to_vec();
        if scope >= FileScope::ProjectDirectory {
            opened.push(project);
        }
        if scope >= FileScope::Full {
            opened.extend(directories);
        }
        let roots: Vec<PathBuf> = opened.into_iter().map(Path::to_owned).collect();
        Self { workspace: roots.first().cloned().unwrap_or_default(), roots }
    }

    /// The directories that are open.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The whole paths of those files of a call that this rule asked a person about: with their yes this may be done to
    /// them. Whoever may write a file may look at it; whoever may look may do no more.
    pub fn asked(&self, rule: &FileRule, effects: &[Effect], wanted: FileAccess) -> Vec<PathBuf> {
        let is_asked = |effect: &&Effect| {
            let is_enough = wanted == FileAccess::Read || access(effect.kind) == Some(wanted);
            rule.answer == Answer::Ask && rule.speaks(effect.kind) && is_enough
        };
        let named = effects.iter().filter(is_asked).filter_map(|effect| effect.target.as_deref());
        named.filter(|target| self.is_meant(target, &rule.paths)).map(|target| whole(&self.workspace, target)).collect()
    }

    /// Does a name, by its words, lead to something that is open? Where nothing is known, everything may be.
    pub(crate) fn holds(&self, name: &str) -> bool {
        let path = whole(&self.workspace, name);
        self.roots.is_empty() || self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Is this what one of the patterns means?
    fn is_meant(&self, name: &str, patterns: &[PathPattern]) -> bool {
        let path = whole(&self.workspace, name);
        let spelt = spellings(&path, &self.roots);
        patterns.iter().any(|pattern| spelt.iter().any(|path| pattern.matches(path.as_os_str().as_bytes())))
    }
}

impl Resources {
    /// What speaks for this answer about what a call would do.
    pub(crate) fn reasons(&self, effects: &[Effect], terrain: &Terrain, answer: Answer) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for effect in effects {
            let Some(target) = effect.target.as_deref() else { continue };
            let files = self.files.iter().filter(|rule| rule.answer == answer && rule.speaks(effect.kind));
            let files = files.filter(|rule| terrain.is_meant(target, &rule.paths));
            reasons.extend(files.map(|rule| rule.reason(effect.kind, target)));
            if effect.kind == EffectKind::Network {
                let hosts = self.hosts.iter().filter(|rule| rule.answer == answer && rule.names(target));
                reasons.extend(hosts.map(|rule| rule.reason(target)));
            }
        }
        reasons
    }
}

/// Most reasons that are told for one call; a person reads no more.
const MAX_REASONS: usize = 8;

/// What the rules of the policy and of the agent say about a call.
pub(crate) fn reasons(policy: &Policy, agent: &Agent, request: &Request<'_>, answer: Answer) -> Vec<Reason> {
    let spoken = |resources: &Resources| resources.reasons(request.effects, request.terrain, answer);
    let mut reasons: Vec<Reason> = [&policy.resources, &agent.resources].into_iter().flat_map(spoken).collect();
    reasons.truncate(MAX_REASONS);
    reasons
}

impl FileRule {
    fn speaks(&self, kind: EffectKind) -> bool {
        access(kind).is_some_and(|access| self.access.covers(access))
    }

    fn reason(&self, kind: EffectKind, target: &str) -> Reason {
        let deed = match kind {
            EffectKind::FsRead => "reading",
            EffectKind::FsDelete => "removing",
            _ => "writing",
        };
        let answer = match self.answer {
            Answer::Ask => "wants a person's yes",
            Answer::Deny => "is denied",
        };
        let text = format!("{deed} `{target}` {answer}: {}", self.because);
        Reason { rule: self.rule(), text, source: self.source.clone() }
    }

    fn rule(&self) -> &'static str {
        match self.answer {
            Answer::Ask => "file_asks",
            Answer::Deny => "file_denied",
        }
    }
}

/// What an effect does with a file.
fn access(kind: EffectKind) -> Option<FileAccess> {
    match kind {
        EffectKind::FsRead => Some(FileAccess::Read),
        EffectKind::FsWrite | EffectKind::FsDelete => Some(FileAccess::Write),
        _ => None,
    }
}

impl HostRule {
    /// Is this host meant, written as `host:port`?
    pub fn names(&self, target: &str) -> bool {
        self.hosts.iter().any(|host| Self::bars(host, target))
    }

    /// Does an entry of a list mean this host? What cannot be read for certain is meant by every entry.
    pub fn bars(entry: &str, target: &str) -> bool {
        let Ok(entry) = HostEntry::read(entry) else { return true };
        let (host, port) = match target.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port.parse::<u16>().ok()),
            _ => (target, None),
        };
        let at_port = entry.port.is_none() || port.is_none() || entry.port == port;
        let plain = host.trim_start_matches('[').trim_end_matches(']');
        let at_host = match (plain.parse::<IpAddr>(), HostName::parse(host)) {
            (Ok(ip), _) => entry.bars(ip),
            (Err(_), Ok(name)) => entry.names(&name),
            (Err(_), Err(_)) => true,
        };
        at_port && at_host
    }

    fn reason(&self, target: &str) -> Reason {
        let (rule, answer) = match self.answer {
            Answer::Ask => ("host_asks", "wants a person's yes"),
            Answer::Deny => ("host_denied", "is denied"),
        };
        let text = format!("talking to `{target}` {answer}: {}", self.because);
        Reason { rule, text, source: self.source.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(access: FileAccess, answer: Answer, paths: &[&str]) -> FileRule {
        let paths = paths.iter().map(|path| PathPattern::parse(path).unwrap()).collect();
        let source = SourceLine { file: "toolgate.yaml".into(), line: 4 };
        FileRule { access, answer, paths, because: "credentials".into(), source }
    }

    fn terrain() -> Terrain {
        Terrain::within(FileScope::ProjectDirectory, &[Path::new("/p/ws")], Path::new("/p"), &[])
    }

    /// What is said about an effect by a rule.
    #[track_caller]
    fn check(rule: &FileRule, kind: EffectKind, target: &str, expected: bool) {
        let resources = Resources { files: vec![rule.clone()], hosts: Vec::new() };
        let reasons = resources.reasons(&[Effect::on(kind, target)], &terrain(), rule.answer);
        assert_eq!(!reasons.is_empty(), expected, "{target}");
    }

    #[test]
    fn a_file_is_meant_however_it_is_spelt() {
        let env = rule(FileAccess::Any, Answer::Deny, &[".env", "conf/prod/**"]);
        for name in
            [".env", "./a/../.env", "/p/ws/.env", "a/.env", "../.env", "/p/ws/a/../.ENV", "conf/prod/x", "../conf/prod"]
        {
            check(&env, EffectKind::FsRead, name, true);
        }
        for name in [".envrc", "conf", "conf/product", "x/conf/prod", "env", "/p/ws"] {
            check(&env, EffectKind::FsRead, name, false);
        }
    }

    #[test]
    fn a_rule_is_about_reading_or_writing_or_both() {
        let kinds = [EffectKind::FsRead, EffectKind::FsWrite, EffectKind::FsDelete, EffectKind::Exec];
        for (access, expected) in [
            (FileAccess::Read, [true, false, false, false]),
            (FileAccess::Write, [false, true, true, false]),
            (FileAccess::Any, [true, true, true, false]),
        ] {
            for (kind, expected) in kinds.into_iter().zip(expected) {
                check(&rule(access, Answer::Deny, &["a"]), kind, "a", expected);
                check(&rule(access, Answer::Ask, &["a"]), kind, "a", expected);
            }
        }
    }

    /// A yes to reading is none to writing, and what a rule did not ask about it does not open.
    #[test]
    fn what_was_asked_about_is_open_for_what_was_asked() {
        let check = |asks: FileAccess, kind: EffectKind, expected: [bool; 2]| {
            let (rule, effects) = (rule(asks, Answer::Ask, &["a"]), [Effect::on(kind, "x/../a")]);
            let open = |wanted: FileAccess| terrain().asked(&rule, &effects, wanted) == [Path::new("/p/ws/a")];
            assert_eq!([FileAccess::Read, FileAccess::Write].map(open), expected, "{asks:?} {kind:?}");
        };
        check(FileAccess::Any, EffectKind::FsRead, [true, false]);
        check(FileAccess::Any, EffectKind::FsWrite, [true, true]);
        check(FileAccess::Any, EffectKind::FsDelete, [true, true]);
        check(FileAccess::Any, EffectKind::Exec, [false, false]);
        check(FileAccess::Read, EffectKind::FsRead, [true, false]);
        check(FileAccess::Read, EffectKind::FsWrite, [false, false]);
        check(FileAccess::Write, EffectKind::FsRead, [false, false]);
        check(FileAccess::Write, EffectKind::FsWrite, [true, true]);
        let denied = rule(FileAccess::Any, Answer::Deny, &["a"]);
        assert_eq!(
            terrain().asked(&denied, &[Effect::on(EffectKind::FsWrite, "a")], FileAccess::Read),
            [""; 0].map(PathBuf::from)
        );
    }

    #[test]
    fn a_reason_names_the_file_the_line_and_why() {
        let resources = Resources { files: vec![rule(FileAccess::Any, Answer::Ask, &["a"])], hosts: Vec::new() };
        let reasons = resources.reasons(&[Effect::on(EffectKind::FsDelete, "a")], Terrain::NOWHERE, Answer::Ask);
        let told: Vec<_> = reasons.iter().map(|reason| (reason.rule, &*reason.text, reason.source.line)).collect();
        assert_eq!(told, [("file_asks", "removing `a` wants a person's yes: credentials", 4)]);
        let texts = [EffectKind::FsRead, EffectKind::FsWrite].map(|kind| {
            let reasons = resources.reasons(&[Effect::on(kind, "a")], Terrain::NOWHERE, Answer::Ask);
            reasons[0].text.split(' ').next().unwrap().to_owned()
        });
        assert_eq!(texts, ["reading", "writing"]);
        assert_eq!(resources.reasons(&[Effect::on(EffectKind::FsDelete, "a")], Terrain::NOWHERE, Answer::Deny), []);
    }

    #[test]
    fn hosts_are_meant_by_name_and_port_and_what_is_unclear_is_meant() {
        let meant = HostRule::bars;
        for (entry, target) in [
            ("paste.example", "paste.example:443"),
            ("paste.example", "PASTE.example.:80"),
            ("*.corp.example", "a.b.corp.example:22"),
            ("paste.example:443", "paste.example:443"),
            ("paste.example:443", "paste.example"),
            ("10.0.0.0/8", "10.1.2.3:80"),
            ("169.254.0.0/16", "169.254.169.254:80"),
            ("fd00::/8", "[fd00::1]:80"),
            ("paste.example", "a host:443"),
        ] {
            assert!(meant(entry, target), "{entry} {target}");
        }
        for (entry, target) in [
            ("paste.example", "xpaste.example:443"),
            ("paste.example", "a.paste.example:443"),
            ("*.corp.example", "corp.example:443"),
            ("paste.example:443", "paste.example:80"),
            ("10.0.0.0/8", "11.1.2.3:80"),
            ("10.0.0.0/8", "paste.example:80"),
            ("10.0.0.0/8", "[2001:db8::a]"),
        ] {
            assert!(!meant(entry, target), "{entry} {target}");
        }
    }

    #[test]
    fn a_rule_about_hosts_speaks_about_talking_to_them() {
        let rule = |answer| HostRule {
            answer,
            hosts: vec!["paste.example".into(), "*.corp.example".into()],
            because: "not ours".into(),
            source: SourceLine::built_in(),
        };
        let resources = Resources { files: Vec::new(), hosts: vec![rule(Answer::Deny)] };
        let told = |kind, target: &str, answer| {
            let reasons = resources.reasons(&[Effect::on(kind, target)], Terrain::NOWHERE, answer);
            reasons.into_iter().map(|reason| (reason.rule, reason.text)).collect::<Vec<_>>()
        };
        let text = "talking to `paste.example:443` is denied: not ours".to_owned();
        assert_eq!(told(EffectKind::Network, "paste.example:443", Answer::Deny), [("host_denied", text)]);
        assert_eq!(told(EffectKind::Network, "a.corp.example:443", Answer::Deny).len(), 1);
        assert_eq!(told(EffectKind::Network, "docs.example:443", Answer::Deny), []);
        assert_eq!(told(EffectKind::Network, "paste.example:443", Answer::Ask), []);
        assert_eq!(told(EffectKind::Exec, "paste.example:443", Answer::Deny), []);
    }

    #[test]
    fn what_is_open_is_known() {
        assert_eq!(terrain().roots(), [Path::new("/p/ws"), Path::new("/p")]);
    }
}
