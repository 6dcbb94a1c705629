//! What process rooms are like: the block `sandboxing.subprocess`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;
use toolgate_sandbox::{Lifecycle, RoomLimits, Strategy, Tier, TierChoice, Wall};

use super::{
    check::Check,
    file::{LifecycleFile, SubprocessFile},
    findings::{Findings, Said, Spot},
    load::At,
    sandboxing::{MOST_SECONDS, size},
    tighten::refuse,
};

/// What rooms are like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoomSettings {
    /// Who shares a room, and how long it lives. It decides nothing about what a program can do.
    #[serde(skip)]
    pub lifecycle: Lifecycle,
    /// How much of the machine a room may use.
    pub limits: RoomLimits,
    /// Which kinds of room will do.
    pub tier: TierChoice,
    /// Walls the operator does without where the machine has none.
    pub accepted_gaps: BTreeSet<Wall>,
    /// Directories put before the fixed ones in `PATH`; they are seen in the room.
    pub path_prefixes: Vec<PathBuf>,
    /// Further directories that are seen in the room, read-only.
    pub visible: Vec<PathBuf>,
    /// The longest a program may run, whatever the call asks for; none leaves it to the tools.
    pub timeout: Option<Duration>,
}

impl Default for RoomSettings {
    fn default() -> Self {
        Self {
            lifecycle: Lifecycle::default(),
            limits: RoomLimits::default(),
            tier: TierChoice::Best,
            accepted_gaps: BTreeSet::new(),
            path_prefixes: Vec::new(),
            visible: Vec::new(),
            timeout: None,
        }
    }
}

impl RoomSettings {
    /// The directories rooms see besides the system's own, none of them inside another.
    pub fn shown(&self) -> Vec<PathBuf> {
        let named = self.visible.iter().chain(&self.path_prefixes);
        let mut shown: Vec<PathBuf> = named.filter(|dir| !is_system(dir)).cloned().collect();
        // A directory sorts before what is inside it.
        shown.sort();
        shown.dedup_by(|inner, outer| inner.starts_with(outer));
        shown
    }
}

/// Directories of the system that every room has.
const SYSTEM: [&str; 9] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// What a room has of its own, or nobody outside the machine's own services should see.
const NEVER: [&str; 9] =
    ["/dev", "/etc/kubernetes", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers.d", "/proc", "/run", "/sys", "/var/run"];

/// What holds far more than the programs somebody had in mind. Directories inside may be named.
const TOO_WIDE: [&str; 8] = ["/", "/boot", "/etc", "/home", "/root", "/tmp", "/var", "/var/tmp"];

/// Where people keep keys. A directory with one of these in it is somebody's home.
const KEYS: [&str; 8] =
    [".aws", ".azure", ".docker", ".gnupg", ".kube", ".local/share/keyrings", ".password-store", ".ssh"];

/// The block of one file.
#[derive(Debug, Default)]
pub(super) struct RoomsLayer {
    timeout: Option<Said<Duration>>,
    memory: Option<Said<u64>>,
    pids: Option<Said<u32>>,
    cpu: Option<Said<Duration>>,
    disk: Option<Said<u64>>,
    scratch: Option<Said<u64>>,
    open_files: Option<Said<u64>>,
    visible: Option<Vec<Said<PathBuf>>>,
    path_prefixes: Option<Vec<Said<PathBuf>>>,
    tier: Option<Said<TierChoice>>,
    accepted_gaps: Option<Vec<Said<Wall>>>,
    lifecycle: LifecycleLayer,
}

#[derive(Debug, Default)]
pub(super) struct LifecycleLayer {
    strategy: Option<Said<Strategy>>,
    grace: Option<Said<Duration>>,
    idle: Option<Said<Duration>>,
    max_rooms: Option<Said<usize>>,
}

/// Whose word it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// An operator's: it replaces what was said before.
    Trusted,
    /// Nobody's yet: it may only tighten.
    Untrusted,
}

// ---- one file ----

/// Checks the block.
pub(super) fn check(cx: &mut Check<'_>, block: &SubprocessFile) -> RoomsLayer {
    let remedy = "Remove the line, or write `true`; directories to be seen are listed under `visible`.";
    only_true(cx, "workspace_only", block.workspace_only.as_ref(), "programs see the workspace only", remedy);
    let remedy = "Remove the line, or write `true`; directories are added with `extra_safe_path_prefixes`.";
    only_true(cx, "restricted_path", block.restricted_path.as_ref(), "`PATH` in a room is fixed", remedy);
    RoomsLayer {
        timeout: cx.whole("timeout_seconds", block.timeout_seconds.as_ref(), 1..=MOST_SECONDS).map(seconds),
        memory: size(cx, "memory_limit", block.memory_limit.as_ref(), 16 << 20, "`512m`"),
        pids: cx.whole("pids_limit", block.pids_limit.as_ref(), 8..=32_768).map(small),
        cpu: cx.whole("cpu_seconds", block.cpu_seconds.as_ref(), 1..=86_400).map(seconds),
        disk: size(cx, "disk_limit", block.disk_limit.as_ref(), 1 << 20, "`1g`"),
        scratch: size(cx, "tmpfs_size", block.tmpfs_size.as_ref(), 1 << 20, "`64m`"),
        open_files: cx.whole("open_files", block.open_files.as_ref(), 32..=1_048_576),
        visible: block.visible.as_deref().map(|dirs| directories(cx, dirs, Use::Seen)),
        path_prefixes: block.extra_safe_path_prefixes.as_deref().map(|dirs| directories(cx, dirs, Use::Programs)),
        tier: block.tier.as_ref().and_then(|word| tier(cx, word)),
        accepted_gaps: block.accepted_gaps.as_deref().map(|gaps| gaps.iter().filter_map(|gap| wall(cx, gap)).collect()),
        lifecycle: block.lifecycle.as_ref().map(|block| check_lifecycle(cx, block)).unwrap_or_default(),
    }
}

/// Checks how rooms live; the block is the same for every backend.
pub(super) fn check_lifecycle(cx: &mut Check<'_>, block: &LifecycleFile) -> LifecycleLayer {
    LifecycleLayer {
        strategy: block.strategy.as_ref().and_then(|word| strategy(cx, word)),
        grace: cx.whole("grace_seconds", block.grace_seconds.as_ref(), 0..=3_600).map(seconds),
        idle: cx.whole("max_idle_seconds", block.max_idle_seconds.as_ref(), 1..=86_400).map(seconds),
        max_rooms: cx.whole("max_rooms", block.max_rooms.as_ref(), 1..=1_000).map(whole),
    }
}

pub(super) fn whole(said: Said<u64>) -> Said<usize> {
    said.map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

pub(super) fn seconds(said: Said<u64>) -> Said<Duration> {
    said.map(Duration::from_secs)
}

pub(super) fn small(said: Said<u64>) -> Said<u32> {
    said.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// A promise rooms always keep: it may be written down, and not taken back.
fn only_true(cx: &mut Check<'_>, key: &str, said: Option<&At<bool>>, why: &str, remedy: &str) {
    if let Some(said) = said.filter(|said| !said.value) {
        cx.error(said.mark, format!("`{key}: false` cannot be had: {why}"), remedy);
    }
}

fn tier(cx: &mut Check<'_>, word: &At<String>) -> Option<Said<TierChoice>> {
    const WORDS: [(&str, TierChoice); 3] = [
        ("best", TierChoice::Best),
        ("namespaces", TierChoice::Only(Tier::Namespaces)),
        ("landlock", TierChoice::Only(Tier::Landlock)),
    ];
    one_of(cx, "value for `tier`:", word, &WORDS)
}

fn strategy(cx: &mut Check<'_>, word: &At<String>) -> Option<Said<Strategy>> {
    const WORDS: [(&str, Strategy); 3] =
        [("per-agent", Strategy::PerAgent), ("per-task", Strategy::PerTask), ("per-call", Strategy::PerCall)];
    one_of(cx, "value for `strategy`:", word, &WORDS)
}

fn wall(cx: &mut Check<'_>, word: &At<String>) -> Option<Said<Wall>> {
    one_of(cx, "wall", word, &Wall::ALL.map(|wall| (wall.as_str(), wall)))
}

pub(super) fn one_of<T: Copy>(
    cx: &mut Check<'_>,
    what: &str,
    word: &At<String>,
    known: &[(&str, T)],
) -> Option<Said<T>> {
    let found = known.iter().find(|(name, _)| *name == word.value);
    if found.is_none() {
        cx.unknown(what, word, known.iter().map(|(name, _)| *name));
    }
    found.map(|(_, value)| Said { value: *value, spot: cx.spot(word.mark) })
}

// ---- directories ----

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Seen,
    Programs,
}

/// Directories a room is to see, to read.
pub(super) fn seen(cx: &mut Check<'_>, dirs: &[At<String>]) -> Vec<Said<PathBuf>> {
    directories(cx, dirs, Use::Seen)
}

fn directories(cx: &mut Check<'_>, dirs: &[At<String>], used: Use) -> Vec<Said<PathBuf>> {
    dirs.iter().filter_map(|dir| directory(cx, dir, used)).collect()
}

fn directory(cx: &mut Check<'_>, dir: &At<String>, used: Use) -> Option<Said<PathBuf>> {
    let whole = if dir.value == "/" { "/" } else { dir.value.trim_end_matches('/') };
    let parts = whole.strip_prefix('/').map(|rest| rest.split('/'));
    let is_plain = whole == "/" || parts.is_some_and(|mut parts| parts.all(|part| !matches!(part, "" | "." | "..")));
    let (fits, what, remedy) = match used {
        Use::Seen => (is_plain, "is not a directory a room could see", "Write an absolute one, such as `/opt/tools`."),
        Use::Programs => (
            is_plain && whole != "/" && !whole.contains(':'),
            "is not a directory programs could be in",
            "Write an absolute directory, such as `/opt/tools/bin`.",
        ),
    };
    if !fits || whole.contains(char::is_control) {
        cx.error(dir.mark, format!("`{}` {what}", dir.value), remedy);
        return None;
    }
    let path = PathBuf::from(whole);
    if let Some(why) = not_to_be_seen(&path) {
        let message = format!("`{whole}` is not for a room to see: {why}");
        cx.error(dir.mark, message, "Name a directory that holds nothing but what programs need.");
        return None;
    }
    Some(Said { value: path, spot: cx.spot(dir.mark) })
}

/// Why a directory would show secrets, going by its name.
fn not_to_be_seen(dir: &Path) -> Option<String> {
    if let Some(known) = NEVER.iter().find(|known| dir.starts_with(known)) {
        return Some(format!("a room has its own `{known}`, or none"));
    }
    if TOO_WIDE.iter().any(|known| dir == Path::new(known)) || dir.parent() == Some(Path::new("/home")) {
        return Some("it holds everything, secrets included".into());
    }
    let inside = |known: &&&str| dir.ancestors().any(|outer| outer.ends_with(known));
    KEYS.iter().find(inside).map(|known| format!("keys are kept in `{known}`"))
}

fn is_system(dir: &Path) -> bool {
    SYSTEM.iter().any(|known| dir.starts_with(known))
}

/// Looks at the directories rooms are to see. One that is not there is left out, with a note.
pub(super) fn open(
    settings: &mut RoomSettings,
    said: &[Said<PathBuf>],
    data_dir: &Path,
    workspaces: &[PathBuf],
    findings: &mut Findings,
) {
    let mut missing = Vec::new();
    for Said { value: dir, spot } in said {
        let is_prefix = settings.path_prefixes.contains(dir);
        if !is_prefix && !settings.visible.contains(dir) {
            continue;
        }
        if let Some(workspace) = workspaces.iter().find(|workspace| is_prefix && dir.starts_with(workspace)) {
            let message =
                format!("`{}` is in the workspace `{}`, where agents write", dir.display(), workspace.display());
            findings.error(*spot, message, "Keep programs that are found by name outside of every workspace.");
            continue;
        }
        match dir.canonicalize() {
            Ok(_) if is_system(dir) => {}
            Ok(real) => look_at(dir, &real, *spot, data_dir, findings),
            Err(error) => {
                findings.note(*spot, format!("`{}` cannot be opened ({error}): rooms do without it", dir.display()));
                missing.push(dir);
            }
        }
    }
    settings.visible.retain(|dir| !missing.contains(&dir));
    settings.path_prefixes.retain(|dir| !missing.contains(&dir));
}

pub(super) fn look_at(dir: &Path, real: &Path, spot: Spot, data_dir: &Path, findings: &mut Findings) {
    if dir != real {
        // Rooms are opened later, and a link may lead elsewhere by then.
        let message = format!("`{}` leads over a link to `{}`", dir.display(), real.display());
        findings.error(spot, message, format!("Write `{}`.", real.display()));
    } else if !real.is_dir() {
        findings.error(spot, format!("`{}` is not a directory", dir.display()), "Write the directory it is in.");
    } else if data_dir.starts_with(real) || real.starts_with(data_dir) {
        let message = format!("`{}` would show the data directory `{}`", dir.display(), data_dir.display());
        findings.error(spot, message, "Name a directory that has nothing to do with it.");
    } else if let Some(keys) = KEYS.iter().find(|keys| real.join(keys).symlink_metadata().is_ok()) {
        let message = format!("`{}` would show the keys in `{keys}`", dir.display());
        findings.error(spot, message, "Name the directories inside it that programs need.");
    }
}

// ---- one file on top of another ----

impl RoomsLayer {
    /// The directories it names, for the look at the world.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Said<PathBuf>> {
        self.visible.iter().chain(&self.path_prefixes).flatten()
    }

    /// Puts this block over what holds, as far as the voice may. Of lists the later one stands.
    pub(super) fn apply(self, held: &mut RoomSettings, voice: Voice, findings: &mut Findings) {
        let mut timeout = held.timeout.unwrap_or(Duration::MAX);
        let mut lower = Lower { voice, findings };
        lower.set("timeout_seconds", &mut timeout, self.timeout);
        lower.set("memory_limit", &mut held.limits.memory, self.memory);
        lower.set("pids_limit", &mut held.limits.pids, self.pids);
        lower.set("cpu_seconds", &mut held.limits.cpu, self.cpu);
        lower.set("disk_limit", &mut held.limits.disk, self.disk);
        lower.set("tmpfs_size", &mut held.limits.scratch, self.scratch);
        lower.set("open_files", &mut held.limits.open_files, self.open_files);
        self.lifecycle.apply(&mut held.lifecycle, &mut lower);
        lower.set_by("tier", weakness, &mut held.tier, self.tier);
        lower.fewer("visible directory", &mut held.visible, self.visible);
        lower.fewer("directory for programs", &mut held.path_prefixes, self.path_prefixes);
        let mut gaps = held.accepted_gaps.iter().copied().collect();
        lower.fewer("accepted gap", &mut gaps, self.accepted_gaps);
        held.accepted_gaps = gaps.into_iter().collect();
        held.timeout = (timeout < Duration::MAX).then_some(timeout);
    }
}

impl LifecycleLayer {
    /// The block is the same for every backend.
    pub(super) fn apply(self, held: &mut Lifecycle, lower: &mut Lower<'_>) {
        lower.set("grace_seconds", &mut held.grace, self.grace);
        lower.set("max_idle_seconds", &mut held.idle, self.idle);
        lower.set("max_rooms", &mut held.max_rooms, self.max_rooms);
        lower.set_by("strategy", sharing, &mut held.strategy, self.strategy);
    }
}

/// How many share a room.
fn sharing(strategy: Strategy) -> u8 {
    match strategy {
        Strategy::PerCall => 0,
        Strategy::PerTask => 1,
        Strategy::PerAgent => 2,
    }
}

/// How weak a room may turn out.
fn weakness(tier: TierChoice) -> u8 {
    match tier {
        TierChoice::Only(Tier::Namespaces) => 0,
        TierChoice::Best => 1,
        TierChoice::Only(Tier::Landlock) => 2,
    }
}

/// Sets values; those of an untrusted file only where they are lower.
pub(super) struct Lower<'a> {
    pub(super) voice: Voice,
    pub(super) findings: &'a mut Findings,
}

impl Lower<'_> {
    pub(super) fn set<T: Copy + Ord>(&mut self, key: &str, held: &mut T, said: Option<Said<T>>) {
        self.set_by(key, |value| value, held, said);
    }

    pub(super) fn set_by<T: Copy, O: Ord>(
        &mut self,
        key: &str,
        order: fn(T) -> O,
        held: &mut T,
        said: Option<Said<T>>,
    ) {
        let Some(said) = said else { return };
        if self.voice == Voice::Untrusted && order(said.value) > order(*held) {
            refuse(said.spot, &format!("a looser `{key}`"), self.findings);
            return;
        }
        *held = said.value;
    }

    /// What an untrusted file lists is what stays of the list that holds, in its order.
    fn fewer<T: PartialEq>(&mut self, what: &str, held: &mut Vec<T>, said: Option<Vec<Said<T>>>) {
        let Some(said) = said else { return };
        if self.voice == Voice::Trusted {
            *held = said.into_iter().map(|said| said.value).collect();
            return;
        }
        for new in said.iter().filter(|said| !held.contains(&said.value)) {
            refuse(new.spot, &format!("a new {what}"), self.findings);
        }
        held.retain(|known| said.iter().any(|said| said.value == *known));
    }
}
