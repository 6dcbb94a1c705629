//! The control: `alone CASE ARGS` tries an attack in namespaces of its own, with every capability in them and no other
//! wall. What fails there fails because of the machine; what works there and not in a room, the room refused. Where
//! the machine has no such namespaces, it notes `own namespaces` and tries nothing.

use std::fs;

use libc::*;

use crate::{
    attack,
    child::wait_for,
    sys::{at, call, errno},
    tries::Tries,
};

const ALL_BUT_TIME: usize = 0x7e02_0000;

/// Enters them, maps itself to their root, and runs the attack as the first process.
pub(crate) fn alone(args: &[String], tries: &mut Tries) {
    let Some((case, rest)) = args.split_first() else { return };
    // SAFETY: takes nothing.
    let (user, group) = unsafe { (geteuid(), getegid()) };
    if let Err(errno) = call(SYS_unshare, [ALL_BUT_TIME]) {
        return tries.call("own namespaces", Err(errno));
    }
    let _ = fs::write("/proc/self/setgroups", "deny");
    let mapped = fs::write("/proc/self/uid_map", format!("0 {user} 1"))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {group} 1")));
    if let Err(error) = mapped {
        return tries.io("own namespaces", Err::<u8, _>(error));
    }
    // Nothing that is mounted here may be seen elsewhere.
    if let Err(errno) = call(SYS_mount, [0, at(c"/"), 0, (MS_PRIVATE | MS_REC) as usize, 0]) {
        return tries.call("own namespaces", Err(errno));
    }
    // SAFETY: the probe has one thread.
    match unsafe { fork() } {
        -1 => tries.call("first process", Err(errno())),
        0 => {
            let line = attack(case, rest).unwrap_or_default();
            println!("{line}");
            // SAFETY: leaves at once; the line has been written.
            unsafe { _exit(0) }
        }
        child => {
            wait_for(child);
            // The attack has printed its own line.
            // SAFETY: leaves at once.
            unsafe { _exit(0) }
        }
    }
}
