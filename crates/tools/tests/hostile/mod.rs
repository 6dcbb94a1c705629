//! A repository that tries to run something whenever git looks at it.
//!
//! Every way to name a program that git is known to have is taken, and each leaves a file of its own name when it works.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

/// A hostile repository, and where it leaves its traces.
#[derive(Debug)]
pub(crate) struct Hostile {
    /// The work tree.
    pub(crate) repository: PathBuf,
    /// Empty as long as nothing was run.
    pub(crate) traces: PathBuf,
}

/// Every hook git has.
const HOOKS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "query-watchman",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// Settings whose value is a command.
const COMMANDS: &[&str] = &[
    "core.alternateRefsCommand",
    "core.askPass",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "credential.https://example.org.helper",
    "diff.evil.command",
    "diff.evil.textconv",
    "diff.external",
    "difftool.evil.cmd",
    "filter.evil.clean",
    "filter.evil.process",
    "filter.evil.smudge",
    "gpg.program",
    "gpg.ssh.defaultKeyCommand",
    "gpg.ssh.program",
    "gpg.x509.program",
    "interactive.diffFilter",
    "merge.evil.driver",
    "mergetool.evil.cmd",
    "receive.procReceiveRefs",
    "remote.origin.receivepack",
    "remote.origin.uploadpack",
    "sequence.editor",
    "submodule.sub.update",
    "tar.evil.command",
    "trailer.evil.cmd",
    "trailer.evil.command",
    "uploadpack.packObjectsHook",
];

/// What the tools run, and what those run.
const VERBS: &[&str] = &[
    "add",
    "blame",
    "branch",
    "checkout",
    "clone",
    "commit",
    "diff",
    "diff-files",
    "diff-index",
    "fetch",
    "for-each-ref",
    "index-pack",
    "log",
    "ls-files",
    "merge",
    "push",
    "read-tree",
    "rebase",
    "reset",
    "rev-list",
    "rev-parse",
    "show",
    "stash",
    "status",
    "switch",
    "symbolic-ref",
    "tag",
    "unpack-objects",
    "update-index",
    "write-tree",
];

impl Hostile {
    /// Makes one in this directory, which must be empty or new.
    pub(crate) fn new(repository: &Path, traces: &Path) -> Self {
        let hostile = Self { repository: repository.to_owned(), traces: traces.to_owned() };
        fs::create_dir_all(repository).expect("a directory");
        fs::create_dir_all(traces).expect("a directory");
        hostile.history();
        hostile.submodule();
        hostile.hooks(&repository.join(".git/hooks"), "hook");
        hostile.hooks(&repository.join("hooks-of-mine"), "hooks-path");
        hostile.attributes();
        hostile.odd_names();
        hostile.settings();
        hostile
    }

    /// The traces that were left, by name.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.traces).expect("the directory of traces");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Removes the traces.
    pub(crate) fn wipe(&self) {
        for name in self.left() {
            fs::remove_file(self.traces.join(name)).expect("a trace");
        }
    }

    /// Runs the machine's git in it, as somebody would who does not know what it is.
    pub(crate) fn git(&self, words: &[&str]) -> bool {
        git(&self.repository, words)
    }

    /// A few commits on two branches that differ.
    fn history(&self) {
        let at = &self.repository;
        for words in [
            ["init", "-q", "-b", "main"].as_slice(),
            &["config", "user.name", "Mallory"],
            &["config", "user.email", "mallory@example.org"],
        ] {
            assert!(git(at, words), "{words:?}");
        }
        fs::write(at.join("a.txt"), "one\n").expect("a file");
        fs::write(at.join("b.txt"), "one\n").expect("a file");
        for words in
            [["add", "."].as_slice(), &["commit", "-q", "-m", "one"], &["tag", "v1"], &["switch", "-q", "-c", "dev"]]
        {
            assert!(git(at, words), "{words:?}");
        }
        fs::write(at.join("a.txt"), "one\ntwo\n").expect("a file");
        for words in [["commit", "-q", "-a", "-m", "two"].as_slice(), &["switch", "-q", "main"]] {
            assert!(git(at, words), "{words:?}");
        }
    }

    /// A submodule that is checked out and as hostile, where git would look for changes.
    fn submodule(&self) {
        let sub = self.repository.join("sub");
        fs::create_dir(&sub).expect("a directory");
        fs::write(sub.join("s.txt"), "one\n").expect("a file");
        for words in [
            ["init", "-q", "-b", "main"].as_slice(),
            &["config", "user.name", "Mallory"],
            &["config", "user.email", "mallory@example.org"],
            &["add", "."],
            &["commit", "-q", "-m", "one"],
            &["config", "core.fsmonitor", &self.leaves("submodule-fsmonitor")],
            &["config", "filter.other.clean", &self.leaves("submodule-clean")],
        ] {
            assert!(git(&sub, words), "{words:?}");
        }
        fs::write(sub.join(".git/info/attributes"), "* filter=other\n").expect("a file");
        let modules = "[submodule \"sub\"]\n\tpath = sub\n\turl = -u./x\n\tignore = none\n";
        fs::write(self.repository.join(".gitmodules"), modules).expect("a file");
        for words in [["add", ".gitmodules", "sub"].as_slice(), &["commit", "-q", "-m", "sub"]] {
            assert!(self.git(words), "{words:?}");
        }
        // As long as before, so that only its content tells that it is another.
        fs::write(sub.join("s.txt"), "two\n").expect("a file");
    }

    fn hooks(&self, at: &Path, prefix: &str) {
        fs::create_dir_all(at).expect("a directory");
        for hook in HOOKS {
            let path = at.join(hook);
            let script = format!("#!/bin/sh\n{}\n", self.leaves(&format!("{prefix}-{hook}")));
            fs::write(&path, script).expect("a hook");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
        }
    }

    fn attributes(&self) {
        let all = "* filter=evil diff=evil merge=evil\n";
        fs::write(self.repository.join(".gitattributes"), all).expect("a file");
        fs::write(self.repository.join(".git/info/attributes"), all).expect("a file");
    }

    /// Files and refs that read like options.
    fn odd_names(&self) {
        let at = &self.repository;
        let trace = self.traces.join("option");
        for name in ["--output=option", "-rf", "--exec=touch option", "new\nline", ":(exclude)a.txt", "$(touch x)"] {
            fs::write(at.join(name), "odd\n").expect("a file");
        }
        let head = fs::read(at.join(".git/refs/heads/main")).expect("a branch");
        for name in ["--upload-pack=x", "-D", "--exec=x"] {
            fs::write(at.join(".git/refs/heads").join(name), &head).expect("a branch");
            fs::write(at.join(".git/refs/tags").join(name), &head).expect("a tag");
        }
        fs::write(at.join("note"), trace.to_string_lossy().as_bytes()).expect("a file");
    }

    fn settings(&self) {
        let mut config = fs::read_to_string(self.repository.join(".git/config")).expect("a config");
        for name in COMMANDS {
            self.set(&mut config, name);
        }
        for verb in VERBS {
            self.set(&mut config, &format!("alias.{verb}"));
            self.set(&mut config, &format!("pager.{verb}"));
        }
        config.push_str(
            "[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n\tforceSignAnnotated = true\n[push]\n\tgpgSign = true\n\
             [filter \"evil\"]\n\trequired = true\n\
             [protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n[protocol \"file\"]\n\tallow = always\n\
             [core]\n\tworktree = /\n\tbare = true\n\thooksPath = hooks-of-mine\n\
             [submodule]\n\trecurse = true\n[fetch]\n\trecurseSubmodules = true\n\
             [include]\n\tpath = ../included\n[includeIf \"gitdir:**\"]\n\tpath = ../included\n\
             [extensions]\n\tworktreeConfig = true\n\
             [rebase]\n\tinstructionFormat = \"x\\nexec touch rebased\"\n",
        );
        let remote = format!(
            "[remote \"origin\"]\n\turl = ext::sh -c {}\n\tfetch = +refs/heads/*:refs/heads/*\n\tvcs = ext\n\
             \tpromisor = true\n[remote \"web\"]\n\turl = https://example.org/x.git\n\
             [url \"ext::sh -c touch% x \"]\n\tinsteadOf = https://example.org/\n",
            quoted(&self.leaves("ext").replace(' ', "% ")),
        );
        config.push_str(&remote);
        let included = format!("[core]\n\tfsmonitor = {}\n", quoted(&self.leaves("included")));
        fs::write(self.repository.join("included"), &included).expect("a file");
        fs::write(self.repository.join(".git/config.worktree"), included.replace("included", "worktree-config"))
            .expect("a file");
        fs::write(self.repository.join(".git/config"), config).expect("a config");
    }

    /// A setting whose value is a command.
    fn set(&self, config: &mut String, name: &str) {
        let (section, key) = name.rsplit_once('.').expect("a section and a key");
        let section = match section.split_once('.') {
            Some((section, name)) => format!("[{section} \"{name}\"]"),
            None => format!("[{section}]"),
        };
        let bang = if ["alias.", "submodule.", "credential."].iter().any(|it| name.starts_with(it)) { "!" } else { "" };
        let command = format!("{bang}{}", self.leaves(&name.replace(['/', ':'], "_")));
        config.push_str(&format!("{section}\n\t{key} = {}\n", quoted(&command)));
    }

    /// A command that leaves a trace, and fails so that git goes on without it.
    fn leaves(&self, name: &str) -> String {
        format!("touch {}/{name}; false", self.traces.display())
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn git(at: &Path, words: &[&str]) -> bool {
    let ran = Command::new("git").args(words).current_dir(at).env("GIT_CONFIG_GLOBAL", "/dev/null").output();
    ran.expect("git is installed").status.success()
}
