//! What was left open.

use std::fs;

use libc::*;

use crate::{
    sys::{at, call},
    tries::Tries,
};

/// Every open descriptor, asked from the kernel one by one, and what it is where `/proc` tells.
pub(crate) fn fds(_: &[String], tries: &mut Tries) {
    for fd in 0..4096usize {
        if call(SYS_fcntl, [fd, F_GETFD as usize, 0]).is_ok() {
            let kind =
                fs::read_link(format!("/proc/self/fd/{fd}")).map_or_else(|_| "?".into(), |to| to.display().to_string());
            tries.found(format!("fd {fd}"), kind);
        }
    }
}

/// A directory left open is a way out: up from each descriptor.
pub(crate) fn dirfds(_: &[String], tries: &mut Tries) {
    for fd in 0..1024usize {
        match call(SYS_openat, [fd, at(c".."), (O_RDONLY | O_DIRECTORY) as usize, 0]) {
            Ok(up) => tries.found(format!("up from {fd}"), up),
            Err(EBADF | ENOTDIR) => {}
            Err(errno) => tries.call(format!("up from {fd}"), Err(errno)),
        }
    }
}
