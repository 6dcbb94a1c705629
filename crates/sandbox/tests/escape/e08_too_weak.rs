//! E-08: a wall that is missing is said, and what stood is what the job's own process found.

use std::collections::BTreeSet;

use toolgate_sandbox::{Backend, DenyAll, RoomError, RoomSpec, Wall, WorkspaceMode};

in_every_room! {
    /// E-08. An operator who can do without a wall gets the room, and the gap is written down.
    fn an_accepted_gap_is_written_down(bench) {
        let spec = bench.spec_with(WorkspaceMode::ReadWrite, &["locked"]);
        if bench.has_namespaces() {
            let ran = bench.run(&*bench.open(&spec), &["status"], Default::default());
            assert_eq!(ran.receipt.gaps, [""; 0]);
            return;
        }
        assert!(matches!(bench.backend.open(&spec, "escape"), Err(RoomError::TooWeak { wall: Wall::ProtectedNames, .. })));
        let accepted = RoomSpec { accepted_gaps: BTreeSet::from([Wall::Metadata, Wall::ProtectedNames]), ..spec };
        let ran = bench.run(&*bench.open(&accepted), &["status"], Default::default());
        assert_eq!(ran.receipt.gaps, ["metadata", "protected_names"]);
        assert!(!ran.receipt.walls.iter().any(|wall| wall.starts_with("protected_names")), "{:?}", ran.receipt);
    }

    /// E-08. Landlock alone does not hold modes and times, and nobody gets such a room without saying so.
    fn what_landlock_does_not_hold_is_said(bench) {
        let spec = RoomSpec { accepted_gaps: BTreeSet::new(), ..bench.spec() };
        match bench.backend.open(&spec, "escape") {
            Ok(_) => assert!(bench.has_namespaces()),
            Err(RoomError::TooWeak { wall: Wall::Metadata, .. }) => assert!(!bench.has_namespaces()),
            Err(other) => panic!("{other:?}"),
        }
    }

    /// E-08. Every wall is on the receipt, and the receipt says the same as the probe.
    fn what_stood_is_what_was_found(bench) {
        let ran = bench.run(&*bench.room(), &["status"], Default::default());
        let said = crate::said::Said::read(&ran.stdout.text);
        assert_eq!(ran.receipt.tier, bench.kind.as_str());
        let stood: BTreeSet<&str> = ran.receipt.walls.iter().filter_map(|wall| wall.split(':').next()).collect();
        let wanted = Wall::ALL.into_iter().filter(|wall| bench.has_namespaces() || *wall != Wall::Metadata);
        assert_eq!(stood, wanted.map(Wall::as_str).collect(), "{:?}", ran.receipt);
        let privileges = ran.receipt.walls.iter().find(|wall| wall.starts_with("privileges")).expect("the wall");
        assert!(privileges.contains(&said.ok("own user")), "{privileges}");
        if bench.has_namespaces() {
            // The users of a container are the machine's, unless its daemon is told otherwise; none of them has a right.
            let of_users = if bench.is_container() { &[][..] } else { &["user"] };
            for kind in ["mnt", "pid", "net", "ipc", "uts", "cgroup"].iter().chain(of_users) {
                let here = std::fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace");
                assert_ne!(said.ok(&format!("namespace {kind}")), here.display().to_string(), "{kind} is shared");
            }
        }
    }

    /// E-08. The backend that refuses refuses this as well.
    fn where_nothing_is_configured(bench) {
        assert!(DenyAll.open(&bench.spec(), "escape").is_err());
    }
}
