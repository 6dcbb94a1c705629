//! nobody reads what is given.

use std::time::Duration;

use toolgate_contract::Ending;

use crate::bench::{run, within};

in_every_room! {
    /// The deadline comes all the same.
    fn by_a_job_that_is_deaf(bench) {
        let mut job = bench.job(&["deaf", "60"], within(Duration::from_millis(500)));
        job.stdin = vec![b'x'; 64 << 20];
        let ran = run(&*bench.room(), &job).expect("it starts");
        assert_eq!(ran.ending, Ending::TimedOut);
        assert_eq!(bench.survivors(), [""; 0]);
    }

    /// A job that ends without reading is not held up.
    fn by_a_job_that_leaves(bench) {
        let mut job = bench.job(&["status"], within(Duration::from_secs(20)));
        job.stdin = vec![b'x'; 64 << 20];
        let ran = run(&*bench.room(), &job).expect("it starts");
        assert_eq!(ran.ending, Ending::Exited { code: 0 });
    }
}
