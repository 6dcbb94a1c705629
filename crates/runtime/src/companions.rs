//! Servers of others that run beside the runtime: each in a room of its own, for as long as somebody speaks to it.
//!
//! What such a room is, the operator's config says and nothing else: an edge names a server and gets its two streams. The
//! program holds ends of pipes; what it says on standard error is kept for whoever wonders why it ended.

use std::{
    collections::BTreeMap,
    io::{self, PipeReader, PipeWriter},
    os::fd::AsFd as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::fs::Mode;
use tokio::sync::oneshot;
use toolgate_contract::{Ending, Fault, Files, Job, JobLimits, Needs, Network, Ran};
use toolgate_gate::{Permit, Policy};
use toolgate_sandbox::{Egress, Io, Lease, Opening, Owner, RoomLimits, RoomSpec, WorkspaceMode, WorkspaceSpec};

use crate::{
    config::{Access, Program, Reached, Server, Word},
    fence::Fence,
    rooms::{Maker, Quarters, protected_in},
};

/// A server lives as long as the runtime does, and that is no limit.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// How long a server gets to leave when nobody speaks to it any more.
const GRACE: Duration = Duration::from_secs(1);
/// How much of what it says on standard error is kept.
const KEPT_BYTES: usize = 4_096;
const KEPT_LINES: usize = 40;

/// A server's program that runs, and the two ways to speak to it.
#[derive(Debug)]
pub struct Companion {
    /// What is written here it reads.
    pub input: PipeWriter,
    /// What it says is read here. It ends when the program does.
    pub output: PipeReader,
    /// Whoever drops this ends the program.
    pub life: Life,
}

/// The life of a program: dropping it ends the program and everything it started.
#[derive(Debug)]
pub struct Life {
    stop: Arc<AtomicBool>,
    ended: oneshot::Receiver<String>,
}

impl Life {
    /// Waits until the program has ended, and says how.
    pub async fn ended(&mut self) -> String {
        (&mut self.ended).await.unwrap_or_else(|_| "nobody knows how it ended".to_owned())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Quarters {
    /// Starts the program of a server.
    pub(crate) fn companion(
        &self,
        name: &str,
        server: &Server,
        policy: &Policy,
        protected: &[String],
    ) -> Result<Companion, Fault> {
        let Reached::Program(program) = &server.reached else {
            let message = format!("server `{name}` has an address and no program");
            return Err(Fault::failed("no_program", message, "Speak to it at its address."));
        };
        let spec = self.spec_of_server(program, policy, protected)?;
        let permit = Permit::of_server(needs(program));
        let job = self.job_of_server(program)?;
        let owner = Owner { agent: format!("mcp server {name}"), task: None };
        let lease = self.rooms(Maker::Process)?.lease(&owner, &spec)?;
        start(name, lease, permit, job).map_err(|error| {
            Fault::failed("not_started", format!("server `{name}` cannot be started: {error}"), "Try again.")
                .retryable()
        })
    }

    /// The room a server gets: what its entry in the config says, and what every room is without.
    fn spec_of_server(&self, program: &Program, policy: &Policy, protected: &[String]) -> Result<RoomSpec, Fault> {
        let base = self.of_processes();
        let workspace = program.workspace.as_ref().map(|path| WorkspaceSpec {
            path: path.clone(),
            mode: match program.access {
                Access::Read => WorkspaceMode::ReadOnly,
                Access::Write => WorkspaceMode::ReadWrite,
            },
            protected: protected_in(path, protected),
        });
        let mut visible: Vec<PathBuf> = base.visible.iter().chain(&program.visible).cloned().collect();
        visible.sort();
        visible.dedup_by(|inner, outer| inner.starts_with(outer));
        let roots: Vec<PathBuf> = program.workspace.iter().cloned().collect();
        let fence = Fence::of_all(policy, &roots);
        let settings = self.gateway().settings();
        let egress = match program.allowed_hosts.is_empty() {
            true => Egress::Deny,
            false => Egress::Allow(Opening {
                hosts: program.allowed_hosts.clone(),
                internal: settings.hostname_allowlist.clone(),
                barred: fence.barred.clone(),
                name_servers: settings.name_servers.clone(),
                pinned: BTreeMap::new(),
            }),
        };
        let limits = RoomLimits { cpu: FOR_EVER, ..base.limits };
        let spec = RoomSpec { workspace, visible, hidden: self.hidden().to_vec(), egress, limits, ..base };
        fence.closing(spec)
    }

    /// What is started. Its variables are looked up now: whoever changes a secret starts the server again.
    fn job_of_server(&self, program: &Program) -> Result<Job, Fault> {
        let broker = self.gateway().connections().broker();
        let mut env = BTreeMap::new();
        for (name, value) in &program.env {
            let value = match value {
                Word::Plain(word) => word.clone(),
                Word::Secret(reference) => broker.get(reference)?.expose().to_owned(),
            };
            env.insert(name.clone(), value);
        }
        let argv = std::iter::once(&program.command).chain(&program.args).cloned().collect();
        let limits = JobLimits {
            wall: FOR_EVER,
            grace: GRACE,
            keep_bytes: KEPT_BYTES,
            keep_lines: KEPT_LINES,
            most_output: u64::MAX,
        };
        Ok(Job { argv, cwd: String::new(), env, stdin: Vec::new(), limits })
    }
}

fn needs(program: &Program) -> Needs {
    let files = match (&program.workspace, program.access) {
        (None, _) => Files::None,
        (Some(_), Access::Read) => Files::Read,
        (Some(_), Access::Write) => Files::Write,
    };
    let network = if program.allowed_hosts.is_empty() { Network::None } else { Network::Fenced };
    let secrets = program.env.values().any(|value| matches!(value, Word::Secret(_)));
    Needs { files, network, exec: true, secrets, ..Needs::NOTHING }
}

/// Runs it on a thread of its own, to its end.
fn start(name: &str, lease: Lease, permit: Permit, job: Job) -> io::Result<Companion> {
    let (stdin, input) = io::pipe()?;
    let (output, said) = io::pipe()?;
    // Its user is another one than ours, and many programs open their streams again, by `/dev/stdin` or to wait on them
    // without a thread. Nobody outside of its room finds them by a name.
    for theirs in [stdin.as_fd(), said.as_fd()] {
        rustix::fs::fchmod(theirs, Mode::RUSR | Mode::WUSR | Mode::ROTH | Mode::WOTH)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, ended) = oneshot::channel();
    let life = Life { stop: stop.clone(), ended };
    let work = move || {
        let is_over = || stop.load(Ordering::Relaxed);
        // What it says is no business of the thread that looks after it.
        let io = Io { stop: &is_over, heard: None, stdin: Some(stdin.into()), stdout: Some(said.into()) };
        let ran = lease.run(&permit, &job, io);
        // Whoever waits may have left.
        let _ = tell.send(ran.map_or_else(|error| Fault::from(error).message, |ran| how(&ran)));
    };
    thread::Builder::new().name(format!("mcp-{name}")).spawn(work)?;
    Ok(Companion { input, output, life })
}

/// How a program ended, in one line, with the last it said about it.
fn how(ran: &Ran) -> String {
    let ending = match ran.ending {
        Ending::Exited { code } => format!("it ended with status {code}"),
        ending => format!("it was ended ({})", ending.as_str()),
    };
    let plain = |text: &str| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
    match ran.stderr.text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(last) => format!("{ending}; the last it said was: {}", plain(last)),
        None => ending,
    }
}
