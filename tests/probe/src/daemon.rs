//! Those who stay behind: `daemon SECONDS [loud] [MARKER]`. The marker is only there to be found in the process table.

use std::{
    fs::File,
    time::{Duration, Instant},
};

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

/// `hop SECONDS`: a process that is never there twice. Each makes the next and ends, so that whoever looks for it by
/// number comes too late.
pub(crate) fn hop(args: &[String], tries: &mut Tries) {
    let until = Instant::now() + Duration::from_secs(count(args, 0, 20).min(60));
    let begun = spawn(|| {
        // SAFETY: takes nothing.
        unsafe { setsid() };
        quiet();
        while Instant::now() < until {
            // SAFETY: the probe has one thread; the parent leaves at once.
            match unsafe { fork() } {
                0 => {}
                -1 => std::thread::yield_now(),
                // SAFETY: leaves at once.
                _ => unsafe { _exit(0) },
            }
        }
    });
    // It is well on its way before the first process ends.
    std::thread::sleep(Duration::from_millis(200));
    tries.call("hop", begun.map(|pid| pid as usize));
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
