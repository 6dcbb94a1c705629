//! F-39: files that a rule closes, in a workspace that may be written.

use std::fs;

use toolgate_contract::JobLimits;
use toolgate_sandbox::{RoomError, RoomSpec, Wall, WorkspaceMode};

use crate::bench::{SECRET, open_to_all, run, text, tree};

in_every_room! {
    /// F-39. By its name, through a link, through a directory that was moved, and with the room used again.
    fn in_a_workspace(bench) {
        let workspace = bench.workspace();
        fs::create_dir_all(workspace.join("conf/secrets")).expect("a directory");
        open_to_all(&workspace.join("conf"), 0o777);
        for path in ["plain", ".env", "conf/key", "conf/secrets/deep"] {
            fs::write(workspace.join(path), SECRET).expect("a file");
            open_to_all(&workspace.join(path), 0o666);
        }
        tree(&workspace).iter().for_each(|(path, ..)| bench.give(path));
        std::os::unix::fs::symlink(".env", workspace.join("link")).expect("a link");
        for mode in [WorkspaceMode::ReadWrite, WorkspaceMode::ReadOnly] {
            let spec = RoomSpec {
                closed: [".env", "conf/key", "conf/secrets"].map(|path| workspace.join(path)).to_vec(),
                ..bench.spec_with(mode, &[])
            };
            if !bench.has_namespaces() {
                let refused = bench.backend.open(&spec, "escape").err();
                assert!(matches!(&refused, Some(RoomError::TooWeak { wall: Wall::Files, .. })), "{refused:?}");
                continue;
            }
            let room = bench.open(&spec);
            let paths = [".env", "link", "conf/key", "conf/secrets/deep", "plain"].map(|path| text(&workspace.join(path)));
            let look: Vec<&str> = ["look"].into_iter().chain(paths.iter().map(String::as_str)).collect();
            for _ in 0..2 {
                let said = bench.probe_in(&*room, &look);
                let seen: Vec<_> = said.worked().into_iter().filter(|what| said.ok(what).contains(SECRET)).collect();
                assert_eq!(seen, [format!("read {}", paths[4])], "only what is not closed is seen");
            }
            // Neither the file nor a directory above it can be moved to where no rule looks.
            let shell = |script: &str| {
                let mut job = bench.job(&[], JobLimits::default());
                job.argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
                run(&*room, &job).expect("a shell")
            };
            let tried = shell("mv conf other; mv .env x; rm -f .env; chmod 777 .env; ln .env y; cp .env z; cat .env");
            assert!(!tried.stdout.text.contains(SECRET), "{tried:?}");
            for path in [".env", "conf/key"] {
                assert_eq!(fs::read_to_string(workspace.join(path)).expect("still there"), SECRET);
            }
            // Whoever replaces one on the machine takes the cover away; then nothing runs in this room any more.
            fs::write(workspace.join("new"), SECRET).expect("a file");
            open_to_all(&workspace.join("new"), 0o666);
            fs::rename(workspace.join("new"), workspace.join(".env")).expect("replaced");
            let lost = run(&*room, &bench.job(&look, JobLimits::default()));
            assert!(matches!(&lost, Err(RoomError::Lost(_))), "{lost:?}");
        }
    }
}
