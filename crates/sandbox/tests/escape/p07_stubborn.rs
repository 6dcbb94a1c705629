//! P-07, R-07: those who will not end.

use std::time::Duration;

use toolgate_contract::Ending;

use crate::bench::{Bench, within};

fn ends(bench: &Bench, args: &[&str]) {
    let room = bench.room();
    let ran = bench.run(&*room, args, within(Duration::from_millis(500)));
    assert_eq!(ran.ending, Ending::TimedOut);
    assert_eq!(bench.survivors(), [""; 0], "when the call is over, so is everything in it");
    bench.probe_in(&*room, &["status"]);
}

in_every_room! {
    /// P-07.
    fn who_ignores_signals(bench) {
        ends(bench, &["stubborn", "60"]);
    }

    /// P-07. A process that is stopped does not hear the polite word.
    fn who_stops_itself(bench) {
        ends(bench, &["stop-self"]);
    }

    ///
    fn who_sleeps(bench) {
        ends(bench, &["sleep", "60"]);
    }
}
