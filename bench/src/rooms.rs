//! Rooms: what it costs to run a program behind walls, beside a bare `posix_spawn` of the same program.
//!
//! The program is `true`, its two streams are read to their end, and it is waited for: the standard library's
//! `Command::output`, which spawns without copying the parent's memory. All cases take turns within one process, so
//! that whatever the machine does besides hits all of them alike. Every round is measured twice: as this process is, and
//! while it holds a gigabyte of memory.
//!
//! Toolgate makes ahead what it can while nobody waits: the namespaces of the next room, the walls of the next job. So
//! each of these cases is there twice as well: after a moment of rest, as between the calls of an agent, and right after
//! another one, when nothing is made yet. The bare spawn is measured the same two ways, because it is faster without
//! rest, and each case is compared with the spawn that had the same.

use std::{
    collections::BTreeSet,
    fmt, fs,
    ops::Range,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::Serialize;
use toolgate_contract::{Ending, Files, Job, JobLimits, Needs};
use toolgate_gate::Permit;
use toolgate_sandbox::{Backend as _, Io, ProcessBackend, Room, RoomSpec, Tier, TierChoice, Wall};

const PROGRAM: &str = "/usr/bin/true";

/// Before each measurement nothing happens for this long: what is made ahead is made by then, and what is closed is gone.
const BREATH: Duration = Duration::from_millis(5);

/// The memory of a large runtime.
const LARGE: usize = 1 << 30;

/// The two sizes of the parent take turns this often, so that they are measured under the same conditions.
const TURNS: usize = 6;

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Rounds of every case
    #[arg(long, default_value_t = 300)]
    rounds: usize,
    /// Rounds of `srt` and `codex`, which take a hundred times as long
    #[arg(long, default_value_t = 30)]
    peer_rounds: usize,
    /// Run under SCHED_FIFO, through `chrt`: on a machine with other work the rest of the time is the scheduler's
    #[arg(long)]
    fifo: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// What was measured, and how.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    user: &'static str,
    scheduler: &'static str,
    rounds: usize,
    /// What held each kind of room's memory and processes.
    limits: Vec<String>,
    small_parent_mib: u64,
    large_parent_mib: u64,
    rows: Vec<Row>,
    /// `bwrap` by a cold room; the target is 1.5 at least.
    bwrap_by_cold: Option<f64>,
    /// What is not in the rows, and why.
    skipped: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    case: String,
    rounds: usize,
    p50_ms: f64,
    p95_ms: f64,
    /// Of the p50s, this case by the bare spawn in the same circumstances.
    ratio: f64,
    /// The ratio it is meant to have at most.
    target: Option<f64>,
    /// With the large parent.
    large_p50_ms: f64,
    /// Of the p50s, with the large parent by without. Meant to be 1.3 at most.
    growth: f64,
}

/// One thing that is measured, by itself: what belongs to it and is not to be timed is its own business.
struct Case<'a> {
    name: String,
    when: When,
    target: Option<f64>,
    /// It is measured in every so manieth round.
    every: usize,
    once: Box<dyn FnMut() -> anyhow::Result<Duration> + 'a>,
    whose: Whose,
    small: Vec<Duration>,
    large: Vec<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    /// When it fails the run fails.
    Ours,
    /// When it fails it is left out.
    Theirs,
    /// It was left out, and why.
    LeftOut(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Rested,
    RightAfter,
}

impl<'a> Case<'a> {
    fn new(name: impl Into<String>, once: impl FnMut() -> anyhow::Result<Duration> + 'a) -> Self {
        Self {
            name: name.into(),
            when: When::Rested,
            target: None,
            every: 1,
            once: Box::new(once),
            whose: Whose::Ours,
            small: Vec::new(),
            large: Vec::new(),
        }
    }

    fn right_after(name: &str, once: impl FnMut() -> anyhow::Result<Duration> + 'a) -> Self {
        Self { when: When::RightAfter, ..Self::new(format!("{name}, right after another"), once) }
    }

    fn is_left_out(&self) -> bool {
        matches!(self.whose, Whose::LeftOut(_))
    }

    fn at_most(self, target: f64) -> Self {
        Self { target: Some(target), ..self }
    }
}

pub(crate) fn measure(options: &Options) -> anyhow::Result<Report> {
    let scheduler = scheduler(options)?;
    let (data, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let backend = ProcessBackend::open(data.path())?;
    let bench = Bench { backend: &backend, permit: Permit::of_operator(NEEDS), job: job() };
    let warm = bench.backend.open(&spec(Tier::Namespaces), "bench")?;
    let landlock = bench.backend.open(&spec(Tier::Landlock), "bench")?;
    let limits = vec![bench.limits(&*warm)?, bench.limits(&*landlock)?];

    let mut cases = vec![
        Case::new(SPAWN, spawn),
        Case::right_after(SPAWN, || spawn().and_then(|_| spawn())),
        Case::new(COLD, || bench.open(Tier::Namespaces)).at_most(3.2),
        Case::right_after(COLD, || bench.open_second(Tier::Namespaces)),
        Case::new("warm room", || bench.run(&*warm)).at_most(1.8),
        Case::right_after("warm room", || bench.run(&*warm).and_then(|_| bench.run(&*warm))),
        Case::new("Landlock room, cold", || bench.open(Tier::Landlock)),
        Case::right_after("Landlock room, cold", || bench.open_second(Tier::Landlock)),
        Case::new("Landlock room, warm", || bench.run(&*landlock)).at_most(1.2),
        Case::right_after("Landlock room, warm", || bench.run(&*landlock).and_then(|_| bench.run(&*landlock))),
    ];
    let mut skipped = Vec::new();
    let rarely = options.rounds.div_ceil(options.peer_rounds.max(1)).max(1);
    for peer in peers(elsewhere.path(), rarely) {
        match peer {
            Ok(peer) => cases.push(peer),
            Err(why) => skipped.push(why),
        }
    }

    let (mut small_parent_mib, mut large_parent_mib) = (0, 0);
    let each = options.rounds.div_ceil(TURNS).max(1);
    // The first rounds are for the caches.
    turn(&mut cases, 0..each.min(10), Parent::Small)?;
    cases.iter_mut().for_each(|case| case.small.clear());
    for at in 0..TURNS {
        small_parent_mib = resident_mib()?;
        turn(&mut cases, at * each..(at + 1) * each, Parent::Small)?;
        let memory = vec![1_u8; LARGE];
        large_parent_mib = resident_mib()?;
        turn(&mut cases, at * each..(at + 1) * each, Parent::Large)?;
        // Held to here, and looked at, so that it is there.
        ensure!(std::hint::black_box(&memory)[LARGE - 1] == 1);
    }

    skipped.extend(cases.iter().filter_map(|case| match &case.whose {
        Whose::LeftOut(why) => Some(format!("{}: {why}", case.name)),
        Whose::Ours | Whose::Theirs => None,
    }));
    let rows = rows(&cases);
    let p50 = |name: &str| rows.iter().find(|row| row.case.starts_with(name)).map(|row| row.p50_ms);
    Ok(Report {
        user: if is_root()? { "root" } else { "an ordinary user" },
        scheduler,
        rounds: each * TURNS,
        limits,
        small_parent_mib,
        large_parent_mib,
        bwrap_by_cold: p50("bwrap").zip(p50(COLD)).map(|(bwrap, cold)| bwrap / cold),
        rows,
        skipped,
    })
}

const SPAWN: &str = "posix_spawn";
const COLD: &str = "cold room";

fn spawn() -> anyhow::Result<Duration> {
    run(&mut Command::new(PROGRAM))
}

/// How large this process is.
#[derive(Debug, Clone, Copy)]
enum Parent {
    Small,
    Large,
}

/// Measures every case once a round.
fn turn(cases: &mut [Case<'_>], rounds: Range<usize>, parent: Parent) -> anyhow::Result<()> {
    for round in rounds {
        for case in cases.iter_mut().filter(|case| round % case.every == 0 && !case.is_left_out()) {
            thread::sleep(BREATH);
            match ((case.once)(), parent, &case.whose) {
                (Ok(took), Parent::Small, _) => case.small.push(took),
                (Ok(took), Parent::Large, _) => case.large.push(took),
                (Err(error), _, Whose::Ours) => return Err(error.context(format!("{} failed", case.name))),
                (Err(error), ..) => case.whose = Whose::LeftOut(format!("{error:#}")),
            }
        }
    }
    Ok(())
}

fn rows(cases: &[Case<'_>]) -> Vec<Row> {
    let spawn = |when: When| {
        let case = cases.iter().find(|case| case.when == when && case.name.starts_with(SPAWN));
        case.map_or(f64::NAN, |case| quantile(&case.small, 0.5))
    };
    let row = |case: &Case<'_>| {
        let (p50_ms, large_p50_ms) = (quantile(&case.small, 0.5), quantile(&case.large, 0.5));
        Row {
            case: case.name.clone(),
            rounds: case.small.len(),
            p50_ms,
            p95_ms: quantile(&case.small, 0.95),
            ratio: p50_ms / spawn(case.when),
            target: case.target,
            large_p50_ms,
            growth: large_p50_ms / p50_ms,
        }
    };
    cases.iter().filter(|case| !case.is_left_out()).map(row).collect()
}

/// In milliseconds.
fn quantile(times: &[Duration], at: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let index = (times.len() as f64 * at) as usize;
    times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

const NEEDS: Needs = Needs { files: Files::Write, exec: true, ..Needs::NOTHING };

fn job() -> Job {
    Job {
        argv: vec![PROGRAM.to_owned()],
        cwd: String::new(),
        env: Default::default(),
        stdin: Vec::new(),
        limits: JobLimits::default(),
    }
}

/// An ordinary user's Landlock room cannot keep its programs from changing the modes of that user's files.
fn spec(tier: Tier) -> RoomSpec {
    let accepted_gaps = match tier {
        Tier::Landlock => BTreeSet::from([Wall::Metadata]),
        Tier::Namespaces => BTreeSet::new(),
    };
    RoomSpec { tier: TierChoice::Only(tier), accepted_gaps, ..RoomSpec::bare() }
}

struct Bench<'a> {
    backend: &'a ProcessBackend,
    permit: Permit,
    job: Job,
}

impl Bench<'_> {
    fn ran(&self, room: &dyn Room) -> anyhow::Result<toolgate_contract::Ran> {
        let ran = room.run(&self.permit, &self.job, Io { stop: &|| false, heard: None, stdin: None, stdout: None })?;
        ensure!(ran.ending == Ending::Exited { code: 0 }, "the job ended as {:?}", ran.ending);
        Ok(ran)
    }

    fn run(&self, room: &dyn Room) -> anyhow::Result<Duration> {
        let start = Instant::now();
        self.ran(room)?;
        Ok(start.elapsed())
    }

    /// A room for one job. Closing it is not timed.
    fn open(&self, tier: Tier) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let room = self.backend.open(&spec(tier), "bench")?;
        self.ran(&*room)?;
        let took = start.elapsed();
        close(room);
        Ok(took)
    }

    /// The second of two: what waited went to the first.
    fn open_second(&self, tier: Tier) -> anyhow::Result<Duration> {
        let first = self.backend.open(&spec(tier), "bench")?;
        let took = self.open(tier);
        close(first);
        took
    }

    fn limits(&self, room: &dyn Room) -> anyhow::Result<String> {
        let receipt = self.ran(room)?.receipt;
        let is_limit = |wall: &&String| wall.starts_with("memory:") || wall.starts_with("pids:");
        let walls: Vec<&str> = receipt.walls.iter().filter(is_limit).map(String::as_str).collect();
        Ok(format!("{}: {}", receipt.tier, walls.join(", ")))
    }
}

fn close(room: Arc<dyn Room>) {
    room.close();
    drop(room);
}

/// Runs a program to its end with both streams read.
fn run(command: &mut Command) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let done = command.output()?;
    let took = start.elapsed();
    ensure!(done.status.success(), "{}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    Ok(took)
}

/// Others who do the same, each tried once; or why it is not there.
fn peers(dir: &Path, rarely: usize) -> Vec<Result<Case<'_>, String>> {
    let fetched = |name: &str| fetched(name).ok_or_else(|| format!("{name}: not fetched; run `bench/peers.sh`"));
    vec![
        peer("bwrap", Path::new("bwrap"), BWRAP, dir, 1),
        fetched("codex").and_then(|program| peer("codex", &program, &["sandbox", "--", "true"], dir, rarely)),
        fetched("srt").and_then(|program| peer("srt", &program, &["true"], dir, rarely)),
    ]
}

const BWRAP: &[&str] = &[
    "--unshare-all",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--new-session",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
    "true",
];

/// Peers work in an empty directory: some look through the one they are started in, and some leave things behind.
fn peer<'a>(name: &str, program: &Path, args: &[&str], dir: &'a Path, every: usize) -> Result<Case<'a>, String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("TMPDIR", dir);
    run(&mut command).map_err(|error| format!("{name}: {error:#}"))?;
    let version = Command::new(program).arg("--version").output().map_err(|error| format!("{name}: {error}"))?.stdout;
    let version = String::from_utf8_lossy(&version);
    let version = version.split_whitespace().last().unwrap_or("of unknown version");
    Ok(Case { every, whose: Whose::Theirs, ..Case::new(format!("{name} {version}"), move || run(&mut command)) })
}

fn fetched(name: &str) -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    let program = here.ancestors().nth(2)?.join("peers").join(name);
    program.exists().then_some(program)
}

/// The scheduler this process runs under, changed first if that is asked for.
fn scheduler(options: &Options) -> anyhow::Result<&'static str> {
    // The policy is the 41st field; the name before it may hold blanks, and ends with the last parenthesis.
    let stat = fs::read_to_string("/proc/self/stat")?;
    let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(38));
    match policy.context("`/proc/self/stat` does not tell the scheduler")? {
        "1" => Ok("SCHED_FIFO"),
        _ if options.fifo => {
            let error = Command::new("chrt")
                .args(["-f", "50"])
                .arg(std::env::current_exe()?)
                .args(std::env::args_os().skip(1))
                .exec();
            bail!("`chrt` cannot be started: {error}")
        }
        _ => Ok("the ordinary one"),
    }
}

fn resident_mib() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("`/proc/self/status` does not tell the resident size")? / 1024)
}

fn is_root() -> anyhow::Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).context("`/proc/self/status` tells no uid")?;
    Ok(uids.split_whitespace().nth(1) == Some("0"))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, scheduler, rounds, small_parent_mib, large_parent_mib, .. } = self;
        writeln!(f, "As {user}, {rounds} rounds, scheduler: {scheduler}. Held by: {}.", self.limits.join("; "))?;
        writeln!(f, "The parent holds {small_parent_mib} MiB, for the growth {large_parent_mib} MiB.\n")?;
        writeln!(
            f,
            "| `true` in | p50 ms | p95 ms | ratio to spawn | wanted | p50 ms, large parent | growth (wanted: <= 1.3) |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            let Row { case, p50_ms, p95_ms, ratio, target, large_p50_ms, growth, .. } = row;
            let target = target.map_or(String::new(), |target| format!("<= {target:.1}"));
            writeln!(
                f,
                "| {case} | {p50_ms:.2} | {p95_ms:.2} | {ratio:.2} | {target} | {large_p50_ms:.2} | {growth:.2} |"
            )?;
        }
        if let Some(faster) = self.bwrap_by_cold {
            writeln!(f, "\nbwrap takes {faster:.2} times as long as a cold room (wanted: >= 1.5).")?;
        }
        for skipped in &self.skipped {
            writeln!(f, "\nSKIPPED {skipped}")?;
        }
        Ok(())
    }
}
