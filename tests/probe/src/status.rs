//! Who the probe is and what it holds, from system calls, and from `/proc` where there is one.

use std::fs;

use libc::*;

use crate::{
    sys::{at, call, into},
    tries::Tries,
};

const LINES: [&str; 11] = [
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Uid",
    "Gid",
    "Groups",
];

/// Capabilities, the privilege bit, the filter, users, groups, namespaces and limits.
pub(crate) fn status(_: &[String], tries: &mut Tries) {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for name in LINES {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        tries.found(name, value.unwrap_or("?").split_whitespace().collect::<Vec<_>>().join(" "));
    }
    tries.found("outer uid", outer_id("/proc/self/uid_map"));
    tries.found("outer gid", outer_id("/proc/self/gid_map"));
    tries.call("own user", call(SYS_geteuid, []));
    tries.call("own group", call(SYS_getegid, []));
    tries.call("no_new_privs", call(SYS_prctl, [PR_GET_NO_NEW_PRIVS as usize, 0, 0, 0, 0]));
    tries.call("seccomp", call(SYS_prctl, [PR_GET_SECCOMP as usize, 0, 0, 0, 0]));
    capabilities(tries);
    let mut groups = [0u32; 64];
    tries.call("number of groups", call(SYS_getgroups, [groups.len(), into(&mut groups)]));
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let link = fs::read_link(format!("/proc/self/ns/{name}"));
        tries.io(format!("namespace {name}"), link.map(|to| to.display().to_string()));
    }
    for (name, which) in [("core", RLIMIT_CORE), ("open files", RLIMIT_NOFILE), ("file size", RLIMIT_FSIZE)] {
        let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
        let asked = call(SYS_getrlimit, [which as usize, into(&mut limit)]);
        tries.call(format!("limit on {name}"), asked.map(|_| limit.rlim_max as usize));
    }
}

/// The capability sets as the kernel answers them, low halves or-ed with high ones.
fn capabilities(tries: &mut Tries) {
    let header: [u32; 2] = [0x2008_0522, 0];
    let mut sets = [0u32; 6];
    let asked = call(SYS_capget, [at(&header), into(&mut sets)]);
    tries.call("capabilities held", asked.map(|_| sets.iter().fold(0, |all, set| all | *set as usize)));
    let bounding = (0..64usize).filter(|cap| call(SYS_prctl, [PR_CAPBSET_READ as usize, *cap, 0, 0, 0]) == Ok(1));
    tries.found("capabilities in the bounding set", bounding.count());
    let ambient =
        |cap: &usize| call(SYS_prctl, [PR_CAP_AMBIENT as usize, PR_CAP_AMBIENT_IS_SET as usize, *cap, 0, 0]) == Ok(1);
    tries.found("ambient capabilities", (0..64usize).filter(ambient).count());
}

/// The id outside that the probe's own stands for, where the map is one line.
fn outer_id(map: &str) -> String {
    let text = fs::read_to_string(map).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
