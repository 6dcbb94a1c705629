//! N-34: no list, an empty list and a bad list all mean nobody.

use toolgate_sandbox::{Egress, RoomError, RoomSpec, Wall};

use crate::host::Listener;

in_every_room! {
    /// N-34. An empty list is not "everybody".
    fn an_empty_list(bench) {
        let listener = Listener::new();
        let target = format!("127.0.0.1:{}", listener.port);
        let room = bench.open(&RoomSpec { egress: Egress::to(Vec::new()), ..bench.spec() });
        let said = bench.probe_in(&*room, &["connect", &target, "192.0.2.1:443"]);
        assert!(said.worked().iter().all(|what| what.starts_with("milliseconds")), "{said:?}");
        assert_eq!(listener.heard(), [""; 0]);
    }

    /// N-34, N-04. Where there is no network to put a door in, there is no room with one.
    fn a_list_where_there_is_no_door(bench) {
        let spec = RoomSpec { egress: Egress::to(vec!["example.com:443".into()]), ..bench.spec() };
        if bench.has_namespaces() {
            // `n04_door` is about the door.
            return;
        }
        let refused = bench.backend.open(&spec, "escape").err();
        assert!(matches!(&refused, Some(RoomError::TooWeak { wall: Wall::Network, .. })), "{refused:?}");
    }

    /// N-34.
    fn rules_that_are_none(bench) {
        for rule in ["", "*", "*:443", "example.com", "example.com:", ":443", "example.com:0", "example.com:http",
            "http://example.com:443", "exa mple.com:443", "*.com*:443", "example.com:443:80", "evil\0.example.com:443"] {
            let spec = RoomSpec { egress: Egress::to(vec![rule.into()]), ..bench.spec() };
            assert!(bench.backend.open(&spec, "escape").is_err(), "`{rule}` opened a room");
        }
    }
}
