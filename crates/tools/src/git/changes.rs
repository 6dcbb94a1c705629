//! What differs between two states: files, counted lines, and the patch.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_contract::{Fault, Truncated, Unit};
use toolgate_guard::{cut, shell::ir::visible};

use super::{
    MOST,
    git::{Git, head, records},
    repository::Repository,
};
use crate::Cx;

/// Options of everything that compares: no program of the repository's, no look into submodules.
pub(super) const COMPARING: &[&str] = &[
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=dirty",
    "--submodule=short",
    "--find-renames",
];

/// Options that list what differs.
pub(super) const LISTING: &[&str] = &["--raw", "--numstat", "-z", "--abbrev=40"];

/// How much of a patch is shown.
const PATCH_BYTES: usize = 40_000;
const PATCH_LINES: usize = 1_500;

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Change {
    /// Where it is, relative to the repository.
    path: String,
    /// Where it was, when it was renamed or copied.
    old_path: Option<String>,
    /// What happened to it.
    kind: Kind,
    /// Lines that were added; null for a file that is not text.
    insertions: Option<u64>,
    /// Lines that were removed; null for a file that is not text.
    deletions: Option<u64>,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content or mode is another.
    Modified,
    /// It has another name.
    Renamed,
    /// It came from another file.
    Copied,
    /// It became a file, a link or a submodule.
    TypeChanged,
    /// Both sides of a merge changed it.
    Unmerged,
}

impl Kind {
    /// Git's letter for it.
    pub(super) fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'A' => Self::Added,
            'D' => Self::Deleted,
            'M' => Self::Modified,
            'R' => Self::Renamed,
            'C' => Self::Copied,
            'T' => Self::TypeChanged,
            'U' => Self::Unmerged,
            _ => return None,
        })
    }

    fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Deleted => 'D',
            Self::Modified => 'M',
            Self::Renamed => 'R',
            Self::Copied => 'C',
            Self::TypeChanged => 'T',
            Self::Unmerged => 'U',
        }
    }
}

/// What differs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) files: Vec<Change>,
    /// Some are left out.
    pub(super) cut: Option<Truncated>,
}

impl Changes {
    /// Reads what [`LISTING`] prints: first every file with what happened to it, then every file with its lines.
    pub(super) fn read<'a>(mut records: impl Iterator<Item = &'a str>, complete: bool) -> Self {
        let mut files: Vec<Change> = Vec::new();
        let mut uncounted = 0;
        while let Some(record) = records.next() {
            let record = record.trim_start_matches('\n');
            let known = match record.strip_prefix(':') {
                Some(raw) => listed(raw, &mut records).map(|change| files.push(change)),
                None => counted(record, &mut records, &mut files, &mut uncounted),
            };
            if known.is_none() {
                break;
            }
        }
        let total = files.len();
        let cut = (total > MOST || !complete).then_some(Truncated {
            shown: total.min(MOST) as u64,
            total: total as u64,
            unit: Unit::Items,
        });
        files.truncate(MOST);
        Self { files, cut }
    }

    /// Lines that were added and removed, over all files.
    pub(super) fn lines(&self) -> (u64, u64) {
        let sum = |of: fn(&Change) -> Option<u64>| self.files.iter().filter_map(of).sum();
        (sum(|change| change.insertions), sum(|change| change.deletions))
    }

    /// A line for each, and one for all of them.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for Change { path, old_path, kind, insertions, deletions } in &self.files {
            // Writing to a string does not fail, here and below.
            let _ = write!(text, "{} ", kind.letter());
            if let Some(old) = old_path {
                let _ = write!(text, "{} -> ", visible(old));
            }
            let _ = match (insertions, deletions) {
                (Some(added), Some(removed)) => writeln!(text, "{} +{added} -{removed}", visible(path)),
                _ => writeln!(text, "{} (not text)", visible(path)),
            };
        }
        let (added, removed) = self.lines();
        let count = self.files.len();
        let _ = writeln!(text, "{count} {}, +{added} -{removed}", if count == 1 { "file" } else { "files" });
        text
    }
}

/// `100644 100644 <id> <id> R097`, and the paths behind it.
fn listed<'a>(raw: &str, records: &mut impl Iterator<Item = &'a str>) -> Option<Change> {
    let kind = Kind::of(raw.split(' ').nth(4)?.chars().next()?)?;
    let first = records.next()?.to_owned();
    let (path, old_path) = match kind {
        Kind::Renamed | Kind::Copied => (records.next()?.to_owned(), Some(first)),
        _ => (first, None),
    };
    Some(Change { path, old_path, kind, insertions: None, deletions: None })
}

/// `3<tab>1<tab>path`, or without the path and both paths behind it. The order is that of the files.
fn counted<'a>(
    record: &str,
    records: &mut impl Iterator<Item = &'a str>,
    files: &mut [Change],
    uncounted: &mut usize,
) -> Option<()> {
    let mut fields = record.splitn(3, '\t');
    let (added, removed, path) = (fields.next()?, fields.next()?, fields.next()?);
    let path = match path {
        "" => {
            records.next()?;
            records.next()?
        }
        path => path,
    };
    if let Some(found) = files.iter().skip(*uncounted).position(|change| change.path == path) {
        let change = &mut files[*uncounted + found];
        (change.insertions, change.deletions) = (added.parse().ok(), removed.parse().ok());
        *uncounted += found + 1;
    }
    Some(())
}

/// Lists what a comparison finds.
pub(super) fn listed_by(cx: &Cx, repository: &Repository, git: Git) -> Result<Changes, Fault> {
    let ran = git.done(cx, repository)?;
    let (records, complete) = records(&ran.stdout);
    Ok(Changes::read(records.into_iter(), complete))
}

/// The patch that a comparison prints, as much of it as is shown.
pub(super) fn patch_by(cx: &Cx, repository: &Repository, git: Git) -> Result<(String, Option<Truncated>), Fault> {
    let ran = git.done(cx, repository)?;
    let whole = ran.stdout.bytes;
    let (patch, truncated) = cut(head(&ran.stdout).to_owned(), PATCH_BYTES, PATCH_LINES);
    let truncated = match truncated {
        Some(truncated) if truncated.unit == Unit::Bytes => Some(Truncated { total: whole, ..truncated }),
        other => other,
    };
    Ok((patch, truncated))
}
