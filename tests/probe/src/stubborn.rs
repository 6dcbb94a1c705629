//! Processes that will not end when asked.

use libc::*;

use crate::{child::linger, count, tries::Tries};

/// `sleep SECONDS`.
pub(crate) fn sleep(args: &[String], tries: &mut Tries) {
    std::thread::sleep(std::time::Duration::from_secs(count(args, 0, 60)));
    tries.found("slept", "to the end");
}

/// `stubborn SECONDS`: ignores and masks every signal, in itself and in a child.
pub(crate) fn stubborn(args: &[String], tries: &mut Tries) {
    for signal in 1..65 {
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(signal, SIG_IGN) };
    }
    // SAFETY: the set is filled before it is used.
    unsafe {
        let mut all: sigset_t = std::mem::zeroed();
        sigfillset(&mut all);
        sigprocmask(SIG_BLOCK, &all, std::ptr::null_mut());
    }
    let _ = crate::child::spawn(|| std::thread::sleep(std::time::Duration::from_secs(60)));
    sleep(args, tries);
}

/// Stops itself and its children.
pub(crate) fn stop_self(_: &[String], tries: &mut Tries) {
    let _ = crate::child::spawn(|| {
        // SAFETY: plain integers.
        unsafe { raise(SIGSTOP) };
        linger(60);
    });
    // SAFETY: plain integers.
    unsafe { raise(SIGSTOP) };
    tries.found("stopped", "and went on");
}
