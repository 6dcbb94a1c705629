//! The kernel's own files: those that show its memory, and those that steer it.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::OpenOptionsExt,
};

use libc::*;

use crate::{sys::call, tries::Tries};

const KNOBS: [&str; 27] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/shmmax",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/suid_dumpable",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/proc/irq/0/smp_affinity",
    "/proc/bus/pci/00/00.0",
    "/proc/acpi/wakeup",
    "/proc/mtrr",
    "/proc/scsi/scsi",
    "/proc/latency_stats",
    "/proc/timer_list",
];

const MACHINE: [&str; 9] = [
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/power/state",
    "/sys/module/kernel/parameters/crash_kexec_post_notifiers",
    "/sys/fs/cgroup/release_agent",
    "/sys/fs/cgroup/memory/release_agent",
    "/sys/fs/cgroup/pids/notify_on_release",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/unified/cgroup.procs",
];

/// Opens everything that steers the kernel for writing. Nothing is written.
pub(crate) fn knobs(_: &[String], tries: &mut Tries) {
    for knob in KNOBS.into_iter().chain(MACHINE) {
        tries.open("open for writing", knob, File::options().write(true));
    }
}

/// Asks what shows the kernel's memory for one byte. A file that is covered has none; addresses count only when they
/// are not hidden.
pub(crate) fn memory(_: &[String], tries: &mut Tries) {
    for path in ["/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/kmsg", "/proc/kmsg", "/proc/vmallocinfo", "/proc/keys"] {
        tries.io(format!("one byte of {path}"), one_byte(path));
    }
    tries.call("size of the kernel's log", call(SYS_syslog, [10, 0, 0]));
    let shown = fs::read_to_string("/proc/kallsyms")
        .map(|symbols| symbols.lines().filter(|line| !line.starts_with("0000000000000000")).count());
    match shown {
        Ok(0) => tries.call("addresses of the kernel", Err(EPERM)),
        shown => tries.io("addresses of the kernel", shown),
    }
}

fn one_byte(path: &str) -> std::io::Result<u8> {
    let mut byte = [0];
    match File::options().read(true).custom_flags(O_NONBLOCK).open(path)?.read(&mut byte)? {
        0 => Err(std::io::Error::from_raw_os_error(ENOENT)),
        _ => Ok(byte[0]),
    }
}
