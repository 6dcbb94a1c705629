//! A program to run in a room, and how it ended.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

/// What is to run: words, never a shell string. Whoever wants a shell says `["bash", "-c", script]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The program, looked up in the room's own `PATH`, and its arguments.
    pub argv: Vec<String>,
    /// The directory it starts in, relative to the workspace; empty for the workspace itself.
    pub cwd: String,
    /// Added to the room's environment, which is built from empty.
    pub env: BTreeMap<String, String>,
    /// Given on standard input.
    pub stdin: Vec<u8>,
    /// How long and how much.
    pub limits: JobLimits,
}

/// How long one job may take and how much of what it says is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct JobLimits {
    /// Time on the wall.
    pub wall: Duration,
    /// Time between the polite signal and the other one.
    pub grace: Duration,
    /// Bytes kept of each stream: the head and the tail.
    pub keep_bytes: usize,
    /// Lines kept of each stream.
    pub keep_lines: usize,
    /// Bytes of both streams together after which the job is ended.
    pub most_output: u64,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(30),
            grace: Duration::from_secs(2),
            keep_bytes: 51_200,
            keep_lines: 2_000,
            most_output: 64 << 20,
        }
    }
}

/// Why a job is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum Ending {
    /// It ended by itself.
    Exited {
        /// Its status.
        code: i32,
    },
    /// A signal ended it that nobody here sent.
    Signaled {
        /// Which.
        signal: i32,
    },
    /// Its time on the wall was up.
    TimedOut,
    /// It used all of its processor time.
    CpuLimit,
    /// It used more memory than the room has.
    OomKilled,
    /// It started more processes than the room holds.
    PidsExhausted,
    /// It wrote more than it may.
    DiskLimit,
    /// It said more than anyone will read.
    OutputLimit,
    /// The caller no longer wanted it.
    Cancelled,
    /// The room died around it.
    RoomLost,
}

impl Ending {
    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited { .. } => "exited",
            Self::Signaled { .. } => "signaled",
            Self::TimedOut => "timed_out",
            Self::CpuLimit => "cpu_limit",
            Self::OomKilled => "oom_killed",
            Self::PidsExhausted => "pids_exhausted",
            Self::DiskLimit => "disk_limit",
            Self::OutputLimit => "output_limit",
            Self::Cancelled => "cancelled",
            Self::RoomLost => "room_lost",
        }
    }
}

/// What was kept of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// Head and tail, with a line between them that says how much is missing.
    pub text: String,
    /// Bytes in all.
    pub bytes: u64,
    /// Lines in all.
    pub lines: u64,
    /// Bytes of `text` that came from the stream.
    pub shown_bytes: u64,
    /// It was not UTF-8 throughout.
    pub lossy: bool,
}

/// How one job ended, and what stood around it while it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ran {
    /// Why it is over.
    #[serde(flatten)]
    pub ending: Ending,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// What stood.
    pub receipt: Receipt,
    /// What it used.
    pub usage: Usage,
    /// Connections the room was refused, each with its reason.
    pub refused: Vec<String>,
}

/// The walls that stood around a job, as the job's own process found them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// The kind of room, such as `namespaces` or `landlock`.
    pub tier: String,
    /// The walls, each as `wall` or `wall:by`, such as `memory:cgroup_v1`.
    pub walls: Vec<String>,
    /// Walls that were wanted, did not stand, and were accepted by the operator.
    pub gaps: Vec<String>,
    /// The id of the container it ran in, where it was one.
    pub container: Option<String>,
    /// The id of the container beside that one, where there was any.
    pub sidecar: Option<String>,
}

/// What one job used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Time on the wall.
    pub wall_ms: u64,
    /// Processor time of all its processes.
    pub cpu_ms: u64,
    /// The most memory it held at once, where that was measured.
    pub memory_peak: Option<u64>,
}

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}
