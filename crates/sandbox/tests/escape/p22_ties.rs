//! P-22: no dumps of memory, and no way to cut the ties.

use std::{fs, time::Duration};

use toolgate_contract::Ending;

use crate::bench::within;

in_every_room! {
    /// P-22.
    fn nothing_is_dumped(bench) {
        let said = bench.probe(&["dump"]);
        said.all_refused_but(&["dumpable"], &[libc::EPERM]);
        let left: Vec<_> = fs::read_dir(bench.workspace()).expect("the workspace").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// P-22.
    fn ties_hold(bench) {
        let room = bench.room();
        let ran = bench.run(&*room, &["cut-loose", "60"], within(Duration::from_secs(20)));
        assert_eq!(ran.ending, Ending::Exited { code: 0 });
        assert_eq!(bench.survivors(), [""; 0], "when the call is over, so is everything in it");
    }
}
