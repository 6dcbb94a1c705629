//! New namespaces, by every call that makes one; and that ordinary children and threads still work.

use libc::*;

use crate::{
    child::wait_for,
    sys::{Said, at, call},
    tries::Tries,
};

const FLAGS: [(&str, u64); 8] = [
    ("time", 0x80),
    ("mount", 0x2_0000),
    ("cgroup", 0x200_0000),
    ("uts", 0x400_0000),
    ("ipc", 0x800_0000),
    ("user", 0x1000_0000),
    ("pid", 0x2000_0000),
    ("net", 0x4000_0000),
];

/// Asks for each.
pub(crate) fn namespaces(_: &[String], tries: &mut Tries) {
    for (name, flag) in FLAGS {
        tries.in_child(format!("unshare {name}"), || call(SYS_unshare, [flag as usize]));
        if name != "time" {
            tries.in_child(format!("clone {name}"), || cloned(flag));
            // The kernel ignores the high half here, which a filter that compares all of it would not.
            tries.in_child(format!("clone {name} with a high bit"), || cloned(flag | 1 << 32));
        }
        tries.in_child(format!("clone3 {name}"), || cloned3(flag));
    }
    tries.in_child("unshare all at once", || call(SYS_unshare, [0x7e02_0080]));
    tries.in_child("unshare user with a high bit", || call(SYS_unshare, [0x1000_0000 | 1 << 32]));
    tries.in_child("clone3 plain", || cloned3(0));
    tries.in_child("works: fork", || cloned(0));
    tries.found("works: thread", std::thread::spawn(|| 7).join().map_or(0, |seven| seven));
}

fn cloned(flags: u64) -> Said {
    answered(call(SYS_clone, [flags as usize | SIGCHLD as usize, 0, 0, 0, 0]))
}

fn cloned3(flags: u64) -> Said {
    let mut args = [0u64; 11];
    (args[0], args[4]) = (flags, SIGCHLD as u64);
    answered(call(SYS_clone3, [at(&args), size_of_val(&args)]))
}

/// The child leaves, the parent waits for it.
fn answered(said: Said) -> Said {
    match said {
        // SAFETY: leaves at once.
        Ok(0) => unsafe { _exit(0) },
        Ok(child) => Ok(wait_for(child as i32) as usize),
        Err(errno) => Err(errno),
    }
}
