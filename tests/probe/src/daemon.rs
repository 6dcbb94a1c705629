//! Those who stay behind: `daemon SECONDS [loud] [MARKER]`. The marker is only there to be found in the process table.

use std::fs::File;

use libc::*;

use crate::{
    child::{linger, spawn},
    count,
    tries::Tries,
};

/// Leaves the session twice over, then lets the first process end. `loud` keeps the streams open.
pub(crate) fn daemon(args: &[String], tries: &mut Tries) {
    let seconds = count(args, 0, 20).min(120) as u32;
    let loud = args.iter().any(|word| word == "loud");
    let left = spawn(|| {
        // SAFETY: takes nothing.
        unsafe { setsid() };
        let _ = spawn(|| {
            // SAFETY: takes nothing.
            unsafe { setsid() };
            if !loud {
                quiet();
            }
            linger(seconds);
        });
        if !loud {
            quiet();
        }
        linger(seconds);
    });
    tries.call("daemon", left.map(|pid| pid as usize));
}

/// Gives the three streams away.
fn quiet() {
    use std::os::fd::AsRawFd;
    let Ok(null) = File::options().read(true).write(true).open("/dev/null") else { return };
    for fd in 0..3 {
        // SAFETY: both descriptors are open.
        unsafe { dup2(null.as_raw_fd(), fd) };
    }
}
