//! Puts up the network of a container, for the runtime that serves its door.
//!
//! The container cannot do it itself: nobody in it has the right to. Whoever has goes there, from a container beside it
//! that shares its network ([`beside`]) or from the machine ([`within`]), puts up the fence, binds the sockets of the
//! door, gives up every right and hands the sockets to the runtime. It answers to nobody else: it listens on nothing but
//! those sockets, and what it says to the runtime goes over a socket that is not in the container.

use std::{
    fs, io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

use rustix::{
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
    process::{DumpableBehavior, set_dumpable_behavior},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use serde_json::json;

use super::{inside::interfaces, log};
use crate::process::{
    job, net,
    wire::{self, Failure, Ground},
};

/// The first argument of a worker that is to go [`beside`] a container.
pub const BESIDE: &str = "beside";
/// The first argument of a worker that is to go [`within`] one.
pub const WITHIN: &str = "within";

/// The whole life of a sidecar: furnishes the network it shares with a container, and stays until the runtime behind
/// `control` is gone. The runtime knows by its end that it has ended.
pub fn beside(control: &Path) -> io::Result<()> {
    let address = SocketAddrUnix::new(control)?;
    let control = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect(&control, &address)?;
    answer(&control)?;
    while wire::receive::<()>(&control)?.is_some() {}
    log::say(&json!({ "event": "ended" }));
    Ok(())
}

/// Goes into this network and furnishes it, for the runtime behind `control`. Only for a process with one thread.
pub fn within(control: &OwnedFd, network: &OwnedFd) -> io::Result<()> {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
    answer(control)
}

/// Takes the one order there is and says what came of it.
fn answer(control: &OwnedFd) -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let Some((fence, _)) = wire::receive(control)? else { return Ok(()) };
    let furnished = furnish(fence);
    log::say(&match &furnished {
        Ok(sockets) => json!({ "event": "furnished", "sockets": sockets.len() }),
        Err(Failure { step, errno }) => json!({ "event": "furnish_failed", "step": step, "errno": errno }),
    });
    let fds: Vec<_> = furnished.iter().flatten().map(|socket| socket.as_fd()).collect();
    wire::send(control, &furnished.as_ref().map(|_| ()), &fds)
}

fn furnish(fence: net::Fence) -> Result<Vec<OwnedFd>, Failure> {
    const ALONE: &str = "find the network of a container, with no way out";
    // Were it another network, the fence would cut off whoever else is in it.
    let devices = fs::read_to_string("/proc/self/net/dev").map_err(Failure::at(ALONE))?;
    if interfaces(&devices) != ["lo"] {
        return Err(Failure { step: ALONE.into(), errno: libc::ENOTUNIQ });
    }
    let sockets = net::with_door(fence).map_err(Failure::at("fence the network"))?;
    // What is done is done for good: from here on this process could not take the fence down.
    job::give_up_rights(Ground::Container)?;
    Ok(sockets)
}
