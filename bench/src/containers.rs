//! Containers: a call in a warm one beside `docker exec`, and a cold one beside `docker run`.
//!
//! The program, the image and the daemon are the same, all cases take turns within one run, and each is what its user
//! would wait for: the call of a room, the command of Docker's own client from its start to its end. The daemon's `exec`
//! without the client, over its socket, is there too, because that is what a program would use in our place.

use std::{
    fmt,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contract::{Ending, Files, Job, JobLimits, Needs};
use toolgate_gate::Permit;
use toolgate_sandbox::{Backend as _, DockerBackend, DockerSettings, Io, Room, RoomSpec};

/// How much faster a warm call is meant to be than `docker exec`, at least.
const WARM_TARGET: f64 = 10.0;
/// How much slower a cold container may be than `docker run`, at most.
const COLD_TARGET: f64 = 1.2;

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// The daemon's socket
    #[arg(long, default_value = "/var/run/docker.sock")]
    socket: PathBuf,
    /// An image with the program `true`
    #[arg(long, default_value = "toolgate-base:latest")]
    image: String,
    /// The static worker: `cargo xtask worker` makes one
    #[arg(long)]
    worker: PathBuf,
    /// Rounds of what is cold
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Warm calls in a round
    #[arg(long, default_value_t = 10)]
    calls: usize,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rows: Vec<Row>,
    /// `docker exec` by a warm call.
    exec_by_warm: f64,
    /// The same without Docker's client.
    api_exec_by_warm: f64,
    /// A cold container by `docker run`.
    cold_by_run: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    case: &'static str,
    times: usize,
    p50_ms: f64,
    p95_ms: f64,
}

pub(crate) fn measure(options: &Options) -> anyhow::Result<Report> {
    let dir = tempfile::tempdir()?;
    let worker = options.worker.canonicalize().context("the worker")?;
    let mut settings = DockerSettings::new(&options.socket, &options.image, worker);
    // Docker's own commands ship nothing either.
    settings.log_shipping = None;
    let backend = DockerBackend::open(dir.path(), settings)?;
    let open = || backend.open(&RoomSpec::bare(), "bench");
    let peer = Peer::start(options)?;
    let warm_room = open()?;
    let (mut warm, mut exec, mut api, mut cold, mut run) = (vec![], vec![], vec![], vec![], vec![]);
    run_true(&*warm_room)?;
    for _ in 0..options.rounds {
        for _ in 0..options.calls {
            warm.push(timed(|| run_true(&*warm_room))?);
        }
        exec.push(timed(|| docker(options, &["exec", &peer.container, "true"]).map(drop))?);
        api.push(timed(|| peer.exec())?);
        cold.push(timed(|| {
            let room = open()?;
            run_true(&*room)?;
            room.close();
            Ok(())
        })?);
        run.push(timed(|| docker(options, &["run", "--rm", "--network=none", &options.image, "true"]).map(drop))?);
    }
    let rows = vec![
        Row::of("a warm container, one call", &mut warm),
        Row::of("docker exec", &mut exec),
        Row::of("exec over the daemon's socket", &mut api),
        Row::of("a cold container: made, one call, removed", &mut cold),
        Row::of("docker run --rm", &mut run),
    ];
    let ratio = |one: usize, other: usize| rows[one].p50_ms / rows[other].p50_ms;
    Ok(Report { exec_by_warm: ratio(1, 0), api_exec_by_warm: ratio(2, 0), cold_by_run: ratio(3, 4), rows })
}

fn run_true(room: &dyn Room) -> anyhow::Result<()> {
    let needs = Needs { files: Files::Write, exec: true, ..Needs::NOTHING };
    let job = Job {
        argv: vec!["true".into()],
        cwd: String::new(),
        env: Default::default(),
        stdin: Vec::new(),
        limits: JobLimits::default(),
    };
    let ran =
        room.run(&Permit::of_operator(needs), &job, Io { stop: &|| false, heard: None, stdin: None, stdout: None })?;
    ensure!(ran.ending == Ending::Exited { code: 0 }, "`true` ended with {:?}", ran.ending);
    Ok(())
}

/// Docker's own client.
fn docker(options: &Options, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("docker")
        .args(["--host", &format!("unix://{}", options.socket.display())])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .context("docker's client could not be started")?;
    ensure!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A container as people have them, to run programs in.
struct Peer<'a> {
    options: &'a Options,
    container: String,
}

impl<'a> Peer<'a> {
    fn start(options: &'a Options) -> anyhow::Result<Self> {
        let args = ["run", "--detach", "--rm", "--network=none", &options.image, "sleep", "3600"];
        Ok(Self { options, container: docker(options, &args)? })
    }

    /// Makes an exec, starts it, and reads it to its end.
    fn exec(&self) -> anyhow::Result<()> {
        let socket = &self.options.socket;
        let wanted = json!({ "AttachStdout": true, "AttachStderr": true, "Cmd": ["true"] });
        let made = ask(socket, &format!("/containers/{}/exec", self.container), &wanted)?;
        let made: Value = serde_json::from_str(&made)?;
        let id = made["Id"].as_str().context("an exec without an id")?;
        ask(socket, &format!("/exec/{id}/start"), &json!({ "Detach": false, "Tty": false }))?;
        Ok(())
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        let _ = docker(self.options, &["rm", "--force", &self.container]);
    }
}

fn ask(socket: &Path, path: &str, body: &Value) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    let body = body.to_string();
    let head = format!(
        "POST /v1.41{path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
    if !head.contains(" 200 ") && !head.contains(" 201 ") {
        bail!("{path}: {}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}

fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

impl Row {
    fn of(case: &'static str, times: &mut [Duration]) -> Self {
        times.sort();
        let at = |part: usize| times.get(times.len() * part / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3);
        Self { case, times: times.len(), p50_ms: at(50), p95_ms: at(95) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| `true` in | times | p50 ms | p95 ms |")?;
        writeln!(f, "|---|---|---|---|")?;
        for Row { case, times, p50_ms, p95_ms } in &self.rows {
            writeln!(f, "| {case} | {times} | {p50_ms:.2} | {p95_ms:.2} |")?;
        }
        writeln!(f, "docker exec by a warm call: {:.1} (wanted: at least {WARM_TARGET})", self.exec_by_warm)?;
        writeln!(f, "exec over the socket by a warm call: {:.1}", self.api_exec_by_warm)?;
        write!(f, "a cold container by docker run: {:.2} (wanted: at most {COLD_TARGET})", self.cold_by_run)
    }
}
