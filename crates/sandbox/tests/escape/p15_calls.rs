//! P-15, P-16, P-17: system calls a room has no use for.

use crate::said::{Ended, FILTERED};

in_every_room! {
    /// P-15, F-33.
    fn dangerous_ones(bench) {
        bench.probe(&["calls"]).all_refused_with(&FILTERED);
        let control = bench.control(&["calls"]);
        for (what, answer) in [("io_uring_setup", libc::EFAULT), ("perf_event_open", libc::EFAULT), ("bpf", libc::EINVAL)] {
            let reached = matches!(control.of(what), Ended::Errno(errno) if errno == answer || errno == libc::EPERM);
            assert!(reached, "{what} reaches the kernel where there is no wall: {control:?}");
        }
        assert!(control.worked().contains(&"keyctl session id"), "{control:?}");
    }

    /// P-16.
    fn by_other_doors(bench) {
        let said = bench.probe(&["foreign"]);
        said.all_refused_with(&[libc::ENOSYS]);
        let control = bench.control(&["foreign"]);
        if !control.worked().contains(&"i386 getpid") {
            crate::skipped("this kernel has no 32-bit calls, so that nobody refuses them proves nothing");
        }
    }

    /// P-17.
    fn a_filter_of_its_own(bench) {
        let said = bench.probe(&["own-filter"]);
        for what in said.names().into_iter().filter(|what| what.starts_with("keyctl after") || what.contains("listener")) {
            let refused = !matches!(said.of(what), Ended::Ok(_));
            assert!(refused, "{what}: {said:?}");
        }
        assert!(bench.control(&["own-filter"]).worked().contains(&"keyctl after filter plain"));
    }
}
