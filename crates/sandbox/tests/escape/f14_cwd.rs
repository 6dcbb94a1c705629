//! F-14: the directory a job starts in is inside the workspace.

use std::{fs, os::unix::fs::symlink};

use toolgate_contract::JobLimits;

use crate::bench::{open_to_all, run, text};

in_every_room! {
    /// F-14.
    fn a_directory_elsewhere(bench) {
        let workspace = bench.workspace();
        fs::create_dir(workspace.join("inner")).expect("a directory");
        open_to_all(&workspace.join("inner"), 0o777);
        symlink(bench.outside(), workspace.join("leads-out")).expect("a link");
        let room = bench.room();
        let outside = text(&bench.outside());
        let elsewhere = [
            "..", "../outside", "inner/../..", "inner/../../outside", "/", "/etc", "/proc/self/cwd", "/proc/self/fd/3",
            &outside, "leads-out", "leads-out/..", "missing", "in\0ner", "./..",
        ];
        for cwd in elsewhere {
            let mut job = bench.job(&["create", "started"], JobLimits::default());
            job.cwd = cwd.to_owned();
            let ran = run(&*room, &job);
            assert!(ran.is_err(), "`{cwd}`: {ran:?}");
            let started = [workspace.join("started"), bench.outside().join("started")];
            assert!(!started.iter().any(|path| path.exists()), "`{cwd}`: something ran");
        }
        let mut job = bench.job(&["create", "started"], JobLimits::default());
        job.cwd = "inner".into();
        run(&*room, &job).expect("a directory inside");
        assert!(workspace.join("inner/started").exists(), "where a job may start, it starts");
    }
}
