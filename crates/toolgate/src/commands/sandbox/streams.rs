//! Standard input, output and error of a command, passed through.
//!
//! What the room holds are the ends of pipes: no descriptor of the machine goes in, so nothing that is open here (a
//! terminal, a directory, a socket) can be used from inside.

use std::{
    cell::Cell,
    fs::File,
    io::{self, stderr, stdin, stdout},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use toolgate_runtime::sandbox::Source;

use super::signals::Signals;

/// The read end of a pipe that is fed from standard input.
pub(super) fn input() -> io::Result<OwnedFd> {
    let (theirs, ours) = io::pipe()?;
    let mut ours = File::from(OwnedFd::from(ours));
    // It ends with the process: nobody else can stop somebody who reads a terminal. A command that does not read to the
    // end is no error.
    thread::Builder::new().name("stdin".into()).spawn(move || io::copy(&mut stdin().lock(), &mut ours))?;
    Ok(theirs.into())
}

/// Passes on what a command says.
pub(super) struct Output<'a> {
    signals: &'a Signals,
    deadline: Option<Instant>,
    reader_left: Cell<bool>,
}

/// What a pipe takes without blocking once it says that it takes something.
const PIECE: usize = 4096;
/// How long a reader that takes nothing is waited for at a time.
const PAUSE: Duration = Duration::from_millis(100);

impl<'a> Output<'a> {
    pub(super) fn new(signals: &'a Signals, deadline: Option<Instant>) -> Self {
        Self { signals, deadline, reader_left: Cell::new(false) }
    }

    /// Writes it where it belongs. A reader that takes nothing holds up the command, but neither a signal nor the end
    /// of its time.
    pub(super) fn pass_on(&self, source: Source, bytes: &[u8]) {
        let written = match source {
            Source::Stdout => self.write(stdout().as_fd(), bytes),
            Source::Stderr => self.write(stderr().as_fd(), bytes),
        };
        if written.is_err() {
            self.reader_left.set(true);
        }
    }

    /// Nobody reads any more.
    pub(super) fn reader_left(&self) -> bool {
        self.reader_left.get()
    }

    fn write(&self, to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() && !self.reader_left() {
            let mut ready = [PollFd::new(&to, PollFlags::OUT)];
            let is_ready = poll(&mut ready, Timespec::try_from(PAUSE).ok().as_ref()).is_ok_and(|ready| ready > 0);
            if !is_ready {
                if self.signals.ends().is_some() || self.deadline.is_some_and(|until| Instant::now() >= until) {
                    return Ok(());
                }
                continue;
            }
            match rustix::io::write(to, &bytes[..bytes.len().min(PIECE)]) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
