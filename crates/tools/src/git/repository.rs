//! A repository of the workspace: where its parts are, and what is taken over from its config.
//!
//! Git gets another config instead of the repository's own, which can name programs in a hundred ways: filters, hooks,
//! drivers, helpers, includes, and whatever the next version adds. What git is to know of it is on the list below, key
//! by key; nothing else reaches git. Where the parts of a repository are is settled here too, before git starts, so that
//! neither a `.git` file nor a link nor an alternate leads it out of the workspace.

use std::io::Read as _;

use toolgate_contract::Fault;

use super::{
    config::{self, Setting},
    fault::{BAD_REPOSITORY, NO_REPOSITORY},
    name::{BranchName, Named as _, RemoteName, is_ref_name, normal},
};
use crate::{
    Cx,
    files::{
        Workspace,
        fault::{self, BAD_PATH, NOT_A_DIRECTORY, NOT_FOUND, OUTSIDE},
        text::brief,
        workspace::Node,
    },
};

/// A repository with a work tree.
#[derive(Debug)]
pub(super) struct Repository {
    /// The work tree, relative to the workspace; empty for the workspace.
    place: String,
    /// The absolute path of the workspace.
    root: String,
    /// What belongs to this work tree: `HEAD`, the index. Relative to the workspace.
    own: String,
    /// What all work trees share: objects, refs. Relative to the workspace.
    shared: String,
    head: Head,
    settings: Vec<Setting>,
    underway: Option<Underway>,
}

/// What is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head {
    /// A branch, which may have no commit yet.
    Branch(BranchName),
    /// A commit, or something else that is no branch.
    Detached,
}

/// What was begun and waits to be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Underway {
    Merge,
    Rebase,
    CherryPick,
    Revert,
}

impl Underway {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Rebase => "rebase",
            Self::CherryPick => "cherry_pick",
            Self::Revert => "revert",
        }
    }
}

/// What git may know of a repository's config. A key with a subsection is written `section.*.key`.
const TAKEN_OVER: &[&str] = &[
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.precomposeunicode",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "core.trustctime",
    "merge.conflictstyle",
    "user.email",
    "user.name",
    "branch.*.merge",
    "branch.*.remote",
    "remote.*.fetch",
];

/// Who commits where the repository does not say.
const NOBODY: (&str, &str) = ("Toolgate agent", "agent@localhost");

/// More than a config, a pointer or a list of alternates ever has.
const LONGEST_FILE: u64 = 1 << 20;

/// One word of a command has a longest length.
const LONGEST_CONFIG: usize = 64 * 1024;

impl Repository {
    /// The repository whose work tree is this directory; the workspace when none is named.
    pub(super) fn open(cx: &Cx, directory: Option<&str>) -> Result<Self, Fault> {
        let workspace = cx.workspace()?;
        let named = directory.unwrap_or(".");
        let place = text_of(workspace.open_dir(named)?.place)?;
        let root = workspace.root().to_str().ok_or_else(|| unreadable("the workspace's path is not UTF-8"))?.to_owned();

        let (own, shared) = parts(workspace, &place, named)?;
        let head = read(workspace, &join(&own, "HEAD"))?.ok_or_else(|| no_repository(named))?;
        for part in ["objects", "refs"] {
            inside(workspace, &join(&shared, part), named)?;
        }
        no_alternates_outside(workspace, &shared, named)?;

        let mut settings = Vec::new();
        for file in [join(&shared, "config"), join(&own, "config.worktree")] {
            settings.extend(config::read(&read(workspace, &file)?.unwrap_or_default())?);
        }
        if last(&settings, "extensions", None, "refstorage").is_some_and(|format| format != "files") {
            return Err(unreadable("its refs are kept in a format that is not supported"));
        }
        let underway = underway(workspace, &own)?;
        Ok(Self { place, root, own, shared, head: Head::of(&head), settings, underway })
    }

    /// Where it is, relative to the workspace; empty for the workspace.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// What is checked out.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// What waits to be finished.
    pub(super) fn underway(&self) -> Option<Underway> {
        self.underway
    }

    /// The absolute paths that git is told: of the part of this work tree, of the shared part, of the work tree.
    pub(super) fn paths(&self) -> [String; 3] {
        [&self.own, &self.shared, &self.place].map(|place| match place.as_str() {
            "" => self.root.clone(),
            whole if whole.starts_with('/') => whole.to_owned(),
            place => format!("{}/{place}", self.root),
        })
    }

    /// The addresses a remote is fetched from or pushed to, as they are written.
    pub(super) fn addresses(&self, remote: &RemoteName, key: &str) -> Vec<&str> {
        let of_remote = |setting: &&Setting| {
            (setting.section.as_str(), setting.subsection.as_deref(), setting.key.as_str())
                == ("remote", Some(remote.as_str()), key)
        };
        self.settings.iter().filter(of_remote).map(|setting| setting.value.as_str()).collect()
    }

    /// What an address really is: the longest beginning that `url.*.insteadOf` replaces, replaced.
    pub(super) fn rewritten(&self, address: &str, key: &str) -> Option<String> {
        let fits = |setting: &&Setting| {
            setting.section == "url" && setting.key == key && !setting.value.is_empty() && {
                address.starts_with(&setting.value)
            }
        };
        let longest = self.settings.iter().filter(fits).max_by_key(|setting| setting.value.len())?;
        let base = longest.subsection.as_deref().unwrap_or_default();
        Some(format!("{base}{}", &address[longest.value.len()..]))
    }

    /// The remote a branch belongs to, and its name there.
    pub(super) fn upstream(&self, branch: &BranchName) -> Option<(RemoteName, BranchName)> {
        let of_branch = |key| last(&self.settings, "branch", Some(branch.as_str()), key);
        let remote = RemoteName::read(of_branch("remote")?).ok()?;
        let there = BranchName::read(of_branch("merge")?.strip_prefix("refs/heads/")?).ok()?;
        Some((remote, there))
    }

    /// The config that git gets, with what is to be said besides.
    pub(super) fn config(&self, besides: Vec<Setting>) -> String {
        let mut settings = format_of(&self.settings);
        settings.extend(besides);
        settings.extend(self.identity());
        settings.extend(self.settings.iter().filter(|setting| is_taken_over(setting)).cloned());
        settings.extend(self.presumed_upstream());
        let mut length = 0;
        let fitting = settings.into_iter().take_while(|setting| {
            length += setting.key.len() + setting.value.len() + setting.subsection.as_ref().map_or(0, String::len) + 32;
            length <= LONGEST_CONFIG
        });
        config::write(&fitting.collect::<Vec<_>>())
    }

    /// Who commits, unless the repository says so later in the same file.
    fn identity(&self) -> [Setting; 2] {
        let setting = |key: &str, value: &str| Setting {
            section: "user".into(),
            subsection: None,
            key: key.into(),
            value: value.into(),
        };
        [setting("name", NOBODY.0), setting("email", NOBODY.1)]
    }

    /// No tool writes into the config which branch belongs to which. One that nothing is said about belongs to the
    /// branch of its name at `origin`.
    fn presumed_upstream(&self) -> Vec<Setting> {
        let Head::Branch(branch) = &self.head else { return Vec::new() };
        let said = last(&self.settings, "branch", Some(branch.as_str()), "merge").is_some();
        let Ok(origin) = RemoteName::read("origin") else { return Vec::new() };
        if said || self.addresses(&origin, "url").is_empty() {
            return Vec::new();
        }
        let setting = |key: &str, value: String| Setting {
            section: "branch".into(),
            subsection: Some(branch.as_str().to_owned()),
            key: key.into(),
            value,
        };
        vec![setting("remote", origin.as_str().to_owned()), setting("merge", format!("refs/heads/{}", branch.as_str()))]
    }
}

impl Head {
    fn of(text: &str) -> Self {
        let name = text.strip_prefix("ref:").and_then(|name| name.trim().strip_prefix("refs/heads/"));
        match name.map(BranchName::read) {
            Some(Ok(name)) => Self::Branch(name),
            Some(Err(_)) | None => Self::Detached,
        }
    }
}

/// Where the part of this work tree and the shared part are: `.git` itself, or what a `.git` file points to.
fn parts(workspace: &Workspace, place: &str, named: &str) -> Result<(String, String), Fault> {
    let own = match workspace.open_node(&join(place, ".git")) {
        Ok(Node::Dir(dir)) => return text_of(dir.place).map(|own| (own.clone(), own)),
        Ok(Node::File(_)) => read(workspace, &join(place, ".git"))?.unwrap_or_default(),
        Err(fault) if NOT_FOUND.is(&fault) || NOT_A_DIRECTORY.is(&fault) => return Err(no_repository(named)),
        Err(fault) if OUTSIDE.is(&fault) => return Err(leads_outside(named, ".git")),
        Err(fault) => return Err(fault),
    };
    let own = own.strip_prefix("gitdir:").ok_or_else(|| no_repository(named))?.trim();
    let own = inside(workspace, &from(place, own), named)?;
    let shared = match read(workspace, &join(&own, "commondir"))? {
        Some(shared) => inside(workspace, &from(&own, shared.trim()), named)?,
        None => own.clone(),
    };
    Ok((own, shared))
}

/// The directory a part of a repository is in, if that is in the workspace.
fn inside(workspace: &Workspace, path: &str, named: &str) -> Result<String, Fault> {
    match workspace.open_dir(path) {
        Ok(dir) => text_of(dir.place),
        Err(fault) if OUTSIDE.is(&fault) => Err(leads_outside(named, path)),
        Err(fault) if NOT_FOUND.is(&fault) || NOT_A_DIRECTORY.is(&fault) => Err(no_repository(named)),
        Err(fault) => Err(fault),
    }
}

/// Objects may lie in other repositories, and theirs in others again.
fn no_alternates_outside(workspace: &Workspace, shared: &str, named: &str) -> Result<(), Fault> {
    const MOST: usize = 32;
    let mut left = vec![join(shared, "objects")];
    let mut seen = 0;
    while let Some(objects) = left.pop() {
        let list = read(workspace, &join(&objects, "info/alternates"))?.unwrap_or_default();
        for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            seen += 1;
            if seen > MOST {
                return Err(unreadable("its objects lie in too many other repositories"));
            }
            // Quoted names are for paths with line breaks. Nobody who means well has those.
            if line.starts_with('"') {
                return Err(unreadable("an alternate's path is quoted"));
            }
            left.push(inside(workspace, &from(&objects, line), named)?);
        }
    }
    Ok(())
}

fn underway(workspace: &Workspace, own: &str) -> Result<Option<Underway>, Fault> {
    for (name, underway) in [
        ("rebase-merge", Underway::Rebase),
        ("rebase-apply", Underway::Rebase),
        ("MERGE_HEAD", Underway::Merge),
        ("CHERRY_PICK_HEAD", Underway::CherryPick),
        ("REVERT_HEAD", Underway::Revert),
    ] {
        match workspace.open_node(&join(own, name)) {
            Ok(_) => return Ok(Some(underway)),
            Err(fault) if NOT_FOUND.is(&fault) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(None)
}

/// What kind of repository it is: what git must know to read it at all.
fn format_of(settings: &[Setting]) -> Vec<Setting> {
    let setting = |section: &str, key: &str, value: &str| Setting {
        section: section.into(),
        subsection: None,
        key: key.into(),
        value: value.into(),
    };
    match last(settings, "extensions", None, "objectformat") {
        Some(format) if format.eq_ignore_ascii_case("sha256") => {
            vec![setting("core", "repositoryformatversion", "1"), setting("extensions", "objectformat", "sha256")]
        }
        Some(_) | None => vec![setting("core", "repositoryformatversion", "0")],
    }
}

fn is_taken_over(setting: &Setting) -> bool {
    let Setting { section, subsection, key, value } = setting;
    let name = match subsection {
        Some(_) => format!("{section}.*.{key}"),
        None => format!("{section}.{key}"),
    };
    let fits = match name.as_str() {
        // Git dies of a branch or refspec that it cannot read.
        "branch.*.merge" => value.strip_prefix("refs/heads/").is_some_and(is_ref_name),
        "branch.*.remote" => RemoteName::read(value).is_ok(),
        "remote.*.fetch" => is_tracking(value),
        _ => true,
    };
    fits && TAKEN_OVER.contains(&name.as_str())
        && subsection.as_deref().is_none_or(is_ref_name)
        && !value.contains(char::is_control)
}

/// Does this refspec keep branches of the remote where those belong, under `refs/remotes/`?
pub(super) fn is_tracking(refspec: &str) -> bool {
    let refspec = refspec.strip_prefix('+').unwrap_or(refspec);
    let Some((there, here)) = refspec.split_once(':') else { return false };
    let is_pattern = |name: &str, prefix: &str| {
        let stars = name.matches('*').count();
        name.starts_with(prefix) && stars <= 1 && is_ref_name(&name.replace('*', "x"))
    };
    is_pattern(there, "refs/heads/") && is_pattern(here, "refs/remotes/") && there.contains('*') == here.contains('*')
}

/// The value that counts: the last.
fn last<'a>(settings: &'a [Setting], section: &str, subsection: Option<&str>, key: &str) -> Option<&'a str> {
    let is_it = |s: &&Setting| s.section == section && s.subsection.as_deref() == subsection && s.key == key;
    settings.iter().rev().find(is_it).map(|setting| setting.value.as_str())
}

/// The text of a file; none when there is none.
fn read(workspace: &Workspace, path: &str) -> Result<Option<String>, Fault> {
    let file = match workspace.open_file(path) {
        Ok(file) => file,
        Err(fault) if NOT_FOUND.is(&fault) || NOT_A_DIRECTORY.is(&fault) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    if file.size() > LONGEST_FILE {
        return Err(unreadable(&format!("`{path}` is too large")));
    }
    let mut bytes = Vec::new();
    let mut file = file.file.take(LONGEST_FILE);
    file.read_to_end(&mut bytes).map_err(|error| fault::from_io(&error, path))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") }
}

/// A path that is absolute, or relative to a place.
fn from(place: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { join(place, path) }
}

fn text_of(place: Vec<u8>) -> Result<String, Fault> {
    match String::from_utf8(place) {
        Ok(place) if !place.contains('\n') => Ok(normal(&place)),
        _ => Err(BAD_PATH.refused("the repository's path is not plain UTF-8", "Rename the directory.")),
    }
}

fn no_repository(named: &str) -> Fault {
    NO_REPOSITORY.failed(
        format!("there is no git repository in `{}`", brief(named)),
        "Name the directory that holds `.git` as `repository`, or get one with `git_clone`.",
    )
}

fn leads_outside(named: &str, path: &str) -> Fault {
    let (named, path) = (brief(named), brief(path));
    OUTSIDE.refused(
        format!("the repository in `{named}` has a part outside the workspace: `{path}`"),
        "Work on a repository that lies in the workspace as a whole.",
    )
}

fn unreadable(why: &str) -> Fault {
    BAD_REPOSITORY.failed(format!("the repository cannot be worked on: {why}"), "Use another repository.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(config: &str) -> Repository {
        Repository {
            place: "p".into(),
            root: "/w".into(),
            own: "p/.git".into(),
            shared: "s".into(),
            head: Head::of("ref: refs/heads/main\n"),
            settings: config::read(config).unwrap(),
            underway: None,
        }
    }

    const START: &str = "[core]\n\trepositoryformatversion = \"0\"\n\
        [user]\n\tname = \"Toolgate agent\"\n\temail = \"agent@localhost\"\n";

    /// What git gets of this config.
    fn check(config: &str, expected: &str) {
        assert_eq!(repository(config).config(Vec::new()), format!("{START}{expected}"), "{config}");
    }

    #[test]
    fn git_is_told_what_is_on_the_list() {
        check("", "");
        check("[user]\nname=Ada", "\tname = \"Ada\"\n");
        check("[core]\nautocrlf=true\nsymlinks=false", "[core]\n\tautocrlf = \"true\"\n\tsymlinks = \"false\"\n");
        check(
            "[branch \"main\"]\nremote=up\nmerge=refs/heads/trunk\nrebase=true",
            "[branch \"main\"]\n\tremote = \"up\"\n\tmerge = \"refs/heads/trunk\"\n",
        );
        check(
            "[remote \"up\"]\nurl=https://x/y\nfetch=+refs/heads/*:refs/remotes/up/*",
            "[remote \"up\"]\n\tfetch = \"+refs/heads/*:refs/remotes/up/*\"\n",
        );
    }

    #[test]
    fn git_is_told_nothing_else() {
        for config in [
            "[core]\nfsmonitor=x\nhooksPath=x\nsshCommand=x\neditor=x\npager=x\naskPass=x\ngitProxy=x\nworktree=/\nbare=true",
            "[alias]\nstatus=!x",
            "[include]\npath=x",
            "[includeIf \"gitdir:**\"]\npath=x",
            "[filter \"x\"]\nclean=x\nsmudge=x\nprocess=x",
            "[diff \"x\"]\ntextconv=x\ncommand=x",
            "[merge \"x\"]\ndriver=x",
            "[credential]\nhelper=x",
            "[url \"x\"]\ninsteadOf=y",
            "[remote \"x\"]\nuploadpack=x\nreceivepack=x\nvcs=x\nproxy=x\npromisor=true",
            "[extensions]\npartialClone=x\nworktreeConfig=true",
            "[protocol]\nallow=always",
            "[user \"x\"]\nname=Mallory",
            "[user]\nsigningKey=x",
            "[core \"x\"]\nautocrlf=true",
            "[remote \"x\"]\nfetch=+refs/heads/*:refs/heads/*",
            "[branch \"x\"]\nmerge=-x\nremote=-x",
            "[branch \"a b\"]\nmerge=refs/heads/x",
            "[user]\nname=\"a\\nb\"",
        ] {
            check(config, "");
        }
    }

    #[test]
    fn a_branch_nobody_spoke_about_belongs_to_the_one_of_its_name() {
        check(
            "[remote \"origin\"]\nurl=https://x/y",
            "[branch \"main\"]\n\tremote = \"origin\"\n\tmerge = \"refs/heads/main\"\n",
        );
        let said = "[remote \"origin\"]\nurl=https://x/y\n[branch \"main\"]\nremote=up\nmerge=refs/heads/trunk";
        check(said, "[branch \"main\"]\n\tremote = \"up\"\n\tmerge = \"refs/heads/trunk\"\n");
        let (remote, branch) = repository(said).upstream(&BranchName::read("main").unwrap()).unwrap();
        assert_eq!((remote.as_str(), branch.as_str()), ("up", "trunk"));
    }

    #[test]
    fn a_long_config_is_cut_after_what_matters() {
        let branches: String = (0..5_000).map(|n| format!("[branch \"b{n}\"]\nmerge=refs/heads/b{n}\n")).collect();
        let config = repository(&format!("[core]\nautocrlf=true\n{branches}")).config(Vec::new());
        assert!(config.len() <= LONGEST_CONFIG && config.contains("autocrlf") && config.contains("\"b500\""));
    }

    #[test]
    fn the_kind_of_repository_is_told() {
        let config = repository("[extensions]\nobjectFormat=sha256\nother=x").config(Vec::new());
        assert!(config.starts_with(
            "[core]\n\trepositoryformatversion = \"1\"\n[extensions]\n\tobjectformat = \"sha256\"\n[user]\n"
        ));
    }

    #[test]
    fn only_branches_of_remotes_are_written_to() {
        for refspec in ["+refs/heads/*:refs/remotes/o/*", "refs/heads/a:refs/remotes/o/b"] {
            assert!(is_tracking(refspec), "{refspec}");
        }
        for refspec in [
            "",
            "refs/heads/*",
            "refs/heads/*:refs/heads/*",
            "refs/tags/*:refs/remotes/o/*",
            "refs/heads/*:refs/remotes/o",
            "refs/heads/*:refs/remotes/*/*",
            "refs/heads/*:refs/remotes/../x",
            "^refs/heads/x",
            "refs/heads/a:refs/remotes/o/b:c",
        ] {
            assert!(!is_tracking(refspec), "{refspec}");
        }
    }

    #[test]
    fn the_longest_replacement_of_an_address_counts() {
        let config =
            "[url \"https://a/\"]\ninsteadOf=x:\ninsteadOf=\n[url \"https://b/\"]\ninsteadOf=x:y/\npushInsteadOf=z:";
        let repository = repository(config);
        assert_eq!(repository.rewritten("x:q", "insteadof").as_deref(), Some("https://a/q"));
        assert_eq!(repository.rewritten("x:y/q", "insteadof").as_deref(), Some("https://b/q"));
        assert_eq!(repository.rewritten("z:q", "insteadof"), None);
        assert_eq!(repository.rewritten("z:q", "pushinsteadof").as_deref(), Some("https://b/q"));
    }

    #[test]
    fn what_is_checked_out_is_a_branch_or_it_is_not() {
        let branch = |name: &str| Head::Branch(BranchName::read(name).unwrap());
        assert_eq!(Head::of("ref: refs/heads/a/b\n"), branch("a/b"));
        assert_eq!(Head::of("ref:refs/heads/a"), branch("a"));
        for text in ["0123456789", "ref: refs/tags/a", "ref: refs/heads/-a", ""] {
            assert_eq!(Head::of(text), Head::Detached, "{text}");
        }
    }

    #[test]
    fn git_is_told_absolute_paths() {
        assert_eq!(repository("").paths(), ["/w/p/.git", "/w/s", "/w/p"]);
    }
}
