//! Changes to the network: links, addresses, routes and packet rules.

use libc::*;

use crate::{
    sys::{Said, at, call, into},
    tries::Tries,
};

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const CREATE: u16 = 0x400;
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
/// Subsystem of the packet rules, and the message that removes a table. Without a name it removes all of them.
const DELETE_TABLE: u16 = 10 << 8 | 2;
const IN_ROOM_ONLY: &str = "in-room-only";

/// Tries each. What removes something is sent only where it was asked for, so that nobody loses a route by accident.
pub(crate) fn net_admin(args: &[String], tries: &mut Tries) {
    tries.in_child("link up", || {
        // Type, index 1 (the loopback), flags and mask: up.
        let mut link = [0u8; 16];
        link[4..8].copy_from_slice(&1u32.to_ne_bytes());
        link[8..12].copy_from_slice(&1u32.to_ne_bytes());
        link[12..16].copy_from_slice(&1u32.to_ne_bytes());
        ask(NETLINK_ROUTE, NEW_LINK, 0, &link)
    });
    tries.in_child("new address", || {
        let mut address = vec![2u8, 32, 0, 0, 1, 0, 0, 0];
        for kind in [1u16, 2] {
            address.extend(8u16.to_ne_bytes());
            address.extend(kind.to_ne_bytes());
            address.extend([127, 77, 77, 77]);
        }
        ask(NETLINK_ROUTE, NEW_ADDRESS, CREATE, &address)
    });
    tries.in_child("new route", || {
        // To 192.0.2.77, which is documentation's own, over the loopback.
        let mut route = vec![2u8, 32, 0, 0, 254, 4, 253, 1, 0, 0, 0, 0];
        for (kind, value) in [(1u16, [192, 0, 2, 77]), (4, [1, 0, 0, 0])] {
            route.extend(8u16.to_ne_bytes());
            route.extend(kind.to_ne_bytes());
            route.extend(value);
        }
        ask(NETLINK_ROUTE, NEW_ROUTE, CREATE, &route)
    });
    tries.in_child("interface flags", || {
        let socket = call(SYS_socket, [AF_INET as usize, SOCK_DGRAM as usize, 0])?;
        let mut request = [0u8; 40];
        request[..2].copy_from_slice(b"lo");
        request[16] = 1;
        call(SYS_ioctl, [socket, SIOCSIFFLAGS as usize, at(&request)])
    });
    if args.first().is_some_and(|word| word == IN_ROOM_ONLY) {
        tries.in_child("no route", || ask(NETLINK_ROUTE, DELETE_ROUTE, 0, &[2, 0, 0, 0, 254, 0, 0, 0, 0, 0, 0, 0]));
        tries.in_child("no packet rules", || ask(NETLINK_NETFILTER, DELETE_TABLE, 0, &[0, 0, 0, 0]));
    }
}

/// Sends one netlink message and reads the kernel's verdict on it.
fn ask(protocol: i32, kind: u16, flags: u16, body: &[u8]) -> Said {
    let socket = call(SYS_socket, [AF_NETLINK as usize, SOCK_RAW as usize, protocol as usize])?;
    let mut message = Vec::new();
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((REQUEST | ACKNOWLEDGE | flags).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    call(SYS_sendto, [socket, at(message.as_slice()), message.len(), 0, 0, 0])?;
    // SAFETY: plain integers; a kernel that does not answer must not hold the probe.
    unsafe { alarm(2) };
    let mut answer = [0u8; 64];
    call(SYS_recvfrom, [socket, into(&mut answer), answer.len(), 0, 0, 0])?;
    let verdict = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    if verdict == 0 { Ok(0) } else { Err(-verdict) }
}
