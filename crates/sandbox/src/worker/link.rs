//! The runtime's side of a worker: a thread that moves what jobs and their callers have to say to each other.
//!
//! To whoever runs a job it looks as if the job were on this machine: a socket to its init, and pipes.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::{
    event::{EventfdFlags, eventfd},
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
};
use serde::{Deserialize, Serialize};
use toolgate_contract::TerminalSize;

use super::{
    frame::{Frame, Kind, Stream},
    inside::Inside,
    mux::{Channel, Happened, Mux},
};
use crate::process::wire::{self, News, Opened, Order, Plan, Word};

/// How long a worker may take to make its room.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How long a worker may take to say that it is there.
const HUNG: Duration = Duration::from_secs(5);
/// Whoever was heard so lately is there.
const LATELY: Duration = Duration::from_secs(2);
/// How many wishes wait for a worker that does not read. One more is refused.
const MOST_WISHES: usize = 128;

/// From the worker, once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) opened: Opened,
    pub(crate) inside: Inside,
}

/// A worker that takes jobs.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    next: AtomicU32,
}

#[derive(Debug)]
struct Shared {
    wishes: Mutex<VecDeque<Wish>>,
    wake: OwnedFd,
    ended: AtomicBool,
    /// When the worker last said anything but the bytes of a job.
    last: Mutex<Instant>,
    heard: Condvar,
}

#[derive(Debug)]
enum Wish {
    Add(u32, Channel, Frame),
    Send(Frame),
    End,
}

/// The ends of a job's streams that the job is to have.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// A job on a terminal.
#[derive(Debug)]
pub(crate) struct OnTerminal {
    /// Where its init speaks.
    pub(crate) status: OwnedFd,
    /// Reads and writes like the terminal.
    pub(crate) terminal: OwnedFd,
    /// Names it to [`Link::resize`].
    pub(crate) number: u32,
}

impl Link {
    /// Sends a worker its plan and waits for what comes of it.
    pub(crate) fn open(input: OwnedFd, output: OwnedFd, plan: &Plan) -> io::Result<(Self, Told)> {
        let mut mux = Mux::new(input, output)?;
        mux.send(&Frame::of(Kind::Open, 0, plan)?)?;
        let told = hear(&mut mux)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            wishes: Mutex::default(),
            wake,
            ended: AtomicBool::new(false),
            last: Mutex::new(Instant::now()),
            heard: Condvar::new(),
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("room-link".into()).spawn(move || {
            // Why it ended matters to nobody: every job on it is lost, and is told so by the end of its socket.
            if let Err(error) = of_thread.serve(mux) {
                tracing::debug!(%error, "the link to a worker broke");
            }
            of_thread.end();
        })?;
        Ok((Self { shared, thread: Mutex::new(Some(thread)), next: AtomicU32::new(1) }, told))
    }

    /// Starts a job on these streams, and gives the socket on which its init speaks.
    pub(crate) fn run(&self, order: &Order, streams: Streams) -> io::Result<OwnedFd> {
        let (status, theirs) = wire::pair()?;
        let channel = Channel::new(theirs)?
            .from(Stream::Stdin, streams.stdin)
            .to(Stream::Stdout, streams.stdout)?
            .to(Stream::Stderr, streams.stderr)?;
        self.begin(channel, order)?;
        Ok(status)
    }

    /// Starts a job on a terminal.
    pub(crate) fn open_terminal(&self, order: &Order) -> io::Result<OnTerminal> {
        let (status, theirs) = wire::pair()?;
        let (terminal, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let channel = Channel::new(theirs)?.from(Stream::Stdin, far.try_clone()?).to(Stream::Stdout, far)?;
        let number = self.begin(channel, order)?;
        Ok(OnTerminal { status, terminal, number })
    }

    fn begin(&self, channel: Channel, order: &Order) -> io::Result<u32> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let order = Frame::of(Kind::Order, number, order)?;
        if order.body.len() > wire::MOST_BYTES {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        self.shared.wish(Wish::Add(number, channel, order))?;
        Ok(number)
    }

    /// Changes the size of a terminal.
    pub(crate) fn resize(&self, terminal: u32, size: TerminalSize) -> io::Result<()> {
        self.shared.wish(Wish::Send(Frame::of(Kind::Resize, terminal, &size)?))
    }

    /// Is the worker there, as far as is known?
    fn is_alive(&self) -> bool {
        !self.shared.ended.load(Ordering::Acquire)
    }

    /// Does the worker answer? One that was heard lately is not asked.
    pub(crate) fn answers(&self) -> bool {
        let asked = Instant::now();
        let last = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < LATELY {
            return self.is_alive();
        }
        drop(last);
        // Where it is not even asked, it is not heard either.
        let _ = self.shared.wish(Wish::Send(Frame::new(Kind::Ping, 0, Vec::new())));
        let last = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_silent = |last: &mut Instant| *last < asked && self.is_alive();
        let waited = self.shared.heard.wait_timeout_while(last, HUNG, is_silent);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= asked && self.is_alive()
    }

    /// Closes the stream: the worker ends everything. Waits until this side is done with it.
    pub(crate) fn close(&self) {
        let _ = self.shared.wish(Wish::End);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

/// Waits for the worker's first word.
fn hear(mux: &mut Mux) -> io::Result<Told> {
    let until = Instant::now() + PATIENCE;
    loop {
        let happened = mux.turn(None, Some(until))?.ok_or(io::ErrorKind::UnexpectedEof)?;
        for happened in happened {
            if let Happened::Frame(frame) = happened
                && frame.kind == Kind::Open
            {
                return frame.read();
            }
        }
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

impl Shared {
    /// A wish nobody will hear is dropped, and whoever waits for what comes of it reads the end. Where too many wait
    /// already it is an error, but for the last one.
    fn wish(&self, wish: Wish) -> io::Result<()> {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        match wish {
            Wish::End => wishes.push_front(wish),
            _ if wishes.len() >= MOST_WISHES => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the worker does not read what it is sent"));
            }
            _ => wishes.push_back(wish),
        }
        // A counter that is full has been set before.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        Ok(())
    }

    fn end(&self) {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        self.ended.store(true, Ordering::Release);
        wishes.clear();
        drop(wishes);
        // Whoever waits for an answer looks again.
        let _last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.heard.notify_all();
    }

    fn note_that_it_spoke(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.heard.notify_all();
    }

    fn serve(&self, mut mux: Mux) -> io::Result<()> {
        while let Some(happened) = mux.turn(Some(self.wake.as_fd()), None)? {
            for happened in happened {
                match happened {
                    Happened::Awake => drop(rustix::io::read(&self.wake, &mut [0; 8])),
                    Happened::Spoken(number) => match mux.spoken::<Word>(number) {
                        Some((word, _)) => mux.send(&Frame::of(Kind::Say, number, &word)?)?,
                        // Whoever waited for the job does not any more.
                        None => {
                            mux.forget(number);
                            mux.send(&Frame::new(Kind::Gone, number, Vec::new()))?;
                        }
                    },
                    Happened::Frame(frame) => {
                        self.note_that_it_spoke();
                        hear_of(&mut mux, &frame)?;
                    }
                }
            }
            if !self.grant(&mut mux)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Does what was wished for, as far as the worker reads what it is sent: the rest waits. `false`: the end.
    fn grant(&self, mux: &mut Mux) -> io::Result<bool> {
        while let Some(wish) = self.next_wish(mux.takes_more()) {
            match wish {
                Wish::Add(number, channel, order) => {
                    mux.add(number, channel);
                    mux.send(&order)?;
                }
                Wish::Send(frame) => mux.send(&frame)?,
                Wish::End => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The first wish. That it is to end is heard at any time.
    fn next_wish(&self, any: bool) -> Option<Wish> {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        wishes.pop_front_if(|wish| any || matches!(wish, Wish::End))
    }
}

fn hear_of(mux: &mut Mux, frame: &Frame) -> io::Result<()> {
    match frame.kind {
        Kind::Say => mux.pass_on(frame.channel, &frame.read::<News>()?),
        Kind::Gone => mux.gone(frame.channel),
        Kind::Ping => {}
        Kind::Open | Kind::Order | Kind::Resize | Kind::Bytes(_) | Kind::Credit(_) => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame comes out of turn"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, os::unix::net::UnixStream};

    use super::*;

    /// A link to somebody who has said once that there is a room, and the end they would read and write.
    fn link() -> (Link, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let told = Told { opened: Opened::Probed, inside: Inside::default() };
        let mut said = Vec::new();
        Frame::of(Kind::Open, 0, &told).unwrap().write(&mut said).unwrap();
        io::Write::write_all(&mut &far, &said).unwrap();
        let plan = Plan {
            spec: crate::spec::RoomSpec::bare(),
            ground: wire::Ground::Container,
            private: "/home".into(),
            fence: crate::process::net::Fence::ORDINARY,
            bound: Vec::new(),
        };
        let (link, _) = Link::open(near.try_clone().unwrap().into(), near.into(), &plan).unwrap();
        (link, far)
    }

    /// Begins a job with a long command, and gives the socket of its caller.
    fn begin(link: &Link) -> io::Result<OwnedFd> {
        let order = Order {
            argv: vec!["x".repeat(100_000)],
            env: Vec::new(),
            root: "/".into(),
            cwd: ".".into(),
            terminal: None,
            memory_held: false,
            pids_held: false,
        };
        let nothing = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from);
        link.run(&order, Streams { stdin: nothing()?, stdout: nothing()?, stderr: nothing()? })
    }

    #[test]
    fn orders_wait_for_a_worker_that_does_not_read_and_no_more_than_so_many() {
        let (link, mut far) = link();
        let mut begun = Vec::new();
        let refused = loop {
            match begin(&link) {
                Ok(job) => begun.push(job),
                Err(error) => break error,
            }
            assert!(begun.len() < 2 * MOST_WISHES, "nothing is refused");
        };
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert!(begun.len() >= MOST_WISHES, "only {} waited", begun.len());
        // Whoever reads again is sent all that waited, each once.
        let (mut received, mut orders, mut buffer) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
        while orders.len() < begun.len() {
            let read = far.read(&mut buffer).unwrap();
            received.extend_from_slice(&buffer[..read]);
            while let Some(frame) = Frame::take(&mut received).unwrap() {
                orders.extend((frame.kind == Kind::Order).then_some(frame.channel));
            }
        }
        assert_eq!(orders, (1..=u32::try_from(begun.len()).unwrap()).collect::<Vec<_>>());
        begin(&link).unwrap();
    }

    #[test]
    fn a_link_that_is_not_read_ends_all_the_same() {
        let (link, _far) = link();
        let begun: Vec<_> = std::iter::from_fn(|| begin(&link).ok()).take(2 * MOST_WISHES).collect();
        link.close();
        for status in begun {
            assert!(wire::receive::<News>(&status).unwrap().is_none(), "whoever waits reads the end");
        }
    }
}
