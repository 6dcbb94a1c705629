//! Memory, in all the places it can be held: `eat HOW BYTES`. `BYTES` ends it where no wall does.

use std::{fs::File, io::Write, os::fd::FromRawFd, thread::sleep, time::Duration};

use libc::*;

use crate::{
    child::{spawn, wait_for},
    count,
    sys::{Said, at, call, into},
    tries::Tries,
};

const PIECE: usize = 1 << 20;

/// Eats until someone says stop; what was eaten is noted when nobody does.
pub(crate) fn eat(args: &[String], tries: &mut Tries) {
    let how = args.first().map_or("pages", String::as_str);
    let bytes = count(args, 1, 64 << 20).min(2 << 30) as usize;
    match how {
        "pages" => tries.call("pages", pages(bytes, MAP_PRIVATE)),
        "shared-pages" => tries.call("shared-pages", pages(bytes, MAP_SHARED)),
        "children" => tries.call("children", children(bytes)),
        "tmp" => tries.io("tmp", file("/tmp/eaten", bytes)),
        "home" => tries.io("home", file(&(std::env::var("HOME").unwrap_or_default() + "/eaten"), bytes)),
        "shm" => tries.io("shm", file("/dev/shm/eaten", bytes)),
        "memfd" => tries.io("memfd", nameless(bytes)),
        "pipes" => tries.call("pipes", pipes(bytes)),
        "sockets" => tries.call("sockets", sockets(bytes)),
        "sysv" => tries.call("sysv", shared(bytes)),
        "sysv-left" => tries.call("sysv-left", left(bytes)),
        _ => tries.call(how, Err(EINVAL)),
    }
}

fn pages(bytes: usize, kind: i32) -> Said {
    let flags = (kind | MAP_ANONYMOUS) as usize;
    let start = call(SYS_mmap, [0, bytes, (PROT_READ | PROT_WRITE) as usize, flags, usize::MAX, 0])?;
    touch(start, bytes);
    Ok(bytes)
}

/// Eight children share the meal: a limit on one process is no limit on a room.
fn children(bytes: usize) -> Said {
    let mut eaters = Vec::new();
    for _ in 0..8 {
        eaters.push(spawn(|| {
            let _ = pages(bytes / 8, MAP_PRIVATE);
            sleep(Duration::from_secs(3));
        })?);
    }
    let whole = eaters.into_iter().map(wait_for).filter(|status| *status == 0).count();
    if whole == 8 { Ok(bytes) } else { Err(ENOMEM) }
}

fn file(path: &str, bytes: usize) -> std::io::Result<usize> {
    fill(File::options().write(true).create(true).truncate(true).open(path)?, bytes)
}

fn nameless(bytes: usize) -> std::io::Result<usize> {
    let made = call(SYS_memfd_create, [at(c"eaten"), 0]).map_err(std::io::Error::from_raw_os_error)?;
    // SAFETY: the kernel has just made it, and nobody else owns it.
    fill(unsafe { File::from_raw_fd(made as i32) }, bytes)
}

fn fill(mut file: File, bytes: usize) -> std::io::Result<usize> {
    let piece = vec![7; PIECE];
    for _ in 0..bytes / PIECE {
        file.write_all(&piece)?;
    }
    // The pages stay held for a moment, so that a supervisor that polls sees them.
    sleep(Duration::from_secs(2));
    Ok(bytes)
}

fn pipes(bytes: usize) -> Said {
    let mut held = 0;
    let piece = vec![7u8; PIECE];
    while held < bytes {
        let mut ends = [0i32; 2];
        call(SYS_pipe2, [into(&mut ends), O_NONBLOCK as usize])?;
        // A refusal leaves the pipe at its usual size, which also adds up.
        let _ = call(SYS_fcntl, [ends[1] as usize, F_SETPIPE_SZ as usize, PIECE]);
        held += call(SYS_write, [ends[1] as usize, at(piece.as_slice()), PIECE])?;
    }
    Ok(held)
}

fn sockets(bytes: usize) -> Said {
    let mut held = 0;
    let piece = vec![7u8; 64 << 10];
    while held < bytes {
        let mut ends = [0i32; 2];
        call(SYS_socketpair, [AF_UNIX as usize, (SOCK_STREAM | SOCK_NONBLOCK) as usize, 0, into(&mut ends)])?;
        while let Ok(written) = call(SYS_write, [ends[1] as usize, at(piece.as_slice()), piece.len()]) {
            held += written;
        }
    }
    Ok(held)
}

fn shared(bytes: usize) -> Said {
    let segment = call(SYS_shmget, [IPC_PRIVATE as usize, bytes, 0o600 | IPC_CREAT as usize])?;
    let start = call(SYS_shmat, [segment, 0, 0]);
    // Marked at once, so that it goes with the last who holds it.
    call(SYS_shmctl, [segment, IPC_RMID as usize, 0])?;
    touch(start?, bytes);
    Ok(bytes)
}

/// In segments that are filled and let go of, one after the other: no process has more than one of them. They go with the
/// namespace.
fn left(bytes: usize) -> Said {
    const SEGMENT: usize = 8 << 20;
    for _ in 0..bytes.div_ceil(SEGMENT) {
        let segment = call(SYS_shmget, [IPC_PRIVATE as usize, SEGMENT, 0o600 | IPC_CREAT as usize])?;
        let start = call(SYS_shmat, [segment, 0, 0])?;
        dirty(start, SEGMENT);
        call(SYS_shmdt, [start, 0, 0])?;
    }
    sleep(Duration::from_secs(2));
    Ok(bytes)
}

fn touch(start: usize, bytes: usize) {
    dirty(start, bytes);
    sleep(Duration::from_secs(2));
}

fn dirty(start: usize, bytes: usize) {
    for offset in (0..bytes).step_by(4096) {
        // SAFETY: the mapping is `bytes` long and writable.
        unsafe { ((start + offset) as *mut u8).write_volatile(1) };
    }
}
