//! The inside of another process: `peek PID|parent [ADDRESS]`, one the suite started, and something it holds there.

use libc::*;

use crate::{
    sys::{at, call, into},
    tries::Tries,
};

/// Every call that looks into or reaches into another process.
pub(crate) fn peek(args: &[String], tries: &mut Tries) {
    let parent = std::os::unix::process::parent_id();
    let victim =
        if args.first().is_some_and(|word| word == "parent") { parent.into() } else { crate::count(args, 0, 1) };
    let victim = victim as usize;
    let address = crate::count(args, 1, 4096) as usize;
    tries.in_child("ptrace seize", || call(SYS_ptrace, [0x4206, victim, 0, 0]));
    tries.in_child("ptrace attach", || call(SYS_ptrace, [16, victim, 0, 0]));
    tries.in_child("process_vm_readv", || {
        let mut taken = [0u8; 8];
        let (to, from) = ([into(&mut taken), taken.len()], [address, taken.len()]);
        call(SYS_process_vm_readv, [victim, at(&to), 1, at(&from), 1, 0])
    });
    tries.in_child("process_vm_writev of nothing", || {
        let (from, to) = ([at(&victim), 0], [address, 0]);
        call(SYS_process_vm_writev, [victim, at(&from), 1, at(&to), 1, 0])
    });
    tries.in_child("pidfd_getfd", || {
        let process = call(SYS_pidfd_open, [victim, 0])?;
        call(SYS_pidfd_getfd, [process, 0, 0])
    });
    tries.in_child("kcmp", || call(SYS_kcmp, [victim, std::process::id() as usize, 1, 0, 0]));
    tries.in_child("get_robust_list", || {
        let (mut head, mut length) = (0usize, 0usize);
        call(SYS_get_robust_list, [victim, into(&mut head), into(&mut length)])
    });
    tries.in_child("prlimit", || {
        let mut limit = [0u64; 2];
        call(SYS_prlimit64, [victim, RLIMIT_NOFILE as usize, 0, into(&mut limit)])
    });
    tries.in_child("sched_setaffinity", || {
        let mut processors = [0u8; 128];
        let length = call(SYS_sched_getaffinity, [0, processors.len(), into(&mut processors)])?;
        call(SYS_sched_setaffinity, [victim, length, at(&processors)])
    });
}
