//! `toolgate doctor`: what this machine can enforce.

use std::{
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contract::{AgentName, Category, Fault, Files, Job, JobLimits, Needs, Outcome, Receipt, Status};
use toolgate_gate::Permit;
use toolgate_runtime::{
    Runtime, Setup, Watch, built_in_tools,
    config::{self, Config, ContainerSettings, RoomSettings},
    docker_settings,
    sandbox::{Backend, DockerBackend, Io, Probed, ProcessBackend, RoomError, RoomSpec, Tier, TierChoice, Wall},
    store::{SqliteStore, Store as _},
};

use crate::{problem::Problem, setup, setup::Place, show};

/// Say what this machine can enforce, by trying it, and how to get the rest
///
/// Walls are put up, in a room made for it. Then calls are made that must fail, through the road that every call takes, in
/// a workspace of their own: to read, write, connect and signal out of it.
///
/// What is `missing` is a fact about the machine: whatever needs it is refused, and the line below says how to get it. What
/// is `broken` is not as it must be: a config with a mistake, a config that asks for what cannot be had here, a record that
/// cannot be written, a call that went through. The exit status is 0 if nothing is broken.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolgate doctor --json")]
pub(crate) struct Doctor {
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    ok: bool,
    state: State,
    seen: String,
    remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// Not there; what needs it is refused.
    Missing,
    /// Not as it must be.
    Broken,
}

impl Finding {
    fn ok(what: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { what: what.into(), ok: true, state: State::Ok, seen: seen.into(), remedy: None }
    }

    fn missing(what: impl Into<String>, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { ok: false, state: State::Missing, remedy: Some(remedy.into()), ..Self::ok(what, seen) }
    }

    fn broken(what: impl Into<String>, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { ok: false, state: State::Broken, remedy: Some(remedy.into()), ..Self::ok(what, seen) }
    }
}

impl Doctor {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let (mut findings, wanted) = config(place);
        findings.push(record(place));
        findings.extend(in_a_place_of_its_own(&wanted)?);
        let healthy = findings.iter().all(|finding| finding.state != State::Broken);
        if show::wants_json(self.json) {
            show::json(&json!({ "healthy": healthy, "findings": findings }))?;
        } else {
            for finding in &findings {
                let mark = match finding.state {
                    State::Ok => "ok      ",
                    State::Missing => "missing ",
                    State::Broken => "broken  ",
                };
                show::line(&format!("{mark} {:<24} {}", finding.what, finding.seen))?;
                if let Some(remedy) = &finding.remedy {
                    show::line(&format!("         {:<24} {remedy}", ""))?;
                }
            }
        }
        Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What a config wants rooms to be.
#[derive(Debug, Default)]
struct Wanted {
    rooms: RoomSettings,
    /// None where no tool runs in containers.
    containers: Option<ContainerSettings>,
}

/// What the config says, and what it wants rooms to be.
fn config(place: &Place) -> (Vec<Finding>, Wanted) {
    let loaded = place.sources("default", None).and_then(|sources| Ok(Config::load(&sources)?));
    let config = match loaded {
        Ok(config) => config,
        Err(problem) => {
            let (seen, _) = told(problem);
            let remedy = "Correct the line; `toolgate check FILE` shows all of them.";
            return (vec![Finding::broken("config", seen, remedy)], Wanted::default());
        }
    };
    let files: Vec<String> = config.files.iter().map(|file| file.path.display().to_string()).collect();
    let seen = if files.is_empty() { "built-in defaults".to_owned() } else { files.join(", ") };
    let mut findings = vec![Finding::ok("config", seen)];
    for category in Category::ALL {
        if let config::Place::Unavailable { backend, source } = config.backend_for(category) {
            let seen = format!("{source}: this build has no backend `{backend}`, so tools of `{category}` are refused");
            let remedy = "Write `subprocess` or `docker`, or `deny_all` if that is meant.";
            findings.push(Finding::broken("backend", seen, remedy));
        }
    }
    let is_used = config.in_containers().next().is_some();
    let containers = is_used.then(|| {
        let mut containers = config.containers.clone();
        setup::locate(&mut containers);
        containers
    });
    (findings, Wanted { rooms: config.rooms, containers })
}

fn record(place: &Place) -> Finding {
    let tried = place.data_dir().and_then(|dir| {
        SqliteStore::open(&dir)?;
        Ok(format!("writable in {}", dir.display()))
    });
    match tried {
        Ok(seen) => Finding::ok("record", seen),
        Err(problem) => {
            let (seen, remedy) = told(problem);
            Finding::broken("record", seen, remedy)
        }
    }
}

/// A problem without the colours it has on a terminal, and what helps.
fn told(problem: Problem) -> (String, String) {
    match problem {
        Problem::Usage(message) => (message, "Change what it names.".into()),
        Problem::Config(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            (errors.join("\n"), "Correct the lines.".into())
        }
        Problem::Fault(fault) => (fault.message, fault.remedy),
    }
}

/// Everything that needs files to try it on.
fn in_a_place_of_its_own(wanted: &Wanted) -> Result<Vec<Finding>, Problem> {
    let base = std::env::temp_dir().join(format!("toolgate-doctor-{}", std::process::id()));
    let found = Scene::make(&base).and_then(|scene| {
        let mut findings = walls(&scene.rooms);
        findings.extend(wanted.containers.iter().flat_map(|settings| containers(settings, &scene.rooms)));
        findings.extend(scene.probe(&wanted.rooms)?);
        Ok(findings)
    });
    // The directory is this process's own; a leftover in the temporary directory is not worth failing for.
    let _ = std::fs::remove_dir_all(&base);
    found
}

/// Every wall and every kind of room, by making rooms.
fn walls(dir: &Path) -> Vec<Finding> {
    let backend = match ProcessBackend::open(dir) {
        Ok(backend) => backend,
        Err(error) => {
            let fault = Fault::from(error);
            return vec![Finding::missing("rooms", fault.message, fault.remedy)];
        }
    };
    let mut findings: Vec<Finding> = backend.probe().into_iter().map(wall).collect();
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let what = format!("tier {}", tier.as_str());
        match receipt(&backend, tier) {
            Ok(receipt) => {
                let seen = match receipt.gaps.as_slice() {
                    [] => "every wall stands".to_owned(),
                    gaps => format!("every wall but {} stands", gaps.join(", ")),
                };
                findings.push(Finding::ok(what, seen));
                if findings.iter().all(|finding| finding.what != "control groups") {
                    findings.push(control_groups(&receipt));
                }
            }
            Err(error) => {
                let fault = Fault::from(error);
                findings.push(Finding::missing(what, fault.message, fault.remedy));
            }
        }
    }
    findings
}

/// What containers need, and their walls, by making one. The config asks for them, so what is missing is broken.
fn containers(settings: &ContainerSettings, dir: &Path) -> Vec<Finding> {
    const WHAT: &str = "containers";
    let backend = match DockerBackend::open(dir, docker_settings(settings)) {
        Ok(backend) => backend,
        Err(error) => {
            let fault = Fault::from(error);
            return vec![Finding::broken(WHAT, fault.message, fault.remedy)];
        }
    };
    let found = backend.readiness();
    // Without a daemon nobody can say which images there are.
    let image = found.daemon.is_ok().then_some(("docker image", found.image));
    let needed = [("docker daemon", found.daemon), ("docker worker", found.worker)].into_iter().chain(image);
    let mut findings: Vec<Finding> = needed
        .map(|(what, found)| match found {
            Ok(seen) => Finding::ok(what, seen),
            Err(fault) => Finding::broken(what, fault.message, fault.remedy),
        })
        .collect();
    if findings.iter().any(|finding| !finding.ok) {
        return findings;
    }
    let probed = backend.probe();
    // Where no container can be made, every wall is missing for the same reason.
    if let Some(Err(missing)) = probed.first().map(|first| &first.found)
        && probed.iter().all(|other| other.found.as_ref() == Err(missing))
    {
        findings.push(Finding::broken(WHAT, missing.why.clone(), missing.remedy.clone()));
        return findings;
    }
    findings.extend(probed.into_iter().map(|probed| {
        let what = format!("container {}", probed.wall.as_str());
        match probed.found {
            Ok(by) => Finding::ok(what, format!("by {by}")),
            Err(missing) => Finding::broken(what, missing.why, missing.remedy),
        }
    }));
    findings
}

fn wall(probed: Probed) -> Finding {
    let what = format!("wall {}", probed.wall.as_str());
    match probed.found {
        Ok(by) => Finding::ok(what, format!("by {by}")),
        Err(missing) => Finding::missing(what, missing.why, missing.remedy),
    }
}

/// What stands around a program in a room of this kind, whatever is missing.
fn receipt(backend: &ProcessBackend, tier: Tier) -> Result<Receipt, RoomError> {
    let accepted_gaps = Wall::ALL.into_iter().collect();
    let room = backend.open(&RoomSpec { tier: TierChoice::Only(tier), accepted_gaps, ..RoomSpec::bare() }, "doctor")?;
    let job = Job {
        argv: vec!["true".into()],
        cwd: String::new(),
        env: Default::default(),
        stdin: Vec::new(),
        limits: JobLimits::default(),
    };
    let permit = Permit::of_operator(Needs { files: Files::Write, exec: true, ..Needs::NOTHING });
    Ok(room.run(&permit, &job, Io { stop: &|| false, heard: None, stdin: None, stdout: None })?.receipt)
}

/// Who keeps a program to its memory and its processes.
fn control_groups(receipt: &Receipt) -> Finding {
    let by = |wall: Wall| {
        let prefix = format!("{}:", wall.as_str());
        receipt.walls.iter().find_map(|stood| stood.strip_prefix(&prefix)).unwrap_or("nobody").to_owned()
    };
    let (memory, pids) = (by(Wall::Memory), by(Wall::Pids));
    let seen = format!("memory by {memory}, processes by {pids}");
    if memory.starts_with("cgroup") && pids.starts_with("cgroup") {
        return Finding::ok("control groups", seen);
    }
    Finding::missing(
        "control groups",
        format!("{seen}: Toolgate itself looks at them every 50 ms, and ends what is over"),
        "Start Toolgate as root, or as a systemd service with `Delegate=yes`.",
    )
}

/// A workspace, and around it what must stay out of reach.
struct Scene {
    base: PathBuf,
    workspace: PathBuf,
    /// The data directory of the runtime that is tried.
    data: PathBuf,
    /// That of the rooms that are tried without one.
    rooms: PathBuf,
    /// Whoever connects to it has left the room.
    listener: TcpListener,
}

/// What a program tries, the word it says when it could, and how that is called.
const ATTEMPTS: [(&str, &str); 5] = [
    ("READ", "programs read outside"),
    ("KEYS", "programs read the record"),
    ("WRITE", "programs write outside"),
    ("CONNECT", "programs connect out"),
    ("SIGNAL", "programs signal others"),
];

impl Scene {
    fn make(base: &Path) -> Result<Self, Problem> {
        let (workspace, data, rooms) = (base.join("workspace"), base.join("data"), base.join("rooms"));
        std::fs::create_dir_all(workspace.join(".git"))?;
        // The room's path is the real one, so everything is told by it.
        let base = base.canonicalize()?;
        std::fs::write(base.join("canary"), "canary")?;
        symlink(&base, workspace.join("door"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self { base, workspace, data, rooms, listener })
    }

    /// Tries to leave the workspace, through the road.
    fn probe(&self, settings: &RoomSettings) -> Result<Vec<Finding>, Problem> {
        let store = Arc::new(SqliteStore::open(&self.data)?);
        let mut config = Config::built_in(&self.workspace);
        config.rooms = settings.clone();
        let (tools, hidden, rooms) = (built_in_tools(), vec![self.data.clone()], Some(self.data.clone()));
        let runtime =
            Runtime::open(Setup { config, store: store.clone(), state: None, tools, hidden, rooms, secrets: None })?;
        let executor = setup::executor()?;
        let call = |tool: &str, arguments: Value| {
            let call = runtime.call(&AgentName::from("default"), tool, arguments);
            executor.block_on(runtime.invoke(call, Watch::default()))
        };
        let mut findings: Vec<_> = [
            ("paths stay beneath", "read", json!({ "path": "../canary" }), "path_outside_workspace"),
            ("links stay beneath", "read", json!({ "path": "door/canary" }), "path_outside_workspace"),
            ("git's own files", "write", json!({ "path": ".git/config", "content": "" }), "protected_path"),
            ("unknown tools", "no_such_tool", json!({}), "unknown_tool"),
            ("denied commands", "shell", json!({ "script": "rm -rf --no-preserve-root /" }), "command_refused"),
        ]
        .into_iter()
        .map(|(what, tool, arguments, code)| must_refuse(what, &call(tool, arguments), code))
        .collect();
        let works = call("calculator", json!({ "expression": "6 * 7" }));
        findings.push(match works.status == Status::Done && works.structured.as_f64() == Some(42.0) {
            true => Finding::ok("permitted calls", "run and are recorded"),
            false => Finding::broken("permitted calls", works.text, "Report this as a bug."),
        });
        std::fs::write(self.workspace.join("attempts.sh"), self.attempts())?;
        let tried = call("bash", json!({ "argv": ["bash", "attempts.sh"] }));
        findings.extend(self.judge(&tried, settings));
        executor.block_on(store.close())?;
        Ok(findings)
    }

    /// A script that says what it could do.
    fn attempts(&self) -> String {
        let (base, data) = (self.base.display(), self.data.display());
        let port = self.listener.local_addr().map_or(0, |address| address.port());
        let pid = std::process::id();
        format!(
            "exec 2>/dev/null\n\
             [ \"$(cat '{base}/canary')\" = canary ] && echo READ\n\
             [ -n \"$(ls -A '{data}')\" ] && echo KEYS\n\
             echo x > '{base}/written'\n\
             (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo CONNECT\n\
             kill -0 {pid} && echo SIGNAL\n\
             echo DONE\n"
        )
    }

    fn judge(&self, tried: &Outcome, settings: &RoomSettings) -> Vec<Finding> {
        const WHAT: &str = "programs";
        if tried.code.as_deref() == Some("wall_missing") {
            let (seen, remedy) = (tried.message.clone().unwrap_or_default(), tried.remedy.clone().unwrap_or_default());
            // What nobody asked for is merely not there.
            return vec![match *settings == RoomSettings::default() {
                true => Finding::missing(WHAT, format!("are refused: {seen}"), remedy),
                false => Finding::broken(WHAT, format!("are refused, though the config sets up rooms: {seen}"), remedy),
            }];
        }
        let mut said: Vec<&str> = tried.structured["stdout"].as_str().unwrap_or_default().lines().collect();
        if said.last() != Some(&"DONE") {
            return vec![Finding::broken(WHAT, format!("do not run: {}", tried.text), "Report this as a bug.")];
        }
        // The host's own eyes count for more than what the program says.
        said.extend(self.base.join("written").exists().then_some("WRITE"));
        said.extend(self.listener.accept().is_ok().then_some("CONNECT"));
        let walls = Finding::ok(WHAT, format!("run behind {} walls", tried.enforced.len()));
        let attempts = ATTEMPTS.into_iter().map(|(word, what)| match said.contains(&word) {
            true => Finding::broken(what, "they could", "Do not give this machine to an agent; report this as a bug."),
            false => Finding::ok(what, "one tried, and could not"),
        });
        std::iter::once(walls).chain(attempts).collect()
    }
}

fn must_refuse(what: &str, outcome: &Outcome, code: &str) -> Finding {
    if outcome.status == Status::Refused && outcome.code.as_deref() == Some(code) {
        return Finding::ok(what, format!("a call that must be refused was refused ({code})"));
    }
    Finding::broken(
        what,
        format!("a call that must be refused ended with: {}", outcome.text),
        "Do not give this machine to an agent; a kernel of 5.6 or later has `openat2`.",
    )
}
