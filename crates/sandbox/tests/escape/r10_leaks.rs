//! rooms come and go and leave nothing.

use std::{env, process::Command, thread, time::Duration};

use toolgate_contract::{Ending, JobLimits};
use toolgate_sandbox::{RoomSpec, Tier};

use crate::{
    bench::{Bench, in_tier, run},
    host::{Counted, eventually, resident},
};

const ALONE: &str = "TOOLGATE_ESCAPE_ALONE";

/// Counts are of a whole process, so these cases have one to themselves: the suite, started again for one test.
fn alone(name: &str, tier: Tier, case: fn(&Bench)) {
    if env::var_os(ALONE).is_some() {
        return in_tier(tier, case);
    }
    let name = format!("r10_leaks::{name}::{}", tier.as_str());
    let status = Command::new(env::current_exe().expect("the suite knows itself"))
        .args([&name, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{name} failed in a process of its own");
}

fn thousand(bench: &Bench) {
    // The first rooms make what stays: a pool of groups, a cache of id maps.
    for _ in 0..20 {
        open_run_close(bench);
    }
    let (before, held) = (settled(None), resident());
    for _ in 0..1000 {
        open_run_close(bench);
    }
    let after = settled(Some(&before));
    assert_eq!(after, before, "something stayed");
    let grown = resident().saturating_sub(held);
    assert!(grown < 8 << 10, "{grown} KiB stayed in memory");
    assert_eq!(bench.survivors(), [""; 0]);
}

/// What is counted once the last room's network has been taken down, which the kernel does in its own time.
fn settled(wanted: Option<&Counted>) -> Counted {
    let mut last = Counted::now();
    eventually(Duration::from_secs(5), || {
        thread::sleep(Duration::from_millis(50));
        let now = Counted::now();
        let is_settled = now == last && wanted.is_none_or(|wanted| now == *wanted);
        last = now;
        is_settled
    });
    last
}

fn open_run_close(bench: &Bench) {
    let room = bench.open(&RoomSpec { workspace: None, ..bench.spec() });
    let mut job = bench.job(&[], JobLimits::default());
    job.argv = vec!["true".into()];
    let ran = run(&*room, &job).expect("a job");
    assert_eq!(ran.ending, Ending::Exited { code: 0 });
}

fn at_once(bench: &Bench) {
    let before = settled(None);
    let room = bench.room();
    thread::scope(|scope| {
        let calls: Vec<_> = (0..64)
            .map(|index| {
                let room = &room;
                scope.spawn(move || {
                    let word = format!("word-{index}");
                    let own = (index % 4 == 0).then(|| bench.room());
                    let said = bench.probe_in(own.as_deref().unwrap_or(&**room), &["args", &word]);
                    assert_eq!(said.ok("0"), word, "everyone gets their own answer");
                })
            })
            .collect();
        for call in calls {
            call.join().expect("a call");
        }
    });
    drop(room);
    assert_eq!(bench.survivors(), [""; 0]);
    let after = settled(Some(&before));
    assert_eq!((after.children, after.namespaces, after.mounts), (before.children, before.namespaces, before.mounts));
}

///
mod a_thousand_rooms_leak_nothing {
    use super::*;

    #[test]
    fn namespaces() {
        alone("a_thousand_rooms_leak_nothing", Tier::Namespaces, thousand);
    }

    #[test]
    fn landlock() {
        alone("a_thousand_rooms_leak_nothing", Tier::Landlock, thousand);
    }
}

///
mod sixty_four_at_once {
    use super::*;

    #[test]
    fn namespaces() {
        alone("sixty_four_at_once", Tier::Namespaces, at_once);
    }

    #[test]
    fn landlock() {
        alone("sixty_four_at_once", Tier::Landlock, at_once);
    }
}
