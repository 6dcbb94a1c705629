//! R-01: memory, wherever it is held.

use std::time::Duration;

use toolgate_contract::Ending;
use toolgate_sandbox::{RoomLimits, RoomSpec};

use crate::{
    bench::{Bench, within},
    said::{Ended, Said},
};

const LIMIT: u64 = 64 << 20;
const WANTED: u64 = 400 << 20;

/// The job does not get what it wants: it is killed, or refused. A neighbour does not notice.
fn is_not_had(bench: &Bench, how: &str) {
    let limits = RoomLimits { memory: LIMIT, ..RoomLimits::default() };
    let room = bench.open(&RoomSpec { limits, ..bench.spec() });
    let sibling = bench.room();
    let ran = bench.run(&*room, &["eat", how, &WANTED.to_string()], within(Duration::from_secs(30)));
    match ran.ending {
        Ending::OomKilled | Ending::DiskLimit => {}
        Ending::Exited { code: 0 } => {
            let said = Said::read(&ran.stdout.text);
            assert!(!matches!(said.of(how), Ended::Ok(_)), "{how}: all of it was had; {:?}", ran.receipt);
        }
        other => panic!("{how}: {other:?}; {:?}", ran.receipt),
    }
    assert_eq!(bench.survivors(), [""; 0]);
    bench.probe_in(&*sibling, &["status"]);
    // In a container the kernel may take the worker along. The job is told the truth all the same, and the next one gets
    // another room.
    if room.is_alive() || !bench.is_container() {
        bench.probe_in(&*room, &["status"]);
    }
}

in_every_room! {
    /// R-01.
    fn pages(bench) {
        is_not_had(bench, "pages");
    }

    /// R-01. A limit on each process would be none on all of them.
    fn of_many_processes(bench) {
        is_not_had(bench, "children");
    }

    /// R-01.
    fn shared_pages(bench) {
        is_not_had(bench, "shared-pages");
    }

    /// R-01.
    fn files_without_names(bench) {
        is_not_had(bench, "memfd");
    }

    /// R-01. Without namespaces they are on the machine's disk, and `r08_disk` is about that.
    fn private_directories(bench) {
        if !bench.has_namespaces() {
            return;
        }
        for how in ["tmp", "home"] {
            is_not_had(bench, how);
        }
    }

    /// R-01.
    fn shared_memory(bench) {
        for how in ["shm", "sysv", "sysv-left"] {
            is_not_had(bench, how);
        }
    }

    /// R-01.
    fn buffers(bench) {
        for how in ["pipes", "sockets"] {
            is_not_had(bench, how);
        }
    }

    /// R-01. A program nobody may read does not show what it holds.
    fn of_a_program_that_cannot_be_read(bench) {
        let program = bench.workspace().join("unreadable");
        std::fs::copy(bench.probe_path(), &program).expect("a program");
        crate::bench::open_to_all(&program, 0o111);
        let limits = RoomLimits { memory: LIMIT, ..RoomLimits::default() };
        let room = bench.open(&RoomSpec { limits, ..bench.spec() });
        for how in ["pages", "shared-pages", "memfd"] {
            let args = ["run-elevated", "./unreadable", "eat", how, &WANTED.to_string()];
            let ran = bench.run(&*room, &args, within(Duration::from_secs(30)));
            let had = format!(r#"{{\"ok\":\"{WANTED}\""#);
            assert!(!ran.stdout.text.contains(&had), "{how}: all of it was had; {:?}", ran.receipt);
        }
    }

    /// The wall stands where it was put: what fits is had.
    fn what_fits_is_had(bench) {
        let limits = RoomLimits { memory: 2 * LIMIT, ..RoomLimits::default() };
        let room = bench.open(&RoomSpec { limits, ..bench.spec() });
        let said = bench.probe_in(&*room, &["eat", "pages", &(LIMIT / 2).to_string()]);
        assert_eq!(said.number("pages"), LIMIT / 2);
    }
}
