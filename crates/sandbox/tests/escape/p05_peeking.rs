//! P-05: the inside of other processes.

use crate::{bench::within, f24_proc::room_user, host::Victim, said::Ended};

const REFUSALS: [i32; 4] = [libc::EPERM, libc::ENOSYS, libc::ESRCH, libc::EACCES];

/// What those who share a process's namespace see of it.
fn seen_of(pid: &str) -> [String; 5] {
    [
        "read /proc/PID/cmdline",
        "read /proc/PID/status",
        "read /proc/PID/comm",
        "open /proc/PID/fd",
        "open /proc/PID/map_files",
    ]
    .map(|what| what.replace("PID", pid))
}

in_every_room! {
    /// P-05. The victim is the room's own user, so that ownership is no wall.
    fn of_a_process_outside(bench) {
        let room = bench.room();
        let mut victim = Victim::new(&bench.probe_path(), room_user(bench, &*room));
        bench.probe_in(&*room, &["peek", &victim.id()]).all_refused_with(&REFUSALS);
        assert!(victim.is_alive());
        let control = bench.control(&["peek", &victim.id()]);
        assert!(control.worked().contains(&"kcmp") || rustix::process::geteuid().is_root(), "{control:?}");
        assert!(control.worked().contains(&"sched_setaffinity"), "without walls it works: {control:?}");
    }

    /// P-05. The runtime, which is the process of this test.
    fn of_the_runtime(bench) {
        bench.probe(&["peek", &std::process::id().to_string()]).all_refused_with(&REFUSALS);
    }

    /// P-05. The init that watches over the job.
    fn of_its_own_keeper(bench) {
        let said = bench.probe(&["peek", "parent"]);
        // Limits and shares may be read of a relative; nothing can be changed or looked into.
        for what in ["ptrace seize", "ptrace attach", "process_vm_readv", "pidfd_getfd", "kcmp", "process_vm_writev of nothing"] {
            match said.of(what) {
                Ended::Errno(errno) => assert!(REFUSALS.contains(&errno), "{what}: {errno}"),
                Ended::Signal(libc::SIGSYS) => {}
                other => panic!("{what}: {other:?}"),
            }
        }
    }

    /// P-05. Two jobs of one room at the same time.
    fn of_a_neighbour_in_the_same_room(bench) {
        let room = bench.room();
        std::thread::scope(|scope| {
            let neighbour = scope.spawn(|| bench.run(&*room, &["sleep", "2"], within(std::time::Duration::from_secs(20))));
            let there = || crate::host::processes_with(&bench.marker).into_iter().next();
            let mut found = None;
            assert!(crate::host::eventually(std::time::Duration::from_secs(5), || { found = there(); found.is_some() }));
            let pid = found.expect("the neighbour");
            // By the number it has for those who share its processes, if anybody does.
            let pid = if bench.is_container() { crate::host::innermost(&pid) } else { pid };
            let peeked = bench.probe_in(&*room, &["peek", &pid]);
            let said = bench.probe_in(&*room, &["others", &pid]);
            let refused = [libc::ENOENT, libc::EACCES, libc::EPERM];
            if bench.is_container() {
                // The calls of one container are one agent's. What each was called with is seen, and nothing of its inside.
                said.all_refused_but(&seen_of(&pid).each_ref().map(String::as_str), &refused);
                peeked.all_refused_but(&["sched_setaffinity", "prlimit"], &REFUSALS);
            } else {
                said.all_refused_with(&refused);
                peeked.all_refused_with(&REFUSALS);
            }
            neighbour.join().expect("the neighbour is left alone");
        });
    }
}
