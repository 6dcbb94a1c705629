//! Names that become a part of a request's path: repositories, branches, commits.

use toolgate_contract::Fault;

use super::fault::{BAD_BRANCH, BAD_COMMIT, BAD_REPOSITORY};
use crate::files::text::brief;

/// A repository by its full name: `owner/name`, with groups in between on GitLab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repository(String);

impl Repository {
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        const MOST_SEGMENTS: usize = 21;
        let count = text.split('/').count();
        if (2..=MOST_SEGMENTS).contains(&count) && text.split('/').all(is_segment) {
            return Ok(Self(text.to_owned()));
        }
        let message = format!("`{}` is not the name of a repository", brief(text).escape_debug());
        Err(BAD_REPOSITORY.failed(message, "Write it as `owner/name`."))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whose it is.
    pub(super) fn owner(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// Does it lie in a group within a group, as only GitLab has them?
    pub(super) fn is_nested(&self) -> bool {
        self.0.split('/').count() > 2
    }
}

fn is_segment(segment: &str) -> bool {
    const LONGEST: usize = 255;
    !segment.is_empty()
        && segment.len() <= LONGEST
        && !matches!(segment, "." | "..")
        && !segment.starts_with('-')
        && segment.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// The branch with the proposed changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// Whose fork it lies in; none for the repository itself.
    pub(super) owner: Option<String>,
    pub(super) branch: String,
}

impl Head {
    /// `branch`, or `owner:branch` for one in somebody's fork.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        match text.split_once(':') {
            None => Ok(Self { owner: None, branch: branch(text)? }),
            Some((owner, name)) if is_segment(owner) => {
                Ok(Self { owner: Some(owner.to_owned()), branch: branch(name)? })
            }
            Some(_) => Err(bad_branch(text)),
        }
    }
}

/// The name of a branch, if it is one: what git takes, without what an option begins with.
pub(super) fn branch(name: &str) -> Result<String, Fault> {
    const LONGEST: usize = 255;
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let bad = name.len() > LONGEST
        || name == "@"
        || name.starts_with('-')
        || name.ends_with('.')
        || name.contains("..")
        || name.contains("@{")
        || name.contains(odd)
        || name.split('/').any(bad_part);
    if bad { Err(bad_branch(name)) } else { Ok(name.to_owned()) }
}

fn bad_branch(name: &str) -> Fault {
    let message = format!("`{}` is not the name of a branch", brief(name).escape_debug());
    BAD_BRANCH.failed(message, "Write it as `git branch` shows it, without `origin/`.")
}

/// A whole commit id, SHA-1 or SHA-256.
pub(super) fn commit(id: &str) -> Result<String, Fault> {
    if matches!(id.len(), 40 | 64) && id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(id.to_ascii_lowercase());
    }
    let message = format!("`{}` is not a whole commit id", brief(id).escape_debug());
    Err(BAD_COMMIT.failed(message, "Take `head_sha` from `pr_view`."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_an_owner_and_a_name() {
        for name in ["ada/engine", "a-b/c.d_e", "group/sub/group/project", ".github/.github"] {
            assert_eq!(Repository::parse(name).map(|it| it.as_str().to_owned()), Ok(name.into()), "{name}");
        }
        let long = "a/".repeat(25) + "b";
        for name in [
            "",
            "ada",
            "/ada",
            "ada/",
            "ada//x",
            "ada/..",
            "./x",
            "ada/x/..",
            "-ada/x",
            "ada/-x",
            "a b/c",
            "ada/x?y",
            "ada/x#y",
            "ada/%2e%2e",
            "ada\\x/y",
            "ada/x\n",
            "ada/ü",
            "https://h/ada/x",
            "ada/x%2Fy",
            &long,
        ] {
            let code = Repository::parse(name).map_err(|fault| fault.code.into_owned());
            assert_eq!(code, Err("bad_repository".into()), "{name:?}");
        }
    }

    #[test]
    fn branches_are_what_git_takes() {
        for name in ["main", "feature/x", "a@b", "v1.0", "ü", "a-b", "x{y}", "#7"] {
            assert_eq!(branch(name), Ok(name.to_owned()));
        }
        for name in [
            "", "-f", "--force", "a..b", "../x", "a/../b", ".x", "a/.b", "a.lock", "a.lock/b", "a/", "/a", "a//b",
            "a.", "@", "a@{1}", "a b", "a\tb", "a\0b", "a\nb", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b",
        ] {
            assert_eq!(branch(name).map_err(|fault| fault.code.into_owned()), Err("bad_branch".into()), "{name:?}");
        }
    }

    #[test]
    fn a_head_may_lie_in_a_fork() {
        let head = |owner: Option<&str>, branch: &str| Head { owner: owner.map(str::to_owned), branch: branch.into() };
        assert_eq!(Head::parse("fix/7"), Ok(head(None, "fix/7")));
        assert_eq!(Head::parse("ada:fix/7"), Ok(head(Some("ada"), "fix/7")));
        for text in ["ada:", ":fix", "../x:fix", "a:b:c", "-a:b"] {
            assert_eq!(Head::parse(text).map_err(|fault| fault.code.into_owned()), Err("bad_branch".into()), "{text}");
        }
    }

    #[test]
    fn a_commit_is_named_in_full() {
        assert_eq!(commit(&"aB".repeat(20)), Ok("ab".repeat(20)));
        assert_eq!(commit(&"a".repeat(64)), Ok("a".repeat(64)));
        for id in ["", "abc1234", "HEAD", &"g".repeat(40), &"a".repeat(41)] {
            assert_eq!(commit(id).map_err(|fault| fault.code.into_owned()), Err("bad_commit".into()), "{id}");
        }
    }
}
