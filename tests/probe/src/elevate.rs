//! Ways to more rights.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
};

use libc::*;

use crate::{
    sys::{at, call},
    tries::Tries,
};

/// Asks for them.
pub(crate) fn elevate(_: &[String], tries: &mut Tries) {
    let zero_group = [0u32];
    let everything: [u32; 6] = [u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX];
    let header: [u32; 2] = [0x2008_0522, 0];
    tries.in_child("setuid 0", || call(SYS_setuid, [0]));
    tries.in_child("setresuid 0", || call(SYS_setresuid, [0, 0, 0]));
    tries.in_child("setgid 0", || call(SYS_setgid, [0]));
    tries.in_child("setresgid 0", || call(SYS_setresgid, [0, 0, 0]));
    tries.in_child("setgroups", || call(SYS_setgroups, [1, at(&zero_group)]));
    tries.in_child("capset", || call(SYS_capset, [at(&header), at(&everything)]));
    tries.in_child("ambient capability", || {
        call(SYS_prctl, [PR_CAP_AMBIENT as usize, PR_CAP_AMBIENT_RAISE as usize, 21, 0, 0])
    });
    tries.in_child("secure bits", || call(SYS_prctl, [PR_SET_SECUREBITS as usize, 1, 0, 0, 0]));
    tries.in_child("privileges on again", || call(SYS_prctl, [PR_SET_NO_NEW_PRIVS as usize, 0, 0, 0, 0]));
    tries.in_child("higher limit", || {
        let most = rlimit64 { rlim_cur: RLIM64_INFINITY, rlim_max: RLIM64_INFINITY };
        call(SYS_prlimit64, [0, RLIMIT_NOFILE as usize, at(&most), 0])
    });
    tries.in_child("better priority", || call(SYS_setpriority, [PRIO_PROCESS as usize, 0, -10isize as usize]));
    tries.in_child("real time", || {
        let first = [1i32];
        call(SYS_sched_setscheduler, [0, SCHED_FIFO as usize, at(&first)])
    });
}

/// `run-elevated PROGRAM ARGS`: runs a program that gives rights away, and gives what it printed.
pub(crate) fn run_elevated(args: &[String], tries: &mut Tries) {
    let Some((program, rest)) = args.split_first() else { return };
    let ran = Command::new(program).args(rest).stdin(Stdio::null()).output();
    let told = ran.map(|output| {
        let code = output.status.code().or(output.status.signal()).unwrap_or(-1);
        format!("{code}: {}", String::from_utf8_lossy(&output.stdout).trim())
    });
    tries.io(format!("run {program}"), told);
}
