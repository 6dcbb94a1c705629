//! A walk over a tree, on all cores, through opened directories.
//!
//! Links are never followed, so a walk stays where it started. Directories are opened by their place beneath the
//! workspace with no link allowed on the way, files by their name in the directory that listed them: what is swapped
//! for a link while the walk goes on is not entered.

use std::{
    ffi::{CStr, CString, OsStr},
    io::Read as _,
    num::NonZero,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use rustix::{fs::FileType, io::Errno};
use toolgate_contract::Fault;

use super::{
    glob::MAX_GLOB,
    workspace::{OpenDir, Workspace},
};
use crate::Cx;

/// Which parts of the tree are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// What `.gitignore` and `.ignore` name, and directories nobody reads by hand.
    Skip,
    /// Nothing is.
    Include,
}

/// Directories of tools, not of people.
const SKIPPED: [&[u8]; 4] = [b".git", b"node_modules", b"_build", b"_opam"];

/// A file, a link or a device that the walk came to.
pub(crate) struct Found<'a> {
    pub(crate) dir: &'a OpenDir,
    pub(crate) name: &'a CStr,
    pub(crate) kind: FileType,
    /// Relative to the workspace.
    pub(crate) place: Vec<u8>,
}

/// What a walk gives back: what each thread gathered, and how many directories it could not open.
pub(crate) struct Walked<V> {
    pub(crate) gathered: Vec<V>,
    pub(crate) unreadable: u64,
}

/// Visits everything below `start` that is no directory. `new` makes what a thread gathers in.
///
/// `max_depth` counts names below `start`: 1 is what is in it. The order is any; a caller that needs one sorts.
pub(crate) fn walk<V: Send>(
    cx: &Cx,
    start: OpenDir,
    max_depth: Option<NonZero<u32>>,
    ignored: Ignored,
    new: impl Fn() -> V + Sync,
    visit: impl Fn(&mut V, Found<'_>) -> Result<(), Fault> + Sync,
) -> Result<Walked<V>, Fault> {
    let reader = RuleReader { cx, left: AtomicUsize::new(MAX_RULES_IN_ALL) };
    let rules = match ignored {
        Ignored::Skip => reader.above(&start)?,
        Ignored::Include => None,
    };
    let workspace = start.workspace().clone();
    let queue = Queue::new(Job::Start { dir: start, rules });
    let walker = Walker { cx, workspace: &workspace, queue: &queue, reader: &reader, max_depth, ignored, visit };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let gathered = thread::scope(|scope| {
        let run = || {
            let mut gathered = new();
            let mut buffer = Vec::new();
            while let Some((job, _busy)) = queue.next() {
                if let Err(fault) = walker.work(job, &mut gathered, &mut buffer) {
                    queue.stop(fault);
                }
            }
            gathered
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut gathered = vec![run()];
        // A thread that panicked has no part to give; the scope passes the panic on.
        gathered.extend(others.into_iter().filter_map(|thread| thread.join().ok()));
        gathered
    });
    let state = queue.into_state();
    match state.fault {
        Some(fault) => Err(fault),
        None => Ok(Walked { gathered, unreadable: state.unreadable }),
    }
}

/// More threads than this wait for the kernel's locks rather than work.
const MAX_THREADS: usize = 12;

/// How many files of one directory are handed out at once.
const BATCH: usize = 32;

/// Ignore files are written by people; what comes after this much of one is something else, and leaves nothing out.
const MAX_IGNORE_FILE: u64 = 64 * 1024;
const MAX_RULES: usize = 2_000;

/// How many rules one walk reads. Ignore files that it comes to later leave nothing out.
const MAX_RULES_IN_ALL: usize = 20_000;

struct Walker<'a, F> {
    cx: &'a Cx,
    workspace: &'a Workspace,
    queue: &'a Queue,
    reader: &'a RuleReader<'a>,
    max_depth: Option<NonZero<u32>>,
    ignored: Ignored,
    visit: F,
}

struct Entry {
    name: CString,
    kind: FileType,
}

impl<F> Walker<'_, F> {
    fn work<V>(&self, job: Job, gathered: &mut V, buffer: &mut Vec<u8>) -> Result<(), Fault>
    where
        F: Fn(&mut V, Found<'_>) -> Result<(), Fault>,
    {
        match job {
            Job::Start { dir, rules } => self.enter(dir, 1, rules, gathered, buffer),
            Job::Dir { place, depth, rules } => match self.workspace.open_listed(&place) {
                Ok(dir) => self.enter(dir, depth, rules, gathered, buffer),
                // It is gone, or it is no longer a directory.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
                Err(_) => {
                    self.queue.count_unreadable();
                    Ok(())
                }
            },
            Job::Files { dir, entries } => self.visit_all(&dir, &entries, gathered),
        }
    }

    fn enter<V>(
        &self,
        dir: OpenDir,
        depth: u32,
        rules: Option<Arc<Rules>>,
        gathered: &mut V,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Fault>
    where
        F: Fn(&mut V, Found<'_>) -> Result<(), Fault>,
    {
        let mut entries = Vec::new();
        let listed = dir.list(buffer, |name, kind| {
            entries.push(Entry { name: name.to_owned(), kind });
            self.cx.check()
        });
        self.cx.check()?;
        if listed.is_err() {
            self.queue.count_unreadable();
        }
        let rules = match self.ignored {
            Ignored::Skip => self.reader.extended(rules, &dir, &entries)?,
            Ignored::Include => None,
        };
        let dir = Arc::new(dir);
        let mut jobs = Vec::new();
        let mut files = Vec::new();
        for entry in entries {
            self.cx.check()?;
            let name = entry.name.to_bytes();
            let is_dir = entry.kind == FileType::Directory;
            if is_dir && self.max_depth.is_some_and(|most| depth >= most.get()) {
                continue;
            }
            if self.ignored == Ignored::Skip && is_dir && SKIPPED.contains(&name) {
                continue;
            }
            if is_dir || rules.is_some() {
                let place = dir.place_of(name);
                if rules.as_ref().is_some_and(|rules| rules.ignore(&place, is_dir)) {
                    continue;
                }
                if is_dir {
                    jobs.push(Job::Dir { place, depth: depth.saturating_add(1), rules: rules.clone() });
                    continue;
                }
            }
            files.push(entry);
        }
        // The last batch is worked on here; the others go on top of the directories, so that this one is closed soon.
        while files.len() > BATCH {
            jobs.push(Job::Files { dir: dir.clone(), entries: files.split_off(files.len() - BATCH) });
        }
        self.queue.add(jobs);
        self.visit_all(&dir, &files, gathered)
    }

    fn visit_all<V>(&self, dir: &OpenDir, entries: &[Entry], gathered: &mut V) -> Result<(), Fault>
    where
        F: Fn(&mut V, Found<'_>) -> Result<(), Fault>,
    {
        for Entry { name, kind } in entries {
            self.cx.check()?;
            (self.visit)(gathered, Found { dir, name, kind: *kind, place: dir.place_of(name.to_bytes()) })?;
        }
        Ok(())
    }
}

enum Job {
    /// Where the walk starts.
    Start { dir: OpenDir, rules: Option<Arc<Rules>> },
    /// A directory that a listing named. It is opened when its turn comes: a wide tree must not use up descriptors.
    Dir { place: Vec<u8>, depth: u32, rules: Option<Arc<Rules>> },
    /// Some of the files of a directory.
    Files { dir: Arc<OpenDir>, entries: Vec<Entry> },
}

/// What is still to be done, and by how many threads something is being done.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    jobs: Vec<Job>,
    busy: usize,
    unreadable: u64,
    fault: Option<Fault>,
}

impl Queue {
    fn new(first: Job) -> Self {
        let state = State { jobs: vec![first], busy: 0, unreadable: 0, fault: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The next job, or none when all is done or has been stopped. The newest comes first, so that a walk goes deep
    /// before it goes wide and the list stays short.
    fn next(&self) -> Option<(Job, Busy<'_>)> {
        let mut state = self.lock();
        loop {
            if state.fault.is_some() {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some((job, Busy(self)));
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn add(&self, jobs: Vec<Job>) {
        if !jobs.is_empty() {
            self.lock().jobs.extend(jobs);
            self.changed.notify_all();
        }
    }

    fn stop(&self, fault: Fault) {
        self.lock().fault.get_or_insert(fault);
        self.changed.notify_all();
    }

    fn count_unreadable(&self) {
        self.lock().unreadable += 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_state(self) -> State {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread at work. It says so when it stops, also by a panic, or the others would wait for ever.
struct Busy<'a>(&'a Queue);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        if state.busy == 0 {
            self.0.changed.notify_all();
        }
    }
}

/// The ignore rules of a directory, on top of those of the directories above it.
struct Rules {
    above: Option<Arc<Rules>>,
    /// The place they are relative to.
    depth: usize,
    own: Gitignore,
}

/// Reads ignore files, for all threads of a walk, until the walk has had its share of rules.
struct RuleReader<'a> {
    cx: &'a Cx,
    left: AtomicUsize,
}

impl RuleReader<'_> {
    /// The rules that hold where a walk starts: those of the directories between it and the workspace.
    fn above(&self, start: &OpenDir) -> Result<Option<Arc<Rules>>, Fault> {
        let mut rules = None;
        let mut above: Vec<_> = Path::new(OsStr::from_bytes(&start.place)).ancestors().skip(1).collect();
        above.reverse();
        for place in above {
            if let Ok(dir) = start.workspace().open_listed(place.as_os_str().as_bytes()) {
                rules = self.read(rules, &dir, &[c".gitignore", c".ignore"])?;
            }
        }
        Ok(rules)
    }

    /// The rules inside `dir`, whose entries were just listed.
    fn extended(
        &self,
        above: Option<Arc<Rules>>,
        dir: &OpenDir,
        entries: &[Entry],
    ) -> Result<Option<Arc<Rules>>, Fault> {
        let present: Vec<_> =
            [c".gitignore", c".ignore"].into_iter().filter(|name| entries.iter().any(|e| *e.name == **name)).collect();
        if present.is_empty() { Ok(above) } else { self.read(above, dir, &present) }
    }

    /// A later line wins over an earlier one, so `.ignore` is named after `.gitignore`.
    fn read(&self, above: Option<Arc<Rules>>, dir: &OpenDir, names: &[&CStr]) -> Result<Option<Arc<Rules>>, Fault> {
        let mut builder = GitignoreBuilder::new("");
        for name in names {
            if self.left.load(Ordering::Relaxed) == 0 {
                break;
            }
            let Ok(Some((file, _))) = dir.open_entry(name) else { continue };
            let mut text = Vec::new();
            // What cannot be read, or is no glob, leaves nothing out.
            let _ = file.take(MAX_IGNORE_FILE).read_to_end(&mut text);
            for line in rules_in(&String::from_utf8_lossy(&text)) {
                self.cx.check()?;
                if !self.take_one() {
                    break;
                }
                let _ = builder.add_line(None, line);
            }
        }
        self.cx.check()?;
        Ok(match builder.build() {
            Ok(own) if !own.is_empty() => {
                let depth = if dir.place.is_empty() { 0 } else { dir.place.len() + 1 };
                Some(Arc::new(Rules { above, depth, own }))
            }
            _ => above,
        })
    }

    fn take_one(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// The lines of an ignore file that are rules. One that is longer than any glob may be is none.
fn rules_in(text: &str) -> impl Iterator<Item = &str> {
    text.trim_start_matches('\u{feff}')
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#') && line.len() <= MAX_GLOB)
        .take(MAX_RULES)
}

impl Rules {
    /// The nearest rule that speaks decides.
    fn ignore(&self, place: &[u8], is_dir: bool) -> bool {
        let mut rules = Some(self);
        while let Some(here) = rules {
            let relative = Path::new(OsStr::from_bytes(&place[here.depth..]));
            match here.own.matched(relative, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = here.above.as_deref(),
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_contract::Caps;

    use super::{
        super::{desk::Desk, find},
        *,
    };

    /// How many rules a walk over `desk` still had left once it had read the ignore files of its root.
    fn check(desk: &Desk, left: usize, expected: Result<(usize, bool), &str>) {
        let cx = desk.cx(&find::tool(), Caps::DEFAULT);
        let dir = cx.workspace().unwrap().open_dir(".").unwrap();
        let reader = RuleReader { cx: &cx, left: AtomicUsize::new(left) };
        let read = reader.read(None, &dir, &[c".gitignore", c".ignore"]);
        let got = read.map(|rules| (reader.left.load(Ordering::Relaxed), rules.is_some()));
        assert_eq!(got.map_err(|fault| fault.code.into_owned()), expected.map_err(str::to_owned));
    }

    #[test]
    fn a_walk_reads_so_many_rules_and_no_more() {
        let desk = Desk::with(&[(".gitignore", "# none\n\na\nb\n"), (".ignore", "c\n")]);
        check(&desk, 10, Ok((7, true)));
        check(&desk, 2, Ok((0, true)));
        check(&desk, 0, Ok((0, false)));
    }

    #[test]
    fn one_ignore_file_has_so_many_rules_and_no_more() {
        let desk = Desk::with(&[(".gitignore", &"a\n".repeat(MAX_RULES + 5))]);
        check(&desk, MAX_RULES_IN_ALL, Ok((MAX_RULES_IN_ALL - MAX_RULES, true)));
        let desk = Desk::with(&[(".gitignore", &format!("{}x", "#23456789012345\n".repeat(64 * 64)))]);
        check(&desk, 10, Ok((10, false)));
    }

    #[test]
    fn reading_rules_ends_when_the_call_is_stopped() {
        let desk = Desk::with(&[(".gitignore", "a\nb\n")]);
        desk.stop.cancel();
        check(&desk, 10, Err("cancelled"));
    }

    #[test]
    fn a_line_that_is_no_glob_leaves_the_others_alone() {
        let nested = |depth| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        for line in [nested(5_000), nested(30_000), "[".to_owned()] {
            let desk = Desk::with(&[(".gitignore", &format!("{line}\n*.log\n")), ("a.log", ""), ("b", "")]);
            let found = desk.call(find::tool, json!({ "pattern": "*" })).unwrap().structured;
            assert_eq!(found["paths"], json!([".gitignore", "b"]), "{}", line.len());
        }
    }
}
