//! the caller leaves.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use toolgate_contract::Ending;
use toolgate_sandbox::Io;

use crate::{
    bench::{permit, run, within},
    host::eventually,
};

in_every_room! {
    /// In the middle of a job.
    fn while_it_runs(bench) {
        let room = bench.room();
        let stop = AtomicBool::new(false);
        let job = bench.job(&["stubborn", "60"], within(Duration::from_secs(60)));
        let ran = thread::scope(|scope| {
            scope.spawn(|| {
                eventually(Duration::from_secs(10), || !bench.survivors().is_empty());
                stop.store(true, Ordering::Relaxed);
            });
            room.run(&permit(), &job, Io { stop: &|| stop.load(Ordering::Relaxed), heard: None, stdin: None, stdout: None })
        });
        assert_eq!(ran.expect("it ran").ending, Ending::Cancelled);
        assert_eq!(bench.survivors(), [""; 0]);
        bench.probe_in(&*room, &["status"]);
    }

    /// Before it began.
    fn at_once(bench) {
        let room = bench.room();
        let job = bench.job(&["sleep", "60"], within(Duration::from_secs(60)));
        let ran = room.run(&permit(), &job, Io { stop: &|| true, heard: None, stdin: None, stdout: None });
        assert_eq!(ran.expect("it ran").ending, Ending::Cancelled);
        assert_eq!(bench.survivors(), [""; 0]);
    }

    /// The room is closed around it.
    fn with_the_room(bench) {
        let room = bench.room();
        let job = bench.job(&["daemon", "60", "loud"], within(Duration::from_secs(60)));
        let stays = bench.job(&["sleep", "60"], within(Duration::from_secs(60)));
        thread::scope(|scope| {
            let running = scope.spawn(|| run(&*room, &stays));
            let and_more = scope.spawn(|| run(&*room, &job));
            assert!(eventually(Duration::from_secs(10), || !bench.survivors().is_empty()));
            // The daemon's own call ends by itself, and takes the daemon along.
            let _ = and_more.join().expect("a call");
            room.close();
            let ran = running.join().expect("a call");
            assert!(!matches!(&ran, Ok(ran) if matches!(ran.ending, Ending::Exited { .. })), "{ran:?}");
        });
        assert!(eventually(Duration::from_secs(5), || bench.survivors().is_empty()), "{:?}", bench.survivors());
        assert!(!room.is_alive());
        let late = run(&*room, &bench.job(&["status"], within(Duration::from_secs(5))));
        assert!(late.is_err(), "a closed room takes no job: {late:?}");
    }
}
