//! The ways file tools fail, each said once: the code a program matches on, and when it happens for the declaration.

use rustix::io::Errno;
use toolgate_contract::{FailureMode, Fault};

use super::text::brief;

/// A stable code and when it comes up.
pub(crate) struct Known {
    code: &'static str,
    when: &'static str,
}

impl Known {
    pub(crate) const fn new(code: &'static str, when: &'static str) -> Self {
        Self { code, when }
    }

    pub(crate) fn refused(&self, message: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault::refused(self.code, message, remedy)
    }

    pub(crate) fn failed(&self, message: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault::failed(self.code, message, remedy)
    }

    pub(crate) fn is(&self, fault: &Fault) -> bool {
        fault.code == self.code
    }
}

/// The part of a declaration that says how a tool fails: what is its own, then what every path can run into.
pub(crate) fn modes(own: &[&Known]) -> Vec<FailureMode> {
    said(own.iter().copied().chain(COMMON.iter()))
}

/// Failures as a declaration says them.
pub(crate) fn said<'a>(known: impl Iterator<Item = &'a Known>) -> Vec<FailureMode> {
    known.map(|known| FailureMode { code: known.code.into(), when: known.when.into() }).collect()
}

const COMMON: [Known; 10] =
    [OUTSIDE, PROTECTED, DENIED, READ_ONLY, BAD_PATH, NOT_FOUND, NO_ACCESS, NOT_A_DIRECTORY, WALL_MISSING, IO_ERROR];

pub(crate) const OUTSIDE: Known = Known::new(
    "path_outside_workspace",
    "The path leads outside the workspace, by itself or through a link. Use a path inside it.",
);
pub(crate) const PROTECTED: Known = Known::new(
    "protected_path",
    "The path belongs to `.git`, to Toolgate's configuration or to its data. No tool reaches it this way.",
);
pub(crate) const DENIED: Known =
    Known::new("file_denied", "A rule of the operator's keeps tools from the file. The message says why.");
pub(crate) const READ_ONLY: Known =
    Known::new("read_only_directory", "The directory is open for reading only. Write in the workspace.");
pub(crate) const BAD_PATH: Known =
    Known::new("bad_path", "The path is empty, too long or has a NUL byte. Write an ordinary path.");
pub(crate) const NOT_FOUND: Known = Known::new("not_found", "Nothing has that name. Look with `ls` or `find`.");
pub(crate) const NO_ACCESS: Known =
    Known::new("no_access", "The operating system does not let Toolgate at it. Ask the operator.");
pub(crate) const NOT_A_DIRECTORY: Known =
    Known::new("not_a_directory", "A part of the path that must be a directory is a file.");
pub(crate) const WALL_MISSING: Known =
    Known::new("wall_missing", "This machine cannot hold a path inside the workspace. Ask the operator.");
pub(crate) const IO_ERROR: Known =
    Known::new("io_error", "The operating system failed. Try again, then ask the operator.");

pub(crate) const IS_A_DIRECTORY: Known =
    Known::new("is_a_directory", "The path names a directory where a file is needed. Use `ls` to see what is in it.");
pub(crate) const NOT_A_REGULAR_FILE: Known =
    Known::new("not_a_regular_file", "The path names a pipe, a socket or a device. Only files are read and written.");
pub(crate) const PATH_IS_A_LINK: Known = Known::new(
    "path_is_a_link",
    "The path names a symbolic link. Name the file it leads to, so that it is plain what changes.",
);
pub(crate) const NO_DIRECTORY: Known =
    Known::new("no_directory", "The directory the file should be in does not exist. Set `create_dirs` to make it.");
pub(crate) const TOO_LARGE: Known = Known::new("too_large", "There is more text than the tool takes at once.");
pub(crate) const NO_SPACE: Known = Known::new("no_space", "The disk or the quota is full. Ask the operator.");
pub(crate) const BUSY: Known =
    Known::new("busy", "Somebody else is changing files in that directory and does not finish. Try again later.");
pub(crate) const BAD_PATTERN: Known = Known::new("bad_pattern", "The pattern cannot be read. The message says where.");
pub(crate) const NO_EDITS: Known = Known::new("no_edits", "`edits` is empty. Name at least one replacement.");
pub(crate) const BINARY_FILE: Known = Known::new("binary_file", "The file is not text, so nothing can be replaced.");
pub(crate) const OLD_EMPTY: Known =
    Known::new("edit_old_empty", "An edit's `old` is empty. Give the text that is to be replaced.");
pub(crate) const OLD_NOT_FOUND: Known = Known::new(
    "edit_old_not_found",
    "An edit's `old` is not in the file. Read it again and copy the text exactly, indentation included.",
);
pub(crate) const OLD_NOT_UNIQUE: Known = Known::new(
    "edit_old_not_unique",
    "An edit's `old` is in the file more than once. Add surrounding text, or set `replace_all`.",
);
pub(crate) const OVERLAPPING: Known =
    Known::new("overlapping_edits", "Two edits touch the same text. Merge them into one.");
pub(crate) const HASH_MISMATCH: Known =
    Known::new("hash_mismatch", "The file is not the one `expected_sha256` was taken from. Read it again.");
pub(crate) const CHANGED_MEANWHILE: Known =
    Known::new("changed_meanwhile", "Somebody changed the file while it was edited. Nothing was written; try again.");

/// The path leads outside.
pub(crate) fn outside(path: &str) -> Fault {
    let path = brief(path);
    OUTSIDE.refused(format!("`{path}` is not inside the workspace"), "Use a path inside the workspace.")
}

/// The path is shut for tools.
pub(crate) fn protected(path: &str) -> Fault {
    let path = brief(path);
    PROTECTED.refused(format!("`{path}` is protected"), "Leave it alone; a person can change it outside Toolgate.")
}

/// The directory is open, and not for this.
pub(crate) fn read_only(path: &str) -> Fault {
    let path = brief(path);
    READ_ONLY.refused(format!("`{path}` lies in a directory that is open for reading only"), "Write in the workspace.")
}

/// What the kernel said about a path.
pub(crate) fn from_errno(errno: Errno, path: &str) -> Fault {
    let path = brief(path);
    match errno {
        Errno::XDEV | Errno::LOOP => outside(&path),
        // The kernel could not make sure that the path stays inside, because directories kept moving.
        Errno::AGAIN => OUTSIDE
            .refused(format!("`{path}` kept changing while it was looked up"), "Try again when it is quiet.")
            .retryable(),
        Errno::NOENT => NOT_FOUND.failed(format!("`{path}` does not exist"), "Look with `ls` or `find`."),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => NO_ACCESS.failed(
            format!("the operating system denies access to `{path}`"),
            "Ask the operator to change its permissions.",
        ),
        Errno::ISDIR => is_a_directory(&path),
        Errno::NOTDIR => {
            NOT_A_DIRECTORY.failed(format!("a part of `{path}` that must be a directory is not one"), "Look with `ls`.")
        }
        Errno::NXIO | Errno::NODEV => not_a_regular_file(&path),
        Errno::NAMETOOLONG => BAD_PATH.refused("the path is too long", "Use a shorter path."),
        Errno::NOSYS => wall_missing("openat2"),
        Errno::NOSPC | Errno::DQUOT => {
            NO_SPACE.failed(format!("no space is left for `{path}`"), "Ask the operator to make room.")
        }
        other => IO_ERROR
            .failed(format!("the operating system failed on `{path}`: {other}"), "Try again, then ask the operator.")
            .retryable(),
    }
}

/// What reading or writing an open file said.
pub(crate) fn from_io(error: &std::io::Error, path: &str) -> Fault {
    from_errno(Errno::from_io_error(error).unwrap_or(Errno::IO), path)
}

pub(crate) fn is_a_directory(path: &str) -> Fault {
    let path = brief(path);
    IS_A_DIRECTORY.failed(format!("`{path}` is a directory"), "Name a file; `ls` shows what is in the directory.")
}

pub(crate) fn not_a_regular_file(path: &str) -> Fault {
    let path = brief(path);
    NOT_A_REGULAR_FILE.refused(format!("`{path}` is not a regular file"), "Name a regular file.")
}

/// Without this the workspace has no fence, so nothing is opened at all.
pub(crate) fn wall_missing(wall: &str) -> Fault {
    WALL_MISSING.refused(
        format!("this machine lacks `{wall}`, so paths cannot be held inside the workspace"),
        "Run Toolgate on Linux 5.6 or later, with `/proc` mounted and `openat2` not filtered.",
    )
}
