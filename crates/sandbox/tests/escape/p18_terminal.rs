//! P-18, P-19: a terminal is only written to.

use std::time::{Duration, Instant};

use toolgate_contract::{JobLimits, TerminalSize};

use crate::{
    bench::{Bench, permit, within},
    said::{Ended, Said},
};

const SIZE: TerminalSize = TerminalSize { rows: 24, columns: 200 };

/// Runs the attack on a terminal and gives everything that came out of it.
fn on_a_terminal(bench: &Bench, args: &[&str]) -> String {
    let room = bench.room();
    let mut terminal = room.open_terminal(&permit(), &bench.job(args, JobLimits::default()), SIZE).expect("a terminal");
    let mut told = Vec::new();
    let until = Instant::now() + Duration::from_secs(20);
    while let Some(bytes) = terminal.read(Duration::from_millis(100)).expect("the terminal") {
        told.extend(bytes);
        assert!(Instant::now() < until, "it does not end: {}", String::from_utf8_lossy(&told));
    }
    terminal.end().expect("its end");
    String::from_utf8_lossy(&told).replace('\r', "")
}

in_every_room! {
    /// P-18.
    fn nothing_is_typed_for_its_owner(bench) {
        let told = on_a_terminal(bench, &["tty"]);
        let said = Said::read(&told);
        for fd in 0..3 {
            for what in ["type into", "console call on"] {
                for way in ["", " with a high bit"] {
                    let what = format!("{what} {fd}{way}");
                    assert_eq!(said.of(&what), Ended::Errno(libc::EPERM), "{what}");
                }
            }
            assert_eq!(said.of(&format!("line discipline of {fd}")), Ended::Errno(libc::EPERM));
        }
        assert!(!told.contains('#'), "something was typed: {told}");
    }

    /// P-19. Without a terminal there is none to be opened.
    fn there_is_none_without_one(bench) {
        let said = bench.probe(&["tty"]);
        let refusals = [
            libc::EPERM, libc::ENXIO, libc::ENOENT, libc::EACCES, libc::ENOTTY, libc::ENODEV, libc::EIO, libc::EINVAL,
        ];
        said.all_refused_with(&refusals);
    }

    /// P-19. The terminal of another job of the same room.
    fn a_neighbours_is_not_opened(bench) {
        let room = bench.room();
        let job = |args: &[&str]| bench.job(args, within(Duration::from_secs(90)));
        let open = |args: &[&str]| room.open_terminal(&permit(), &job(args), SIZE).expect("a terminal");
        let neighbour = open(&["sleep", "60"]);
        let paths: Vec<String> = (0..8).map(|number| format!("/dev/pts/{number}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        for way in ["open-read", "open-write"] {
            bench.probe_in(&*room, &[&[way], &paths[..]].concat()).all_refused();
        }
        drop(neighbour);
    }

    /// P-19. The machine's terminals are not seen from the room's.
    fn the_machines_are_not_seen(bench) {
        let said = Said::read(&on_a_terminal(bench, &["tty"]));
        for path in ["/dev/console", "/dev/tty0", "/dev/tty1", "/dev/vcs", "/dev/vcsa"] {
            assert!(!matches!(said.of(&format!("open {path}")), Ended::Ok(_)), "{path}");
        }
    }
}
