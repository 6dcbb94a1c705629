//! things the kernel counts for a whole machine.

use crate::said::Ended;

in_every_room! {
    /// Each is refused outright or ends at the room's own limit; the host has its own.
    fn of_everything(bench) {
        let said = bench.probe(&["many", "20000"]);
        for what in ["files", "watchers", "sockets"] {
            if let Ended::Ok(taken) = said.of(what) {
                assert!(taken.parse::<u64>().expect("a number") <= 1_024, "{what}: {taken}");
            }
        }
        assert_eq!(said.of("message queues"), Ended::Errno(libc::EPERM), "POSIX queues");
        if !bench.has_namespaces() {
            for what in ["shared memory", "semaphores", "messages"] {
                assert_eq!(said.of(what), Ended::Errno(libc::EPERM), "{what}");
            }
        }
        assert!(std::fs::File::open("/dev/null").is_ok(), "the host opens files");
    }
}
