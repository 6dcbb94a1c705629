//! What programs changed in a directory, by what the kernel says of each file.
//!
//! A program tells nobody what it wrote. The kernel does: whenever a file is written, made, linked or renamed it notes the
//! time, and no program can set that time back. What moves with its directory keeps its own time; such files are known
//! again by their numbers. Whatever cannot be told is said to be changed.

use std::{
    collections::HashSet,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How many files are looked at. Of a larger directory it cannot be told.
const MOST_FILES: usize = 200_000;
/// How many names of one directory are told; of more the directory is.
const MOST_NAMES: usize = 64;
/// The kernel's clock for files ticks, and may be behind by a tick.
const SLACK: Duration = Duration::from_millis(50);

/// A moment before programs run, and the files that are known by then.
#[derive(Debug)]
pub(crate) struct Moment {
    began: Duration,
    /// Device and number of each; none where there are too many.
    known: Option<HashSet<(u64, u64)>>,
}

impl Moment {
    /// Now, with these files and directories and every directory below them.
    pub(crate) fn now<'a>(known: impl Iterator<Item = &'a Path>) -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(SLACK);
        let mut numbers = HashSet::new();
        let mut left = MOST_FILES;
        let all_told = known.into_iter().try_for_each(|path| number_all(path, &mut numbers, &mut left));
        Self { began, known: all_told.map(|()| numbers) }
    }

    /// What has changed below a directory since, or is known by another name: files, or directories with all that is in
    /// them.
    pub(crate) fn changed(&self, root: &Path) -> Vec<PathBuf> {
        let Some(known) = &self.known else { return vec![root.to_owned()] };
        let mut left = MOST_FILES;
        self.below(root, known, &mut left).unwrap_or_else(|| vec![root.to_owned()])
    }

    /// None where it cannot be told.
    fn below(&self, dir: &Path, known: &HashSet<(u64, u64)>, left: &mut usize) -> Option<Vec<PathBuf>> {
        let mut changed = Vec::new();
        for entry in fs::read_dir(dir).ok()? {
            *left = left.checked_sub(1)?;
            let path = entry.ok()?.path();
            // What went away in the meantime is no longer there to be read.
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            let is_new = !about.is_dir() && changed_at(&about) >= self.began;
            if is_new || known.contains(&number(&about)) {
                changed.push(path);
            } else if about.is_dir() {
                match self.below(&path, known, left) {
                    // A history is one thing: what is in one file of it may come out of it as any other.
                    Some(inside) if inside.is_empty() => {}
                    Some(inside) if path.file_name().is_none_or(|name| name != ".git") => changed.extend(inside),
                    Some(_) | None => changed.push(path),
                }
            }
        }
        Some(if changed.len() > MOST_NAMES { vec![dir.to_owned()] } else { changed })
    }
}

fn number_all(path: &Path, numbers: &mut HashSet<(u64, u64)>, left: &mut usize) -> Option<()> {
    *left = left.checked_sub(1)?;
    let Ok(about) = fs::symlink_metadata(path) else { return Some(()) };
    numbers.insert(number(&about));
    if about.is_dir() {
        for entry in fs::read_dir(path).ok()? {
            *left = left.checked_sub(1)?;
            let entry = entry.ok()?;
            if entry.file_type().ok()?.is_dir() {
                number_all(&entry.path(), numbers, left)?;
            }
        }
    }
    Some(())
}

fn number(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

fn changed_at(about: &Metadata) -> Duration {
    let nanos = u32::try_from(about.ctime_nsec()).unwrap_or(0);
    Duration::new(u64::try_from(about.ctime()).unwrap_or(0), nanos)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory with some files in it, made long enough ago.
    fn house() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in ["notes/theirs.txt", "engine/src/deep/a.rs", "mine/own.txt", ".git/objects/ab"] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        dir
    }

    /// What is told of a program that did this, if `known` was known and nothing is new by its time alone.
    fn told(known: &[&str], by_time: bool, act: impl Fn(&Path)) -> Vec<String> {
        let dir = house();
        let known: Vec<PathBuf> = known.iter().map(|name| dir.path().join(name)).collect();
        let mut moment = Moment::now(known.iter().map(PathBuf::as_path));
        act(dir.path());
        if !by_time {
            // Nothing is that new: only what is known again by its number is left.
            moment.began += Duration::from_secs(3600);
        }
        let shown = |path: PathBuf| path.strip_prefix(dir.path()).unwrap().to_string_lossy().into_owned();
        let mut told: Vec<String> = moment.changed(dir.path()).into_iter().map(shown).collect();
        told.sort();
        told
    }

    #[test]
    fn what_moved_is_known_again_wherever_it_went() {
        let check = |known: &[&str], from: &str, to: &str, expected: &[&str]| {
            let told = told(known, false, |dir| fs::rename(dir.join(from), dir.join(to)).unwrap());
            assert_eq!(told, expected, "{from} {to}");
        };
        check(&["notes/theirs.txt"], "notes/theirs.txt", "mine/x.txt", &["mine/x.txt"]);
        check(&["notes/theirs.txt"], "notes", "docs", &["docs/theirs.txt"]);
        check(&["engine"], "engine", "lib", &["lib"]);
        check(&["engine"], "engine/src", "lib", &["engine", "lib"]);
        check(&[], "notes", "docs", &[]);
    }

    #[test]
    fn what_was_written_made_or_linked_is_new_and_the_rest_is_not() {
        // Everything in the house is younger than the slack, so all of it is told, and each of these with it.
        let told = told(&[], true, |dir| {
            fs::write(dir.join("mine/new.txt"), "y").unwrap();
            symlink("theirs.txt", dir.join("notes/link.txt")).unwrap();
        });
        for name in ["mine/new.txt", "notes/link.txt", ".git"] {
            assert!(told.iter().any(|known| known == name), "{name}: {told:?}");
        }
    }

    #[test]
    fn of_very_many_the_directory_is_told() {
        let told = told(&[], true, |dir| {
            (0..=MOST_NAMES).for_each(|n| fs::write(dir.join(format!("mine/{n}")), "y").unwrap());
        });
        assert!(told.contains(&"mine".to_owned()) && !told.iter().any(|name| name.starts_with("mine/")), "{told:?}");
    }
}
