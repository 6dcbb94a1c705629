//! F-20: no devices are made, and those that matter are not there.

use std::{fs, os::unix::fs::FileTypeExt};

in_every_room! {
    /// F-20.
    fn disks_and_memory(bench) {
        fs::create_dir(bench.workspace().join("devices")).expect("a directory");
        let said = bench.probe(&["devices", "devices"]);
        for entry in fs::read_dir(bench.workspace().join("devices")).expect("the directory").flatten() {
            let kind = entry.file_type().expect("a kind");
            assert!(!kind.is_block_device() && !kind.is_char_device(), "on the host: {entry:?}");
        }
        let mut refusals = crate::said::REFUSALS.to_vec();
        refusals.extend([libc::ENXIO, libc::ENODEV]);
        said.all_refused_with(&refusals);
    }
}
