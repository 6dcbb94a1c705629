//! Who has rooms open: notes on disk, so that another process can list them and clean up after one that died.
//!
//! ```text
//! <data>/deployment                  a random id; the label on everything of this deployment is its short hash
//! <data>/rooms/gate                  locked while an instance comes or is claimed by a sweep
//! <data>/rooms/<instance>/lock       locked by the instance for as long as it lives
//! <data>/rooms/<instance>/instance.json
//! <data>/rooms/<instance>/room-<id>.json
//! <data>/rooms/<instance>/...        what its rooms keep on the machine
//! ```
//!
//! The kernel lets go of a lock when its holder dies, however it dies, so an instance is alive exactly while its lock
//! cannot be had. A room is noted before it is made and the note is removed after the room is gone: whatever exists is
//! noted. A sweep believes a note only as far as it can check: it signals a process only if number, start time and boot
//! are those that were noted, removes directories only inside the instance's own, and control groups only if they
//! carry this deployment's label and the instance's name.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
        },
    },
    path::{Component, Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, renameat, statat, unlinkat},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use toolgate_contract::Digest;

use crate::{
    process::{cgroup, placeholder},
    spec::RoomSpec,
};

/// The tier of rooms that are containers.
pub(crate) const CONTAINER: &str = "container";

/// How long a killed keeper may take to be gone.
const DEATH: Duration = Duration::from_secs(2);

/// This process's place among those of its deployment. Dropping it removes the place, unless a note was left there.
#[derive(Debug)]
pub struct Registry {
    label: String,
    note: InstanceNote,
    dir: PathBuf,
    /// Held, not read.
    _lock: File,
}

impl Registry {
    /// Takes a place in this data directory, which is made if it is not there.
    pub fn open(data: &Path) -> io::Result<Self> {
        let rooms = rooms_dir(data);
        DirBuilder::new().recursive(true).mode(0o700).create(&rooms)?;
        let _gate = pass_gate(&rooms)?;
        let label = label_of(data, &deployment_id(data)?)?;
        let instance = random_word()?;
        let dir = rooms.join(&instance);
        DirBuilder::new().mode(0o700).create(&dir)?;
        let lock = open_lock(&dir)?;
        // Whoever only looks holds the lock for a moment.
        flock(&lock, FlockOperation::LockExclusive)?;
        let note = InstanceNote {
            instance,
            pid: std::process::id(),
            start_time: start_time(std::process::id())?,
            boot_id: boot_id()?,
            started_at_ms: now_ms(),
            label: label.clone(),
            cgroups: Vec::new(),
        };
        write_json(&dir, INSTANCE, &note)?;
        Ok(Self { label, note, dir, _lock: lock })
    }

    /// The deployment's word: letters and digits, the same for all who share the data directory.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// This process's word: letters and digits, never used twice.
    pub fn instance(&self) -> &str {
        &self.note.instance
    }

    /// Where this process's rooms keep what they have on the machine. Whatever is in here goes with the instance.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where its rooms keep what others than the owner of the data directory must be able to walk to. Whoever puts
    /// something there makes it; it goes with the instance too.
    pub fn walkable_dir(&self) -> PathBuf {
        walkable_dir(&self.note.instance)
    }

    /// Notes in which directories this instance makes control groups.
    pub fn uses_cgroups(&mut self, dirs: Vec<PathBuf>) -> io::Result<()> {
        self.note.cgroups = dirs;
        write_json(&self.dir, INSTANCE, &self.note)
    }

    /// Notes that a room is about to be made. What it keeps on the machine is in the directory of its id, and what it put
    /// into its workspace are empty directories.
    pub fn note(&self, id: &str, owner: &str, tier: &str, spec: &RoomSpec, put: Vec<PathBuf>) -> io::Result<RoomNote> {
        let is_word = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_word || id.len() > 64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{id}` cannot name a room")));
        }
        let room = NotedRoom {
            id: id.to_owned(),
            owner: owner.to_owned(),
            backend: if tier == CONTAINER { "docker" } else { "process" }.to_owned(),
            tier: tier.to_owned(),
            spec_hash: spec.digest()?.to_string(),
            opened_at_ms: now_ms(),
            keeper_pid: None,
            keeper_start_time: None,
            cgroups: Vec::new(),
            dirs: vec![self.dir.join(id)],
            workspace: spec.workspace.as_ref().map(|workspace| workspace.path.clone()),
            put,
        };
        let note = RoomNote { dir: self.dir.clone(), room, stays: false };
        note.write()?;
        Ok(note)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // A room that would not go is the next sweep's.
        if !room_files(&self.dir).is_empty() {
            return;
        }
        if let Err(error) = remove_instance(&self.dir) {
            tracing::warn!(dir = %self.dir.display(), %error, "what rooms left behind stays until the next sweep");
        }
    }
}

/// The note about one room. Dropping it says that the room is gone, and removes what it kept on the machine.
#[derive(Debug)]
pub struct RoomNote {
    dir: PathBuf,
    room: NotedRoom,
    stays: bool,
}

impl RoomNote {
    /// Notes who keeps the room, now that it is made.
    pub fn made(&mut self, keeper: &OwnedFd) -> io::Result<()> {
        let pid = pid_of(keeper)?;
        self.room.keeper_start_time = Some(start_time(pid)?);
        self.room.keeper_pid = Some(pid);
        self.write()
    }

    /// Notes whose it is, where it was made ahead for nobody.
    pub fn given_to(&mut self, owner: &str) -> io::Result<()> {
        owner.clone_into(&mut self.room.owner);
        self.write()
    }

    /// Leaves the note where it is: the room would not go, and a sweep has to find it.
    pub fn leave(mut self) {
        self.stays = true;
    }

    /// Written in place: another file and a rename would cost more than the room. Whoever reads half a note says so.
    fn write(&self) -> io::Result<()> {
        let path = self.dir.join(room_file(&self.room.id));
        let text = serde_json::to_vec(&self.room)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.write_all_at(&text, 0)?;
        file.set_len(text.len() as u64)
    }
}

impl Drop for RoomNote {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        match remove_inside(&self.dir, Path::new(&self.room.id)) {
            Ok(_) => {
                let _ = fs::remove_file(self.dir.join(room_file(&self.room.id)));
            }
            // The note stays with what it is about.
            Err(error) => tracing::warn!(room = self.room.id, %error, "what the room kept stays until the next sweep"),
        }
    }
}

/// What is known about a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedRoom {
    /// Letters, digits and `-`.
    pub id: String,
    /// Whose it is, for people.
    pub owner: String,
    /// The backend that makes it.
    pub backend: String,
    /// The kind of room.
    pub tier: String,
    /// The hash of what it is to be.
    pub spec_hash: String,
    /// Milliseconds since 1970.
    pub opened_at_ms: u64,
    /// Whoever keeps it; none before it is made.
    pub keeper_pid: Option<u32>,
    /// When the keeper started, in the kernel's ticks since boot.
    pub keeper_start_time: Option<u64>,
    /// Its own control groups, if it has any.
    pub cgroups: Vec<PathBuf>,
    /// Its directories inside [`Registry::dir`].
    pub dirs: Vec<PathBuf>,
    /// The directory it is about.
    #[serde(default)]
    pub workspace: Option<PathBuf>,
    /// Empty directories in the workspace that stand for protected names.
    #[serde(default)]
    pub put: Vec<PathBuf>,
}

/// A room somebody has, or had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The process that opened it.
    pub pid: u32,
    /// That process lives. If not, a sweep is due.
    pub is_alive: bool,
    /// The room.
    pub room: NotedRoom,
}

/// The rooms of this deployment, oldest first.
pub fn list(data: &Path) -> io::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for dir in instances(&rooms_dir(data))? {
        let lock = File::open(dir.join(LOCK));
        let is_alive = lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err());
        // An instance that ended while we look has nothing to show.
        let Ok(instance) = read_json::<InstanceNote>(&dir, INSTANCE) else { continue };
        for file in room_files(&dir) {
            match read_json::<NotedRoom>(&dir, &file) {
                Ok(room) => listed.push(Listed { pid: instance.pid, is_alive, room }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!(%error, file, "a note about a room cannot be read"),
            }
        }
    }
    listed.sort_by(|a, b| (a.room.opened_at_ms, &a.room.id).cmp(&(b.room.opened_at_ms, &b.room.id)));
    Ok(listed)
}

/// What a sweep found and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Rooms whose instance had died.
    pub rooms: usize,
    /// Keepers that were still there.
    pub processes: usize,
    /// Directories of control groups.
    pub cgroups: usize,
    /// Private directories.
    pub dirs: usize,
    /// What could not be read, believed or removed.
    pub problems: Vec<String>,
}

/// Cleans up after instances of this deployment that died. Living ones and other deployments are never touched; any
/// number of sweeps may run at once.
pub fn sweep(data: &Path) -> io::Result<Swept> {
    let mut swept = Swept::default();
    let rooms = rooms_dir(data);
    let label = read_deployment_id(data)?.map(|id| label_of(data, &id)).transpose()?;
    for dir in instances(&rooms)? {
        match claim(&rooms, &dir) {
            Ok(Some(_claimed)) => sweep_instance(&dir, label.as_deref(), &mut swept),
            Ok(None) => {}
            Err(error) => swept.problems.push(format!("`{}` cannot be claimed: {error}", dir.display())),
        }
    }
    Ok(swept)
}

/// Does the instance of this name live? One that has left nothing behind does not.
pub fn is_alive(data: &Path, instance: &str) -> io::Result<bool> {
    let is_word = instance.len() == WORD && instance.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let dir = rooms_dir(data).join(instance);
    if !is_word || !dir.is_dir() {
        return Ok(false);
    }
    Ok(claim(&rooms_dir(data), &dir)?.is_none())
}

/// The lock of a dead instance, or nothing: it lives, or another sweep has it.
fn claim(rooms: &Path, dir: &Path) -> io::Result<Option<File>> {
    // Behind the gate nobody is between making a directory and locking it, or between unlocking and removing it.
    let _gate = pass_gate(rooms)?;
    let lock = match open_lock(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        lock => lock?,
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        locked => Ok(locked.map(|()| Some(lock))?),
    }
}

/// Processes first, then what they used.
fn sweep_instance(dir: &Path, label: Option<&str>, swept: &mut Swept) {
    let instance = read_noted::<InstanceNote>(dir, INSTANCE, swept);
    let files = room_files(dir);
    swept.rooms += files.len();
    let rooms: Vec<NotedRoom> = files.iter().filter_map(|file| read_noted(dir, file, swept)).collect();

    let is_this_boot = instance.as_ref().is_some_and(|note| boot_id().is_ok_and(|now| now == note.boot_id));
    let noted = rooms.iter().filter(|_| is_this_boot);
    let still_there = noted.filter(|room| !sweep_keeper(room, swept)).count();
    // What a keeper still uses stays, and is tried again by the next sweep.
    if still_there > 0 {
        return;
    }
    let of_instance = instance.into_iter().flat_map(|note| note.cgroups);
    let of_rooms = rooms.iter().flat_map(|room| &room.cgroups).filter_map(|group| group.parent().map(Path::to_owned));
    sweep_cgroups(dir, of_instance.chain(of_rooms).collect(), label, swept);
    rooms.iter().flat_map(|room| &room.dirs).for_each(|private| sweep_private(dir, private, swept));
    rooms.iter().for_each(|room| sweep_put(room, swept));
    if let Err(error) = remove_instance(dir) {
        swept.problems.push(format!("`{}` cannot be removed: {error}", dir.display()));
    }
}

fn read_noted<T: DeserializeOwned>(dir: &Path, file: &str, swept: &mut Swept) -> Option<T> {
    read_json(dir, file).map_err(|error| swept.problems.push(format!("`{}/{file}`: {error}", dir.display()))).ok()
}

/// Is the keeper gone?
fn sweep_keeper(room: &NotedRoom, swept: &mut Swept) -> bool {
    let (Some(pid), Some(started)) = (room.keeper_pid, room.keeper_start_time) else { return true };
    match end_process(pid, started) {
        Ok(ended) => {
            swept.processes += usize::from(ended);
            true
        }
        Err(error) => {
            swept.problems.push(format!("the keeper {pid} of room `{}` does not end: {error}", room.id));
            false
        }
    }
}

fn sweep_private(dir: &Path, private: &Path, swept: &mut Swept) {
    let inside = private.strip_prefix(dir).ok().filter(|inside| inside.components().next().is_some());
    let Some(inside) = inside.filter(|inside| inside.components().all(|part| matches!(part, Component::Normal(_))))
    else {
        swept.problems.push(format!("`{}` is not in `{}` and stays", private.display(), dir.display()));
        return;
    };
    match remove_inside(dir, inside) {
        Ok(true) => swept.dirs += 1,
        Ok(false) => {}
        Err(error) => swept.problems.push(format!("`{}` cannot be removed: {error}", private.display())),
    }
}

/// Only a directory that is empty and marked as put there is taken away.
fn sweep_put(room: &NotedRoom, swept: &mut Swept) {
    for (workspace, put) in room.workspace.iter().flat_map(|workspace| room.put.iter().map(move |put| (workspace, put)))
    {
        match placeholder::sweep(workspace, put) {
            Ok(taken) => swept.dirs += usize::from(taken),
            Err(error) => {
                swept.problems.push(format!("`{}` cannot be removed: {error}", workspace.join(put).display()));
            }
        }
    }
}

fn sweep_cgroups(dir: &Path, cgroups: BTreeSet<PathBuf>, label: Option<&str>, swept: &mut Swept) {
    if cgroups.is_empty() {
        return;
    }
    let (Some(label), Some(instance)) = (label, dir.file_name().and_then(OsStr::to_str)) else {
        swept.problems.push("control groups stay: the deployment has lost its id".to_owned());
        return;
    };
    let (removed, problems) = cgroup::sweep(&Vec::from_iter(cgroups), label, instance);
    swept.cgroups += removed;
    swept.problems.extend(problems);
}

/// Kills the process with this number if it started at this time, and waits until it is gone. `false`: there is no such
/// process.
fn end_process(pid: u32, started: u64) -> io::Result<bool> {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(false),
        process => process?,
    };
    // The number may be somebody else's by now; looking after the process is held settles whose it is.
    if !is_running(pid, started) {
        return Ok(false);
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(errno) => return Err(errno.into()),
    }
    let until = Instant::now() + DEATH;
    while is_running(pid, started) {
        if Instant::now() > until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it was killed and is still there"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(true)
}

fn is_running(pid: u32, started: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let (state, start_time) = match stat.as_deref().and_then(parse_stat) {
        Some(found) => found,
        None => return false,
    };
    start_time == started && !matches!(state, 'Z' | 'X')
}

/// The number of a process that is held.
fn pid_of(process: &OwnedFd) -> io::Result<u32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd()))?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    pid.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the process has ended"))
}

fn start_time(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, format!("`/proc/{pid}/stat` cannot be read"));
    parse_stat(&stat).map(|(_, start_time)| start_time).ok_or_else(unreadable)
}

/// State and start time. The name of the program comes before them and may hold anything, also brackets and blanks.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

const INSTANCE: &str = "instance.json";
const LOCK: &str = "lock";

#[derive(Debug, Serialize, Deserialize)]
struct InstanceNote {
    instance: String,
    pid: u32,
    start_time: u64,
    boot_id: String,
    started_at_ms: u64,
    label: String,
    /// The deployment's directories in the hierarchies of control groups.
    cgroups: Vec<PathBuf>,
}

fn rooms_dir(data: &Path) -> PathBuf {
    data.join("rooms")
}

fn room_file(id: &str) -> String {
    format!("room-{id}.json")
}

fn room_files(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let is_room = |name: &String| name.starts_with("room-") && name.ends_with(".json");
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).filter(is_room).collect();
    names.sort();
    names
}

/// The directories of instances, living or dead.
fn instances(rooms: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(rooms) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let is_instance = |entry: &fs::DirEntry| {
        let is_word = |name: &str| name.len() == WORD && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name().to_str().is_some_and(is_word)
    };
    let mut dirs: Vec<PathBuf> = entries.flatten().filter(is_instance).map(|entry| entry.path()).collect();
    dirs.sort();
    Ok(dirs)
}

fn pass_gate(rooms: &Path) -> io::Result<File> {
    let gate = own_file(&rooms.join("gate"))?;
    flock(&gate, FlockOperation::LockExclusive)?;
    Ok(gate)
}

fn open_lock(dir: &Path) -> io::Result<File> {
    own_file(&dir.join(LOCK))
}

/// Opened, made if it is not there, never through a link.
fn own_file(path: &Path) -> io::Result<File> {
    let nofollow = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(nofollow).open(path)
}

/// The length of [`random_word`].
const WORD: usize = 16;

fn random_word() -> io::Result<String> {
    let mut bytes = [0; WORD / 2];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The deployment's id, which is made once. Only behind the gate.
fn deployment_id(data: &Path) -> io::Result<String> {
    if let Some(id) = read_deployment_id(data)? {
        return Ok(id);
    }
    let id = random_word()? + &random_word()?;
    let beside = data.join("deployment.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(id.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, data.join("deployment"))?;
    Ok(id)
}

fn read_deployment_id(data: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(data.join("deployment")) {
        Ok(id) if id.len() == 2 * WORD => Ok(Some(id)),
        Ok(_) => {
            let what = format!("`{}` does not hold the deployment's id", data.join("deployment").display());
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the deployment's rooms are known by on this machine. A copy of the data directory is another deployment, though it
/// holds the same id.
fn label_of(data: &Path, id: &str) -> io::Result<String> {
    let file = fs::metadata(data.join("deployment"))?;
    let mut label = Digest::of(format!("{id} {} {}", file.dev(), file.ino()).as_bytes()).hex();
    label.truncate(12);
    Ok(label)
}

/// Written beside, then moved over: a reader sees the old note or the new one.
fn write_json(dir: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let beside = dir.join(format!("{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    fs::rename(beside, dir.join(name))
}

fn read_json<T: DeserializeOwned>(dir: &Path, name: &str) -> io::Result<T> {
    let nofollow = OFlags::NOFOLLOW.bits().cast_signed();
    let mut text = Vec::new();
    // A note is short; whatever is longer is not one.
    OpenOptions::new().read(true).custom_flags(nofollow).open(dir.join(name))?.take(1 << 20).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// The name is as random as the instance's, so nobody was there first.
fn walkable_dir(instance: &str) -> PathBuf {
    Path::new("/tmp").join(format!("toolgate-rooms-{instance}"))
}

/// Removes an instance's directories. Only for whoever holds its lock.
fn remove_instance(dir: &Path) -> io::Result<()> {
    let Some(rooms) = dir.parent() else { return Ok(()) };
    if let Some(instance) = dir.file_name().and_then(OsStr::to_str) {
        let walkable = walkable_dir(instance);
        match open_path(&walkable) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            top => clear(&top?, OsStr::new("")).and_then(|()| fs::remove_dir(&walkable))?,
        }
    }
    match open_path(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        top => clear(&top?, OsStr::new(LOCK))?,
    }
    // The lock goes last and behind the gate: a sweep that finds the directory finds it locked.
    let _gate = pass_gate(rooms)?;
    fs::remove_file(dir.join(LOCK))?;
    fs::remove_dir(dir)
}

/// Removes a directory inside an instance's, without following a link on the way. `false`: it is not there.
fn remove_inside(dir: &Path, inside: &Path) -> io::Result<bool> {
    let (Some(name), Some(way)) = (inside.file_name(), inside.parent()) else { return Ok(false) };
    let remove = || -> io::Result<()> {
        let mut parent = open_path(dir)?;
        for part in way {
            parent = open_dir(&parent, part)?;
        }
        clear(&open_dir(&parent, name)?, OsStr::new(""))?;
        Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    };
    match remove() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Removes everything in a directory but the file `keep`.
///
/// What is in there was written by jobs, to any depth. So there is no recursion: directories are moved up to the top
/// before they are looked into, and two are open at a time. Links are removed, not followed, and whatever another
/// file system shows in here is left alone.
fn clear(top: &OwnedFd, keep: &OsStr) -> io::Result<()> {
    let home = fstat(top)?.st_dev;
    let mut waiting = Vec::new();
    for (name, kind) in entries(top)? {
        match kind {
            FileType::Directory => waiting.push(name),
            _ if name == keep => {}
            _ => unlinkat(top, &name, AtFlags::empty())?,
        }
    }
    let taken: BTreeSet<OsString> = waiting.iter().cloned().collect();
    let mut free_names = (0_u64..).map(|n| OsString::from(format!("gone-{n}"))).filter(|name| !taken.contains(name));
    while let Some(name) = waiting.pop() {
        let dir = open_dir(top, &name)?;
        if fstat(&dir)?.st_dev != home {
            return Err(io::Error::new(io::ErrorKind::CrossesDevices, "something is mounted in it"));
        }
        for (inner, kind) in entries(&dir)? {
            if kind != FileType::Directory {
                unlinkat(&dir, &inner, AtFlags::empty())?;
            } else if unlinkat(&dir, &inner, AtFlags::REMOVEDIR).is_err()
                && let Some(up) = free_names.next()
            {
                make_ours(&dir, &inner)?;
                renameat(&dir, &inner, top, &up)?;
                waiting.push(up);
            }
        }
        unlinkat(top, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

fn entries(dir: &OwnedFd) -> io::Result<Vec<(OsString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if [c".", c".."].contains(&entry.file_name()) {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                FileType::from_raw_mode(statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
            }
            kind => kind,
        };
        found.push((OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(), kind));
    }
    Ok(found)
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open_path(dir: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(dir, DIRECTORY, Mode::empty())?)
}

fn open_dir(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match openat(parent, name, DIRECTORY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            make_ours(parent, name)?;
            Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

/// A directory its owner may not enter, such as those an overlay works in, is given the usual rights.
fn make_ours(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let held = openat(parent, name, DIRECTORY | OFlags::PATH, Mode::empty())?;
    let through = format!("/proc/self/fd/{}", held.as_raw_fd());
    fs::set_permissions(through, fs::Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead as _, BufReader},
        os::unix::fs::symlink,
        process::{Child, ChildStdout, Command, Stdio},
        sync::Barrier,
    };

    const DATA: &str = "TOOLGATE_TEST_REGISTRY";

    /// Not a test of its own: the process that the tests below start, and kill.
    #[test]
    #[ignore = "the other process of the tests beside it"]
    fn an_instance_with_a_room() {
        let Some(data) = std::env::var_os(DATA) else { return };
        let mut registry = Registry::open(Path::new(&data)).unwrap();
        let cgroups = cgroup::Cgroups::open(registry.label(), registry.instance());
        registry.uses_cgroups(cgroups.directories()).unwrap();
        let private = registry.dir().join("r1");
        let mut note = registry.note("r1", "coder", "namespaces", &RoomSpec::bare(), Vec::new()).unwrap();
        fs::create_dir_all(private.join("tmp/deep")).unwrap();
        fs::write(private.join("tmp/deep/file"), "x").unwrap();
        let mut keeper = keeper();
        note.made(&held(&keeper)).unwrap();
        println!("\nready {} {}", keeper.id(), cgroups.directories().len());
        keeper.wait().unwrap();
    }

    fn keeper() -> Child {
        Command::new("sleep").arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }

    fn held(process: &Child) -> OwnedFd {
        pidfd_open(Pid::from_child(process), PidfdFlags::empty()).unwrap()
    }

    /// Starts that process, and waits until its room is open. Gives it, its keeper and how many control groups it has.
    fn start(data: &Path) -> (Child, u32, usize) {
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", "registry::tests::an_instance_with_a_room", "--ignored", "--nocapture"]);
        let mut other = other.env(DATA, data).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::<ChildStdout>::new(other.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).find(|line| line.starts_with("ready")).expect("it opens a room");
        let mut numbers = ready.split(' ').skip(1).map(|word| word.parse::<u32>().unwrap());
        let (keeper, cgroups) = (numbers.next().unwrap(), numbers.next().unwrap());
        (other, keeper, usize::try_from(cgroups).unwrap())
    }

    fn note(registry: &Registry, id: &str) -> io::Result<RoomNote> {
        registry.note(id, "coder", "namespaces", &RoomSpec::bare(), Vec::new())
    }

    fn noted(id: &str) -> NotedRoom {
        NotedRoom {
            id: id.into(),
            owner: "coder".into(),
            backend: "process".into(),
            tier: "namespaces".into(),
            spec_hash: RoomSpec::bare().digest().unwrap().to_string(),
            opened_at_ms: 1,
            keeper_pid: None,
            keeper_start_time: None,
            cgroups: Vec::new(),
            dirs: Vec::new(),
            workspace: None,
            put: Vec::new(),
        }
    }

    /// An instance that died, as its directory would be: a copy of what a living one has, without its lock.
    fn left_over(data: &Path, name: &str, room: &NotedRoom) -> PathBuf {
        let registry = Registry::open(data).unwrap();
        let dir = rooms_dir(data).join(name);
        fs::create_dir(&dir).unwrap();
        write_json(&dir, INSTANCE, &InstanceNote { instance: name.to_owned(), ..copy(&registry.note) }).unwrap();
        write_json(&dir, &room_file(&room.id), room).unwrap();
        dir
    }

    fn copy(note: &InstanceNote) -> InstanceNote {
        serde_json::from_value(serde_json::to_value(note).unwrap()).unwrap()
    }

    const DEAD: &str = "0123456789abcdef";

    #[test]
    fn a_killed_instance_is_swept() {
        let data = tempfile::tempdir().unwrap();
        let (mut other, keeper, cgroups) = start(data.path());
        let started = start_time(keeper).unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        let listed = list(data.path()).unwrap();
        assert_eq!(listed.iter().map(|one| (one.is_alive, &*one.room.id)).collect::<Vec<_>>(), [(false, "r1")]);
        assert_eq!(listed[0].room.keeper_pid, Some(keeper));

        let swept = sweep(data.path()).unwrap();
        assert_eq!(swept, Swept { rooms: 1, processes: 1, cgroups, dirs: 1, problems: Vec::new() });
        assert!(!is_running(keeper, started));
        assert_eq!(instances(&rooms_dir(data.path())).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(sweep(data.path()).unwrap(), Swept::default(), "there is nothing left for a second one");
    }

    #[test]
    fn a_living_instance_is_left_alone() {
        let data = tempfile::tempdir().unwrap();
        let (mut other, keeper, _) = start(data.path());
        let started = start_time(keeper).unwrap();
        assert_eq!(sweep(data.path()).unwrap(), Swept::default());
        assert!(is_running(keeper, started));
        let listed = list(data.path()).unwrap();
        assert_eq!(listed.iter().map(|one| (one.pid, one.is_alive)).collect::<Vec<_>>(), [(other.id(), true)]);
        assert!(listed[0].room.dirs[0].join("tmp/deep/file").is_file());
        other.kill().unwrap();
        other.wait().unwrap();
        sweep(data.path()).unwrap();
    }

    #[test]
    fn the_own_instance_is_alive() {
        let data = tempfile::tempdir().unwrap();
        let registry = Registry::open(data.path()).unwrap();
        let note = note(&registry, "mine").unwrap();
        assert_eq!(sweep(data.path()).unwrap(), Swept::default());
        let mut listed = list(data.path()).unwrap();
        listed[0].room.opened_at_ms = 1;
        let room = NotedRoom { dirs: vec![registry.dir().join("mine")], ..noted("mine") };
        assert_eq!(listed, [Listed { pid: std::process::id(), is_alive: true, room }]);
        drop(note);
        assert_eq!(list(data.path()).unwrap(), []);
    }

    #[test]
    fn a_dropped_registry_leaves_nothing() {
        let data = tempfile::tempdir().unwrap();
        let registry = Registry::open(data.path()).unwrap();
        let note = note(&registry, "a").unwrap();
        fs::create_dir_all(registry.dir().join("a/b/c")).unwrap();
        drop(note);
        assert!(!registry.dir().join("a").exists());
        fs::create_dir(registry.dir().join("b")).unwrap();
        let walkable = registry.walkable_dir();
        fs::create_dir_all(walkable.join("c/d")).unwrap();
        drop(registry);
        assert!(!walkable.exists());
        assert_eq!(instances(&rooms_dir(data.path())).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_note_that_was_left_is_found_by_a_sweep() {
        let data = tempfile::tempdir().unwrap();
        let registry = Registry::open(data.path()).unwrap();
        let mut stubborn = note(&registry, "a").unwrap();
        let mut keeper = keeper();
        stubborn.made(&held(&keeper)).unwrap();
        fs::create_dir(registry.dir().join("a")).unwrap();
        stubborn.leave();
        drop(registry);
        assert_eq!(list(data.path()).unwrap()[0].room.keeper_pid, Some(keeper.id()));
        let swept = sweep(data.path()).unwrap();
        assert_eq!(swept, Swept { rooms: 1, processes: 1, dirs: 1, ..Swept::default() });
        assert!(!keeper.wait().unwrap().success());
    }

    #[test]
    fn a_keeper_that_has_ended_is_not_noted() {
        let data = tempfile::tempdir().unwrap();
        let registry = Registry::open(data.path()).unwrap();
        let mut note = note(&registry, "a").unwrap();
        let mut keeper = keeper();
        let held = held(&keeper);
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        assert!(note.made(&held).is_err());
        assert_eq!(list(data.path()).unwrap()[0].room.keeper_pid, None);
    }

    #[test]
    fn everything_is_private_to_its_user() {
        let data = tempfile::tempdir().unwrap();
        let registry = Registry::open(data.path()).unwrap();
        let _note = note(&registry, "a").unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(registry.dir().to_owned()), 0o700);
        assert_eq!(mode(registry.dir().join(room_file("a"))), 0o600);
        assert_eq!(mode(data.path().join("deployment")), 0o600);
    }

    #[test]
    fn a_deployment_keeps_its_label_and_two_never_share_one() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let label = |data: &Path| Registry::open(data).unwrap().label().to_owned();
        assert_eq!(label(one.path()), label(one.path()));
        assert_ne!(label(one.path()), label(two.path()));
        assert_eq!(label(one.path()).len(), 12);
        let copy = tempfile::tempdir().unwrap();
        fs::copy(one.path().join("deployment"), copy.path().join("deployment")).unwrap();
        assert_ne!(label(one.path()), label(copy.path()), "the rooms of the one are not the copy's to sweep");
        fs::write(one.path().join("deployment"), "").unwrap();
        assert_eq!(Registry::open(one.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_room_cannot_be_called_anything() {
        let data = tempfile::tempdir().unwrap();
        let registry = Registry::open(data.path()).unwrap();
        for id in ["", "../x", "a/b", "a.b", "a b", &"a".repeat(65)] {
            assert_eq!(note(&registry, id).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{id}");
        }
    }

    #[test]
    fn a_number_that_belongs_to_somebody_else_by_now_is_not_killed() {
        let data = tempfile::tempdir().unwrap();
        let mut stranger = keeper();
        let started = start_time(stranger.id()).unwrap();
        let room = NotedRoom { keeper_pid: Some(stranger.id()), keeper_start_time: Some(started - 1), ..noted("r") };
        left_over(data.path(), DEAD, &room);
        assert_eq!(sweep(data.path()).unwrap(), Swept { rooms: 1, ..Swept::default() });
        assert!(is_running(stranger.id(), started));
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn a_process_of_another_boot_is_not_killed() {
        let data = tempfile::tempdir().unwrap();
        let mut stranger = keeper();
        let started = start_time(stranger.id()).unwrap();
        let room = NotedRoom { keeper_pid: Some(stranger.id()), keeper_start_time: Some(started), ..noted("r") };
        let dir = left_over(data.path(), DEAD, &room);
        let instance = read_json::<InstanceNote>(&dir, INSTANCE).unwrap();
        write_json(&dir, INSTANCE, &InstanceNote { boot_id: "another".into(), ..instance }).unwrap();
        assert_eq!(sweep(data.path()).unwrap(), Swept { rooms: 1, ..Swept::default() });
        assert!(is_running(stranger.id(), started));
        assert!(!dir.exists());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn directories_elsewhere_are_not_removed() {
        let data = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let canary = outside.path().join("sub/canary");
        fs::create_dir(outside.path().join("sub")).unwrap();
        fs::write(&canary, "x").unwrap();
        let dir = rooms_dir(data.path()).join(DEAD);
        let hostile = [
            outside.path().to_owned(),
            PathBuf::from("/etc"),
            PathBuf::from("relative"),
            dir.clone(),
            dir.join("..").join("..").join("..").join(outside.path().file_name().unwrap()),
            dir.join("link"),
            dir.join("link/sub"),
        ];
        left_over(data.path(), DEAD, &NotedRoom { dirs: hostile.to_vec(), ..noted("r") });
        symlink(outside.path(), dir.join("link")).unwrap();
        fs::create_dir(dir.join("room")).unwrap();
        symlink(outside.path(), dir.join("room/link")).unwrap();

        let swept = sweep(data.path()).unwrap();
        assert_eq!((swept.rooms, swept.dirs, swept.problems.len()), (1, 0, hostile.len()), "{swept:?}");
        assert!(canary.is_file());
        assert!(!dir.exists(), "its own directory goes, with the links in it");
    }

    #[test]
    fn control_groups_of_others_are_not_removed() {
        let data = tempfile::tempdir().unwrap();
        let trap = data.path().join("toolgate-x").join(format!("{DEAD}-0"));
        fs::create_dir_all(&trap).unwrap();
        let other = PathBuf::from(format!("/sys/fs/cgroup/memory/toolgate-other/{DEAD}-0"));
        left_over(data.path(), DEAD, &NotedRoom { cgroups: vec![trap.clone(), other], ..noted("r") });
        let swept = sweep(data.path()).unwrap();
        assert_eq!((swept.cgroups, swept.problems.len()), (0, 2), "{swept:?}");
        assert!(trap.is_dir());
    }

    #[test]
    fn a_note_nobody_can_read_does_not_stop_the_rest() {
        let data = tempfile::tempdir().unwrap();
        let dir = left_over(data.path(), DEAD, &noted("good"));
        fs::write(dir.join(room_file("bad")), "{").unwrap();
        let second = left_over(data.path(), "fedcba9876543210", &noted("other"));
        fs::write(second.join(INSTANCE), [0xff, 0xfe]).unwrap();
        let swept = sweep(data.path()).unwrap();
        assert_eq!((swept.rooms, swept.problems.len()), (3, 2), "{swept:?}");
        assert!(!dir.exists() && !second.exists());
    }

    #[test]
    fn names_that_are_no_instance_are_left_alone() {
        let data = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let rooms = rooms_dir(data.path());
        fs::create_dir_all(rooms.join("notes")).unwrap();
        symlink(outside.path(), rooms.join(DEAD)).unwrap();
        fs::write(outside.path().join(INSTANCE), "{}").unwrap();
        assert_eq!(sweep(data.path()).unwrap(), Swept::default());
        assert!(rooms.join("notes").is_dir() && outside.path().join(INSTANCE).is_file());
    }

    #[test]
    fn trees_of_any_depth_and_mode_are_removed() {
        let data = tempfile::tempdir().unwrap();
        let dir = left_over(data.path(), DEAD, &noted("r"));
        fs::create_dir(dir.join("gone-0")).unwrap();
        fs::write(dir.join("gone-0/file"), "x").unwrap();
        let mut at = open_path(&dir).unwrap();
        // Deeper than files may be open.
        for _ in 0..1_200 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = open_dir(&at, OsStr::new("d")).unwrap();
        }
        fs::create_dir_all(dir.join("work/work/x")).unwrap();
        fs::set_permissions(dir.join("work/work"), fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(sweep(data.path()).unwrap(), Swept { rooms: 1, ..Swept::default() });
        assert!(!dir.exists());
    }

    #[test]
    fn sweeps_that_race_share_the_work() {
        let data = tempfile::tempdir().unwrap();
        let words: Vec<String> = (0..12).map(|n| format!("{n:016x}")).collect();
        for word in &words {
            let dir = left_over(data.path(), word, &noted("r"));
            fs::create_dir_all(dir.join("a/b/c")).unwrap();
        }
        let at_once = Barrier::new(4);
        let swept: Vec<Swept> = thread::scope(|scope| {
            let sweeps: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        at_once.wait();
                        sweep(data.path()).unwrap()
                    })
                })
                .collect();
            sweeps.into_iter().map(|sweep| sweep.join().unwrap()).collect()
        });
        let problems: Vec<&String> = swept.iter().flat_map(|one| &one.problems).collect();
        assert_eq!(problems, Vec::<&String>::new());
        assert_eq!(swept.iter().map(|one| one.rooms).sum::<usize>(), words.len());
        assert_eq!(instances(&rooms_dir(data.path())).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn an_instance_that_comes_during_sweeps_is_never_taken_for_dead() {
        let data = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            let sweeps = scope.spawn(|| (0..2_000).map(|_| sweep(data.path()).unwrap()).collect::<Vec<_>>());
            while !sweeps.is_finished() {
                let registry = Registry::open(data.path()).unwrap();
                let note = note(&registry, "r").unwrap();
                assert!(registry.dir().join(room_file("r")).is_file());
                drop((note, registry));
            }
            for swept in sweeps.join().unwrap() {
                assert_eq!(swept, Swept::default());
            }
        });
    }

    #[test]
    fn a_directory_that_was_never_used_has_no_rooms() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(list(data.path()).unwrap(), []);
        assert_eq!(sweep(data.path()).unwrap(), Swept::default());
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let check = |stat: &str, expected| assert_eq!(parse_stat(stat), expected, "{stat}");
        let rest = "S 1 7 7 0 -1 4194560 94 0 0 0 0 0 0 0 20 0 1 0 98765 2650112 200 1844";
        check(&format!("7 (sleep) {rest}"), Some(('S', 98765)));
        check(&format!("7 (a) Z 9 (b c) {rest}"), Some(('S', 98765)));
        check("7 (sleep) S 1", None);
        check("", None);
    }
}
