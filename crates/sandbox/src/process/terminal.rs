//! A job on a terminal of its own.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};
use toolgate_contract::{Ending, JobLimits, Ran, Receipt, Stream, TerminalSize, Usage};

use super::{
    cgroup,
    room::Begun,
    supervise,
    wire::{self, News, Over, Word},
};
use crate::room::{RoomError, Terminal};

/// The most that is read at once.
const CHUNK: usize = 64 * 1024;
/// How long whoever types waits for a program that does not read.
const FULL: Duration = Duration::from_secs(2);

pub(crate) struct ProcessTerminal {
    status: OwnedFd,
    master: OwnedFd,
    cgroup: Option<cgroup::Lease>,
    receipt: Receipt,
    limits: JobLimits,
    started: Instant,
    /// The other side has hung up.
    ended: bool,
}

impl ProcessTerminal {
    pub(crate) fn new(begun: Begun, receipt: Receipt, limits: JobLimits) -> Result<Self, RoomError> {
        let Begun { status, fds, cgroup, started, .. } = begun;
        let lost = || RoomError::Lost("the job has no terminal".into());
        let master = fds.into_iter().next().ok_or_else(lost)?;
        let step = |error: Errno| RoomError::step("open the terminal")(error.into());
        let flags = fcntl_getfl(&master).map_err(step)?;
        fcntl_setfl(&master, flags | OFlags::NONBLOCK).map_err(step)?;
        Ok(Self { status, master, cgroup, receipt, limits, started, ended: false })
    }

    fn ready(&self, what: PollFlags, wait: Duration) -> bool {
        let mut fds = [PollFd::new(&self.master, what)];
        poll(&mut fds, Timespec::try_from(wait).ok().as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl Terminal for ProcessTerminal {
    fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    fn read(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, RoomError> {
        if self.ended {
            return Ok(None);
        }
        if !self.ready(PollFlags::IN, wait) {
            return Ok(Some(Vec::new()));
        }
        let mut bytes = vec![0; CHUNK];
        match rustix::io::read(&self.master, &mut bytes) {
            Ok(0) | Err(Errno::IO) => {
                // A terminal nobody has open any more answers with an error.
                self.ended = true;
                Ok(None)
            }
            Ok(read) => {
                bytes.truncate(read);
                Ok(Some(bytes))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Some(Vec::new())),
            Err(error) => Err(RoomError::step("read the terminal")(error.into())),
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), RoomError> {
        let until = Instant::now() + FULL;
        while !bytes.is_empty() {
            match rustix::io::write(&self.master, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if Instant::now() < until => {
                    self.ready(PollFlags::OUT, Duration::from_millis(50));
                }
                Err(Errno::IO | Errno::PIPE) => {
                    return Err(RoomError::Lost("the program on the terminal has ended".into()));
                }
                Err(error) => return Err(RoomError::step("type into the terminal")(error.into())),
            }
        }
        Ok(())
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    fn resize(&mut self, size: TerminalSize) -> Result<(), RoomError> {
        let size = rustix::termios::Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.master, size)
            .map_err(|error| RoomError::step("resize the terminal")(error.into()))
    }

    fn end(mut self: Box<Self>) -> Result<Ran, RoomError> {
        // A program that has hung up is about to say how it ended; any other is asked, then told.
        let pauses = [if self.ended { Duration::from_millis(500) } else { Duration::ZERO }, self.limits.grace, FULL];
        let words = [Some(Word::Terminate), Some(Word::Kill), None];
        let mut over = None;
        let mut asked = false;
        for (pause, word) in pauses.into_iter().zip(words) {
            over = self.hear(pause);
            if over.is_some() {
                break;
            }
            if let Some(word) = word {
                asked = true;
                // One that is gone is heard of in the next round.
                let _ = wire::send(&self.status, &word, &[]);
            }
        }
        let ending = match over {
            None => Ending::RoomLost,
            Some(_) if asked => Ending::Cancelled,
            Some(Over { code: Some(code), .. }) => Ending::Exited { code },
            Some(Over { signal, .. }) => Ending::Signaled { signal: signal.unwrap_or(0) },
        };
        let memory_peak = self.cgroup.as_ref().and_then(|cgroup| cgroup.looks().memory_peak);
        let usage = Usage {
            wall_ms: supervise::millis(self.started.elapsed()),
            cpu_ms: over.map_or(0, |over| over.cpu_ms),
            memory_peak,
        };
        let receipt = std::mem::take(&mut self.receipt);
        Ok(Ran { ending, stdout: Stream::default(), stderr: Stream::default(), receipt, usage, refused: Vec::new() })
    }
}

impl ProcessTerminal {
    /// Waits for the job's last word, and throws away what is still said on the terminal meanwhile: a program that
    /// cannot write does not end.
    fn hear(&mut self, wait: Duration) -> Option<Over> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.status, PollFlags::IN), PollFd::new(&self.master, PollFlags::IN)];
            let listen = if self.ended { &mut fds[..1] } else { &mut fds[..] };
            let ready = poll(listen, Timespec::try_from(left).ok().as_ref());
            let has_news = !fds[0].revents().is_empty();
            if has_news {
                return match wire::receive(&self.status) {
                    Ok(Some((News::Over(over), _))) => Some(over),
                    _ => None,
                };
            }
            if !self.ended {
                self.ended = matches!(rustix::io::read(&self.master, &mut [0; 4096]), Ok(0) | Err(Errno::IO));
            }
            if ready == Ok(0) || left.is_zero() {
                return None;
            }
        }
    }
}
