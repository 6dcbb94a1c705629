//! Attacks that may kill or change the one who tries them are tried in a child.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::FromRawFd,
};

use crate::{
    sys::{Said, errno},
    tries::Ended,
};

/// Tries it in a child and says how the child fared.
pub(crate) fn in_child(attack: impl FnOnce() -> Said) -> Ended {
    let Ok((mut from_child, mut to_parent)) = pipe() else { return Ended::Errno(errno()) };
    // SAFETY: the probe has one thread here, so the child may do whatever the parent could.
    match unsafe { libc::fork() } {
        -1 => Ended::Errno(errno()),
        0 => {
            drop(from_child);
            let answer: i64 = match attack() {
                Ok(value) => (value as i64) & 0x7fff_ffff,
                Err(errno) => -i64::from(errno),
            };
            let sent = to_parent.write_all(&answer.to_le_bytes());
            // SAFETY: leaves at once; there is nothing to unwind in a child that only attacked.
            unsafe { libc::_exit(i32::from(sent.is_err())) }
        }
        child => {
            drop(to_parent);
            let mut answer = [0; 8];
            let heard = from_child.read_exact(&mut answer);
            let status = wait_for(child);
            match (heard, i64::from_le_bytes(answer)) {
                (Ok(()), value) if value >= 0 => Ended::Ok(value.to_string()),
                (Ok(()), value) => Ended::Errno((-value) as i32),
                (Err(_), _) => Ended::Signal(libc::WTERMSIG(status)),
            }
        }
    }
}

/// Waits for a child and gives its status.
pub(crate) fn wait_for(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: writes one integer to a live one.
    while unsafe { libc::waitpid(child, &mut status, 0) } == -1 && errno() == libc::EINTR {}
    status
}

/// Starts a child that runs `body` and never comes back.
pub(crate) fn spawn(body: impl FnOnce()) -> Result<i32, i32> {
    // SAFETY: the probe has one thread wherever this is called.
    match unsafe { libc::fork() } {
        -1 => Err(errno()),
        0 => {
            body();
            // SAFETY: leaves at once.
            unsafe { libc::_exit(0) }
        }
        child => Ok(child),
    }
}

/// Waits to be killed, but not for ever: an attack that got through must not stay.
pub(crate) fn linger(seconds: u32) {
    // SAFETY: plain integers.
    unsafe {
        libc::alarm(seconds);
        libc::pause();
    }
}

fn pipe() -> std::io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which become owned here and nowhere else.
    unsafe {
        match libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) {
            0 => Ok((File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}
