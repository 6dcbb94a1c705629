//! F-21, F-22, F-23, F-33: the file tree cannot be changed or left.

use crate::{host::mounts as mounts_here, said::FILTERED};

in_every_room! {
    /// F-21.
    fn mounts(bench) {
        let before = mounts_here();
        std::fs::create_dir(bench.workspace().join("here")).expect("a directory");
        bench.probe(&["mounts", "here"]).all_refused_with(&FILTERED);
        assert_eq!(mounts_here(), before, "the host has as many mounts as before");
        let alone = bench.control(&["alone", "mounts", "."]);
        for what in ["mount tmpfs", "bind / over it", "fsopen", "mount_setattr"] {
            assert!(alone.worked().contains(&what), "without walls it works: {alone:?}");
        }
    }

    /// F-22.
    fn another_root(bench) {
        bench.probe(&["roots", "."]).all_refused_with(&FILTERED);
        assert_eq!(bench.control(&["alone", "roots", "."]).worked().len(), 2, "without walls both work");
    }

    /// F-23.
    fn files_by_number(bench) {
        let said = bench.probe(&["handles"]);
        // In the smaller room the file that leads to the disk cannot be opened in the first place.
        said.all_refused();
        let mut known = vec!["open_by_handle_at inode 2 of /tmp", "open_by_handle_at inode 2 of /etc/hostname"];
        // The image has no such file.
        known.extend(bench.is_container().then_some("open_by_handle_at inode 2 of /etc/passwd"));
        said.all_refused_but(&known, &[
            libc::EPERM, libc::ENOSYS, libc::EACCES,
        ]);
        assert!(bench.control(&["handles"]).worked().contains(&"name_to_handle_at"));
    }
}
