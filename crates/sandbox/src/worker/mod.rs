//! The worker: what a container runs instead of the program of its image.
//!
//! The runtime talks to it over its standard input and output, in frames (`frame.rs`), many jobs at a time (`mux.rs`).
//! The worker runs nothing itself. It starts a keeper, as the zygote of this machine would, and passes on orders and
//! answers between the two: so a job in a container has the same init and the same last walls as any other, and ends the
//! same way. When the stream from the runtime ends, however it ends, the worker ends everything and then itself.
//!
//! `link.rs` is the runtime's side of it.

mod frame;
mod furnish;
mod inside;
mod link;
mod log;
mod mux;
mod receipt;
mod room;

use std::{
    collections::BTreeMap,
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Instant,
};

use rustix::{
    net::sockopt::{Timeout, set_socket_timeout},
    pipe::{PipeFlags, pipe_with},
    process::{DumpableBehavior, set_dumpable_behavior},
};
use serde_json::json;
use toolgate_contract::TerminalSize;

use crate::{
    ids,
    process::{
        job, keeper,
        sys::{self, Forked},
        wire::{self, Breach, Failure, News, Opened, Order, Over, Plan, Word},
    },
};

use frame::{Frame, Kind, Stream};
use inside::{Counted, Inside};
use link::Told;
use mux::{Channel, Happened, Mux};

pub use furnish::{BESIDE, WITHIN, beside, within};
pub(crate) use receipt::OWN_PIDS;
pub use room::WorkerRoom;

/// The worker's whole life. Comes back when the stream has ended and nothing is left that it started. Only for a process
/// with one thread that has started nothing yet.
pub fn serve(input: OwnedFd, output: OwnedFd) -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // Whatever ends below it is gone at once, and is not taken for something that is left.
    sys::ignore_children()?;
    let mut mux = Mux::new(input, output)?;
    let served = match open(&mut mux) {
        Ok(Some(keeper)) => Worker { mux, keeper, terminals: BTreeMap::new(), begun: BTreeMap::new() }.work(),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    job::end_descendants();
    log::say(&json!({ "event": "ended", "well": served.is_ok() }));
    served
}

/// Waits for the plan, starts a keeper for it and says what came of it. `None`: nobody wants a room any more.
fn open(mux: &mut Mux) -> io::Result<Option<OwnedFd>> {
    let plan = loop {
        let Some(happened) = mux.turn(None, None)? else { return Ok(None) };
        if let Some(frame) = happened.into_iter().find_map(only_frame) {
            break frame.read::<Plan>()?;
        }
    };
    let (told, keeper) = match start_keeper(&plan, mux) {
        Ok((keeper, opened)) => (Told { opened, inside: Inside::look() }, Some(keeper)),
        Err(failure) => (Told { opened: Opened::Failed(failure), inside: Inside::default() }, None),
    };
    log::say(&match &told.opened {
        Opened::Failed(Failure { step, errno }) => json!({ "event": "room_failed", "step": step, "errno": errno }),
        Opened::Ready { .. } | Opened::Probed => json!({ "event": "room_made" }),
    });
    mux.send(&Frame::of(Kind::Open, 0, &told)?)?;
    match keeper {
        Some(keeper) => Ok(Some(keeper)),
        // There is nothing to be done but to be heard.
        None => {
            while mux.turn(None, None)?.is_some() {}
            Ok(None)
        }
    }
}

fn only_frame(happened: Happened) -> Option<Frame> {
    match happened {
        Happened::Frame(frame) if frame.kind == Kind::Open => Some(frame),
        Happened::Frame(_) | Happened::Spoken(_) | Happened::Awake => None,
    }
}

fn start_keeper(plan: &Plan, mux: &mut Mux) -> Result<(OwnedFd, Opened), Failure> {
    furnish(&plan.private).map_err(Failure::at("make the home of the room"))?;
    let (ours, theirs) = wire::pair().map_err(Failure::at("make a socket"))?;
    set_socket_timeout(&ours, Timeout::Recv, Some(link::PATIENCE)).map_err(Failure::at("make a socket"))?;
    // Worked out here and inherited: behind the walls there is no way to ask the kernel for them.
    let _ = (rustix::param::page_size(), rustix::param::clock_ticks_per_second());
    let forked = sys::fork_into(0).map_err(Failure::at("start the keeper"))?;
    if let Forked::Child = forked {
        drop(ours);
        leave_the_stream(mux);
        keeper::keep_in_container(plan, &theirs)
    }
    // From here on there are jobs, and what they may look into is not this process.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Failure::at("close /proc/self"))?;
    drop(theirs);
    let answer = wire::receive(&ours).map_err(Failure::at("hear from the keeper"))?;
    let ended = || Failure { step: "hear from the keeper".into(), errno: libc::EPIPE };
    let (opened, _) = answer.ok_or_else(ended)?;
    Ok((ours, opened))
}

/// A home for jobs, and beside it a file that none of them may write.
fn furnish(private: &Path) -> io::Result<()> {
    let home = private.join(keeper::CONTAINER_HOME);
    match fs::create_dir(&home) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => fs::write(private.join(keeper::CANARY), "")?,
    }
    Ok(())
}

/// Nothing below the keeper may speak in the worker's name, or keep its stream open.
fn leave_the_stream(mux: &mut Mux) {
    let _ = mux.let_go();
    let nothing = || rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty());
    let _ = nothing().and_then(rustix::stdio::dup2_stdin);
    let _ = nothing().and_then(rustix::stdio::dup2_stdout);
    let _ = nothing().and_then(rustix::stdio::dup2_stderr);
}

struct Worker {
    mux: Mux,
    keeper: OwnedFd,
    terminals: BTreeMap<u32, OwnedFd>,
    /// Of every job that has not ended.
    begun: BTreeMap<u32, Begun>,
}

struct Begun {
    at: Instant,
    /// How often limits had been met by then.
    counted: Counted,
}

impl Worker {
    fn work(mut self) -> io::Result<()> {
        let keeper = self.keeper.try_clone()?;
        while let Some(happened) = self.mux.turn(Some(keeper.as_fd()), None)? {
            for happened in happened {
                match happened {
                    Happened::Frame(frame) => self.obey(&frame)?,
                    Happened::Spoken(number) => self.listen(number)?,
                    // The keeper never speaks; it has ended, and the room with it.
                    Happened::Awake => return Ok(()),
                }
            }
        }
        Ok(())
    }

    fn obey(&mut self, frame: &Frame) -> io::Result<()> {
        let number = frame.channel;
        match frame.kind {
            Kind::Order => {
                if let Err(error) = self.begin(number, &frame.read()?) {
                    let failure = Failure::at("pass on the order")(error);
                    self.mux.send(&Frame::of(Kind::Say, number, &News::Failed(failure))?)?;
                    self.mux.send(&Frame::new(Kind::Gone, number, Vec::new()))?;
                }
            }
            Kind::Say => self.mux.pass_on(number, &frame.read::<Word>()?),
            Kind::Resize => {
                if let Some(terminal) = self.terminals.get(&number) {
                    // A terminal whose program has ended has no size.
                    let _ = rustix::termios::tcsetwinsize(terminal, winsize(frame.read()?));
                }
            }
            Kind::Ping => self.mux.send(&Frame::new(Kind::Ping, 0, Vec::new()))?,
            // Nobody waits for the job: its init reads the end, and ends it.
            Kind::Gone => self.forget(number),
            Kind::Open | Kind::Bytes(_) | Kind::Credit(_) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame comes out of turn"));
            }
        }
        Ok(())
    }

    /// Passes an order to the keeper, with the ends of the job's streams.
    fn begin(&mut self, number: u32, order: &Order) -> io::Result<()> {
        let (status, inits_end) = wire::pair()?;
        let mut channel = Channel::new(status)?;
        let mut theirs = vec![inits_end];
        if order.terminal.is_none() {
            let (stdin, feed) = pipe_with(PipeFlags::CLOEXEC)?;
            let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
            let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
            channel = channel.to(Stream::Stdin, feed)?.from(Stream::Stdout, stdout).from(Stream::Stderr, stderr);
            theirs.extend([stdin, their_stdout, their_stderr]);
        }
        let fds: Vec<BorrowedFd<'_>> = theirs.iter().map(AsFd::as_fd).collect();
        wire::send(&self.keeper, order, &fds)?;
        self.begun.insert(number, Begun { at: Instant::now(), counted: Counted::now() });
        let request = order.env.iter().find(|(name, _)| name == ids::REQUEST_ID).map(|(_, value)| value);
        log::say(&json!({ "event": "job_began", "job": number, "request": request }));
        self.mux.add(number, channel);
        Ok(())
    }

    /// Passes on what the init of a job says.
    fn listen(&mut self, number: u32) -> io::Result<()> {
        let Some((news, fds)) = self.mux.spoken::<News>(number) else {
            self.terminals.remove(&number);
            self.note_that_it_is_gone(number);
            return self.mux.send(&Frame::new(Kind::Gone, number, Vec::new()));
        };
        if let (Some(master), Some(channel)) = (fds.into_iter().next(), self.mux.channel(number)) {
            channel.begins(Stream::Stdout, master.try_clone()?);
            channel.ends(Stream::Stdin, master.try_clone()?)?;
            self.terminals.insert(number, master);
        }
        let news = match news {
            News::Over(over) => News::Over(self.end(number, over)),
            News::Started(facts) => News::Started(facts),
            nothing_ran => {
                self.begun.remove(&number);
                log::say(&json!({ "event": "job_failed", "job": number }));
                nothing_ran
            }
        };
        self.mux.send(&Frame::of(Kind::Say, number, &news)?)
    }

    fn end(&mut self, number: u32, over: Over) -> Over {
        let Some(begun) = self.begun.remove(&number) else { return over };
        let over = Self::explained(begun.counted, over);
        let Over { code, signal, breach, cpu_ms, .. } = over;
        let wall_ms = begun.at.elapsed().as_millis() as u64;
        log::say(&json!({
            "event": "job_ended", "job": number, "code": code, "signal": signal, "limit": breach, "wall_ms": wall_ms,
            "cpu_ms": cpu_ms,
        }));
        over
    }

    /// A job that failed while the container came up against a limit failed for that. What the kernel kills because
    /// memory has run out looks like any other that was killed.
    fn explained(before: Counted, over: Over) -> Over {
        let now = Counted::now();
        let met = match over.code {
            Some(0) => None,
            _ if now.memory > before.memory => Some(Breach::Memory),
            _ if now.pids > before.pids => Some(Breach::Pids),
            _ => None,
        };
        Over { breach: over.breach.or(met), ..over }
    }

    fn forget(&mut self, number: u32) {
        self.mux.forget(number);
        self.terminals.remove(&number);
        self.note_that_it_is_gone(number);
    }

    /// Nobody has said how the job ended, or nobody wants to know.
    fn note_that_it_is_gone(&mut self, number: u32) {
        if self.begun.remove(&number).is_some() {
            log::say(&json!({ "event": "job_gone", "job": number }));
        }
    }
}

fn winsize(size: TerminalSize) -> rustix::termios::Winsize {
    rustix::termios::Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}
