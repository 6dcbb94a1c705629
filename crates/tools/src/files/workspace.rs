//! The workspace: an opened directory, and the only way a tool reaches files.
//!
//! Every path is resolved by the kernel in one step, `openat2` beneath the opened directory, so there is no moment
//! between a check and a use in which a link could be put in the way. A kernel without it gets a refusal: resolving
//! in user space would be a weaker fence under the same name. What was opened is then looked at, not looked up: its
//! kind by `fstat`, its real path by `/proc`.

#![expect(clippy::disallowed_methods, reason = "this file is the fence that the barred calls stay behind")]

use std::{
    ffi::{CStr, CString, OsStr},
    fmt,
    fs::File,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat},
    io::Errno,
};
use toolgate_contract::{Fault, Files};
use toolgate_guard::path_pattern::whole;

use super::{
    closed::{self, Closed},
    fault::{self, IO_ERROR, PROTECTED},
    path::{admit, shown},
};

/// What in the workspace is not the agent's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protected {
    /// Paths that no tool writes, with everything below them: relative to the workspace, or absolute. Upper and lower
    /// case count as the same. `.git` is among them always, wherever it is.
    pub names: Vec<String>,
    /// Absolute paths, with everything below them, that no tool reads, writes or lists, such as the data directory.
    pub hidden: Vec<PathBuf>,
}

/// An opened directory, and whatever else is open besides it.
///
/// What lies in the workspace is named relative to it, everything else by its whole path. Cloning gives another handle
/// on the same directories.
#[derive(Clone)]
pub struct Workspace {
    /// The workspace first.
    roots: Vec<Opened>,
    access: Files,
    /// Rules that keep tools from files in all of them.
    closed: Arc<[Closed]>,
    /// Their real paths, as rules spell files from them.
    reals: Arc<[PathBuf]>,
}

/// A directory, and what may be done in it.
#[derive(Clone)]
struct Opened {
    root: Arc<Root>,
    access: Files,
}

struct Root {
    dir: OwnedFd,
    real: PathBuf,
    given: PathBuf,
    names: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
}

/// A path as it was asked for: which open directory it is looked up in, and how it is spelt from there.
pub(crate) struct Asked {
    root: usize,
    pub(crate) relative: String,
}

/// How often a path is looked up again when directories moved under the kernel's feet.
const LOOKUPS: usize = 64;

/// Nothing opened here is inherited by a program, becomes a terminal, or waits for somebody at the other end.
const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// Links are followed as long as they stay inside. Magic links are shut out twice: the first flag does it today, and the
/// kernel's manual does not promise that it will.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// No link is followed.
const STRAIGHT: ResolveFlags = INSIDE.union(ResolveFlags::NO_SYMLINKS);

impl Workspace {
    /// Opens the directory, and refuses when this machine cannot hold paths inside it.
    pub fn open(root: &Path, protected: Protected) -> Result<Self, Fault> {
        let named = root.to_string_lossy();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir =
            rustix::fs::openat(CWD, root, flags, Mode::empty()).map_err(|errno| fault::from_errno(errno, &named))?;
        let real = real_path(&dir).map_err(|_| fault::wall_missing("/proc"))?;
        probe(&dir)?;

        let hidden = with_real_paths(protected.hidden);
        if hidden.iter().any(|path| real.starts_with(path)) {
            return Err(PROTECTED.refused(
                format!("`{named}` lies in a directory that is hidden from tools"),
                "Use another directory as the workspace.",
            ));
        }
        let given = if root.is_absolute() { root.to_owned() } else { real.clone() };
        let names = with_real_paths(protected.names.into_iter().map(PathBuf::from).collect());
        let reals = Arc::from([real.clone()]);
        let root = Arc::new(Root { dir, real, given, names, hidden });
        let roots = vec![Opened { root, access: Files::Write }];
        Ok(Self { roots, access: Files::Write, closed: Arc::default(), reals })
    }

    /// A handle that can do no more than `access`, and no more than this one.
    #[must_use]
    pub fn with_access(&self, access: Files) -> Self {
        Self { access: self.access.min(access), ..self.clone() }
    }

    /// The same workspace, with the directory of another one open besides it.
    #[must_use]
    pub fn beside(&self, other: &Self, access: Files) -> Self {
        let mut roots = self.roots.clone();
        if !roots.iter().any(|known| known.root.real == other.workspace().real && known.access >= access) {
            roots.push(Opened { root: other.roots[0].root.clone(), access });
        }
        let reals = roots.iter().map(|opened| opened.root.real.clone()).collect();
        Self { roots, reals, ..self.clone() }
    }

    /// The same directories, in which these rules keep tools from files.
    #[must_use]
    pub fn closing(&self, closed: Vec<Closed>) -> Self {
        Self { closed: closed.into(), ..self.clone() }
    }

    fn workspace(&self) -> &Root {
        &self.roots[0].root
    }

    /// The real absolute path.
    pub fn root(&self) -> &Path {
        &self.workspace().real
    }

    /// The absolute paths it goes by: the real one, and as it was given.
    pub fn spellings(&self) -> [&Path; 2] {
        [&self.workspace().real, &self.workspace().given]
    }

    /// Opens a file or a directory for reading.
    pub(crate) fn open_node(&self, path: &str) -> Result<Node, Fault> {
        self.needs(Files::Read)?;
        let asked = self.admit(path)?;
        // By its name first: of a link that has a name nobody is to read, it does not matter where it leads.
        self.check_readable(&self.spelt(&asked), path)?;
        let fd = self.open_asked(&asked, OFlags::RDONLY).map_err(|e| fault::from_errno(e, path))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| fault::from_errno(e, path))?;
        let place = self.place(&fd, &stat, path)?;
        self.check_readable(&place, path)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Node::File(OpenFile { file: File::from(fd), place, stat })),
            FileType::Directory => Ok(Node::Dir(OpenDir { fd, place, workspace: self.clone() })),
            _ => Err(fault::not_a_regular_file(path)),
        }
    }

    /// Opens a file for reading.
    pub(crate) fn open_file(&self, path: &str) -> Result<OpenFile, Fault> {
        match self.open_node(path)? {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(fault::is_a_directory(path)),
        }
    }

    /// Opens a directory for listing.
    pub(crate) fn open_dir(&self, path: &str) -> Result<OpenDir, Fault> {
        match self.open_node(path)? {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(fault::from_errno(Errno::NOTDIR, path)),
        }
    }

    /// Opens a directory by a place that came from a listing: no part of it may have become a link since.
    pub(crate) fn open_listed(&self, place: &[u8]) -> Result<OpenDir, Errno> {
        if !self.may_read(place) {
            return Err(Errno::NOENT);
        }
        let (root, at) = self.beneath(place).ok_or(Errno::XDEV)?;
        let fd = open_beneath(root, at, OFlags::RDONLY | OFlags::DIRECTORY, STRAIGHT)?;
        Ok(OpenDir { fd, place: place.to_owned(), workspace: self.clone() })
    }

    /// Where a path is looked up: in the widest open directory that holds it.
    pub(crate) fn admit(&self, path: &str) -> Result<Asked, Fault> {
        let mut numbered: Vec<(usize, &Root)> =
            self.roots.iter().enumerate().map(|(number, opened)| (number, &*opened.root)).collect();
        // In the order of their lengths a directory comes before what is in it.
        numbered.sort_by_key(|(_, root)| root.real.as_os_str().len());
        let home = self.root();
        let start =
            numbered.iter().find_map(|(number, root)| Some((*number, home.strip_prefix(&root.real).ok()?.to_str()?)));
        let spelt: Vec<(usize, &Path)> =
            numbered.iter().flat_map(|(number, root)| [(*number, &*root.given), (*number, &*root.real)]).collect();
        let (root, relative) = admit(path, start.unwrap_or((0, "")), &spelt)?;
        Ok(Asked { root, relative })
    }

    /// The place a path names, by its words alone.
    pub(crate) fn spelt(&self, asked: &Asked) -> Vec<u8> {
        self.place_at(&whole(&self.roots[asked.root].root.real, &asked.relative))
    }

    /// How results would call what a path names, by its words alone: relative to the workspace, or the whole path.
    pub(crate) fn spelling(&self, path: &str) -> Result<String, Fault> {
        let asked = self.admit(path)?;
        String::from_utf8(self.spelt(&asked)).map_err(|_| fault::outside(path))
    }

    /// How something with this real path is called: from the workspace where it lies there, else by the whole path.
    fn place_at(&self, real: &Path) -> Vec<u8> {
        real.strip_prefix(self.root()).unwrap_or(real).as_os_str().as_bytes().to_owned()
    }

    /// The real path of a place.
    fn real_of(&self, place: &[u8]) -> PathBuf {
        self.root().join(OsStr::from_bytes(place))
    }

    /// The narrowest open directory that holds this.
    fn holder(&self, real: &Path) -> Option<&Opened> {
        let holds = |opened: &&Opened| real.starts_with(&opened.root.real);
        self.roots.iter().filter(holds).max_by_key(|opened| opened.root.real.as_os_str().len())
    }

    /// The open directory a place lies in, and the place as it is spelt from there.
    fn beneath<'p>(&self, place: &'p [u8]) -> Option<(&Root, &'p [u8])> {
        if place.first() != Some(&b'/') {
            return Some((self.workspace(), if place.is_empty() { b"." } else { place }));
        }
        let real = Path::new(OsStr::from_bytes(place));
        let root = &self.holder(real)?.root;
        let below = real.strip_prefix(&root.real).ok()?.as_os_str().as_bytes();
        Some((root, if below.is_empty() { b"." } else { below }))
    }

    /// Fails when a rule keeps tools from the file with this real path.
    fn check_open(&self, real: &Path, access: Files, asked: &str) -> Result<(), Fault> {
        closed::check(&self.closed, real, &self.reals, access, asked)
    }

    /// Fails when a rule keeps tools from looking into what is here.
    pub(crate) fn check_readable(&self, place: &[u8], path: &str) -> Result<(), Fault> {
        self.check_open(&self.real_of(place), Files::Read, path)
    }

    /// May what is here be looked into, as far as rules go?
    fn may_read(&self, place: &[u8]) -> bool {
        self.closed.is_empty() || self.check_readable(place, "").is_ok()
    }

    fn open_asked(&self, asked: &Asked, flags: OFlags) -> Result<OwnedFd, Errno> {
        open_beneath(&self.roots[asked.root].root, asked.relative.as_str(), flags, INSIDE)
    }

    /// Fails when the tool did not declare what it is about to do.
    pub(crate) fn needs(&self, access: Files) -> Result<(), Fault> {
        if self.access >= access {
            return Ok(());
        }
        Err(Fault::refused(
            "needs_not_declared",
            "the tool reached for files it did not declare",
            "Declare `needs.files` in the tool's definition.",
        ))
    }

    /// Opens a directory that files are put into, from where `asked` is looked up; none when it does not exist.
    pub(crate) fn open_parent(&self, asked: &Asked, relative: &str, path: &str) -> Result<Option<OpenDir>, Fault> {
        let root = &self.roots[asked.root].root;
        let fd = match open_beneath(root, relative, OFlags::RDONLY | OFlags::DIRECTORY, INSIDE) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(|e| fault::from_errno(e, path))?,
        };
        let stat = rustix::fs::fstat(&fd).map_err(|e| fault::from_errno(e, path))?;
        let place = self.place(&fd, &stat, path)?;
        Ok(Some(OpenDir { fd, place, workspace: self.clone() }))
    }

    /// Where a path that ends in a link leads, if that is inside.
    pub(crate) fn follow(&self, place: &[u8], path: &str) -> Result<Vec<u8>, Fault> {
        let (root, at) = self.beneath(place).ok_or_else(|| fault::outside(path))?;
        let fd = open_beneath(root, at, OFlags::PATH, INSIDE).map_err(|e| fault::from_errno(e, path))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| fault::from_errno(e, path))?;
        self.place(&fd, &stat, path)
    }

    /// Fails when nobody may write there, whoever asks.
    pub(crate) fn check_writable(&self, place: &[u8], path: &str) -> Result<(), Fault> {
        let real = self.real_of(place);
        let mut holders = self.roots.iter().filter(|opened| real.starts_with(&opened.root.real)).peekable();
        holders.peek().ok_or_else(|| fault::outside(path))?;
        if !holders.any(|opened| opened.access >= Files::Write) {
            return Err(fault::read_only(path));
        }
        // Every open directory has its protected names, also one that holds another.
        let mut spelt = self.reals.iter().filter_map(|root| real.strip_prefix(root).ok());
        let is_named = |name: &PathBuf| match name.is_absolute() {
            true => starts_with_ignoring_case(&real, name),
            false => spelt.clone().any(|below| starts_with_ignoring_case(below, name)),
        };
        let is_git = |below: &Path| below.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"));
        let ours = real.file_name().is_some_and(|name| is_unfinished(name.as_bytes()));
        let named = self.workspace().names.iter().any(is_named);
        if named || ours || spelt.any(is_git) || self.is_hidden(&real) {
            return Err(fault::protected(path));
        }
        self.check_open(&real, Files::Write, path)
    }

    /// Where in the workspace an opened thing is. What moved out of it meanwhile, or is hidden, is refused.
    fn place(&self, fd: &OwnedFd, stat: &Stat, path: &str) -> Result<Vec<u8>, Fault> {
        let mut real = real_path(fd).map_err(|_| fault::wall_missing("/proc"))?.into_os_string().into_vec();
        // The kernel marks the path of a thing that was replaced or removed since it was opened. A thing may also be
        // called that, and then its name leads to it.
        if let Some(before) = real.strip_suffix(b" (deleted)") {
            let same = rustix::fs::statat(CWD, real.as_slice(), AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|now| (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino));
            if !same {
                real.truncate(before.len());
            }
        }
        let real = Path::new(OsStr::from_bytes(&real));
        if self.holder(real).is_none() {
            return Err(fault::outside(path));
        }
        if self.is_hidden(real) {
            return Err(fault::protected(path));
        }
        Ok(self.place_at(real))
    }

    fn is_hidden(&self, real: &Path) -> bool {
        self.workspace().hidden.iter().any(|hidden| real.starts_with(hidden))
    }

    /// The names in this directory that are not listed.
    fn hidden_in(&self, place: &[u8]) -> Vec<&[u8]> {
        let dir = self.real_of(place);
        let beside = self.workspace().hidden.iter().filter(|hidden| hidden.parent() == Some(dir.as_path()));
        beside.filter_map(|hidden| hidden.file_name()).map(OsStr::as_bytes).collect()
    }
}

/// The one place where a path is resolved.
fn open_beneath<P: rustix::path::Arg + Copy>(
    root: &Root,
    path: P,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    // The kernel takes no other flags beside this one.
    let flags = if flags.contains(OFlags::PATH) { flags | OFlags::CLOEXEC } else { flags | ALWAYS };
    for _ in 0..LOOKUPS {
        match rustix::fs::openat2(&root.dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            settled => return settled,
        }
    }
    Err(Errno::AGAIN)
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("roots", &self.reals).field("access", &self.access).finish()
    }
}

/// What a path led to.
pub(crate) enum Node {
    File(OpenFile),
    Dir(OpenDir),
}

/// A regular file, opened for reading.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// Where it is, relative to the workspace.
    pub(crate) place: Vec<u8>,
    pub(crate) stat: Stat,
}

impl OpenFile {
    pub(crate) fn path(&self) -> String {
        shown(&self.place)
    }

    pub(crate) fn size(&self) -> u64 {
        size(&self.stat)
    }
}

/// A directory, opened for listing.
pub(crate) struct OpenDir {
    pub(crate) fd: OwnedFd,
    /// Where it is, relative to the workspace.
    pub(crate) place: Vec<u8>,
    workspace: Workspace,
}

impl OpenDir {
    pub(crate) fn path(&self) -> String {
        shown(&self.place)
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Where an entry is, relative to the workspace.
    pub(crate) fn place_of(&self, name: &[u8]) -> Vec<u8> {
        let mut place = Vec::with_capacity(self.place.len() + 1 + name.len());
        place.extend_from_slice(&self.place);
        if !place.is_empty() {
            place.push(b'/');
        }
        place.extend_from_slice(name);
        place
    }

    /// Calls `each` with every entry and its kind, in no order. The buffer is scratch space.
    pub(crate) fn list(
        &self,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(&CStr, FileType) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let hidden = self.workspace.hidden_in(&self.place);
        buffer.clear();
        buffer.reserve(LISTING);
        let mut entries = RawDir::new(&self.fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|e| fault::from_errno(e, &self.path()))?;
            let name = entry.file_name();
            let raw = name.to_bytes();
            if matches!(raw, b"." | b"..") || is_unfinished(raw) || hidden.contains(&raw) {
                continue;
            }
            let kind = match entry.file_type() {
                // Some filesystems do not say.
                FileType::Unknown => self.stat(name).map_or(FileType::Unknown, |s| FileType::from_raw_mode(s.st_mode)),
                known => known,
            };
            each(name, kind)?;
        }
        Ok(())
    }

    /// Removes files that a writer was putting together when it was killed. Only for whoever holds the directory: any
    /// that is there then is nobody's.
    pub(crate) fn sweep(&self) {
        let mut left: Vec<CString> = Vec::new();
        let mut buffer = Vec::with_capacity(LISTING);
        let mut entries = RawDir::new(&self.fd, buffer.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            if entry.file_type() == FileType::RegularFile && is_unfinished(entry.file_name().to_bytes()) {
                left.push(entry.file_name().to_owned());
            }
        }
        for name in left {
            // What cannot be removed now is tried again by the next writer.
            let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
        }
    }

    /// Looks at an entry itself, not at what it may lead to.
    pub(crate) fn stat(&self, name: &CStr) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Opens a regular file that was listed here; none when it is something else by now, or nobody is to read it.
    pub(crate) fn open_entry(&self, name: &CStr) -> Result<Option<(File, Stat)>, Errno> {
        if !self.workspace.may_read(&self.place_of(name.to_bytes())) {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | ALWAYS;
        let fd = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Ok(None),
            opened => opened?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(regular.then(|| (File::from(fd), stat)))
    }
}

/// How many bytes of a directory are read at once.
const LISTING: usize = 32 * 1024;

const UNFINISHED: (&str, &str) = (".toolgate-", ".tmp");

/// The name of a file that is being put together; `chance` makes it one that nobody can guess.
pub(crate) fn unfinished_name(chance: u128) -> String {
    format!("{}{chance:032x}{}", UNFINISHED.0, UNFINISHED.1)
}

/// Such files are no part of the workspace: they are not listed, and not written by name.
fn is_unfinished(name: &[u8]) -> bool {
    let middle = name.strip_prefix(UNFINISHED.0.as_bytes()).and_then(|rest| rest.strip_suffix(UNFINISHED.1.as_bytes()));
    middle.is_some_and(|middle| middle.len() == 32 && middle.iter().all(u8::is_ascii_hexdigit))
}

/// The size of a file.
pub(crate) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Tries the one call everything here rests on. A filter in front of the kernel may answer for it.
fn probe(dir: &OwnedFd) -> Result<(), Fault> {
    match rustix::fs::openat2(dir, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), INSIDE) {
        Ok(_) => Ok(()),
        Err(Errno::NOSYS | Errno::PERM) => Err(fault::wall_missing("openat2")),
        Err(errno) => Err(IO_ERROR.failed(format!("cannot open the workspace: {errno}"), "Ask the operator.")),
    }
}

/// The path the kernel knows an opened thing by.
fn real_path(fd: impl AsFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let path = rustix::fs::readlinkat(CWD, link, Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

/// The paths, and for those that are absolute what they lead to: they may be spelt through a link.
fn with_real_paths(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let real: Vec<_> = paths.iter().filter(|path| path.is_absolute()).filter_map(|path| resolve(path)).collect();
    paths.extend(real);
    paths
}

fn resolve(path: &Path) -> Option<PathBuf> {
    let fd = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    real_path(fd).ok()
}

fn starts_with_ignoring_case(path: &Path, prefix: &Path) -> bool {
    let mut parts = path.components();
    prefix
        .components()
        .all(|wanted| parts.next().is_some_and(|part| part.as_os_str().eq_ignore_ascii_case(wanted.as_os_str())))
}

#[cfg(test)]
mod tests {
    use super::{super::desk::Desk, *};

    fn workspace(desk: &Desk) -> Workspace {
        Workspace::open(&desk.at(""), Protected::default()).unwrap()
    }

    #[test]
    fn what_was_listed_and_is_a_link_by_now_is_not_entered() {
        let desk = Desk::with(&[("d/e/x", "")]);
        desk.link("l", "d");
        let workspace = workspace(&desk);
        assert!(workspace.open_listed(b"d/e").is_ok() && workspace.open_listed(b"").is_ok());
        for place in [b"l".as_slice(), b"l/e"] {
            assert_eq!(workspace.open_listed(place).err(), Some(Errno::LOOP));
        }
        let root = workspace.open_dir(".").unwrap();
        assert!(root.open_entry(c"l").unwrap().is_none());
    }

    #[test]
    fn a_file_that_was_replaced_since_it_was_opened_keeps_its_name() {
        let desk = Desk::with(&[("a", "old"), ("b (deleted)", "")]);
        let workspace = workspace(&desk);
        let fd = open_beneath(workspace.workspace(), "a", OFlags::RDONLY, INSIDE).unwrap();
        let stat = rustix::fs::fstat(&fd).unwrap();
        desk.replace("a", "new");
        assert_eq!(workspace.place(&fd, &stat, "a").unwrap(), b"a");
        assert_eq!(workspace.open_file("b (deleted)").unwrap().path(), "b (deleted)");
    }

    #[test]
    fn a_file_that_was_moved_out_since_it_was_opened_is_outside() {
        let (desk, other) = (Desk::with(&[("a", "")]), Desk::new());
        let workspace = workspace(&desk);
        let fd = open_beneath(workspace.workspace(), "a", OFlags::RDONLY, INSIDE).unwrap();
        let stat = rustix::fs::fstat(&fd).unwrap();
        std::fs::rename(desk.at("a"), other.at("a")).unwrap();
        assert_eq!(workspace.place(&fd, &stat, "a").unwrap_err().code, "path_outside_workspace");
    }

    #[test]
    fn the_kernel_s_words_become_faults_that_help() {
        for (errno, code) in [
            (Errno::XDEV, "path_outside_workspace"),
            (Errno::LOOP, "path_outside_workspace"),
            (Errno::AGAIN, "path_outside_workspace"),
            (Errno::NOSYS, "wall_missing"),
            (Errno::NXIO, "not_a_regular_file"),
            (Errno::NAMETOOLONG, "bad_path"),
        ] {
            let fault = fault::from_errno(errno, "p");
            assert_eq!((fault.kind, &*fault.code), (toolgate_contract::FaultKind::Refused, code));
        }
        for (errno, code) in [
            (Errno::NOENT, "not_found"),
            (Errno::ACCESS, "no_access"),
            (Errno::ROFS, "no_access"),
            (Errno::ISDIR, "is_a_directory"),
            (Errno::NOTDIR, "not_a_directory"),
            (Errno::NOSPC, "no_space"),
            (Errno::IO, "io_error"),
        ] {
            let fault = fault::from_errno(errno, "p");
            assert_eq!((fault.kind, &*fault.code), (toolgate_contract::FaultKind::Failed, code));
        }
        assert!(fault::from_errno(Errno::NOSYS, "p").message.contains("`openat2`"));
    }
}
