//! What a container looks like from inside, read from the kernel and not from what was asked for.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::process::job;

/// What the worker found around it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inside {
    /// Bytes of memory the container may use.
    pub(crate) memory: Option<u64>,
    /// Processes and threads it may have.
    pub(crate) pids: Option<u64>,
    /// Its network interfaces.
    pub(crate) interfaces: Vec<String>,
    /// The namespaces it is in, as `/proc/self/ns` names them. Its jobs share them.
    pub(crate) namespaces: Vec<(String, String)>,
    /// A filter stood before the worker put up its own.
    pub(crate) seccomp: bool,
    /// The worker cannot get new rights.
    pub(crate) no_new_privs: bool,
}

impl Inside {
    /// Looks around.
    pub(crate) fn look() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            memory: limit(["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]),
            pids: limit(["/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"]),
            interfaces: interfaces(&fs::read_to_string("/proc/net/dev").unwrap_or_default()),
            namespaces: job::namespaces(),
            seccomp: field(&status, "Seccomp:") == Some("2"),
            no_new_privs: field(&status, "NoNewPrivs:") == Some("1"),
        }
    }
}

/// How often the container came up against its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Something was killed because memory had run out.
    pub(super) memory: u64,
    /// A process was not started.
    pub(super) pids: u64,
}

impl Counted {
    pub(super) fn now() -> Self {
        let memory = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];
        let pids = ["/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"];
        Self { memory: counter(memory, "oom_kill "), pids: counter(pids, "max ") }
    }
}

/// The number behind a name in the first of these files that is there.
fn counter(files: [&str; 2], name: &str) -> u64 {
    let text = files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
}

/// The number in the first of these files that is there. A limit that is a word is none.
fn limit(files: [&str; 2]) -> Option<u64> {
    files.iter().find_map(|file| fs::read_to_string(file).ok())?.trim().parse().ok()
}

/// The names in `/proc/net/dev`, below its two lines of headings.
pub(super) fn interfaces(table: &str) -> Vec<String> {
    table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

fn field<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    list.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_from_the_kernels_table() {
        let heads = "Inter-|   Receive  |  Transmit\n face |bytes    packets\n";
        let check = |rows: &str, expected: &[&str]| assert_eq!(interfaces(&format!("{heads}{rows}")), expected);
        check("", &[]);
        check("    lo:  84  1 0\n", &["lo"]);
        check("    lo:  84  1 0\n  eth0:  0 0\n", &["lo", "eth0"]);
    }
}
