//! a full disk.

use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

use toolgate_contract::{Ending, Ran};
use toolgate_sandbox::{RoomLimits, RoomSpec};

use crate::bench::{Bench, within};

const LIMIT: u64 = 32 << 20;
/// Twice as much as may be had is still no full disk; ten times is what is asked for.
const TOLERATED: u64 = 4 * LIMIT;

fn filled(bench: &Bench, args: &[&str]) -> Ran {
    let limits = RoomLimits { disk: LIMIT, scratch: LIMIT, ..RoomLimits::default() };
    let room = bench.open(&RoomSpec { limits, ..bench.spec() });
    let ran = bench.run(&*room, args, within(Duration::from_secs(60)));
    let taken = blocks(&bench.workspace());
    assert!(taken < TOLERATED, "{taken} bytes of the host's disk are taken: {:?} {}", ran.ending, ran.stdout.text);
    assert_eq!(bench.survivors(), [""; 0]);
    ran
}

/// Bytes that everything beneath a directory takes on the disk.
fn blocks(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    entries
        .map(|entry| {
            let meta = entry.metadata().expect("an entry");
            meta.blocks() * 512 + if meta.is_dir() { blocks(&entry.path()) } else { 0 }
        })
        .sum()
}

in_every_room! {
    ///
    fn by_one_file(bench) {
        let ran = filled(bench, &["fill", ".", "320000000"]);
        assert_eq!(ran.ending, Ending::DiskLimit, "{}", ran.stdout.text);
    }

    /// A process that closes itself to those who watch.
    fn by_one_that_is_not_watched(bench) {
        let ran = filled(bench, &["fill", ".", "30000000", "unseen"]);
        assert_eq!(ran.ending, Ending::Exited { code: 0 }, "what fits is written");
        let ran = filled(bench, &["fill-many", ".", "10", "30000000"]);
        assert_eq!(ran.ending, Ending::DiskLimit, "{}", ran.stdout.text);
    }

    ///
    fn by_many_files(bench) {
        filled(bench, &["fill-files", ".", "80000"]);
    }

    /// Blocks that are taken without being written.
    fn by_files_that_hold_nothing(bench) {
        filled(bench, &["fill-taken", ".", "10", "30000000"]);
    }

    /// Directories hold nothing and take a block each.
    fn by_directories(bench) {
        filled(bench, &["fill-dirs", ".", "60000"]);
    }

    /// A program nobody may read does not show what it writes either.
    fn by_a_program_that_cannot_be_read(bench) {
        let program = bench.workspace().join("unreadable");
        fs::copy(bench.probe_path(), &program).expect("a program");
        crate::bench::open_to_all(&program, 0o111);
        let ran = filled(bench, &["run-elevated", "./unreadable", "fill-many", ".", "10", "30000000"]);
        assert_eq!(ran.ending, Ending::DiskLimit, "{}", ran.stdout.text);
    }

    /// A file without a name.
    fn by_a_file_nobody_sees(bench) {
        let ran = filled(bench, &["fill-deleted", ".", "320000000"]);
        assert_eq!(ran.ending, Ending::DiskLimit, "{}", ran.stdout.text);
    }

    /// Its private directories.
    fn of_its_own(bench) {
        let limits = RoomLimits { disk: LIMIT, scratch: LIMIT, ..RoomLimits::default() };
        let room = bench.open(&RoomSpec { limits, ..bench.spec() });
        let place = if bench.has_namespaces() { "/tmp".to_owned() } else { bench.probe_in(&*room, &["env"]).ok("TMPDIR") };
        let ran = bench.run(&*room, &["fill", &place, "320000000"], within(Duration::from_secs(60)));
        match ran.ending {
            Ending::DiskLimit => {}
            Ending::Exited { code: 0 } => {
                let written = crate::said::Said::read(&ran.stdout.text).number("written");
                assert!(written <= LIMIT, "{written} bytes");
            }
            other => panic!("{other:?}"),
        }
    }

    /// Directories in directories: whoever cleans up afterwards can.
    fn in_depth(bench) {
        let room = bench.room();
        fs::create_dir(bench.workspace().join("deep")).expect("a directory");
        crate::bench::open_to_all(&bench.workspace().join("deep"), 0o777);
        let made = bench.probe_in(&*room, &["fill-deep", "deep", "3000"]).number("deep");
        assert!(made > 100, "{made}");
        drop(room);
        let status = std::process::Command::new("rm").arg("-rf").arg(bench.workspace().join("deep")).status();
        assert!(status.is_ok_and(|status| status.success()), "the host can remove it");
    }

    /// A file that says it is large, and is not.
    fn by_saying_so(bench) {
        let ran = filled(bench, &["sparse", ".", "1099511627776"]);
        assert!(matches!(ran.ending, Ending::Exited { code: 0 } | Ending::DiskLimit | Ending::Signaled { .. }), "{:?}", ran.ending);
    }
}
