//! Networks that are furnished from outside, in namespaces of the test's own.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up is a failed test")]

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::OwnedFd,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
    SocketType, getsockname, recvmsg, sendmsg, socketpair,
    sockopt::{Timeout, set_socket_timeout},
};

const ORDER: &str = r#"{"names":true,"loopback":true}"#;

/// What a worker answers that is sent into a network this script has prepared, and where the sockets it sends are.
fn furnish(prepare: &str) -> Option<(String, Vec<String>)> {
    let namespaces = ["--user", "--map-root-user", "--net"];
    let can = Command::new("unshare").args(namespaces).arg("true").stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this machine does not let `unshare` make a network namespace");
        return None;
    }
    let (control, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    set_socket_timeout(&control, Timeout::Recv, Some(Duration::from_secs(20))).unwrap();
    let worker = env!("CARGO_BIN_EXE_toolgate-worker");
    let mut child = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", &format!("{prepare} exec {worker} within 1< /proc/self/ns/net")])
        .stdin(theirs)
        .spawn()
        .unwrap();
    let none = &mut SendAncillaryBuffer::default();
    sendmsg(&control, &[IoSlice::new(ORDER.as_bytes())], none, SendFlags::NOSIGNAL).unwrap();
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(&control, &mut [IoSliceMut::new(&mut bytes)], &mut rights, RecvFlags::CMSG_CLOEXEC).unwrap();
    let mut sockets: Vec<OwnedFd> = Vec::new();
    for message in rights.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            sockets.extend(fds);
        }
    }
    child.wait().unwrap();
    let at = |socket: &OwnedFd| std::net::SocketAddr::try_from(getsockname(socket).unwrap()).unwrap().to_string();
    Some((String::from_utf8_lossy(&bytes[..got.bytes]).into_owned(), sockets.iter().map(at).collect()))
}

#[test]
fn a_network_with_nothing_but_a_loopback_is_furnished() {
    let Some((answer, sockets)) = furnish("") else { return };
    assert_eq!(answer, r#"{"Ok":null}"#);
    assert_eq!(sockets, ["127.0.0.1:65443", "127.0.0.1:65053", "127.0.0.1:65053", "127.0.0.1:65128"]);
}

#[test]
fn a_network_that_leads_anywhere_is_left_alone() {
    let Some((answer, sockets)) = furnish("ip link add d0 type veth peer name d1 &&") else { return };
    assert!(answer.contains("find the network of a container, with no way out"), "{answer}");
    assert_eq!(sockets, Vec::<String>::new());
}

#[test]
fn whoever_asks_for_anything_else_gets_nothing() {
    for words in [vec!["without"], vec!["within", "more"], vec!["beside"], vec!["beside", "/nowhere/socket"]] {
        let ended = Command::new(env!("CARGO_BIN_EXE_toolgate-worker")).args(&words).stdin(Stdio::null()).output();
        assert_eq!(ended.unwrap().status.code(), Some(1), "{words:?}");
    }
}
