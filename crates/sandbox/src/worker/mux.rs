//! Many jobs over one stream of bytes.
//!
//! Both sides of a link look the same: for each job there is a socket on which somebody speaks about it, and pipes its
//! bytes come from or go to. Whatever is said or written here is said or written there. A stream is read here only as
//! far as the other side has room for it ([`WINDOW`]), so a job nobody listens to stops itself and no other job; whoever
//! sends more than that breaks the link.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    net::{Shutdown, shutdown},
};
use serde::{Serialize, de::DeserializeOwned};

use super::frame::{Frame, Kind, Stream};
use crate::process::wire;

/// How many bytes of a stream may be on their way.
pub(crate) const WINDOW: usize = 256 * 1024;
/// The most that is read at once.
const CHUNK: usize = 32 * 1024;
/// While this much is waiting to be sent, no stream is read, nobody is listened to, and nothing new is begun.
const MOST_UNSENT: usize = 512 * 1024;
/// Whoever has this much sent to them and does not read it is taken for gone.
const MOST_EVER: usize = 8 << 20;

/// One side of a link.
pub(crate) struct Mux {
    input: OwnedFd,
    output: OwnedFd,
    received: Vec<u8>,
    unsent: VecDeque<u8>,
    channels: BTreeMap<u32, Channel>,
}

/// What belongs to one job.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Where somebody speaks about the job. None once they are gone.
    status: Option<OwnedFd>,
    from: Vec<From>,
    to: Vec<To>,
}

/// A stream that begins here.
#[derive(Debug)]
struct From {
    stream: Stream,
    fd: OwnedFd,
    credit: usize,
}

/// A stream that ends here.
#[derive(Debug)]
struct To {
    stream: Stream,
    /// None: nobody reads it any more, and what comes is thrown away.
    fd: Option<OwnedFd>,
    unwritten: VecDeque<u8>,
    ended: bool,
}

/// What a side has to deal with itself.
#[derive(Debug)]
pub(crate) enum Happened {
    /// A frame that is not about the bytes of a stream.
    Frame(Frame),
    /// Somebody spoke on the socket of this channel.
    Spoken(u32),
    /// The other descriptor is ready.
    Awake,
}

impl Channel {
    pub(crate) fn new(status: OwnedFd) -> io::Result<Self> {
        // A message nobody takes must not hold up the others.
        unblock(&status)?;
        Ok(Self { status: Some(status), ..Self::default() })
    }

    /// Sends what is read here.
    pub(crate) fn from(mut self, stream: Stream, fd: OwnedFd) -> Self {
        self.begins(stream, fd);
        self
    }

    /// Writes here what comes.
    pub(crate) fn to(mut self, stream: Stream, fd: OwnedFd) -> io::Result<Self> {
        self.ends(stream, fd)?;
        Ok(self)
    }

    pub(crate) fn begins(&mut self, stream: Stream, fd: OwnedFd) {
        self.from.push(From { stream, fd, credit: WINDOW });
    }

    pub(crate) fn ends(&mut self, stream: Stream, fd: OwnedFd) -> io::Result<()> {
        unblock(&fd)?;
        self.to.push(To { stream, fd: Some(fd), unwritten: VecDeque::new(), ended: false });
        Ok(())
    }

    /// Is there nothing left to be done for it?
    fn is_over(&self) -> bool {
        let has_ended = |to: &To| to.ended && to.unwritten.is_empty();
        self.status.is_none() && self.from.is_empty() && self.to.iter().all(has_ended)
    }
}

impl Mux {
    pub(crate) fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        unblock(&input)?;
        unblock(&output)?;
        Ok(Self { input, output, received: Vec::new(), unsent: VecDeque::new(), channels: BTreeMap::new() })
    }

    pub(crate) fn add(&mut self, number: u32, channel: Channel) {
        self.channels.insert(number, channel);
    }

    pub(crate) fn channel(&mut self, number: u32) -> Option<&mut Channel> {
        self.channels.get_mut(&number)
    }

    /// Has what is sent now a chance to be read soon?
    pub(crate) fn takes_more(&self) -> bool {
        self.unsent.len() < MOST_UNSENT
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> io::Result<()> {
        if self.unsent.len() > MOST_EVER {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side does not read"));
        }
        frame.write(&mut self.unsent)
    }

    /// From here on the link is none of this process's business: it has just been copied from the one whose it is.
    pub(crate) fn let_go(&mut self) -> io::Result<()> {
        let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        self.input = nothing.try_clone()?;
        self.output = nothing;
        Ok(())
    }

    /// Waits until something happens on the link, in a channel, or on `other`, or until it is late. `None`: the link has
    /// ended.
    pub(crate) fn turn(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        until: Option<Instant>,
    ) -> io::Result<Option<Vec<Happened>>> {
        let mut happened = Vec::new();
        self.read_frames(&mut happened)?;
        if !happened.is_empty() {
            return Ok(Some(happened));
        }
        let ready = self.wait(other, until)?;
        // What is wished for on this side was wished for before the bytes that are there now: it is sent before them.
        let is_awake = ready.iter().any(|(at, _)| matches!(at, At::Other));
        for (at, events) in ready {
            match at {
                At::Input if !self.receive(&mut happened)? => return Ok(None),
                At::Input => {}
                At::Output => self.flush()?,
                At::Other => happened.push(Happened::Awake),
                At::Status(number) => happened.push(Happened::Spoken(number)),
                At::From(..) if is_awake || !self.takes_more() => {}
                At::From(number, stream) => self.forward(number, stream)?,
                At::To(number, stream) => self.deliver(number, stream, events)?,
            }
        }
        // What was just said is on its way before anybody waits again.
        self.flush()?;
        Ok(Some(happened))
    }

    fn wait(&self, other: Option<BorrowedFd<'_>>, until: Option<Instant>) -> io::Result<Vec<(At, PollFlags)>> {
        let mut places = vec![At::Input];
        let mut fds = vec![PollFd::new(&self.input, PollFlags::IN)];
        if let Some(other) = other {
            places.push(At::Other);
            fds.push(PollFd::from_borrowed_fd(other, PollFlags::IN));
        }
        if !self.unsent.is_empty() {
            places.push(At::Output);
            fds.push(PollFd::new(&self.output, PollFlags::OUT));
        }
        let takes = self.takes_more();
        for (&number, channel) in &self.channels {
            if let Some(status) = channel.status.as_ref().filter(|_| takes) {
                places.push(At::Status(number));
                fds.push(PollFd::new(status, PollFlags::IN));
            }
            for from in channel.from.iter().filter(|from| takes && from.credit > 0) {
                places.push(At::From(number, from.stream));
                fds.push(PollFd::new(&from.fd, PollFlags::IN));
            }
            for to in channel.to.iter().filter(|to| !to.unwritten.is_empty()) {
                if let Some(fd) = &to.fd {
                    places.push(At::To(number, to.stream));
                    fds.push(PollFd::new(fd, PollFlags::OUT));
                }
            }
        }
        let wait = until.and_then(|until| Timespec::try_from(until.saturating_duration_since(Instant::now())).ok());
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events: Vec<_> = fds.iter().map(PollFd::revents).collect();
        Ok(places.into_iter().zip(events).filter(|(_, events)| !events.is_empty()).collect())
    }

    /// Reads the link. `false`: it has ended.
    fn receive(&mut self, happened: &mut Vec<Happened>) -> io::Result<bool> {
        let mut buffer = [0; CHUNK];
        match rustix::io::read(&self.input, &mut buffer) {
            Ok(0) => return Ok(false),
            Ok(read) => self.received.extend_from_slice(&buffer[..read]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.read_frames(happened)?;
        Ok(true)
    }

    /// Deals with what was received, up to the first frame that is not for this file: what follows it may depend on it.
    fn read_frames(&mut self, happened: &mut Vec<Happened>) -> io::Result<()> {
        while let Some(frame) = Frame::take(&mut self.received)? {
            match frame.kind {
                Kind::Bytes(stream) => self.take(frame.channel, stream, &frame.body)?,
                Kind::Credit(stream) => self.allow(frame.channel, stream, &frame.body)?,
                Kind::Open | Kind::Order | Kind::Say | Kind::Resize | Kind::Gone | Kind::Ping => {
                    happened.push(Happened::Frame(frame));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends what can be sent without waiting.
    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match rustix::io::write(&self.output, self.unsent.as_slices().0) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Bytes came for a stream that ends here.
    fn take(&mut self, number: u32, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        // A channel that is over here may still be at work there.
        let Some(channel) = self.channels.get_mut(&number) else { return Ok(()) };
        let Some(to) = channel.to.iter_mut().find(|to| to.stream == stream) else { return Ok(()) };
        if to.unwritten.len() + bytes.len() > WINDOW {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more was sent than there was room for"));
        }
        to.ended |= bytes.is_empty();
        to.unwritten.extend(bytes);
        self.deliver(number, stream, PollFlags::OUT)
    }

    fn allow(&mut self, number: u32, stream: Stream, body: &[u8]) -> io::Result<()> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "a credit is a number");
        let more = u32::from_le_bytes(body.try_into().map_err(|_| bad())?) as usize;
        if let Some(channel) = self.channels.get_mut(&number)
            && let Some(from) = channel.from.iter_mut().find(|from| from.stream == stream)
        {
            from.credit = from.credit.saturating_add(more).min(WINDOW);
        }
        Ok(())
    }

    /// Reads a stream that begins here and sends what was read.
    fn forward(&mut self, number: u32, stream: Stream) -> io::Result<()> {
        let Some(channel) = self.channels.get_mut(&number) else { return Ok(()) };
        let Some(at) = channel.from.iter().position(|from| from.stream == stream) else { return Ok(()) };
        let from = &mut channel.from[at];
        let mut bytes = vec![0; CHUNK.min(from.credit)];
        match rustix::io::read(&from.fd, &mut bytes) {
            Ok(read) if read > 0 => {
                bytes.truncate(read);
                from.credit -= read;
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            // A terminal nobody has open any more answers with an error.
            Ok(_) | Err(_) => {
                bytes.clear();
                channel.from.remove(at);
            }
        }
        self.send(&Frame::new(Kind::Bytes(stream), number, bytes))?;
        self.forget_if_over(number);
        Ok(())
    }

    /// Writes what came for a stream that ends here, and says how much more may come.
    fn deliver(&mut self, number: u32, stream: Stream, events: PollFlags) -> io::Result<()> {
        let Some(channel) = self.channels.get_mut(&number) else { return Ok(()) };
        let Some(to) = channel.to.iter_mut().find(|to| to.stream == stream) else { return Ok(()) };
        let written = to.write(events);
        if written > 0 {
            let body = (written as u32).to_le_bytes().to_vec();
            self.send(&Frame::new(Kind::Credit(stream), number, body))?;
        }
        self.forget_if_over(number);
        Ok(())
    }

    /// Takes what was said on the socket of a channel. `None`: nobody is there any more. What they left to be read is
    /// still sent.
    pub(crate) fn spoken<T: DeserializeOwned>(&mut self, number: u32) -> Option<(T, Vec<OwnedFd>)> {
        let channel = self.channels.get_mut(&number)?;
        if let Ok(Some(said)) = wire::receive(channel.status.as_ref()?) {
            return Some(said);
        }
        channel.status = None;
        channel.to.clear();
        self.forget_if_over(number);
        None
    }

    /// Passes on what the other side said, to whoever holds the channel's socket here.
    pub(crate) fn pass_on(&mut self, number: u32, message: &impl Serialize) {
        if let Some(status) = self.channels.get(&number).and_then(|channel| channel.status.as_ref()) {
            // One who is gone may have left a last word, which is read before their end is.
            let _ = wire::send(status, message, &[]);
        }
    }

    /// Whoever spoke on the other side is gone. What they left to be read is still delivered.
    pub(crate) fn gone(&mut self, number: u32) {
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.status = None;
            channel.from.clear();
        }
        self.forget_if_over(number);
    }

    /// Lets go of a channel at once, with everything that belongs to it.
    pub(crate) fn forget(&mut self, number: u32) {
        self.channels.remove(&number);
    }

    fn forget_if_over(&mut self, number: u32) {
        if self.channels.get(&number).is_some_and(Channel::is_over) {
            self.forget(number);
        }
    }
}

impl To {
    /// Writes what can be written without waiting, and gives how much room that made.
    fn write(&mut self, events: PollFlags) -> usize {
        let before = self.unwritten.len();
        if events.contains(PollFlags::ERR) {
            self.fd = None;
        }
        while let Some(fd) = &self.fd
            && !self.unwritten.is_empty()
        {
            match rustix::io::write(fd, self.unwritten.as_slices().0) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // It is not read any more.
                Err(_) => self.fd = None,
            }
        }
        if self.fd.is_none() {
            self.unwritten.clear();
        }
        if self.ended
            && self.unwritten.is_empty()
            && let Some(fd) = self.fd.take()
        {
            // A terminal's socket is open twice here; whoever reads it is told all the same.
            let _ = shutdown(&fd, Shutdown::Write);
        }
        before - self.unwritten.len()
    }
}

/// Where something happened.
#[derive(Debug, Clone, Copy)]
enum At {
    Input,
    Output,
    Other,
    Status(u32),
    From(u32, Stream),
    To(u32, Stream),
}

fn unblock(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    Ok(fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use rustix::pipe::pipe;

    use super::*;

    /// A side of a link, what is written to it, and what it writes.
    fn side() -> (Mux, OwnedFd, OwnedFd) {
        let (input, to_it) = pipe().unwrap();
        let (from_it, output) = pipe().unwrap();
        (Mux::new(input, output).unwrap(), to_it, from_it)
    }

    /// Sends these frames at once.
    fn send(to: &OwnedFd, frames: &[Frame]) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut bytes).unwrap());
        assert_eq!(rustix::io::write(to, &bytes), Ok(bytes.len()));
    }

    fn bytes(length: usize) -> Frame {
        Frame::new(Kind::Bytes(Stream::Stdin), 1, vec![b'x'; length])
    }

    /// The frame that happened, and nothing else.
    fn only(happened: Option<Vec<Happened>>) -> Frame {
        let Ok([Happened::Frame(frame)]) = <[Happened; 1]>::try_from(happened.unwrap()) else {
            panic!("something else happened")
        };
        frame
    }

    #[test]
    fn a_word_to_one_who_is_gone_does_not_cost_their_last() {
        let (mut mux, _to_it, _from_it) = side();
        for heard in [true, false] {
            let (status, theirs) = wire::pair().unwrap();
            mux.add(1, Channel::new(status).unwrap());
            if !heard {
                // It comes while they are there, and they leave without it.
                mux.pass_on(1, &"kill");
            }
            wire::send(&theirs, &"over", &[]).unwrap();
            drop(theirs);
            mux.pass_on(1, &"kill");
            assert_eq!(mux.spoken::<String>(1).map(|(word, _)| word).as_deref(), Some("over"));
            assert!(mux.spoken::<String>(1).is_none());
        }
    }

    #[test]
    fn what_follows_an_order_waits_for_it() {
        let (mut mux, to_it, _from_it) = side();
        let order = Frame::new(Kind::Order, 1, Vec::new());
        let gone = Frame::new(Kind::Gone, 1, Vec::new());
        send(&to_it, &[order.clone(), bytes(3), gone.clone()]);
        assert_eq!(only(mux.turn(None, None).unwrap()), order);
        let (status, _theirs) = wire::pair().unwrap();
        let (job, feed) = pipe().unwrap();
        mux.add(1, Channel::new(status).unwrap().to(Stream::Stdin, feed).unwrap());
        assert_eq!(only(mux.turn(None, None).unwrap()), gone);
        let mut read = [0; 8];
        assert_eq!(rustix::io::read(&job, &mut read), Ok(3));
        assert_eq!(&read[..3], b"xxx");
    }

    #[test]
    fn whoever_sends_more_than_there_is_room_for_breaks_the_link() {
        let (mut mux, to_it, _from_it) = side();
        let (status, _theirs) = wire::pair().unwrap();
        // A pipe takes 64 KiB and nobody reads it.
        let (_job, feed) = pipe().unwrap();
        mux.add(1, Channel::new(status).unwrap().to(Stream::Stdin, feed).unwrap());
        let mut sent = 0;
        let broke = loop {
            send(&to_it, &[bytes(CHUNK)]);
            sent += CHUNK;
            // A frame is longer than what is read at once.
            match mux.turn(None, None).and_then(|_| mux.turn(None, Some(Instant::now()))) {
                Ok(_) => assert!(sent <= WINDOW + 64 * 1024, "{sent} bytes were taken"),
                Err(error) => break error,
            }
        };
        assert_eq!(broke.kind(), io::ErrorKind::InvalidData);
        assert!(sent > WINDOW, "only {sent} bytes were taken");
    }

    #[test]
    fn a_stream_is_read_only_as_far_as_there_is_room_for_it() {
        let (mut mux, to_it, from_it) = side();
        let (status, _theirs) = wire::pair().unwrap();
        let endless = std::fs::File::open("/dev/zero").unwrap();
        mux.add(1, Channel::new(status).unwrap().from(Stream::Stdout, endless.into()));
        let mut read = 0;
        let mut drain = |mux: &mut Mux| {
            let mut buffer = vec![0; 1 << 20];
            for _ in 0..100 {
                mux.turn(None, Some(Instant::now())).unwrap();
                let mut fds = [PollFd::new(&from_it, PollFlags::IN)];
                if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1) {
                    read += rustix::io::read(&from_it, &mut buffer).unwrap();
                }
            }
            read
        };
        // A head for each of the eight frames.
        assert_eq!(drain(&mut mux), WINDOW + 9 * WINDOW / CHUNK);
        send(&to_it, &[Frame::new(Kind::Credit(Stream::Stdout), 1, 5_u32.to_le_bytes().to_vec())]);
        assert_eq!(drain(&mut mux), WINDOW + 9 * WINDOW / CHUNK + 9 + 5);
    }

    #[test]
    fn many_streams_that_nobody_reads_are_read_no_further_than_one() {
        let (mut mux, _to_it, _from_it) = side();
        let (status, _theirs) = wire::pair().unwrap();
        mux.add(0, Channel::new(status).unwrap());
        for number in 1..=64 {
            let endless = std::fs::File::open("/dev/zero").unwrap();
            mux.add(number, Channel::default().from(Stream::Stdout, endless.into()));
        }
        for _ in 0..100 {
            mux.turn(None, Some(Instant::now())).unwrap();
        }
        assert!(!mux.takes_more());
        assert!(mux.unsent.len() < MOST_UNSENT + 2 * CHUNK, "{} bytes wait", mux.unsent.len());
    }

    #[test]
    fn one_who_asks_and_does_not_listen_is_taken_for_gone() {
        let (mut mux, _to_it, _from_it) = side();
        let answer = Frame::new(Kind::Say, 1, vec![b'x'; CHUNK]);
        let sent = (0..1_000).take_while(|_| mux.send(&answer).is_ok()).count();
        assert!(sent * CHUNK >= MOST_EVER, "only {sent} answers were kept");
        assert!(mux.unsent.len() < MOST_EVER + 2 * CHUNK, "{} bytes wait", mux.unsent.len());
    }
}
