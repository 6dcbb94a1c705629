//! E-01, E-02: the environment of a room is built from empty.

use toolgate_contract::JobLimits;
use toolgate_sandbox::RoomError;

use crate::{bench::run, said::Said};

/// Names a room gives its programs, and the one the suite asked for.
const KNOWN: [&str; 12] =
    ["HOME", "PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL", "PWD", "TZ", "MARKER"];

/// Names a container gives its programs besides: whose call it is.
const OF_THE_CALL: [&str; 4] = ["TOOLGATE_AGENT_ID", "TOOLGATE_SESSION_ID", "TOOLGATE_TASK_ID", "TOOLGATE_REQUEST_ID"];

in_every_room! {
    /// E-01. The suite's own environment has names of its own, and none of them arrives.
    fn nothing_of_the_runtimes(bench) {
        let said = bench.probe(&["env"]);
        let is_known = |name: &&str| KNOWN.contains(name) || bench.is_container() && OF_THE_CALL.contains(name);
        let unknown: Vec<_> = said.names().into_iter().filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(std::env::vars_os().count() > 0, "there was something to pass on");
        assert_ne!(Some(said.ok("HOME")), std::env::var("HOME").ok(), "a home of its own");
    }

    /// E-02. Names that put code into other programs, or change which program is found.
    fn nothing_that_runs_code(bench) {
        let room = bench.room();
        for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT",
            "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "IFS", "PATH", "HOME"] {
            let mut job = bench.job(&["env"], JobLimits::default());
            job.env.insert(name.into(), "/tmp/evil".into());
            match run(&*room, &job) {
                Err(RoomError::BadJob(_)) => {}
                Ok(ran) => {
                    let said = Said::read(&ran.stdout.text);
                    let arrived = said.names().contains(&name) && said.ok(name) == "/tmp/evil";
                    assert!(!arrived, "{name} arrived");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
