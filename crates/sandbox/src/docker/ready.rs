//! What containers need before there is one: a daemon that answers, the image, and a worker that every image can run.

use std::{fs::File, io, os::unix::fs::FileExt as _, path::Path};

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

/// Is there a worker that needs nothing of an image?
pub(super) fn worker(path: &Path) -> Result<(), RoomError> {
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
    use std::fs;

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
}
