//! The probe: built once, run on the host for the controls.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::SystemTime,
};

use crate::{
    docker::{self, Daemon, Engine},
    said::Said,
    user::{BINARIES, copied},
};

/// The probe's binary. Built when it is not there or older than its source.
pub(crate) fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| match env::var_os(BINARIES) {
        Some(dir) => Path::new(&dir).join("probe"),
        None => build(&["build", "-p", "toolgate-probe"], "debug/probe", source()),
    })
}

/// The same, with nothing left to load. It is built for a target that is named, so that no other build puts an ordinary one
/// in its place.
pub(crate) fn built_for_images() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| match env::var_os(BINARIES) {
        Some(dir) => Path::new(&dir).join("static-probe"),
        None => {
            let target = format!("{}-unknown-linux-gnu", env::consts::ARCH);
            let args = ["rustc", "-p", "toolgate-probe", "--bin", "probe", "--target", &target];
            let linked = ["--", "-C", "target-feature=+crt-static"];
            build(&[&args[..], &linked].concat(), &format!("{target}/debug/probe"), source())
        }
    })
}

fn source() -> Vec<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/probe/src");
    fs::read_dir(source).expect("the probe's source").flatten().map(|entry| entry.path()).collect()
}

/// The program that holds a room open, to be killed. It holds the same backend as the suite, so it is not older.
pub(crate) fn hold_room() -> PathBuf {
    match env::var_os(BINARIES) {
        Some(dir) => Path::new(&dir).join("hold_room"),
        None => build(
            &["build", "-p", "toolgate-sandbox", "--example", "hold_room"],
            "debug/examples/hold_room",
            vec![copied()],
        ),
    }
}

/// Runs an attack with no wall around it.
pub(crate) fn on_the_host(probe: &str, dir: &Path, args: &[&str]) -> Said {
    let output = Command::new(probe).args(args).current_dir(dir).env_clear().output().expect("the probe runs here");
    Said::read(&String::from_utf8_lossy(&output.stdout))
}

/// Copies what an ordinary user needs to run the suite.
pub(crate) fn copy_for_others(dir: &Path) {
    let mut all = vec![(built().to_owned(), "probe"), (hold_room(), "hold_room"), (copied(), "escape")];
    if [Engine::Docker, Engine::Podman].into_iter().any(|engine| Daemon::find(engine).is_ok()) {
        all.extend([(built_for_images().to_owned(), "static-probe"), (docker::worker(), "toolgate-worker")]);
    }
    for (from, name) in all {
        fs::copy(from, dir.join(name)).expect("a copy");
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).expect("a mode");
    }
}

fn build(args: &[&str], name: &str, newer_than: Vec<PathBuf>) -> PathBuf {
    // The suite itself is target/debug/deps/escape-0123456789abcdef.
    let suite = copied();
    let target = suite.ancestors().nth(3).expect("it lies in three directories");
    let built = target.join(name);
    let age = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    if age(&built) < newer_than.iter().filter_map(|path| age(path)).max() {
        let cargo = Command::new(env!("CARGO")).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(cargo.is_ok_and(|status| status.success()), "cargo {args:?} failed");
        // Cargo leaves a binary alone that would be the same; it is as new as it can be all the same.
        fs::File::open(&built).and_then(|file| file.set_modified(SystemTime::now())).expect("it is there");
    }
    built
}
