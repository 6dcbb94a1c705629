//! E-10, E-12: what one call or one room leaves is not found by another.

use std::time::Duration;

use toolgate_contract::JobLimits;

use crate::{
    bench::{Bench, run, text, within},
    host::eventually,
};

/// The private places of a room.
fn places(bench: &Bench, room: &dyn toolgate_sandbox::Room) -> Vec<String> {
    let said = bench.probe_in(room, &["env"]);
    vec![format!("{}/left", said.ok("HOME")), format!("{}/left", said.ok("TMPDIR"))]
}

in_every_room! {
    /// E-10. Another room does not see what one room left in its private directories.
    fn files_of_another_room(bench) {
        let (one, other) = (bench.room(), bench.room());
        let mut paths = places(bench, &*one);
        let made = bench.probe_in(&*one, &["create", &paths[0], &paths[1]]);
        assert_eq!(made.worked().len(), made.names().len(), "its own directories can be written: {made:?}");
        paths.extend(places(bench, &*other));
        let words: Vec<&str> = ["look"].into_iter().chain(paths.iter().map(String::as_str)).collect();
        bench.probe_in(&*other, &words).all_refused();
        drop(one);
        bench.probe(&words).all_refused();
    }

    /// E-10. Another call of the same room does not see its processes or its variables.
    fn processes_of_another_call(bench) {
        let room = bench.room();
        let mut job = bench.job(&["daemon", "60"], JobLimits::default());
        job.env.insert("OF_CALL_ONE".into(), "x".into());
        run(&*room, &job).expect("a call");
        assert!(!bench.probe_in(&*room, &["env"]).names().contains(&"OF_CALL_ONE"));
        assert_eq!(bench.survivors(), [""; 0]);
    }

    /// E-10. Two rooms at once do not see each other's files, processes or sockets.
    fn two_rooms_at_once(bench) {
        let (one, other) = (bench.room(), bench.room());
        std::thread::scope(|scope| {
            let there = scope.spawn(|| bench.run(&*one, &["sleep", "2"], within(Duration::from_secs(20))));
            assert!(eventually(Duration::from_secs(5), || !bench.survivors().is_empty()));
            for pid in bench.survivors() {
                bench.probe_in(&*other, &["others", &pid]).all_refused_with(&[libc::ENOENT, libc::EACCES, libc::EPERM]);
                bench.probe_in(&*other, &["signal", &pid]).all_refused_with(&[libc::EPERM, libc::ESRCH, libc::ENOSYS]);
            }
            there.join().expect("a call");
        });
    }

    /// E-12. A sweep of one deployment leaves another's rooms alone, and its own that live.
    fn a_sweep_of_another_deployment(bench) {
        let state = bench.workspace().with_extension("other-state");
        let room = bench.room();
        drop(bench.deployment(&state));
        toolgate_sandbox::registry::sweep(&state).expect("a sweep");
        toolgate_sandbox::registry::sweep(text(&bench.workspace().with_file_name("state")).as_ref()).expect("a sweep");
        bench.probe_in(&*room, &["status"]);
    }
}
