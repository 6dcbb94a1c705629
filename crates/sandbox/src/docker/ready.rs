//! What containers need before there is one: a daemon that answers, the image, and a worker that every image can run.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{self, Path},
};

use toolgate_contract::Fault;

use super::{DockerBackend, House};
use crate::room::RoomError;

/// What is there, and what is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Who answers, and where.
    pub daemon: Result<String, Fault>,
    /// Which image.
    pub image: Result<String, Fault>,
    /// Which worker.
    pub worker: Result<String, Fault>,
}

impl DockerBackend {
    /// Looks for everything a container needs.
    pub fn readiness(&self) -> Readiness {
        let House { settings, daemon, .. } = &*self.house;
        let image = daemon.image(&settings.image).map(|id| {
            let short: String = id.trim_start_matches("sha256:").chars().take(12).collect();
            format!("{} ({short})", settings.image)
        });
        Readiness {
            daemon: daemon.version().map_err(Fault::from),
            image: image.map_err(Fault::from),
            worker: worker(&settings.worker)
                .map(|()| format!("{}, static", settings.worker.display()))
                .map_err(Fault::from),
        }
    }
}

/// Is there a worker that needs nothing of an image, and that nobody can replace who is not trusted anyway?
pub(super) fn worker(path: &Path) -> Result<(), RoomError> {
    needs_nothing(path)?;
    match replaced_by(path) {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(unsafe_worker(path, &why)),
        Err(error) => Err(unsafe_worker(path, &error.to_string())),
    }
}

/// Does the worker lie where agents do not? In their workspace one of their tools may write, if not this one.
pub(super) fn worker_outside(worker: &Path, workspace: &Path) -> Result<(), RoomError> {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match worker.starts_with(workspace) || whole(worker).starts_with(whole(workspace)) {
        true => Err(unsafe_worker(worker, &format!("it lies in the workspace `{}`", workspace.display()))),
        false => Ok(()),
    }
}

fn unsafe_worker(path: &Path, why: &str) -> RoomError {
    let message = format!("others may put something else in place of the worker `{}`: {why}", path.display());
    let remedy = "Let only root and the user who runs Toolgate write it and the directories above it, outside workspaces, \
                  or name another as `sandboxing.docker.worker` in the config.";
    RoomError::NotReady(Fault::refused("worker_not_safe", message, remedy))
}

/// Who but root and this user could replace a program. Groups are trusted: many give every file to one of their own.
fn replaced_by(program: &Path) -> io::Result<Option<String>> {
    const BY_ALL: u32 = 0o002;
    /// In such a directory everybody removes only what is theirs.
    const STICKY: u32 = 0o1000;
    let named = path::absolute(program)?;
    let whole = program.canonicalize()?;
    let found = fs::metadata(&whole)?;
    if found.mode() & BY_ALL != 0 {
        return Ok(Some("everybody may write it".into()));
    }
    if ![0, rustix::process::geteuid().as_raw()].contains(&found.uid()) {
        return Ok(Some(format!("it belongs to the user {}", found.uid())));
    }
    for dir in named.ancestors().skip(1).chain(whole.ancestors().skip(1)) {
        let mode = fs::metadata(dir)?.mode();
        if mode & BY_ALL != 0 && mode & STICKY == 0 {
            return Ok(Some(format!("everybody may write `{}`", dir.display())));
        }
    }
    Ok(None)
}

fn needs_nothing(path: &Path) -> Result<(), RoomError> {
    let needs_loader = File::open(path).and_then(|file| needs_loader(&file));
    let (code, message, remedy) = match needs_loader {
        Ok(Some(false)) => return Ok(()),
        Ok(Some(true)) => (
            "worker_not_static",
            format!("the worker `{}` wants libraries that an image need not have", path.display()),
            "Install the `toolgate-worker` that is linked statically.",
        ),
        Ok(None) => (
            "worker_missing",
            format!("`{}` is no program for this kind of machine", path.display()),
            "Install `toolgate-worker` beside `toolgate`, or name it as `sandboxing.docker.worker` in the config.",
        ),
        Err(error) => (
            "worker_missing",
            format!("there is no worker at `{}`: {error}", path.display()),
            "Install `toolgate-worker` beside `toolgate`, or name it as `sandboxing.docker.worker` in the config.",
        ),
    };
    Err(RoomError::NotReady(Fault::refused(code, message, remedy)))
}

/// The part of a program that names its loader.
const INTERPRETER: u32 = 3;
/// The most parts that are looked at; a program has about ten.
const MOST_PARTS: u16 = 64;

/// Does a program need another one to load it? `None`: it is no program as the kernel of this machine takes them.
fn needs_loader(file: &File) -> io::Result<Option<bool>> {
    let mut head = [0; 64];
    match file.read_exact_at(&mut head, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    // Sixty-four bits, lowest byte first.
    if !head.starts_with(&[0x7F, b'E', b'L', b'F', 2, 1]) {
        return Ok(None);
    }
    let (mut at, mut short) = ([0; 8], [0; 2]);
    at.copy_from_slice(&head[32..40]);
    short.copy_from_slice(&head[54..56]);
    let (parts, size) = (u64::from_le_bytes(at), u16::from_le_bytes(short));
    short.copy_from_slice(&head[56..58]);
    for number in 0..u16::from_le_bytes(short).min(MOST_PARTS) {
        let mut kind = [0; 4];
        file.read_exact_at(&mut kind, parts.saturating_add(u64::from(number) * u64::from(size)))?;
        if u32::from_le_bytes(kind) == INTERPRETER {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// A program of two parts, of these kinds.
    fn program(kinds: [u32; 2]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 2 * 56];
        bytes[..6].copy_from_slice(&[0x7F, b'E', b'L', b'F', 2, 1]);
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&2_u16.to_le_bytes());
        for (number, kind) in kinds.into_iter().enumerate() {
            bytes[64 + number * 56..][..4].copy_from_slice(&kind.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_worker_is_a_program_that_needs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("worker");
        let check = |bytes: Option<Vec<u8>>, expected: Result<(), &str>| {
            let _ = fs::remove_file(&path);
            if let Some(bytes) = bytes {
                fs::write(&path, bytes).unwrap();
            }
            let found = worker(&path).map_err(|error| Fault::from(error).code);
            assert_eq!(found.as_ref().map_err(|code| &**code).copied(), expected);
        };
        check(None, Err("worker_missing"));
        check(Some(Vec::new()), Err("worker_missing"));
        check(Some(b"#!/bin/sh\n".repeat(20)), Err("worker_missing"));
        check(Some(program([1, 6])), Ok(()));
        check(Some(program([1, INTERPRETER])), Err("worker_not_static"));
        check(Some(program([INTERPRETER, 1])), Err("worker_not_static"));
        check(Some(program([1, 6])[..100].to_vec()), Err("worker_missing"));
        assert_eq!(Fault::from(worker(dir.path()).unwrap_err()).code, "worker_missing");
    }

    #[test]
    fn a_worker_that_others_can_replace_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let (above, path, link) = (dir.path().join("above"), dir.path().join("above/worker"), dir.path().join("link"));
        fs::create_dir(&above).unwrap();
        fs::write(&path, program([1, 6])).unwrap();
        symlink(&path, &link).unwrap();
        let check = |mode: u32, mode_above: u32, expected: Result<(), &str>| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            fs::set_permissions(&above, fs::Permissions::from_mode(mode_above)).unwrap();
            for named in [&path, &link] {
                let found = worker(named).map_err(Fault::from);
                assert_eq!(
                    found.as_ref().map_err(|fault| &*fault.code).copied(),
                    expected.map_err(|_| "worker_not_safe")
                );
                let said = found.map_or_else(|fault| fault.message, |()| String::new());
                assert!(said.contains(expected.err().unwrap_or_default()), "{said}");
            }
        };
        check(0o755, 0o755, Ok(()));
        check(0o775, 0o775, Ok(()));
        check(0o777, 0o755, Err("everybody may write it"));
        check(0o755, 0o777, Err("/above`"));
        check(0o755, 0o1777, Ok(()));
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(65_532), None).unwrap();
            check(0o755, 0o755, Err("it belongs to the user 65532"));
        }
    }

    #[test]
    fn a_worker_is_not_taken_from_a_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, link) = (dir.path().join("workspace/bin"), dir.path().join("link"));
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join("worker"), "").unwrap();
        symlink(&inside, &link).unwrap();
        let check = |worker: &Path, is_fine: bool| {
            let found = worker_outside(worker, &dir.path().join("workspace")).map_err(|error| Fault::from(error).code);
            assert_eq!(found.is_ok(), is_fine, "{found:?}");
            assert!(found.map_or_else(|code| code == "worker_not_safe", |()| true));
        };
        check(&inside.join("worker"), false);
        check(&link.join("worker"), false);
        check(&dir.path().join("workspace-worker"), true);
    }
}
