//! N-19: sockets of other kinds.

in_every_room! {
    /// N-19. What may be made in a network of one's own is local and ordinary; everything else is not made at all.
    fn every_family_and_kind(bench) {
        let said = bench.probe(&["families"]);
        let ordinary: &[&str] = if bench.has_namespaces() {
            &[
                "family 1 stream", "family 1 datagram", "family 1 seqpacket", "family 1 raw", "family 2 stream",
                "family 2 datagram", "family 10 stream", "family 10 datagram", "family 16 raw", "family 16 datagram",
                "family inet with a high bit",
            ]
        } else {
            &[]
        };
        let refusals = [
            libc::EPERM, libc::EACCES, libc::EAFNOSUPPORT, libc::ESOCKTNOSUPPORT, libc::EPROTONOSUPPORT, libc::EINVAL,
            libc::ENOSYS,
        ];
        said.all_refused_but(ordinary, &refusals);
        let control = bench.control(&["alone", "families"]);
        assert!(control.worked().contains(&"family 17 raw"), "without walls a packet socket is made: {control:?}");
    }
}
