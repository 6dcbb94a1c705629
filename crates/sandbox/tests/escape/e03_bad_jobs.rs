//! E-03, E-06: jobs that are none, and words that look like something else.

use toolgate_contract::{JobLimits, Needs};
use toolgate_gate::Permit;
use toolgate_sandbox::{Io, RoomError};

use crate::bench::run;

in_every_room! {
    /// E-03.
    fn variables(bench) {
        let room = bench.room();
        let long = "x".repeat(4 << 20);
        for (name, value) in [("A=B", "x"), ("A\0B", "x"), ("A\nB", "x"), ("", "x"), ("A", "x\0y"), ("A B", "x"), ("A", &long)] {
            let mut job = bench.job(&["create", "started"], JobLimits::default());
            job.env.insert(name.into(), value.into());
            match run(&*room, &job) {
                Err(RoomError::BadJob(_)) => {}
                other => panic!("{name:?}: {other:?}"),
            }
        }
        let mut job = bench.job(&["create", "started"], JobLimits::default());
        job.env.extend((0..100_000).map(|index| (format!("NAME_{index}"), "x".into())));
        let ran = run(&*room, &job);
        assert!(matches!(ran, Err(RoomError::BadJob(_))), "{ran:?}");
        assert!(!bench.workspace().join("started").exists(), "something ran");
        bench.probe_in(&*room, &["status"]);
    }

    /// E-06.
    fn words(bench) {
        let words = ["; touch started", "$(touch started)", "`touch started`", "-rf", "--", "a b", "'", "\"", "\n", "*", "~", "\u{1b}[2J", "|", "&", ""];
        let mut args = vec!["args"];
        args.extend(words);
        let room = bench.room();
        let said = bench.probe_in(&*room, &args);
        for (index, word) in words.iter().enumerate() {
            assert_eq!(said.ok(&index.to_string()), *word, "as it was given");
        }
        assert!(!bench.workspace().join("started").exists(), "no shell was asked");
        for argv in [vec![], vec![String::new()], vec![bench.probe_path(), "a\0b".into()], vec![bench.probe_path(), "x".repeat(4 << 20)]] {
            let mut job = bench.job(&[], JobLimits::default());
            job.argv = argv;
            let ran = run(&*room, &job);
            assert!(matches!(ran, Err(RoomError::BadJob(_))), "{ran:?}");
        }
        let mut job = bench.job(&[], JobLimits::default());
        job.argv = vec!["no-such-program-here".into()];
        let ran = run(&*room, &job);
        assert!(matches!(ran, Err(RoomError::NoProgram { .. })), "{ran:?}");
    }

    /// A permit that is not for this runs nothing.
    fn without_the_right_permit(bench) {
        let room = bench.room();
        let job = bench.job(&["create", "started"], JobLimits::default());
        let lesser = [
            Needs::WRITE_FILES,
            Needs { exec: true, ..Needs::READ_FILES },
            Needs { exec: true, ..Needs::NOTHING },
        ];
        for needs in lesser {
            let ran = room.run(&Permit::of_operator(needs), &job, Io { stop: &|| false, heard: None, stdin: None, stdout: None });
            assert!(matches!(ran, Err(RoomError::BadJob(_))), "{needs:?}: {ran:?}");
        }
        assert!(!bench.workspace().join("started").exists(), "something ran");
    }
}
