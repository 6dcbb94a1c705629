//! Processor time: `spin THREADS SECONDS`.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use crate::{
    child::{spawn, wait_for},
    count,
    tries::Tries,
};

/// Turns in circles on every thread.
pub(crate) fn spin(args: &[String], tries: &mut Tries) {
    let until = Instant::now() + Duration::from_secs(count(args, 1, 5).min(30));
    let threads: Vec<_> = (0..count(args, 0, 1).min(16)).map(|_| thread::spawn(move || turn(until))).collect();
    let turns: u64 = threads.into_iter().filter_map(|thread| thread.join().ok()).sum();
    tries.found("turns", turns);
}

/// `spin-children N SECONDS`: one child after the other, each waited for, so that no process of the moment has used
/// much.
pub(crate) fn spin_children(args: &[String], tries: &mut Tries) {
    let (children, seconds) = (count(args, 0, 20).min(100), count(args, 1, 1).min(5));
    for _ in 0..children {
        let spun = spawn(|| {
            turn(Instant::now() + Duration::from_secs(seconds));
        });
        match spun {
            Ok(child) => wait_for(child),
            Err(errno) => return tries.call("child", Err(errno)),
        };
    }
    tries.found("children", children);
}

fn turn(until: Instant) -> u64 {
    let mut turns = 0;
    while Instant::now() < until {
        for _ in 0..10_000 {
            turns = black_box(turns + 1);
        }
    }
    turns
}
