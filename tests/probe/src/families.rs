//! Sockets of every family and kind.

use libc::*;

use crate::{
    sys::{at, call},
    tries::Tries,
};

const KINDS: [(&str, i32); 6] = [
    ("stream", SOCK_STREAM),
    ("datagram", SOCK_DGRAM),
    ("raw", SOCK_RAW),
    ("seqpacket", SOCK_SEQPACKET),
    ("rdm", SOCK_RDM),
    ("packet", 10),
];

const PROTOCOLS: [(&str, i32, i32, i32); 12] = [
    ("icmp ping", AF_INET, SOCK_DGRAM, IPPROTO_ICMP),
    ("icmp raw", AF_INET, SOCK_RAW, IPPROTO_ICMP),
    ("icmp6 ping", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6),
    ("raw ip", AF_INET, SOCK_RAW, IPPROTO_RAW),
    ("sctp", AF_INET, SOCK_STREAM, IPPROTO_SCTP),
    ("mptcp", AF_INET, SOCK_STREAM, 262),
    ("udplite", AF_INET, SOCK_DGRAM, 136),
    ("netlink netfilter", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER),
    ("netlink audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT),
    ("netlink events", AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT),
    ("netlink generic", AF_NETLINK, SOCK_RAW, NETLINK_GENERIC),
    ("netlink diagnosis", AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG),
];

/// Makes one of each, and pairs.
pub(crate) fn families(_: &[String], tries: &mut Tries) {
    for family in 1..46usize {
        for (kind, number) in KINDS {
            tries.call(format!("family {family} {kind}"), socket(family, number as usize, 0));
        }
    }
    for (name, family, kind, protocol) in PROTOCOLS {
        tries.call(format!("protocol {name}"), socket(family as usize, kind as usize, protocol as usize));
    }
    // The kernel looks at the low half of the family only; a filter that compares all of it can be passed by.
    let high = 1usize << 32;
    tries.call("family inet with a high bit", socket(high | AF_INET as usize, SOCK_STREAM as usize, 0));
    tries.call("family packet with a high bit", socket(high | AF_PACKET as usize, SOCK_RAW as usize, 0));
    vsock_to_host(tries);
}

/// Speaks to the machine this machine runs on.
fn vsock_to_host(tries: &mut Tries) {
    let host: [u32; 4] = [AF_VSOCK as u32, 1, 2, 0];
    tries.in_child("vsock to the host", || {
        let socket = call(SYS_socket, [AF_VSOCK as usize, SOCK_STREAM as usize, 0])?;
        // Half a second is enough for a local answer, and the child ends by itself after it.
        // SAFETY: plain integers.
        unsafe { alarm(2) };
        call(SYS_connect, [socket, at(&host), size_of_val(&host)])
    });
}

fn socket(family: usize, kind: usize, protocol: usize) -> Result<usize, i32> {
    let made = call(SYS_socket, [family, kind | SOCK_CLOEXEC as usize, protocol])?;
    call(SYS_close, [made])
}
