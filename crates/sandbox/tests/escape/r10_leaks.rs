//! rooms come and go and leave nothing.

use std::{
    collections::BTreeSet,
    env,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use toolgate_contract::{Ending, JobLimits};
use toolgate_sandbox::RoomSpec;

use crate::{
    bench::{Bench, Kind, in_room, run, within},
    host::{Counted, cgroups_of, eventually, resident},
};

const ALONE: &str = "TOOLGATE_ESCAPE_ALONE";

/// Counts are of a whole process, so these cases have one to themselves: the suite, started again for one test.
fn alone(name: &str, kind: Kind, case: fn(&Bench)) {
    if env::var_os(ALONE).is_some() {
        return in_room(kind, case);
    }
    let name = format!("r10_leaks::{name}::{}", kind.as_str());
    let status = Command::new(env::current_exe().expect("the suite knows itself"))
        .args([&name, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{name} failed in a process of its own");
}

fn thousand(bench: &Bench) {
    in_a_row(bench, 20, 1000);
}

fn thirty(bench: &Bench) {
    in_a_row(bench, 2, 30);
}

fn in_a_row(bench: &Bench, first: usize, then: usize) {
    // The first rooms make what stays: a pool of groups, a cache of id maps.
    for _ in 0..first {
        open_run_close(bench);
    }
    let groups = groups(bench);
    open_run_close(bench);
    let (before, held) = (settled(&groups, None), resident());
    for _ in 0..then {
        open_run_close(bench);
    }
    assert_eq!(settled(&groups, Some(&before)), before, "something stayed");
    let grown = resident().saturating_sub(held);
    assert!(grown < 8 << 10, "{grown} KiB stayed in memory");
    assert_eq!(bench.survivors(), [""; 0]);
}

/// What is counted once the last room's network has been taken down, which the kernel does in its own time.
fn settled(groups: &BTreeSet<PathBuf>, wanted: Option<&Counted>) -> Counted {
    let mut last = Counted::now(groups);
    eventually(Duration::from_secs(5), || {
        thread::sleep(Duration::from_millis(50));
        let now = Counted::now(groups);
        let is_settled = now == last && wanted.is_none_or(|wanted| now == *wanted);
        last = now;
        is_settled
    });
    last
}

/// Where this backend makes its groups: seen from a job that is in one of them.
fn groups(bench: &Bench) -> BTreeSet<PathBuf> {
    let room = bench.room();
    let mut found = BTreeSet::new();
    thread::scope(|scope| {
        let job = scope.spawn(|| bench.run(&*room, &["sleep", "1"], within(Duration::from_secs(20))));
        assert!(eventually(Duration::from_secs(5), || !bench.survivors().is_empty()));
        found = cgroups_of(&bench.survivors());
        job.join().expect("a call");
    });
    found.iter().filter_map(|dir| dir.parent()).map(Path::to_owned).collect()
}

fn open_run_close(bench: &Bench) {
    let room = bench.open(&RoomSpec { workspace: None, ..bench.spec() });
    let mut job = bench.job(&[], JobLimits::default());
    job.argv = vec!["true".into()];
    let ran = run(&*room, &job).expect("a job");
    assert_eq!(ran.ending, Ending::Exited { code: 0 });
}

fn at_once(bench: &Bench) {
    // The first batch makes what stays, as above; the second must add nothing to it.
    batch(bench);
    let groups = groups(bench);
    open_run_close(bench);
    let before = settled(&groups, None);
    batch(bench);
    // Whoever has ended is taken notice of when the next room is made.
    open_run_close(bench);
    // For every id that is in use at once a map is kept; how many that were is a matter of luck.
    let after = settled(&groups, Some(&before));
    assert!(after.namespaces <= before.namespaces + 17, "{after:?} {before:?}");
    assert_eq!(Counted { namespaces: before.namespaces, ..after }, before, "something stayed");
    assert_eq!(bench.survivors(), [""; 0]);
}

/// Sixty-four calls, three quarters of them in one room.
fn batch(bench: &Bench) {
    let shared = &bench.room();
    thread::scope(|scope| {
        for index in 0..64 {
            scope.spawn(move || {
                let word = format!("word-{index}");
                let own = (index % 4 == 0).then(|| bench.room());
                let said = bench.probe_in(own.as_deref().unwrap_or(&**shared), &["args", &word]);
                assert_eq!(said.ok("0"), word, "everyone gets their own answer");
            });
        }
    });
}

///
mod a_thousand_rooms_leak_nothing {
    use super::*;

    #[test]
    fn namespaces() {
        alone("a_thousand_rooms_leak_nothing", Kind::Namespaces, thousand);
    }

    #[test]
    fn landlock() {
        alone("a_thousand_rooms_leak_nothing", Kind::Landlock, thousand);
    }

    /// Fewer than a thousand: each takes a daemon a good part of a second.
    #[test]
    fn container() {
        alone("a_thousand_rooms_leak_nothing", Kind::Container, thirty);
    }
}

///
mod sixty_four_at_once {
    use super::*;

    #[test]
    fn namespaces() {
        alone("sixty_four_at_once", Kind::Namespaces, at_once);
    }

    #[test]
    fn landlock() {
        alone("sixty_four_at_once", Kind::Landlock, at_once);
    }

    #[test]
    fn container() {
        alone("sixty_four_at_once", Kind::Container, at_once);
    }
}
