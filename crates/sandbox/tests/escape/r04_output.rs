//! more said than anyone will read.

use std::time::Duration;

use toolgate_contract::{Ending, JobLimits, Ran};

use crate::{bench::Bench, host::resident};

const MOST: u64 = 8 << 20;

fn shouted(bench: &Bench, args: &[&str]) -> Ran {
    let limits = JobLimits { most_output: MOST, wall: Duration::from_secs(60), ..JobLimits::default() };
    let before = resident();
    let ran = bench.run(&*bench.room(), args, limits);
    // Other cases run beside this one, so the bound is wide; what was said is wider.
    assert!(resident() < before + (200 << 10), "the runtime keeps what it hears: {} KiB", resident() - before);
    for stream in [&ran.stdout, &ran.stderr] {
        assert!(stream.shown_bytes <= limits.keep_bytes as u64 && stream.text.len() < 2 * limits.keep_bytes);
    }
    assert_eq!(bench.survivors(), [""; 0]);
    ran
}

in_every_room! {
    /// The head is kept, the rest is counted, and the job is ended.
    fn to_one_stream(bench) {
        let ran = shouted(bench, &["shout", "2000000000"]);
        assert_eq!(ran.ending, Ending::OutputLimit);
        assert!(ran.stdout.text.starts_with("y\ny\n") && ran.stdout.bytes > MOST, "{:?}", ran.stdout.bytes);
    }

    ///
    fn to_both_in_turn(bench) {
        let ran = shouted(bench, &["shout", "200000000", "both"]);
        assert_eq!(ran.ending, Ending::OutputLimit);
        assert!(ran.stdout.text.starts_with("o\n") && ran.stderr.text.starts_with("e\n"));
    }

    ///
    fn one_line_that_is_no_text(bench) {
        let ran = shouted(bench, &["line", "1000000000"]);
        assert_eq!(ran.ending, Ending::OutputLimit);
        assert!(ran.stdout.lossy, "some of it was no text");
    }
}
