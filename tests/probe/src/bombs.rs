//! More processes and threads than a room holds. Each bomb ends at `N` tries, and its pieces end by themselves.

use std::time::Duration;

use crate::{
    child::{linger, spawn},
    count,
    sys::errno,
    tries::Tries,
};

const PATIENCE: u32 = 15;

/// A bomb does not leave by itself, refused or not: somebody has to end it.
fn stay() {
    std::thread::sleep(Duration::from_secs(5));
}

/// `fork-bomb N`: children that stay, until the kernel says no, and then some more.
pub(crate) fn forks(args: &[String], tries: &mut Tries) {
    let (mut made, mut refused, mut last) = (0u64, 0u64, 0);
    for _ in 0..count(args, 0, 5000).min(5000) {
        match spawn(|| linger(PATIENCE)) {
            Ok(_) => made += 1,
            Err(errno) => (refused, last) = (refused + 1, errno),
        }
        if refused == 50 {
            break;
        }
    }
    stay();
    tries.found("children", made);
    tries.found("refusals", refused);
    tries.found("last refusal", last);
}

/// `thread-bomb N`: threads that stay.
pub(crate) fn threads(args: &[String], tries: &mut Tries) {
    let (mut made, mut refused) = (0u64, 0u64);
    for _ in 0..count(args, 0, 5000).min(5000) {
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        match thread.spawn(|| std::thread::sleep(Duration::from_secs(u64::from(PATIENCE)))) {
            Ok(_) => made += 1,
            Err(_) => refused += 1,
        }
        if refused == 50 {
            break;
        }
    }
    stay();
    tries.found("threads", made);
    tries.found("refusals", refused);
    tries.found("last refusal", errno());
}

/// `zombies N`: children that end at once and are never waited for.
pub(crate) fn zombies(args: &[String], tries: &mut Tries) {
    let (mut made, mut refused) = (0u64, 0u64);
    for _ in 0..count(args, 0, 5000).min(5000) {
        // The child of the child is orphaned, so that whoever is first in the room has to take it in.
        match spawn(|| _ = spawn(|| ())) {
            Ok(_) => made += 1,
            Err(_) => refused += 1,
        }
        if refused == 50 {
            break;
        }
    }
    tries.found("children", made);
    tries.found("refusals", refused);
}
