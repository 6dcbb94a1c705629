//! Limits by control groups: by version 2 where it has the controllers, else by version 1, else not at all and why.
//!
//! Every job gets a group of its own, a directory in each hierarchy that is used, made beneath the group Toolgate itself
//! is in: whatever limits Toolgate has are then limits of its rooms as well, and a service manager that ends Toolgate's
//! group ends the rooms'. The directories are `toolgate-<label>/<instance>-<number>`, where the label is the
//! deployment's, so that a sweep can tell its own from everybody else's.
//!
//! What is dear is not making a directory (0.2 ms for four) but moving a process through `cgroup.procs`: the kernel
//! then waits until no processor is in the middle of a fork, 7.5 ms when it has not done so recently. A process
//! of one thread that writes `0` into the `tasks` file of version 1 moves itself without that wait (0.03 ms for two), so
//! that is the file [`Lease::procs`] opens there. Version 2 has no such file.
//!
//! A job lasts less than a millisecond when its program does, so a group keeps the files open that every job needs, and
//! nobody waits for the last process of a job to be gone: [`Lease::let_go`].

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::{fd::OwnedFd, unix::fs::FileExt as _},
    path::{Component, Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use crate::room::Missing;

/// Groups that are kept between jobs.
const POOL: usize = 16;

/// Bytes a group may still hold when it is used again: counters the kernel keeps per processor, not somebody's files.
const RESIDUE: u64 = 4 << 20;

/// How long the processes of a group may take to be gone once they were killed.
const DEATH: Duration = Duration::from_secs(2);

/// The file systems of the two versions, as `statfs` names them.
const V1_MAGIC: u64 = 0x0027_e0eb;
const V2_MAGIC: u64 = 0x6367_7270;

/// The groups of this process.
#[derive(Debug)]
pub(crate) struct Cgroups {
    shared: Arc<Shared>,
}

impl Cgroups {
    /// Finds out by doing what can be limited here. `label` is the deployment's, `instance` is this process's; both are
    /// words of letters and digits.
    pub(crate) fn open(label: &str, instance: &str) -> Self {
        let cgroups = Self::on(Layout::probe(label, instance), instance);
        for (what, by) in [("memory", cgroups.memory_by()), ("processes", cgroups.pids_by())] {
            if let Err(Missing { why, remedy }) = by {
                tracing::info!(why, remedy, "{what} cannot be limited by a control group");
            }
        }
        cgroups
    }

    fn on(layout: Layout, instance: &str) -> Self {
        let shared = Shared {
            layout,
            instance: instance.to_owned(),
            made: AtomicU64::new(0),
            pool: Mutex::new(Pool { idle: Vec::new(), leaving: Vec::new(), is_closed: false }),
        };
        // The first job finds its group made. If that fails here it fails again there, and is told there.
        if let Ok(group) = shared.make() {
            shared.pool().idle.push(group);
        }
        Self { shared: Arc::new(shared) }
    }

    /// What limits memory: `cgroup_v2` or `cgroup_v1`.
    pub(crate) fn memory_by(&self) -> Result<&'static str, Missing> {
        self.shared.layout.memory.as_ref().map(Branch::word).map_err(Clone::clone)
    }

    /// What limits processes: `cgroup_v2` or `cgroup_v1`.
    pub(crate) fn pids_by(&self) -> Result<&'static str, Missing> {
        self.shared.layout.pids.as_ref().map(Branch::word).map_err(Clone::clone)
    }

    /// This deployment's directory in each hierarchy that is used, for whoever sweeps up after a crash.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        self.shared.layout.branches().into_iter().map(|branch| branch.dir.clone()).collect()
    }

    /// A group of its own with these limits. Where a limit has no hierarchy there is no limit, and the lease says so.
    pub(crate) fn take(&self, memory: u64, pids: u32) -> io::Result<Lease> {
        let idle = self.shared.idle().or_else(|| {
            self.shared.tidy();
            self.shared.idle()
        });
        let group = match idle {
            Some(mut group) => match self.shared.limit(&mut group, memory, pids) {
                Ok(()) => group,
                // What the last job left in it does not fit the new limit.
                Err(_) => {
                    self.shared.discard(group);
                    self.shared.make_limited(memory, pids)?
                }
            },
            None => self.shared.make_limited(memory, pids)?,
        };
        Ok(Lease { shared: Arc::clone(&self.shared), group: Some(group) })
    }

    /// Has a group ready for the next job with these limits, so that it finds nothing left to do. For whoever has time:
    /// the last job's group is used again, once it is left.
    pub(crate) fn make_ahead(&self, memory: u64, pids: u32) {
        self.shared.tidy();
        let is_wanted = {
            let pool = self.shared.pool();
            pool.idle.is_empty() && pool.has_room()
        };
        // If it cannot be made now it is tried again for that job, who is told.
        if is_wanted && let Ok(group) = self.shared.make_limited(memory, pids) {
            self.shared.pool().idle.push(group);
        }
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// One job's group. Dropping it kills whatever is still inside.
#[derive(Debug)]
pub(crate) struct Lease {
    shared: Arc<Shared>,
    /// There until the lease is dropped.
    group: Option<Group>,
}

/// What happened in a group since it was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Events {
    /// Processes the kernel killed because the memory was used up.
    pub(crate) oom_kills: u64,
    /// Processes that were not started because there were enough.
    pub(crate) pids_denied: u64,
    /// The most memory that was held at once, where the kernel tells.
    pub(crate) memory_peak: Option<u64>,
}

impl Lease {
    /// One file for each hierarchy: a process joins the group by writing `0` into all of them. It must have one thread
    /// only, because version 1 moves the thread that writes.
    pub(crate) fn procs(&self) -> &[File] {
        self.group.as_ref().map_or(&[], |group| &group.files.join)
    }

    /// What limits memory here, if a group does.
    pub(crate) fn memory_by(&self) -> Option<&'static str> {
        self.shared.layout.memory.as_ref().ok().map(Branch::word)
    }

    /// What limits processes here, if a group does.
    pub(crate) fn pids_by(&self) -> Option<&'static str> {
        self.shared.layout.pids.as_ref().ok().map(Branch::word)
    }

    /// What has happened so far. A counter that could be read when the group was taken and cannot be read now counts
    /// nothing.
    pub(crate) fn looks(&self) -> Events {
        let Some(Group { files, at_start, .. }) = &self.group else { return Events::default() };
        match files.counters().and_then(|now| Ok((now, files.peak()?))) {
            Ok((now, memory_peak)) => Events {
                oom_kills: now.oom_kills.saturating_sub(at_start.oom_kills),
                pids_denied: now.pids_denied.saturating_sub(at_start.pids_denied),
                memory_peak,
            },
            Err(error) => {
                tracing::warn!(%error, "the counters of a control group cannot be read");
                Events::default()
            }
        }
    }

    /// Ends every process in it, and waits until they are gone. `TimedOut` when some would not go.
    pub(crate) fn kill(&self) -> io::Result<()> {
        kill(&self.dirs())
    }

    /// Gives the group back when whoever is in it has said that it is the last one and about to leave. Nobody waits for
    /// that, unless enough groups are kept already: it is looked at when the group is wanted again, and one that has
    /// not left by then is killed.
    pub(crate) fn let_go(mut self) {
        let mut pool = self.shared.pool();
        if pool.has_room()
            && let Some(group) = self.group.take()
        {
            pool.leaving.push((Instant::now(), group));
        }
    }

    fn dirs(&self) -> Vec<PathBuf> {
        self.group.as_ref().map(|group| self.shared.dirs(group)).unwrap_or_default()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(group) = self.group.take() else { return };
        let is_empty = group.files.is_empty().is_ok_and(|is_empty| is_empty) || kill(&self.shared.dirs(&group)).is_ok();
        if is_empty {
            self.shared.give_back(group);
        } else {
            self.shared.pool().leaving.push((Instant::now(), group));
        }
    }
}

/// Removes what a dead instance left in `dirs`, its deployment's directories: kills what is inside, then removes. Gives
/// the number of directories removed and what could not be.
pub(crate) fn sweep(dirs: &[PathBuf], label: &str, instance: &str) -> (usize, Vec<String>) {
    let mut removed = 0;
    let mut problems = Vec::new();
    let mut known = Vec::new();
    for dir in dirs {
        match is_ours(dir, label) {
            Ok(true) => known.push(dir.clone()),
            Ok(false) => {}
            Err(why) => problems.push(why),
        }
    }
    let mine = |name: &str| name.strip_prefix(instance).is_some_and(|rest| rest.starts_with('-'));
    let names: BTreeSet<String> = known.iter().flat_map(|dir| children(dir)).filter(|name| mine(name)).collect();
    for name in names {
        // The same name in all hierarchies is one group: it is emptied as one, with its limit on processes.
        let group: Vec<PathBuf> = known.iter().map(|dir| dir.join(&name)).filter(|dir| dir.is_dir()).collect();
        match kill(&group).and_then(|()| remove(&group, PATIENT)) {
            Ok(()) => removed += group.len(),
            Err(error) => problems.push(format!("control group `{name}` cannot be removed: {error}")),
        }
    }
    known.iter().for_each(|dir| leave(dir));
    (removed, problems)
}

/// Is this a deployment's directory in a hierarchy of control groups? `false`: it is gone. `Err`: it is something else.
fn is_ours(dir: &Path, label: &str) -> Result<bool, String> {
    let plain =
        dir.is_absolute() && dir.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !plain || dir.file_name() != Some(directory_name(label).as_ref()) {
        return Err(format!("`{}` is not a control group of this deployment", dir.display()));
    }
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if !mounts(&mountinfo).iter().any(|mount| dir.starts_with(&mount.point)) {
        return Err(format!("`{}` is not in a hierarchy of control groups", dir.display()));
    }
    match rustix::fs::statfs(dir) {
        Ok(stat) if matches!(stat.f_type as u64, V1_MAGIC | V2_MAGIC) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        _ => Err(format!("`{}` is not in a hierarchy of control groups", dir.display())),
    }
}

/// Removes a deployment's directory if nobody has groups in it.
fn leave(dir: &Path) {
    let _ = fs::remove_dir(dir.join(ASIDE));
    let _ = fs::remove_dir(dir);
}

fn children(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[derive(Debug)]
struct Shared {
    layout: Layout,
    instance: String,
    /// Groups made so far, for their names.
    made: AtomicU64,
    pool: Mutex<Pool>,
}

#[derive(Debug)]
struct Pool {
    /// Empty groups that wait for a job.
    idle: Vec<Group>,
    /// Groups that may have somebody in them, and since when.
    leaving: Vec<(Instant, Group)>,
    /// Nothing is kept any more.
    is_closed: bool,
}

impl Pool {
    fn has_room(&self) -> bool {
        !self.is_closed && self.idle.len() + self.leaving.len() < POOL
    }
}

/// One directory of this name in each hierarchy.
#[derive(Debug)]
struct Group {
    name: String,
    limits: Option<(u64, u32)>,
    /// What it had counted when its peak was last forgotten.
    at_start: Counters,
    files: Files,
}

/// The files of a group that every job needs.
#[derive(Debug, Default)]
struct Files {
    /// In the order of the branches.
    join: Vec<File>,
    /// Lists who is in it. A process joins the first hierarchy first and leaves all at once, so this one tells of all.
    /// It is opened each time it is read: through an open file version 1 shows an old list for a second or longer.
    members: Option<PathBuf>,
    memory: Option<MemoryFiles>,
    pids_events: Option<File>,
}

#[derive(Debug)]
struct MemoryFiles {
    events: File,
    /// Not every kernel has it.
    peak: Option<File>,
    /// Of version 1 alone, whose groups are used again.
    usage: Option<File>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    oom_kills: u64,
    pids_denied: u64,
}

impl Files {
    fn open(layout: &Layout, name: &str) -> io::Result<Self> {
        let branches = layout.branches();
        let join =
            |branch: &&Branch| OpenOptions::new().write(true).open(branch.dir.join(name).join(branch.join_file()));
        let memory = layout.memory.as_ref().ok().map(|branch| MemoryFiles::open(branch, &branch.dir.join(name)));
        let pids_events = layout.pids.as_ref().ok().map(|branch| File::open(branch.dir.join(name).join("pids.events")));
        let members = branches.first().map(|branch| branch.dir.join(name).join("cgroup.procs"));
        Ok(Self {
            join: branches.iter().map(join).collect::<io::Result<_>>()?,
            members,
            memory: memory.transpose()?,
            pids_events: pids_events.transpose()?,
        })
    }

    fn counters(&self) -> io::Result<Counters> {
        let mut counters = Counters::default();
        if let Some(memory) = &self.memory {
            counters.oom_kills = counter(&text(&memory.events)?, "oom_kill")?;
        }
        if let Some(events) = &self.pids_events {
            counters.pids_denied = counter(&text(events)?, "max")?;
        }
        Ok(counters)
    }

    /// The most memory that was held at once since it was forgotten.
    fn peak(&self) -> io::Result<Option<u64>> {
        self.memory.as_ref().and_then(|memory| memory.peak.as_ref()).map(number).transpose()
    }

    fn is_empty(&self) -> io::Result<bool> {
        self.members.as_ref().map_or(Ok(true), |members| Ok(File::open(members)?.read_at(&mut [0; 16], 0)? == 0))
    }

    /// Forgets the peak of the last job, which only version 1 does when told, and gives what was counted so far.
    fn begin(&self) -> io::Result<Counters> {
        if let Some(MemoryFiles { peak: Some(peak), usage: Some(_), .. }) = &self.memory {
            peak.write_all_at(b"0", 0)?;
        }
        self.counters()
    }

    /// Is nothing left in it of the last job's memory, or so little that it does not matter?
    fn is_as_new(&self) -> bool {
        self.memory
            .as_ref()
            .and_then(|memory| memory.usage.as_ref())
            .is_none_or(|usage| number(usage).is_ok_and(|bytes| bytes <= RESIDUE))
    }
}

impl MemoryFiles {
    fn open(branch: &Branch, dir: &Path) -> io::Result<Self> {
        Ok(match branch.version {
            Version::V1 => Self {
                events: File::open(dir.join("memory.oom_control"))?,
                peak: Some(File::options().read(true).write(true).open(dir.join("memory.max_usage_in_bytes"))?),
                usage: Some(File::open(dir.join("memory.usage_in_bytes"))?),
            },
            Version::V2 => Self {
                events: File::open(dir.join("memory.events"))?,
                peak: match File::open(dir.join("memory.peak")) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                    opened => Some(opened?),
                },
                usage: None,
            },
        })
    }
}

impl Shared {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dirs(&self, group: &Group) -> Vec<PathBuf> {
        self.layout.branches().into_iter().map(|branch| branch.dir.join(&group.name)).collect()
    }

    fn idle(&self) -> Option<Group> {
        self.pool().idle.pop()
    }

    fn make(&self) -> io::Result<Group> {
        let name = format!("{}-{}", self.instance, self.made.fetch_add(1, Ordering::Relaxed));
        let made = self.layout.branches().into_iter().try_for_each(|branch| branch.make_group(&name));
        let opened = made.and_then(|()| Files::open(&self.layout, &name));
        match opened.and_then(|files| Ok((files.begin()?, files))) {
            Ok((at_start, files)) => Ok(Group { name, limits: None, at_start, files }),
            Err(error) => {
                self.discard(Group { name, limits: None, at_start: Counters::default(), files: Files::default() });
                Err(error)
            }
        }
    }

    fn make_limited(&self, memory: u64, pids: u32) -> io::Result<Group> {
        let mut group = self.make()?;
        match self.limit(&mut group, memory, pids) {
            Ok(()) => Ok(group),
            Err(error) => {
                self.discard(group);
                Err(error)
            }
        }
    }

    /// Sets what is not yet set.
    fn limit(&self, group: &mut Group, memory: u64, pids: u32) -> io::Result<()> {
        if group.limits == Some((memory, pids)) {
            return Ok(());
        }
        if let Ok(branch) = &self.layout.memory {
            apply(&branch.dir.join(&group.name), &memory_settings(branch.version, memory))?;
        }
        if let Ok(branch) = &self.layout.pids {
            apply(&branch.dir.join(&group.name), &pids_settings(pids))?;
        }
        group.limits = Some((memory, pids));
        Ok(())
    }

    /// Looks after groups that were let go. One that is empty waits for the next job.
    fn tidy(&self) {
        let leaving = std::mem::take(&mut self.pool().leaving);
        for (since, group) in leaving {
            match group.files.is_empty() {
                Ok(false) => {
                    if since.elapsed() > DEATH {
                        let signalled = signal_all(&self.dirs(&group));
                        tracing::warn!(
                            group = group.name,
                            ?signalled,
                            "a control group is not left by its last process"
                        );
                    }
                    self.pool().leaving.push((since, group));
                }
                _ => self.keep_or(group, |group| self.try_discard(group)),
            }
        }
    }

    /// An empty group comes back.
    fn give_back(&self, group: Group) {
        self.keep_or(group, |group| self.discard(group));
        self.leave_if_closed();
    }

    /// Has an empty group wait for the next job, or gets rid of it.
    fn keep_or(&self, group: Group, get_rid: impl FnOnce(Group)) {
        let begun = if self.is_as_new(&group) { group.files.begin().ok() } else { None };
        let mut pool = self.pool();
        match begun {
            Some(at_start) if pool.has_room() => pool.idle.push(Group { at_start, ..group }),
            _ => {
                drop(pool);
                get_rid(group);
            }
        }
    }

    /// Version 1 forgets its peak when told to. Version 2 does so only since Linux 6.12 and only for the file that
    /// was open then, so its groups are used once.
    fn is_as_new(&self, group: &Group) -> bool {
        self.layout.branches().iter().all(|branch| branch.version == Version::V1) && group.files.is_as_new()
    }

    fn discard(&self, group: Group) {
        if let Err(error) = remove(&self.dirs(&group), PATIENT) {
            tracing::warn!(group = group.name, %error, "a control group cannot be removed yet");
            self.pool().leaving.push((Instant::now(), group));
        }
    }

    /// As [`Self::discard`], for when somebody waits.
    fn try_discard(&self, group: Group) {
        if remove(&self.dirs(&group), 0).is_err() {
            self.pool().leaving.push((Instant::now(), group));
        }
    }

    fn close(&self) {
        let mut pool = self.pool();
        pool.is_closed = true;
        let idle: Vec<Group> = pool.idle.drain(..).collect();
        let leaving = std::mem::take(&mut pool.leaving);
        drop(pool);
        for (_, group) in &leaving {
            if let Err(error) = kill(&self.dirs(group)) {
                tracing::warn!(group = group.name, %error, "a control group has a process that does not end");
            }
        }
        idle.into_iter().chain(leaving.into_iter().map(|(_, group)| group)).for_each(|group| self.discard(group));
        self.leave_if_closed();
    }

    /// Removes the deployment's directories unless somebody else still has groups there.
    fn leave_if_closed(&self) {
        if self.pool().is_closed {
            self.layout.branches().into_iter().for_each(|branch| leave(&branch.dir));
        }
    }
}

/// Which hierarchy does what.
#[derive(Debug)]
struct Layout {
    memory: Result<Branch, Missing>,
    pids: Result<Branch, Missing>,
}

impl Layout {
    fn probe(label: &str, instance: &str) -> Self {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_word(label) || !is_word(instance) {
            return Self::none(&format!("`{label}` and `{instance}` cannot name a control group"));
        }
        match Machine::read() {
            Ok(machine) => Self::find(&machine, label, instance),
            Err(error) => Self::none(&format!("`/proc/self` does not tell about control groups: {error}")),
        }
    }

    /// Each limit by version 2 where that works, else by version 1 where that works.
    fn find(machine: &Machine, label: &str, instance: &str) -> Self {
        let v2 = machine.find_v2(label);
        let find = |controller: &str, probe: fn(Version) -> Vec<Setting>| {
            let by_v2 = v2.clone().and_then(|branch| branch.tried(instance, &probe(Version::V2)));
            by_v2.or_else(|v2_says| {
                let by_v1 = machine.find_v1(controller, label);
                by_v1.and_then(|branch| branch.tried(instance, &probe(Version::V1))).map_err(|v1_says| Missing {
                    why: format!("by control groups of version 2: {v2_says}; of version 1: {v1_says}"),
                    remedy: REMEDY.to_owned(),
                })
            })
        };
        let memory = find("memory", |version| memory_settings(version, 1 << 30));
        let pids = find("pids", |_| pids_settings(64));
        Self { memory, pids }
    }

    fn none(why: &str) -> Self {
        let missing = Missing { why: why.to_owned(), remedy: REMEDY.to_owned() };
        Self { memory: Err(missing.clone()), pids: Err(missing) }
    }

    /// Each hierarchy once: version 2 is one for all, and version 1 may have several controllers in one.
    fn branches(&self) -> Vec<&Branch> {
        let mut branches: Vec<&Branch> = Vec::new();
        for branch in self.memory.iter().chain(&self.pids) {
            if !branches.contains(&branch) {
                branches.push(branch);
            }
        }
        branches
    }
}

/// This deployment's directory in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Branch {
    version: Version,
    dir: PathBuf,
    /// What version 2 has to be told to hand down.
    hands_down: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Branch {
    fn word(&self) -> &'static str {
        match self.version {
            Version::V1 => "cgroup_v1",
            Version::V2 => "cgroup_v2",
        }
    }

    fn join_file(&self) -> &'static str {
        match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.procs",
        }
    }

    /// Makes the deployment's directory if it is not there.
    fn prepare(&self) -> io::Result<()> {
        make_dir(&self.dir)?;
        self.hands_down.iter().try_for_each(|controller| hand_down(&self.dir, controller))
    }

    fn make_group(&self, name: &str) -> io::Result<()> {
        match fs::create_dir(self.dir.join(name)) {
            // The instance that left last took the deployment's directory with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.prepare()?;
                fs::create_dir(self.dir.join(name))
            }
            made => made,
        }
    }

    /// The branch, if a group can be made in it and limited so.
    fn tried(self, instance: &str, settings: &[Setting]) -> Result<Self, String> {
        let name = format!("{instance}-probe");
        let dir = self.dir.join(&name);
        let made = self.make_group(&name);
        made.map_err(|error| format!("no directory can be made in `{}`: {error}", self.dir.display()))?;
        let limited = apply(&dir, settings);
        let removed = fs::remove_dir(&dir);
        match limited.and(removed) {
            Ok(()) => Ok(self),
            Err(error) => {
                leave(&self.dir);
                Err(format!("a group in `{}` takes no limit: {error}", self.dir.display()))
            }
        }
    }
}

/// One file of a group, and what is written into it.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    file: &'static str,
    value: String,
    need: Need,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// There is no limit without it.
    Must,
    /// Only kernels that count swap have it.
    IfThere,
}

/// Memory and nothing besides: what does not fit is not swapped out.
fn memory_settings(version: Version, bytes: u64) -> Vec<Setting> {
    let set = |file, value: &str, need| Setting { file, value: value.to_owned(), need };
    let limit = bytes.to_string();
    match version {
        // The sum with swap is never below the limit without, so it is lifted first and lowered last.
        Version::V1 => vec![
            set("memory.swappiness", "0", Need::IfThere),
            set("memory.memsw.limit_in_bytes", "-1", Need::IfThere),
            set("memory.limit_in_bytes", &limit, Need::Must),
            set("memory.memsw.limit_in_bytes", &limit, Need::IfThere),
        ],
        Version::V2 => vec![
            set("memory.max", &limit, Need::Must),
            set("memory.swap.max", "0", Need::IfThere),
            set("memory.oom.group", "1", Need::IfThere),
        ],
    }
}

fn pids_settings(most: u32) -> Vec<Setting> {
    vec![Setting { file: "pids.max", value: most.to_string(), need: Need::Must }]
}

fn apply(dir: &Path, settings: &[Setting]) -> io::Result<()> {
    settings.iter().try_for_each(|setting| match write(&dir.join(setting.file), &setting.value) {
        Err(error) if setting.need == Need::IfThere && error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    })
}

/// What this process was told about control groups.
#[derive(Debug)]
struct Machine {
    mounts: Vec<Mount>,
    own: Vec<OwnGroup>,
}

impl Machine {
    fn read() -> io::Result<Self> {
        let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo")?);
        Ok(Self { mounts, own: own_groups(&fs::read_to_string("/proc/self/cgroup")?) })
    }

    /// Where this process is in the hierarchy with this controller; none for version 2.
    fn own_dir(&self, controller: Option<&str>) -> Option<(&Mount, PathBuf)> {
        let has = |mine: &[String]| controller.map_or(mine.is_empty(), |word| mine.iter().any(|one| one == word));
        let own = self.own.iter().find(|own| has(&own.controllers))?;
        let is_it = |mount: &&Mount| match controller {
            Some(word) => mount.version == Version::V1 && mount.options.iter().any(|option| option == word),
            None => mount.version == Version::V2,
        };
        self.mounts.iter().filter(is_it).find_map(|mount| Some((mount, mount.locate(&own.path)?)))
    }

    fn find_v1(&self, controller: &str, label: &str) -> Result<Branch, String> {
        let (_, own) = self.own_dir(Some(controller)).ok_or_else(|| format!("`{controller}` is not mounted"))?;
        let dir = outside_of_ours(&own).join(directory_name(label));
        Ok(Branch { version: Version::V1, dir, hands_down: Vec::new() })
    }

    /// The nearest place upwards from this process whose children get a controller we want. A delegated group of our
    /// own comes first; a slice above it that hands its controllers down already will do.
    fn find_v2(&self, label: &str) -> Result<Branch, String> {
        let (mount, own) = self.own_dir(None).ok_or("it is not mounted")?;
        let own = outside_of_ours(&own);
        let mut nearest = None;
        for place in own.ancestors().take_while(|place| place.starts_with(&mount.point)) {
            match settle(place, place == own, label) {
                Ok(branch) => return Ok(branch),
                Err(why) => nearest = nearest.or(Some(why)),
            }
        }
        Err(nearest.unwrap_or_else(|| "there is no place for it".to_owned()))
    }
}

/// Makes the deployment's directory of version 2 in this place.
fn settle(place: &Path, is_own: bool, label: &str) -> Result<Branch, String> {
    let at = place.display();
    let words = |file: &str| read_words(&place.join(file)).map_err(|error| format!("`{at}/{file}`: {error}"));
    let offered = words("cgroup.controllers")?;
    let wanted = || ["memory", "pids"].into_iter().filter(|controller| offered.contains(*controller));
    if wanted().next().is_none() {
        return Err(format!("`{at}` has no controller for memory or processes"));
    }
    // Whoever moves a process must be able to write here: this is where the way from the old group to the new turns.
    let procs = OpenOptions::new().write(true).open(place.join("cgroup.procs"));
    procs.map_err(|error| format!("processes cannot be moved within `{at}`: {error}"))?;

    let dir = place.join(directory_name(label));
    let hands_down_now = words("cgroup.subtree_control")?;
    if is_own && !wanted().all(|controller| hands_down_now.contains(controller)) {
        wanted().try_for_each(|controller| hand_down_from_own(place, &dir, controller))?;
    }
    let handed = words("cgroup.subtree_control")?;
    let hands_down: Vec<_> = wanted().filter(|controller| handed.contains(*controller)).collect();
    if hands_down.is_empty() {
        return Err(format!("`{at}` hands no controller down"));
    }
    let branch = Branch { version: Version::V2, dir, hands_down };
    branch.prepare().map_err(|error| format!("no group can be made in `{at}`: {error}"))?;
    Ok(branch)
}

/// A group of version 2 with processes in it hands nothing down (except the root), so this process steps aside into a
/// group beneath. It does that only where the group is its own to shape.
fn hand_down_from_own(place: &Path, dir: &Path, controller: &str) -> Result<(), String> {
    let at = place.display();
    let failed = |error: io::Error| format!("`{at}` hands no controller down: {error}");
    match hand_down(place, controller) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
        done => return done.map_err(failed),
    }
    if !is_delegated(place) {
        return Err(format!("`{at}` is not delegated"));
    }
    let aside = dir.join(ASIDE);
    for _ in 0..8 {
        let inside = members(&[place.to_owned()]).map_err(failed)?;
        if let Some(stranger) = inside.iter().find(|pid| !is_kin(**pid)) {
            return Err(format!("`{at}` has other processes in it, such as {stranger}"));
        }
        if inside.is_empty() {
            break;
        }
        make_dir(dir).and_then(|()| make_dir(&aside)).map_err(failed)?;
        for pid in &inside {
            // One that has ended meanwhile needs no moving.
            let _ = write(&aside.join("cgroup.procs"), &pid.to_string());
        }
    }
    hand_down(place, controller).map_err(failed)
}

/// The group processes step aside into. It is no job's, and has no limits.
const ASIDE: &str = "main";

/// Is this group left to whoever is in it? systemd keeps every group to itself that it does not mark so.
fn is_delegated(group: &Path) -> bool {
    let is_marked = |name: &str| {
        let mut value = [0; 8];
        matches!(rustix::fs::getxattr(group, name, &mut value), Ok(1) if value[0] == b'1')
    };
    !Path::new("/run/systemd/system").exists() || is_marked("trusted.delegate") || is_marked("user.delegate")
}

const REMEDY: &str = "Run Toolgate as root, or in a group of its own: \
                      `systemd-run --user --scope -p Delegate=yes toolgate ...`.";

fn hand_down(dir: &Path, controller: &str) -> io::Result<()> {
    write(&dir.join("cgroup.subtree_control"), &format!("+{controller}"))
}

/// Is it this process, its parent (such as a container's init) or its child?
fn is_kin(pid: u32) -> bool {
    let own = std::process::id();
    let parent = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    // One that has ended meanwhile is nobody's.
    pid == own || pid == std::os::unix::process::parent_id() || parent().is_none_or(|parent| parent == own)
}

fn directory_name(label: &str) -> String {
    format!("toolgate-{label}")
}

/// The group this process was in before it, or whoever started it, stepped aside.
fn outside_of_ours(own: &Path) -> PathBuf {
    let is_deployment =
        |dir: &Path| dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("toolgate-"));
    own.ancestors().filter(|dir| is_deployment(dir)).last().and_then(Path::parent).unwrap_or(own).to_owned()
}

/// One mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    point: PathBuf,
    /// The group that is seen at the mount point.
    root: PathBuf,
    /// The controllers of version 1 are among them.
    options: Vec<String>,
}

impl Mount {
    /// Where a group is seen.
    fn locate(&self, group: &Path) -> Option<PathBuf> {
        let below = group.strip_prefix(&self.root).ok()?;
        // A group outside of our namespace is spelled with `..`, and is not seen anywhere.
        let is_seen = below.components().all(|part| matches!(part, Component::Normal(_)));
        is_seen.then(|| self.point.components().chain(below.components()).collect())
    }
}

/// The hierarchies in `/proc/self/mountinfo`.
fn mounts(mountinfo: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (here, there) = line.split_once(" - ")?;
        let mut here = here.split(' ').skip(3);
        let (root, point) = (unescape(here.next()?), unescape(here.next()?));
        let mut there = there.split(' ');
        let version = match there.next()? {
            "cgroup" => Version::V1,
            "cgroup2" => Version::V2,
            _ => return None,
        };
        let options = there.nth(1)?.split(',').map(str::to_owned).collect();
        Some(Mount { version, point: point.into(), root: root.into(), options })
    };
    mountinfo.lines().filter_map(mount).collect()
}

/// Blanks and such are written as octal numbers there.
fn unescape(field: &str) -> String {
    ["\\040 ", "\\011\t", "\\012\n", "\\134\\"].iter().fold(field.to_owned(), |text, pair| {
        let (escape, plain) = pair.split_at(4);
        text.replace(escape, plain)
    })
}

/// A group this process is in. Version 2 has no controllers in its name.
#[derive(Debug, PartialEq, Eq)]
struct OwnGroup {
    controllers: Vec<String>,
    path: PathBuf,
}

/// The groups in `/proc/self/cgroup`.
fn own_groups(text: &str) -> Vec<OwnGroup> {
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        Some(OwnGroup { controllers, path: parts.next()?.into() })
    };
    text.lines().filter_map(group).collect()
}

/// The number beside this word in a file with a word and a number on each line.
fn counter(text: &str, word: &str) -> io::Result<u64> {
    let number = |line: &str| line.split_once(' ').filter(|(name, _)| *name == word)?.1.trim().parse().ok();
    let missing = || io::Error::new(io::ErrorKind::InvalidData, format!("`{word}` is not counted"));
    text.lines().find_map(number).ok_or_else(missing)
}

/// What an open control file says now. None of those that are kept open says more than a page.
fn text(file: &File) -> io::Result<String> {
    let mut page = [0; 4096];
    let read = file.read_at(&mut page, 0)?;
    Ok(String::from_utf8_lossy(&page[..read]).into_owned())
}

/// The number in an open control file.
fn number(file: &File) -> io::Result<u64> {
    text(file)?.trim().parse().map_err(io::Error::other)
}

fn read_words(path: &Path) -> io::Result<BTreeSet<String>> {
    Ok(fs::read_to_string(path)?.split_whitespace().map(str::to_owned).collect())
}

/// Control files want their value in one piece.
fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

fn make_dir(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// The processes in these directories of one group.
fn members(dirs: &[PathBuf]) -> io::Result<BTreeSet<u32>> {
    let mut pids = BTreeSet::new();
    for dir in dirs {
        let listed = fs::read_to_string(dir.join("cgroup.procs"))?;
        pids.extend(listed.lines().filter_map(|line| line.parse::<u32>().ok()));
    }
    Ok(pids)
}

/// Ends every process in these directories of one group.
fn kill(dirs: &[PathBuf]) -> io::Result<()> {
    // What may not start anything cannot outrun its list.
    let limits: Vec<(PathBuf, String)> = dirs
        .iter()
        .map(|dir| dir.join("pids.max"))
        .filter_map(|file| fs::read_to_string(&file).ok().map(|limit| (file, limit)))
        .collect();
    limits.iter().try_for_each(|(file, _)| write(file, "0"))?;
    let killed = kill_all(dirs);
    limits.iter().try_for_each(|(file, limit)| write(file, limit.trim()))?;
    killed
}

fn kill_all(dirs: &[PathBuf]) -> io::Result<()> {
    let until = Instant::now() + DEATH;
    let mut pause = Duration::from_micros(100);
    loop {
        for dir in dirs {
            match write(&dir.join("cgroup.kill"), "1") {
                // Only version 2 has it, since Linux 5.14; the signals below do the same.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                killed => killed?,
            }
        }
        if signal_all(dirs)? == 0 {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "killed processes are still there"));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Sends SIGKILL to every process in the group and says how many there are.
///
/// A number may belong to somebody else by the time it is used, so a process is held first, and gets the signal only
/// if the group lists its number while it is held.
fn signal_all(dirs: &[PathBuf]) -> io::Result<usize> {
    let listed: Vec<u32> = members(dirs)?.into_iter().collect();
    for some in listed.chunks(64) {
        let held: Vec<(u32, OwnedFd)> = some.iter().filter_map(|pid| Some((*pid, hold(*pid)?))).collect();
        let still = members(dirs)?;
        for (pid, process) in held.iter().filter(|(pid, _)| still.contains(pid)) {
            match pidfd_send_signal(process, Signal::KILL) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => tracing::warn!(pid, %errno, "a process in a control group cannot be killed"),
            }
        }
    }
    Ok(listed.len())
}

fn hold(pid: u32) -> Option<OwnedFd> {
    // A group that holds this process is not a job's, whatever it is called.
    if pid == std::process::id() {
        return None;
    }
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// How often an empty group is tried to be removed before it is left for later: 200 ms.
const PATIENT: usize = 40;

/// Removes the directories of an empty group, trying again this often. What is gone already is fine.
fn remove(dirs: &[PathBuf], again: usize) -> io::Result<()> {
    dirs.iter().try_for_each(|dir| {
        let mut tries = 0;
        loop {
            match fs::remove_dir(dir) {
                // The last process has left the list but not yet the group.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries < again => {
                    tries += 1;
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                removed => return removed,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    const HYBRID: &str = "\
23 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /box /sys/fs/cgroup/memory\\040one rw,relatime shared:10 master:1 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";
    const OWN: &str = "\
4:memory:/box/a:b
2:cpu,cpuacct:/
1:name=systemd:/user.slice
0::/user.slice/x.scope
";

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn machine() -> Machine {
        Machine { mounts: mounts(HYBRID), own: own_groups(OWN) }
    }

    #[test]
    fn hierarchies_are_read_from_mountinfo() {
        let mount = |version, point: &str, root: &str, options: &[&str]| Mount {
            version,
            point: point.into(),
            root: root.into(),
            options: words(options),
        };
        let expected = vec![
            mount(Version::V1, "/sys/fs/cgroup/cpu,cpuacct", "/", &["rw", "cpu", "cpuacct"]),
            mount(Version::V1, "/sys/fs/cgroup/memory one", "/box", &["rw", "memory"]),
            mount(Version::V2, "/sys/fs/cgroup/unified", "/", &["rw", "nsdelegate"]),
        ];
        assert_eq!(mounts(HYBRID), expected);
        assert_eq!(mounts("garbage\n\n1 2 3 - cgroup\n"), []);
    }

    #[test]
    fn own_groups_are_read() {
        let group = |controllers: &[&str], path: &str| OwnGroup { controllers: words(controllers), path: path.into() };
        let expected = vec![
            group(&["memory"], "/box/a:b"),
            group(&["cpu", "cpuacct"], "/"),
            group(&["name=systemd"], "/user.slice"),
            group(&[], "/user.slice/x.scope"),
        ];
        assert_eq!(own_groups(OWN), expected);
    }

    #[test]
    fn the_own_group_is_found_where_it_is_mounted() {
        let place = |controller| machine().own_dir(controller).map(|(_, dir)| dir);
        assert_eq!(place(Some("memory")), Some(PathBuf::from("/sys/fs/cgroup/memory one/a:b")));
        assert_eq!(place(Some("cpuacct")), Some(PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(place(Some("pids")), None);
        assert_eq!(place(None), Some(PathBuf::from("/sys/fs/cgroup/unified/user.slice/x.scope")));
    }

    #[test]
    fn a_group_outside_of_the_mount_is_not_found() {
        let mount = Mount { version: Version::V2, point: "/c".into(), root: "/box".into(), options: Vec::new() };
        let check = |group: &str, expected: Option<&str>| {
            assert_eq!(mount.locate(Path::new(group)), expected.map(PathBuf::from), "{group}");
        };
        check("/box", Some("/c"));
        check("/box/in", Some("/c/in"));
        check("/boxer", None);
        check("/", None);
        check("/box/../../up", None);
    }

    #[test]
    fn a_group_one_stepped_aside_into_is_not_nested() {
        let check = |own: &str, expected: &str| assert_eq!(outside_of_ours(Path::new(own)), Path::new(expected));
        check("/c/app.slice", "/c/app.slice");
        check("/c/app.slice/toolgate-x/main", "/c/app.slice");
        check("/c/toolgate-y/main/toolgate-x/main", "/c");
    }

    #[test]
    fn counters_are_read_by_their_word() {
        let check = |text: &str, word: &str, expected: Option<u64>| {
            assert_eq!(counter(text, word).ok(), expected, "{word} in {text:?}");
        };
        let oom_control = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        check(oom_control, "oom_kill", Some(3));
        let events = "low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\noom_group_kill 1\n";
        check(events, "oom_kill", Some(1));
        check("max 5\n", "max", Some(5));
        check("usage_usec 1500\nuser_usec 1000\n", "usage_usec", Some(1500));
        check("max\nmax x\nmaximum 1\n", "max", None);
    }

    #[test]
    fn limits_are_written_in_an_order_the_kernel_takes() {
        let spelled = |settings: Vec<Setting>| -> Vec<String> {
            settings.iter().map(|one| format!("{}={} {:?}", one.file, one.value, one.need)).collect()
        };
        let v1 = [
            "memory.swappiness=0 IfThere",
            "memory.memsw.limit_in_bytes=-1 IfThere",
            "memory.limit_in_bytes=4096 Must",
            "memory.memsw.limit_in_bytes=4096 IfThere",
        ];
        assert_eq!(spelled(memory_settings(Version::V1, 4096)), v1);
        let v2 = ["memory.max=4096 Must", "memory.swap.max=0 IfThere", "memory.oom.group=1 IfThere"];
        assert_eq!(spelled(memory_settings(Version::V2, 4096)), v2);
        assert_eq!(spelled(pids_settings(7)), ["pids.max=7 Must"]);
    }

    #[test]
    fn a_limit_that_must_hold_is_not_skipped() {
        let dir = tempfile::tempdir().unwrap();
        assert!(apply(dir.path(), &memory_settings(Version::V2, 1)).is_err());
        fs::write(dir.path().join("memory.max"), "").unwrap();
        apply(dir.path(), &memory_settings(Version::V2, 1)).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("memory.max")).unwrap(), "1");
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for (label, instance) in [("../x", "i"), ("x", "i/../.."), ("", "i"), ("x", ""), ("a b", "i"), ("x", "i-1")] {
            let cgroups = Cgroups::open(label, instance);
            assert!(cgroups.memory_by().is_err(), "{label} {instance}");
            assert_eq!(cgroups.directories(), Vec::<PathBuf>::new());
        }
    }

    #[test]
    fn without_hierarchies_a_lease_says_that_nothing_is_limited() {
        let nothing = Machine { mounts: Vec::new(), own: Vec::new() };
        let cgroups = Cgroups::on(Layout::find(&nothing, "x", "i"), "i");
        let missing = cgroups.memory_by().unwrap_err();
        assert_eq!(
            missing.why,
            "by control groups of version 2: it is not mounted; of version 1: `memory` is not mounted"
        );
        assert_eq!(missing.remedy, REMEDY);
        let lease = cgroups.take(1, 1).unwrap();
        assert_eq!((lease.memory_by(), lease.pids_by(), lease.procs().len()), (None, None, 0));
        assert_eq!(lease.looks(), Events::default());
        assert!(is_empty(&lease));
        lease.kill().unwrap();
    }

    #[test]
    fn only_directories_of_the_own_deployment_are_swept() {
        let elsewhere = tempfile::tempdir().unwrap();
        let trap = elsewhere.path().join("toolgate-mine");
        fs::create_dir_all(trap.join("abc-0")).unwrap();
        let check = |dir: &Path, why: &str| {
            let (removed, problems) = sweep(&[dir.to_owned()], "mine", "abc");
            assert_eq!((removed, problems), (0, vec![format!("`{}` {why}", dir.display())]));
        };
        check(&trap, "is not in a hierarchy of control groups");
        check(Path::new("/sys/fs/cgroup/memory/toolgate-other"), "is not a control group of this deployment");
        check(Path::new("/sys/fs/cgroup/x/../toolgate-mine"), "is not a control group of this deployment");
        check(Path::new("toolgate-mine"), "is not a control group of this deployment");
        check(Path::new("/etc"), "is not a control group of this deployment");
        assert!(trap.join("abc-0").is_dir());
    }

    /// The groups of this test alone, or nothing where this machine has none to give.
    fn real(label: &str) -> Option<Cgroups> {
        let cgroups = Cgroups::open(&format!("test{label}{}", std::process::id()), "abc");
        match (cgroups.memory_by(), cgroups.pids_by()) {
            (Ok(_), Ok(_)) => Some(cgroups),
            (memory, pids) => {
                println!("SKIPPED: control groups cannot be tried here: memory {memory:?}, pids {pids:?}");
                None
            }
        }
    }

    /// A shell that waits for a word, is put into the group, and then runs the script.
    fn run_in(lease: &Lease, script: &str) -> Child {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("read -r word; {script}")]);
        let mut child = shell.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        for mut file in lease.procs() {
            file.write_all(child.id().to_string().as_bytes()).unwrap();
        }
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        child
    }

    fn is_empty(lease: &Lease) -> bool {
        lease.group.as_ref().unwrap().files.is_empty().unwrap()
    }

    fn dirs_of(cgroups: &Cgroups) -> Vec<PathBuf> {
        let dirs = cgroups.directories();
        assert!(!dirs.is_empty() && dirs.iter().all(|dir| dir.is_dir()), "{dirs:?}");
        dirs
    }

    fn assert_gone(dirs: &[PathBuf]) {
        let left: Vec<_> = dirs.iter().filter(|dir| dir.exists()).collect();
        assert_eq!(left, Vec::<&PathBuf>::new());
    }

    #[test]
    fn memory_is_limited_and_the_kill_is_counted() {
        let Some(cgroups) = real("memory") else { return };
        let dirs = dirs_of(&cgroups);
        let lease = cgroups.take(32 << 20, 64).unwrap();
        let status = run_in(&lease, "head -c 200m /dev/zero | tail").wait().unwrap();
        assert!(!status.success(), "{status}");
        let events = lease.looks();
        assert!(events.oom_kills >= 1, "{events:?}");
        let peak = events.memory_peak.unwrap();
        assert!(peak > 16 << 20 && peak <= 32 << 20, "{events:?}");
        drop(lease);
        drop(cgroups);
        assert_gone(&dirs);
    }

    #[test]
    fn processes_are_limited_and_the_refusal_is_counted() {
        let Some(cgroups) = real("pids") else { return };
        let dirs = dirs_of(&cgroups);
        let lease = cgroups.take(256 << 20, 4).unwrap();
        let mut child = run_in(&lease, "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait");
        while lease.looks().pids_denied == 0 {
            assert!(child.try_wait().unwrap().is_none_or(|status| !status.success()), "eight were started");
        }
        lease.kill().unwrap();
        child.wait().unwrap();
        drop(lease);
        drop(cgroups);
        assert_gone(&dirs);
    }

    #[test]
    fn the_next_job_starts_with_nothing_counted() {
        let Some(cgroups) = real("again") else { return };
        let first = cgroups.take(32 << 20, 3).unwrap();
        let names = first.dirs();
        let script = "head -c 12m /dev/zero | tail -c 12m > /dev/null; sleep 60 & sleep 60 & sleep 60 & wait";
        let mut child = run_in(&first, script);
        while first.looks().pids_denied == 0 {
            assert!(child.try_wait().unwrap().is_none_or(|status| !status.success()), "three were started");
        }
        assert!(first.looks().memory_peak.unwrap() > RESIDUE);
        first.kill().unwrap();
        child.wait().unwrap();
        drop(first);

        let second = cgroups.take(64 << 20, 5).unwrap();
        if second.memory_by() == Some("cgroup_v1") {
            assert_eq!(second.dirs(), names, "the group is used again");
        }
        let events = second.looks();
        assert_eq!((events.oom_kills, events.pids_denied), (0, 0));
        assert!(events.memory_peak.unwrap() <= RESIDUE, "{events:?}");
    }

    #[test]
    fn a_group_that_still_holds_memory_is_not_used_again() {
        let Some(cgroups) = real("residue") else { return };
        // Written into memory that outlives whoever wrote it, as a room's private directory does.
        let kept = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        let lease = cgroups.take(64 << 20, 64).unwrap();
        let names = lease.dirs();
        let script = format!("head -c 16m /dev/zero > {}", kept.path().display());
        assert!(run_in(&lease, &script).wait().unwrap().success());
        drop(lease);
        assert_gone(&names);
        assert_ne!(cgroups.take(64 << 20, 64).unwrap().dirs(), names);
    }

    #[test]
    fn limits_can_be_lowered_and_raised_again() {
        let Some(cgroups) = real("limits") else { return };
        for memory in [64 << 20, 8 << 20, 512 << 20] {
            let lease = cgroups.take(memory, 9).unwrap();
            let (Ok(branch), Ok(pids)) = (&cgroups.shared.layout.memory, &cgroups.shared.layout.pids) else { panic!() };
            let file = match branch.version {
                Version::V1 => "memory.limit_in_bytes",
                Version::V2 => "memory.max",
            };
            let name = &lease.group.as_ref().unwrap().name;
            let said = |dir: &Path, file: &str| number(&File::open(dir.join(name).join(file)).unwrap()).unwrap();
            assert_eq!((said(&branch.dir, file), said(&pids.dir, "pids.max")), (memory, 9));
        }
    }

    #[test]
    fn kill_ends_what_left_its_session_and_what_keeps_forking() {
        let Some(cgroups) = real("kill") else { return };
        let dirs = dirs_of(&cgroups);
        let lease = cgroups.take(256 << 20, 64).unwrap();
        assert!(is_empty(&lease));
        let script = "trap '' TERM HUP INT; setsid sleep 60 & \
                      spin() { while :; do (sleep 0.01) & sleep 0.001; done; }; spin & spin & wait";
        let mut child = run_in(&lease, script);
        while members(&lease.dirs()).unwrap().len() < 5 {
            assert!(child.try_wait().unwrap().is_none());
        }
        assert!(!is_empty(&lease));
        lease.kill().unwrap();
        assert!(is_empty(&lease));
        child.wait().unwrap();
        drop(lease);
        drop(cgroups);
        assert_gone(&dirs);
    }

    #[test]
    fn kill_does_without_a_limit_on_processes() {
        let Some(cgroups) = real("nopids") else { return };
        let Layout { memory, pids } = Layout::probe(&format!("testbare{}", std::process::id()), "abc");
        drop(cgroups);
        let branch = pids.unwrap();
        if memory.as_ref().is_ok_and(|memory| *memory != branch) {
            fs::remove_dir(&branch.dir).unwrap();
        }
        let missing = Missing { why: String::new(), remedy: String::new() };
        let cgroups = Cgroups::on(Layout { memory, pids: Err(missing) }, "abc");
        let lease = cgroups.take(256 << 20, 64).unwrap();
        let mut child = run_in(&lease, "sleep 600 & sleep 600 & wait");
        while members(&lease.dirs()).unwrap().len() < 3 {
            assert!(child.try_wait().unwrap().is_none());
        }
        lease.kill().unwrap();
        assert!(is_empty(&lease));
        child.wait().unwrap();
    }

    #[test]
    fn nothing_can_be_started_while_everything_is_killed() {
        // Files that look like a group's, whose list does not change by itself: the killing goes on until it does.
        let group = tempfile::tempdir().unwrap();
        let at = |name: &str| group.path().join(name);
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        fs::write(at("pids.max"), "7\n").unwrap();
        fs::write(at("cgroup.procs"), format!("{}\n", child.id())).unwrap();
        thread::scope(|scope| {
            let killing = scope.spawn(|| kill(&[group.path().to_owned()]));
            assert!(!child.wait().unwrap().success());
            assert_eq!(fs::read_to_string(at("pids.max")).unwrap().trim(), "0");
            fs::write(at("cgroup.procs"), "").unwrap();
            killing.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_to_string(at("pids.max")).unwrap().trim(), "7");
    }

    #[test]
    fn who_joins_and_who_leaves_is_seen_at_once() {
        let Some(cgroups) = real("seen") else { return };
        let lease = cgroups.take(64 << 20, 8).unwrap();
        assert!(is_empty(&lease));
        let mut child = run_in(&lease, "exec sleep 60");
        assert!(!is_empty(&lease));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_empty(&lease));
    }

    #[test]
    fn a_group_that_was_let_go_is_used_again_once_it_is_left() {
        let Some(cgroups) = real("letgo") else { return };
        let first = cgroups.take(64 << 20, 8).unwrap();
        let names = first.dirs();
        let mut child = run_in(&first, "exec sleep 60");
        first.let_go();
        let second = cgroups.take(64 << 20, 8).unwrap();
        assert_ne!(second.dirs(), names, "somebody is in it");
        child.kill().unwrap();
        child.wait().unwrap();
        while !members(&names).unwrap().is_empty() {}
        let third = cgroups.take(64 << 20, 8).unwrap();
        if third.memory_by() == Some("cgroup_v1") {
            assert_eq!(third.dirs(), names);
        }
    }

    #[test]
    fn the_next_job_finds_a_group_that_is_ready() {
        let Some(cgroups) = real("ahead") else { return };
        let first = cgroups.take(64 << 20, 8).unwrap();
        let idle = || -> Vec<_> {
            let pool = cgroups.shared.pool();
            pool.idle.iter().map(|group| (group.name.clone(), group.limits)).collect()
        };
        assert_eq!(idle(), []);
        cgroups.make_ahead(64 << 20, 8);
        let made = idle();
        assert!(matches!(made.as_slice(), [(_, Some((67_108_864, 8)))]), "{made:?}");
        cgroups.make_ahead(64 << 20, 8);
        assert_eq!(idle(), made, "one is enough");
        let second = cgroups.take(64 << 20, 8).unwrap();
        assert_eq!(second.group.as_ref().unwrap().name, made[0].0);
        drop(first);
    }

    #[test]
    fn who_does_not_leave_is_killed_in_the_end() {
        let Some(cgroups) = real("stays") else { return };
        let dirs = dirs_of(&cgroups);
        let stays = |cgroups: &Cgroups| {
            let lease = cgroups.take(64 << 20, 8).unwrap();
            let child = run_in(&lease, "sleep 60");
            lease.let_go();
            child
        };
        let mut late = stays(&cgroups);
        cgroups.shared.tidy();
        assert!(late.try_wait().unwrap().is_none(), "it has time to leave");
        cgroups.shared.pool().leaving[0].0 -= 2 * DEATH;
        cgroups.shared.tidy();
        assert!(!late.wait().unwrap().success());

        let mut there_at_the_end = stays(&cgroups);
        drop(cgroups);
        assert!(!there_at_the_end.wait().unwrap().success());
        assert_gone(&dirs);
    }

    #[test]
    fn a_dropped_lease_ends_what_is_inside() {
        let Some(cgroups) = real("drop") else { return };
        let dirs = dirs_of(&cgroups);
        let lease = cgroups.take(256 << 20, 64).unwrap();
        let mut child = run_in(&lease, "sleep 60");
        drop(cgroups);
        drop(lease);
        assert!(!child.wait().unwrap().success());
        assert_gone(&dirs);
    }

    #[test]
    fn many_leases_leave_a_bounded_pool() {
        let Some(cgroups) = real("many") else { return };
        let directories = cgroups.directories();
        let left = || directories.iter().map(|dir| children(dir).len()).sum::<usize>();
        for give_back in [drop::<Lease>, Lease::let_go] {
            let leases: Vec<Lease> = (0..POOL + 4).map(|_| cgroups.take(64 << 20, 8).unwrap()).collect();
            let names: BTreeSet<PathBuf> = leases.iter().flat_map(Lease::dirs).collect();
            assert_eq!(names.len(), (POOL + 4) * directories.len(), "no two share a group");
            leases.into_iter().for_each(give_back);
            assert!(left() <= POOL * directories.len(), "{}", left());
        }
    }

    #[test]
    fn a_dead_instance_is_swept_and_a_living_one_is_not() {
        let Some(cgroups) = real("sweep") else { return };
        let label = format!("testsweep{}", std::process::id());
        let dirs = dirs_of(&cgroups);
        let dead = Cgroups::on(Layout::probe(&label, "dead"), "dead");
        let lease = dead.take(64 << 20, 8).unwrap();
        let mut child = run_in(&lease, "sleep 60");
        // The instance dies without cleaning up.
        std::mem::forget(lease);
        std::mem::forget(dead);

        let (removed, problems) = sweep(&dirs, &label, "dead");
        assert_eq!((removed, problems), (dirs.len(), Vec::new()));
        assert!(!child.wait().unwrap().success());
        let left: BTreeSet<String> = dirs.iter().flat_map(|dir| children(dir)).collect();
        assert_eq!(left, BTreeSet::from(["abc-0".to_owned()]));
        assert_eq!(sweep(&dirs, &label, "dead"), (0, Vec::new()));
        drop(cgroups);
        assert_eq!(sweep(&dirs, &label, "dead"), (0, Vec::new()));
    }
}
