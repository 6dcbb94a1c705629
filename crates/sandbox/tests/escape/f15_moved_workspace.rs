//! F-15: a workspace that is exchanged for a link leads nowhere else.

use std::{fs, os::unix::fs::symlink};

use toolgate_contract::JobLimits;

use crate::bench::run;

in_every_room! {
    /// F-15, before the room is made.
    fn before_it_is_opened(bench) {
        let spec = bench.spec();
        fs::rename(bench.workspace(), bench.workspace().with_extension("moved")).expect("a move");
        symlink(bench.outside(), bench.workspace()).expect("a link in its place");
        let opened = bench.backend.open(&spec, "escape");
        assert!(opened.is_err(), "a link is not a workspace");
    }

    /// F-15, after.
    fn while_it_is_open(bench) {
        let room = bench.room();
        let moved = bench.workspace().with_extension("moved");
        fs::rename(bench.workspace(), &moved).expect("a move");
        symlink(bench.outside(), bench.workspace()).expect("a link in its place");
        let job = bench.job(&["change", "write", "started", "-", "write", "canary", "-"], JobLimits::default());
        // Whether it starts in the old directory or not at all is the backend's choice. That nothing outside changed is
        // looked at after every case.
        let ran = run(&*room, &job);
        assert!(!bench.outside().join("started").exists(), "{ran:?}");
        let canary = bench.canary();
        if let Ok(ran) = run(&*room, &bench.job(&["look", &canary, "canary"], JobLimits::default())) {
            assert!(!ran.stdout.text.contains(crate::bench::SECRET), "{}", ran.stdout.text);
        }
    }
}
