//! What is said about files and hosts: rules that keep tools from them, and directories that are open to an agent.

use std::path::{Path, PathBuf};

use toolgate_gate::{Answer, FileAccess, FileRule, HostRule, Resources};
use toolgate_guard::{host_entry::HostEntry, path_pattern::PathPattern};

use super::{
    Directory,
    check::Check,
    file::{DirectoryFile, FileRuleFile, HostRuleFile},
    findings::{Findings, Said},
    load::{At, Mark, WordOr},
    rooms,
};

/// A directory that is opened to an agent, as it is written.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    path: String,
    write: bool,
}

/// Checks the rules of a policy or of an agent.
pub(super) fn check(
    cx: &mut Check<'_>,
    files: Option<&[At<FileRuleFile>]>,
    hosts: Option<&[At<HostRuleFile>]>,
) -> Resources {
    let files = files.unwrap_or_default();
    let hosts = hosts.unwrap_or_default();
    Resources {
        files: files.iter().filter_map(|rule| file_rule(cx, &rule.value, rule.mark)).collect(),
        hosts: hosts.iter().filter_map(|rule| host_rule(cx, &rule.value, rule.mark)).collect(),
    }
}

fn file_rule(cx: &mut Check<'_>, file: &FileRuleFile, mark: Mark) -> Option<FileRule> {
    const REMEDY: &str = "Write `deny: [read, write]` or `ask: [write]`, and `paths` and `because` beside it.";
    let (answer, verbs) = answer(cx, file.deny.as_deref(), file.ask.as_deref(), mark, REMEDY)?;
    let access = access(cx, verbs, mark)?;
    let because = because(cx, file.because.as_ref(), mark, REMEDY)?;
    let written = file.paths.as_deref().unwrap_or_default();
    if written.is_empty() {
        cx.error(mark, "a rule about files names no `paths`", REMEDY);
        return None;
    }
    let paths: Vec<PathPattern> = written.iter().filter_map(|path| pattern(cx, path)).collect();
    if paths.len() < written.len() {
        return None;
    }
    let is_meant = |path: &str| paths.iter().any(|pattern| pattern.matches(plain(path).as_bytes()));
    examples(cx, file.must.as_deref(), file.must_not.as_deref(), is_meant);
    let source = cx.findings.source(cx.spot(mark));
    Some(FileRule { access, answer, paths, because, source })
}

fn host_rule(cx: &mut Check<'_>, file: &HostRuleFile, mark: Mark) -> Option<HostRule> {
    const REMEDY: &str = "Write `deny: [pastebin.com]` or `ask: [\"*.example.com\"]`, and `because` beside it.";
    let (answer, written) = answer(cx, file.deny.as_deref(), file.ask.as_deref(), mark, REMEDY)?;
    let because = because(cx, file.because.as_ref(), mark, REMEDY)?;
    for host in written {
        if let Err(why) = HostEntry::read(&host.value) {
            let remedy = "Write `host`, `*.host`, an address or a block of addresses, each with `:port` or without.";
            cx.error(host.mark, format!("`{}` does not say which host is meant: {why}", host.value), remedy);
            return None;
        }
    }
    let hosts = written.iter().map(|host| host.value.clone()).collect();
    let source = cx.findings.source(cx.spot(mark));
    let rule = HostRule { answer, hosts, because, source };
    examples(cx, file.must.as_deref(), file.must_not.as_deref(), |host| rule.names(host));
    Some(rule)
}

/// A rule denies or asks, one of the two, and says what.
fn answer<'f>(
    cx: &mut Check<'_>,
    deny: Option<&'f [At<String>]>,
    ask: Option<&'f [At<String>]>,
    mark: Mark,
    remedy: &str,
) -> Option<(Answer, &'f [At<String>])> {
    match (deny, ask) {
        (Some(list), None) if !list.is_empty() => Some((Answer::Deny, list)),
        (None, Some(list)) if !list.is_empty() => Some((Answer::Ask, list)),
        (Some(_), Some(_)) => {
            cx.error(mark, "a rule denies or asks, not both", "Write two rules.");
            None
        }
        _ => {
            cx.error(mark, "this rule denies nothing and asks about nothing", remedy);
            None
        }
    }
}

fn access(cx: &mut Check<'_>, verbs: &[At<String>], mark: Mark) -> Option<FileAccess> {
    let mut access: Option<FileAccess> = None;
    for verb in verbs {
        let said = match verb.value.as_str() {
            "read" => FileAccess::Read,
            "write" => FileAccess::Write,
            _ => {
                cx.unknown("use of a file", verb, ["read", "write"]);
                return None;
            }
        };
        access = Some(if access.is_some_and(|before| before != said) { FileAccess::Any } else { said });
    }
    if access.is_none() {
        cx.error(mark, "this rule says neither `read` nor `write`", "Write `deny: [read, write]`.");
    }
    access
}

fn because(cx: &mut Check<'_>, text: Option<&At<String>>, mark: Mark, remedy: &str) -> Option<String> {
    match text.map(|text| text.value.trim()) {
        None | Some("") => {
            cx.error(mark, "this rule has no `because`", remedy);
            None
        }
        Some(text) => Some(text.to_owned()),
    }
}

fn pattern(cx: &mut Check<'_>, path: &At<String>) -> Option<PathPattern> {
    PathPattern::parse(&path.value)
        .map_err(|why| {
            let remedy = "Write a name such as `.env`, or a path such as `secrets/**` or `**/*.pem`.";
            cx.error(path.mark, format!("`{}` does not say which files are meant: {why}", path.value), remedy);
        })
        .ok()
}

/// What a rule says it means and does not mean is tried when the file is loaded.
fn examples(
    cx: &mut Check<'_>,
    must: Option<&[At<String>]>,
    must_not: Option<&[At<String>]>,
    is_meant: impl Fn(&str) -> bool,
) {
    const REMEDY: &str = "Change the rule or the example until they agree.";
    for example in must.unwrap_or_default().iter().filter(|example| !is_meant(&example.value)) {
        cx.error(example.mark, format!("`{}` is to be meant by this rule, and is not", example.value), REMEDY);
    }
    for example in must_not.unwrap_or_default().iter().filter(|example| is_meant(&example.value)) {
        cx.error(example.mark, format!("`{}` is not to be meant by this rule, and is", example.value), REMEDY);
    }
}

fn plain(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

/// The directories that are opened to an agent.
pub(super) fn directories(cx: &mut Check<'_>, list: Option<&[At<WordOr<DirectoryFile>>]>) -> Vec<Said<Opened>> {
    list.unwrap_or_default().iter().filter_map(|written| directory(cx, written)).collect()
}

fn directory(cx: &mut Check<'_>, written: &At<WordOr<DirectoryFile>>) -> Option<Said<Opened>> {
    let (path, write) = match &written.value {
        WordOr::Word(path) => (Some(path.clone()), false),
        WordOr::Mapping(dir) => {
            (dir.path.as_ref().map(|path| path.value.clone()), dir.write.as_ref().is_some_and(|write| write.value))
        }
    };
    match path.filter(|path| !path.trim().is_empty() && !path.starts_with('~')) {
        Some(path) => Some(Said { value: Opened { path, write }, spot: cx.spot(written.mark) }),
        None => {
            let remedy = "Write a whole path or one relative to this file, or `{path: .., write: true}`.";
            cx.error(written.mark, "this does not name a directory", remedy);
            None
        }
    }
}

/// A look at the world: the directories that are opened must be there, and have nothing to do with Toolgate's own.
pub(super) fn open(said: &[Said<Opened>], data_dir: &Path, findings: &mut Findings) -> Vec<Directory> {
    let mut opened = Vec::new();
    for Said { value, spot } in said {
        let from = findings.texts.get(spot.file).map(|text| text.dir().to_owned()).unwrap_or_default();
        let path = std::path::absolute(from.join(&value.path)).unwrap_or_default();
        match path.canonicalize() {
            Ok(real) => {
                rooms::look_at(&real, &real, *spot, data_dir, findings);
                if is_taken(&real) {
                    let message = format!("`{}` is the system's", real.display());
                    findings.error(*spot, message, "Name a directory that holds data.");
                }
                opened.push(Directory { path: real, write: value.write });
            }
            Err(error) => {
                let message = format!("`{}` cannot be opened: {error}", path.display());
                findings.error(*spot, message, "Create the directory, or write one that exists.");
            }
        }
    }
    opened
}

/// What every room has of the machine, or has of its own.
fn is_taken(path: &Path) -> bool {
    const SYSTEM: [&str; 10] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys", "/run"];
    let is_above = ["/", "/tmp", "/home", "/var", "/root"].iter().any(|dir| path == Path::new(dir));
    is_above || SYSTEM.iter().any(|dir| path.starts_with(dir))
}

/// The project a workspace belongs to: the nearest directory above it that holds a repository. One that would open the
/// user's home, the data directory or the directory of the config is none.
pub(super) fn project(workspace: &Path, kept: &[PathBuf]) -> PathBuf {
    let holds_repository = |dir: &&Path| dir.join(".git").symlink_metadata().is_ok();
    let is_open = |dir: &&Path| !is_taken(dir) && !kept.iter().any(|kept| kept.starts_with(dir));
    let found = workspace.ancestors().find(holds_repository).filter(is_open);
    found.unwrap_or(workspace).to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_project_is_the_nearest_repository_and_never_a_home_or_what_toolgate_keeps() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for made in ["home/p/sub/deep", "home/p/.git", "home/other/ws", "home/inner/ws/.git", "home/.config/toolgate"] {
            fs::create_dir_all(at(made)).unwrap();
        }
        fs::create_dir_all(at("tree/ws")).unwrap();
        fs::write(at("tree/.git"), "gitdir: elsewhere").unwrap();
        let kept = [at("home/.config/toolgate"), at("data")];
        let check = |workspace: &str, expected: &str| assert_eq!(project(&at(workspace), &kept), at(expected));
        check("home/p/sub/deep", "home/p");
        check("home/p", "home/p");
        check("home/inner/ws", "home/inner/ws");
        check("home/other/ws", "home/other/ws");
        check("tree/ws", "tree");
        fs::create_dir(at("home/.git")).unwrap();
        check("home/other/ws", "home/other/ws");
        check("home/p/sub/deep", "home/p");
        fs::create_dir_all(at("data/x")).unwrap();
        fs::create_dir(at(".git")).unwrap();
        check("data/x", "data/x");
        assert!(is_taken(Path::new("/")) && is_taken(Path::new("/usr/share")) && !is_taken(Path::new("/srv/x")));
    }
}
