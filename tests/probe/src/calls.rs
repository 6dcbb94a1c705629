//! System calls a room has no use for. The arguments are such that a kernel that lets the call in says something else
//! than "not permitted", or does nothing that stays; so a refusal is the filter's.

use libc::*;

use crate::{
    sys::{NOWHERE, at, call, minus},
    tries::Tries,
};

/// Calls each, in a child.
pub(crate) fn calls(_: &[String], tries: &mut Tries) {
    let here = minus(100);
    let none = minus(1);
    let calls: [(&str, i64, [usize; 5]); 45] = [
        ("io_uring_setup", SYS_io_uring_setup, [1, NOWHERE, 0, 0, 0]),
        ("io_uring_enter", SYS_io_uring_enter, [none, 0, 0, 0, 0]),
        ("io_uring_register", SYS_io_uring_register, [none, 0, 0, 0, 0]),
        ("bpf", SYS_bpf, [9999, NOWHERE, 0, 0, 0]),
        ("perf_event_open", SYS_perf_event_open, [NOWHERE, 0, none, none, 0]),
        ("userfaultfd", SYS_userfaultfd, [0xffff_0000, 0, 0, 0, 0]),
        ("userfaultfd user mode", SYS_userfaultfd, [1, 0, 0, 0, 0]),
        ("keyctl session id", SYS_keyctl, [0, minus(3), 0, 0, 0]),
        ("keyctl join session", SYS_keyctl, [1, NOWHERE, 0, 0, 0]),
        ("keyctl read user session", SYS_keyctl, [11, minus(5), 0, 0, 0]),
        ("add_key", SYS_add_key, [at(c"user"), at(c"toolgate-probe"), at("x"), 1, minus(2)]),
        ("request_key", SYS_request_key, [at(c"user"), at(c"toolgate-nothing"), 0, 0, 0]),
        ("kexec_load", SYS_kexec_load, [0, 0, 0, 0xffff_0000, 0]),
        ("kexec_file_load", SYS_kexec_file_load, [none, none, 0, 0, 0xffff_0000]),
        ("init_module", SYS_init_module, [NOWHERE, 0, NOWHERE, 0, 0]),
        ("finit_module", SYS_finit_module, [none, NOWHERE, 0, 0, 0]),
        ("delete_module", SYS_delete_module, [NOWHERE, 0, 0, 0, 0]),
        ("reboot with the wrong magic", SYS_reboot, [0, 0, 0, 0, 0]),
        ("swapon nothing", SYS_swapon, [NOWHERE, 0, 0, 0, 0]),
        ("swapoff nothing", SYS_swapoff, [NOWHERE, 0, 0, 0, 0]),
        ("settimeofday from nowhere", SYS_settimeofday, [NOWHERE, 0, 0, 0, 0]),
        ("clock_settime from nowhere", SYS_clock_settime, [0, NOWHERE, 0, 0, 0]),
        ("sethostname too long", SYS_sethostname, [NOWHERE, 1 << 20, 0, 0, 0]),
        ("setdomainname too long", SYS_setdomainname, [NOWHERE, 1 << 20, 0, 0, 0]),
        ("acct nothing", SYS_acct, [NOWHERE, 0, 0, 0, 0]),
        ("quotactl", SYS_quotactl, [usize::MAX, 0, 0, 0, 0]),
        ("quotactl_fd", SYS_quotactl_fd, [none, 0, 0, 0, 0]),
        ("iopl", SYS_iopl, [3, 0, 0, 0, 0]),
        ("ioperm", SYS_ioperm, [0x80, 1, 1, 0, 0]),
        ("modify_ldt", SYS_modify_ldt, [0, NOWHERE, 0, 0, 0]),
        ("personality without randomness", SYS_personality, [0x4_0000, 0, 0, 0, 0]),
        ("syslog", SYS_syslog, [10, 0, 0, 0, 0]),
        ("ptrace me", SYS_ptrace, [0, 0, 0, 0, 0]),
        ("kcmp with itself", SYS_kcmp, [std::process::id() as usize, std::process::id() as usize, 1, 0, 0]),
        ("process_vm_readv", SYS_process_vm_readv, [std::process::id() as usize, NOWHERE, 1, NOWHERE, 1]),
        ("pidfd_getfd", SYS_pidfd_getfd, [none, 0, 0, 0, 0]),
        ("process_madvise", SYS_process_madvise, [none, NOWHERE, 1, 4, 0]),
        ("name_to_handle_at", SYS_name_to_handle_at, [here, at(c"/"), NOWHERE, NOWHERE, 0]),
        ("open_by_handle_at", SYS_open_by_handle_at, [none, NOWHERE, 0, 0, 0]),
        ("fanotify_init", SYS_fanotify_init, [0, 0, 0, 0, 0]),
        ("move_pages", SYS_move_pages, [std::process::id() as usize, 0, 0, 0, 0]),
        ("uselib", SYS_uselib, [NOWHERE, 0, 0, 0, 0]),
        ("sysfs", SYS_sysfs, [3, 0, 0, 0, 0]),
        ("lookup_dcookie", SYS_lookup_dcookie, [0, NOWHERE, 0, 0, 0]),
        ("a call nobody knows", 9999, [0, 0, 0, 0, 0]),
    ];
    for (name, number, args) in calls {
        tries.in_child(name, || call(number, args));
    }
}
