//! F-36: what is hidden beneath a directory that is seen.

use std::fs;

use toolgate_sandbox::{RoomError, RoomSpec, Wall};

use crate::bench::{SECRET, open_to_all, text};

in_every_room! {
    /// F-36. A file, a directory, and a name that is made after the room was.
    fn beneath_a_visible_directory(bench) {
        let shown = bench.outside().parent().expect("the scene").join("shown");
        fs::create_dir_all(shown.join("secrets")).expect("a directory");
        for path in ["plain", ".env", "secrets/key"] {
            fs::write(shown.join(path), SECRET).expect("a file");
            open_to_all(&shown.join(path), 0o666);
        }
        let spec = RoomSpec {
            visible: [bench.spec().visible, vec![shown.clone()]].concat(),
            hidden: vec![shown.join(".env"), shown.join("secrets")],
            ..bench.spec()
        };
        if !bench.has_namespaces() {
            let refused = bench.backend.open(&spec, "escape").err();
            assert!(matches!(&refused, Some(RoomError::TooWeak { wall: Wall::Files, .. })), "{refused:?}");
            return;
        }
        let room = bench.open(&spec);
        fs::write(shown.join("secrets/later"), SECRET).expect("a file");
        let paths = [".env", "secrets/key", "secrets/later", "./secrets/../.env", "plain"].map(|path| text(&shown.join(path)));
        let said = bench.probe_in(&*room, &["look", &paths[0], &paths[1], &paths[2], &paths[3], &paths[4]]);
        let seen: Vec<_> = said.worked().into_iter().filter(|what| said.ok(what).contains(SECRET)).collect();
        assert_eq!(seen, [format!("read {}", paths[4])], "only what is not hidden is seen");
    }
}
