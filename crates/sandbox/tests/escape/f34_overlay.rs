//! F-34, F-35: a workspace whose writes go beside it.

use std::fs;

use toolgate_contract::JobLimits;
use toolgate_sandbox::{RoomError, WorkspaceMode};

use crate::bench::{Bench, Kind, run, tree};

/// The daemon has no workspace whose writes go beside it.
fn has_overlays(bench: &Bench) -> bool {
    bench.kind == Kind::Namespaces
}

in_every_room! {
    /// F-34. Written, deleted, moved: the directory itself stays as it was, also when the room is lost.
    fn writes_stay_beside_it(bench) {
        let workspace = bench.workspace();
        fs::create_dir(workspace.join("dir")).expect("a directory");
        fs::write(workspace.join("kept"), "as it was").expect("a file");
        fs::write(workspace.join("dir/inner"), "as it was").expect("a file");
        let before = tree(&workspace);
        let spec = bench.spec_with(WorkspaceMode::Overlay, &[]);
        if !has_overlays(bench) {
            let refused = bench.backend.open(&spec, "escape").err();
            assert!(matches!(refused, Some(RoomError::TooWeak { .. })), "{refused:?}");
            return;
        }
        let room = bench.open(&spec);
        let said = bench.probe_in(&*room, &[
            "change", "write", "kept", "-", "write", "new", "-", "unlink", "dir/inner", "-", "rmdir", "dir", "-",
            "mkdir", "dir", "-", "write", "dir/other", "-", "rename", "kept", "moved", "chmod", "moved", "600",
        ]);
        assert_eq!(said.worked().len(), said.names().len(), "in an overlay everything can be written: {said:?}");
        assert!(bench.probe_in(&*room, &["look", "moved"]).ok("read moved").contains("changed by the probe"));
        assert_eq!(tree(&workspace), before, "the host's own files");
        room.close();
        assert_eq!(tree(&workspace), before, "after the room was closed");
    }

    /// F-35. The parts of an overlay are not seen in it, and its marks cannot be forged.
    fn its_parts_are_not_seen(bench) {
        let spec = bench.spec_with(WorkspaceMode::Overlay, &[]);
        if !has_overlays(bench) {
            return;
        }
        let room = bench.open(&spec);
        bench.probe_in(&*room, &["open-read", "/.overlay/upper", "/.overlay/work", "/.overlay"]).all_refused_but(
            &["open /.overlay"],
            &crate::said::REFUSALS,
        );
        // A whiteout is a device with number 0, which may be made without rights; it must not reach outside.
        let whiteout = run(&*room, &bench.job(&["change", "whiteout", "a", "b"], JobLimits::default()));
        assert!(whiteout.is_ok(), "{whiteout:?}");
    }
}
