//! The doors in `/proc` to other roots, directories and files: `proc-walk CANARY`, a file outside.

use std::{fs, path::Path};

use crate::tries::Tries;

/// Looks for the canary behind every door.
pub(crate) fn proc_walk(args: &[String], tries: &mut Tries) {
    let canary = args.first().map_or("/etc/hostname", String::as_str);
    let parent = std::os::unix::process::parent_id();
    let mut roots = vec!["/proc/self/root".to_owned(), "/proc/self/root/../..".into(), "/proc/1/root".into()];
    roots.extend(["/proc/self/task/1/root".into(), "/proc/thread-self/root".into(), format!("/proc/{parent}/root")]);
    for root in roots {
        tries.io(format!("{root}{canary}"), fs::read_to_string(format!("{root}{canary}")));
    }
    for door in ["/proc/1/cwd", &format!("/proc/{parent}/cwd")] {
        tries.io(format!("{door} up to {canary}"), fs::read_to_string(format!("{door}/../../../../../../..{canary}")));
    }
    held_by_others(tries);
}

/// Every descriptor of every process in sight but this one's: whose would it be?
fn held_by_others(tries: &mut Tries) {
    let own = std::process::id().to_string();
    let visible = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in visible.map(|entry| entry.path()).filter(|path| is_process(path) && !path.ends_with(&own)) {
        let list = process.join("fd");
        let listed = fs::read_dir(&list).map(|entries| entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>());
        // Looked at and not opened: somebody may hold what acts when it is.
        for door in listed.iter().flatten() {
            tries.io(format!("behind {}", door.display()), fs::metadata(door).map(|found| found.len()));
        }
        tries.io(format!("list {}", list.display()), listed.map(|listed| listed.len()));
    }
}

fn is_process(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}
