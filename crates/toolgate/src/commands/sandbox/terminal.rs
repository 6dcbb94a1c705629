//! A command on a terminal of its room, shown on the user's.

use std::{
    io::{self, Write as _, stdin, stdout},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};
use toolgate_contract::{Job, Ran, TerminalSize};
use toolgate_gate::Permit;
use toolgate_runtime::sandbox::{Room, RoomError};

use super::signals::Signals;

/// How often is looked whether a signal came.
const TICK: Duration = Duration::from_millis(100);
/// How much of what was typed is passed on at a time; between two pieces is read what the command says.
const PIECE: usize = 256;
/// How much that was typed may wait for a command that does not read.
const MOST_WAITING: usize = 64 * 1024;

/// Runs a command on a terminal until it ends, a signal comes or its time is up.
pub(super) fn run(
    room: &dyn Room,
    permit: &Permit,
    job: &Job,
    signals: &Signals,
    deadline: Option<Instant>,
) -> Result<Ran, RoomError> {
    let mut terminal = room.open_terminal(permit, job, size())?;
    let (input, mut output) = (stdin(), stdout());
    let raw = Raw::enter();
    let mut typed = Vec::new();
    loop {
        if signals.take_resized() {
            terminal.resize(size())?;
        }
        if signals.ends().is_some() || deadline.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let listens = if typed.len() < MOST_WAITING { PollFlags::IN } else { PollFlags::empty() };
        let speaks = if typed.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        let readiness = terminal.readiness();
        let mut fds = [PollFd::new(&input, listens), PollFd::new(&readiness, speaks)];
        // Interrupted or not, everything is looked at below.
        let _ = poll(&mut fds, Timespec::try_from(TICK).ok().as_ref());
        let (mine, theirs) = (fds[0].revents(), fds[1].revents());
        if mine.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !read_into(&input, &mut typed) {
            break;
        }
        if theirs.contains(PollFlags::OUT) {
            let piece: Vec<u8> = typed.drain(..typed.len().min(PIECE)).collect();
            // A command that has ended reads nothing; that it has is heard below.
            let _ = terminal.write(&piece);
        }
        if theirs.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            match terminal.read(Duration::ZERO)? {
                Some(bytes) => {
                    if output.write_all(&bytes).and_then(|()| output.flush()).is_err() {
                        break;
                    }
                }
                None => break,
            }
        }
    }
    let ended = terminal.end();
    drop(raw);
    ended
}

/// Adds what was typed. Says no when nobody can type any more.
fn read_into(input: &io::Stdin, typed: &mut Vec<u8>) -> bool {
    let mut bytes = [0; 4096];
    match rustix::io::read(input, &mut bytes) {
        Ok(0) => false,
        Ok(read) => {
            typed.extend_from_slice(&bytes[..read]);
            true
        }
        Err(Errno::AGAIN | Errno::INTR) => true,
        Err(_) => false,
    }
}

/// The size of the user's terminal, or the usual one where it has none.
fn size() -> TerminalSize {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => TerminalSize { rows: size.ws_row, columns: size.ws_col },
        _ => TerminalSize { rows: 24, columns: 80 },
    }
}

/// The user's terminal, passing on every key as it is. Dropping it, also in a panic, makes it as it was.
struct Raw(Option<Termios>);

impl Raw {
    /// A terminal that cannot be changed is used as it is.
    fn enter() -> Self {
        let Ok(before) = tcgetattr(stdin()) else { return Self(None) };
        let mut raw = before.clone();
        raw.make_raw();
        Self(tcsetattr(stdin(), OptionalActions::Drain, &raw).is_ok().then_some(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // There is nobody to tell, and nothing else to try.
            let _ = tcsetattr(stdin(), OptionalActions::Drain, before);
        }
    }
}
