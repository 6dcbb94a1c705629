//! Containers: which cases mean nothing in them, who makes them, and with what.

use std::path::Path;

use toolgate_sandbox::DockerBackend;

use crate::{
    docker::{Daemon, Engine},
    skipped,
    user::BINARIES,
};

/// Cases that can mean nothing in a container, and why. `CASES.md` says the same.
pub(crate) const OF_OTHERS: [(&str, &str); 3] = [
    ("f34_overlay::its_parts_are_not_seen", "there are no overlays, and a room with one is refused"),
    ("n34_no_rules::a_list_where_there_is_no_door", "there is a door"),
    (
        "p01_privileges::nor_from_programs_that_have_them",
        "the image of the tests has no program that gives rights away",
    ),
];

/// Whom containers run as where the suite is root.
pub(crate) const NOBODY: u32 = 65_532;

/// Has this case a meaning in a container? Says why not.
pub(crate) fn applies(case: &str) -> bool {
    match OF_OTHERS.iter().find(|(name, _)| case.ends_with(name)) {
        Some((name, why)) => {
            eprintln!("DOES NOT APPLY: {name} in a container: {why}");
            false
        }
        None => true,
    }
}

/// The daemon, or none, said aloud.
pub(crate) fn daemon(engine: Engine) -> Option<Daemon> {
    match Daemon::find(engine) {
        Ok(daemon) => Some(daemon),
        // Whoever may use a daemon is as good as root, so for an ordinary user nothing is missing.
        Err(why) if std::env::var_os(BINARIES).is_some() => {
            eprintln!("SKIPPED: containers as an ordinary user: {why}");
            None
        }
        Err(why) => {
            skipped(why);
            None
        }
    }
}

/// Containers that are as large as the other rooms.
pub(crate) fn backend(daemon: &Daemon, state: &Path) -> DockerBackend {
    let mut settings = daemon.settings();
    settings.memory_limit = 2 << 30;
    settings.pids_limit = 256;
    settings.tmpfs_size = 256 << 20;
    // As many as there are.
    settings.cpu_limit = 2_000_000_000;
    DockerBackend::open(state, settings).expect("a backend")
}
