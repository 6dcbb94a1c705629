//! N-22: nobody calls into a room, also not from another room.

use std::{net::TcpStream, thread, time::Duration};

use crate::{
    bench::within,
    host::eventually,
    said::{Ended, Said},
};

in_every_room! {
    /// N-22. The host calls until the room has stopped listening, and is not heard.
    fn from_the_host_and_from_another_room(bench) {
        let port = crate::host::Listener::new().port;
        let (room, other) = (bench.room(), bench.room());
        let target = format!("127.0.0.1:{port}");
        thread::scope(|scope| {
            let listening = scope.spawn(|| {
                let ran = bench.run(&*room, &["listen", &port.to_string(), "3"], within(Duration::from_secs(20)));
                Said::read(&ran.stdout.text)
            });
            let called = scope.spawn(|| eventually(Duration::from_secs(2), || TcpStream::connect(&target).is_ok()));
            let from_next_door = bench.probe_in(&*other, &["connect", &target]);
            assert!(!from_next_door.worked().contains(&format!("tcp {target}").as_str()), "{from_next_door:?}");
            assert!(!called.join().expect("the caller"), "the host reached a listener in the room");
            let listened = listening.join().expect("the listener");
            match listened.of("listen") {
                Ended::Ok(_) => assert_eq!(listened.of("called by"), Ended::Errno(libc::ETIMEDOUT)),
                refused => assert_eq!(refused, Ended::Errno(libc::EPERM)),
            }
        });
    }
}
