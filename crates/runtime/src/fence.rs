//! What of files and hosts one call is let to: the directories that are open to it, and what rules keep it from.
//!
//! The gate has judged what the call names. This is for what the call leads to: file tools are held to the path the
//! kernel knows a file by, and programs to rooms in which closed files cannot be opened. Those are looked for right
//! before a program starts, because files come and go; the list is part of what the room is, so that another list is
//! another room.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use toolgate_contract::{Effect, EffectKind, Fault, Files};
use toolgate_gate::{Agent, Answer, FileAccess, FileRule, FileScope, HostRule, Policy, Resources, Terrain};
use toolgate_guard::path_pattern::{PathPattern, spellings};
use toolgate_sandbox::RoomSpec;
use toolgate_tools::{Closed, Protected, Workspace};

use crate::config::{AgentSettings, ConfigError, Directory};

/// Most entries of directories that are looked at before a program starts.
const MOST_ENTRIES: usize = 300_000;
/// Most files that are closed in one room one by one, and how long their names may be together.
const MOST_CLOSED: usize = 256;
const MOST_BYTES: usize = 48 * 1024;

/// The directories of one agent, opened.
pub(crate) struct Directories {
    pub(crate) workspace: Workspace,
    /// The project it belongs to, where that is another directory.
    pub(crate) project: Option<Workspace>,
    /// What the operator opened besides.
    pub(crate) others: Vec<(Workspace, Files)>,
    /// What that is by the words of a path, for every limit there is.
    terrains: BTreeMap<FileScope, Arc<Terrain>>,
}

impl Directories {
    /// Opens whatever could be open to an agent at any level.
    pub(crate) fn open(settings: &AgentSettings, protected: &[String], hidden: &[PathBuf]) -> Result<Self, Fault> {
        let open =
            |path: &Path| Workspace::open(path, Protected { names: protected.to_vec(), hidden: hidden.to_vec() });
        let workspace = open(&settings.workspace)?;
        let is_wider = workspace.root() != settings.project && workspace.root().starts_with(&settings.project);
        let project = is_wider.then(|| open(&settings.project)).transpose()?;
        let other = |dir: &Directory| Ok((open(&dir.path)?, if dir.write { Files::Write } else { Files::Read }));
        let others = settings.directories.iter().map(other).collect::<Result<Vec<_>, Fault>>()?;
        let roots: Vec<&Path> = others.iter().map(|(other, _)| other.root()).collect();
        let widest = project.as_ref().unwrap_or(&workspace).root();
        let terrain = |scope: FileScope| Arc::new(Terrain::within(scope, &workspace.spellings(), widest, &roots));
        let terrains = FileScope::ALL.iter().map(|scope| (*scope, terrain(*scope))).collect();
        Ok(Self { workspace, project, others, terrains })
    }

    /// A handle on what is open to an agent whose files are limited like this.
    fn within(&self, scope: FileScope) -> Workspace {
        let mut handle = self.workspace.clone();
        if let Some(project) = self.project.as_ref().filter(|_| scope >= FileScope::ProjectDirectory) {
            handle = handle.beside(project, Files::Write);
        }
        let others = self.others.iter().filter(|_| scope >= FileScope::Full);
        others.fold(handle, |handle, (other, access)| handle.beside(other, *access))
    }

    /// What is open to an agent whose files are limited like this, by the words of a path.
    pub(crate) fn terrain(&self, scope: FileScope) -> Arc<Terrain> {
        self.terrains.get(&scope).cloned().unwrap_or_default()
    }

    /// The directory programs may work in: the widest that holds the workspace and may be written.
    pub(crate) fn ground(&self, scope: FileScope) -> &Path {
        match &self.project {
            Some(project) if scope >= FileScope::ProjectDirectory => project.root(),
            Some(_) | None => self.workspace.root(),
        }
    }

    /// What programs see besides. It is for reading, whatever tools may do there.
    pub(crate) fn shown(&self, scope: FileScope) -> Vec<PathBuf> {
        let ground = self.ground(scope);
        let others = self.others.iter().filter(|_| scope >= FileScope::Full).map(|(other, _)| other.root());
        others.filter(|other| !other.starts_with(ground)).map(Path::to_owned).collect()
    }
}

fn no_text(path: &Path) -> Fault {
    let message = format!("no program is started: the name `{}` is no text, so it cannot be kept", path.display());
    Fault::refused("files_not_closed", message, "Ask the operator to rename it.")
}

/// What one call is kept from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fence {
    closed: Vec<Closed>,
    /// The directories that are open: rules spell a file from each that holds it.
    open: Vec<PathBuf>,
    /// Hosts that are out of reach.
    pub(crate) barred: Vec<String>,
}

impl Fence {
    /// What the rules of the policy and of the agent keep a call from that would do this. What a person is asked about
    /// is open to the call that names it, and to no other.
    pub(crate) fn of(policy: &Policy, agent: &Agent, effects: &[Effect], terrain: &Terrain) -> Self {
        let mut fence = Self { open: terrain.roots().to_vec(), ..Self::default() };
        for resources in [&policy.resources, &agent.resources] {
            fence.close(resources, effects, terrain);
        }
        fence
    }

    /// What the rules of the policy keep everybody from, for a program that no call names.
    pub(crate) fn of_all(policy: &Policy, roots: &[PathBuf]) -> Self {
        let mut fence = Self { open: roots.to_vec(), ..Self::default() };
        fence.close(&policy.resources, &[], Terrain::NOWHERE);
        fence
    }

    fn close(&mut self, resources: &Resources, effects: &[Effect], terrain: &Terrain) {
        for rule in &resources.files {
            let accesses = [FileAccess::Read, FileAccess::Write].into_iter().filter(|it| rule.access.covers(*it));
            self.closed.extend(accesses.map(|access| Closed {
                paths: rule.paths.clone(),
                read: access == FileAccess::Read,
                write: access == FileAccess::Write,
                except: terrain.asked(rule, effects, access),
                why: format!("{} ({})", rule.because, rule.source),
            }));
        }
        let talks_to = |effect: &&Effect| effect.kind == EffectKind::Network;
        let named: Vec<&str> = effects.iter().filter(talks_to).filter_map(|effect| effect.target.as_deref()).collect();
        for rule in &resources.hosts {
            let is_asked =
                |host: &&String| rule.answer == Answer::Ask && named.iter().any(|it| HostRule::bars(host, it));
            self.barred.extend(rule.hosts.iter().filter(|host| !is_asked(host)).cloned());
        }
    }

    /// The room with everything closed that is there now and that rules speak about.
    pub(crate) fn closing(&self, mut spec: RoomSpec) -> Result<RoomSpec, Fault> {
        let mut roots = spec.visible.clone();
        roots.extend(spec.workspace.iter().map(|workspace| workspace.path.clone()));
        let found = self.find(&roots)?;
        spec.closed = found.closed;
        if let Some(workspace) = &mut spec.workspace {
            for below in found.kept.iter().filter_map(|path| path.strip_prefix(&workspace.path).ok()) {
                workspace.protected.push(below.to_str().ok_or_else(|| no_text(below))?.to_owned());
            }
        }
        Ok(spec)
    }

    /// A handle on what is open, in which closed files stay closed.
    pub(crate) fn handle(&self, directories: &Directories, scope: FileScope) -> Workspace {
        directories.within(scope).closing(self.closed.clone())
    }

    /// The files in these directories that no program may look into, and those it may look into and not change.
    pub(crate) fn find(&self, roots: &[PathBuf]) -> Result<Found, Fault> {
        let mut found = Found::default();
        if self.closed.is_empty() {
            return Ok(found);
        }
        let mut seen = 0;
        let mut left: Vec<PathBuf> = roots.to_vec();
        // Also from the workspace where all of the project is looked through: a rule means the same file in either.
        let spelt_from = [roots, &self.open].concat();
        let vacant = self.vacant(&spelt_from);
        while let Some(dir) = left.pop() {
            // Looked into, and gone into: a directory may permit one and not the other.
            let entries = match fs::read_dir(&dir).and_then(|entries| dir.join(".").metadata().map(|_| entries)) {
                Ok(entries) => entries,
                Err(error) if is_nothing(&error) => continue,
                // Its owner can permit it again at any time, and may know what is in it.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !roots.contains(&dir) => {
                    found.closed.push(dir);
                    continue;
                }
                Err(error) => return Err(cannot_look(&dir, &error)),
            };
            for entry in entries {
                let entry = entry.map_err(|error| cannot_look(&dir, &error))?;
                seen += 1;
                if seen > MOST_ENTRIES {
                    return Err(too_many(format!("there are more than {MOST_ENTRIES} files to look at")));
                }
                let kind = entry.file_type().map_err(|error| cannot_look(&dir, &error))?;
                let path = entry.path();
                if vacant.contains(&path) {
                    continue;
                }
                if self.notes(&path, kind.is_symlink(), &spelt_from, &mut found)? && kind.is_dir() {
                    left.push(path);
                }
            }
        }
        found.kept.extend(vacant);
        found.settle()
    }

    /// Where a rule lets nobody write, and nothing is yet. An empty directory is nothing too: it may be the one that a
    /// room has put there to keep the place.
    fn vacant(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        let mut vacant = Vec::new();
        for rule in self.closed.iter().filter(|rule| rule.write) {
            for below in rule.paths.iter().filter_map(PathPattern::literal) {
                let named = roots.iter().map(|root| root.join(below));
                vacant.extend(named.filter(|path| !rule.except.iter().any(|open| path.starts_with(open))));
            }
        }
        vacant.retain(|path| is_vacant(path));
        vacant
    }

    /// Notes a path that a rule speaks about. Says whether what is below it is still to be looked at.
    fn notes(&self, path: &Path, is_link: bool, roots: &[PathBuf], found: &mut Found) -> Result<bool, Fault> {
        let spelt = spellings(path, roots);
        let meant = |rule: &&Closed| {
            // What lies beside an open file is closed one by one: a cover over their directory would be over it too.
            let is_open =
                rule.except.iter().any(|open| path.starts_with(open) || (rule.read && open.starts_with(path)));
            let matches = |below: &&Path| rule.paths.iter().any(|it| it.matches(below.as_os_str().as_bytes()));
            !is_open && spelt.iter().any(matches)
        };
        let mut rules = self.closed.iter().filter(meant).peekable();
        if rules.peek().is_none() {
            return Ok(true);
        }
        // A mount covers a file, not a link: of a link with a closed name, what it leads to is closed. One that cannot be
        // followed leads nowhere, out, or into a directory that is closed itself.
        let real = if is_link { path.canonicalize().ok() } else { Some(path.to_owned()) };
        let Some(real) = real.filter(|real| roots.iter().any(|root| real.starts_with(root) && real != root)) else {
            return Ok(false);
        };
        let is_closed = rules.any(|rule| rule.read);
        // Whoever removes the link takes the rule away from what it leads to.
        if is_link && !self.names(&real, is_closed, roots) {
            return Err(leads_on(path, &real));
        }
        if is_closed {
            found.closed.push(real);
        } else {
            found.kept.push(real);
        }
        // In what may be looked into there may be something that may not.
        Ok(!is_closed)
    }

    /// Does a rule mean this by a name of its own, and not by that of a link?
    fn names(&self, real: &Path, for_reading: bool, roots: &[PathBuf]) -> bool {
        let spelt = spellings(real, roots);
        let mut rules = self.closed.iter().filter(|rule| if for_reading { rule.read } else { rule.write });
        rules.any(|rule| spelt.iter().any(|below| rule.paths.iter().any(|it| it.matches(below.as_os_str().as_bytes()))))
    }
}

/// The rules whose path leads through a link from a directory that is open to an agent. A program is kept from files, and
/// no walk through them comes by there.
pub(crate) fn through_links<'r>(
    directories: &Directories,
    rules: impl Iterator<Item = &'r FileRule>,
) -> Vec<ConfigError> {
    let roots = directories.terrain(FileScope::Full).roots().to_vec();
    let mut errors = Vec::new();
    for rule in rules {
        for pattern in &rule.paths {
            let steps = roots.iter().flat_map(|root| pattern.on_the_way().into_iter().map(move |step| (root, step)));
            let mut links = steps.filter(|(root, step)| root.join(step).is_symlink());
            let Some((root, link)) = links.next() else { continue };
            let real = root.join(link).canonicalize().unwrap_or_default();
            let leads = real.strip_prefix(root).unwrap_or(&real).display();
            let message = format!("`{pattern}` leads through the link `{}`", link.display());
            let remedy = format!("Write the real path: `{}` leads to `{leads}`.", link.display());
            let (file, line) = (rule.source.file.clone(), rule.source.line);
            errors.push(ConfigError { file, line, column: 0, message, remedy, snippet: None });
        }
    }
    errors
}

/// Files that rules speak about, by their real paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Nobody looks into them.
    pub(crate) closed: Vec<PathBuf>,
    /// Nobody changes them.
    pub(crate) kept: Vec<PathBuf>,
}

impl Found {
    /// In order, each once, and none that lies below another.
    fn settle(mut self) -> Result<Self, Fault> {
        for paths in [&mut self.closed, &mut self.kept] {
            paths.sort();
            paths.dedup_by(|inner, outer| inner.starts_with(outer));
        }
        let closed = &self.closed;
        self.kept.retain(|path| !closed.iter().any(|above| path.starts_with(above)));
        let all = self.closed.iter().chain(&self.kept);
        let bytes: usize = all.clone().map(|path| path.as_os_str().len()).sum();
        if all.count() > MOST_CLOSED || bytes > MOST_BYTES {
            return Err(too_many(format!(
                "rules speak about more than {MOST_CLOSED} files, each in a place of its own"
            )));
        }
        Ok(self)
    }
}

fn is_vacant(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(there) => there.is_dir() && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()),
        Err(error) => is_nothing(&error),
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn cannot_look(dir: &Path, error: &io::Error) -> Fault {
    let message = format!("it cannot be seen which files of `{}` rules speak about: {error}", dir.display());
    Fault::refused("files_not_closed", message, "Try again, then ask the operator.")
}

fn leads_on(link: &Path, real: &Path) -> Fault {
    let message = format!(
        "no program is started: a rule speaks about the link `{}` and none about `{}`, where it leads",
        link.display(),
        real.display()
    );
    Fault::refused("files_not_closed", message, "Ask the operator to name what the link leads to in the rule too.")
}

fn too_many(why: String) -> Fault {
    let remedy = "Ask the operator for a smaller workspace, or for rules about whole directories.";
    Fault::refused("files_not_closed", format!("no program is started: {why}"), remedy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::thread::{CapabilitySet, CapabilitySets};
    use toolgate_contract::{AgentName, Level, SourceLine};
    use toolgate_gate::Sourced;

    use super::*;

    fn fence(rules: &[(&str, bool)]) -> Fence {
        let closed = |(path, read): &(&str, bool)| Closed {
            paths: vec![PathPattern::parse(path).unwrap()],
            read: *read,
            write: true,
            except: Vec::new(),
            why: String::new(),
        };
        Fence { closed: rules.iter().map(closed).collect(), ..Fence::default() }
    }

    #[test]
    fn a_rule_means_the_same_file_from_the_workspace_and_from_the_project() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let key = root.join("ws/conf/prod/key");
        fs::create_dir_all(key.parent().unwrap()).unwrap();
        fs::write(&key, "").unwrap();
        for rule in ["conf/prod/key", "ws/conf/prod/key"] {
            let fence = Fence { open: vec![root.join("ws"), root.clone()], ..fence(&[(rule, true)]) };
            assert_eq!(fence.find(std::slice::from_ref(&root)).unwrap().closed, std::slice::from_ref(&key), "{rule}");
        }
    }

    /// What is found in a directory with these files, relative to it.
    #[track_caller]
    fn check(files: &[&str], rules: &[(&str, bool)], closed: &[&str], kept: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in files {
            let at = root.join(file);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            match file.split_once(" -> ") {
                Some((link, target)) => symlink(target, root.join(link)).unwrap(),
                None => fs::write(at, "").unwrap(),
            }
        }
        let found = fence(rules).find(std::slice::from_ref(&root)).unwrap();
        let at = |paths: &[&str]| paths.iter().map(|path| root.join(path)).collect::<Vec<_>>();
        assert_eq!(found, Found { closed: at(closed), kept: at(kept) });
    }

    #[test]
    fn what_rules_speak_about_is_found_wherever_it_is() {
        let files = ["a", ".env", "x/y/.env", ".git/objects/.env", "secrets/a", "secrets/b/c", "x/secrets/d"];
        check(&files, &[(".env", true)], &[".env", ".git/objects/.env", "x/y/.env"], &[]);
        check(&files, &[("secrets/**", true)], &["secrets"], &[]);
        check(&files, &[("**/secrets/**", true)], &["secrets", "x/secrets"], &[]);
        check(&files, &[("**/y/.env", true), ("secrets/a", false)], &["x/y/.env"], &["secrets/a"]);
        check(&files, &[("secrets", true), ("secrets/a", false)], &["secrets", "x/secrets"], &[]);
        check(&files, &[], &[], &[]);
        // What is named and not there is kept, so that nobody makes it; so is what a room has put there instead.
        check(&["a"], &[(".github/workflows/**", false), ("b/c", true)], &[], &[".github/workflows", "b/c"]);
        check(&["a"], &[(".env", true), ("b/*.yml", false)], &[], &[]);
        // What may be looked into and not changed may hold what may not be looked into.
        check(&["keep/a", "keep/b/.env"], &[("keep/**", false), (".env", true)], &["keep/b/.env"], &["keep"]);
    }

    /// Its owner can open it for themselves: what is in it is not known, and is closed with it.
    #[test]
    fn a_directory_nobody_may_look_into_is_closed() {
        for mode in [0o000, 0o100, 0o600] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            let shut = root.join("shut");
            fs::create_dir(&shut).unwrap();
            fs::write(shut.join(".env"), "").unwrap();
            fs::set_permissions(&shut, fs::Permissions::from_mode(mode)).unwrap();
            let look = || {
                // The machine's root may look into everything, and is an ordinary user without this.
                let none = CapabilitySet::empty();
                let nothing = CapabilitySets { effective: none, permitted: none, inheritable: none };
                rustix::thread::set_capabilities(None, nothing).unwrap();
                let fence = fence(&[(".env", true)]);
                (fence.find(std::slice::from_ref(&root)), fence.find(std::slice::from_ref(&shut)))
            };
            let (found, refused) = std::thread::scope(|scope| scope.spawn(look).join().unwrap());
            fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
            assert_eq!(found.unwrap(), Found { closed: vec![shut], kept: Vec::new() }, "{mode:o}");
            assert_eq!(refused.unwrap_err().code, "files_not_closed", "{mode:o}");
        }
    }

    /// What stays closed for programs, and what stays kept, when a call does this under a rule that asks.
    #[test]
    fn a_yes_opens_what_was_asked_about_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let file = root.join("a");
        fs::write(&file, "").unwrap();
        let agent = Agent::at(AgentName::from("a"), Sourced::built_in(Level::Standard));
        let terrain = Terrain::within(FileScope::WorkspaceOnly, &[&root], &root, &[]);
        let check = |access: FileAccess, kind: EffectKind, closed: bool, kept: bool| {
            let paths = vec![PathPattern::parse("a").unwrap()];
            let (because, source) = (String::new(), SourceLine::built_in());
            let rule = FileRule { access, answer: Answer::Ask, paths, because, source };
            let mut policy = Policy::built_in();
            policy.resources.files.push(rule);
            let found = Fence::of(&policy, &agent, &[Effect::on(kind, "a")], &terrain);
            let found = found.find(std::slice::from_ref(&root)).unwrap();
            assert_eq!([!found.closed.is_empty(), !found.kept.is_empty()], [closed, kept], "{access:?} {kind:?}");
        };
        check(FileAccess::Any, EffectKind::Exec, true, false);
        check(FileAccess::Any, EffectKind::FsRead, false, true);
        check(FileAccess::Any, EffectKind::FsWrite, false, false);
        check(FileAccess::Write, EffectKind::FsRead, false, true);
        check(FileAccess::Write, EffectKind::FsWrite, false, false);
        check(FileAccess::Read, EffectKind::FsWrite, true, false);
    }

    #[test]
    fn a_yes_to_one_file_of_a_directory_opens_that_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir_all(at("s/t")).unwrap();
        for name in ["s/a", "s/b", "s/t/c"] {
            fs::write(at(name), "").unwrap();
        }
        let check = |read: bool, open: &str, closed: &[&str], kept: &[&str]| {
            let mut fence = fence(&[("s/**", read)]);
            fence.closed[0].except.push(at(open));
            let found = fence.find(std::slice::from_ref(&root)).unwrap();
            let all = |names: &[&str]| names.iter().map(|name| at(name)).collect::<Vec<_>>();
            assert_eq!(found, Found { closed: all(closed), kept: all(kept) }, "{open}");
        };
        check(true, "s/a", &["s/b", "s/t"], &[]);
        check(true, "s/t/c", &["s/a", "s/b"], &[]);
        check(true, "s", &[], &[]);
        // Whoever may make files beside it would do more than was asked about.
        check(false, "s/a", &[], &["s"]);
    }

    #[test]
    fn a_yes_to_one_host_is_none_to_another_of_the_same_rule() {
        let agent = Agent::at(AgentName::from("a"), Sourced::built_in(Level::Standard));
        let check = |answer: Answer, named: &str, barred: &[&str]| {
            let hosts = vec!["a.example".to_owned(), "b.example".to_owned()];
            let mut policy = Policy::built_in();
            policy.resources.hosts.push(HostRule {
                answer,
                hosts,
                because: String::new(),
                source: SourceLine::built_in(),
            });
            let fence = Fence::of(&policy, &agent, &[Effect::on(EffectKind::Network, named)], Terrain::NOWHERE);
            assert_eq!(fence.barred, barred, "{answer:?} {named}");
        };
        check(Answer::Ask, "a.example:443", &["b.example"]);
        check(Answer::Ask, "c.example:443", &["a.example", "b.example"]);
        check(Answer::Deny, "a.example:443", &["a.example", "b.example"]);
    }

    #[test]
    fn of_a_link_with_a_closed_name_it_is_closed_where_it_leads() {
        check(&["real", ".env -> real"], &[(".env", true), ("real", true)], &["real"], &[]);
        check(&["real", ".env -> real"], &[(".env", false), ("real", false)], &[], &["real"]);
        check(&["a", ".env -> /etc/hostname"], &[(".env", true)], &[], &[]);
        check(&["a", ".env -> gone"], &[(".env", true)], &[], &[]);
        check(&["d/x", "in -> d"], &[("in/x", true)], &[], &[]);
    }

    /// Whoever removes the link takes the rule away from what it leads to.
    #[test]
    fn a_link_is_followed_only_to_what_a_rule_names() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::write(root.join("real"), "").unwrap();
        symlink("real", root.join(".env")).unwrap();
        for rules in [&[(".env", true)][..], &[(".env", false)], &[(".env", true), ("real", false)]] {
            let refused = fence(rules).find(std::slice::from_ref(&root)).unwrap_err();
            assert_eq!(refused.code, "files_not_closed", "{rules:?}");
        }
    }

    #[test]
    fn what_cannot_be_closed_one_by_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MOST_CLOSED {
            fs::write(dir.path().join(format!("{number}.pem")), "").unwrap();
        }
        let fault = fence(&[("*.pem", true)]).find(&[dir.path().to_owned()]).unwrap_err();
        assert_eq!((&*fault.code, fault.kind), ("files_not_closed", toolgate_contract::FaultKind::Refused));
        assert!(fence(&[("1.pem", true)]).find(&[dir.path().to_owned()]).is_ok());
    }
}
