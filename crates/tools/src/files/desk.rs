//! A workspace for tests, and tools called in it as the runtime would.

#![expect(clippy::disallowed_methods, reason = "tests set the scene from outside")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use serde_json::Value;
use tempfile::TempDir;
use toolgate_contract::{Caps, Fault};

use super::{Protected, Workspace};
use crate::{Clock, Cx, Hands, Output, StopFlag, Tool};

pub(crate) struct Desk {
    dir: TempDir,
    pub(crate) stop: StopFlag,
}

struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), stop: StopFlag::default() }
    }

    /// A workspace with these files in it.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let desk = Self::new();
        for (path, content) in files {
            desk.file(path, content);
        }
        desk
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let at = self.at(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, content).unwrap();
    }

    pub(crate) fn dir(&self, path: &str) {
        fs::create_dir_all(self.at(path)).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: impl AsRef<Path>) {
        symlink(target, self.at(path)).unwrap();
    }

    pub(crate) fn content(&self, path: &str) -> Vec<u8> {
        fs::read(self.at(path)).unwrap()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.content(path)).unwrap()
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o7777
    }

    pub(crate) fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Replaces a file by another one.
    pub(crate) fn replace(&self, path: &str, content: &str) {
        let other = self.at("replacement");
        fs::write(&other, content).unwrap();
        fs::rename(other, self.at(path)).unwrap();
    }

    pub(crate) fn swap_for_dir(&self, path: &str) {
        fs::remove_file(self.at(path)).unwrap();
        fs::create_dir(self.at(path)).unwrap();
    }

    /// A file whose name need not be UTF-8.
    pub(crate) fn raw_file(&self, name: &[u8]) {
        fs::write(self.dir.path().join(OsStr::from_bytes(name)), "").unwrap();
    }

    pub(crate) fn set_time(&self, path: &str, seconds: i64) {
        let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, self.at(path), &times, AtFlags::empty()).unwrap();
    }

    /// When the kernel last saw it change; nobody can set this.
    pub(crate) fn changed_at(&self, path: &str) -> (i64, i64) {
        let meta = fs::metadata(self.at(path)).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    }

    /// Every name in the tree, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut dirs = vec![self.dir.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                names.push(path.strip_prefix(self.dir.path()).unwrap().to_string_lossy().into_owned());
                if fs::symlink_metadata(&path).unwrap().is_dir() {
                    dirs.push(path);
                }
            }
        }
        names.sort();
        names
    }

    pub(crate) fn cx(&self, tool: &Tool, caps: Caps) -> Cx {
        let workspace = Workspace::open(self.dir.path(), Protected::default()).unwrap();
        self.cx_in(&workspace, tool, caps)
    }

    /// The hands of a tool that gets this workspace.
    pub(crate) fn cx_in(&self, workspace: &Workspace, tool: &Tool, caps: Caps) -> Cx {
        Cx::new(Hands {
            finder: None,
            own_calls: None,
            programs: None,
            web: None,
            workspace: Some(workspace.with_access(tool.def.needs.files)),
            clock: Arc::new(NoClock),
            progress: None,
            remarks: None,
            stop: self.stop.clone(),
            timeout: tool.def.timeout,
            caps,
            inquiries: crate::Inquiries::default(),
            key: None,
        })
    }

    pub(crate) fn call(&self, tool: fn() -> Tool, arguments: Value) -> Result<Output, Fault> {
        self.call_capped(tool, arguments, tool().def.caps)
    }

    /// A call with caps of its own. Whatever goes wrong must be declared.
    pub(crate) fn call_capped(&self, tool: fn() -> Tool, arguments: Value, caps: Caps) -> Result<Output, Fault> {
        let tool = tool();
        let result = tool.work.here().unwrap()(&self.cx(&tool, caps), arguments);
        if let Err(fault) = &result {
            let declared = tool.def.failures.iter().any(|mode| mode.code == fault.code) || fault.code == "cancelled";
            assert!(declared, "`{}` does not declare `{}`", tool.def.name, fault.code);
        }
        result
    }

    /// The code of a call that must not work.
    pub(crate) fn code(&self, tool: fn() -> Tool, arguments: Value) -> String {
        self.call(tool, arguments).unwrap_err().code.into_owned()
    }
}
