//! The worker as a process of this machine, spoken to over pipes.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up is a failed test")]

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt as _, process::CommandExt as _},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use toolgate_contract::{Ending, Files, Job, JobLimits, Needs, Ran, Receipt, TerminalSize};
use toolgate_gate::Permit;
use toolgate_sandbox::{Io, Room, RoomError, RoomLimits, RoomSpec, Source, Terminal, worker::WorkerRoom};

/// Whom the worker runs as where the test may choose.
const NOBODY: u32 = 65_532;

/// A worker with a room.
struct Bench {
    room: WorkerRoom,
    worker: Child,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::with(RoomLimits::default())
    }

    fn with(limits: RoomLimits) -> Self {
        let (mut worker, dir) = start();
        let input = worker.stdout.take().unwrap().into();
        let output = worker.stdin.take().unwrap().into();
        let spec = RoomSpec { limits, ..RoomSpec::bare() };
        let room = WorkerRoom::open(input, output, &spec, &dir.path().join("private")).unwrap();
        Self { room, worker, dir }
    }

    /// A word in the environment of every process of a job, and nowhere else.
    fn mark(&self, word: &str) -> String {
        format!("{word}-{}", self.dir.path().file_name().unwrap().to_str().unwrap())
    }

    fn run(&self, script: &str) -> Ran {
        self.room.run(&permit(), &sh(script, ""), quiet()).unwrap()
    }

    fn check(&self, script: &str, ending: Ending, stdout: &str, stderr: &str) {
        let ran = self.run(script);
        assert_eq!((ran.ending, ran.stdout.text.as_str(), ran.stderr.text.as_str()), (ending, stdout, stderr));
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.room.close();
        let _ = self.worker.wait();
    }
}

/// A worker nobody has spoken to.
fn start() -> (Child, tempfile::TempDir) {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, private) = (dir.path().join("worker"), dir.path().join("private"));
    // By another program: were it this one, a process that is just being started could hold the copy open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_toolgate-worker")).arg(&program).status();
    assert!(copied.unwrap().success());
    fs::create_dir(&private).unwrap();
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&private, Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).env_clear().spawn().unwrap();
    (worker, dir)
}

fn permit() -> Permit {
    Permit::of_operator(Needs { files: Files::Write, exec: true, ..Needs::NOTHING })
}

fn quiet() -> Io<'static> {
    Io { stop: &|| false, heard: None, stdin: None, stdout: None }
}

/// A script with a word in its environment.
fn sh(script: &str, mark: &str) -> Job {
    Job {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: String::new(),
        env: BTreeMap::from([("MARK".to_owned(), mark.to_owned())]),
        stdin: Vec::new(),
        limits: JobLimits { wall: Duration::from_secs(60), ..JobLimits::default() },
    }
}

/// Processes of the machine whose environment holds this.
fn processes_with(word: &str) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let holds = |path: &PathBuf| {
        let bytes = fs::read(path.join("environ")).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    processes.filter(holds).collect()
}

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn a_job_is_heard_and_its_code_is_told() {
    let bench = Bench::new();
    bench.check("printf out; printf err >&2; exit 7", Ending::Exited { code: 7 }, "out", "err");
    bench.check("kill -TERM $$", Ending::Signaled { signal: 15 }, "", "");
    bench.check("echo $HOME; pwd", Ending::Exited { code: 0 }, &format!("{0}\n{0}\n", home(&bench)), "");
    let error = bench.room.run(&permit(), &Job { argv: vec!["no-such-program".into()], ..sh("", "") }, quiet());
    assert_eq!(error.unwrap_err().to_string(), "there is no program `no-such-program` in the room");
}

fn home(bench: &Bench) -> String {
    bench.dir.path().join("private/agent").to_str().unwrap().to_owned()
}

#[test]
fn what_no_container_puts_up_is_a_gap_in_the_receipt() {
    let bench = Bench::new();
    let uid = if rustix::process::geteuid().is_root() { NOBODY } else { rustix::process::geteuid().as_raw() };
    let expected = Receipt {
        tier: "container".into(),
        walls: vec![
            format!("privileges:uid_{uid}+no_capabilities+no_new_privs"),
            "syscalls:seccomp".into(),
            "cpu:supervised".into(),
            "disk:supervised".into(),
        ],
        gaps: ["files", "metadata", "protected_names", "processes", "network", "ipc", "memory", "pids"]
            .map(str::to_owned)
            .to_vec(),
        ..Receipt::default()
    };
    assert_eq!(bench.run("true").receipt, expected);
}

#[test]
fn streams_are_longer_than_any_window() {
    let bench = Bench::new();
    let long = vec![b'x'; 3_000_000];
    let job = Job { stdin: long.clone(), ..sh("wc -c", "") };
    assert_eq!(bench.room.run(&permit(), &job, quiet()).unwrap().stdout.text.trim(), "3000000");
    let ran = bench.run("head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2");
    assert_eq!((ran.stdout.bytes, ran.stderr.bytes), (3_000_000, 2_000_000));
    // One that never reads blocks nobody.
    let job = Job { stdin: long, ..sh("exit 3", "") };
    assert_eq!(bench.room.run(&permit(), &job, quiet()).unwrap().ending, Ending::Exited { code: 3 });
}

#[test]
fn a_given_stream_is_read_until_it_ends() {
    let bench = Bench::new();
    let (read, write) = std::io::pipe().unwrap();
    thread::scope(|scope| {
        let said = scope.spawn(|| {
            let io = Io { stdin: Some(OwnedFd::from(read)), ..quiet() };
            bench.room.run(&permit(), &sh("cat", ""), io).unwrap().stdout.text
        });
        let mut write = write;
        write.write_all(b"one ").unwrap();
        write.write_all(b"two").unwrap();
        drop(write);
        assert_eq!(said.join().unwrap(), "one two");
    });
}

#[test]
fn a_stopped_job_takes_its_daemons_along_and_no_other_job() {
    let bench = Bench::new();
    let (mine, other) = (bench.mark("mine"), bench.mark("other"));
    let (read, write) = std::io::pipe().unwrap();
    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            let io = Io { stdin: Some(OwnedFd::from(read)), ..quiet() };
            bench.room.run(&permit(), &sh("cat; echo unharmed", &other), io).unwrap()
        });
        assert!(eventually(|| !processes_with(&other).is_empty()));
        let mut heard = |_: Source, _: &[u8]| stopped.store(true, Ordering::SeqCst);
        let stop = || stopped.load(Ordering::SeqCst);
        let script = "setsid sh -c 'trap \"\" TERM; setsid sleep 1000 & sleep 1000' & trap '' TERM; sleep 0.2; echo ready; sleep 1000";
        let job = sh(script, &mine);
        let job = Job { limits: JobLimits { grace: Duration::from_millis(100), ..job.limits }, ..job };
        let io = Io { stop: &stop, heard: Some(&mut heard), stdin: None, stdout: None };
        let ran = bench.room.run(&permit(), &job, io).unwrap();
        assert_eq!((ran.ending, ran.stdout.text.as_str()), (Ending::Cancelled, "ready\n"));
        // The answer is given when nothing is left, not before.
        assert_eq!(processes_with(&mine), Vec::<PathBuf>::new());
        assert!(!processes_with(&other).is_empty());
        drop(write);
        let ran = others.join().unwrap();
        assert_eq!((ran.ending, ran.stdout.text.as_str()), (Ending::Exited { code: 0 }, "unharmed\n"));
    });
    bench.check("echo usable", Ending::Exited { code: 0 }, "usable\n", "");
}

#[test]
fn a_daemon_does_not_outlive_the_job_that_started_it() {
    let bench = Bench::new();
    let mark = bench.mark("daemon");
    let script = "setsid sleep 1000 >/dev/null 2>&1 & echo started";
    let ran = bench.room.run(&permit(), &sh(script, &mark), quiet()).unwrap();
    assert_eq!((ran.ending, ran.stdout.text.as_str()), (Ending::Exited { code: 0 }, "started\n"));
    assert_eq!(processes_with(&mark), Vec::<PathBuf>::new());
}

#[test]
fn each_limit_ends_the_job_and_not_the_room() {
    let limits =
        RoomLimits { memory: 64 << 20, pids: 24, cpu: Duration::from_secs(1), open_files: 77, ..RoomLimits::default() };
    let bench = Bench::with(limits);
    let ends = |script: &str, wall: Duration, most_output: u64, expected: Ending| {
        let job = sh(script, "");
        let limits = JobLimits { wall, most_output, grace: Duration::from_millis(50), ..job.limits };
        assert_eq!(bench.room.run(&permit(), &Job { limits, ..job }, quiet()).unwrap().ending, expected, "{script}");
    };
    let (long, much) = (Duration::from_secs(60), 64 << 20);
    ends("while :; do :; done", long, much, Ending::CpuLimit);
    ends("head -c 300000000 /dev/zero | tail -c 300000000 | sleep 30", long, much, Ending::OomKilled);
    ends("for i in $(seq 40); do sleep 30 & done; wait", long, much, Ending::PidsExhausted);
    ends("sleep 1000", Duration::from_millis(200), much, Ending::TimedOut);
    ends("yes", long, 1 << 20, Ending::OutputLimit);
    bench.check("ulimit -n; ulimit -c", Ending::Exited { code: 0 }, "77\n0\n", "");
}

#[test]
fn everything_ends_with_the_stream() {
    let mut bench = Bench::new();
    let mark = bench.mark("orphan");
    thread::scope(|scope| {
        let script = "setsid sh -c 'trap \"\" TERM; sleep 1000' & trap '' TERM; sleep 1000";
        let lost = scope.spawn(|| bench.room.run(&permit(), &sh(script, &mark), quiet()).map(|ran| ran.ending));
        assert!(eventually(|| processes_with(&mark).len() >= 3));
        bench.room.close();
        // Whether the word that it began came through in time is a matter of chance.
        assert!(matches!(lost.join().unwrap(), Ok(Ending::RoomLost) | Err(RoomError::Lost(_))));
    });
    assert!(bench.worker.wait().unwrap().success());
    assert_eq!(processes_with(&mark), Vec::<PathBuf>::new());
    assert!(!bench.room.is_alive());
    assert!(bench.room.run(&permit(), &sh("true", ""), quiet()).is_err());
}

#[test]
fn everything_ends_with_the_worker() {
    let mut bench = Bench::new();
    let mark = bench.mark("orphan");
    let job = sh("trap '' TERM; exec sleep 1000", &mark);
    thread::scope(|scope| {
        let lost = scope.spawn(|| bench.room.run(&permit(), &job, quiet()).map(|ran| ran.ending));
        assert!(eventually(|| !processes_with(&mark).is_empty()));
        bench.worker.kill().unwrap();
        // Whether the word that it began came through in time is a matter of chance.
        assert!(matches!(lost.join().unwrap(), Ok(Ending::RoomLost) | Err(RoomError::Lost(_))));
    });
    // What had left the program's side would be the container's to end; here there is none.
    assert!(eventually(|| processes_with(&mark).is_empty()));
    assert!(eventually(|| !bench.room.is_alive()));
}

#[test]
fn a_job_can_neither_signal_nor_look_into_the_worker_or_another_job() {
    let bench = Bench::new();
    let other = bench.mark("secret");
    let worker = bench.worker.id().to_string();
    let keeper = children(&worker)[0].clone();
    let (read, write) = std::io::pipe().unwrap();
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            let io = Io { stdin: Some(OwnedFd::from(read)), ..quiet() };
            bench.room.run(&permit(), &sh("read line; echo $line", &other), io).unwrap().stdout.text
        });
        assert!(eventually(|| !processes_with(&other).is_empty()));
        let victim = processes_with(&other)[0].file_name().unwrap().to_str().unwrap().to_owned();
        for pid in [&worker, &keeper, &victim] {
            let attack = format!(
                "kill -0 {pid} && echo probed; kill -9 {pid} && echo killed; kill -STOP {pid} && echo stopped; \
                 head -c1 /proc/{pid}/mem && echo mem; cat /proc/{pid}/environ && echo environ; \
                 cat /proc/{pid}/maps && echo maps; readlink /proc/{pid}/fd/0 && echo fds; \
                 echo 1 > /proc/{pid}/oom_score_adj && echo oom; true"
            );
            let ran = bench.room.run(&permit(), &sh(&attack, ""), quiet()).unwrap();
            assert_eq!((ran.ending, ran.stdout.text.as_str()), (Ending::Exited { code: 0 }, ""), "{pid}: {attack}");
        }
        // The same user without the walls is heard, so it is the walls that refuse.
        let mut control = Command::new("sh");
        control.args([
            "-c",
            &format!(
                "kill -0 {worker} && kill -0 {victim} && readlink /proc/{victim}/fd/0 && cat /proc/{victim}/environ"
            ),
        ]);
        if rustix::process::geteuid().is_root() {
            control.uid(NOBODY).gid(NOBODY);
        }
        let output = control.output().unwrap();
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(&other));
        let mut write = write;
        write.write_all(b"unharmed\n").unwrap();
        assert_eq!(others.join().unwrap(), "unharmed\n");
    });
}

fn children(pid: &str) -> Vec<String> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_whitespace().map(str::to_owned).collect()
}

/// Listens until this was said.
fn listen(terminal: &mut dyn Terminal, said: &mut String, word: &str) {
    let heard = eventually(|| {
        let bytes = terminal.read(Duration::from_millis(50)).unwrap().unwrap_or_default();
        said.push_str(&String::from_utf8_lossy(&bytes));
        said.contains(word)
    });
    assert!(heard, "{said}");
}

#[test]
fn a_terminal_is_typed_into_resized_and_ended() {
    let bench = Bench::new();
    let mark = bench.mark("terminal");
    let size = TerminalSize { rows: 24, columns: 80 };
    // Nobody reads this one, and it holds up nobody.
    let mut unread = bench.room.open_terminal(&permit(), &sh("yes", &mark), size).unwrap();
    let mut terminal = bench
        .room
        .open_terminal(&permit(), &sh("stty size; read line; stty size; echo got $line; exit 5", ""), size)
        .unwrap();
    let mut said = String::new();
    listen(&mut *terminal, &mut said, "24 80");
    terminal.resize(TerminalSize { rows: 40, columns: 100 }).unwrap();
    terminal.write(b"hello\n").unwrap();
    listen(&mut *terminal, &mut said, "got hello");
    assert!(eventually(|| terminal.read(Duration::from_millis(50)).unwrap().is_none()));
    assert_eq!(terminal.end().unwrap().ending, Ending::Exited { code: 5 });
    assert!(said.contains("40 100"), "{said}");
    assert!(!unread.read(Duration::from_secs(5)).unwrap().unwrap().is_empty());
    assert_eq!(unread.end().unwrap().ending, Ending::Cancelled);
    assert_eq!(processes_with(&mark), Vec::<PathBuf>::new());
    bench.check("echo usable", Ending::Exited { code: 0 }, "usable\n", "");
}

#[test]
fn whoever_speaks_nonsense_is_not_listened_to() {
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 9], &[2, 0, 0, 0, 0, 0, 0, 0, 0, b'{', b'}']] {
        let (mut worker, _dir) = start();
        let mut stdin = worker.stdin.take().unwrap();
        stdin.write_all(nonsense).unwrap();
        let mut said = Vec::new();
        worker.stdout.take().unwrap().read_to_end(&mut said).unwrap();
        assert_eq!((worker.wait().unwrap().code(), said), (Some(1), Vec::new()), "{nonsense:?}");
    }
}

#[test]
fn a_worker_that_hangs_is_not_alive() {
    let bench = Bench::new();
    bench.check("echo there", Ending::Exited { code: 0 }, "there\n", "");
    let pid = rustix::process::Pid::from_child(&bench.worker);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    assert!(eventually(|| !bench.room.is_alive()), "it answers though it is stopped");
    assert!(bench.room.run(&permit(), &sh("echo there", ""), quiet()).is_err());
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert!(eventually(|| bench.room.is_alive()), "it answers again");
    bench.check("echo there", Ending::Exited { code: 0 }, "there\n", "");
}
