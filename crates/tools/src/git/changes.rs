//! What differs between two states: files, counted lines, and the patch.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_contract::{Fault, Truncated, Unit};
use toolgate_guard::{cut, shell::ir::visible};

use super::{
    MOST,
    command::{Git, head, records},
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each file as `letter path (old) +added -removed`.
    fn check(printed: &str, expected: &[&str]) {
        let changes = Changes::read(printed.split_terminator('\0'), true);
        let said = |change: &Change| {
            let old = change.old_path.as_ref().map(|old| format!(" ({old})")).unwrap_or_default();
            format!("{} {}{old} {:?} {:?}", change.kind.letter(), change.path, change.insertions, change.deletions)
        };
        assert_eq!(changes.files.iter().map(said).collect::<Vec<_>>(), expected, "{printed:?}");
    }

    #[test]
    fn files_and_their_lines_are_put_together() {
        check("", &[]);
        check(
            "\n:100644 100644 1 2 M\0a b\0:100644 100644 1 2 R097\0old\0new\0:000000 100644 0 1 A\0bin\0\
             1\t0\ta b\x003\t4\t\0old\0new\0-\t-\tbin\0",
            &["M a b Some(1) Some(0)", "R new (old) Some(3) Some(4)", "A bin None None"],
        );
        // A file that is in conflict is listed twice.
        check(
            ":000000 100644 0 0 U\0a\0:100644 100644 1 0 M\0a\x000\t0\ta\x004\t0\ta\0",
            &["U a Some(0) Some(0)", "M a Some(4) Some(0)"],
        );
        // What is cut off in the middle, or not known, ends the list.
        check(":100644 100644 1 2 M\0a\0:100644 100644 1 2 R097\0old\0", &["M a None None"]);
        check(":100644 100644 1 2 X\0a\0:100644 100644 1 2 M\0b\0", &[]);
    }

    #[test]
    fn what_is_left_out_is_told() {
        let printed: String = (0..MOST + 10).map(|n| format!(":1 1 1 1 M\0{n}\0")).collect();
        let changes = Changes::read(printed.split_terminator('\0'), true);
        let cut = Truncated { shown: MOST as u64, total: MOST as u64 + 10, unit: Unit::Items };
        assert_eq!((changes.files.len(), changes.cut), (MOST, Some(cut)));
        assert!(Changes::read(":1 1 1 1 M\0a\0".split_terminator('\0'), false).cut.is_some());
    }
}
