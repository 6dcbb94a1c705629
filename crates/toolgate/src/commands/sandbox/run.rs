//! `toolgate sandbox run`: a room for any command.

use std::{
    collections::BTreeMap,
    env,
    io::{IsTerminal, stdin, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::{Value, json};
use toolgate_contract::{Ending, Fault, Job, JobLimits, Needs, Network, Ran};
use toolgate_gate::Permit;
use toolgate_runtime::{
    config::{Config, ContainerSettings},
    docker_settings, hidden_from_rooms, protected_in,
    sandbox::{
        Backend, Changes, DenyAll, DockerBackend, Egress, How, Io, ProcessBackend, Refused, Room, RoomError,
        RoomLimits, RoomSpec, Source, Tier, TierChoice, Wall, What, WorkspaceMode, WorkspaceSpec,
    },
};

use super::{
    signals::Signals,
    streams::{self, Output},
    terminal,
};
use crate::{problem::Problem, setup, setup::Place, show};

/// Run a command in a room of its own
///
/// The command sees the system's programs, a private `/tmp` and home, and the current directory; nothing else of the
/// machine, none of its variables, no other process and no network but what `--net` names. In the directory it may write,
/// except for what others would execute later (`.git/hooks`, `.git/config`, configs of Toolgate and of MCP clients). Your
/// home directory is no workspace unless it is named.
///
/// Standard input, output and error are passed through. Where both input and output are a terminal, the command gets one
/// of its own.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Run {
    /// Let it talk to this host at this port; once for each. Names are looked up for it, and lead to public addresses only
    #[arg(long, value_name = "HOST:PORT")]
    net: Vec<String>,
    /// The directory it works in, instead of the current one: read-write, read-only, or with writes put beside it
    #[arg(long, value_name = "DIR[:ro|:rw|:overlay]")]
    workspace: Option<String>,
    /// A further directory it sees, read-only; once for each
    #[arg(long, value_name = "DIR")]
    visible: Vec<PathBuf>,
    /// A variable for its environment, which does not have yours; once for each
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Seconds until it is ended; for ever if it is left out
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    timeout: Option<u64>,
    /// Memory of all its processes together: a number of megabytes, or with `k`, `m` or `g`
    #[arg(long, value_name = "M", value_parser = size)]
    memory: Option<u64>,
    /// Processes and threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pids: Option<u32>,
    /// Seconds of processor time
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    cpu: Option<u64>,
    /// What it may write to the workspace: a number of megabytes, or with `k`, `m` or `g`
    #[arg(long, value_name = "M", value_parser = size)]
    disk: Option<u64>,
    /// The kind of room: the best there is, one made of namespaces, or one of Landlock and seccomp alone
    #[arg(long, value_parser = tier, value_name = "best|namespaces|landlock")]
    tier: Option<TierChoice>,
    /// A wall to do without where the machine does not have it; once for each
    #[arg(long, value_name = "WALL", value_parser = wall)]
    accept_gap: Vec<Wall>,
    /// What makes the room
    #[arg(long, value_name = "process|docker|deny_all", default_value = "process", value_parser = maker)]
    backend: Maker,
    /// With an overlay: keep what it wrote, if it ended with status 0
    #[arg(long)]
    commit: bool,
    /// End with one line of JSON on standard error: how it ended, what stood around it, what it used
    #[arg(long)]
    json: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGV")]
    argv: Vec<String>,
}

const AFTER_HELP: &str = "\
Examples:
  toolgate sandbox run -- npm test
  toolgate sandbox run --net pypi.org:443 --net files.pythonhosted.org:443 -- pip install -t lib requests
  toolgate sandbox run --workspace .:overlay -- sh -c 'rm -rf src'     see what it would do
  toolgate sandbox run --workspace .:overlay --commit -- npm run fmt   and keep it
  toolgate sandbox run --timeout 60 --memory 512m -- bash

Exit status: that of the command, and
  2        the command line or a config is wrong
  124      its time was up
  125      the room could not be made, was lost, or what was written in it could not be kept
  126 127  the command cannot be executed; there is no such command
  128+N    signal N ended it, or asked to end it: 130 for Ctrl-C
  137      it used more memory, or started more processes, than it may
  152 153  it used more processor time; it wrote more than it may

Limits that are not given are those of `sandboxing.subprocess` in your config, or of `sandboxing.docker` for a container,
whose programs are those of its image.";

const MOST_SECONDS: u64 = 31_536_000;
/// Time that is never up.
const FOR_EVER: Duration = Duration::from_secs(100 * MOST_SECONDS);
/// How many lines of a list are shown to people.
const MOST_LINES: usize = 100;

/// What makes rooms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Process,
    Docker,
    DenyAll,
}

impl Run {
    pub(super) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let plan = self.plan(place)?;
        let ended = plan.perform()?;
        ended.tell(&plan);
        Ok(ExitCode::from(ended.status))
    }

    /// Everything that can be wrong about the command line is found here.
    fn plan(self, place: &Place) -> Result<Plan, Problem> {
        let cwd = env::current_dir().and_then(|dir| dir.canonicalize());
        let cwd = cwd.map_err(|error| Problem::usage(format!("the current directory cannot be read: {error}")))?;
        let work = match &self.workspace {
            Some(given) => Work::Named(named(&cwd, given)?),
            None => unnamed(&cwd),
        };
        if self.commit && !matches!(&work, Work::Named((_, WorkspaceMode::Overlay))) {
            return Err(Problem::usage(
                "`--commit` keeps what was written beside the workspace, and nothing is: add `--workspace .:overlay`",
            ));
        }
        let dir = work.dir().map_or_else(|| cwd.clone(), |(dir, _)| dir.clone());
        let sources = place.sources("default", Some(&dir))?;
        setup::sweep(&sources.data_dir);
        let mut config = Config::load(&sources)?;
        setup::locate(&mut config.containers);
        let configs = [&sources.user, &sources.explicit, &sources.project].into_iter().flatten();
        let names: Vec<String> = config
            .protected
            .iter()
            .cloned()
            .chain(configs.clone().filter_map(|path| path.to_str().map(str::to_owned)))
            .collect();
        let hidden = [Some(&sources.data_dir), sources.user.as_ref(), sources.explicit.as_ref()];
        let settings = &config.rooms;
        let is_container = self.backend == Maker::Docker;
        let mut visible = if is_container { Vec::new() } else { settings.shown() };
        for dir in &self.visible {
            visible.push(directory(&cwd, dir)?);
        }
        let workspace = work.dir().map(|(path, mode)| WorkspaceSpec {
            path: path.clone(),
            mode: *mode,
            protected: protected_in(path, &names),
        });
        let spec = RoomSpec {
            workspace,
            visible,
            hidden: hidden_from_rooms(hidden.into_iter().flatten().cloned()),
            closed: Vec::new(),
            start: None,
            path_prefixes: if is_container { Vec::new() } else { settings.path_prefixes.clone() },
            egress: if self.net.is_empty() { Egress::Deny } else { Egress::to(self.net.clone()) },
            limits: self.limits(if is_container { of_containers(&config.containers) } else { settings.limits }),
            tier: self.tier.unwrap_or(settings.tier),
            accepted_gaps: settings.accepted_gaps.iter().copied().chain(self.accept_gap.iter().copied()).collect(),
        };
        let from = cwd.strip_prefix(&dir).ok().and_then(Path::to_str).unwrap_or_default().to_owned();
        let job = Job {
            argv: self.argv.clone(),
            cwd: if spec.workspace.is_some() { from } else { String::new() },
            env: BTreeMap::from_iter(self.env.clone()),
            stdin: Vec::new(),
            limits: JobLimits {
                wall: self.timeout.map_or(FOR_EVER, Duration::from_secs),
                most_output: u64::MAX,
                ..JobLimits::default()
            },
        };
        Ok(Plan { spec, job, work, data: sources.data_dir, containers: config.containers, run: self })
    }

    fn limits(&self, usual: RoomLimits) -> RoomLimits {
        RoomLimits {
            memory: self.memory.unwrap_or(usual.memory),
            pids: self.pids.unwrap_or(usual.pids),
            cpu: self.cpu.map_or(usual.cpu, Duration::from_secs),
            disk: self.disk.unwrap_or(usual.disk),
            ..usual
        }
    }
}

fn of_containers(settings: &ContainerSettings) -> RoomLimits {
    let ContainerSettings { memory_limit, pids_limit, tmpfs_size, .. } = *settings;
    RoomLimits { memory: memory_limit, pids: pids_limit, scratch: tmpfs_size, ..RoomLimits::default() }
}

/// Where a command works.
enum Work {
    /// The directory that was asked for.
    Named((PathBuf, WorkspaceMode)),
    /// The current one.
    Here((PathBuf, WorkspaceMode)),
    /// Nowhere: the current directory is no place for it, and why.
    Nowhere(String),
}

impl Work {
    fn dir(&self) -> Option<&(PathBuf, WorkspaceMode)> {
        match self {
            Self::Named(dir) | Self::Here(dir) => Some(dir),
            Self::Nowhere(_) => None,
        }
    }
}

/// The current directory, unless it holds more than a project: keys and configs lie in a home, and everything in `/`.
fn unnamed(cwd: &Path) -> Work {
    let home = env::home_dir().and_then(|home| home.canonicalize().ok());
    if home.is_some_and(|home| home.starts_with(cwd)) {
        return Work::Nowhere(format!("`{}` is or holds your home directory", cwd.display()));
    }
    Work::Here((cwd.to_owned(), WorkspaceMode::ReadWrite))
}

/// `DIR`, `DIR:ro`, `DIR:rw` or `DIR:overlay`. A directory may have a colon in its name.
fn named(cwd: &Path, given: &str) -> Result<(PathBuf, WorkspaceMode), Problem> {
    let (dir, mode) = match given.rsplit_once(':') {
        Some((dir, "ro")) => (dir, WorkspaceMode::ReadOnly),
        Some((dir, "rw")) => (dir, WorkspaceMode::ReadWrite),
        Some((dir, "overlay")) => (dir, WorkspaceMode::Overlay),
        Some((_, mode)) if !cwd.join(given).is_dir() => {
            return Err(Problem::usage(format!(
                "`{mode}` is no way to use a workspace; write `ro`, `rw` or `overlay`"
            )));
        }
        Some(_) | None => (given, WorkspaceMode::ReadWrite),
    };
    Ok((directory(cwd, Path::new(dir))?, mode))
}

fn directory(cwd: &Path, dir: &Path) -> Result<PathBuf, Problem> {
    let wrong = |why: String| Problem::usage(format!("`{}` {why}; name a directory that is there", dir.display()));
    let real = cwd.join(dir).canonicalize().map_err(|error| wrong(format!("cannot be used: {error}")))?;
    match real.parent() {
        Some(_) if real.is_dir() => Ok(real),
        Some(_) => Err(wrong("is not a directory".into())),
        None => Err(wrong("is the whole machine".into())),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("there is no `=` in it; write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Bytes: a number of megabytes, or one with a unit.
fn size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: Option<u64> = match &lower[digits.len()..] {
        "k" | "kb" | "kib" => Some(1 << 10),
        "" | "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        _ => None,
    };
    let bytes = unit.and_then(|unit| digits.parse::<u64>().ok()?.checked_mul(unit)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "it is no amount; write a number of megabytes such as 512, or 64k, 512m, 2g".to_owned())
}

fn tier(text: &str) -> Result<TierChoice, String> {
    match text {
        "best" => Ok(TierChoice::Best),
        "namespaces" => Ok(TierChoice::Only(Tier::Namespaces)),
        "landlock" => Ok(TierChoice::Only(Tier::Landlock)),
        _ => Err("there is no such kind; write best, namespaces or landlock".into()),
    }
}

fn wall(text: &str) -> Result<Wall, String> {
    Wall::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Wall::ALL.into_iter().map(Wall::as_str).collect();
        format!("there is no such wall; write one of {}", known.join(", "))
    })
}

fn maker(text: &str) -> Result<Maker, String> {
    match text {
        "process" | "subprocess" => Ok(Maker::Process),
        "docker" => Ok(Maker::Docker),
        "deny_all" => Ok(Maker::DenyAll),
        "kubernetes" | "k8s" | "remote" => Err("this backend is not in this build; write process or docker".into()),
        _ => Err("there is no such backend; write process, docker or deny_all".into()),
    }
}

/// What is to be done.
struct Plan {
    run: Run,
    spec: RoomSpec,
    job: Job,
    work: Work,
    data: PathBuf,
    containers: ContainerSettings,
}

/// How it went.
struct Ended {
    status: u8,
    went: Result<Ran, Fault>,
    kept: Option<Kept>,
    notes: Vec<String>,
}

/// What became of an overlay.
struct Kept {
    changes: Changes,
    /// Taken over, but for these; or not at all.
    committed: Option<Vec<Refused>>,
}

impl Plan {
    fn perform(&self) -> Result<Ended, Problem> {
        let signals = Signals::listen()?;
        let mut notes = Vec::new();
        if let Work::Nowhere(why) = &self.work {
            notes.push(format!("{why}, so the room does not see it; `--workspace` names a directory"));
        }
        let room = match self.open(&mut notes) {
            Ok(room) => room,
            Err(error) => return self.failed(error, notes),
        };
        let ran = match self.go(&*room, &signals) {
            Ok(ran) => ran,
            Err(error) => return self.failed(error, notes),
        };
        let status = self.status(&ran, &signals);
        // Everybody is out; what is below an overlay may be changed.
        room.close();
        let kept = room.changes().and_then(|changes| changes.map(|changes| self.keep(changes, status)).transpose());
        let (status, kept) = match kept {
            Ok(kept) => (kept.as_ref().map_or(status, |kept| kept.status(status)), kept),
            Err(error) => {
                notes.push(format!("what was written beside the workspace cannot be read and is gone: {error}"));
                (COULD_NOT, None)
            }
        };
        Ok(Ended { status, went: Ok(ran), kept, notes })
    }

    fn open(&self, notes: &mut Vec<String>) -> Result<Arc<dyn Room>, RoomError> {
        let backend: Box<dyn Backend> = match self.run.backend {
            Maker::Process => Box::new(ProcessBackend::open(&self.data)?),
            Maker::Docker => Box::new(DockerBackend::open(&self.data, docker_settings(&self.containers))?),
            Maker::DenyAll => Box::new(DenyAll),
        };
        let owner = format!("sandbox run {}", self.job.argv.first().map_or("", String::as_str));
        match (backend.open(&self.spec, &owner), &self.work) {
            (Err(RoomError::BadJob(fault)), Work::Here((dir, _))) if fault.code == "bad_workspace" => {
                // One of the system's own directories, and nobody asked for it.
                notes.push(format!(
                    "`{}` cannot be a workspace, so the room does not see it; `--workspace` names a directory",
                    dir.display()
                ));
                backend.open(&RoomSpec { workspace: None, ..self.spec.clone() }, &owner)
            }
            (opened, _) => opened,
        }
    }

    fn go(&self, room: &dyn Room, signals: &Signals) -> Result<Ran, RoomError> {
        let network = if self.run.net.is_empty() { Network::None } else { Network::Fenced };
        let permit = Permit::of_operator(Needs { network, exec: true, ..Needs::WRITE_FILES });
        let deadline = self.run.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        if stdin().is_terminal() && stdout().is_terminal() {
            let ran = terminal::run(room, &permit, &self.job, signals, deadline)?;
            let is_late = signals.ends().is_none() && deadline.is_some_and(|until| Instant::now() >= until);
            return Ok(match ran.ending {
                Ending::Cancelled if is_late => Ran { ending: Ending::TimedOut, ..ran },
                _ => ran,
            });
        }
        let output = Output::new(signals, deadline);
        let stdin =
            streams::input().map_err(|source| RoomError::Step { step: "pass on standard input".into(), source })?;
        let stop = || signals.ends().is_some() || output.reader_left();
        let mut heard = |source: Source, bytes: &[u8]| output.pass_on(source, bytes);
        let ran = room.run(
            &permit,
            &self.job,
            Io { stop: &stop, heard: Some(&mut heard), stdin: Some(stdin), stdout: None },
        )?;
        Ok(if output.reader_left() { Ran { ending: Ending::Signaled { signal: BROKEN_PIPE }, ..ran } } else { ran })
    }

    fn status(&self, ran: &Ran, signals: &Signals) -> u8 {
        match ran.ending {
            Ending::Exited { code } => u8::try_from(code).unwrap_or(u8::MAX),
            Ending::Signaled { signal } => 128 + u8::try_from(signal).unwrap_or(0).min(127),
            Ending::TimedOut => 124,
            // Without a signal it is the user's terminal that is gone.
            Ending::Cancelled => 128 + signals.ends().unwrap_or(HUNG_UP),
            Ending::OomKilled | Ending::PidsExhausted | Ending::OutputLimit => 137,
            Ending::CpuLimit => 152,
            Ending::DiskLimit => 153,
            Ending::RoomLost => COULD_NOT,
        }
    }

    fn failed(&self, error: RoomError, notes: Vec<String>) -> Result<Ended, Problem> {
        let (status, fault) = match error {
            RoomError::BadJob(fault) if fault.code == "not_executable" => (126, fault),
            // Something on the command line that only the room could judge.
            RoomError::BadJob(fault) => {
                return Err(Problem::usage(format!("{}\n  help: {}", fault.message, fault.remedy)));
            }
            RoomError::NoProgram { program } if self.is_there(&program) => (
                126,
                Fault::failed(
                    "not_executable",
                    format!("`{program}` is not executable"),
                    "Make it so with `chmod +x`.",
                ),
            ),
            RoomError::NoProgram { .. } => (127, error.into()),
            RoomError::TooWeak { .. } | RoomError::NotReady(_) | RoomError::Step { .. } | RoomError::Lost(_) => {
                (COULD_NOT, error.into())
            }
        };
        Ok(Ended { status, went: Err(fault), kept: None, notes })
    }

    /// Is there such a file in the workspace, though nobody may execute it?
    fn is_there(&self, program: &str) -> bool {
        let dir = self.work.dir().map(|(dir, _)| dir.join(&self.job.cwd));
        program.contains('/') && dir.is_some_and(|dir| dir.join(program).is_file())
    }

    fn keep(&self, changes: Changes, status: u8) -> std::io::Result<Kept> {
        let committed = match self.run.commit && status == 0 {
            true => Some(changes.commit(&self.protected())?),
            false => None,
        };
        Ok(Kept { changes, committed })
    }

    /// What a commit leaves as it is, relative to the workspace.
    fn protected(&self) -> Vec<String> {
        let Some(workspace) = &self.spec.workspace else { return Vec::new() };
        let inside = |path: &PathBuf| Some(path.strip_prefix(&workspace.path).ok()?.to_str()?.to_owned());
        workspace.protected.iter().cloned().chain(self.spec.hidden.iter().filter_map(inside)).collect()
    }
}

/// What the shell calls a failure of whoever was to run the command.
const COULD_NOT: u8 = 125;
const BROKEN_PIPE: i32 = 13;
const HUNG_UP: u8 = 1;

impl Kept {
    /// A commit that is not complete is a failure, whatever the command says.
    fn status(&self, status: u8) -> u8 {
        if self.committed.as_ref().is_some_and(|refused| !refused.is_empty()) { COULD_NOT } else { status }
    }

    fn json(&self) -> Value {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let changes: Vec<Value> = self
            .changes
            .list()
            .iter()
            .map(|change| json!({ "path": path(&change.path), "change": change.how.as_str() }))
            .collect();
        let refused = self.committed.iter().flatten();
        let refused: Vec<Value> =
            refused.map(|refused| json!({ "path": path(&refused.path), "why": refused.why })).collect();
        json!({ "list": changes, "committed": self.committed.is_some(), "not_committed": refused })
    }

    fn lines(&self, wanted: bool) -> Vec<String> {
        let list = self.changes.list();
        let mut lines: Vec<String> = list
            .iter()
            .take(MOST_LINES)
            .map(|change| {
                let mark = match change.how {
                    How::Added => '+',
                    How::Changed => '~',
                    How::Removed => '-',
                };
                let slash = if change.what == What::Directory { "/" } else { "" };
                format!("{mark} {}{slash}", one_line(&change.path))
            })
            .collect();
        if list.len() > MOST_LINES {
            lines.push(format!("and {} more", list.len() - MOST_LINES));
        }
        match &self.committed {
            _ if list.is_empty() => lines.push("nothing was changed in the workspace".into()),
            Some(refused) => {
                let left = refused.iter().take(MOST_LINES);
                lines.extend(
                    left.map(|refused| format!("left as it was: {}: {}", one_line(&refused.path), refused.why)),
                );
                lines.push(format!("committed: {} of {} changes", list.len() - refused.len(), list.len()));
            }
            None if wanted => lines.push("discarded: the command did not end with status 0".into()),
            None => lines.push("discarded; `--commit` keeps such changes".into()),
        }
        lines
    }
}

/// A path on a line of its own, whatever is in its name.
fn one_line(path: &Path) -> String {
    path.to_string_lossy().replace('\n', "\\n").replace('\t', "\\t")
}

impl Ended {
    /// Says on standard error what the command's own output does not.
    fn tell(&self, plan: &Plan) {
        if plan.run.json {
            let line = self.json();
            anstream::eprintln!("{line}");
            return;
        }
        let mut lines = self.notes.clone();
        match &self.went {
            Ok(ran) => {
                lines.extend(limit_told(ran.ending, plan));
                lines.extend(ran.refused.iter().take(MOST_LINES).map(|refused| format!("refused {refused}")));
                if ran.refused.len() > MOST_LINES {
                    lines.push(format!("refused {} more", ran.refused.len() - MOST_LINES));
                }
            }
            Err(fault) => anstream::eprintln!("{}", Problem::from(fault.clone())),
        }
        lines.extend(self.kept.iter().flat_map(|kept| kept.lines(plan.run.commit)));
        for line in lines {
            anstream::eprintln!("toolgate: {}", show::plain(&line));
        }
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "ending": null, "exit_code": self.status, "error": null, "receipt": null, "usage": null, "refused": [],
            "changes": self.kept.as_ref().map(Kept::json), "notes": self.notes,
        });
        match &self.went {
            Ok(ran) => {
                value["ending"] = ran.ending.as_str().into();
                value["receipt"] = json!(ran.receipt);
                value["usage"] = json!(ran.usage);
                value["refused"] = json!(ran.refused);
            }
            Err(fault) => {
                value["error"] = json!({ "code": fault.code, "message": fault.message, "remedy": fault.remedy });
            }
        }
        value
    }
}

/// Why a command did not end by itself, and what gives it more.
fn limit_told(ending: Ending, plan: &Plan) -> Option<String> {
    let limits = &plan.spec.limits;
    let megabytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    Some(match ending {
        Ending::Exited { .. } | Ending::Signaled { .. } | Ending::Cancelled => {
            return None;
        }
        Ending::TimedOut => format!("its time was up after {} s", plan.job.limits.wall.as_secs()),
        Ending::OomKilled => {
            format!("it used more than {} of memory; `--memory` gives it more", megabytes(limits.memory))
        }
        Ending::PidsExhausted => {
            format!("it started more than {} processes; `--pids` gives it more", limits.pids)
        }
        Ending::CpuLimit => {
            format!("it used {} s of processor time; `--cpu` gives it more", limits.cpu.as_secs())
        }
        Ending::DiskLimit => format!("it wrote more than {}; `--disk` gives it more", megabytes(limits.disk)),
        Ending::OutputLimit => "it said more than anyone reads".into(),
        Ending::RoomLost => "the room was lost; `toolgate doctor` says what this machine can do".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_a_number_of_megabytes_or_has_a_unit() {
        for (text, bytes) in
            [("1", 1 << 20), ("64k", 64 << 10), ("512m", 512 << 20), ("2G", 2 << 30), ("1MiB", 1 << 20)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "m", "1t", "-1", "1.5g", "1 m", "99999999999g", "0x10"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
