//! P-09, P-10: more processes than a room holds.

use std::{process::Command, time::Duration};

use toolgate_contract::Ending;
use toolgate_sandbox::{RoomLimits, RoomSpec};

use crate::bench::{Bench, within};

fn is_held(bench: &Bench, args: &[&str]) {
    let limits = RoomLimits { pids: 40, ..RoomLimits::default() };
    let room = bench.open(&RoomSpec { limits, ..bench.spec() });
    let sibling = bench.room();
    std::thread::scope(|scope| {
        let bomb = scope.spawn(|| bench.run(&*room, args, within(Duration::from_secs(20))));
        bench.probe_in(&*sibling, &["namespaces"]);
        let ran = bomb.join().expect("the bomb");
        assert_eq!(ran.ending, Ending::PidsExhausted, "{} {:?}", ran.stdout.text, ran.receipt);
    });
    assert_eq!(bench.survivors(), [""; 0]);
    assert!(Command::new("true").status().is_ok_and(|status| status.success()), "the host still starts programs");
    bench.probe_in(&*room, &["status"]);
}

in_every_room! {
    /// P-09.
    fn processes(bench) {
        is_held(bench, &["fork-bomb", "3000"]);
    }

    /// P-10.
    fn threads(bench) {
        is_held(bench, &["thread-bomb", "3000"]);
    }
}
