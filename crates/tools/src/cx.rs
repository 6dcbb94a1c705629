//! The hands of a tool body.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_contract::{
    Asked, Caps, ConnectionInfo, Fault, Job, Ran, Reach, SearchEngine, TerminalSize, WebRequest, WebResponse, scale,
};

use crate::{Finder, Inquiries, Inquiry, OwnCalls, Replying, Workspace};

/// Tells the time. A trait, so that tests own it.
pub trait Clock: Send + Sync {
    /// Now, on the wall.
    fn now(&self) -> Timestamp;
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Done so far.
    pub done: f64,
    /// Of how much, where it is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// Takes progress reports. Called from the body's thread.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

scale! {
    /// How much a remark matters, as syslog has it.
    Weight {
        /// For who looks for a mistake.
        Debug = "debug",
        /// What goes on.
        Info = "info",
        /// What goes on and is worth a word.
        Notice = "notice",
        /// Something may go wrong.
        Warning = "warning",
        /// Something went wrong.
        Error = "error",
        /// Something broke.
        Critical = "critical",
        /// Somebody has to act.
        Alert = "alert",
        /// Nothing works.
        Emergency = "emergency",
    }
}

/// What is said while a call is under way, beside how far it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Remark {
    /// How much it matters.
    pub weight: Weight,
    /// Which part of the program says it.
    pub logger: Option<String>,
    /// What is said.
    pub data: Value,
}

/// Somebody who hears remarks. Called from the body's thread.
#[derive(Clone)]
pub struct Listener {
    /// What matters less is not told.
    pub least: Weight,
    /// Takes one.
    pub hear: Arc<dyn Fn(Remark) + Send + Sync>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("least", &self.least).finish_non_exhaustive()
    }
}

/// Tells a running body to stop, and why. The first word counts.
#[derive(Debug, Clone, Default)]
pub struct StopFlag {
    why: Arc<AtomicU8>,
    /// For who waits for it.
    raised: CancellationToken,
}

const RUNNING: u8 = 0;
const CANCELLED: u8 = 1;
const TIMED_OUT: u8 = 2;

impl StopFlag {
    /// The caller no longer wants the answer.
    pub fn cancel(&self) {
        self.raise(CANCELLED);
    }

    /// The time is up.
    pub fn time_out(&self) {
        self.raise(TIMED_OUT);
    }

    fn raise(&self, why: u8) {
        // A second word is dropped: the body may already have acted on the first.
        let _ = self.why.compare_exchange(RUNNING, why, Ordering::Relaxed, Ordering::Relaxed);
        self.raised.cancel();
    }

    /// Has anyone said stop?
    pub fn is_raised(&self) -> bool {
        self.why.load(Ordering::Relaxed) != RUNNING
    }

    /// Returns when somebody says stop.
    pub async fn raised(&self) {
        self.raised.cancelled().await;
    }
}

/// The room a call was given, as its body sees it: a way to run programs.
///
/// Dropped with the call, except for terminals, which stay until they are closed, end by themselves or are idle too
/// long. A terminal belongs to the agent that opened it; nobody else's id is ever found.
pub trait Programs: Send + Sync {
    /// Runs a job to its end. The job ends early when `stop` is raised.
    fn run(&self, job: &Job, stop: &StopFlag) -> Result<Ran, Fault>;

    /// Runs a job that may talk to these hosts and to nobody else. Refused where the permit grants no network, or where
    /// a host is not one the agent may talk to.
    fn run_reaching(&self, job: &Job, reach: &Reach, stop: &StopFlag) -> Result<Ran, Fault>;

    /// Starts a job on a terminal of this size, and gives its name.
    fn open_terminal(&self, job: &Job, size: TerminalSize) -> Result<String, Fault>;

    /// Types into a terminal.
    fn type_into(&self, terminal: &str, bytes: &[u8]) -> Result<(), Fault>;

    /// What a terminal shows, once it has been quiet for a moment or `wait` is over.
    fn look_at(&self, terminal: &str, wait: Duration, stop: &StopFlag) -> Result<Seen, Fault>;

    /// Ends a terminal.
    fn close_terminal(&self, terminal: &str) -> Result<Ran, Fault>;
}

/// What a terminal shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The screen as a person would read it, without trailing blanks.
    pub screen: String,
    /// What scrolled off since the last look, oldest first.
    pub scrolled: String,
    /// Row and column of the cursor, counting from 0.
    pub cursor: (u16, u16),
    /// The program is still there.
    pub running: bool,
}

/// The one door to other machines, as a body sees it. Every request is judged by name, port and address, with every
/// redirect; what the agent may not reach is refused here.
pub trait Web: Send + Sync {
    /// Sends a request and waits for the whole answer. Any status is an answer. Ends early when `stop` is raised.
    fn send(&self, request: &WebRequest, stop: &StopFlag) -> Result<WebResponse, Fault>;

    /// What a tool may know about a connection of the operator's.
    fn connection(&self, name: &str) -> Result<ConnectionInfo, Fault>;

    /// Whom the operator wants to be asked for pages.
    fn search_engine(&self) -> Result<SearchEngine, Fault>;
}

/// What a body is given for one call.
pub struct Hands {
    /// What the agent may know about its tools; none where there is no catalog.
    pub finder: Option<Arc<dyn Finder>>,
    /// What is recorded of the agent's own calls, if the permit grants it.
    pub own_calls: Option<Arc<dyn OwnCalls>>,
    /// The room, if the permit grants programs.
    pub programs: Option<Arc<dyn Programs>>,
    /// The fenced client, if the permit grants the network.
    pub web: Option<Arc<dyn Web>>,
    /// The workspace, if the permit grants files, with the access it grants.
    pub workspace: Option<Workspace>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where progress goes.
    pub progress: Option<ProgressSink>,
    /// Where remarks go.
    pub remarks: Option<Listener>,
    /// Raised when the body should stop.
    pub stop: StopFlag,
    /// How long the call may take.
    pub timeout: Duration,
    /// How much may come out.
    pub caps: Caps,
    /// The way to whoever called, for what a tool has to know from them.
    pub inquiries: Inquiries,
    /// What the caller calls the effect; whoever does it is told, so that it can tell a second try from a second wish.
    pub key: Option<String>,
}

/// A body's only hands.
#[derive(Debug)]
pub struct Cx {
    hands: Hands,
}

impl Cx {
    /// Hands for one call.
    pub fn new(hands: Hands) -> Self {
        Self { hands }
    }

    /// The key under which the effect happens once. To be passed on to whoever does it.
    pub fn key(&self) -> Option<&str> {
        self.hands.key.as_deref()
    }

    /// The workspace. Only for tools that declared files among their needs.
    pub fn workspace(&self) -> Result<&Workspace, Fault> {
        self.hands.workspace.as_ref().ok_or_else(|| {
            Fault::refused(
                "needs_not_declared",
                "the tool reached for files it did not declare",
                "Declare `needs.files` in the tool's definition.",
            )
        })
    }

    /// The room. Only for tools that declared programs among their needs.
    pub fn programs(&self) -> Result<&dyn Programs, Fault> {
        self.hands.programs.as_deref().ok_or_else(|| {
            Fault::refused(
                "needs_not_declared",
                "the tool reached for a program it did not declare",
                "Declare `needs.exec` in the tool's definition.",
            )
        })
    }

    /// The fenced client. Only for tools that declared the network among their needs.
    pub fn web(&self) -> Result<&dyn Web, Fault> {
        self.hands.web.as_deref().ok_or_else(|| {
            Fault::refused(
                "needs_not_declared",
                "the tool reached for the network it did not declare",
                "Declare `needs.network` in the tool's definition.",
            )
        })
    }

    /// The tools of the agent.
    pub fn finder(&self) -> Result<&dyn Finder, Fault> {
        self.hands.finder.as_deref().ok_or_else(|| {
            Fault::refused("no_catalog", "there is no catalog to look into here", "Call the tool through a runtime.")
        })
    }

    /// What the agent has called before. Only for tools that declared the record among their needs.
    pub fn own_calls(&self) -> Result<&dyn OwnCalls, Fault> {
        self.hands.own_calls.as_deref().ok_or_else(|| {
            Fault::refused(
                "needs_not_declared",
                "the tool reached for the record it did not declare",
                "Declare `needs.record` in the tool's definition.",
            )
        })
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.hands.clock.now()
    }

    /// Fills the buffer from the kernel's random source.
    pub fn random(&self, buffer: &mut [u8]) -> Result<(), Fault> {
        getrandom::fill(buffer).map_err(|error| {
            Fault::failed("no_randomness", format!("the kernel gave no random bytes: {error}"), "Try again.")
                .retryable()
        })
    }

    /// How much may come out of this call.
    pub fn caps(&self) -> &Caps {
        &self.hands.caps
    }

    /// Tells whoever waits how far the call has come.
    pub fn progress(&self, done: f64, total: Option<f64>, message: impl Into<Option<String>>) {
        if let Some(sink) = &self.hands.progress {
            sink(Progress { done, total, message: message.into() });
        }
    }

    /// From which weight on somebody hears remarks; none where nobody does.
    pub fn hears(&self) -> Option<Weight> {
        self.hands.remarks.as_ref().map(|listener| listener.least)
    }

    /// Tells whoever hears remarks.
    pub fn remark(&self, remark: Remark) {
        if let Some(listener) = self.hands.remarks.as_ref().filter(|listener| remark.weight >= listener.least) {
            (listener.hear)(remark);
        }
    }

    /// What whoever called can be asked, as an MCP client says what it can do.
    pub fn caller_can(&self) -> Value {
        self.hands.inquiries.can()
    }

    /// Asks whoever called. Refused with `cannot_ask` where that is nobody who answers.
    ///
    /// The time until they answer is not the tool's. The answers are waited for beside the server the tool speaks to, so
    /// this is no call that blocks; a body that has been told to stop drops it.
    pub fn ask(&self, inquiries: Vec<Inquiry>) -> Replying {
        self.hands.inquiries.ask(inquiries)
    }

    /// Says that the call fails because whoever called cannot do this.
    pub fn caller_lacks(&self, needed: Value) {
        self.hands.inquiries.lacks(needed);
    }

    /// Keeps for the record that something was asked, and what came of it.
    pub fn note_asked(&self, asked: Asked) {
        self.hands.inquiries.note(asked);
    }

    /// Fails once the call is cancelled or out of time. Call it in every loop that an input can make long.
    pub fn check(&self) -> Result<(), Fault> {
        match self.hands.stop.why.load(Ordering::Relaxed) {
            RUNNING => Ok(()),
            CANCELLED => {
                Err(Fault::failed("cancelled", "the caller cancelled the call", "Call again if it is still wanted."))
            }
            _ => Err(Fault::failed(
                "timed_out",
                format!("no answer within {} ms", self.hands.timeout.as_millis()),
                "Ask for less at once.",
            )),
        }
    }

    /// The flag behind [`Cx::check`], for code that runs on other threads on behalf of this call.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.hands.stop
    }
}

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}
