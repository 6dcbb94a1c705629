//! F-16, F-17, F-18, F-37: protected names in a workspace that can be written.

use std::fs;

use toolgate_sandbox::{RoomError, Wall, WorkspaceMode};

use crate::{
    bench::{Bench, tree},
    said::Said,
};

const PROTECTED: [&str; 7] =
    [".git/hooks", ".git/config", ".envrc", ".vscode/tasks.json", ".mcp.json", ".toolgate", "a/b/c/locked"];

/// Tries these changes in a room with protected names. Where the tier has no such wall, there is no room.
fn change(bench: &Bench, changes: &[&str]) -> Option<Said> {
    let spec = bench.spec_with(WorkspaceMode::ReadWrite, &PROTECTED);
    fs::create_dir_all(bench.workspace().join(".git/hooks")).expect("a directory");
    fs::create_dir_all(bench.workspace().join("a/b/c")).expect("a directory");
    fs::write(bench.workspace().join(".git/config"), "[core]\n").expect("a file");
    fs::write(bench.workspace().join(".git/HEAD"), "ref: refs/heads/main\n").expect("a file");
    fs::write(bench.workspace().join("a/b/c/locked"), "as it was").expect("a file");
    tree(&bench.workspace()).iter().for_each(|(path, ..)| bench.give(path));
    if !bench.has_namespaces() {
        let refused = bench.backend.open(&spec, "escape").err();
        let is_named = matches!(&refused, Some(RoomError::TooWeak { wall: Wall::ProtectedNames, .. }));
        assert!(is_named, "{refused:?}");
        return None;
    }
    let room = bench.open(&spec);
    let protected = || -> Vec<_> {
        let all = tree(&bench.workspace()).into_iter();
        all.filter(|(path, ..)| PROTECTED.iter().any(|name| path.starts_with(bench.workspace().join(name)))).collect()
    };
    let before = protected();
    let mut args = vec!["change"];
    args.extend(changes);
    let said = bench.probe_in(&*room, &args);
    assert_eq!(protected(), before, "on the host a protected name was changed: {said:?}");
    Some(said)
}

const REFUSED: [i32; 7] =
    [libc::EROFS, libc::EBUSY, libc::EXDEV, libc::EACCES, libc::EPERM, libc::EEXIST, libc::ENOTEMPTY];

in_every_room! {
    /// F-16.
    fn names_that_are_not_there_yet(bench) {
        let said = change(bench, &[
            "mkdir", ".toolgate", "-", "mkdir", ".toolgate/x", "-", "write", ".toolgate/config.yaml", "-",
            "mkdir", ".envrc", "-", "write", ".envrc", "-", "symlink", "/bin/sh", ".envrc", "fifo", ".mcp.json", "-",
            "write", ".mcp.json", "-", "unlink", ".mcp.json", "-", "rmdir", ".toolgate", "-",
            "write", ".vscode/tasks.json", "-", "rename", ".git/HEAD", ".mcp.json",
            "link", ".git/HEAD", ".mcp.json", "write", ".git/hooks/pre-commit", "-", "mkdir", ".git/hooks/x", "-",
        ]);
        if let Some(said) = said {
            let mut refused = REFUSED.to_vec();
            // A file where a directory was to be made, and the other way round.
            refused.extend([libc::EISDIR, libc::ENOTDIR]);
            said.all_refused_with(&refused);
        }
    }

    /// F-17.
    fn a_parent_moved_away(bench) {
        let said = change(bench, &[
            "rename", ".git", "was-git", "exchange", ".git", "a", "rename", "a", "z", "rename", "a/b", "z",
            "rename", "a/b/c", "z", "exchange", "a/b", ".git", "rename", ".vscode", "was-vscode", "rmdir", ".vscode", "-",
            "rename", "a/b/c/locked", "free", "rename", ".git/hooks", "free", "rename", ".git/config", "free",
            "exchange", ".git/config", ".git/HEAD", "whiteout", ".git/config", "free", "rename", ".git/HEAD", ".git/config",
        ]);
        if let Some(said) = said {
            said.all_refused_with(&REFUSED);
        }
    }

    /// F-18.
    fn what_the_host_would_run_later(bench) {
        let said = change(bench, &[
            "write", ".git/config", "-", "append", ".git/config", "-", "truncate", ".git/config", "-",
            "unlink", ".git/config", "-", "touch", ".git/config", "-", "chmod", ".git/config", "777",
            "mark", ".git/config", "-", "link", ".git/config", "free", "link-through", "/proc/self/fd/0", ".git/config",
            "chmod", ".git/hooks", "777", "write", "a/b/c/locked", "-",
        ]);
        if let Some(said) = said {
            said.all_refused_but(&["link-through /proc/self/fd/0 .git/config"], &REFUSED);
            assert!(!said.worked().contains(&"link-through /proc/self/fd/0 .git/config"), "{said:?}");
        }
    }

    /// F-37. On a file system that tells them apart, another spelling is another file; it must not reach the one that is
    /// protected.
    fn other_spellings(bench) {
        let said = change(bench, &[
            "write", ".GIT/config", "-", "mkdir", ".Git", "-", "write", ".Git/config", "-", "write", ".git/CONFIG", "-",
            "write", ".git/con\u{fb01}g", "-", "write", ".git//config", "-", "write", "./a/../.git/config", "-",
            "write", ".git/./config", "-", "write", ".git/hooks/../config", "-",
        ]);
        if let Some(said) = said {
            for spelling in ["write .git//config -", "write ./a/../.git/config -", "write .git/./config -", "write .git/hooks/../config -"] {
                assert!(!said.worked().contains(&spelling), "{spelling} worked: {said:?}");
            }
        }
    }

    /// The wall is around those names and not around the rest.
    fn everything_beside_them_is_free(bench) {
        let said = change(bench, &[
            "write", ".git/index", "-", "mkdir", ".git/objects", "-", "write", "a/b/c/free", "-", "unlink", ".git/HEAD", "-",
        ]);
        if let Some(said) = said {
            assert_eq!(said.worked().len(), 4, "{said:?}");
        }
    }
}
