//! P-08, P-11, P-12: nobody stays behind.

use std::time::Duration;

use toolgate_contract::Ending;

use crate::bench::{Bench, within};

fn leaves_nobody(bench: &Bench, args: &[&str]) {
    let room = bench.room();
    let ran = bench.run(&*room, args, within(Duration::from_secs(20)));
    assert_eq!(ran.ending, Ending::Exited { code: 0 }, "{}", ran.stderr.text);
    assert_eq!(bench.survivors(), [""; 0], "when the call is over, so is everything in it");
    assert!(ran.usage.wall_ms < 15_000, "nobody waited for the one who stayed: {} ms", ran.usage.wall_ms);
}

in_every_room! {
    /// P-08.
    fn a_daemon(bench) {
        leaves_nobody(bench, &["daemon", "60"]);
    }

    /// P-12.
    fn one_that_keeps_the_streams(bench) {
        leaves_nobody(bench, &["daemon", "60", "loud"]);
    }

    /// P-08. Always another process, so that a list of them is old when it is read.
    fn one_that_hops(bench) {
        leaves_nobody(bench, &["hop", "20"]);
    }

    /// P-11.
    fn zombies(bench) {
        let room = bench.room();
        let ran = bench.run(&*room, &["zombies", "2000"], within(Duration::from_secs(20)));
        let is_known = matches!(ran.ending, Ending::Exited { code: 0 } | Ending::PidsExhausted);
        assert!(is_known, "{:?}", ran.ending);
        assert_eq!(bench.survivors(), [""; 0]);
        bench.probe_in(&*room, &["status"]);
    }
}
