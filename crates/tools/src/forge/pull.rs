//! Pull requests in our own words, whatever the forge calls them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pull request, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Pull {
    /// Its number in the repository.
    pub(super) number: u64,
    /// Its title.
    pub(super) title: String,
    /// Where it stands.
    pub(super) state: State,
    /// It is not ready to be merged, says its author.
    pub(super) draft: bool,
    /// Who opened it.
    pub(super) author: String,
    /// The branch with the changes.
    pub(super) head: String,
    /// The newest commit of that branch, where the forge tells.
    pub(super) head_sha: Option<String>,
    /// The branch lies in another repository, or is gone.
    pub(super) from_fork: bool,
    /// The branch the changes are for.
    pub(super) base: String,
    /// Where a person looks at it.
    pub(super) url: String,
    /// When it was opened.
    pub(super) created_at: String,
    /// When something about it last changed.
    pub(super) updated_at: String,
}

/// Where a pull request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It waits.
    Open,
    /// It was closed without being merged.
    Closed,
    /// Its changes are in.
    Merged,
}

/// A pull request, as one looks at it alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) pull: Pull,
    pub(super) body: String,
    /// None while the forge does not know.
    pub(super) mergeable: Option<bool>,
    pub(super) merge_commit: Option<String>,
}

/// Which ones are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) state: Option<State>,
    pub(super) base: Option<String>,
    pub(super) head: Option<String>,
}

impl Filter {
    pub(super) fn wants(&self, pull: &Pull) -> bool {
        self.state.is_none_or(|state| state == pull.state)
            && self.base.as_ref().is_none_or(|base| *base == pull.base)
            && self.head.as_ref().is_none_or(|head| *head == pull.head)
    }
}

/// What somebody said about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Comment {
    /// Its number.
    pub(super) id: u64,
    /// Who wrote it.
    pub(super) author: String,
    /// What it says.
    pub(super) body: String,
    /// When it was written.
    pub(super) created_at: String,
    /// Where a person reads it, if the forge tells.
    pub(super) url: Option<String>,
}

/// A file it changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct ChangedFile {
    /// Its path.
    pub(super) path: String,
    /// Its path before, if it was renamed.
    pub(super) previous_path: Option<String>,
    /// What happens to it.
    pub(super) change: Change,
    /// Lines added, where the forge tells.
    pub(super) additions: Option<u64>,
    /// Lines removed, where the forge tells.
    pub(super) deletions: Option<u64>,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// It is new.
    Added,
    /// Its content or mode changes.
    Changed,
    /// It goes away.
    Removed,
    /// It gets another name.
    Renamed,
}

/// How the changes get into the base branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum MergeMethod {
    /// With a merge commit.
    #[default]
    Merge,
    /// As one commit.
    Squash,
    /// Each commit again on top of the base.
    Rebase,
}
