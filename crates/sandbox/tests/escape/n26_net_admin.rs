//! N-26: the network of a room cannot be changed from inside.

in_every_room! {
    /// N-26.
    fn links_routes_and_rules(bench) {
        let before = std::fs::read_to_string("/proc/net/route").expect("the host's routes");
        let said = bench.probe(&["net-admin", "in-room-only"]);
        let refusals = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EPROTONOSUPPORT, libc::EAFNOSUPPORT];
        said.all_refused_with(&refusals);
        assert_eq!(std::fs::read_to_string("/proc/net/route").expect("the host's routes"), before);
        let alone = bench.control(&["alone", "net-admin"]);
        assert!(alone.worked().contains(&"new address"), "without walls it works: {alone:?}");
    }
}
