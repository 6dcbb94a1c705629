//! S-01 to S-06: a tool does not notice whether its room is a process room or a container.
//!
//! One program, which is the same in both, is given the same jobs in a room of each kind; what comes back is compared,
//! all but what stood around it and what it used.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use toolgate_contract::{Ending, Job, JobLimits, TerminalSize};
use toolgate_sandbox::{Room, RoomLimits, RoomSpec};

use crate::bench::{Bench, in_two_rooms, open_to_all, permit, run, text, within};

/// It is on the machine and in the image.
const SHELL: &str = "/bin/busybox";

fn sh(script: &str) -> Job {
    Job {
        argv: [SHELL, "sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: String::new(),
        env: BTreeMap::new(),
        stdin: Vec::new(),
        limits: within(Duration::from_secs(20)),
    }
}

fn program(path: &str) -> Job {
    Job { argv: vec![path.to_owned()], ..sh("") }
}

/// All that a tool is told.
fn told(bench: &Bench, room: &dyn Room, job: &Job) -> String {
    let told = match run(room, job) {
        Ok(ran) => format!("{:?} {:?} {:?} {:?}", ran.ending, ran.stdout, ran.stderr, ran.refused),
        Err(error) => format!("{error:?}"),
    };
    // Each has a workspace of its own.
    told.replace(&text(&bench.workspace()), "WORKSPACE")
}

/// Gives these jobs to a room of each kind, one after the other.
fn same(benches: [&Bench; 2], limits: RoomLimits, jobs: &[Job]) {
    let rooms = benches.map(|bench| bench.open(&RoomSpec { limits, ..bench.spec() }));
    for job in jobs {
        let [process, container] = [0, 1].map(|which| told(benches[which], &*rooms[which], job));
        assert_eq!(container, process, "{:?} in `{}`", job.argv, job.cwd);
    }
}

/// S-01.
#[test]
fn how_a_job_ends() {
    in_two_rooms(|benches| {
        let scripts = [
            "exit 0",
            "exit 7",
            "exit 255",
            "kill -9 $$",
            "kill -15 $$",
            "kill -11 $$",
            "sh -c 'kill -9 $$'; echo $?",
            "sleep 60 & exit 3",
            "exec no-such-program",
            "trap 'exit 9' EXIT; exit 1",
        ];
        same(benches, RoomLimits::default(), &scripts.map(sh));
        let short = |script| Job { limits: within(Duration::from_millis(300)), ..sh(script) };
        let polite = "trap 'echo asked to; exit 3' TERM; sleep 60 & wait";
        same(benches, RoomLimits::default(), &["sleep 60", polite, "trap '' TERM; sleep 60; sleep 60"].map(short));
    });
}

/// S-02. Jobs that do not begin.
#[test]
fn what_does_not_begin() {
    in_two_rooms(|benches| {
        for bench in benches {
            let put = |name: &str, contents: &str, mode: u32| {
                fs::write(bench.workspace().join(name), contents).expect("a file");
                open_to_all(&bench.workspace().join(name), mode);
            };
            put("plain", "text", 0o666);
            put("garbage", "\x7fELF", 0o777);
            put("no-interpreter", "#!/no/such/program\n", 0o777);
            put("script", "#!/bin/busybox sh\necho ran in $PWD\n", 0o777);
            fs::create_dir(bench.workspace().join("dir")).expect("a directory");
        }
        let programs = [
            "no-such-program",
            "./none",
            "/none",
            "./plain",
            "./garbage",
            "./no-interpreter",
            "./script",
            "./dir",
            "/proc",
        ];
        same(benches, RoomLimits::default(), &programs.map(program));
        let elsewhere =
            ["dir", "none", "plain", "..", "/", "dir/../.."].map(|cwd| Job { cwd: cwd.into(), ..sh("pwd") });
        same(benches, RoomLimits::default(), &elsewhere);
    });
}

/// S-03.
#[test]
fn what_a_job_finds() {
    in_two_rooms(|benches| {
        let scripts = [
            "pwd",
            "env | grep -v ^TOOLGATE_ | sort",
            "umask",
            "hostname",
            "tty",
            "date +%Z",
            "ulimit -n; ulimit -c",
            "echo $0 $#",
            "echo $HOME",
            "touch $HOME/x /tmp/x here && cat $HOME/x /tmp/x here && rm here",
            "ls -A $HOME /tmp; cd; pwd",
            "stat -c %a /tmp $HOME",
            "(sleep 0.1; echo later) & echo now; wait",
        ];
        same(benches, RoomLimits::default(), &scripts.map(sh));
        let env = BTreeMap::from([("GREETING".to_owned(), "hello\nworld".to_owned())]);
        same(
            benches,
            RoomLimits::default(),
            &[Job { env, ..sh("echo \"$GREETING\"; env | grep -v ^TOOLGATE_ | sort") }],
        );
    });
}

/// S-04.
#[test]
fn what_is_said_and_heard() {
    in_two_rooms(|benches| {
        let scripts = [
            "echo out; echo err >&2",
            "printf 'no end'",
            "seq 1 100000",
            "seq 1 100000 >&2",
            "printf '\\377\\376'",
            "head -c 300000 /dev/zero | tr '\\0' x",
            "cat",
            "exec <&-; cat",
            "exec >&-; echo x",
            "sleep 60 > /dev/null & echo left",
        ];
        same(benches, RoomLimits::default(), &scripts.map(sh));
        let given = [vec![], vec![b'x'; 1 << 20], b"one\ntwo".to_vec()];
        let heard = given.map(|stdin| Job { stdin, ..sh("cat | md5sum") });
        same(benches, RoomLimits::default(), &heard);
        let few = JobLimits { keep_bytes: 200, keep_lines: 5, ..within(Duration::from_secs(20)) };
        same(
            benches,
            RoomLimits::default(),
            &["seq 1 1000", "head -c 5000 /dev/zero"].map(|script| Job { limits: few, ..sh(script) }),
        );
    });
}

/// S-05.
#[test]
fn which_limit_ended_it() {
    in_two_rooms(|benches| {
        let limits = RoomLimits {
            memory: 64 << 20,
            pids: 40,
            cpu: Duration::from_secs(1),
            disk: 16 << 20,
            ..RoomLimits::default()
        };
        let loud = JobLimits { most_output: 1 << 20, ..within(Duration::from_secs(20)) };
        let jobs = |bench: &Bench| {
            [
                (sh("dd if=/dev/zero of=/dev/null bs=300M count=1"), Ending::OomKilled),
                (bench.job(&["fork-bomb", "3000"], within(Duration::from_secs(20))), Ending::PidsExhausted),
                (sh("while :; do :; done"), Ending::CpuLimit),
                (sh("for i in $(seq 20); do head -c 4000000 /dev/zero > file-$i; done; sleep 30"), Ending::DiskLimit),
                (Job { limits: loud, ..sh("yes") }, Ending::OutputLimit),
            ]
        };
        for bench in benches {
            let room = bench.open(&RoomSpec { limits, ..bench.spec() });
            for (job, ending) in jobs(bench) {
                let ran = run(&*room, &job).expect("it starts");
                assert_eq!(ran.ending, ending, "{} {:?}: {}", bench.kind.as_str(), job.argv, ran.stderr.text);
            }
            let ran = run(&*room, &sh("i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done")).expect("it starts");
            assert!(ran.usage.wall_ms > 0 && ran.usage.cpu_ms > 0, "{} {:?}", bench.kind.as_str(), ran.usage);
        }
    });
}

/// S-06.
#[test]
fn on_a_terminal() {
    in_two_rooms(|benches| {
        let [process, container] = benches.map(|bench| {
            let room = bench.room();
            let job = sh("stty size; read line; echo got $line; stty size; trap 'echo stopped; exit 5' INT; echo ready; sleep 30 & wait");
            let mut terminal = room.open_terminal(&permit(), &job, SIZE).expect("a terminal");
            let mut said = String::new();
            let mut until = |word: &str, terminal: &mut dyn toolgate_sandbox::Terminal| {
                let most = Instant::now() + Duration::from_secs(20);
                while !said.contains(word) {
                    assert!(Instant::now() < most, "{}: {said}", bench.kind.as_str());
                    let bytes = terminal.read(Duration::from_millis(50)).expect("the terminal").unwrap_or_default();
                    said.push_str(&String::from_utf8_lossy(&bytes));
                }
            };
            until("24 200", &mut *terminal);
            terminal.resize(TerminalSize { rows: 40, columns: 100 }).expect("another size");
            terminal.write(b"hello\n").expect("typed");
            until("ready", &mut *terminal);
            terminal.write(b"\x03").expect("typed");
            until("stopped\r\n", &mut *terminal);
            while terminal.read(Duration::from_millis(50)).expect("the terminal").is_some() {}
            let ended = terminal.end().expect("its end").ending;
            (said, ended)
        });
        assert_eq!(container, process);
    });
}

const SIZE: TerminalSize = TerminalSize { rows: 24, columns: 200 };
