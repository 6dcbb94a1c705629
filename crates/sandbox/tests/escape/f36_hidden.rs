//! F-36: what is hidden beneath a directory that is seen.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use toolgate_contract::{Ending, JobLimits};
use toolgate_sandbox::{RoomError, RoomSpec, Wall, WorkspaceMode};

use crate::{
    bench::{Bench, SECRET, open_to_all, run, text, tree, within},
    host::{eventually, processes_with},
};

/// A directory that is seen, with what is hidden in it, and a name that is hidden and not there.
fn shown(bench: &Bench) -> (PathBuf, RoomSpec) {
    let shown = bench.outside().parent().expect("the scene").join("shown");
    fs::create_dir_all(shown.join("secrets")).expect("a directory");
    for path in ["plain", ".env", "secrets/key"] {
        put(&shown.join(path));
    }
    let spec = RoomSpec {
        visible: [bench.spec().visible, vec![shown.clone()]].concat(),
        hidden: vec![shown.join(".env"), shown.join("secrets"), shown.join("later")],
        ..bench.spec()
    };
    (shown, spec)
}

fn put(path: &Path) {
    fs::write(path, SECRET).expect("a file");
    open_to_all(path, 0o666);
}

/// A new file takes the place of whatever is there, as an editor would save it.
fn replace(path: &Path) {
    let beside = path.with_file_name("beside");
    put(&beside);
    fs::rename(beside, path).expect("it is the machine's to replace");
}

in_every_room! {
    /// F-36. A file, a directory, and a name that is made after the room was.
    fn beneath_a_visible_directory(bench) {
        let (shown, spec) = shown(bench);
        if !bench.has_namespaces() {
            let refused = bench.backend.open(&spec, "escape").err();
            assert!(matches!(&refused, Some(RoomError::TooWeak { wall: Wall::Files, .. })), "{refused:?}");
            return;
        }
        let room = bench.open(&spec);
        put(&shown.join("secrets/later"));
        let paths = [".env", "secrets/key", "secrets/later", "./secrets/../.env", "plain"].map(|path| text(&shown.join(path)));
        let said = bench.probe_in(&*room, &["look", &paths[0], &paths[1], &paths[2], &paths[3], &paths[4]]);
        let seen: Vec<_> = said.worked().into_iter().filter(|what| said.ok(what).contains(SECRET)).collect();
        assert_eq!(seen, [format!("read {}", paths[4])], "only what is not hidden is seen");
    }

    /// F-36. What the machine puts under a hidden name has no cover, and no job is started that could read it.
    fn replaced_between_two_jobs(bench) {
        if !bench.has_namespaces() {
            return;
        }
        let (shown, spec) = shown(bench);
        for name in [".env", "later"] {
            let room = bench.open(&spec);
            let path = text(&shown.join(name));
            let said = bench.probe_in(&*room, &["look", &path]);
            assert!(said.worked().iter().all(|what| !said.ok(what).contains(SECRET)), "{said:?}");
            replace(&shown.join(name));
            let ran = run(&*room, &bench.job(&["look", &path], JobLimits::default()));
            assert!(matches!(ran, Err(RoomError::Lost(_))), "{name}: {ran:?}");
            assert!(!room.is_alive(), "{name}: the next job gets another room");
            let said = bench.probe_in(&*bench.open(&spec), &["look", &path]);
            assert!(said.worked().iter().all(|what| !said.ok(what).contains(SECRET)), "{said:?}");
        }
    }

    /// F-36. A job that runs is ended.
    fn replaced_under_a_job(bench) {
        if !bench.has_namespaces() {
            return;
        }
        let (shown, spec) = shown(bench);
        for name in [".env", "later"] {
            let room = bench.open(&spec);
            let ran = thread::scope(|scope| {
                let job = scope.spawn(|| bench.run(&*room, &["sleep", "60"], within(Duration::from_secs(90))));
                assert!(eventually(Duration::from_secs(30), || !processes_with(&bench.marker).is_empty()));
                replace(&shown.join(name));
                job.join().expect("the job is seen to its end")
            });
            assert_eq!(ran.ending, Ending::RoomLost, "{name}");
            assert!(!room.is_alive(), "{name}");
        }
    }

    /// F-36. A directory above it stays where it is: elsewhere nothing would cover what is in it.
    fn its_directories_are_not_moved_away(bench) {
        if !bench.has_namespaces() {
            return;
        }
        let deep = bench.workspace().join("a/b/secret");
        fs::create_dir_all(bench.workspace().join("a/b")).expect("a directory");
        put(&deep);
        tree(&bench.workspace()).iter().for_each(|(path, ..)| bench.give(path));
        let spec = RoomSpec { hidden: vec![deep.clone()], ..bench.spec_with(WorkspaceMode::ReadWrite, &[]) };
        let room = bench.open(&spec);
        let moves = ["rename", "a", "z", "rename", "a/b", "z", "exchange", "a", "mine", "rename", "a/b/secret", "free"];
        bench.probe_in(&*room, &["change", "mkdir", "mine", "-"]);
        let said = bench.probe_in(&*room, &[&["change"], &moves[..]].concat());
        said.all_refused_with(&[libc::EBUSY, libc::EXDEV, libc::EROFS, libc::EACCES, libc::EPERM]);
        let said = bench.probe_in(&*room, &["look", "a/b/secret", "z/secret", "z/b/secret", "free"]);
        assert!(said.worked().iter().all(|what| !said.ok(what).contains(SECRET)), "{said:?}");
        assert_eq!(fs::read_to_string(deep).expect("it is where it was"), SECRET);
    }
}
