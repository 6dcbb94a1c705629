//! Dumps of memory, and the ties to whoever started the process.

use libc::*;

use crate::{child::wait_for, sys::call, tries::Tries};

/// Makes itself dumpable, asks for dumps, and crashes.
pub(crate) fn dump(_: &[String], tries: &mut Tries) {
    tries.call("dumpable", call(SYS_prctl, [PR_SET_DUMPABLE as usize, 1, 0, 0, 0]));
    tries.in_child("larger dumps", || {
        let most = rlimit64 { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        call(SYS_prlimit64, [0, RLIMIT_CORE as usize, crate::sys::at(&most), 0])
    });
    let crashed = crate::child::spawn(|| {
        // SAFETY: ends the child, which is the point.
        unsafe { abort() }
    });
    match crashed.map(wait_for) {
        Ok(status) if WCOREDUMP(status) => tries.found("dumped", status),
        Ok(_) => tries.call("dumped", Err(EPERM)),
        Err(errno) => tries.call("dumped", Err(errno)),
    }
}

/// `cut-loose SECONDS MARKER`: cuts the ties, takes orphans in, and stays behind.
pub(crate) fn cut_loose(args: &[String], tries: &mut Tries) {
    tries.call("no signal when the parent dies", call(SYS_prctl, [PR_SET_PDEATHSIG as usize, 0, 0, 0, 0]));
    tries.call("takes orphans in", call(SYS_prctl, [PR_SET_CHILD_SUBREAPER as usize, 1, 0, 0, 0]));
    crate::daemon::daemon(args, tries);
}
