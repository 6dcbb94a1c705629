//! F-26, F-27, N-25: nothing was left open.

in_every_room! {
    /// F-26.
    fn three_descriptors(bench) {
        let said = bench.probe(&["fds"]);
        assert_eq!(said.names(), ["fd 0", "fd 1", "fd 2"], "{said:?}");
        assert!(said.names().iter().all(|fd| !said.ok(fd).starts_with("socket")), "{said:?}");
    }

    /// F-27.
    fn no_directory_among_them(bench) {
        let said = bench.probe(&["dirfds"]);
        assert_eq!(said.names(), [""; 0], "{said:?}");
    }

    /// N-25.
    fn no_socket_among_them(bench) {
        let said = bench.probe(&["held-sockets"]);
        assert_eq!(said.worked(), [""; 0], "{said:?}");
        said.all_refused_with(&[libc::ENOTSOCK]);
    }
}
