//! A slot: a name in an opened directory that a file is put under, edited or removed from.
//!
//! The directory is opened and held, the name is used as it is, so nothing is ever written through a link: a file is
//! written beside its name and then renamed over it, within the held directory. That replaces the name and leaves the
//! old file as it was, also where another name outside the workspace leads to it.

#![expect(clippy::disallowed_methods, reason = "this file is the fence that the barred calls stay behind")]

use std::{fs::File, io::Write as _, thread, time::Duration};

use rustix::{
    fs::{AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid},
    io::Errno,
};
use toolgate_contract::{Fault, Files};

use super::{
    fault::{self, BUSY, CHANGED_MEANWHILE, IO_ERROR, PATH_IS_A_LINK},
    path::shown,
    text::brief,
    workspace::{Asked, OpenDir, Workspace, unfinished_name},
};
use crate::Cx;

/// What to do about directories on the way that do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingDirs {
    Fail,
    Create,
}

/// A name in a directory. While it is held, no other slot in that directory is.
pub(crate) struct Slot {
    dir: OpenDir,
    name: String,
    /// As the caller wrote it, for messages.
    asked: String,
}

/// How long to wait for whoever holds the directory, and in what steps.
const LOCK_TRIES: u32 = 2_000;
const LOCK_STEP: Duration = Duration::from_millis(5);

impl Slot {
    /// Finds the directory, makes sure that its name may be written to, and waits until nobody else changes files in it.
    pub(crate) fn take(cx: &Cx, path: &str, missing: MissingDirs) -> Result<Self, Fault> {
        let workspace = cx.workspace()?;
        workspace.needs(Files::Write)?;
        let asked = workspace.admit(path)?;
        let (parent, name) = asked.relative.rsplit_once('/').unwrap_or((".", &asked.relative));
        if matches!(name, "" | "." | "..") {
            return Err(fault::is_a_directory(path));
        }
        // By spelling first, so that a refused call has not made half of its directories.
        workspace.check_writable(&workspace.spelt(&asked), path)?;
        let dir = match (workspace.open_parent(&asked, parent, path)?, missing) {
            (Some(dir), _) => Some(dir),
            (None, MissingDirs::Create) => make_dirs(workspace, &asked, parent, path)?,
            (None, MissingDirs::Fail) => None,
        }
        .ok_or_else(|| fault::from_errno(Errno::NOENT, path))?;
        workspace.check_writable(&dir.place_of(name.as_bytes()), path)?;
        let slot = Self { dir, name: name.to_owned(), asked: brief(path).into_owned() };
        slot.lock(cx)?;
        Ok(slot)
    }

    /// Where it is, relative to the workspace.
    pub(crate) fn path(&self) -> String {
        shown(&self.place())
    }

    /// The regular file that has this name, or none. A directory, a link or a device is a fault.
    pub(crate) fn look(&self) -> Result<Option<Stat>, Fault> {
        let stat = match rustix::fs::statat(&self.dir.fd, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            looked => looked.map_err(|e| self.fault(e))?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(stat)),
            FileType::Directory => Err(fault::is_a_directory(&self.asked)),
            FileType::Symlink => Err(self.link_fault()),
            _ => Err(fault::not_a_regular_file(&self.asked)),
        }
    }

    /// Opens the regular file that has this name.
    pub(crate) fn open(&self) -> Result<(File, Stat), Fault> {
        self.look()?.ok_or_else(|| self.fault(Errno::NOENT))?;
        self.dir.workspace().check_readable(&self.place(), &self.asked)?;
        let name = std::ffi::CString::new(self.name.as_str()).map_err(|_| self.fault(Errno::INVAL))?;
        let opened = self.dir.open_entry(&name).map_err(|e| self.fault(e))?;
        opened.ok_or_else(|| fault::not_a_regular_file(&self.asked))
    }

    /// Puts `content` under this name, all of it or nothing. `current` is the file that has the name now.
    pub(crate) fn replace(&self, cx: &Cx, content: &[u8], current: Option<&Stat>) -> Result<(), Fault> {
        self.prepare(content, current)?.rename(cx)
    }

    /// The same, unless the file is no longer the one that `current` describes.
    pub(crate) fn replace_unchanged(&self, cx: &Cx, content: &[u8], current: &Stat) -> Result<(), Fault> {
        let prepared = self.prepare(content, Some(current))?;
        let now = self.look()?;
        if now.is_none_or(|now| state(&now) != state(current)) {
            return Err(CHANGED_MEANWHILE
                .failed(
                    format!("`{}` was changed by somebody else while it was edited", self.asked),
                    "Read the file again and repeat the edit.",
                )
                .retryable());
        }
        prepared.rename(cx)
    }

    /// Removes the name. Only a regular file goes.
    pub(crate) fn remove(&self, cx: &Cx) -> Result<Stat, Fault> {
        let stat = self.look()?.ok_or_else(|| self.fault(Errno::NOENT))?;
        cx.check()?;
        rustix::fs::unlinkat(&self.dir.fd, &self.name, AtFlags::empty()).map_err(|e| self.fault(e))?;
        rustix::fs::fsync(&self.dir.fd).map_err(|e| self.fault(e))?;
        Ok(stat)
    }

    fn place(&self) -> Vec<u8> {
        self.dir.place_of(self.name.as_bytes())
    }

    fn fault(&self, errno: Errno) -> Fault {
        fault::from_errno(errno, &self.asked)
    }

    /// The directory is locked rather than the file: a file is replaced by each change, and a lock on the one that is
    /// gone keeps nobody away from the one that came.
    fn lock(&self, cx: &Cx) -> Result<(), Fault> {
        for _ in 0..LOCK_TRIES {
            cx.check()?;
            match rustix::fs::flock(&self.dir.fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    self.dir.sweep();
                    return Ok(());
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => thread::sleep(LOCK_STEP),
                // A filesystem without locks still has the comparison right before the rename.
                Err(_) => return Ok(()),
            }
        }
        let message = format!("somebody else keeps the directory of `{}` locked", self.asked);
        Err(BUSY.failed(message, "Try again later.").retryable())
    }

    fn link_fault(&self) -> Fault {
        match self.dir.workspace().follow(&self.place(), &self.asked) {
            Ok(target) => PATH_IS_A_LINK.refused(
                format!("`{}` is a symbolic link", self.asked),
                format!("Name the file it leads to: `{}`.", brief(&shown(&target))),
            ),
            Err(fault) if fault::NOT_FOUND.is(&fault) => PATH_IS_A_LINK.refused(
                format!("`{}` is a symbolic link to nothing", self.asked),
                "Name the file itself, not a link to it.",
            ),
            Err(fault) => fault,
        }
    }

    fn prepare(&self, content: &[u8], current: Option<&Stat>) -> Result<Prepared<'_>, Fault> {
        let mut prepared = Prepared::create(self, if current.is_some() { 0o600 } else { 0o666 })?;
        let file = &mut prepared.file;
        file.write_all(content).map_err(|e| fault::from_io(&e, &self.asked))?;
        if let Some(stat) = current {
            // Only root can give files away. Anyone else owns the new file, as after any other editor.
            let _ = rustix::fs::fchown(&*file, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
            // Set-user-ID bits are not kept: they were given to the old content.
            let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
            rustix::fs::fchmod(&*file, mode).map_err(|e| self.fault(e))?;
        }
        rustix::fs::fsync(&*file).map_err(|e| self.fault(e))?;
        Ok(prepared)
    }
}

/// A file beside its name, complete and on disk, waiting to be renamed. Dropped before that, it is removed.
struct Prepared<'a> {
    slot: &'a Slot,
    name: String,
    file: File,
    renamed: bool,
}

impl<'a> Prepared<'a> {
    fn create(slot: &'a Slot, mode: u32) -> Result<Self, Fault> {
        let name = unguessable_name()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            rustix::fs::openat(&slot.dir.fd, &name, flags, Mode::from_raw_mode(mode)).map_err(|e| slot.fault(e))?;
        Ok(Self { slot, name, file: File::from(fd), renamed: false })
    }

    /// Writing may have taken long. A call that was stopped meanwhile has no effect any more.
    fn rename(mut self, cx: &Cx) -> Result<(), Fault> {
        cx.check()?;
        let dir = &self.slot.dir.fd;
        rustix::fs::renameat(dir, &self.name, dir, &self.slot.name).map_err(|e| self.slot.fault(e))?;
        self.renamed = true;
        rustix::fs::fsync(dir).map_err(|e| self.slot.fault(e))
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // There is nobody left to tell, and the name is nobody's.
            let _ = rustix::fs::unlinkat(&self.slot.dir.fd, &self.name, AtFlags::empty());
        }
    }
}

fn unguessable_name() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        IO_ERROR.failed(format!("the kernel gave no random bytes: {error}"), "Try again.").retryable()
    })?;
    Ok(unfinished_name(u128::from_le_bytes(bytes)))
}

/// What tells a file from a changed one without reading it.
fn state(stat: &Stat) -> impl PartialEq + use<> {
    ((stat.st_dev, stat.st_ino, stat.st_size), (stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec))
}

/// Opens a directory and makes what is missing on the way, one step at a time, each resolved from the root.
fn make_dirs(workspace: &Workspace, asked: &Asked, relative: &str, path: &str) -> Result<Option<OpenDir>, Fault> {
    let mut reached = workspace.open_parent(asked, ".", path)?;
    let mut so_far = String::with_capacity(relative.len());
    for name in relative.split('/').filter(|name| !name.is_empty()) {
        so_far.push_str(name);
        let mut next = workspace.open_parent(asked, &so_far, path)?;
        if let (None, Some(parent)) = (&next, &reached) {
            make_dir(parent, name, path)?;
            next = workspace.open_parent(asked, &so_far, path)?;
        }
        reached = next;
        so_far.push('/');
    }
    Ok(reached)
}

fn make_dir(parent: &OpenDir, name: &str, path: &str) -> Result<(), Fault> {
    parent.workspace().check_writable(&parent.place_of(name.as_bytes()), path)?;
    match rustix::fs::mkdirat(&parent.fd, name, Mode::from_raw_mode(0o777)) {
        // Somebody else made it, or it is a link to nothing; opening it tells.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(fault::from_errno(errno, path)),
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contract::Caps;

    use super::{super::desk::Desk, *};
    use crate::Tool;

    const WRITE: fn() -> Tool = super::super::write::tool;

    /// Takes a slot for `a`, reads it, lets `meanwhile` happen, and tries to put `new` there.
    fn check(meanwhile: impl Fn(&Desk), expected: Result<(), &str>, after: &str) {
        let desk = Desk::with(&[("a", "old")]);
        desk.set_time("a", 1_000);
        let cx = desk.cx(&WRITE(), Caps::DEFAULT);
        let slot = Slot::take(&cx, "a", MissingDirs::Fail).unwrap();
        let (_, before) = slot.open().unwrap();
        meanwhile(&desk);
        let result = slot.replace_unchanged(&cx, b"new", &before);
        assert_eq!(result.map_err(|fault| fault.code.into_owned()), expected.map_err(str::to_owned));
        assert_eq!(desk.text("a"), after);
        assert!(!desk.names().iter().any(|name| name.contains("toolgate")), "{:?}", desk.names());
    }

    #[test]
    fn a_change_in_between_is_not_overwritten() {
        check(|_| {}, Ok(()), "new");
        check(|desk| desk.file("a", "theirs"), Err("changed_meanwhile"), "theirs");
        // The same size at the same time is told by the kernel's own time of change, as soon as its clock has moved on.
        let same_size = |desk: &Desk| {
            let before = desk.changed_at("a");
            while desk.changed_at("a") == before {
                desk.file("a", "OLD");
                desk.set_time("a", 1_000);
            }
        };
        check(same_size, Err("changed_meanwhile"), "OLD");
        check(|desk| desk.replace("a", "other"), Err("changed_meanwhile"), "other");
    }

    #[test]
    fn a_call_that_was_stopped_meanwhile_has_no_effect() {
        check(|desk| desk.stop.cancel(), Err("cancelled"), "old");
        check(|desk| desk.stop.time_out(), Err("timed_out"), "old");
        let desk = Desk::with(&[("a", "old")]);
        let cx = desk.cx(&WRITE(), Caps::DEFAULT);
        let slot = Slot::take(&cx, "a", MissingDirs::Fail).unwrap();
        desk.stop.cancel();
        assert_eq!(slot.replace(&cx, b"new", None).unwrap_err().code, "cancelled");
        assert_eq!(slot.remove(&cx).unwrap_err().code, "cancelled");
        assert_eq!((desk.names(), desk.text("a")), (vec!["a".to_owned()], "old".to_owned()));
    }

    #[test]
    fn a_change_in_between_may_be_tried_again() {
        let desk = Desk::with(&[("a", "old")]);
        let cx = desk.cx(&WRITE(), Caps::DEFAULT);
        let slot = Slot::take(&cx, "a", MissingDirs::Fail).unwrap();
        let (_, before) = slot.open().unwrap();
        desk.file("a", "theirs");
        assert!(slot.replace_unchanged(&cx, b"new", &before).unwrap_err().retryable);
    }

    #[test]
    fn a_held_directory_is_waited_for_and_given_up_when_the_call_is_stopped() {
        let desk = Desk::with(&[("a", "old")]);
        let held = Slot::take(&desk.cx(&WRITE(), Caps::DEFAULT), "a", MissingDirs::Fail).unwrap();
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| Slot::take(&desk.cx(&WRITE(), Caps::DEFAULT), "b", MissingDirs::Fail).map(drop));
            desk.stop.cancel();
            assert_eq!(waiting.join().unwrap().unwrap_err().code, "cancelled");
        });
        drop(held);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let desk = Desk::with(&[("a", "old")]);
        let cx = desk.cx(&WRITE(), Caps::DEFAULT);
        let slot = Slot::take(&cx, "a", MissingDirs::Fail).unwrap();
        desk.swap_for_dir("a");
        assert_eq!(slot.replace(&cx, b"new", None).unwrap_err().code, "is_a_directory");
        assert_eq!(desk.names(), ["a"]);
    }

    #[test]
    fn what_a_killed_writer_left_is_nobody_s_and_goes_with_the_next_write() {
        let left = unfinished_name(7);
        let desk = Desk::with(&[(&left, "half"), ("d/x", ""), (".toolgate-notes.tmp", "mine")]);
        let listed = desk.call(super::super::ls::tool, serde_json::json!({})).unwrap().structured;
        assert_eq!(listed["total"], 2);
        assert_eq!(desk.code(WRITE, serde_json::json!({ "path": left, "content": "" })), "protected_path");
        assert!(desk.names().contains(&left));
        desk.call(WRITE, serde_json::json!({ "path": "a", "content": "" })).unwrap();
        assert_eq!(desk.names(), [".toolgate-notes.tmp", "a", "d", "d/x"]);
    }

    #[test]
    fn a_reader_sees_the_old_or_the_new_and_nothing_between() {
        let (old, new) = ("o".repeat(300_000), "n".repeat(300_000));
        let desk = Desk::with(&[("a", &old)]);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..40 {
                    let content = if round % 2 == 0 { &new } else { &old };
                    desk.call(WRITE, serde_json::json!({ "path": "a", "content": content })).unwrap();
                }
            });
            while !writer.is_finished() {
                let seen = desk.text("a");
                assert!(seen == old || seen == new, "half of a file was seen: {} bytes", seen.len());
            }
        });
    }
}
