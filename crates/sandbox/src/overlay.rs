//! What a room wrote beside its workspace: a list to look at, and a way to take it over.
//!
//! The kernel keeps the writes of an overlay in a directory of their own. A file there takes the place of the one below
//! it, a device with the number 0 stands for a file that was removed, and a directory with a mark on it hides what is
//! below it. Whoever was in the room chose every name and every byte of this, so nothing here follows a link: a
//! directory is a handle, a name is looked up in its directory, and whatever would lead elsewhere is an error.
//!
//! Nothing has to be done to discard the changes: they go with the room.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, chownat, fchmod,
        fchown, fgetxattr, fstat, futimens, mkdirat, openat, openat2, readlinkat, renameat, statat, symlinkat,
        unlinkat,
    },
    io::Errno,
};
use toolgate_contract::Digest;

/// How deep a tree may be. Each level holds a descriptor while what is in it is looked at.
const DEEPEST: usize = 128;
/// How many changes are read. More than that nobody looks at.
const MOST: usize = 1_000_000;

/// What a room has changed in a workspace that is laid over.
#[derive(Debug)]
pub struct Changes {
    upper: OwnedFd,
    workspace: OwnedFd,
    list: Vec<Change>,
}

/// One path that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What happened to it.
    pub how: How,
    /// What is there now; of a removed path, what was there.
    pub what: What,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// There was nothing.
    Added,
    /// There was something else.
    Changed,
    /// There is nothing any more. Of a directory only the directory is told.
    Removed,
}

impl How {
    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A file with contents.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Special,
}

impl What {
    fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

/// A change that was not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// Why not.
    pub why: String,
}

impl Changes {
    /// Reads what an overlay has kept in `upper` of changes to `workspace`. Nobody must be in the room any more.
    pub fn read(upper: &Path, workspace: &Path) -> io::Result<Self> {
        let open = |path| openat2(CWD, path, DIRECTORY, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let (upper, workspace) = (open(upper)?, open(workspace)?);
        let mut list = Vec::new();
        walk(&upper, Some(&workspace), Path::new(""), Depth { left: DEEPEST, hides: false }, &mut list)?;
        Ok(Self { upper, workspace, list })
    }

    /// Every path that is not as it was: a directory before what is in it, and otherwise by name.
    pub fn list(&self) -> &[Change] {
        &self.list
    }

    /// Makes the workspace what the room saw, and says what it left as it was.
    ///
    /// What is protected is left, and so are names that would bring it about: a link in place of a directory above it.
    /// So is everything that is no file, directory or link, and what lies behind another mount. Files are written whole
    /// before they take their place, without set-id bits; two names of one file become two files.
    pub fn commit(&self, protected: &[String]) -> io::Result<Vec<Refused>> {
        let owner = fstat(&self.workspace)?;
        let commit = Commit { changes: self, protected: protected.iter().map(PathBuf::from).collect(), owner };
        let mut refused = BTreeMap::new();
        for change in &self.list {
            if let Err(why) = commit.admit(change).and_then(|()| commit.apply(change).map_err(|error| told(&error))) {
                refused.insert(&change.path, why);
            }
        }
        // Last, and from the inside out: a directory that nobody may write can be written until then.
        let directories = self.list.iter().rev().filter(|change| change.what == What::Directory);
        for change in directories.filter(|change| change.how != How::Removed) {
            if !refused.contains_key(&change.path)
                && let Err(error) = commit.finish_directory(&change.path)
            {
                refused.insert(&change.path, told(&error));
            }
        }
        Ok(refused.into_iter().map(|(path, why)| Refused { path: path.clone(), why }).collect())
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Nothing that is opened here is waited for, and no link is followed.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// Beneath the workspace, by no link, and not onto another mount: that would be somebody else's.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Where in the tree a walk is.
#[derive(Debug, Clone, Copy)]
struct Depth {
    left: usize,
    /// What is below in the workspace is hidden here.
    hides: bool,
}

/// Adds the changes of one directory and of those in it.
fn walk(upper: &OwnedFd, below: Option<&OwnedFd>, at: &Path, depth: Depth, list: &mut Vec<Change>) -> io::Result<()> {
    if depth.left == 0 {
        return Err(io::Error::other(format!("`{}` is deeper than {DEEPEST} directories", shown(at))));
    }
    let names = names(upper)?;
    for name in &names {
        let path = at.join(name);
        let above = statat(upper, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let was = below.and_then(|below| statat(below, name, AtFlags::SYMLINK_NOFOLLOW).ok());
        if is_whiteout(upper, name, &above)? {
            list.extend(was.map(|was| Change { path, how: How::Removed, what: What::of(&was) }));
            continue;
        }
        let what = What::of(&above);
        let differs = match (&was, below) {
            (Some(was), Some(below)) => differs(upper, below, name, &above, was)?,
            _ => true,
        };
        if differs {
            let how = if was.is_some() { How::Changed } else { How::Added };
            list.push(Change { path: path.clone(), how, what });
        }
        if list.len() > MOST {
            return Err(io::Error::other(format!("there are more than {MOST} changes")));
        }
        if what == What::Directory {
            let inner = openat(upper, name, DIRECTORY, Mode::empty())?;
            // A directory on another mount is not what the overlay saw there.
            let beneath = below.and_then(|below| openat2(below, name, DIRECTORY, Mode::empty(), BENEATH).ok());
            let hides = depth.hides || is_opaque(&inner);
            walk(&inner, beneath.as_ref(), &path, Depth { left: depth.left - 1, hides }, list)?;
        }
    }
    if let Some(below) = below.filter(|_| depth.hides) {
        for name in self::names(below)?.difference(&names) {
            let was = statat(below, name, AtFlags::SYMLINK_NOFOLLOW)?;
            list.push(Change { path: at.join(name), how: How::Removed, what: What::of(&was) });
        }
    }
    Ok(())
}

/// The names in a directory, sorted.
fn names(dir: &OwnedFd) -> io::Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.insert(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// Does this stand for a name that was removed?
fn is_whiteout(dir: &OwnedFd, name: &OsStr, stat: &Stat) -> io::Result<bool> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind == FileType::CharacterDevice {
        return Ok(stat.st_rdev == 0);
    }
    // The other spelling, for file systems without devices.
    if kind != FileType::RegularFile || stat.st_size != 0 {
        return Ok(false);
    }
    match openat(dir, name, FILE, Mode::empty()) {
        Ok(file) => Ok(fgetxattr(&file, c"user.overlay.whiteout", &mut [0; 4]).is_ok()),
        Err(Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_opaque(dir: &OwnedFd) -> bool {
    let mut mark = [0; 4];
    fgetxattr(dir, c"user.overlay.opaque", &mut mark).is_ok_and(|length| mark[..length.min(1)] == *b"y")
}

/// Is this another thing than what it lies over? What was only touched is the same.
fn differs(upper: &OwnedFd, below: &OwnedFd, name: &OsStr, now: &Stat, was: &Stat) -> io::Result<bool> {
    let what = What::of(now);
    if what != What::of(was) {
        return Ok(true);
    }
    Ok(match what {
        What::Link => readlinkat(upper, name, Vec::new())? != readlinkat(below, name, Vec::new())?,
        What::Directory => bits(now) != bits(was),
        What::File => bits(now) != bits(was) || now.st_size != was.st_size || !same_bytes(upper, below, name)?,
        What::Special => true,
    })
}

fn bits(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

fn same_bytes(upper: &OwnedFd, below: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let open = |dir: &OwnedFd| openat(dir, name, FILE, Mode::empty()).map(File::from);
    // What cannot be read cannot be told to be the same.
    let (Ok(mut now), Ok(mut was)) = (open(upper), open(below)) else { return Ok(false) };
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let read = now.read(&mut left)?;
        if was.read_exact(&mut right[..read]).is_err() || left[..read] != right[..read] {
            return Ok(false);
        }
        if read == 0 {
            return Ok(was.read(&mut right)? == 0);
        }
    }
}

struct Commit<'a> {
    changes: &'a Changes,
    protected: Vec<PathBuf>,
    owner: Stat,
}

impl Commit<'_> {
    /// May this path become what it is in the room?
    fn admit(&self, change: &Change) -> Result<(), String> {
        let path = &change.path;
        if self.protected.iter().any(|name| starts_with(path, name)) {
            return Err("it is protected".into());
        }
        let mut beneath = self.protected.iter().filter(|name| starts_with(name, path)).peekable();
        let is_above = beneath.peek().is_some();
        match (change.how, change.what) {
            (_, What::Special) if change.how != How::Removed => Err("it is a pipe, a socket or a device".into()),
            (How::Removed, _) if beneath.any(|name| self.exists(name)) => Err("something in it is protected".into()),
            (How::Added | How::Changed, What::File | What::Link) if is_above => {
                Err("a protected name lies beneath it".into())
            }
            _ => Ok(()),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.parent(&self.changes.workspace, path)
            .and_then(|(dir, name)| Ok(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
            .is_ok()
    }

    fn apply(&self, change: &Change) -> io::Result<()> {
        let (dir, name) = self.parent(&self.changes.workspace, &change.path)?;
        if change.how == How::Removed {
            return remove(&dir, name, DEEPEST);
        }
        let (from, _) = self.parent(&self.changes.upper, &change.path)?;
        let there = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| What::of(&stat));
        match change.what {
            What::Directory if there == Some(What::Directory) => Ok(()),
            What::Directory => {
                if there.is_some() {
                    unlinkat(&dir, name, AtFlags::empty())?;
                }
                mkdirat(&dir, name, Mode::RWXU)?;
                self.give(&dir, name)
            }
            What::File | What::Link | What::Special => {
                let unfinished = unfinished(name);
                let put = || {
                    match change.what {
                        What::Link => self.put_link(&from, name, &dir, &unfinished),
                        _ => self.put_file(&from, name, &dir, &unfinished),
                    }?;
                    if there == Some(What::Directory) {
                        remove(&dir, name, DEEPEST)?;
                    }
                    Ok(renameat(&dir, &unfinished, &dir, name)?)
                };
                put().inspect_err(|_| {
                    // It may not have been made at all.
                    let _ = unlinkat(&dir, &unfinished, AtFlags::empty());
                })
            }
        }
    }

    fn put_link(&self, from: &OwnedFd, name: &OsStr, dir: &OwnedFd, unfinished: &OsStr) -> io::Result<()> {
        symlinkat(readlinkat(from, name, Vec::new())?, dir, unfinished)?;
        self.give(dir, unfinished)
    }

    fn put_file(&self, from: &OwnedFd, name: &OsStr, dir: &OwnedFd, unfinished: &OsStr) -> io::Result<()> {
        let from = openat(from, name, FILE, Mode::empty())?;
        let stat = fstat(&from)?;
        if What::of(&stat) != What::File {
            return Err(Errno::INVAL.into());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut to = File::from(openat(dir, unfinished, flags, Mode::RUSR | Mode::WUSR)?);
        io::copy(&mut File::from(from), &mut to)?;
        if let Some((uid, gid)) = self.whose() {
            fchown(&to, Some(uid), Some(gid))?;
        }
        // After the owner, which would take bits away.
        fchmod(&to, Mode::from_raw_mode(stat.st_mode & 0o777))?;
        let time = |seconds: i64, nanoseconds: u64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds.cast_signed() };
        let times = Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
        };
        Ok(futimens(&to, &times)?)
    }

    /// Gives a directory the mode it has in the room. Set-id bits it had stay, and it gets no others.
    fn finish_directory(&self, path: &Path) -> io::Result<()> {
        let open = |root: &OwnedFd| openat2(root, path, DIRECTORY, Mode::empty(), BENEATH);
        let (now, dir) = (fstat(open(&self.changes.upper)?)?, open(&self.changes.workspace)?);
        let kept = fstat(&dir)?.st_mode & 0o6000;
        Ok(fchmod(&dir, Mode::from_raw_mode(kept | (now.st_mode & 0o1777)))?)
    }

    /// What is new belongs to whom the workspace belongs to. Only root can say so, and for anybody else it is so.
    fn whose(&self) -> Option<(Uid, Gid)> {
        let is_root = rustix::process::geteuid().is_root();
        is_root.then(|| (Uid::from_raw(self.owner.st_uid), Gid::from_raw(self.owner.st_gid)))
    }

    fn give(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let Some((uid, gid)) = self.whose() else { return Ok(()) };
        Ok(chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The directory a path is in, and its name there.
    fn parent<'p>(&self, root: &OwnedFd, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let dir = match path.parent() {
            Some(parent) if parent != Path::new("") => openat2(root, parent, DIRECTORY, Mode::empty(), BENEATH)?,
            _ => root.try_clone()?,
        };
        Ok((dir, name))
    }
}

/// Removes a name and everything beneath it, and nothing on another mount.
fn remove(dir: &OwnedFd, name: &OsStr, depth: usize) -> io::Result<()> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if What::of(&stat) != What::Directory {
        return Ok(unlinkat(dir, name, AtFlags::empty())?);
    }
    if depth == 0 {
        return Err(Errno::NAMETOOLONG.into());
    }
    let inner = openat2(dir, name, DIRECTORY, Mode::empty(), BENEATH)?;
    for entry in names(&inner)? {
        remove(&inner, &entry, depth - 1)?;
    }
    Ok(unlinkat(dir, name, AtFlags::REMOVEDIR)?)
}

/// A name that nobody has, for what is not finished yet. Of this shape no tool lists or writes a file.
fn unfinished(name: &OsStr) -> OsString {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let chance = Digest::of(&[name.as_bytes(), &now.to_le_bytes()].concat()).hex();
    format!(".toolgate-{}.tmp", &chance[..32]).into()
}

/// Is this path that name, or beneath it? Upper and lower case count as the same, as some file systems have it.
fn starts_with(path: &Path, name: &Path) -> bool {
    let mut parts = path.components();
    name.components()
        .filter(|part| *part != Component::CurDir)
        .all(|part| parts.next().is_some_and(|own| own.as_os_str().eq_ignore_ascii_case(part.as_os_str())))
}

fn told(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::XDEV) => "it lies on another mount".into(),
        Some(Errno::LOOP) => "a link leads to it".into(),
        Some(Errno::NOENT | Errno::NOTDIR) => "the directory it is in is not there".into(),
        _ => error.to_string(),
    }
}

fn shown(path: &Path) -> String {
    let text: String = path.to_string_lossy().chars().take(80).collect();
    text.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    };

    use rustix::fs::{XattrFlags, mknodat, setxattr};
    use tempfile::TempDir;

    use super::*;

    /// A workspace, and what a room wrote beside it.
    struct Scene(TempDir);

    impl Scene {
        fn new() -> Self {
            let scene = Self(tempfile::tempdir().unwrap());
            for dir in ["upper", "workspace", "outside"] {
                fs::create_dir(scene.0.path().join(dir)).unwrap();
            }
            fs::write(scene.0.path().join("outside/canary"), "sings").unwrap();
            scene
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        /// Puts a file, with its directories; a path with a slash at the end is a directory.
        fn put(&self, path: &str, text: &str) -> &Self {
            let at = self.at(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            if path.ends_with('/') {
                fs::create_dir_all(at).unwrap()
            } else {
                fs::write(at, text).unwrap()
            }
            self
        }

        fn link(&self, path: &str, target: &str) -> &Self {
            symlink(target, self.at(path)).unwrap();
            self
        }

        fn mode(&self, path: &str, mode: u32) -> &Self {
            fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
            self
        }

        /// As the kernel notes that a name was removed.
        fn whiteout(&self, path: &str) -> &Self {
            fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
            mknodat(CWD, self.at(path), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
            self
        }

        /// As the kernel notes that a directory hides what is below it.
        fn opaque(&self, path: &str) -> &Self {
            fs::create_dir_all(self.at(path)).unwrap();
            setxattr(self.at(path), c"user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
            self
        }

        fn changes(&self) -> Changes {
            Changes::read(&self.at("upper"), &self.at("workspace")).unwrap()
        }

        /// The changes, a word each.
        fn listed(&self) -> Vec<String> {
            let tell = |change: &Change| {
                let what = match change.what {
                    What::File => "",
                    What::Directory => "/",
                    What::Link => "@",
                    What::Special => "=",
                };
                format!("{} {}{what}", change.how.as_str(), change.path.display())
            };
            self.changes().list().iter().map(tell).collect()
        }

        /// Takes the changes over, and gives what was refused.
        fn commit(&self, protected: &[&str]) -> Vec<String> {
            let protected: Vec<String> = protected.iter().map(|name| (*name).to_owned()).collect();
            let refused = self.changes().commit(&protected).unwrap();
            assert_eq!(fs::read_to_string(self.at("outside/canary")).unwrap(), "sings");
            assert_eq!(fs::read_dir(self.at("outside")).unwrap().count(), 1, "something came to be outside");
            refused.into_iter().map(|refused| format!("{}: {}", refused.path.display(), refused.why)).collect()
        }

        /// Everything in the workspace: a path, and what is in it or where it leads.
        fn workspace(&self) -> Vec<String> {
            let root = self.at("workspace");
            let mut all = Vec::new();
            let mut left = vec![root.clone()];
            while let Some(dir) = left.pop() {
                for entry in fs::read_dir(&dir).unwrap() {
                    let path = entry.unwrap().path();
                    let name = path.strip_prefix(&root).unwrap().display().to_string();
                    let meta = fs::symlink_metadata(&path).unwrap();
                    if meta.is_symlink() {
                        all.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
                    } else if meta.is_dir() {
                        all.push(format!("{name}/"));
                        left.push(path);
                    } else {
                        all.push(format!("{name}={}", fs::read_to_string(&path).unwrap()));
                    }
                }
            }
            all.sort();
            all
        }
    }

    #[test]
    fn what_is_added_changed_and_removed_is_listed_and_taken_over() {
        let scene = Scene::new();
        scene.put("workspace/kept", "k").put("workspace/changed", "old").put("workspace/gone", "g");
        scene.put("workspace/dir/inner", "i").put("workspace/whole/a/b", "b");
        scene.put("upper/changed", "new").put("upper/fresh/deep/file", "f").put("upper/dir/other", "o");
        scene.whiteout("upper/gone").whiteout("upper/dir/inner").whiteout("upper/whole").link("upper/way", "../kept");
        let expected = [
            "changed changed",
            "removed dir/inner",
            "added dir/other",
            "added fresh/",
            "added fresh/deep/",
            "added fresh/deep/file",
            "removed gone",
            "added way@",
            "removed whole/",
        ];
        assert_eq!(scene.listed(), expected);
        assert_eq!(scene.commit(&[]), [""; 0]);
        let now = [
            "changed=new",
            "dir/",
            "dir/other=o",
            "fresh/",
            "fresh/deep/",
            "fresh/deep/file=f",
            "kept=k",
            "way -> ../kept",
        ];
        assert_eq!(scene.workspace(), now);
    }

    #[test]
    fn a_directory_that_hides_what_is_below_it_takes_its_place() {
        let scene = Scene::new();
        scene.put("workspace/d/old", "1").put("workspace/d/both", "1").put("workspace/d/sub/old", "1");
        scene.put("upper/d/both", "1").put("upper/d/new", "2").put("upper/d/sub/new", "2").opaque("upper/d");
        assert_eq!(scene.listed(), ["added d/new", "added d/sub/new", "removed d/sub/old", "removed d/old"]);
        assert_eq!(scene.commit(&[]), [""; 0]);
        assert_eq!(scene.workspace(), ["d/", "d/both=1", "d/new=2", "d/sub/", "d/sub/new=2"]);
    }

    #[test]
    fn one_kind_takes_the_place_of_another() {
        let scene = Scene::new();
        scene.put("workspace/file", "f").put("workspace/dir/x/y", "y").put("workspace/linked", "l");
        scene.link("workspace/link", "../outside").put("workspace/flat/z", "z");
        scene.put("upper/file/now", "a").put("upper/dir", "flat").link("upper/linked", "file").link("upper/flat", "..");
        scene.put("upper/link/canary", "in the workspace").opaque("upper/link").opaque("upper/file");
        assert_eq!(scene.commit(&[]), [""; 0]);
        let now = [
            "dir=flat",
            "file/",
            "file/now=a",
            "flat -> ..",
            "link/",
            "link/canary=in the workspace",
            "linked -> file",
        ];
        assert_eq!(scene.workspace(), now);
    }

    #[test]
    fn what_was_only_touched_is_no_change() {
        let scene = Scene::new();
        scene.put("workspace/a", "same").put("upper/a", "same").put("workspace/d/", "").put("upper/d/", "");
        scene.link("workspace/l", "a").link("upper/l", "a").put("upper/empty", "").whiteout("upper/never");
        assert_eq!(scene.listed(), ["added empty"]);
        scene.mode("upper/a", 0o755).mode("upper/d", 0o700).mode("workspace/d", 0o2755);
        assert_eq!(scene.listed(), ["changed a", "changed d/", "added empty"]);
        assert_eq!(scene.commit(&[]), [""; 0]);
        let mode = |path: &str| fs::metadata(scene.at(path)).unwrap().mode() & 0o7777;
        assert_eq!((mode("workspace/a"), mode("workspace/d")), (0o755, 0o2700));
    }

    #[test]
    fn protected_names_stay_and_nothing_comes_to_stand_for_them() {
        let scene = Scene::new();
        scene.put("workspace/.git/config", "ours").put("workspace/.git/index", "1").put("workspace/gone/key", "k");
        scene
            .put("upper/.git/config", "theirs")
            .put("upper/.git/hooks/pre-commit", "theirs")
            .put("upper/.git/index", "2");
        scene.put("upper/.GIT/Config", "theirs").link("upper/.cursor", "trap").put("upper/trap/mcp.json", "theirs");
        scene.whiteout("upper/gone").put("upper/.vscode", "a file");
        let protected = [".git/config", ".git/hooks", ".cursor/mcp.json", ".vscode/mcp.json", "gone/key"];
        let expected = [
            ".GIT/Config: it is protected",
            ".cursor: a protected name lies beneath it",
            ".git/config: it is protected",
            ".git/hooks: it is protected",
            ".git/hooks/pre-commit: it is protected",
            ".vscode: a protected name lies beneath it",
            "gone: something in it is protected",
        ];
        assert_eq!(scene.commit(&protected), expected);
        let now = [
            ".GIT/",
            ".git/",
            ".git/config=ours",
            ".git/index=2",
            "gone/",
            "gone/key=k",
            "trap/",
            "trap/mcp.json=theirs",
        ];
        assert_eq!(scene.workspace(), now);
    }

    /// F-35. Whatever the room wrote, a commit does not leave the workspace.
    #[test]
    fn no_link_is_followed_out_of_the_workspace() {
        let scene = Scene::new();
        // The room wrote into a directory. Meanwhile somebody put a link in its place on the machine.
        scene.put("upper/d/canary", "changed").put("upper/d/new", "new").whiteout("upper/e/canary");
        scene.link("workspace/d", "../outside").put("workspace/e/", "");
        let changes = scene.changes();
        fs::remove_dir(scene.at("workspace/e")).unwrap();
        scene.link("workspace/e", "../outside");
        changes.commit(&[]).unwrap();
        assert_eq!(fs::read_to_string(scene.at("outside/canary")).unwrap(), "sings");
        assert_eq!(fs::read_dir(scene.at("outside")).unwrap().count(), 1);
        // A link over a name leads nowhere either: it takes the place of the name.
        let scene = Scene::new();
        scene.link("workspace/way", "../outside/canary").put("upper/way", "changed");
        assert_eq!(scene.commit(&[]), [""; 0]);
        assert_eq!(scene.workspace(), ["way=changed"]);
    }

    #[test]
    fn a_file_with_two_names_outside_is_replaced_and_not_written_through() {
        let scene = Scene::new();
        fs::hard_link(scene.at("outside/canary"), scene.at("workspace/a")).unwrap();
        scene.put("upper/a", "changed").put("upper/b", "twice");
        fs::hard_link(scene.at("upper/b"), scene.at("upper/c")).unwrap();
        assert_eq!(scene.commit(&[]), [""; 0]);
        assert_eq!(scene.workspace(), ["a=changed", "b=twice", "c=twice"]);
        assert_eq!(fs::metadata(scene.at("workspace/b")).unwrap().nlink(), 1);
    }

    #[test]
    fn pipes_and_set_id_bits_are_not_taken_over() {
        let scene = Scene::new();
        mknodat(CWD, scene.at("upper/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        scene.put("upper/su", "x").mode("upper/su", 0o6755).put("upper/dir/", "").mode("upper/dir", 0o2775);
        assert_eq!(scene.listed(), ["added dir/", "added pipe=", "added su"]);
        assert_eq!(scene.commit(&[]), ["pipe: it is a pipe, a socket or a device"]);
        let mode = |path: &str| fs::metadata(scene.at(path)).unwrap().mode() & 0o7777;
        assert_eq!((mode("workspace/su"), mode("workspace/dir")), (0o755, 0o775));
    }

    #[test]
    fn a_directory_nobody_may_write_arrives_with_what_is_in_it() {
        let scene = Scene::new();
        scene.put("upper/shut/file", "x").mode("upper/shut", 0o555);
        assert_eq!(scene.commit(&[]), [""; 0]);
        assert_eq!(scene.workspace(), ["shut/", "shut/file=x"]);
        assert_eq!(fs::metadata(scene.at("workspace/shut")).unwrap().mode() & 0o777, 0o555);
        scene.mode("workspace/shut", 0o755).mode("upper/shut", 0o755);
    }

    #[test]
    fn a_tree_that_is_too_deep_is_an_error_and_not_a_crash() {
        let scene = Scene::new();
        scene.put(&format!("upper{}/x", "/d".repeat(DEEPEST + 1)), "x");
        let error = Changes::read(&scene.at("upper"), &scene.at("workspace")).unwrap_err();
        assert!(error.to_string().contains("deeper than"), "{error}");
    }

    #[test]
    fn names_that_are_no_text_are_names() {
        let scene = Scene::new();
        let name = OsStr::from_bytes(b"a\xff\n\x1b[2J");
        fs::write(scene.at("upper").join(name), "x").unwrap();
        assert_eq!(scene.changes().list(), [Change { path: name.into(), how: How::Added, what: What::File }]);
        assert_eq!(scene.commit(&[]), [""; 0]);
        assert_eq!(fs::read_to_string(scene.at("workspace").join(name)).unwrap(), "x");
    }
}
