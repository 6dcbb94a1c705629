//! The two traits: a backend opens rooms, a room runs jobs.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

use serde::Serialize;
use toolgate_contract::{Fault, Job, Ran, Receipt, TerminalSize};
use toolgate_gate::Permit;

use crate::{
    overlay::Changes,
    spec::{RoomSpec, Wall},
};

/// Opens rooms.
///
/// A backend that cannot put up every wall a spec asks for opens nothing and answers [`RoomError::TooWeak`]: there is
/// no weaker fallback.
pub trait Backend: Send + Sync {
    /// As config spells it.
    fn name(&self) -> &'static str;

    /// What it can put up here, found by doing it once.
    fn probe(&self) -> Vec<Probed>;

    /// A room for `owner`, whose name is only told to people.
    fn open(&self, spec: &RoomSpec, owner: &str) -> Result<Arc<dyn Room>, RoomError>;

    /// Ends what it keeps for rooms to come; those that were opened are closed by whoever has them.
    fn close(&self) {}
}

/// What was found when a wall was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probed {
    /// Which.
    pub wall: Wall,
    /// What puts it up, or why it cannot stand.
    pub found: Result<String, Missing>,
}

/// A wall that cannot stand here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Why.
    pub why: String,
    /// How to get it.
    pub remedy: String,
}

/// A place where permitted jobs run.
///
/// It is confined before it takes its first job, and empty after each: whatever a job started ends with it. Jobs may
/// run at the same time; they share the room's private directories and nothing else.
///
/// The calls block, as the bodies of tools do.
pub trait Room: Send + Sync {
    /// Runs a job to its end. An `Err` means that nothing ran.
    fn run(&self, permit: &Permit, job: &Job, io: Io<'_>) -> Result<Ran, RoomError>;

    /// Starts a job on a terminal.
    fn open_terminal(&self, permit: &Permit, job: &Job, size: TerminalSize) -> Result<Box<dyn Terminal>, RoomError>;

    /// What was written to its workspace, where writes go beside it; none for any other room. Nothing must run in it.
    fn changes(&self) -> io::Result<Option<Changes>>;

    /// It was made ahead for nobody, and this is whose it is. Only for people, so there is nothing to fail; a backend that
    /// makes none ahead has nothing to do.
    fn given_to(&self, _owner: &str) {}

    /// Would it take another job?
    fn is_alive(&self) -> bool;

    /// Ends everything in it. Dropping a room does the same.
    fn close(&self);
}

/// A job's connections to whoever waits for it.
#[expect(missing_debug_implementations, reason = "functions have nothing to show")]
pub struct Io<'a> {
    /// Asked now and then: is the job to be cancelled?
    pub stop: &'a dyn Fn() -> bool,
    /// Told what the job says, as it says it.
    pub heard: Option<&'a mut Heard<'a>>,
    /// Read in place of [`Job::stdin`].
    pub stdin: Option<OwnedFd>,
    /// Written to in place of a pipe of the room's: what the job says there goes past the room, which neither hears, keeps
    /// nor counts it.
    pub stdout: Option<OwnedFd>,
}

/// Is told what a job says.
pub type Heard<'a> = dyn FnMut(Source, &[u8]) + 'a;

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A job on a terminal. Dropping it ends the job.
pub trait Terminal: Send {
    /// What stands around it.
    fn receipt(&self) -> &Receipt;

    /// What it has said and nobody has read yet, waiting at most this long for something. Empty: nothing came.
    /// `None`: it has ended and everything was read.
    fn read(&mut self, wait: std::time::Duration) -> Result<Option<Vec<u8>>, RoomError>;

    /// Types.
    fn write(&mut self, bytes: &[u8]) -> Result<(), RoomError>;

    /// Readable when there is something to read, or it has ended; for those who wait for something else as well.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Changes its size.
    fn resize(&mut self, size: TerminalSize) -> Result<(), RoomError>;

    /// Ends it, and says how it ended and what stood around it.
    fn end(self: Box<Self>) -> Result<Ran, RoomError>;
}

/// Why nothing ran.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// A wall is missing.
    #[error("backend `{backend}` cannot put up the wall `{}` here: {why}", wall.as_str())]
    TooWeak {
        /// Which backend.
        backend: &'static str,
        /// Which wall.
        wall: Wall,
        /// Why not.
        why: String,
        /// How to get it.
        remedy: String,
    },
    /// Something the backend needs is not there.
    #[error("{}", .0.message)]
    NotReady(Fault),
    /// The job asks for what no room gives.
    #[error("{}", .0.message)]
    BadJob(Fault),
    /// There is no such program in the room.
    #[error("there is no program `{program}` in the room")]
    NoProgram {
        /// As it was asked for.
        program: String,
    },
    /// A step of making the room failed.
    #[error("the room could not be made: {step}")]
    Step {
        /// Which step.
        step: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The room is gone.
    #[error("the room is gone: {0}")]
    Lost(String),
}

impl RoomError {
    pub(crate) fn step(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| Self::Step { step, source }
    }
}

impl From<RoomError> for Fault {
    fn from(error: RoomError) -> Self {
        let message = match &error {
            RoomError::Step { source, .. } => format!("{error}: {source}"),
            _ => error.to_string(),
        };
        match error {
            RoomError::TooWeak { remedy, .. } => Fault::refused("wall_missing", message, remedy),
            RoomError::BadJob(fault) | RoomError::NotReady(fault) => fault,
            RoomError::NoProgram { .. } => {
                Fault::failed("program_not_found", message, "Use a program that is installed on this machine.")
            }
            RoomError::Step { .. } => {
                Fault::failed("room_failed", message, "Run `toolgate doctor` to see which wall does not stand.")
            }
            RoomError::Lost(_) => Fault::failed("room_lost", message, "Call again: a new room is made.").retryable(),
        }
    }
}
