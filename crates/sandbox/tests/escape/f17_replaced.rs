//! F-17: a protected name that the machine itself replaces while a room is open.

use std::{fs, thread, time::Duration};

use toolgate_contract::{Ending, JobLimits};
use toolgate_sandbox::{RoomError, WorkspaceMode};

use crate::{
    bench::{Bench, open_to_all, run, within},
    host::{eventually, processes_with},
};

/// As git replaces its config: a new file, renamed over the old one. The mount on the old one goes with it.
fn replace(bench: &Bench) {
    let beside = bench.workspace().join("beside");
    fs::write(&beside, "the machine's new one").expect("a file");
    open_to_all(&beside, 0o666);
    fs::rename(beside, bench.workspace().join("kept")).expect("it is the machine's to replace");
}

fn kept(bench: &Bench) {
    fs::write(bench.workspace().join("kept"), "the machine's").expect("a file");
    open_to_all(&bench.workspace().join("kept"), 0o666);
}

in_every_room! {
    /// F-17. No job is started that could write the new one.
    fn between_two_jobs(bench) {
        if !bench.has_namespaces() {
            return;
        }
        kept(bench);
        let room = bench.open(&bench.spec_with(WorkspaceMode::ReadWrite, &["kept"]));
        bench.probe_in(&*room, &["open-write", "kept"]).all_refused();
        replace(bench);
        let ran = run(&*room, &bench.job(&["open-write", "kept"], JobLimits::default()));
        assert!(matches!(ran, Err(RoomError::Lost(_))), "{ran:?}");
        assert!(!room.is_alive(), "the next job gets another room");
    }

    /// F-17. A job that runs is ended.
    fn under_a_job(bench) {
        if !bench.has_namespaces() {
            return;
        }
        kept(bench);
        let room = bench.open(&bench.spec_with(WorkspaceMode::ReadWrite, &["kept"]));
        let ran = thread::scope(|scope| {
            let job = scope.spawn(|| bench.run(&*room, &["sleep", "60"], within(Duration::from_secs(90))));
            assert!(eventually(Duration::from_secs(30), || !processes_with(&bench.marker).is_empty()));
            replace(bench);
            job.join().expect("the job is seen to its end")
        });
        assert_eq!(ran.ending, Ending::RoomLost);
        assert!(!room.is_alive());
    }
}
