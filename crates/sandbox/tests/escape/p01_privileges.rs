//! P-01, P-02, P-24: a room has no rights, and no way to get any.

use std::path::Path;

use crate::{container::NOBODY, said::Ended};

in_every_room! {
    /// P-01.
    fn none_are_held(bench) {
        let said = bench.probe(&["status"]);
        assert_eq!((said.number("no_new_privs"), said.number("seccomp")), (1, 2));
        assert_eq!((said.number("capabilities held"), said.number("ambient capabilities")), (0, 0));
        // To empty the set a process must be root of its namespace, which a room without namespaces never was. Nothing
        // can be gained from it: there are no programs with rights for those who may not gain any.
        if bench.has_namespaces() || rustix::process::geteuid().is_root() {
            assert_eq!(said.number("capabilities in the bounding set"), 0);
        }
        assert_eq!(said.number("limit on core"), 0);
    }

    /// P-24.
    fn nobody_in_particular(bench) {
        let said = bench.probe(&["status"]);
        assert_ne!(said.number("own user"), 0);
        assert_ne!(said.number("own group"), 0);
        let own = rustix::process::geteuid();
        if own.is_root() && bench.is_container() {
            // Whoever starts a container's first process puts it into its own group once more.
            assert_eq!((said.number("own user"), said.number("own group")), (NOBODY.into(), NOBODY.into()));
            assert_eq!(said.ok("Groups"), NOBODY.to_string());
        } else if own.is_root() {
            assert_eq!(said.number("number of groups"), 0);
            assert!(said.number("own user") >= 1_000_000, "far from anybody's: {said:?}");
        } else {
            assert_eq!(said.number("own user"), u64::from(own.as_raw()));
        }
        // No user of the room is the machine's root, whatever the room calls it.
        if let Ended::Ok(map) = said.of("outer uid") {
            let numbers: Vec<&str> = map.split(' ').collect();
            // A container shares the machine's users, of whom it is one without a right.
            let is_shared = !bench.has_namespaces() || bench.is_container();
            assert!(numbers == ["?"] || numbers == [""] || is_shared || numbers[1] != "0", "{map}");
        }
    }

    /// P-02.
    fn none_are_to_be_had(bench) {
        let said = bench.probe(&["elevate"]);
        let refusals = [libc::EPERM, libc::EACCES, libc::EINVAL, libc::ENOSYS];
        said.all_refused_with(&refusals);
        let alone = bench.control(&["alone", "elevate"]);
        assert!(alone.worked().contains(&"setuid 0"), "without walls it works: {alone:?}");
    }

    /// P-02. Programs that give rights away, run inside: they say who they are, or refuse.
    fn nor_from_programs_that_have_them(bench) {
        let known = [("/usr/bin/su", ["-c", "id -u"]), ("/usr/bin/sudo", ["-n", "id"]), ("/usr/bin/pkexec", ["id", "-u"])];
        let here: Vec<_> = known.into_iter().filter(|(program, _)| Path::new(program).exists()).collect();
        if here.is_empty() {
            return crate::skipped("this machine has no program that gives rights away");
        }
        for (program, args) in here {
            let said = bench.probe(&["run-elevated", program, args[0], args[1]]);
            if let Ended::Ok(told) = said.of(&format!("run {program}")) {
                assert!(!told.starts_with("0:"), "{program} worked: {told}");
            }
        }
    }
}
