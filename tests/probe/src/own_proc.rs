//! What a process may write about itself in `/proc`, and should not here.

use std::fs;

use crate::tries::Tries;

/// A lower chance to be killed, a new map of users, a way back to group changes.
pub(crate) fn own_proc(_: &[String], tries: &mut Tries) {
    let writes = [
        ("/proc/self/oom_score_adj", "-1000"),
        ("/proc/self/uid_map", "0 0 1\n"),
        ("/proc/self/gid_map", "0 0 1\n"),
        ("/proc/self/setgroups", "allow\n"),
        ("/proc/self/projid_map", "0 0 1\n"),
        ("/proc/self/timens_offsets", "monotonic 10 0\n"),
        ("/proc/self/attr/current", "unconfined\n"),
        ("/proc/self/loginuid", "0"),
    ];
    for (path, value) in writes {
        tries.io(format!("write {path}"), fs::write(path, value).map(|()| ""));
    }
    for path in ["/proc/self/exe", "/proc/1/exe", &format!("/proc/{}/exe", std::os::unix::process::parent_id())] {
        tries.open("open for writing", path, fs::File::options().write(true));
    }
}
