//! P-13, P-14: the walls do not depend on how a program is started.

use toolgate_contract::JobLimits;
use toolgate_sandbox::RoomError;

use crate::bench::{SECRET, run};

in_every_room! {
    /// P-13.
    fn however_it_is_started(bench) {
        let canary = bench.canary();
        let said = bench.probe(&["exec-ways", &canary]);
        let ran: Vec<_> = said.worked().into_iter().filter(|way| said.ok(way).contains("tries")).collect();
        assert!(ran.contains(&"by path") && ran.contains(&"by a shell"), "{said:?}");
        for way in ran {
            let told = said.ok(way);
            assert!(!told.contains(SECRET), "{way} reads the canary");
            assert!(told.contains(r#"{"ok":"2","what":"seccomp"}"#), "{way} has no filter: {told}");
        }
        let control = bench.control(&["exec-ways", &canary]);
        assert!(control.ok("from memory").contains(SECRET), "without walls it is read: {control:?}");
    }

    /// P-14, E-02. Libraries are not put into programs by whoever names them.
    fn whatever_is_loaded_into_it(bench) {
        let room = bench.room();
        for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "DYLD_INSERT_LIBRARIES"] {
            let mut job = bench.job(&["env"], JobLimits::default());
            job.env.insert(name.into(), "/tmp/evil.so".into());
            match run(&*room, &job) {
                Err(RoomError::BadJob(_)) => {}
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
