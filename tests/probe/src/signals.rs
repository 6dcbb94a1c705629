//! Signals to those outside. A check that reaches nobody comes first; the strike is made only where it cannot hurt.

use libc::*;

use crate::{
    sys::{at, call},
    tries::Tries,
};

/// `signal PID..`: may each be signalled? Signal 0 is permission without a signal.
pub(crate) fn signal(args: &[String], tries: &mut Tries) {
    for victim in args.iter().filter_map(|word| word.parse::<usize>().ok()) {
        tries.call(format!("kill {victim}"), call(SYS_kill, [victim, 0]));
        tries.call(format!("kill group {victim}"), call(SYS_kill, [victim.wrapping_neg(), 0]));
        tries.call(format!("tkill {victim}"), call(SYS_tkill, [victim, 0]));
        tries.call(format!("tgkill {victim}"), call(SYS_tgkill, [victim, victim, 0]));
        tries.in_child(format!("pidfd_send_signal {victim}"), || {
            let process = call(SYS_pidfd_open, [victim, 0])?;
            call(SYS_pidfd_send_signal, [process, 0, 0, 0])
        });
        tries.in_child(format!("sigqueue {victim}"), || {
            let mut info = [0i32; 32];
            info[2] = -1;
            call(SYS_rt_sigqueueinfo, [victim, 0, at(&info)])
        });
    }
}

/// Kills everything it can reach. Only where the suite has seen that nobody outside can be reached, and never as the
/// machine's own root.
pub(crate) fn kill_all(_: &[String], tries: &mut Tries) {
    if call(SYS_geteuid, []) == Ok(0)
        && std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295"))
    {
        return tries.call("kill all", Err(ECANCELED));
    }
    tries.call("kill all", call(SYS_kill, [usize::MAX, SIGKILL as usize]));
}

/// Kills the process that started it, and the first it can name. The machine's own first process takes no such signal.
pub(crate) fn kill_init(_: &[String], tries: &mut Tries) {
    let parent = std::os::unix::process::parent_id() as usize;
    tries.call("kill parent", call(SYS_kill, [parent, SIGKILL as usize]));
    tries.call("kill init", call(SYS_kill, [1, SIGKILL as usize]));
}
