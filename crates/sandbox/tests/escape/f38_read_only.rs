//! F-38: across the border between what can be written and what cannot.

use std::fs;

use toolgate_sandbox::WorkspaceMode;

use crate::bench::tree;

in_every_room! {
    /// F-38. A workspace that is only read.
    fn a_workspace_that_is_only_read(bench) {
        let workspace = bench.workspace();
        fs::create_dir(workspace.join("dir")).expect("a directory");
        for path in ["one", "two", "dir/three"] {
            fs::write(workspace.join(path), "as it was").expect("a file");
            crate::bench::open_to_all(&workspace.join(path), 0o666);
        }
        crate::bench::open_to_all(&workspace, 0o777);
        tree(&workspace).iter().for_each(|(path, ..)| bench.give(path));
        let before = tree(&workspace);
        let room = bench.open(&bench.spec_with(WorkspaceMode::ReadOnly, &[]));
        let said = bench.probe_in(&*room, &[
            "change", "write", "new", "-", "write", "one", "-", "append", "one", "-", "truncate", "one", "-",
            "unlink", "one", "-", "mkdir", "made", "-", "rmdir", "dir", "-", "rename", "one", "three", "exchange", "one", "two",
            "link", "one", "linked", "symlink", "one", "linked", "fifo", "pipe", "-", "rename", "one", "dir/one",
            "rename", "one", "/tmp/one", "rename", "/tmp/mine", "one", "link", "one", "/tmp/one", "exchange", "one", "/tmp",
        ]);
        assert_eq!(tree(&workspace), before, "on the host");
        let mut refusals = crate::said::REFUSALS.to_vec();
        refusals.extend([libc::EXDEV, libc::EEXIST, libc::ENOTEMPTY]);
        said.all_refused_with(&refusals);
        assert!(bench.probe_in(&*room, &["look", "one"]).ok("read one").contains("as it was"), "it can be read");
    }

    /// F-38. Times and modes, which Landlock alone does not guard: there it is a gap somebody accepted.
    fn nor_its_times_and_modes(bench) {
        if !bench.has_namespaces() {
            return;
        }
        let workspace = bench.workspace();
        fs::write(workspace.join("one"), "as it was").expect("a file");
        bench.give(&workspace.join("one"));
        let before = tree(&workspace);
        let room = bench.open(&bench.spec_with(WorkspaceMode::ReadOnly, &[]));
        let said = bench.probe_in(&*room, &["change", "touch", "one", "-", "chmod", "one", "600", "mark", "one", "-"]);
        assert_eq!(tree(&workspace), before, "on the host");
        said.all_refused();
    }
}
