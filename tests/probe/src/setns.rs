//! Other people's namespaces: `setns PID`, a process outside.

use std::{fs::File, os::fd::AsRawFd};

use libc::*;

use crate::{
    sys::{call, number},
    tries::Tries,
};

const NAMES: [&str; 10] =
    ["user", "mnt", "pid", "pid_for_children", "net", "ipc", "uts", "cgroup", "time", "time_for_children"];

/// Enters each namespace of each process in reach.
pub(crate) fn setns(args: &[String], tries: &mut Tries) {
    let victim = args.first().map_or("1", String::as_str);
    let parent = std::os::unix::process::parent_id().to_string();
    for process in ["1", "self", &parent, victim] {
        for name in NAMES {
            let path = format!("/proc/{process}/ns/{name}");
            tries.in_child(format!("setns {path}"), || {
                let namespace = File::open(&path).map_err(|error| number(&error))?;
                call(SYS_setns, [namespace.as_raw_fd() as usize, 0])
            });
        }
    }
    for process in [1, victim.parse().unwrap_or(1)] {
        tries.in_child(format!("setns by the id of {process}"), || {
            let process = call(SYS_pidfd_open, [process, 0])?;
            call(SYS_setns, [process, 0x7e02_0000])
        });
    }
}
