//! A room that a worker keeps somewhere else, as the runtime holds it.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::{
    fs::{OFlags, fcntl_setfl},
    net::sockopt::{Timeout, set_socket_timeout},
    pipe::{PipeFlags, pipe_with},
};
use toolgate_contract::{Job, Ran, Receipt, TerminalSize};
use toolgate_gate::Permit;

use super::{
    link::{self, Link, OnTerminal, Streams, Told},
    receipt,
};
use crate::{
    env,
    overlay::Changes,
    process::{
        bound::Bound,
        door,
        keeper::CONTAINER_HOME,
        net::Fence,
        program,
        room::{Begun, check_job, check_spec, starts_at, too_large},
        supervise::{self, Pipes, Running},
        terminal::ProcessTerminal,
        wire::{Facts, Ground, Opened, Order, Plan},
    },
    room::{Io, Room, RoomError, Terminal},
    spec::{RoomSpec, Wall},
};

/// A room on the other side of a stream.
#[derive(Debug)]
pub struct WorkerRoom {
    link: Arc<Link>,
    spec: RoomSpec,
    home: PathBuf,
    /// What stands around every job.
    around: Vec<(Wall, String)>,
    closed: AtomicBool,
    /// The container it is, and the one beside it, where it is one.
    containers: (Option<String>, Option<String>),
}

impl WorkerRoom {
    /// Tells the worker behind this stream what its room is to be. `private` is a directory in front of the worker that
    /// is the room's own; the home of its jobs is made in it.
    pub fn open(input: OwnedFd, output: OwnedFd, spec: &RoomSpec, private: &Path) -> Result<Self, RoomError> {
        Self::open_behind(Fence::ORDINARY, Vec::new(), input, output, spec, private)
    }

    /// The same, where the network is fenced like this and its door is served, if the spec has an opening, and where all
    /// of this was to be mounted.
    pub(crate) fn open_behind(
        fence: Fence,
        bound: Vec<Bound>,
        input: OwnedFd,
        output: OwnedFd,
        spec: &RoomSpec,
        private: &Path,
    ) -> Result<Self, RoomError> {
        check_spec(spec)?;
        let plan = Plan { spec: spec.clone(), ground: Ground::Container, private: private.to_owned(), fence, bound };
        let (link, Told { opened, inside }) =
            Link::open(input, output, &plan).map_err(RoomError::step("hear from the worker"))?;
        let looked = match opened {
            Opened::Ready { looked } => looked,
            Opened::Failed(failure) => return Err(supervise::failed(failure)),
            Opened::Probed => return Err(RoomError::Lost("its worker speaks out of turn".into())),
        };
        Ok(Self {
            link: Arc::new(link),
            around: receipt::around_all(spec, &looked, &inside),
            spec: spec.clone(),
            home: private.join(CONTAINER_HOME),
            closed: AtomicBool::new(false),
            containers: (None, None),
        })
    }

    /// The receipts of its jobs name these containers.
    pub(crate) fn in_containers(mut self, container: Option<String>, sidecar: Option<String>) -> Self {
        self.containers = (container, sidecar);
        self
    }

    fn receipt(&self, facts: &Facts) -> Receipt {
        let (container, sidecar) = self.containers.clone();
        Receipt { container, sidecar, ..receipt::write(&self.around, facts) }
    }

    /// The walls that stand around every job of this room.
    pub fn stands(&self) -> impl Iterator<Item = Wall> {
        // A job does not begin unless its own process finds these.
        let of_job = [Wall::Privileges, Wall::Syscalls, Wall::Cpu, Wall::Disk];
        self.around.iter().map(|(wall, _)| *wall).chain(of_job)
    }

    fn order(&self, job: &Job, terminal: Option<TerminalSize>) -> Result<Order, RoomError> {
        if !self.is_alive() {
            return Err(RoomError::Lost("it was closed".into()));
        }
        let (root, cwd) = starts_at(&self.spec, job, &self.home)?;
        let term = if terminal.is_some() { env::Term::Xterm } else { env::Term::Dumb };
        let home = self.home.to_string_lossy();
        let base = env::Base { home: &home, tmp: "/tmp", user: "agent", term, secrets: env::Secrets::None };
        let mut env = env::build(&self.spec.path_prefixes, &job.env, &base).map_err(RoomError::BadJob)?;
        if self.spec.egress.opening().is_some() {
            env.extend(door::proxy_variables());
        }
        // The container's group holds all jobs together to its limits; each job is held to its own by its init.
        Ok(Order { argv: job.argv.clone(), env, root, cwd, terminal, memory_held: false, pids_held: false })
    }

    /// Waits until the program of a job runs.
    fn begun(&self, job: &Job, status: OwnedFd, started: Instant) -> Result<Begun, RoomError> {
        set_socket_timeout(&status, Timeout::Recv, Some(link::PATIENCE))
            .map_err(|error| RoomError::step("make a socket")(error.into()))?;
        let started_as = supervise::started(&status, job.argv.first().map_or("", String::as_str));
        if matches!(&started_as, Err(RoomError::Step { step, .. }) if step == program::PROTECTION_LOST) {
            self.close();
            return Err(RoomError::Lost(
                "a protected or hidden name was replaced on the machine while it was open".into(),
            ));
        }
        let (facts, fds) = started_as?;
        Ok(Begun { status, facts, fds, cgroup: None, started })
    }
}

fn begin(error: io::Error) -> RoomError {
    match error.raw_os_error() {
        Some(libc::E2BIG) => too_large(),
        None if error.kind() == io::ErrorKind::TimedOut => RoomError::Lost(error.to_string()),
        _ => RoomError::step("begin a job")(error),
    }
}

impl Room for WorkerRoom {
    fn run(&self, permit: &Permit, job: &Job, mut io: Io<'_>) -> Result<Ran, RoomError> {
        check_job(permit, job, &self.spec)?;
        let order = self.order(job, None)?;
        let make = |error: rustix::io::Errno| RoomError::step("make a pipe")(error.into());
        let (stdin, feed) = match io.stdin.take() {
            Some(given) => (given, None),
            None => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(make)?;
                (read, Some(write))
            }
        };
        let (stdout, their_stdout) = match io.stdout.take() {
            Some(given) => (None, given),
            None => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(make)?;
                (Some(read), write)
            }
        };
        let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC).map_err(make)?;
        for ours in feed.iter().chain(&stdout).chain([&stderr]) {
            fcntl_setfl(ours, OFlags::NONBLOCK).map_err(make)?;
        }
        let started = Instant::now();
        let streams = Streams { stdin, stdout: their_stdout, stderr: their_stderr };
        let status = self.link.run(&order, streams).map_err(begin)?;
        let begun = self.begun(job, status, started)?;
        let receipt = self.receipt(&begun.facts);
        let pipes = Pipes { stdin: feed, stdout, stderr };
        let running = Running { job, status: begun.status, pipes, cgroup: None, started };
        let supervise::Seen { ran, is_empty } = supervise::run(running, io, receipt);
        if !is_empty {
            // Nobody said that everything of this job is gone.
            self.close();
        }
        Ok(ran)
    }

    fn open_terminal(&self, permit: &Permit, job: &Job, size: TerminalSize) -> Result<Box<dyn Terminal>, RoomError> {
        check_job(permit, job, &self.spec)?;
        let order = self.order(job, Some(size))?;
        let started = Instant::now();
        let OnTerminal { status, terminal, number } = self.link.open_terminal(&order).map_err(begin)?;
        let begun = self.begun(job, status, started)?;
        let receipt = self.receipt(&begun.facts);
        let begun = Begun { fds: vec![terminal], ..begun };
        let near = ProcessTerminal::new(begun, receipt, job.limits)?;
        Ok(Box::new(WorkerTerminal { near: Box::new(near), link: self.link.clone(), number }))
    }

    fn changes(&self) -> io::Result<Option<Changes>> {
        Ok(None)
    }

    fn is_alive(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && self.link.answers()
    }

    fn close(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.link.close();
        }
    }
}

impl Drop for WorkerRoom {
    fn drop(&mut self) {
        self.close();
    }
}

/// A terminal that is elsewhere: all but its size is a matter of bytes.
struct WorkerTerminal {
    near: Box<ProcessTerminal>,
    link: Arc<Link>,
    number: u32,
}

impl Terminal for WorkerTerminal {
    fn receipt(&self) -> &Receipt {
        self.near.receipt()
    }

    fn read(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, RoomError> {
        self.near.read(wait)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RoomError> {
        self.near.write(bytes)
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.near.readiness()
    }

    fn resize(&mut self, size: TerminalSize) -> Result<(), RoomError> {
        self.link.resize(self.number, size).map_err(RoomError::step("resize the terminal"))
    }

    fn end(self: Box<Self>) -> Result<Ran, RoomError> {
        self.near.end()
    }
}
