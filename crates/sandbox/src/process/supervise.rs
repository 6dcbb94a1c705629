//! The runtime's side of one job: feeds it, listens to it, holds it to its time and its words.

use std::{
    io,
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use toolgate_contract::{Ending, Fault, Job, Ran, Receipt, Usage};

use super::{
    cgroup, program,
    wire::{self, Breach, Facts, News, Over, Word},
};
use crate::{
    output::Keep,
    room::{Io, RoomError, Source},
};

/// How often the caller's wish and the counters are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How long the last word of a job is waited for without falling asleep, once both of its streams have ended. It comes
/// in a fraction of this, and being woken up takes as long as that.
const AWAKE: Duration = Duration::from_micros(100);
/// How long a room gets to end a job that was killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// The runtime's ends of a job's pipes.
pub(crate) struct Pipes {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: OwnedFd,
}

/// Everything that belongs to one running job.
pub(crate) struct Running<'a> {
    pub(crate) job: &'a Job,
    pub(crate) status: OwnedFd,
    pub(crate) pipes: Pipes,
    pub(crate) cgroup: Option<cgroup::Lease>,
    pub(crate) started: Instant,
}

/// Waits until a job's program runs, and gives what its process found about itself.
pub(crate) fn started(status: &OwnedFd, program: &str) -> Result<(Facts, Vec<OwnedFd>), RoomError> {
    match wire::receive(status).map_err(RoomError::step("hear from the job"))? {
        Some((News::Started(facts), fds)) => Ok((facts, fds)),
        Some((News::NoProgram, _)) => Err(RoomError::NoProgram { program: program.to_owned() }),
        Some((News::Failed(failure), _)) => Err(failed(failure)),
        Some((News::Over(_), _)) | None => Err(RoomError::Lost("the job ended before it began".into())),
    }
}

/// A failed step as an error. Two of them are the job's fault, not the room's.
pub(crate) fn failed(failure: wire::Failure) -> RoomError {
    let source = io::Error::from_raw_os_error(failure.errno);
    match failure.step.as_str() {
        program::ENTER_DIRECTORY => RoomError::BadJob(Fault::failed(
            "bad_directory",
            format!("the directory to start in cannot be entered: {source}"),
            "Name a directory of the workspace that exists.",
        )),
        program::START_PROGRAM => RoomError::BadJob(Fault::failed(
            "not_executable",
            format!("the program cannot be started: {source}"),
            "Name an executable file; a script needs a first line that names its interpreter.",
        )),
        _ => RoomError::Step { step: failure.step, source },
    }
}

/// Why the runtime wants a job to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Time,
    Cancelled,
    Output,
    Pids,
}

struct Stop {
    why: Why,
    kill_at: Instant,
    killed: bool,
}

/// What came of a job.
pub(crate) struct Seen {
    pub(crate) ran: Ran,
    /// Its init said that nothing of it is left.
    pub(crate) is_empty: bool,
}

/// Sees a job to its end.
pub(crate) fn run(mut running: Running<'_>, io: Io<'_>, receipt: Receipt) -> Seen {
    let limits = running.job.limits;
    let deadline = running.started + limits.wall;
    let Io { stop: wants_stop, mut heard, .. } = io;
    let mut keeps = [Keep::new(limits.keep_bytes, limits.keep_lines), Keep::new(limits.keep_bytes, limits.keep_lines)];
    let mut outs = [running.pipes.stdout.as_ref(), Some(&running.pipes.stderr)];
    let mut feed = Feed { pipe: running.pipes.stdin.take(), bytes: &running.job.stdin };
    let mut said = 0;
    let mut stop: Option<Stop> = None;
    let mut over: Option<Over> = None;
    let mut lost = false;
    let mut drain_until = None;
    let mut awake_until = None;
    let mut next_tick = Instant::now();
    let mut buffer = vec![0; 64 * 1024];

    loop {
        let now = Instant::now();
        // Everything the job started is gone once it is over; what it said is in the pipes and ends with them.
        let is_drained = outs.iter().all(Option::is_none) || drain_until.is_some_and(|until| now >= until);
        if (over.is_some() || lost) && is_drained {
            break;
        }
        if over.is_none() && !lost && now >= next_tick {
            next_tick = now + TICK;
            let why = if wants_stop() {
                Some(Why::Cancelled)
            } else if now >= deadline {
                Some(Why::Time)
            } else if running.cgroup.as_ref().is_some_and(|cgroup| cgroup.looks().pids_denied > 0) {
                Some(Why::Pids)
            } else {
                None
            };
            if let (Some(why), None) = (why, &stop) {
                stop = Some(Stop::begin(why, &running, now));
            }
            if let Some(stop) = &mut stop
                && !stop.press(&running, now)
            {
                lost = true;
                drain_until = Some(now);
            }
        }
        let mut fds =
            vec![PollFd::new(&running.status, if over.is_some() || lost { PollFlags::empty() } else { PollFlags::IN })];
        fds.extend(outs.iter().flatten().map(|pipe| PollFd::new(*pipe, PollFlags::IN)));
        fds.extend(feed.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        let is_ending = outs.iter().all(Option::is_none) && now < *awake_until.get_or_insert(now + AWAKE);
        if is_ending {
            thread::yield_now();
        }
        let wait = if is_ending { Duration::ZERO } else { TICK };
        // Interrupted or not, everything is looked at below.
        let _ = poll(&mut fds, Timespec::try_from(wait).ok().as_ref());
        let has_news = !fds[0].revents().is_empty();
        drop(fds);

        feed.push();
        for (at, source) in [(0, Source::Stdout), (1, Source::Stderr)] {
            let Some(pipe) = outs[at] else { continue };
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => outs[at] = None,
                Ok(read) => {
                    said += read as u64;
                    keeps[at].push(&buffer[..read]);
                    if let Some(heard) = heard.as_mut() {
                        heard(source, &buffer[..read]);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => outs[at] = None,
            }
        }
        if said > limits.most_output && stop.is_none() {
            stop = Some(Stop::begin(Why::Output, &running, now));
        }
        if has_news && over.is_none() && !lost {
            match wire::receive(&running.status) {
                Ok(Some((News::Over(told), _))) => over = Some(told),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => lost = true,
            }
            drain_until = (over.is_some() || lost).then(|| now + Duration::from_secs(2));
        }
    }
    let counted = running.cgroup.as_ref().map(cgroup::Lease::looks);
    if let (Some(_), Some(cgroup)) = (over, running.cgroup.take()) {
        // Its init has seen everything else end, and is ending itself.
        cgroup.let_go();
    }
    let ending = ending(stop.as_ref().map(|stop| stop.why), over, counted.as_ref());
    let [stdout, stderr] = keeps.map(Keep::finish);
    let usage = Usage {
        wall_ms: millis(running.started.elapsed()),
        cpu_ms: over.map_or(0, |over| over.cpu_ms),
        memory_peak: counted.and_then(|counted| counted.memory_peak).or(over.map(|over| over.memory_peak)),
    };
    Seen { ran: Ran { ending, stdout, stderr, receipt, usage, refused: Vec::new() }, is_empty: over.is_some() }
}

impl Stop {
    /// Asks politely, or not where there is nothing to be polite to.
    fn begin(why: Why, running: &Running<'_>, now: Instant) -> Self {
        let grace = match why {
            Why::Time | Why::Cancelled => running.job.limits.grace,
            Why::Output | Why::Pids => Duration::ZERO,
        };
        if !grace.is_zero() {
            // A job that is already gone needs no word.
            let _ = wire::send(&running.status, &Word::Terminate, &[]);
        }
        Self { why, kill_at: now + grace, killed: false }
    }

    /// Goes on with it. Says no when the room does not answer any more.
    fn press(&mut self, running: &Running<'_>, now: Instant) -> bool {
        if !self.killed && now >= self.kill_at {
            self.killed = true;
            let _ = wire::send(&running.status, &Word::Kill, &[]);
        }
        if now < self.kill_at + PATIENCE {
            return true;
        }
        // Its init does not answer; whoever is in the group ends, the init too.
        if let Some(cgroup) = &running.cgroup {
            let _ = cgroup.kill();
        }
        false
    }
}

/// What is still to be written to standard input. A job that never reads it blocks nobody.
struct Feed<'a> {
    pipe: Option<OwnedFd>,
    bytes: &'a [u8],
}

impl Feed<'_> {
    fn push(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        if !self.bytes.is_empty() {
            match rustix::io::write(pipe, self.bytes) {
                Ok(written) => self.bytes = &self.bytes[written..],
                Err(Errno::AGAIN | Errno::INTR) => return,
                // It does not read any more.
                Err(_) => self.bytes = &[],
            }
        }
        if self.bytes.is_empty() {
            self.pipe = None;
        }
    }
}

/// What it all amounts to. What the runtime wanted counts before what it looked like.
fn ending(why: Option<Why>, over: Option<Over>, counted: Option<&cgroup::Events>) -> Ending {
    let (oom, denied) = counted.map_or((0, 0), |counted| (counted.oom_kills, counted.pids_denied));
    let Some(over) = over else {
        // The kernel ends a group as a whole, and the init is in it.
        return if oom > 0 { Ending::OomKilled } else { Ending::RoomLost };
    };
    let failed = over.code != Some(0);
    match (why, over.breach) {
        (_, Some(Breach::Cpu)) => Ending::CpuLimit,
        (_, Some(Breach::Memory)) => Ending::OomKilled,
        (_, Some(Breach::Pids)) => Ending::PidsExhausted,
        (_, Some(Breach::Disk)) => Ending::DiskLimit,
        (Some(Why::Cancelled), None) => Ending::Cancelled,
        (Some(Why::Output), None) => Ending::OutputLimit,
        (Some(Why::Pids), None) => Ending::PidsExhausted,
        (Some(Why::Time), None) => Ending::TimedOut,
        (None, None) if oom > 0 => Ending::OomKilled,
        (None, None) if denied > 0 && failed => Ending::PidsExhausted,
        (None, None) => match (over.code, over.signal) {
            (Some(code), _) => Ending::Exited { code },
            (None, Some(libc::SIGXCPU)) => Ending::CpuLimit,
            (None, Some(libc::SIGXFSZ)) => Ending::DiskLimit,
            (None, Some(signal)) => Ending::Signaled { signal },
            (None, None) => Ending::RoomLost,
        },
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
