//! What callers name: branches, tags, remotes, revisions, paths, people. Each is a type that only its reader makes, so
//! that nothing else comes near a command line.

use toolgate_contract::Fault;
use toolgate_guard::git_url::GitUrl;

use super::{
    fault::{BAD_MESSAGE, BAD_NAME, BAD_REVISION},
    repository::Repository,
};
use crate::{
    Cx,
    files::{fault, path::admit, text::brief},
};

/// The name of a branch, without `refs/heads/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BranchName(String);

/// The name of a tag, without `refs/tags/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TagName(String);

/// The name of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemoteName(String);

/// Something git can look up, such as `HEAD~2` or `v1.0..main`. What it stands for is for git to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Revision(String);

/// A file or directory of a repository, relative to its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RepoPath(String);

/// Who wrote a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Person(String);

/// Free text that is part of one word, or is given on standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plain(String);

/// A name as git takes it.
pub(super) trait Named {
    fn as_str(&self) -> &str;
}

macro_rules! named {
    ($($kind:ident)*) => {
        $(impl Named for $kind {
            fn as_str(&self) -> &str {
                &self.0
            }
        })*
    };
}

named! { BranchName TagName RemoteName Revision RepoPath Person Plain }

/// Locks are files beside the ref, and a file has a longest name.
const LONGEST_PART: usize = 250;
const LONGEST_NAME: usize = 1024;

/// May a ref be called this? The rules git has for all refs, for the part behind `refs/heads/` or `refs/tags/`.
pub(super) fn is_ref_name(name: &str) -> bool {
    let bad = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    let part = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock") && part.len() <= LONGEST_PART
    };
    name.len() <= LONGEST_NAME
        && name != "@"
        && !name.contains(bad)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && name.split('/').all(part)
}

impl BranchName {
    /// A name no option, no revision and no other ref can be mistaken for.
    pub(super) fn read(name: &str) -> Result<Self, Fault> {
        if is_ref_name(name) && !name.starts_with('-') && name != "HEAD" {
            return Ok(Self(name.to_owned()));
        }
        Err(bad_name("branch", name))
    }

    pub(super) fn full(&self) -> Revision {
        Revision(format!("refs/heads/{}", self.0))
    }
}

impl TagName {
    pub(super) fn read(name: &str) -> Result<Self, Fault> {
        if is_ref_name(name) && !name.starts_with('-') && name != "HEAD" {
            return Ok(Self(name.to_owned()));
        }
        Err(bad_name("tag", name))
    }

    pub(super) fn full(&self) -> Revision {
        Revision(format!("refs/tags/{}", self.0))
    }
}

impl RemoteName {
    /// One part of a ref, because the remote's branches are kept under it.
    pub(super) fn read(name: &str) -> Result<Self, Fault> {
        if is_ref_name(name) && !name.starts_with('-') && !name.contains('/') {
            return Ok(Self(name.to_owned()));
        }
        Err(bad_name("remote", name))
    }

    /// All branches of the remote.
    pub(super) fn branches(&self) -> Revision {
        Revision(format!("refs/remotes/{}", self.0))
    }

    /// The branch of the remote as it was when it was last fetched.
    pub(super) fn tracked(&self, branch: &BranchName) -> Revision {
        Revision(format!("refs/remotes/{}/{}", self.0, branch.0))
    }
}

impl Revision {
    /// One or a range of them.
    pub(super) fn range(text: &str) -> Result<Self, Fault> {
        if text.is_empty() || text.len() > LONGEST_NAME || text.starts_with('-') || text.contains(char::is_control) {
            return Err(BAD_REVISION.failed(
                format!("`{}` is not a revision", shown(text)),
                "Name a commit, branch or tag, such as `HEAD~2`, `main` or `v1.0`.",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// One.
    pub(super) fn one(text: &str) -> Result<Self, Fault> {
        if text.contains("..") || text.starts_with('^') {
            return Err(BAD_REVISION
                .failed(format!("`{}` names more than one revision", shown(text)), "Name one commit, branch or tag."));
        }
        Self::range(text)
    }

    /// Every ref below a directory of refs.
    pub(super) fn all(below: &'static str) -> Self {
        Self(below.to_owned())
    }

    pub(super) fn head() -> Self {
        Self("HEAD".to_owned())
    }

    /// An entry of the stash; the latest is 0.
    pub(super) fn stash(index: u32) -> Self {
        Self(format!("stash@{{{index}}}"))
    }

    /// Does it name a file in a revision, as `HEAD:src/main.rs` does?
    pub(super) fn names_a_file(&self) -> bool {
        self.0.contains(':')
    }

    /// The commit it leads to: that of a tag, not the tag.
    pub(super) fn commit(&self) -> Self {
        Self(format!("{}^{{commit}}", self.0))
    }

    /// The first parent of a commit.
    pub(super) fn parent(&self) -> Self {
        Self(format!("{}^1", self.0))
    }
}

impl RepoPath {
    /// A path as a call gives it: relative to the repository, or absolute inside it.
    pub(super) fn read(cx: &Cx, repository: &Repository, path: &str) -> Result<Self, Fault> {
        let workspace = cx.workspace()?;
        let admitted = match path.starts_with('/') {
            true => {
                let admitted = workspace.spelling(path)?;
                below(&admitted, repository.place()).ok_or_else(|| fault::outside(path))?.to_owned()
            }
            // Admitted as if the repository were the workspace: it may not climb out of that either.
            false => normal(&admit(path, (0, ""), &[])?.1),
        };
        Ok(Self(if admitted.is_empty() { ".".to_owned() } else { admitted }))
    }

    pub(super) fn read_all(cx: &Cx, repository: &Repository, paths: &[String]) -> Result<Vec<Self>, Fault> {
        paths.iter().map(|path| Self::read(cx, repository, path)).collect()
    }

    /// As a pathspec where patterns are not switched off.
    pub(super) fn literal(&self) -> Plain {
        Plain(format!(":(top,literal){}", self.0))
    }
}

impl Person {
    /// `Name <address>`.
    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        let parts = text.strip_suffix('>').and_then(|text| text.split_once(" <"));
        let crud = |c: char| c.is_control() || matches!(c, '<' | '>');
        let fits = |name: &str, address: &str| {
            !name.trim().is_empty() && !name.starts_with('-') && !name.contains(crud) && !address.contains(crud)
        };
        match parts {
            Some((name, address)) if fits(name, address) && text.len() <= LONGEST_NAME => Ok(Self(text.to_owned())),
            _ => Err(BAD_NAME.failed(
                format!("`{}` is not an author", shown(text)),
                "Write it as `Ada Lovelace <ada@example.org>`.",
            )),
        }
    }
}

impl Plain {
    /// Text for one word: a date, a part of a name.
    pub(super) fn word(text: &str) -> Result<Self, Fault> {
        if text.is_empty() || text.len() > LONGEST_NAME || text.contains(char::is_control) {
            return Err(BAD_NAME.failed(
                format!("`{}` cannot be searched for", shown(text)),
                "Write it on one line, without control characters.",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// What a commit, a tag or a stash says.
    pub(super) fn message(text: &str) -> Result<Self, Fault> {
        const LONGEST: usize = 64 * 1024;
        let crud = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if text.trim().is_empty() {
            return Err(BAD_MESSAGE.failed("the message is empty", "Say in a line what changed and why."));
        }
        if text.len() > LONGEST || text.contains(crud) {
            return Err(BAD_MESSAGE.failed(
                "the message is too long or has control characters in it",
                "Write plain text of at most 64 KiB.",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// A repository's address.
    pub(super) fn address(url: &GitUrl) -> Self {
        Self(url.to_string())
    }

    /// A directory that is to be made, relative to the workspace.
    pub(super) fn directory(path: &str) -> Self {
        Self(normal(path))
    }

    /// A remote's branch and where it is kept, as `git fetch` takes it. What it was before does not matter.
    pub(super) fn fetched(remote: &RemoteName, branch: &BranchName) -> Self {
        Self(format!("+{}:{}", branch.full().0, remote.tracked(branch).0))
    }

    /// A ref of one name here and there, as `git push` takes it.
    pub(super) fn pushed(revision: &Revision) -> Self {
        Self(format!("{0}:{0}", revision.0))
    }

    /// A ref to be removed there.
    pub(super) fn removed(revision: &Revision) -> Self {
        Self(format!(":{}", revision.0))
    }
}

/// The path without dots and empty parts. Only for one that does not climb out.
pub(super) fn normal(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    if path.starts_with('/') { format!("/{}", names.join("/")) } else { names.join("/") }
}

fn below<'a>(path: &'a str, place: &str) -> Option<&'a str> {
    if place.is_empty() && path.starts_with('/') {
        return None;
    }
    if place.is_empty() || path == place {
        return Some(path.strip_prefix(place).unwrap_or(path));
    }
    path.strip_prefix(place)?.strip_prefix('/')
}

fn bad_name(what: &str, name: &str) -> Fault {
    BAD_NAME.failed(
        format!("`{}` cannot be the name of a {what}", shown(name)),
        "Use letters, digits, `-`, `_`, `.` and `/`, and begin with a letter or a digit.",
    )
}

fn shown(text: &str) -> String {
    brief(&text.escape_debug().to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_are_called_what_git_calls_them() {
        for name in [
            "a",
            "main",
            "feature/x.y",
            "v1.0",
            "-x",
            "a@b",
            "@a",
            "ü/日本",
            "a-",
            "a.lockx",
            "HEAD",
            "a{b}",
            "a@{b".trim_end_matches("@{b"),
            "x=y",
        ] {
            assert!(is_ref_name(name), "{name:?}");
        }
        for name in [
            "", "@", "/a", "a/", "a//b", ".a", "a/.b", "a..b", "a.", "a.lock", "a.lock/b", "a b", "a~", "a^", "a:b",
            "a?", "a*", "a[", "a\\b", "a@{b", "a\nb", "a\u{7f}", "a\0b", "a\tb",
        ] {
            assert!(!is_ref_name(name), "{name:?}");
        }
        assert!(is_ref_name(&"x".repeat(250)) && !is_ref_name(&"x".repeat(251)));
        assert!(!is_ref_name(&"x/".repeat(600)));
    }

    /// The code of a name that is not taken; none for one that is.
    fn code<T>(read: Result<T, Fault>) -> Option<String> {
        read.err().map(|fault| fault.code.into_owned())
    }

    #[test]
    fn no_name_reads_like_an_option_or_like_another_kind_of_name() {
        for name in ["-d", "--exec=x", "HEAD", "a..b", "", "a b"] {
            assert_eq!(code(BranchName::read(name)).as_deref(), Some("bad_name"), "{name:?}");
            assert_eq!(code(TagName::read(name)).as_deref(), Some("bad_name"), "{name:?}");
        }
        for name in ["-c", "a/b", "", "..", "a=b\n"] {
            assert_eq!(code(RemoteName::read(name)).as_deref(), Some("bad_name"), "{name:?}");
        }
        assert_eq!(BranchName::read("a/b").unwrap().full().as_str(), "refs/heads/a/b");
        assert_eq!(TagName::read("v1").unwrap().full().as_str(), "refs/tags/v1");
        let (origin, branch) = (RemoteName::read("origin").unwrap(), BranchName::read("a/b").unwrap());
        assert_eq!(origin.tracked(&branch).as_str(), "refs/remotes/origin/a/b");
        assert_eq!(Plain::fetched(&origin, &branch).as_str(), "+refs/heads/a/b:refs/remotes/origin/a/b");
        assert_eq!(Plain::pushed(&branch.full()).as_str(), "refs/heads/a/b:refs/heads/a/b");
        assert_eq!(Plain::removed(&branch.full()).as_str(), ":refs/heads/a/b");
    }

    #[test]
    fn a_revision_is_a_word_that_git_looks_up() {
        for text in ["HEAD", "HEAD~2^1", "v1.0", "@{upstream}", "main@{2 days ago}", "HEAD:a b", ":/fix", "a...b", "^a"]
        {
            assert_eq!(code(Revision::range(text)), None, "{text:?}");
        }
        for text in ["", "-n1", "--all", "a\nb", "a\0", "\u{1b}[1m"] {
            assert_eq!(code(Revision::range(text)).as_deref(), Some("bad_revision"), "{text:?}");
        }
        for text in ["a..b", "a...b", "^a", "-x"] {
            assert_eq!(code(Revision::one(text)).as_deref(), Some("bad_revision"), "{text:?}");
        }
        assert_eq!(Revision::stash(3).parent().as_str(), "stash@{3}^1");
    }

    #[test]
    fn people_and_messages_are_plain_text() {
        for text in ["Ada <a@b>", "Ada Lovelace <>", "Ö. x <a b>"] {
            assert_eq!(code(Person::read(text)), None, "{text:?}");
        }
        for text in ["Ada", "<a@b>", " <a@b>", "-x <a@b>", "Ada <a@b> x", "A\nB <a@b>", "A <a>b>", "A <b> <c>"] {
            assert_eq!(code(Person::read(text)).as_deref(), Some("bad_name"), "{text:?}");
        }
        for text in ["x", "-m\n\n\tx"] {
            assert_eq!(code(Plain::message(text)), None, "{text:?}");
        }
        for text in ["", " \n", "a\0b", "a\u{1b}[1m", &"x".repeat(70_000)] {
            assert_eq!(code(Plain::message(text)).as_deref(), Some("bad_message"), "{text:?}");
        }
        assert_eq!(code(Plain::word("2 weeks ago")), None);
        assert_eq!(code(Plain::word("a\nb")).as_deref(), Some("bad_name"));
    }

    #[test]
    fn a_path_is_below_a_place_or_it_is_not() {
        assert_eq!(below("a/b", ""), Some("a/b"));
        assert_eq!(below("a/b", "a"), Some("b"));
        assert_eq!(below("a", "a"), Some(""));
        assert_eq!(below("ab", "a"), None);
        assert_eq!(below("b", "a"), None);
        assert_eq!(normal("./a//b/../c/"), "a/c");
        assert_eq!(normal("."), "");
    }
}
