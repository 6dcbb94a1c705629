//! The whole suite once more, as an ordinary user.

use std::{
    env,
    os::unix::{fs::chown, process::CommandExt},
    path::PathBuf,
    process::Command,
};

use tempfile::TempDir;

use crate::{
    docker::{self, Engine},
    probe, skipped,
};

/// Set for the second run: where the binaries are.
pub(crate) const BINARIES: &str = "TOOLGATE_ESCAPE_BINARIES";
/// Nobody's on any machine we know.
const USER: u32 = 4242;

/// When the suite is root's, everything in it is run again by somebody who is not. Somebody who is not cannot become
/// root, so for them this is the run.
#[test]
fn as_an_ordinary_user() {
    if env::var_os(BINARIES).is_some() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skipped("the suite as root: it was started by an ordinary user");
    }
    let dir = TempDir::with_prefix_in("toolgate-escape-user-", "/var").expect("a place for the binaries");
    crate::bench::open_to_all(dir.path(), 0o755);
    chown(dir.path(), Some(USER), Some(USER)).expect("a directory of their own");
    probe::copy_for_others(dir.path());
    let output = Command::new(dir.path().join("escape"))
        .args(["--skip", "as_an_ordinary_user", "--test-threads", "2"])
        .env_clear()
        .env(BINARIES, dir.path())
        .env("HOME", dir.path())
        .env("PATH", "/usr/bin:/bin")
        .envs(env::var_os(crate::STRICT).map(|word| (crate::STRICT, word)))
        .envs(
            [Engine::Docker, Engine::Podman]
                .map(Engine::variable)
                .map(|name| (name, env::var_os(name).unwrap_or_default())),
        )
        .env(docker::WORKER, dir.path().join("toolgate-worker"))
        .current_dir(dir.path())
        .uid(USER)
        .gid(USER)
        .output()
        .expect("the suite starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("{told}");
    assert!(output.status.success(), "the suite failed for an ordinary user:\n{told}");
}

/// The suite's own binary.
pub(crate) fn copied() -> PathBuf {
    env::current_exe().expect("the suite knows itself")
}
