//! Rooms that are containers, on a real daemon.
//!
//! `TOOLGATE_TEST_DOCKER` names the daemon's socket. Without it the tests that need a daemon say that they are skipped.
//! `podman.rs` has the same tests once more, for Podman.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up is a failed test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags};
use toolgate_contract::{Ending, Fault, Files, Job, JobLimits, Needs, Ran, Receipt, TerminalSize};
use toolgate_gate::Permit;
use toolgate_sandbox::{
    Backend, DockerBackend, DockerSettings, Egress, Io, Lifecycle, LogShipping, Monotonic, Owner, Room, RoomLimits,
    RoomSpec, Rooms, Source, Terminal, WorkspaceMode, WorkspaceSpec,
};

#[path = "common/docker.rs"]
mod common;
#[path = "common/logged.rs"]
mod log;

use common::{Daemon, Engine};
use log::logged;

/// Whose containers this suite is about.
fn engine() -> Engine {
    if env!("CARGO_CRATE_NAME") == "podman" { Engine::Podman } else { Engine::Docker }
}

/// A daemon, an image on it, and a backend.
struct Bench {
    daemon: Daemon,
    dir: tempfile::TempDir,
    backend: DockerBackend,
}

impl Bench {
    /// None, said aloud, where there is no daemon to test with.
    fn new() -> Option<Self> {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut DockerSettings)) -> Option<Self> {
        let daemon = match Daemon::find(engine()) {
            Ok(daemon) => daemon,
            Err(why) => {
                eprintln!("SKIPPED: {why}");
                return None;
            }
        };
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut settings = daemon.settings();
        change(&mut settings);
        let backend = DockerBackend::open(&dir.path().join("data"), settings).unwrap();
        Some(Self { daemon, dir, backend })
    }

    fn bare(&self) -> Arc<dyn Room> {
        self.backend.open(&RoomSpec::bare(), "tester").unwrap()
    }

    /// A word that no other bench has.
    fn name(&self) -> String {
        self.dir.path().file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// A directory that anybody may write.
    fn workspace(&self) -> PathBuf {
        let path = self.dir.path().join("workspace");
        if !path.exists() {
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        path
    }
}

fn is_running(daemon: &Daemon, container: &str) -> bool {
    daemon.ask("GET", &format!("/containers/{container}/json"), b"").1.contains("\"Running\":true")
}

fn permit() -> Permit {
    Permit::of_operator(Needs { files: Files::Write, exec: true, ..Needs::NOTHING })
}

fn quiet() -> Io<'static> {
    Io { stop: &|| false, heard: None, stdin: None, stdout: None }
}

fn sh(script: &str) -> Job {
    Job {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: String::new(),
        env: BTreeMap::new(),
        stdin: Vec::new(),
        limits: JobLimits { wall: Duration::from_secs(60), ..JobLimits::default() },
    }
}

fn run(room: &dyn Room, script: &str) -> Ran {
    room.run(&permit(), &sh(script), quiet()).unwrap()
}

/// What a script says, in a room that runs it to a good end.
fn says(room: &dyn Room, script: &str) -> String {
    let ran = run(room, script);
    assert_eq!(ran.ending, Ending::Exited { code: 0 }, "{script}: {}{}", ran.stdout.text, ran.stderr.text);
    ran.stdout.text
}

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(120);
    while !holds() {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}

fn ids() -> u32 {
    let uid = rustix::process::geteuid();
    if uid.is_root() { 65_532 } else { uid.as_raw() }
}

#[test]
fn every_option_is_found_inside() {
    let Some(bench) = Bench::with(|settings| {
        settings.memory_limit = 100 << 20;
        settings.cpu_limit = 500_000_000;
        settings.pids_limit = 40;
        settings.tmpfs_size = 9 << 20;
    }) else {
        return;
    };
    let limits = RoomLimits { open_files: 99, disk: 32 << 20, ..RoomLimits::default() };
    let room = bench.backend.open(&RoomSpec { limits, ..RoomSpec::bare() }, &bench.name()).unwrap();
    let check = |script: &str, expected: &str| assert_eq!(says(&*room, script).trim_end(), expected, "{script}");
    let group = "cd /sys/fs/cgroup; first() { for f in $*; do [ -e $f ] && { cat $f; return; }; done; }; first";
    check(&format!("{group} memory.max memory/memory.limit_in_bytes"), "104857600");
    check(&format!("{group} pids.max pids/pids.max"), "40");
    let cpu = says(&*room, &format!("{group} cpu.max cpu/cpu.cfs_quota_us"));
    assert!(["50000 100000", "50000"].contains(&cpu.trim_end()), "{cpu}");
    check("ulimit -n; ulimit -c; ulimit -f", "99\n0\n65536");
    check("id -u; id -g; id -G", &format!("{0}\n{0}\n{0}", ids()));
    check(
        "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t '",
        "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\n\
         CapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2",
    );
    check("df -k /tmp /home | awk 'NR>1 {print $2, $6}'", "9216 /tmp\n9216 /home");
    check(
        "grep -E ' (/tmp|/home|/) ' /proc/mounts | awk '{print $2, $4}' | sort | grep -oE '^[^ ]+ (ro|rw)|nosuid|nodev|noexec'",
        "/ ro\n/home rw\nnosuid\nnodev\n/tmp rw\nnosuid\nnodev",
    );
    check("ls /sys/class/net; hostname; echo $HOME; pwd", "lo\nroom\n/home/agent\n/home/agent");
    check("cat /proc/1/comm", if engine() == Engine::Podman { "podman-init" } else { "docker-init" });
    check(
        "cat /proc/self/oom_score_adj /proc/1/oom_score_adj; ls /proc/sys /proc/irq /proc/bus",
        "1000\n0\n/proc/bus:\n\n/proc/irq:\n\n/proc/sys:",
    );
    check("touch /x /etc/x /bin/x 2>&1 | grep -c 'Read-only\\|denied'", "3");
    check("ls /proc/self/fd | wc -l", "4");
    check("env | cut -d= -f1 | sort | tr '\\n' ' ' | grep -c HOSTNAME || true", "0");
    let container = bench.daemon.containers(&format!("toolgate.owner={}", bench.name())).remove(0);
    let landlock = run(&*room, "true").receipt.walls[0].rsplit('_').next().unwrap().to_owned();
    let expected = Receipt {
        tier: "container".into(),
        walls: [
            format!("files:own_root+landlock_{landlock}"),
            "metadata:own_root".into(),
            "protected_names:read_only_mounts".into(),
            format!("processes:pid_namespace+landlock_{landlock}"),
            "network:net_namespace".into(),
            "ipc:ipc_namespace".into(),
            format!("privileges:uid_{}+no_capabilities+no_new_privs", ids()),
            "syscalls:seccomp".into(),
            "memory:cgroup".into(),
            "pids:cgroup".into(),
            "cpu:supervised".into(),
            "disk:supervised".into(),
        ]
        .to_vec(),
        gaps: Vec::new(),
        container: Some(container.clone()),
        sidecar: None,
    };
    assert_eq!(run(&*room, "true").receipt, expected);
    let options = bench.daemon.ask("GET", &format!("/containers/{container}/json"), b"").1;
    let of_both = ["\"NetworkMode\":\"none\"", "\"MemorySwap\":104857600", "\"Type\":\"none\"", "\"Image\":\"sha256:"];
    // Podman does not tell the others; the receipt above has the one, and what follows here the rest.
    let of_docker = ["\"IpcMode\":\"private\"", "\"kernel.shm_rmid_forced\":\"1\"", "\"kernel.shmall\":\"2304\""];
    let told = of_both.into_iter().chain(of_docker.into_iter().filter(|_| engine() == Engine::Docker));
    for option in told {
        assert!(options.contains(option), "{option}: {options}");
    }
    if rustix::process::geteuid().is_root() {
        let pid = options.split("\"Pid\":").nth(1).unwrap().split(',').next().unwrap();
        let knobs = ["shm_rmid_forced", "shmall", "msgmni", "sem"].map(|knob| format!("/proc/sys/kernel/{knob}"));
        let seen = Command::new("nsenter").args(["--target", pid, "--ipc", "cat"]).args(knobs).output().unwrap();
        let seen = String::from_utf8(seen.stdout).unwrap();
        assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), ["1", "2304", "64", "250", "4000", "32", "64"]);
    }
}

/// The daemon looks up by name what it mounts, with all rights, while a program of another room exchanges a directory for a
/// link.
#[test]
fn what_is_exchanged_while_it_is_mounted_leads_nowhere() {
    let Some(bench) = Bench::new() else { return };
    let (path, outside) = (bench.workspace(), bench.dir.path().join("outside"));
    for dir in [&outside, &path.join("dir")] {
        fs::create_dir(dir).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::write(outside.join("canary"), "sings").unwrap();
    fs::write(path.join("dir/x.env"), "text").unwrap();
    std::os::unix::fs::symlink(&outside, path.join("link")).unwrap();
    let spec = |mode| RoomSpec {
        workspace: Some(WorkspaceSpec { path: path.clone(), mode, protected: Vec::new() }),
        closed: vec![path.join("dir/x.env")],
        ..RoomSpec::bare()
    };
    let over = AtomicBool::new(false);
    let exchange = || {
        let (one, other) = (path.join("dir"), path.join("link"));
        while !over.load(Ordering::Relaxed) {
            let _ = rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            thread::sleep(Duration::from_millis(3));
        }
    };
    let attack = sh("cat dir/canary dir/x.env; echo x > dir/written");
    let said: Vec<String> = thread::scope(|scope| {
        scope.spawn(exchange);
        let mut said = Vec::new();
        for round in 0..16 {
            let mode = if round % 2 == 0 { WorkspaceMode::ReadWrite } else { WorkspaceMode::ReadOnly };
            let Ok(room) = bench.backend.open(&spec(mode), "tester") else { continue };
            // A room that is closed under its job, because of what happens to its workspace, is fine as well.
            said.extend(room.run(&permit(), &attack, quiet()).map(|ran| ran.stdout.text));
        }
        over.store(true, Ordering::Relaxed);
        said
    });
    eprintln!("{} of 16 rooms were opened meanwhile", said.len());
    assert!(said.iter().all(String::is_empty), "{said:?}");
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), "sings");
    assert!(!outside.join("written").exists());
    // Where it was to cover a file the daemon may have made one: empty, and all it was led to do.
    assert_eq!(fs::read(outside.join("x.env")).unwrap_or_default(), b"");
    // A workspace that is a link by now, also where it would only be read.
    fs::rename(&path, path.with_extension("moved")).unwrap();
    std::os::unix::fs::symlink(&outside, &path).unwrap();
    for mode in [WorkspaceMode::ReadOnly, WorkspaceMode::ReadWrite] {
        let spec = RoomSpec { closed: Vec::new(), ..spec(mode) };
        assert!(bench.backend.open(&spec, "tester").is_err(), "{mode:?}");
    }
}

#[test]
fn the_workspace_is_what_the_spec_says() {
    let Some(bench) = Bench::new() else { return };
    let path = bench.workspace();
    let seen = bench.dir.path().join("seen");
    for dir in [&seen, &path.join("deep"), &path.join("deep/kept"), &path.join("secret-dir"), &path.join("vault")] {
        fs::create_dir(dir).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    }
    for file in ["deep/kept/file", "secret-dir/file", "vault/id", "closed", "open"] {
        fs::write(path.join(file), "text").unwrap();
        fs::set_permissions(path.join(file), fs::Permissions::from_mode(0o666)).unwrap();
    }
    fs::write(seen.join("library"), "text").unwrap();
    let spec = RoomSpec {
        workspace: Some(WorkspaceSpec {
            path: path.clone(),
            mode: WorkspaceMode::ReadWrite,
            protected: vec!["deep/kept".into(), "not-there".into()],
        }),
        visible: vec![seen.clone()],
        hidden: vec![path.join("secret-dir"), path.join("vault/id")],
        closed: vec![path.join("closed")],
        ..RoomSpec::bare()
    };
    let room = bench.backend.open(&spec, "tester").unwrap();
    let check = |script: &str, expected: &str| assert_eq!(says(&*room, script).trim_end(), expected, "{script}");
    check("pwd; cat open; echo more >> open; mkdir new; cat open", &format!("{}\ntexttextmore", path.display()));
    assert_eq!(fs::read_to_string(path.join("open")).unwrap(), "textmore\n");
    for attack in [
        "echo x > deep/kept/file",
        "rm deep/kept/file",
        "mv deep/kept other",
        "mv deep other",
        "rmdir deep/kept",
        "mkdir not-there/x",
        "echo x > not-there",
        "rmdir not-there",
        "cat closed",
        "echo x > closed",
        "mv closed other",
        "rm closed",
        "chmod 666 closed",
        "ls secret-dir/file",
        "mv vault other",
        "mkdir secret-dir/x",
    ] {
        check(&format!("{attack} 2>/dev/null && echo done; true"), "");
    }
    check(&format!("cat {0}/library; touch {0}/x 2>/dev/null || echo refused", seen.display()), "textrefused");
    check("cat deep/kept/file", "text");
    check("cat /etc/shadow /root/.profile 2>/dev/null; ls -A /var/tmp | wc -l", "1");
    drop(room);
    assert!(!path.join("not-there").exists(), "a placeholder stays");
    let workspace = WorkspaceSpec { path: path.clone(), mode: WorkspaceMode::ReadOnly, protected: Vec::new() };
    let room = bench.backend.open(&RoomSpec { workspace: Some(workspace), ..RoomSpec::bare() }, "tester").unwrap();
    assert_eq!(says(&*room, "cat deep/kept/file; touch x 2>/dev/null || echo refused"), "textrefused\n");
}

#[test]
fn no_job_speaks_in_the_log_of_its_container() {
    let raw = |settings: &mut DockerSettings| {
        settings.log_shipping =
            Some(LogShipping { collection_timeout: Duration::from_secs(10), max_bytes: 1 << 20, raw: true });
    };
    let Some(bench) = Bench::with(raw) else { return };
    let room = bench.bare();
    let forge = "for out in /dev/console /dev/stderr /proc/[0-9]*/fd/[0-9]*; do echo forged > $out; done; sleep 1";
    let forged = run(&*room, forge);
    assert!(forged.stderr.bytes > 0, "{forged:?}");
    let log = logged(&forged.receipt.container.unwrap(), || room.close());
    assert_eq!(log.len(), 5, "{log:#?}");
    assert!(log[4].contains("lines=4 malformed=0") && !log.iter().any(|line| line.contains("forged")), "{log:#?}");
}

#[test]
fn a_container_that_keeps_its_log_open_is_removed_all_the_same() {
    let hasty = |settings: &mut DockerSettings| {
        settings.log_shipping =
            Some(LogShipping { collection_timeout: Duration::from_secs(1), max_bytes: 1 << 20, raw: false });
    };
    let Some(bench) = Bench::with(hasty) else { return };
    let room = bench.backend.open(&RoomSpec::bare(), &bench.name()).unwrap();
    let container = run(&*room, "true").receipt.container.unwrap();
    bench.daemon.ask("POST", &format!("/containers/{container}/pause"), b"");
    let log = logged(&container, || room.close());
    assert!(log.len() == 1 && log[0].contains("lines=3 malformed=0"), "{log:#?}");
    let left = || bench.daemon.containers(&format!("toolgate.owner={}", bench.name()));
    assert!(eventually(|| left().is_empty()), "{:?} stays", left());
}

#[test]
fn a_job_that_is_ended_leaves_its_container_usable() {
    let Some(bench) = Bench::new() else { return };
    let room = bench.bare();
    says(&*room, "echo here > /tmp/mark");
    let daemon = "setsid sh -c 'trap \"\" TERM; sleep 987' & trap '' TERM; echo ready; sleep 987";
    let job = sh(daemon);
    let short = JobLimits { wall: Duration::from_secs(5), grace: Duration::from_millis(50), ..job.limits };
    let ran = room.run(&permit(), &Job { limits: short, ..job.clone() }, quiet()).unwrap();
    assert_eq!((ran.ending, ran.stdout.text.as_str()), (Ending::TimedOut, "ready\n"));
    let stopped = AtomicBool::new(false);
    let mut heard = |_: Source, _: &[u8]| stopped.store(true, Ordering::SeqCst);
    let io = Io { stop: &|| stopped.load(Ordering::SeqCst), heard: Some(&mut heard), stdin: None, stdout: None };
    let limits = JobLimits { grace: Duration::from_millis(50), ..job.limits };
    assert_eq!(room.run(&permit(), &Job { limits, ..job }, io).unwrap().ending, Ending::Cancelled);
    assert_eq!(says(&*room, "cat /tmp/mark; ps | grep -c '[9]87' || true"), "here\n0\n");
    let ran = run(&*room, "dd if=/dev/zero of=/dev/null bs=300M count=1");
    assert_eq!(ran.ending, Ending::OomKilled);
    assert_eq!(run(&*room, "for i in $(seq 100); do sleep 30 & done; wait").ending, Ending::PidsExhausted);
    let job = Job { stdin: vec![b'x'; 1_000_000], ..sh("wc -c; exit 4") };
    let ran = room.run(&permit(), &job, quiet()).unwrap();
    assert_eq!((ran.ending, ran.stdout.text.trim()), (Ending::Exited { code: 4 }, "1000000"));
    assert_eq!(says(&*room, "cat /tmp/mark"), "here\n");
}

#[test]
fn a_terminal_is_typed_into_and_resized() {
    let Some(bench) = Bench::new() else { return };
    let room = bench.bare();
    let job = sh("stty size; read line; stty size; echo got $line; exit 5");
    let mut terminal = room.open_terminal(&permit(), &job, TerminalSize { rows: 24, columns: 80 }).unwrap();
    let mut said = String::new();
    for (word, resize) in [("24 80", true), ("got hello", false)] {
        let heard = eventually(|| {
            let bytes = terminal.read(Duration::from_millis(50)).unwrap().unwrap_or_default();
            said.push_str(&String::from_utf8_lossy(&bytes));
            said.contains(word)
        });
        assert!(heard, "{said}");
        if resize {
            terminal.resize(TerminalSize { rows: 40, columns: 100 }).unwrap();
            terminal.write(b"hello\n").unwrap();
        }
    }
    assert!(said.contains("40 100"), "{said}");
    assert!(eventually(|| terminal.read(Duration::from_millis(50)).unwrap().is_none()));
    assert_eq!(terminal.end().unwrap().ending, Ending::Exited { code: 5 });
    let terminal = room.open_terminal(&permit(), &sh("sleep 987"), TerminalSize { rows: 24, columns: 80 }).unwrap();
    drop(terminal);
    assert!(eventually(|| says(&*room, "ps | grep -c '[9]87' || true") == "0\n"));
}

/// Reads a terminal until it has said this.
#[track_caller]
fn hear(terminal: &mut dyn Terminal, word: &str) {
    let mut said = String::new();
    let heard = eventually(|| {
        let bytes = terminal.read(Duration::from_millis(50)).unwrap().unwrap_or_default();
        said.push_str(&String::from_utf8_lossy(&bytes));
        said.contains(word)
    });
    assert!(heard, "{said}");
}

#[test]
fn a_terminal_is_opened_by_name_by_its_own_job_and_by_no_other() {
    let Some(bench) = Bench::new() else { return };
    let room = bench.bare();
    let open =
        |script: &str| room.open_terminal(&permit(), &sh(script), TerminalSize { rows: 24, columns: 80 }).unwrap();
    // The neighbour's terminal is the first of the container.
    let mut first = open("(: < /dev/pts/0) && (: > /dev/pts/0) && echo opened its own; sleep 987");
    hear(&mut *first, "opened its own");
    let tries = "for number in 0 1 2; do (: < /dev/pts/$number) || echo refused; (: > /dev/pts/$number) || echo refused; \
                 done 2>/dev/null; ls /dev/pts";
    assert_eq!(says(&*room, tries), format!("{}0\nptmx\n", "refused\n".repeat(6)));
    let mut second = open(
        "if (: < /dev/pts/0) || (: > /dev/pts/0); then echo another; elif (: < /dev/pts/1); then echo only its own; fi; \
         sleep 987",
    );
    hear(&mut *second, "only its own");
}

/// Where memory is short the kernel is told whom to end first, and for that a process has to be open to its own user for a
/// moment. What stays is closed again.
#[test]
fn no_process_of_ours_is_open_to_its_jobs() {
    let Some(bench) = Bench::new() else { return };
    let room = bench.bare();
    let owners = "for dir in /proc/[0-9]*; do case $(cat $dir/comm 2>/dev/null) in toolgate-worke*) stat -c %u \
                  $dir/status;; esac; done 2>/dev/null | sort | uniq; stat -c %u /proc/$PPID/status";
    // One that is just being made may be in that moment.
    let mut said = String::new();
    assert!(
        eventually(|| {
            said = says(&*room, owners);
            said == "0\n0\n"
        }),
        "{said}"
    );
    // A program is the first to go, and open to whoever watches over it; its init is not.
    let turns =
        "cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj; [ $(stat -c %u /proc/self/status) = $(id -u) ]";
    assert_eq!(says(&*room, turns), "1000\n0\n");
}

#[test]
fn a_container_whose_hidden_files_were_replaced_is_replaced() {
    let Some(bench) = Bench::new() else { return };
    let path = bench.workspace();
    let put = |name: &str| {
        fs::write(path.join(name), "secret").unwrap();
        fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o644)).unwrap();
    };
    put("there");
    let workspace = WorkspaceSpec { path: path.clone(), mode: WorkspaceMode::ReadOnly, protected: Vec::new() };
    let hidden = vec![path.join("there"), path.join("later")];
    let spec = RoomSpec { workspace: Some(workspace), hidden, ..RoomSpec::bare() };
    let Bench { daemon: _daemon, dir: _dir, backend } = bench;
    let rooms = Rooms::new(Arc::new(backend), Lifecycle::default(), Arc::new(Monotonic::default()));
    let owner = Owner { agent: "tester".into(), task: None };
    let look = || {
        let room = rooms.lease(&owner, &spec).unwrap();
        says(&*room, "cat there later 2>/dev/null; cat /tmp/mark 2>/dev/null; echo kept > /tmp/mark")
    };
    assert_eq!((look(), look()), (String::new(), "kept\n".into()));
    put("beside");
    fs::rename(path.join("beside"), path.join("there")).unwrap();
    assert_eq!((look(), look()), (String::new(), "kept\n".into()));
    put("later");
    assert_eq!((look(), look()), (String::new(), "kept\n".into()));
    fs::remove_file(path.join("there")).unwrap();
    assert_eq!((look(), look()), (String::new(), "kept\n".into()));
    rooms.close_all();
}

#[test]
fn a_container_that_died_is_noticed_and_replaced() {
    let Some(bench) = Bench::new() else { return };
    let Bench { daemon, dir: _dir, backend } = bench;
    let rooms = Rooms::new(Arc::new(backend), Lifecycle::default(), Arc::new(Monotonic::default()));
    let owner = Owner { agent: format!("mortal-{}", std::process::id()), task: None };
    let label = format!("toolgate.owner={}", owner.agent);
    let first = rooms.lease(&owner, &RoomSpec::bare()).unwrap();
    assert_eq!(says(&*first, "echo alive"), "alive\n");
    let before = daemon.containers(&label);
    assert_eq!(before.len(), 1);
    thread::scope(|scope| {
        let lost = scope.spawn(|| run(&*first, "sleep 987").ending);
        assert!(eventually(|| says(&*first, "ps | grep -c '[9]87' || true") != "0\n"));
        // Podman may fail to say that it did: then it is gone, or no longer runs, the next time.
        let kill = || daemon.ask("POST", &format!("/containers/{}/kill", before[0]), b"").0;
        assert!(eventually(|| matches!(kill(), 204 | 404 | 409)));
        assert_eq!(lost.join().unwrap(), Ending::RoomLost);
    });
    assert!(eventually(|| !first.is_alive()));
    drop(first);
    let second = rooms.lease(&owner, &RoomSpec::bare()).unwrap();
    assert_eq!(says(&*second, "echo alive"), "alive\n");
    drop(second);
    rooms.close_all();
    assert!(eventually(|| daemon.containers(&label).is_empty()), "a container stays");
}

#[test]
fn a_container_that_is_lost_after_memory_ran_out_is_told_as_that() {
    let Some(bench) = Bench::new() else { return };
    let room = bench.backend.open(&RoomSpec::bare(), &bench.name()).unwrap();
    let container = bench.daemon.containers(&format!("toolgate.owner={}", bench.name())).remove(0);
    thread::scope(|scope| {
        let hungry = "dd if=/dev/zero of=/dev/null bs=300M count=1; echo ready > /tmp/ready; sleep 987";
        let lost = scope.spawn(|| run(&*room, hungry).ending);
        assert!(eventually(|| says(&*room, "cat /tmp/ready 2>/dev/null || true") == "ready\n"));
        assert_eq!(bench.daemon.ask("POST", &format!("/containers/{container}/kill"), b"").0, 204);
        // Podman tells nobody.
        let expected = if engine() == Engine::Podman { Ending::RoomLost } else { Ending::OomKilled };
        assert_eq!(lost.join().unwrap(), expected);
    });
    assert!(!room.is_alive());
}

/// Not a test: what [`orphans_of_this_deployment_are_removed_and_no_others`] kills.
#[test]
#[ignore = "holds a container until it is killed"]
fn hold_a_container() {
    let data = PathBuf::from(env::var_os("HOLD_DATA").unwrap());
    let mut settings = Daemon::find(engine()).unwrap().settings();
    // So that something is left to be found.
    settings.auto_remove = false;
    let backend = DockerBackend::open(&data, settings).unwrap();
    let room = backend.open(&RoomSpec::bare(), &env::var("HOLD_OWNER").unwrap()).unwrap();
    eprintln!("holding");
    run(&*room, "sleep 987");
}

/// A test of this file, as its suite calls it.
fn name_of(test: &str) -> String {
    module_path!().split_once("::").map_or_else(|| test.to_owned(), |(_, module)| format!("{module}::{test}"))
}

/// Starts a process that holds a container for a deployment, and kills it.
fn orphan(bench: &Bench, data: &Path, owner: &str) -> String {
    let mut holder = Command::new(env::current_exe().unwrap())
        .args(["--exact", &name_of("hold_a_container"), "--ignored", "--nocapture"])
        .env("HOLD_DATA", data)
        .env("HOLD_OWNER", owner)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(holder.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.into_iter().any(|line| line.contains("holding")));
    let held = bench.daemon.containers(&format!("toolgate.owner={owner}"));
    assert_eq!(held.len(), 1);
    assert!(is_running(&bench.daemon, &held[0]));
    holder.kill().unwrap();
    holder.wait().unwrap();
    held[0].clone()
}

#[test]
fn orphans_of_this_deployment_are_removed_and_no_others() {
    let Some(bench) = Bench::new() else { return };
    let (ours, theirs) = (bench.dir.path().join("data"), bench.dir.path().join("theirs"));
    let word = |who: &str| format!("{who}-{}", std::process::id());
    let mine = bench.backend.open(&RoomSpec::bare(), &word("living")).unwrap();
    let orphans = [orphan(&bench, &ours, &word("ours")), orphan(&bench, &theirs, &word("theirs"))];
    // Whoever dies takes along what runs in its containers, before anybody cleans up.
    for orphan in &orphans {
        assert!(eventually(|| !is_running(&bench.daemon, orphan)), "{orphan} still runs");
    }
    assert_eq!(bench.backend.reconcile().unwrap(), 1);
    let left = |who: &str| bench.daemon.containers(&format!("toolgate.owner={}", word(who))).len();
    // The daemon was told; it may still be at it.
    assert!(eventually(|| left("ours") == 0));
    assert_eq!((left("theirs"), left("living")), (1, 1));
    assert_eq!(says(&*mine, "echo alive"), "alive\n");
    // The other deployment cleans up when it comes back.
    drop(DockerBackend::open(&theirs, bench.daemon.settings()).unwrap());
    assert!(eventually(|| left("theirs") == 0));
    assert_eq!(left("living"), 1);
    drop(mine);
    assert!(eventually(|| left("living") == 0));
}

#[test]
fn every_wall_is_found_when_it_is_tried() {
    let Some(bench) = Bench::new() else { return };
    let missing: BTreeSet<_> = bench
        .backend
        .probe()
        .into_iter()
        .filter_map(|probed| Some(format!("{:?}: {:?}", probed.wall, probed.found.err()?)))
        .collect();
    assert_eq!(missing, BTreeSet::new());
}

/// What is said when a room is refused.
fn refused(backend: &DockerBackend, spec: &RoomSpec) -> (String, String) {
    let fault = Fault::from(backend.open(spec, "tester").err().unwrap());
    assert!(!fault.remedy.is_empty());
    (fault.code.to_string(), fault.message)
}

#[test]
fn what_is_missing_is_named_and_nothing_else_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("no.sock");
    let worker = dir.path().join("worker");
    // Sixty-four bits, lowest byte first, and nothing that would have to be loaded.
    fs::write(&worker, [&[0x7F, b'E', b'L', b'F', 2, 1][..], &[0; 58]].concat()).unwrap();
    let bare = RoomSpec::bare();
    let settings = DockerSettings::new(&nowhere, "absent:1", worker);
    let open = |settings: &DockerSettings| DockerBackend::open(&dir.path().join("data"), settings.clone()).unwrap();
    let check = |settings: &DockerSettings, spec: &RoomSpec, expected: &str, said: &str| {
        let (code, message) = refused(&open(settings), spec);
        assert_eq!(code, expected);
        assert!(message.contains(said), "{message}");
    };
    check(
        &settings,
        &bare,
        "docker_unavailable",
        &format!("the Docker daemon does not answer on `{}`", nowhere.display()),
    );
    let absent = DockerSettings { worker: dir.path().join("none"), ..settings.clone() };
    check(&absent, &bare, "worker_missing", "there is no worker at");
    let dynamic = DockerSettings { worker: env::current_exe().unwrap(), ..settings.clone() };
    check(&dynamic, &bare, "worker_not_static", "wants libraries");
    let anybodys = dir.path().join("anybodys");
    fs::copy(&settings.worker, &anybodys).unwrap();
    fs::set_permissions(&anybodys, fs::Permissions::from_mode(0o777)).unwrap();
    check(&DockerSettings { worker: anybodys, ..settings.clone() }, &bare, "worker_not_safe", "everybody may write it");
    for mode in [WorkspaceMode::ReadWrite, WorkspaceMode::ReadOnly] {
        let around = WorkspaceSpec { path: dir.path().to_owned(), mode, protected: Vec::new() };
        let spec = RoomSpec { workspace: Some(around), ..bare.clone() };
        check(&settings, &spec, "worker_not_safe", "it lies in the workspace");
    }
    let opening = RoomSpec { egress: Egress::to(vec!["example.com:443".into()]), ..bare.clone() };
    check(&settings, &opening, "docker_unavailable", "does not answer");
    let workspace = WorkspaceSpec { path: dir.path().to_owned(), mode: WorkspaceMode::Overlay, protected: Vec::new() };
    check(&settings, &RoomSpec { workspace: Some(workspace), ..bare.clone() }, "wall_missing", "cannot go beside it");
    let Some(bench) = Bench::with(|settings| settings.image = "absent:1".into()) else { return };
    let (code, message) = refused(&bench.backend, &bare);
    assert_eq!(code, "image_missing");
    assert!(message.contains("no image `absent:1`"), "{message}");
    let Some(bench) = Bench::with(|settings| settings.runtime = Some("no-such-runtime".into())) else { return };
    assert_eq!(refused(&bench.backend, &bare).0, "room_failed");
}
