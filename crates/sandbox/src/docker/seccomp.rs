//! The filter a container starts with, as the daemon takes it.
//!
//! Every job is behind the filter of process rooms, which looks at arguments too. This one holds the worker, and is what
//! is left should the other ever fail: what no job may call, nobody in the container may, but for the call that puts up
//! a filter.

use serde_json::json;

/// What is allowed whatever the arguments. All that the filter of jobs lets through at all is among it.
#[rustfmt::skip]
const ALLOWED: &[&str] = &[
    "accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "capget", "capset", "chdir", "chmod",
    "chown", "clock_getres", "clock_gettime", "clock_nanosleep", "close", "close_range", "connect",
    "copy_file_range", "creat", "dup", "dup2", "dup3", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait",
    "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "execve", "execveat", "exit", "exit_group", "faccessat",
    "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchown", "fchownat", "fcntl",
    "fdatasync", "fgetxattr", "flistxattr", "flock", "fork", "fremovexattr", "fsetxattr", "fstat", "fstatfs",
    "fsync", "ftruncate", "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "futimesat",
    "get_mempolicy", "get_robust_list", "getcpu", "getcwd", "getdents", "getdents64", "getegid", "geteuid", "getgid",
    "getgroups", "getitimer", "getpeername", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getrandom",
    "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "getsockname", "getsockopt", "gettid",
    "gettimeofday", "getuid", "getxattr", "getxattrat", "inotify_add_watch", "inotify_init", "inotify_init1",
    "inotify_rm_watch", "ioctl", "ioprio_get", "ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset",
    "landlock_restrict_self", "lchown", "lgetxattr", "link", "linkat", "listen", "listxattr", "listxattrat",
    "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "madvise", "map_shadow_stack", "mbind",
    "membarrier", "memfd_create", "mincore", "mkdir", "mkdirat", "mknod", "mknodat", "mlock", "mlock2", "mlockall",
    "mmap", "mprotect", "mremap", "mseal", "msgctl", "msgget", "msgrcv", "msgsnd", "msync", "munlock", "munlockall",
    "munmap", "nanosleep", "newfstatat", "open", "openat", "openat2", "pause", "personality", "pidfd_open",
    "pidfd_send_signal", "pipe", "pipe2", "pkey_alloc", "pkey_free", "pkey_mprotect", "poll", "ppoll", "prctl",
    "pread64", "preadv", "preadv2", "prlimit64", "pselect6", "pwrite64", "pwritev", "pwritev2", "read", "readahead",
    "readlink", "readlinkat", "readv", "recvfrom", "recvmmsg", "recvmsg", "removexattr", "removexattrat", "rename",
    "renameat", "renameat2", "restart_syscall", "rmdir", "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask",
    "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr", "sched_setparam",
    "sched_setscheduler", "sched_yield", "seccomp", "select", "semctl", "semget", "semop", "semtimedop", "sendfile",
    "sendmmsg", "sendmsg", "sendto", "set_mempolicy", "set_robust_list", "set_tid_address", "setfsgid", "setfsuid",
    "setgid", "setgroups", "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid",
    "setrlimit", "setsid", "setsockopt", "setuid", "setxattr", "setxattrat", "shmat", "shmctl", "shmdt", "shmget",
    "shutdown", "sigaltstack", "signalfd", "signalfd4", "socket", "socketpair", "splice", "stat", "statfs", "statx",
    "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "sysinfo", "tee", "tgkill", "time", "timer_create",
    "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime",
    "timerfd_settime", "times", "tkill", "truncate", "umask", "uname", "unlink", "unlinkat", "utime", "utimensat",
    "utimes", "vfork", "vmsplice", "wait4", "waitid", "write", "writev",
];

/// The bits of `clone` that ask for a new namespace.
const NEW_NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// The profile, in the daemon's own format.
pub(super) fn profile() -> String {
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [
            { "architecture": "SCMP_ARCH_X86_64", "subArchitectures": [] },
            { "architecture": "SCMP_ARCH_AARCH64", "subArchitectures": [] },
        ],
        "syscalls": [
            { "names": ALLOWED, "action": "SCMP_ACT_ALLOW" },
            {
                "names": ["clone"],
                "action": "SCMP_ACT_ALLOW",
                "args": [{ "index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }],
            },
            // Its flags are in memory, where no filter looks. Every library falls back on the other.
            { "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS },
        ],
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in a list of the other filter.
    fn listed(list: &str) -> Vec<&'static str> {
        let source = include_str!("../process/seccomp.rs");
        let (_, from) = source.split_once(&format!("const {list}: ")).unwrap();
        let (list, _) = from.split_once("];").unwrap();
        let word = |text: &'static str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap();
        list.split("SYS_").skip(1).map(word).collect()
    }

    #[test]
    fn what_jobs_may_call_the_container_may() {
        for call in ["ALLOWED", "BY_ARGUMENT", "IN_NAMESPACES", "IN_CONTAINER"].into_iter().flat_map(listed) {
            assert!(ALLOWED.contains(&call) || call == "clone", "`{call}` is missing");
        }
    }

    #[test]
    fn what_is_for_the_machine_nobody_may() {
        for call in [
            "bpf",
            "io_uring_setup",
            "io_uring_enter",
            "keyctl",
            "add_key",
            "request_key",
            "userfaultfd",
            "unshare",
            "setns",
            "mount",
            "umount2",
            "pivot_root",
            "open_tree",
            "move_mount",
            "fsopen",
            "ptrace",
            "kexec_load",
            "init_module",
            "finit_module",
            "perf_event_open",
            "open_by_handle_at",
            "process_vm_readv",
            "process_vm_writev",
            "clone",
            "clone3",
            "reboot",
            "swapon",
        ] {
            assert!(!ALLOWED.contains(&call), "`{call}` is allowed");
        }
    }
}
