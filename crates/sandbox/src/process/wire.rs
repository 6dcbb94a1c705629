//! What runtime, zygote, keeper and job init say to each other: one JSON message a packet, with open descriptors.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use toolgate_contract::TerminalSize;

use super::{bound::Bound, net::Fence};
use crate::spec::{RoomSpec, Tier};

/// The largest message. The kernel's default for a socket's buffer holds it.
pub(crate) const MOST_BYTES: usize = 160 * 1024;
/// The most descriptors of one message.
const MOST_FDS: usize = 16;

/// To the zygote: make a room. Comes with the keeper's end of the room's socket. The answer is an empty message with a
/// handle on the keeper; without one where there is no keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) spec: RoomSpec,
    pub(crate) ground: Ground,
    /// A directory that is the room's own; nothing is in it unless the ground or the workspace needs it.
    pub(crate) private: PathBuf,
    /// Where the spec has an opening.
    pub(crate) fence: Fence,
    /// What somebody else was to mount, in a container.
    pub(crate) bound: Vec<Bound>,
}

/// What a keeper finds around it, and so what is left for it to put up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ground {
    /// The machine's own tree.
    Landlock,
    /// Namespaces of the room's own, in which it makes a tree.
    Namespaces,
    /// A container: namespaces and a tree that somebody else made. All jobs share them.
    Container,
}

impl From<Tier> for Ground {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Landlock => Self::Landlock,
            Tier::Namespaces => Self::Namespaces,
        }
    }
}

/// The ids of a room on the machine. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Ids {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// To a keeper that has been waiting: the room it is to keep. Comes with the room's socket, then with the mounts only
/// the machine's root can take hold of, in the order of the fields.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) plan: Plan,
    pub(crate) workspace: bool,
    pub(crate) private: bool,
    pub(crate) visible: bool,
}

/// From the keeper, once: there is a room.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Opened {
    /// It takes jobs, once its door is served. Comes with the listeners of the room's network, if it has any.
    Ready {
        /// What was looked at once everything was mounted.
        looked: Looked,
    },
    /// What must not work was tried through the door, and did not work.
    Probed,
    /// A step failed, and the keeper is gone.
    Failed(Failure),
}

/// What a keeper saw of the room it made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Looked {
    /// The root is read-only.
    pub(crate) root_read_only: bool,
    /// Every protected name is on a read-only mount.
    pub(crate) protected: bool,
    /// The Landlock version the rules are written in.
    pub(crate) landlock: u32,
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: String,
    pub(crate) errno: i32,
}

impl Failure {
    /// Names the step an error happened in.
    pub(crate) fn at<E: Into<io::Error>>(step: impl Into<String>) -> impl FnOnce(E) -> Self {
        let step = step.into();
        move |error| Self { step, errno: error.into().raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// To a keeper: run this. Comes with the job's own socket, its three streams (none with a terminal), and the files
/// through which it joins its cgroups.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Where to start: a directory of the room, and a path beneath it that no link leads out of.
    pub(crate) root: String,
    pub(crate) cwd: String,
    pub(crate) terminal: Option<TerminalSize>,
    /// A cgroup holds it to the room's limit.
    pub(crate) memory_held: bool,
    /// A cgroup holds it to the room's limit.
    pub(crate) pids_held: bool,
}

/// From a job's init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum News {
    /// The program runs. Comes with the terminal, if it has one.
    Started(Facts),
    /// Nothing ran.
    Failed(Failure),
    /// There is no such program.
    NoProgram,
    /// It is over, and every process it started is gone.
    Over(Over),
}

/// To a job's init. Closing the socket means: kill everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Word {
    /// Ask everything to end.
    Terminate,
    /// End everything.
    Kill,
}

/// What a job's process found about itself behind all its walls, before it became the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) uids: [u32; 3],
    pub(crate) gids: [u32; 3],
    pub(crate) capabilities: [u64; 3],
    pub(crate) no_new_privs: bool,
    pub(crate) seccomp: bool,
    /// A file no rule grants could not be opened.
    pub(crate) landlock: bool,
    /// The namespaces it is in, as `/proc/self/ns` names them.
    pub(crate) namespaces: Vec<(String, String)>,
    /// It joined every cgroup it was given.
    pub(crate) cgroups: usize,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Over {
    /// As `exit`, or none for a signal.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The limit it was ended for.
    pub(crate) breach: Option<Breach>,
    pub(crate) cpu_ms: u64,
    pub(crate) memory_peak: u64,
}

/// A limit that a job's init watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Breach {
    Cpu,
    Memory,
    Pids,
    Disk,
}

/// A pair of connected sockets that keep messages apart.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message.
pub(crate) fn send(socket: impl AsFd, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MOST_BYTES || fds.len() > MOST_FDS {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for one message. `None` when the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    // Looked at first, so that a message takes the memory it needs and not the memory the largest would need.
    let Some(length) = waiting(&socket)? else { return Ok(None) };
    let mut bytes = vec![0; length];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes[..received.bytes])?, fds)))
}

/// The length of the next message, once there is one.
fn waiting(socket: impl AsFd) -> io::Result<Option<usize>> {
    loop {
        match recv(&socket, &mut [0; 0][..], RecvFlags::PEEK | RecvFlags::TRUNC) {
            // Said once of one who left without hearing everything. What they said before that is still to be read.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            Err(error) => return Err(error.into()),
            Ok((_, 0)) => return Ok(None),
            Ok((_, length)) => return Ok(Some(length.min(MOST_BYTES))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_one_who_did_not_listen_is_heard() {
        let (ours, theirs) = pair().unwrap();
        send(&ours, &Word::Kill, &[]).unwrap();
        send(&theirs, &"over", &[]).unwrap();
        drop(theirs);
        let heard = || receive::<String>(&ours).unwrap().map(|(word, _)| word);
        assert_eq!((heard(), heard()), (Some("over".into()), None));
    }
}
