//! Other processes, as `/proc` shows them.

use std::fs::{self, File};

use crate::tries::Tries;

/// `others PID`: what can be seen of a process outside. The victim is one the suite started, so its secrets are made up.
pub(crate) fn others(args: &[String], tries: &mut Tries) {
    let victim = args.first().map_or("1", String::as_str);
    for file in ["cmdline", "environ", "maps", "status", "auxv", "stack", "io", "comm"] {
        let path = format!("/proc/{victim}/{file}");
        tries.io(format!("read {path}"), fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    }
    for file in ["mem", "root", "cwd", "exe", "fd", "map_files"] {
        tries.open("open", &format!("/proc/{victim}/{file}"), File::options().read(true));
    }
    tries.io(
        format!("where /proc/{victim}/exe leads"),
        fs::read_link(format!("/proc/{victim}/exe")).map(|to| to.display().to_string()),
    );
}

/// How many processes are in sight.
pub(crate) fn pids(_: &[String], tries: &mut Tries) {
    let seen = fs::read_dir("/proc").map(|entries| {
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut pids: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    });
    tries.io("processes in sight", seen);
    tries.found("own id", std::process::id());
}
