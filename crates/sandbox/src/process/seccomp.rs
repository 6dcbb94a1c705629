//! The system-call filter: which calls a room answers, as data, and the compiler that makes a BPF program of it.
//!
//! What is not listed is refused. A call is listed because programs that people write and build (shells, compilers,
//! interpreters, version control) need it; not because it looks harmless. The rules on arguments look at the low half
//! of a register only, as the kernel does with the arguments in question: whoever compares all 64 bits lets a request
//! pass that differs in the half nobody reads.
//!
//! The program is a binary search over spans of numbers, so that no call pays for the length of the list. It uses only
//! the instructions from which the kernel can tell beforehand that a number is always allowed; such calls then cost
//! nothing at all.

use std::collections::BTreeMap;

use std::sync::OnceLock;

use libc::c_long;

/// One step of the program, as the kernel takes it.
pub(crate) type Instruction = libc::sock_filter;

/// What else stands around the program, and so what the filter has to hold alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Namespaces: other processes, messages and networks do not exist for it.
    Namespaces,
    /// Landlock alone: the machine's processes have numbers here and its sockets have names.
    Landlock,
    /// A container: networks and files are its own, but its jobs have each other's numbers.
    Container,
}

impl Profile {
    /// The filter for a room of this kind, compiled when it is first asked for.
    pub(crate) fn program(self) -> &'static [Instruction] {
        static NAMESPACES: OnceLock<Vec<Instruction>> = OnceLock::new();
        static LANDLOCK: OnceLock<Vec<Instruction>> = OnceLock::new();
        static CONTAINER: OnceLock<Vec<Instruction>> = OnceLock::new();
        let compiled = match self {
            Self::Namespaces => &NAMESPACES,
            Self::Landlock => &LANDLOCK,
            Self::Container => &CONTAINER,
        };
        compiled.get_or_init(|| filter(self))
    }
}

fn filter(profile: Profile) -> Vec<Instruction> {
    let mut spans = spans(&rules(profile), REFUSED);
    spans.push((KNOWN_END, Rule::Errno(libc::ENOSYS)));

    // A foreign architecture numbers its calls differently, so nothing below this line would mean what it says.
    let mut program = vec![
        load(AT_ARCHITECTURE),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        end(libc::SECCOMP_RET_KILL_PROCESS),
        load(AT_NUMBER),
    ];
    program.extend(search(&spans));
    program
}

/// What is answered to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// It is made.
    Allow,
    /// It is not made, and this is what the program is told.
    Errno(i32),
    /// It depends on this argument, counting from 0.
    By(u32, &'static Choice),
}

/// What an argument decides.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    /// The bits of it that matter.
    mask: u32,
    cases: &'static [(u32, Rule)],
    otherwise: Rule,
}

const REFUSED: Rule = Rule::Errno(libc::EPERM);
const ALL_BITS: u32 = u32::MAX;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// The first number that was no call when this list was written. From here on the answer is "no such call", for which
/// every library has a fallback. The numbers of the x32 interface are up there too.
const KNOWN_END: u32 = 470;

/// Numbers that `libc` does not know on every machine. They are the same on all.
mod number {
    use libc::c_long;

    pub(super) const FCHMODAT2: c_long = 452;
    pub(super) const MAP_SHADOW_STACK: c_long = 453;
    pub(super) const FUTEX_WAKE: c_long = 454;
    pub(super) const FUTEX_WAIT: c_long = 455;
    pub(super) const FUTEX_REQUEUE: c_long = 456;
    pub(super) const STATMOUNT: c_long = 457;
    pub(super) const LISTMOUNT: c_long = 458;
    pub(super) const LSM_GET_SELF_ATTR: c_long = 459;
    pub(super) const LSM_SET_SELF_ATTR: c_long = 460;
    pub(super) const LSM_LIST_MODULES: c_long = 461;
    pub(super) const SETXATTRAT: c_long = 463;
    pub(super) const GETXATTRAT: c_long = 464;
    pub(super) const LISTXATTRAT: c_long = 465;
    pub(super) const REMOVEXATTRAT: c_long = 466;
    pub(super) const FILE_GETATTR: c_long = 468;
    pub(super) const FILE_SETATTR: c_long = 469;
}

/// Allowed whatever the arguments.
const ALLOWED: &[c_long] = &[
    // Files by descriptor.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_ftruncate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_pipe2,
    libc::SYS_getdents64,
    // Files by name. Which files there are is what the mounts and Landlock say.
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_utimensat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_umask,
    // Extended attributes.
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    number::SETXATTRAT,
    number::GETXATTRAT,
    number::LISTXATTRAT,
    number::REMOVEXATTRAT,
    // Memory. A program may write code and run it: compilers at run time live on that.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_mseal,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_memfd_create,
    libc::SYS_membarrier,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    libc::SYS_mbind,
    number::MAP_SHADOW_STACK,
    // Processes and threads: to start, to wait, to end.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_pidfd_open,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getpgid,
    libc::SYS_setpgid,
    libc::SYS_getsid,
    libc::SYS_setsid,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    number::FUTEX_WAKE,
    number::FUTEX_WAIT,
    number::FUTEX_REQUEUE,
    // Who one is. To become someone else takes capabilities or a set-id program, and there is neither.
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getresuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_setuid,
    libc::SYS_setreuid,
    libc::SYS_setresuid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capget,
    libc::SYS_capset,
    // A program may build a smaller room for its own parts.
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
    // Signals. Whom they reach is what the pid namespace or Landlock's scope says.
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_signalfd4,
    libc::SYS_restart_syscall,
    // Time, to read and to wait for.
    libc::SYS_gettimeofday,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_times,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    // Waiting for one of many.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    // Sockets one already has.
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    // The processor and one's share of it, to read. To set it is a matter of whose: see the profiles.
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_rr_get_interval,
    libc::SYS_getpriority,
    libc::SYS_ioprio_get,
    libc::SYS_getcpu,
    libc::SYS_getrusage,
    // The machine in a few words, and chance.
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
];

/// Older forms of what is allowed above, which only this machine has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_getdents,
    libc::SYS_sync_file_range,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_signalfd,
    libc::SYS_inotify_init,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_setrlimit,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    // Where the C library keeps what belongs to a thread.
    libc::SYS_arch_prctl,
];
/// The same here: `renameat`, `sync_file_range`, `getrlimit` and `setrlimit`, which `libc` leaves out.
#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[c_long] = &[38, 84, 163, 164];

/// Answered as if the kernel did not have them, because whoever asks has another way and takes "not permitted" for a
/// failure.
const ABSENT: &[c_long] = &[
    // Its flags are in memory, where no filter sees them. The C library falls back to `clone`.
    libc::SYS_clone3,
    number::STATMOUNT,
    number::LISTMOUNT,
    number::LSM_GET_SELF_ATTR,
    number::LSM_SET_SELF_ATTR,
    number::LSM_LIST_MODULES,
    number::FILE_GETATTR,
    number::FILE_SETATTR,
];

/// Allowed for some arguments, in every room.
const BY_ARGUMENT: &[(c_long, Rule)] = &[
    // Takes disk without writing, where nobody who counts what is written sees it. The C library writes instead.
    (libc::SYS_fallocate, Rule::Errno(libc::EOPNOTSUPP)),
    (libc::SYS_clone, Rule::By(0, &NO_NAMESPACES)),
    (libc::SYS_ioctl, Rule::By(1, &NO_TYPING)),
    (libc::SYS_prctl, Rule::By(0, &LISTED_OPTIONS)),
    (libc::SYS_personality, Rule::By(0, &ORDINARY_PERSONALITY)),
    (libc::SYS_fchmod, Rule::By(1, &NO_SET_ID)),
    (libc::SYS_fchmodat, Rule::By(2, &NO_SET_ID)),
    (number::FCHMODAT2, Rule::By(2, &NO_SET_ID)),
    (libc::SYS_mknodat, Rule::By(2, &NO_DEVICE)),
];

#[cfg(target_arch = "x86_64")]
const BY_ARGUMENT_HERE: &[(c_long, Rule)] =
    &[(libc::SYS_chmod, Rule::By(1, &NO_SET_ID)), (libc::SYS_mknod, Rule::By(1, &NO_DEVICE))];
#[cfg(target_arch = "aarch64")]
const BY_ARGUMENT_HERE: &[(c_long, Rule)] = &[];

/// What namespaces make safe: messages, networks and the numbers of processes are the room's own.
const IN_NAMESPACES: &[(c_long, Rule)] = &[
    (libc::SYS_socket, Rule::By(0, &LISTED_FAMILIES)),
    (libc::SYS_socketpair, Rule::By(0, &LOCAL_PAIR)),
    (libc::SYS_connect, Rule::Allow),
    (libc::SYS_bind, Rule::Allow),
    (libc::SYS_listen, Rule::Allow),
    (libc::SYS_accept, Rule::Allow),
    (libc::SYS_accept4, Rule::Allow),
    // System V messages.
    (libc::SYS_shmget, Rule::Allow),
    (libc::SYS_shmat, Rule::Allow),
    (libc::SYS_shmdt, Rule::Allow),
    (libc::SYS_shmctl, Rule::Allow),
    (libc::SYS_semget, Rule::Allow),
    (libc::SYS_semop, Rule::Allow),
    (libc::SYS_semtimedop, Rule::Allow),
    (libc::SYS_semctl, Rule::Allow),
    (libc::SYS_msgget, Rule::Allow),
    (libc::SYS_msgsnd, Rule::Allow),
    (libc::SYS_msgrcv, Rule::Allow),
    (libc::SYS_msgctl, Rule::Allow),
    // Limits and shares of a process given by its number.
    (libc::SYS_prlimit64, Rule::Allow),
    (libc::SYS_sched_setaffinity, Rule::Allow),
    (libc::SYS_sched_setattr, Rule::Allow),
    (libc::SYS_sched_setparam, Rule::Allow),
    (libc::SYS_sched_setscheduler, Rule::Allow),
    (libc::SYS_setpriority, Rule::Allow),
    (libc::SYS_ioprio_set, Rule::Allow),
    (libc::SYS_inotify_add_watch, Rule::Allow),
];

/// What is left of it without them. There is no socket but a pair between relatives, no System V message, and no
/// watching of directories: Landlock lets all of the machine's be watched, and the names in them come with it.
const IN_LANDLOCK: &[(c_long, Rule)] = &[
    (libc::SYS_socketpair, Rule::By(0, &CONNECTED_PAIR)),
    // By its number every process of the same user, the runtime too, could be starved or ended, and without a signal
    // that Landlock would stop.
    (libc::SYS_prlimit64, Rule::By(0, &ONESELF)),
    (libc::SYS_sched_setaffinity, Rule::By(0, &ONESELF)),
    (libc::SYS_sched_setattr, Rule::By(0, &ONESELF)),
    (libc::SYS_sched_setparam, Rule::By(0, &ONESELF)),
    (libc::SYS_sched_setscheduler, Rule::By(0, &ONESELF)),
    (libc::SYS_setpriority, Rule::By(0, &PRIORITY_OF_ONESELF)),
    (libc::SYS_ioprio_set, Rule::By(0, &IO_PRIORITY_OF_ONESELF)),
];

/// The sockets of the one and the numbers of the other. A System V message would outlive its job, and the next would
/// find it.
const IN_CONTAINER: &[(c_long, Rule)] = &[
    (libc::SYS_socket, Rule::By(0, &LISTED_FAMILIES)),
    (libc::SYS_socketpair, Rule::By(0, &LOCAL_PAIR)),
    (libc::SYS_connect, Rule::Allow),
    (libc::SYS_bind, Rule::Allow),
    (libc::SYS_listen, Rule::Allow),
    (libc::SYS_accept, Rule::Allow),
    (libc::SYS_accept4, Rule::Allow),
    (libc::SYS_prlimit64, Rule::By(0, &ONESELF)),
    (libc::SYS_sched_setaffinity, Rule::By(0, &ONESELF)),
    (libc::SYS_sched_setattr, Rule::By(0, &ONESELF)),
    (libc::SYS_sched_setparam, Rule::By(0, &ONESELF)),
    (libc::SYS_sched_setscheduler, Rule::By(0, &ONESELF)),
    (libc::SYS_setpriority, Rule::By(0, &PRIORITY_OF_ONESELF)),
    (libc::SYS_ioprio_set, Rule::By(0, &IO_PRIORITY_OF_ONESELF)),
    (libc::SYS_inotify_add_watch, Rule::Allow),
];

/// No bit of a new namespace. The last is `CLONE_NEWTIME`: `clone` takes it for a part of the exit signal, but no
/// signal is that large.
const NO_NAMESPACES: Choice = Choice {
    mask: (libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | 0x80) as u32,
    cases: &[(0, Rule::Allow)],
    otherwise: REFUSED,
};

/// A terminal is shared with whoever reads it: nothing is typed or pasted into it in their name. A line discipline
/// would make the kernel load a module for it.
const NO_TYPING: Choice = Choice {
    mask: ALL_BITS,
    cases: &[(libc::TIOCSTI as u32, REFUSED), (libc::TIOCLINUX as u32, REFUSED), (libc::TIOCSETD as u32, REFUSED)],
    otherwise: Rule::Allow,
};

/// A process may open itself to those who watch. That it closed itself is only said: then it could not be watched, and to
/// other processes it is closed anyway.
const ONLY_OPENED: Choice = Choice { mask: ALL_BITS, cases: &[(1, Rule::Allow)], otherwise: Rule::Errno(0) };

/// Options of `prctl` that concern nobody but the process. Those not listed are answered as the kernel answers options
/// it does not know, which programs expect. A filter of one's own is refused: it could only add to this one, but the
/// compiler behind it is a piece of the kernel that nobody in a room needs to reach.
const LISTED_OPTIONS: Choice = Choice {
    mask: ALL_BITS,
    cases: &[
        (libc::PR_SET_SECCOMP as u32, REFUSED),
        (libc::PR_GET_SECCOMP as u32, Rule::Allow),
        (libc::PR_SET_NAME as u32, Rule::Allow),
        (libc::PR_GET_NAME as u32, Rule::Allow),
        (libc::PR_SET_VMA as u32, Rule::Allow),
        (libc::PR_SET_PDEATHSIG as u32, Rule::Allow),
        (libc::PR_GET_PDEATHSIG as u32, Rule::Allow),
        (libc::PR_SET_CHILD_SUBREAPER as u32, Rule::Allow),
        (libc::PR_GET_CHILD_SUBREAPER as u32, Rule::Allow),
        (libc::PR_SET_DUMPABLE as u32, Rule::By(1, &ONLY_OPENED)),
        (libc::PR_GET_DUMPABLE as u32, Rule::Allow),
        (libc::PR_SET_PTRACER as u32, Rule::Allow),
        (libc::PR_SET_NO_NEW_PRIVS as u32, Rule::Allow),
        (libc::PR_GET_NO_NEW_PRIVS as u32, Rule::Allow),
        // Capabilities, of which there are none.
        (libc::PR_SET_KEEPCAPS as u32, Rule::Allow),
        (libc::PR_GET_KEEPCAPS as u32, Rule::Allow),
        (libc::PR_CAPBSET_READ as u32, Rule::Allow),
        (libc::PR_CAPBSET_DROP as u32, Rule::Allow),
        (libc::PR_CAP_AMBIENT as u32, Rule::Allow),
        (libc::PR_SET_SECUREBITS as u32, Rule::Allow),
        (libc::PR_GET_SECUREBITS as u32, Rule::Allow),
        // The processor and its memory, as one process sees them.
        (libc::PR_SET_TIMERSLACK as u32, Rule::Allow),
        (libc::PR_GET_TIMERSLACK as u32, Rule::Allow),
        (libc::PR_SET_TIMING as u32, Rule::Allow),
        (libc::PR_GET_TIMING as u32, Rule::Allow),
        (libc::PR_GET_TSC as u32, Rule::Allow),
        (libc::PR_GET_TID_ADDRESS as u32, Rule::Allow),
        (libc::PR_SET_THP_DISABLE as u32, Rule::Allow),
        (libc::PR_GET_THP_DISABLE as u32, Rule::Allow),
        (libc::PR_SET_SPECULATION_CTRL as u32, Rule::Allow),
        (libc::PR_GET_SPECULATION_CTRL as u32, Rule::Allow),
        (libc::PR_SET_MDWE as u32, Rule::Allow),
        (libc::PR_GET_MDWE as u32, Rule::Allow),
        // The same for Arm, which `libc` does not name: vector length, keys of pointers, tagged addresses.
        (50, Rule::Allow),
        (51, Rule::Allow),
        (54, Rule::Allow),
        (55, Rule::Allow),
        (56, Rule::Allow),
    ],
    otherwise: Rule::Errno(libc::EINVAL),
};

/// The ordinary one, and the question which it is. Others switch off what makes memory hard to predict.
const ORDINARY_PERSONALITY: Choice =
    Choice { mask: ALL_BITS, cases: &[(0, Rule::Allow), (0xFFFF_FFFF, Rule::Allow)], otherwise: REFUSED };

/// A file of the workspace belongs to the workspace's owner and stays when the room is gone; out there a set-id bit
/// works. Creating a file with the bit is no way around: the file is empty, and writing to it drops the bit.
const NO_SET_ID: Choice =
    Choice { mask: libc::S_ISUID | libc::S_ISGID, cases: &[(0, Rule::Allow)], otherwise: REFUSED };

/// Files, pipes and sockets, but no devices. The kernel refuses most of those too; the one it lets pass, 0:0, is how
/// an overlay says "deleted".
const NO_DEVICE: Choice = Choice {
    mask: libc::S_IFMT,
    cases: &[
        (0, Rule::Allow),
        (libc::S_IFREG, Rule::Allow),
        (libc::S_IFIFO, Rule::Allow),
        (libc::S_IFSOCK, Rule::Allow),
    ],
    otherwise: REFUSED,
};

/// Families of sockets. Each one more is a network stack more that can be reached.
const LISTED_FAMILIES: Choice = Choice {
    mask: ALL_BITS,
    cases: &[
        (libc::AF_UNIX as u32, Rule::Allow),
        (libc::AF_INET as u32, Rule::By(1, &INTERNET_TYPES)),
        (libc::AF_INET6 as u32, Rule::By(1, &INTERNET_TYPES)),
        (libc::AF_NETLINK as u32, Rule::By(2, &ROUTES_ONLY)),
    ],
    otherwise: Rule::Errno(libc::EAFNOSUPPORT),
};

/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u32 = 0xF;

/// Streams and datagrams; raw packets are refused.
const INTERNET_TYPES: Choice = Choice {
    mask: SOCKET_TYPE,
    cases: &[
        (libc::SOCK_STREAM as u32, Rule::By(2, &INTERNET_PROTOCOLS)),
        (libc::SOCK_DGRAM as u32, Rule::By(2, &INTERNET_PROTOCOLS)),
    ],
    otherwise: REFUSED,
};

/// What the door to the network understands. Datagrams of other protocols (ICMP among them) would pass beside it.
const INTERNET_PROTOCOLS: Choice = Choice {
    mask: ALL_BITS,
    cases: &[(0, Rule::Allow), (libc::IPPROTO_TCP as u32, Rule::Allow), (libc::IPPROTO_UDP as u32, Rule::Allow)],
    otherwise: Rule::Errno(libc::EPROTONOSUPPORT),
};

/// Libraries ask for interfaces and addresses this way. The others configure the kernel.
const ROUTES_ONLY: Choice = Choice {
    mask: ALL_BITS,
    cases: &[(libc::NETLINK_ROUTE as u32, Rule::Allow)],
    otherwise: Rule::Errno(libc::EPROTONOSUPPORT),
};

const LOCAL_PAIR: Choice = Choice {
    mask: ALL_BITS,
    cases: &[(libc::AF_UNIX as u32, Rule::Allow)],
    otherwise: Rule::Errno(libc::EAFNOSUPPORT),
};

const CONNECTED_PAIR: Choice = Choice {
    mask: ALL_BITS,
    cases: &[(libc::AF_UNIX as u32, Rule::By(1, &CONNECTED_TYPES))],
    otherwise: Rule::Errno(libc::EAFNOSUPPORT),
};

/// An end of such a pair talks to the other end and nobody else. A datagram socket can send to any name.
const CONNECTED_TYPES: Choice = Choice {
    mask: SOCKET_TYPE,
    cases: &[(libc::SOCK_STREAM as u32, Rule::Allow), (libc::SOCK_SEQPACKET as u32, Rule::Allow)],
    otherwise: REFUSED,
};

/// The number 0 means the caller.
const ONESELF: Choice = Choice { mask: ALL_BITS, cases: &[(0, Rule::Allow)], otherwise: REFUSED };

/// Here 0 says that the next number is one process's, not a group's or a user's.
const PRIORITY_OF_ONESELF: Choice = Choice { mask: ALL_BITS, cases: &[(0, Rule::By(1, &ONESELF))], otherwise: REFUSED };

/// And here it is 1.
const IO_PRIORITY_OF_ONESELF: Choice =
    Choice { mask: ALL_BITS, cases: &[(1, Rule::By(1, &ONESELF))], otherwise: REFUSED };

/// The rule for every listed number.
fn rules(profile: Profile) -> BTreeMap<u32, Rule> {
    let allowed = [ALLOWED, ALLOWED_HERE].into_iter().flatten().map(|&call| (call, Rule::Allow));
    let absent = ABSENT.iter().map(|&call| (call, Rule::Errno(libc::ENOSYS)));
    let fenced = match profile {
        Profile::Namespaces => IN_NAMESPACES,
        Profile::Landlock => IN_LANDLOCK,
        Profile::Container => IN_CONTAINER,
    };
    let by_argument = [BY_ARGUMENT, BY_ARGUMENT_HERE, fenced].into_iter().flatten().copied();
    allowed.chain(absent).chain(by_argument).map(|(call, rule)| (call as u32, rule)).collect()
}

/// The numbers from 0 up, cut where the rule changes: where each span starts, and its rule.
fn spans(cases: &BTreeMap<u32, Rule>, otherwise: Rule) -> Vec<(u32, Rule)> {
    let mut spans = vec![(0, otherwise)];
    for (&value, &rule) in cases {
        // Where the case before ended, the span between the two may be empty.
        spans.pop_if(|last| last.0 == value);
        spans.push((value, rule));
        spans.extend(value.checked_add(1).map(|next| (next, otherwise)));
    }
    spans.dedup_by_key(|span| span.1);
    spans
}

/// Finds the span the loaded word is in, and does what its rule says.
///
/// Every way ends in a return of its own. A jump reaches 255 steps at most, so a lower half that is longer is passed
/// with the one jump that reaches further.
fn search(spans: &[(u32, Rule)]) -> Vec<Instruction> {
    let (lower, upper) = spans.split_at(spans.len() / 2);
    let ([_, ..], [(start, _), ..]) = (lower, upper) else {
        return upper.iter().flat_map(|&(_, rule)| carry_out(rule)).collect();
    };
    let lower = search(lower);
    let mut program = match u8::try_from(lower.len()) {
        Ok(near) => vec![jump(libc::BPF_JGE, *start, near, 0)],
        Err(_) => vec![jump(libc::BPF_JGE, *start, 0, 1), jump(libc::BPF_JA, lower.len() as u32, 0, 0)],
    };
    program.extend(lower);
    program.extend(search(upper));
    program
}

fn carry_out(rule: Rule) -> Vec<Instruction> {
    match rule {
        Rule::Allow => vec![end(libc::SECCOMP_RET_ALLOW)],
        Rule::Errno(errno) => vec![end(libc::SECCOMP_RET_ERRNO | errno as u32)],
        Rule::By(argument, choice) => {
            let mut program = vec![load(AT_ARGUMENTS + 8 * argument)];
            if choice.mask != ALL_BITS {
                program.push(step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, choice.mask));
            }
            program.extend(search(&spans(&choice.cases.iter().copied().collect(), choice.otherwise)));
            program
        }
    }
}

/// Where the kernel puts what is known about a call. An argument takes eight bytes, the low half first.
const AT_NUMBER: u32 = 0;
const AT_ARCHITECTURE: u32 = 4;
const AT_ARGUMENTS: u32 = 16;

fn load(at: u32) -> Instruction {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at)
}

fn jump(how: u32, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { jt, jf, ..step(libc::BPF_JMP | how | libc::BPF_K, k) }
}

fn end(action: u32) -> Instruction {
    step(libc::BPF_RET | libc::BPF_K, action)
}

fn step(code: u32, k: u32) -> Instruction {
    Instruction { code: code as u16, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
    const ALL: [Profile; 3] = [Profile::Namespaces, Profile::Landlock, Profile::Container];

    const fn errno(errno: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | errno as u32
    }

    /// What the kernel hands to a filter.
    #[derive(Debug, Clone, Copy)]
    struct Called {
        number: u32,
        architecture: u32,
        arguments: [u64; 6],
    }

    impl Called {
        fn here(number: u32, arguments: [u64; 6]) -> Self {
            Self { number, architecture: ARCHITECTURE, arguments }
        }

        fn word(&self, at: u32) -> u32 {
            match at {
                0 => self.number,
                4 => self.architecture,
                _ => {
                    let argument = self.arguments[(at as usize - 16) / 8];
                    assert!(at.is_multiple_of(4), "the kernel refuses a load at {at}");
                    if at.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }
                }
            }
        }
    }

    /// Runs a program as the kernel would: the action, and how many steps it took.
    fn run(program: &[Instruction], called: Called) -> (u32, usize) {
        let (mut word, mut at) = (0, 0);
        for steps in 1.. {
            let Instruction { code, jt, jf, k } = program[at];
            at += 1;
            match u32::from(code) {
                0x20 => word = called.word(k),
                0x54 => word &= k,
                0x05 => at += k as usize,
                0x15 => at += usize::from(if word == k { jt } else { jf }),
                0x35 => at += usize::from(if word >= k { jt } else { jf }),
                0x06 => return (k, steps),
                other => panic!("no such step: {other:#x}"),
            }
        }
        unreachable!()
    }

    fn call(profile: Profile, number: c_long, arguments: [u64; 6]) -> u32 {
        run(&filter(profile), Called::here(number as u32, arguments)).0
    }

    /// A call with these first arguments is answered so in both kinds of room.
    fn check(number: c_long, arguments: &[u64], expected: u32) {
        for profile in ALL {
            check_in(profile, number, arguments, expected);
        }
    }

    fn check_in(profile: Profile, number: c_long, arguments: &[u64], expected: u32) {
        let mut six = [0; 6];
        six[..arguments.len()].copy_from_slice(arguments);
        assert_eq!(call(profile, number, six), expected, "{profile:?}: call {number} with {arguments:x?}");
    }

    /// What a rule means, said without a program.
    fn meaning(rule: Rule, arguments: [u64; 6]) -> u32 {
        match rule {
            Rule::Allow => ALLOW,
            Rule::Errno(number) => errno(number),
            Rule::By(argument, choice) => {
                let word = arguments[argument as usize] as u32 & choice.mask;
                let found = choice.cases.iter().find(|case| case.0 == word);
                meaning(found.map_or(choice.otherwise, |case| case.1), arguments)
            }
        }
    }

    fn means(rules: &BTreeMap<u32, Rule>, number: u32, arguments: [u64; 6]) -> u32 {
        match rules.get(&number) {
            Some(&rule) => meaning(rule, arguments),
            None if number < KNOWN_END => errno(libc::EPERM),
            None => errno(libc::ENOSYS),
        }
    }

    fn lists(profile: Profile) -> Vec<c_long> {
        let fenced = match profile {
            Profile::Namespaces => IN_NAMESPACES,
            Profile::Landlock => IN_LANDLOCK,
            Profile::Container => IN_CONTAINER,
        };
        let by_argument = [BY_ARGUMENT, BY_ARGUMENT_HERE, fenced].into_iter().flatten().map(|(call, _)| *call);
        [ALLOWED, ALLOWED_HERE, ABSENT].into_iter().flatten().copied().chain(by_argument).collect()
    }

    /// All choices that can be reached.
    fn choices() -> Vec<&'static Choice> {
        let mut found: Vec<&Choice> = Vec::new();
        let mut todo: Vec<Rule> = ALL.into_iter().flat_map(|profile| rules(profile).into_values()).collect();
        while let Some(rule) = todo.pop() {
            if let Rule::By(_, choice) = rule {
                found.push(choice);
                todo.extend(choice.cases.iter().map(|case| case.1).chain([choice.otherwise]));
            }
        }
        found
    }

    #[test]
    fn a_number_is_listed_once() {
        for profile in ALL {
            let lists = lists(profile);
            let mut seen = BTreeSet::new();
            let twice: Vec<_> = lists.iter().filter(|number| !seen.insert(**number)).collect();
            assert_eq!(twice, Vec::<&c_long>::new());
            assert!(lists.iter().all(|&number| (0..c_long::from(KNOWN_END)).contains(&number)));
        }
    }

    #[test]
    fn a_case_is_listed_once_and_can_match() {
        for choice in choices() {
            let values: BTreeSet<u32> = choice.cases.iter().map(|case| case.0).collect();
            assert_eq!(values.len(), choice.cases.len(), "{choice:?}");
            assert!(values.iter().all(|value| value & !choice.mask == 0), "{choice:?}");
        }
    }

    #[test]
    fn every_number_is_answered_as_the_lists_say() {
        for profile in ALL {
            let (program, rules) = (filter(profile), rules(profile));
            for number in (0..2_000).chain([u32::MAX - 1, u32::MAX]) {
                for arguments in [[0; 6], [1; 6], [2; 6], [u64::MAX; 6], [1 << 32; 6], [0xFFFF_FFFF_0000_0000; 6]] {
                    let (answer, _) = run(&program, Called::here(number, arguments));
                    assert_eq!(answer, means(&rules, number, arguments), "{profile:?}: call {number}");
                }
            }
        }
    }

    #[test]
    fn every_case_of_an_argument_is_answered_as_the_lists_say() {
        // Around each listed value, in every position, with and without a bit in the half that nobody reads.
        let values: BTreeSet<u32> = choices()
            .iter()
            .flat_map(|choice| choice.cases.iter().map(|case| case.0).chain([choice.mask]))
            .flat_map(|value| [value.wrapping_sub(1), value, value.wrapping_add(1)])
            .collect();
        for profile in ALL {
            let program = filter(profile);
            let decided = rules(profile).into_iter().filter(|(_, rule)| matches!(rule, Rule::By(..)));
            for (number, rule) in decided {
                for (first, second) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
                    for third in [0, 1, 6, 17, 0o2755, 0o4755, 0o755] {
                        let high = u64::from(second & 1) << 32;
                        let arguments = [u64::from(first) | high, u64::from(second) | high, third, 0, 0, 0];
                        let (answer, _) = run(&program, Called::here(number, arguments));
                        assert_eq!(answer, meaning(rule, arguments), "{profile:?}: call {number}, {arguments:x?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_programs_live_on_is_open() {
        for number in [
            libc::SYS_read,
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_statx,
            libc::SYS_faccessat2,
            libc::SYS_close_range,
            libc::SYS_execve,
            libc::SYS_futex,
            libc::SYS_futex_waitv,
            libc::SYS_rseq,
            libc::SYS_mseal,
            libc::SYS_memfd_create,
            libc::SYS_pidfd_open,
            libc::SYS_kill,
            libc::SYS_epoll_pwait2,
            libc::SYS_getrandom,
        ] {
            check(number, &[], ALLOW);
        }
    }

    #[test]
    fn what_no_room_needs_is_closed() {
        for number in [
            // Ways around the filter.
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_seccomp,
            // Other processes.
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_process_madvise,
            libc::SYS_process_mrelease,
            libc::SYS_pidfd_getfd,
            libc::SYS_kcmp,
            libc::SYS_move_pages,
            libc::SYS_migrate_pages,
            // Keys, programs in the kernel, its counters and its faults.
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_keyctl,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_memfd_secret,
            libc::SYS_syslog,
            libc::SYS_fanotify_init,
            libc::SYS_fanotify_mark,
            // Mounts and namespaces.
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_fsopen,
            libc::SYS_fsmount,
            libc::SYS_fsconfig,
            libc::SYS_fspick,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_mount_setattr,
            467, // open_tree_attr
            libc::SYS_setns,
            libc::SYS_unshare,
            libc::SYS_name_to_handle_at,
            libc::SYS_open_by_handle_at,
            // The machine.
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_delete_module,
            libc::SYS_kexec_load,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_swapoff,
            libc::SYS_settimeofday,
            libc::SYS_clock_settime,
            libc::SYS_adjtimex,
            libc::SYS_clock_adjtime,
            libc::SYS_sethostname,
            libc::SYS_setdomainname,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_quotactl_fd,
            libc::SYS_vhangup,
            libc::SYS_nfsservctl,
            libc::SYS_lookup_dcookie,
            // Messages by name, and requests of the old kind.
            libc::SYS_mq_open,
            libc::SYS_mq_unlink,
            libc::SYS_mq_timedsend,
            libc::SYS_mq_timedreceive,
            libc::SYS_mq_notify,
            libc::SYS_mq_getsetattr,
            libc::SYS_io_setup,
            libc::SYS_io_submit,
        ] {
            check(number, &[], errno(libc::EPERM));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_only_this_machine_has_is_closed() {
        for number in [
            libc::SYS_kexec_file_load,
            libc::SYS_iopl,
            libc::SYS_ioperm,
            libc::SYS_modify_ldt,
            libc::SYS_uselib,
            libc::SYS__sysctl,
            libc::SYS_ustat,
            libc::SYS_sysfs,
        ] {
            check(number, &[], errno(libc::EPERM));
        }
    }

    #[test]
    fn what_libraries_have_a_fallback_for_is_absent() {
        for number in ABSENT.iter().copied().chain([470, 471, 1_000, 0xFFFF_FFFF]) {
            check(number, &[], errno(libc::ENOSYS));
        }
        check(libc::SYS_clone3, &[u64::MAX, 88], errno(libc::ENOSYS));
        check(469, &[], errno(libc::ENOSYS));
        check(467, &[], errno(libc::EPERM));
    }

    #[test]
    fn a_foreign_architecture_ends_the_program() {
        // 32-bit x86, 32-bit Arm, and the other one of the two this is written for.
        for architecture in [0x4000_0003, 0x4000_0028, ARCHITECTURE ^ (0x3E ^ 0xB7), 0, u32::MAX] {
            for (profile, number) in ALL.into_iter().flat_map(|profile| (0..500).map(move |number| (profile, number))) {
                let called = Called { number, architecture, arguments: [0; 6] };
                assert_eq!(run(&filter(profile), called).0, KILL);
            }
        }
    }

    #[test]
    fn the_x32_interface_is_absent() {
        for number in 0..1_000 {
            check(0x4000_0000 | number, &[], errno(libc::ENOSYS));
        }
    }

    #[test]
    fn a_clone_stays_in_its_namespaces() {
        let thread = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        check(libc::SYS_clone, &[thread as u64], ALLOW);
        check(libc::SYS_clone, &[libc::SIGCHLD as u64], ALLOW);
        check(libc::SYS_clone, &[(libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) as u64], ALLOW);
        check(libc::SYS_clone, &[(libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID) as u64], ALLOW);
        for space in [
            libc::CLONE_NEWNS,
            libc::CLONE_NEWCGROUP,
            libc::CLONE_NEWUTS,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWNET,
            0x80,
        ] {
            check(libc::SYS_clone, &[space as u64], errno(libc::EPERM));
            check(libc::SYS_clone, &[(space | thread | libc::SIGCHLD) as u64 | 1 << 32], errno(libc::EPERM));
        }
    }

    #[test]
    fn nobody_types_into_a_shared_terminal() {
        for request in [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD] {
            for high in [0, 1 << 32, 0xFFFF_FFFF_0000_0000] {
                check(libc::SYS_ioctl, &[0, request | high], errno(libc::EPERM));
            }
        }
        for request in [libc::TIOCGWINSZ, libc::TCGETS, libc::FIONREAD, libc::TIOCSCTTY, libc::TIOCSTI - 1] {
            check(libc::SYS_ioctl, &[0, request], ALLOW);
        }
    }

    #[test]
    fn a_program_puts_up_no_filter_of_its_own() {
        check(libc::SYS_prctl, &[libc::PR_SET_SECCOMP as u64, 2], errno(libc::EPERM));
        check(libc::SYS_prctl, &[libc::PR_SET_SECCOMP as u64 | 1 << 32, 2], errno(libc::EPERM));
        check(libc::SYS_seccomp, &[1, 0], errno(libc::EPERM));
    }

    #[test]
    fn options_of_a_process_are_listed() {
        check(libc::SYS_prctl, &[libc::PR_SET_NAME as u64], ALLOW);
        check(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, 1], ALLOW);
        check(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, 0], errno(0));
        check(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, 1 << 32], errno(0));
        check(libc::SYS_prctl, &[libc::PR_SET_VMA as u64], ALLOW);
        check(libc::SYS_prctl, &[libc::PR_SET_NO_NEW_PRIVS as u64, 1], ALLOW);
        check(libc::SYS_prctl, &[libc::PR_SET_MM as u64], errno(libc::EINVAL));
        check(libc::SYS_prctl, &[1_000], errno(libc::EINVAL));
        check(libc::SYS_personality, &[0], ALLOW);
        check(libc::SYS_personality, &[0xFFFF_FFFF], ALLOW);
        check(libc::SYS_personality, &[libc::ADDR_NO_RANDOMIZE as u64], errno(libc::EPERM));
        check(libc::SYS_personality, &[8], errno(libc::EPERM));
    }

    #[test]
    fn no_file_gets_a_set_id_bit() {
        for (number, before) in [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (number::FCHMODAT2, 2)] {
            for (mode, expected) in [
                (0o755, ALLOW),
                (0o1777, ALLOW),
                (0o4755, errno(libc::EPERM)),
                (0o2755, errno(libc::EPERM)),
                (0o6000, errno(libc::EPERM)),
                (0o4000 | 1 << 32, errno(libc::EPERM)),
            ] {
                let arguments = [vec![7; before], vec![mode]].concat();
                check(number, &arguments, expected);
            }
        }
        #[cfg(target_arch = "x86_64")]
        check(libc::SYS_chmod, &[0, 0o4755], errno(libc::EPERM));
    }

    #[test]
    fn no_device_is_made() {
        for (kind, expected) in [
            (0, ALLOW),
            (libc::S_IFREG, ALLOW),
            (libc::S_IFIFO, ALLOW),
            (libc::S_IFSOCK, ALLOW),
            (libc::S_IFCHR, errno(libc::EPERM)),
            (libc::S_IFBLK, errno(libc::EPERM)),
            (libc::S_IFDIR, errno(libc::EPERM)),
        ] {
            check(libc::SYS_mknodat, &[0, 0, u64::from(kind | 0o644)], expected);
            #[cfg(target_arch = "x86_64")]
            check(libc::SYS_mknod, &[0, u64::from(kind | 0o644)], expected);
        }
    }

    #[test]
    fn sockets_in_namespaces_are_of_listed_families() {
        let socket = |family: i32, kind: i32, protocol: i32, expected: u32| {
            let arguments = [family as u64, kind as u64, protocol as u64];
            check_in(Profile::Namespaces, libc::SYS_socket, &arguments, expected);
        };
        socket(libc::AF_UNIX, libc::SOCK_STREAM, 0, ALLOW);
        socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0, ALLOW);
        for family in [libc::AF_INET, libc::AF_INET6] {
            for kind in [libc::SOCK_STREAM, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK] {
                socket(family, kind, 0, ALLOW);
                socket(family, kind, libc::IPPROTO_TCP, ALLOW);
                socket(family, kind, libc::IPPROTO_SCTP, errno(libc::EPROTONOSUPPORT));
                socket(family, kind, libc::IPPROTO_MPTCP, errno(libc::EPROTONOSUPPORT));
            }
            socket(family, libc::SOCK_DGRAM, libc::IPPROTO_UDP, ALLOW);
            socket(family, libc::SOCK_DGRAM, libc::IPPROTO_ICMP, errno(libc::EPROTONOSUPPORT));
            socket(family, libc::SOCK_DGRAM, libc::IPPROTO_ICMPV6, errno(libc::EPROTONOSUPPORT));
            for kind in [libc::SOCK_RAW, 10, libc::SOCK_SEQPACKET, libc::SOCK_RDM, libc::SOCK_DCCP] {
                socket(family, kind, 0, errno(libc::EPERM));
                socket(family, kind | libc::SOCK_CLOEXEC, libc::IPPROTO_TCP, errno(libc::EPERM));
            }
        }
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE, ALLOW);
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER, errno(libc::EPROTONOSUPPORT));
        socket(libc::AF_NETLINK, libc::SOCK_DGRAM, libc::NETLINK_KOBJECT_UEVENT, errno(libc::EPROTONOSUPPORT));
        for family in [libc::AF_PACKET, libc::AF_ALG, libc::AF_VSOCK, libc::AF_BLUETOOTH, libc::AF_XDP, 0, 100] {
            socket(family, libc::SOCK_STREAM, 0, errno(libc::EAFNOSUPPORT));
        }
        check_in(Profile::Namespaces, libc::SYS_connect, &[], ALLOW);
    }

    #[test]
    fn without_namespaces_there_is_no_socket_but_a_pair() {
        for family in 0..50 {
            for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW] {
                check_in(Profile::Landlock, libc::SYS_socket, &[family, kind as u64], errno(libc::EPERM));
            }
        }
        for number in [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4] {
            check_in(Profile::Landlock, number, &[], errno(libc::EPERM));
        }
        let pair = |profile, family: i32, kind: i32, expected| {
            check_in(profile, libc::SYS_socketpair, &[family as u64, kind as u64], expected);
        };
        for profile in ALL {
            pair(profile, libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, ALLOW);
            pair(profile, libc::AF_UNIX, libc::SOCK_SEQPACKET, ALLOW);
            pair(profile, libc::AF_TIPC, libc::SOCK_STREAM, errno(libc::EAFNOSUPPORT));
        }
        pair(Profile::Namespaces, libc::AF_UNIX, libc::SOCK_DGRAM, ALLOW);
        pair(Profile::Landlock, libc::AF_UNIX, libc::SOCK_DGRAM, errno(libc::EPERM));
        pair(Profile::Landlock, libc::AF_UNIX, libc::SOCK_RAW, errno(libc::EPERM));
    }

    #[test]
    fn what_namespaces_fence_is_closed_without_them() {
        for number in [
            libc::SYS_shmget,
            libc::SYS_shmat,
            libc::SYS_shmctl,
            libc::SYS_shmdt,
            libc::SYS_semget,
            libc::SYS_semop,
            libc::SYS_semtimedop,
            libc::SYS_semctl,
            libc::SYS_msgget,
            libc::SYS_msgsnd,
            libc::SYS_msgrcv,
            libc::SYS_msgctl,
            libc::SYS_inotify_add_watch,
        ] {
            check_in(Profile::Namespaces, number, &[], ALLOW);
            check_in(Profile::Landlock, number, &[], errno(libc::EPERM));
        }
    }

    #[test]
    fn without_namespaces_nobody_elses_share_is_changed() {
        for number in [
            libc::SYS_prlimit64,
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setattr,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setscheduler,
        ] {
            check_in(Profile::Namespaces, number, &[4_711], ALLOW);
            check(number, &[0], ALLOW);
            for someone in [1, 4_711, 0xFFFF_FFFF] {
                check_in(Profile::Landlock, number, &[someone], errno(libc::EPERM));
            }
        }
        for (number, process, group, user) in [(libc::SYS_setpriority, 0, 1, 2), (libc::SYS_ioprio_set, 1, 2, 3)] {
            check(number, &[process, 0], ALLOW);
            check_in(Profile::Landlock, number, &[process, 4_711], errno(libc::EPERM));
            check_in(Profile::Landlock, number, &[group, 0], errno(libc::EPERM));
            check_in(Profile::Landlock, number, &[user, 0], errno(libc::EPERM));
            check_in(Profile::Namespaces, number, &[user, 0], ALLOW);
        }
    }

    #[test]
    fn the_program_is_short_and_no_call_waits_long_for_its_answer() {
        for profile in ALL {
            let program = filter(profile);
            assert!(program.len() < 1_024, "{} steps", program.len());
            let longest = (0..600)
                .chain([u32::MAX])
                .flat_map(|number| [0, 1, 2, 10, 16, 0x20000].map(|word| Called::here(number, [word; 6])))
                .map(|called| run(&program, called).1)
                .max();
            assert!(longest < Some(32), "{longest:?} steps");
        }
    }

    proptest! {
        /// Any list, however long: jumps beyond 255 steps included.
        #[test]
        fn a_search_finds_the_rule(
            cases in prop::collection::btree_map(0_u32..6_000, 1_i32..4, 0..3_000),
            numbers in prop::collection::vec(prop_oneof![0_u32..6_000, any::<u32>()], 100),
        ) {
            let rules = cases.iter().map(|(&number, &code)| (number, Rule::Errno(code))).collect();
            let mut program = vec![load(AT_NUMBER)];
            program.extend(search(&spans(&rules, REFUSED)));
            for number in numbers.into_iter().chain(cases.keys().copied()).chain([0, u32::MAX]) {
                let expected = cases.get(&number).copied().unwrap_or(libc::EPERM);
                prop_assert_eq!(run(&program, Called::here(number, [0; 6])).0, errno(expected));
            }
        }
    }
}
