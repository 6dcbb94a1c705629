//! F-19: nothing in the workspace gives rights to whoever runs it later.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::bench::{Bench, tree};

/// On the host no file of the workspace has a bit that changes who runs it.
fn no_bits(bench: &Bench) {
    let with_bits: Vec<_> = tree(&bench.workspace())
        .into_iter()
        .filter(|(path, mode, contents)| {
            // A directory with the group bit only passes its group on.
            !path.is_dir() && mode & 0o6000 != 0 && !contents.is_empty()
        })
        .map(|(path, mode, _)| (path, format!("{mode:o}")))
        .collect();
    assert!(with_bits.is_empty(), "on the host: {with_bits:?}");
}

in_every_room! {
    /// F-19.
    fn the_bit_is_not_set(bench) {
        fs::copy(bench.probe_path(), bench.workspace().join("program")).expect("a program");
        fs::set_permissions(bench.workspace().join("program"), fs::Permissions::from_mode(0o777)).expect("a mode");
        bench.give(&bench.workspace().join("program"));
        let said = bench.probe(&[
            "change", "chmod", "program", "4755", "chmod", "program", "2755", "chmod", "program", "6777",
            "file-caps", "program", "-",
        ]);
        no_bits(bench);
        said.all_refused_with(&[libc::EPERM]);
    }

    /// F-19. A file born with the bit, and then filled in every way that might leave the bit alone.
    fn nor_is_a_file_born_with_it(bench) {
        let said = bench.probe(&["born-set-id", "."]);
        no_bits(bench);
        let still: Vec<_> = said.worked().into_iter().filter(|what| said.ok(what) == "kept").map(str::to_owned).collect();
        assert!(still.is_empty(), "the bit outlived the writing: {still:?}");
    }
}
