//! A room for tests: it notes what it is asked for and answers as it was told.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;
use toolgate_contract::{Ending, Fault, Job, Ran, Reach, Receipt, Stream, TerminalSize, Usage};

use crate::{Clock, Cx, Hands, Output, Programs, Protected, Seen, StopFlag, Tool, Workspace};

/// What a room was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Run(Job),
    Reaching(Job, Reach),
    Open(Job, TerminalSize),
    Type(String, Vec<u8>),
    Look(String, Duration),
    Close(String),
}

/// A workspace and a room.
pub(crate) struct Stage {
    dir: TempDir,
    room: Arc<Noting>,
    pub(crate) stop: StopFlag,
}

#[derive(Default)]
struct Noting {
    asked: Mutex<Vec<Asked>>,
    answers: Mutex<VecDeque<Result<Ran, Fault>>>,
}

impl Stage {
    /// A room that gives these answers to what it runs, in order.
    pub(crate) fn answering(answers: impl IntoIterator<Item = Result<Ran, Fault>>) -> Self {
        let room = Noting { answers: Mutex::new(answers.into_iter().collect()), ..Noting::default() };
        Self { dir: tempfile::tempdir().unwrap(), room: Arc::new(room), stop: StopFlag::default() }
    }

    /// A room in which everything works and says nothing.
    pub(crate) fn quiet() -> Self {
        Self::answering([])
    }

    /// Calls a tool the way the runtime does. Whatever goes wrong must be declared.
    pub(crate) fn call(&self, tool: fn() -> Tool, arguments: Value) -> Result<Output, Fault> {
        let tool = tool();
        let workspace = Workspace::open(self.dir.path(), Protected::default()).unwrap();
        let cx = Cx::new(Hands {
            finder: None,
            own_calls: None,
            programs: Some(self.room.clone()),
            web: None,
            workspace: Some(workspace.with_access(tool.def.needs.files)),
            clock: Arc::new(NoClock),
            progress: None,
            remarks: None,
            stop: self.stop.clone(),
            timeout: tool.def.timeout,
            caps: tool.def.caps,
            inquiries: crate::Inquiries::default(),
            key: None,
        });
        let result = tool.work.here().unwrap()(&cx, arguments);
        if let Err(fault) = &result {
            let declared = tool.def.failures.iter().any(|mode| mode.code == fault.code);
            assert!(
                declared || fault.code == "invalid_arguments",
                "`{}` does not declare `{}`",
                tool.def.name,
                fault.code
            );
        }
        result
    }

    /// What the room was asked for so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.room.asked.lock().unwrap().clone()
    }

    /// The one job the room ran.
    pub(crate) fn job(&self) -> Job {
        match self.asked().as_slice() {
            [Asked::Run(job)] => job.clone(),
            other => panic!("one job was expected: {other:?}"),
        }
    }

    /// The real path of the workspace.
    pub(crate) fn path(&self) -> String {
        self.dir.path().to_str().unwrap().to_owned()
    }
}

/// A program that exited after 7 ms.
pub(crate) fn ran(code: i32, stdout: &str, stderr: &str) -> Ran {
    let stream = |text: &str| Stream {
        text: text.to_owned(),
        bytes: text.len() as u64,
        lines: text.lines().count() as u64,
        shown_bytes: text.len() as u64,
        lossy: false,
    };
    Ran {
        ending: Ending::Exited { code },
        stdout: stream(stdout),
        stderr: stream(stderr),
        receipt: Receipt::default(),
        usage: Usage { wall_ms: 7, ..Usage::default() },
        refused: Vec::new(),
    }
}

impl Noting {
    fn note(&self, asked: Asked) -> Result<Ran, Fault> {
        self.asked.lock().unwrap().push(asked);
        self.answers.lock().unwrap().pop_front().unwrap_or_else(|| Ok(ran(0, "", "")))
    }
}

impl Programs for Noting {
    fn run(&self, job: &Job, stop: &StopFlag) -> Result<Ran, Fault> {
        let ran = self.note(Asked::Run(job.clone()))?;
        Ok(if stop.is_raised() { Ran { ending: Ending::Cancelled, ..ran } } else { ran })
    }

    fn run_reaching(&self, job: &Job, reach: &Reach, stop: &StopFlag) -> Result<Ran, Fault> {
        let ran = self.note(Asked::Reaching(job.clone(), reach.clone()))?;
        Ok(if stop.is_raised() { Ran { ending: Ending::Cancelled, ..ran } } else { ran })
    }

    fn open_terminal(&self, job: &Job, size: TerminalSize) -> Result<String, Fault> {
        self.note(Asked::Open(job.clone(), size)).map(|_| "t1".to_owned())
    }

    fn type_into(&self, terminal: &str, bytes: &[u8]) -> Result<(), Fault> {
        self.note(Asked::Type(terminal.to_owned(), bytes.to_vec())).map(drop)
    }

    fn look_at(&self, terminal: &str, wait: Duration, _stop: &StopFlag) -> Result<Seen, Fault> {
        let ran = self.note(Asked::Look(terminal.to_owned(), wait))?;
        let running = ran.ending == Ending::Exited { code: 0 };
        Ok(Seen { screen: ran.stdout.text, scrolled: ran.stderr.text, cursor: (1, 2), running })
    }

    fn close_terminal(&self, terminal: &str) -> Result<Ran, Fault> {
        self.note(Asked::Close(terminal.to_owned()))
    }
}

struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}
