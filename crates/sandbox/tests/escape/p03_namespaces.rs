//! P-03, P-04: no new namespaces, and nobody else's.

use crate::{f24_proc::room_user, host::Victim, said::FILTERED};

in_every_room! {
    /// P-03. Ordinary children and threads still work.
    fn new_ones(bench) {
        let said = bench.probe(&["namespaces"]);
        said.all_refused_but(&["works: fork", "works: thread"], &FILTERED);
        assert_eq!(said.number("works: thread"), 7);
        assert_eq!(said.number("works: fork"), 0);
        // The library falls back to `clone` only if this one is said not to exist.
        assert_eq!(said.of("clone3 plain"), crate::said::Ended::Errno(libc::ENOSYS));
        let control = bench.control(&["namespaces"]);
        for what in ["unshare user", "clone user with a high bit", "clone3 plain"] {
            assert!(control.worked().contains(&what), "without walls it works: {control:?}");
        }
    }

    /// P-04.
    fn other_peoples(bench) {
        let room = bench.room();
        let mut victim = Victim::new(&bench.probe_path(), room_user(bench, &*room));
        let said = bench.probe_in(&*room, &["setns", &victim.id()]);
        said.all_refused_with(&[libc::EPERM, libc::ENOSYS, libc::EACCES, libc::ENOENT, libc::ESRCH]);
        assert!(victim.is_alive());
    }
}
