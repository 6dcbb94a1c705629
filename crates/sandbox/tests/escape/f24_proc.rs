//! F-24, F-25, F-29, F-32: other processes, as `/proc` shows them.

use std::fs;

use crate::{
    bench::{Bench, SECRET},
    host::{VICTIMS_SECRET, Victim},
    said::Ended,
};

/// The number the room's processes have as users of the machine.
pub(crate) fn room_user(bench: &Bench, room: &dyn toolgate_sandbox::Room) -> u32 {
    // The room's ids are the machine's: they are mapped to themselves.
    let said = bench.probe_in(room, &["status"]);
    said.number("own user") as u32
}

in_every_room! {
    /// F-24.
    fn doors_to_other_roots(bench) {
        let canary = bench.canary();
        let said = bench.probe(&["proc-walk", &canary]);
        let seen: Vec<_> = said.worked().into_iter().filter(|what| said.ok(what).contains(SECRET)).collect();
        assert!(seen.is_empty(), "the canary is seen through {seen:?}");
        // The calls of a container share its processes: that somebody holds something is seen there, but not what.
        let open = if bench.is_container() { &["behind "][..] } else { &["behind ", "list "] };
        let doors: Vec<_> = said.worked().into_iter().filter(|what| open.iter().any(|word| what.starts_with(word))).collect();
        assert!(doors.is_empty(), "descriptors of others: {doors:?}");
        assert!(bench.control(&["proc-walk", &canary]).ok(&format!("/proc/self/root{canary}")).contains(SECRET));
    }

    /// F-25, F-32.
    fn its_own_entries(bench) {
        let before = fs::read(bench.probe_path()).expect("the probe");
        let said = bench.probe(&["own-proc"]);
        let mut refusals = crate::said::REFUSALS.to_vec();
        refusals.extend([libc::ETXTBSY, libc::EINVAL]);
        said.all_refused_with(&refusals);
        assert_eq!(fs::read(bench.probe_path()).expect("the probe"), before);
    }

    /// F-29. The victim is the room's own user, so that ownership is no wall.
    fn a_process_outside(bench) {
        let room = bench.room();
        let mut victim = Victim::new(&bench.probe_path(), room_user(bench, &*room));
        let said = bench.probe_in(&*room, &["others", &victim.id()]);
        said.all_refused_with(&[libc::ENOENT, libc::EACCES, libc::EPERM]);
        let control = bench.control(&["others", &victim.id()]);
        assert!(control.ok(&format!("read /proc/{}/environ", victim.id())).contains(VICTIMS_SECRET));
        assert!(victim.is_alive());
    }

    /// F-29. A room sees itself and nobody else. In a container that is its first process, the worker, the keeper, and
    /// inits, one of which waits for the next call.
    fn how_many_there_are(bench) {
        let said = bench.probe(&["pids"]);
        let seen = match said.of("processes in sight") {
            Ended::Ok(pids) => pids.split(' ').count(),
            Ended::Errno(libc::EACCES) => 0,
            other => panic!("{other:?}"),
        };
        let own = if bench.is_container() { 8 } else { 3 };
        assert!(seen <= own, "{seen} processes are in sight");
    }
}
