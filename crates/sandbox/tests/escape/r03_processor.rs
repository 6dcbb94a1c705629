//! processor time.

use std::time::Duration;

use toolgate_contract::Ending;
use toolgate_sandbox::{RoomLimits, RoomSpec};

use crate::bench::{Bench, within};

fn is_ended(bench: &Bench, args: &[&str]) {
    let limits = RoomLimits { cpu: Duration::from_secs(1), ..RoomLimits::default() };
    let room = bench.open(&RoomSpec { limits, ..bench.spec() });
    let ran = bench.run(&*room, args, within(Duration::from_secs(60)));
    assert_eq!(ran.ending, Ending::CpuLimit, "used {} ms: {}", ran.usage.cpu_ms, ran.stdout.text);
    assert_eq!(bench.survivors(), [""; 0]);
}

in_every_room! {
    ///
    fn on_many_threads(bench) {
        is_ended(bench, &["spin", "4", "20"]);
    }

    /// Each child has used little when it ends, and whoever waits for it takes the time over.
    fn in_many_children(bench) {
        is_ended(bench, &["spin-children", "12", "1"]);
    }
}
