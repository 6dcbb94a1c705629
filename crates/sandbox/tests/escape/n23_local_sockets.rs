//! N-23, N-24: sockets of services on this machine.

use std::os::{
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram, UnixListener},
};

use crate::bench::{open_to_all, text};

const REFUSALS: [i32; 4] = [libc::ECONNREFUSED, libc::EPERM, libc::EACCES, libc::ENOENT];

in_every_room! {
    /// N-23.
    fn names_without_files(bench) {
        let name = format!("toolgate-{}", bench.marker);
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixListener::bind_addr(&address).expect("a listener");
        listener.set_nonblocking(true).expect("no waiting");
        let address = SocketAddr::from_abstract_name(format!("{name}.dgram")).expect("a name");
        let datagrams = UnixDatagram::bind_addr(&address).expect("a socket");
        datagrams.set_nonblocking(true).expect("no waiting");
        bench.probe(&["abstract", &name, "/tmp/.X11-unix/X0", "/tmp/dbus-session"]).all_refused_with(&REFUSALS);
        assert!(listener.accept().is_err() && datagrams.recv(&mut [0; 64]).is_err(), "somebody called");
        assert_eq!(bench.control(&["abstract", &name]).worked().len(), 2);
        assert!(listener.accept().is_ok() && datagrams.recv(&mut [0; 64]).is_ok(), "from the host it is heard");
    }

    /// N-24.
    fn names_with_files(bench) {
        let path = bench.outside().join("service");
        let listener = UnixListener::bind(&path).expect("a listener");
        open_to_all(&path, 0o777);
        listener.set_nonblocking(true).expect("no waiting");
        let service = text(&path);
        bench.probe(&[
            "unix", &service, "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
            "/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/notify",
            "/run/systemd/journal/stdout", "/run/snapd.socket", "/run/user/0/bus", "/run/nscd/socket", "/dev/log",
            "/tmp/.X11-unix/X0", "/run/user/1000/gnupg/S.gpg-agent",
        ]).all_refused_with(&REFUSALS);
        assert!(listener.accept().is_err(), "somebody called");
        assert_eq!(bench.control(&["unix", &service]).worked().len(), 1);
        assert!(listener.accept().is_ok(), "from the host it is heard");
        std::fs::remove_file(path).expect("the outside stays as it was");
    }
}
