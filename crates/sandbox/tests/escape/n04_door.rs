//! N-02, N-04, N-05, N-12, N-14, N-18, N-20, N-26, N-27: a room with one door. What the door itself does is tried in
//! `crates/egress`; this is about the ways around it.
//!
//! A connection in such a room is made before it is judged, so that what counts is who was called on the host and what
//! the room was told.

use std::{net::IpAddr, sync::Arc, time::Duration};

use toolgate_contract::{Ending, Ran};
use toolgate_sandbox::{Egress, Room, RoomSpec};

use crate::{
    bench::{Bench, within},
    host::{Listener, eventually, own_address},
    said::{Ended, Said},
};

/// The scene of every case: somebody on the host who may be called, somebody who may not, and a room with a door to
/// the first. Nothing where there are no doors.
struct Scene {
    own: IpAddr,
    listed: Listener,
    other: Listener,
    room: Arc<dyn Room>,
}

fn scene(bench: &Bench) -> Option<Scene> {
    if !bench.has_namespaces() {
        return None;
    }
    let Some(own) = own_address() else {
        crate::skipped("this machine has no address but its loopback");
        return None;
    };
    let (listed, other) = (Listener::new(), Listener::new());
    let egress = Egress::to(vec![format!("{own}:{}", listed.port), "example.com:443".into()]);
    let room = bench.open(&RoomSpec { egress, ..bench.spec() });
    Some(Scene { own, listed, other, room })
}

impl Scene {
    /// Runs the probe, and sees that only those were called who may be.
    fn probe(&self, bench: &Bench, args: &[&str]) -> (Ran, Said) {
        let ran = bench.run(&*self.room, args, within(Duration::from_secs(60)));
        assert_eq!(ran.ending, Ending::Exited { code: 0 }, "{}", ran.stderr.text);
        assert_eq!(self.other.heard(), [""; 0], "somebody called whom no rule names: {}", ran.stdout.text);
        let said = Said::read(&ran.stdout.text);
        (ran, said)
    }
}

in_every_room! {
    /// N-04, N-05. An address and a port that are listed are reached by a program that knows nothing of doors, and
    /// another port of it is not.
    fn who_is_listed_and_who_is_not(bench) {
        let Some(scene) = scene(bench) else { return };
        let (listed, other) = (format!("{}:{}", scene.own, scene.listed.port), format!("{}:{}", scene.own, scene.other.port));
        let (ran, said) = scene.probe(bench, &["connect", &listed, &other]);
        assert_eq!(said.of(&format!("tcp {other}")), Ended::Errno(libc::ECONNRESET), "at once, not by letting it wait");
        assert!(eventually(Duration::from_secs(5), || !scene.listed.heard().is_empty()), "the listed one was not called");
        assert!(ran.refused.iter().any(|told| told.contains(&other) && told.contains("not_allowed")), "{:?}", ran.refused);
        assert!(!ran.refused.iter().any(|told| told.contains(&listed)), "{:?}", ran.refused);
        assert!(ran.receipt.walls.iter().any(|wall| wall.starts_with("network:") && wall.contains("door")), "{:?}", ran.receipt);
    }

    /// N-02, N-12. This machine under its other names is the room itself.
    fn the_machine_by_its_other_names(bench) {
        let Some(scene) = scene(bench) else { return };
        let names = ["127.0.0.1", "0.0.0.0", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"];
        for listener in [&scene.listed, &scene.other] {
            let targets: Vec<String> = names.iter().map(|name| format!("{name}:{}", listener.port)).collect();
            let words: Vec<&str> = ["connect"].into_iter().chain(targets.iter().map(String::as_str)).collect();
            let (_, said) = scene.probe(bench, &words);
            assert!(said.worked().iter().all(|what| !what.starts_with("tcp")), "{said:?}");
        }
        assert_eq!(scene.listed.heard(), [""; 0], "it was called by a name no rule has");
    }

    /// N-14. A name that no rule has does not exist, and is not asked for anywhere.
    fn names_no_rule_has(bench) {
        let Some(scene) = scene(bench) else { return };
        let (_, said) = scene.probe(bench, &[
            "connect", "secret-data.exfiltration.invalid:80", "example.com.exfiltration.invalid:443", "xexample.com:443",
            "metadata.google.internal:80",
        ]);
        assert!(said.worked().iter().all(|what| !what.starts_with("tcp")), "{said:?}");
    }

    /// N-18, N-20, N-19. Datagrams, the other protocol and other kinds of sockets do not pass.
    fn other_kinds_of_words(bench) {
        let Some(scene) = scene(bench) else { return };
        let listed = format!("{}:{}", scene.own, scene.listed.port);
        let (_, said) = scene.probe(bench, &["udp", &listed, "192.0.2.1:443", "192.0.2.1:123", "[2001:db8::1]:443", "224.0.0.251:5353"]);
        assert!(said.worked().is_empty(), "{said:?}");
        let (_, said) = scene.probe(bench, &["connect", "[2001:db8::1]:443", "[fe80::1]:443"]);
        assert!(said.worked().iter().all(|what| !what.starts_with("tcp")), "{said:?}");
        assert_eq!(scene.listed.heard(), [""; 0], "a datagram arrived");
    }

    /// N-26. The fence and the redirection cannot be taken away from inside.
    fn the_fence_stays(bench) {
        let Some(scene) = scene(bench) else { return };
        let (_, said) = scene.probe(bench, &["net-admin", "in-room-only"]);
        said.all_refused_with(&[libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EPROTONOSUPPORT, libc::EAFNOSUPPORT]);
        let other = format!("{}:{}", scene.own, scene.other.port);
        let (ran, said) = scene.probe(bench, &["connect", &other]);
        assert!(ran.refused.iter().any(|told| told.contains(&other)), "{:?} {said:?}", ran.refused);
    }

    /// N-27. Whoever dials the door's own sockets means nobody.
    fn the_doors_own_sockets(bench) {
        let Some(scene) = scene(bench) else { return };
        let mut targets = Vec::new();
        for port in [65_443u16, 65_053, 65_128, 53] {
            targets.extend([format!("127.0.0.1:{port}"), format!("{}:{port}", scene.own)]);
        }
        let words: Vec<&str> = ["connect"].into_iter().chain(targets.iter().map(String::as_str)).collect();
        scene.probe(bench, &words);
        assert_eq!(scene.listed.heard(), [""; 0], "a word to the door itself was passed on");
        // It is still served.
        let listed = format!("{}:{}", scene.own, scene.listed.port);
        scene.probe(bench, &["connect", &listed]);
        assert!(eventually(Duration::from_secs(5), || !scene.listed.heard().is_empty()), "the door is closed");
    }

    /// N-22. Two rooms with doors do not meet.
    fn two_rooms_with_doors(bench) {
        let Some(scene) = scene(bench) else { return };
        let port = scene.other.port.to_string();
        let other = bench.open(&RoomSpec {
            egress: Egress::to(vec![format!("{}:{}", scene.own, scene.listed.port)]),
            ..bench.spec()
        });
        std::thread::scope(|scope| {
            let listening = scope.spawn(|| bench.run(&*other, &["listen", &port, "2"], within(Duration::from_secs(20))));
            let target = format!("127.0.0.1:{port}");
            scene.probe(bench, &["connect", &target]);
            let said = Said::read(&listening.join().expect("the listener").stdout.text);
            assert_eq!(said.of("called by"), Ended::Errno(libc::ETIMEDOUT), "{said:?}");
        });
    }
}
