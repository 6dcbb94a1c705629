//! One frame: a length, a kind, a channel, and bytes.
//!
//! ```text
//! 4 bytes   how long the body is, lowest byte first
//! 1 byte    the kind
//! 4 bytes   the channel, lowest byte first
//! ...       the body
//! ```
//!
//! Neither side trusts the other: what is too long or of no known kind is an error, and the link ends with it.

use std::io;

use serde::{Serialize, de::DeserializeOwned};

/// The longest body. The largest message between two processes fits in it.
pub(crate) const MOST_BODY: usize = 256 * 1024;
const HEAD: usize = 9;

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To the worker, once: the plan of the room. From it, once: what came of it.
    Open,
    /// To the worker: a job. The channel is new, and the job's from here on.
    Order,
    /// What runtime and job init say to each other.
    Say,
    /// To the worker: the new size of a terminal.
    Resize,
    /// Bytes of a stream; none is its end.
    Bytes(Stream),
    /// How many more bytes of a stream its sender may send.
    Credit(Stream),
    /// Whoever was on the other side of the channel is gone, and nothing follows.
    Gone,
    /// To the worker: is it there? From it: it is.
    Ping,
}

/// A stream of a job. On a terminal, what is typed and what is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdin,
    Stdout,
    Stderr,
}

impl Stream {
    const ALL: [Self; 3] = [Self::Stdin, Self::Stdout, Self::Stderr];
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Order => 1,
            Self::Say => 2,
            Self::Resize => 3,
            Self::Gone => 4,
            Self::Ping => 5,
            Self::Bytes(stream) => 0x10 + stream as u8,
            Self::Credit(stream) => 0x20 + stream as u8,
        }
    }

    fn of(number: u8) -> Option<Self> {
        let streams = Stream::ALL.into_iter().flat_map(|stream| [Self::Bytes(stream), Self::Credit(stream)]);
        [Self::Open, Self::Order, Self::Say, Self::Resize, Self::Gone, Self::Ping]
            .into_iter()
            .chain(streams)
            .find(|kind| kind.number() == number)
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) channel: u32,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: Kind, channel: u32, body: Vec<u8>) -> Self {
        Self { kind, channel, body }
    }

    /// A message as a frame.
    pub(crate) fn of(kind: Kind, channel: u32, message: &impl Serialize) -> io::Result<Self> {
        Ok(Self::new(kind, channel, serde_json::to_vec(message)?))
    }

    /// The message in a frame.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> io::Result<T> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// Puts the frame at the end of what is to be sent.
    pub(crate) fn write(&self, out: &mut impl Extend<u8>) -> io::Result<()> {
        if self.body.len() > MOST_BODY {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        out.extend((self.body.len() as u32).to_le_bytes());
        out.extend([self.kind.number()]);
        out.extend(self.channel.to_le_bytes());
        out.extend(self.body.iter().copied());
        Ok(())
    }

    /// Takes the first frame from what was received. `None`: it is not all there yet.
    pub(crate) fn take(received: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let Some((head, rest)) = received.split_at_checked(HEAD) else { return Ok(None) };
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, channel) = (number(0) as usize, number(5));
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if length > MOST_BODY {
            return Err(bad("a frame is too long"));
        }
        let kind = Kind::of(head[4]).ok_or_else(|| bad("a frame is of no known kind"))?;
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let frame = Self::new(kind, channel, body.to_vec());
        received.drain(..HEAD + length);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken from these bytes, and how many are left.
    fn check(bytes: &[u8], expected: Result<Option<Frame>, io::ErrorKind>, left: usize) {
        let mut received = bytes.to_vec();
        assert_eq!(Frame::take(&mut received).map_err(|error| error.kind()), expected);
        assert_eq!(received.len(), left);
    }

    #[test]
    fn what_is_written_is_read() {
        let streams = Stream::ALL.into_iter().flat_map(|stream| [Kind::Bytes(stream), Kind::Credit(stream)]);
        let others = [Kind::Open, Kind::Order, Kind::Say, Kind::Resize, Kind::Gone, Kind::Ping];
        for kind in others.into_iter().chain(streams) {
            let frame = Frame::new(kind, 0x0102_0304, b"abc".to_vec());
            let mut bytes = Vec::new();
            frame.write(&mut bytes).unwrap();
            check(&bytes, Ok(Some(frame.clone())), 0);
            for cut in 0..bytes.len() {
                check(&bytes[..cut], Ok(None), cut);
            }
            bytes.push(7);
            check(&bytes, Ok(Some(frame)), 1);
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error_before_its_body_is_there() {
        let too_long = (MOST_BODY as u32 + 1).to_le_bytes();
        check(&[&too_long[..], &[4, 0, 0, 0, 0]].concat(), Err(io::ErrorKind::InvalidData), 9);
        for kind in [6, 0x0F, 0x13, 0x23, 0xFF] {
            check(&[0, 0, 0, 0, kind, 0, 0, 0, 0], Err(io::ErrorKind::InvalidData), 9);
        }
        assert!(Frame::new(Kind::Say, 0, vec![0; MOST_BODY + 1]).write(&mut Vec::new()).is_err());
    }
}
