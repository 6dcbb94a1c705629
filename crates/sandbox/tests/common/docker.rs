//! A daemon to test with: where it is, what is on it, and what is asked of it.
//!
//! `TOOLGATE_TEST_DOCKER` names the socket of Docker's, `TOOLGATE_TEST_PODMAN` that of Podman's, and `TOOLGATE_TEST_WORKER` a
//! static worker, which is built where it is not named.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up is a failed test")]

use std::{
    env, fs,
    io::{BufRead as _, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
};

use toolgate_sandbox::DockerSettings;

/// Where the worker is.
pub(crate) const WORKER: &str = "TOOLGATE_TEST_WORKER";
/// One static program under many names.
pub(crate) const IMAGE: &str = "toolgate-test:busybox";

/// Whose daemon it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Docker,
    Podman,
}

impl Engine {
    /// What says where its socket is.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Docker => "TOOLGATE_TEST_DOCKER",
            Self::Podman => "TOOLGATE_TEST_PODMAN",
        }
    }
}

/// A daemon on this machine that has the image of the tests.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    pub(crate) socket: PathBuf,
}

impl Daemon {
    /// The one that was named, or why there is none.
    pub(crate) fn find(engine: Engine) -> Result<Self, String> {
        let variable = engine.variable();
        let socket = env::var_os(variable)
            .filter(|socket| !socket.is_empty())
            .map(PathBuf::from)
            .ok_or_else(|| format!("set {variable} to the socket of a {engine:?} daemon to run this test"))?;
        UnixStream::connect(&socket)
            .map_err(|error| format!("the {engine:?} daemon does not answer on `{}`: {error}", socket.display()))?;
        let daemon = Self { socket };
        daemon.import_image();
        Ok(daemon)
    }

    /// Asks it, in its own words.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        let kind = if path.starts_with("/images") { "application/x-tar" } else { "application/json" };
        let length = body.len();
        let head =
            format!("{method} /v1.41{path} HTTP/1.0\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The containers that carry this label, running or not.
    pub(crate) fn containers(&self, label: &str) -> Vec<String> {
        let label = label.replace('=', "%3D");
        let path = format!("/containers/json?all=1&filters=%7B%22label%22%3A%5B%22{label}%22%5D%7D");
        let (_, answer) = self.ask("GET", &path, b"");
        answer.split("\"Id\":\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    }

    /// How containers of the tests are made.
    pub(crate) fn settings(&self) -> DockerSettings {
        DockerSettings {
            memory_limit: 128 << 20,
            tmpfs_size: 16 << 20,
            ..DockerSettings::new(&self.socket, IMAGE, worker())
        }
    }

    fn import_image(&self) {
        if self.ask("GET", &format!("/images/{IMAGE}/json"), b"").0 == 200 {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
        for name in Command::new("/bin/busybox").arg("--list").output().unwrap().stdout.lines() {
            let name = name.unwrap();
            if name != "busybox" {
                std::os::unix::fs::symlink("busybox", bin.join(name)).unwrap();
            }
        }
        let tar = Command::new("tar").arg("-C").arg(root.path()).args(["-c", "."]).output().unwrap();
        let (status, answer) = self.ask("POST", "/images/create?fromSrc=-&repo=toolgate-test:busybox", &tar.stdout);
        assert_eq!(status, 200, "{answer}");
    }
}

/// The worker, linked so that it needs nothing of an image. One that is built holds the same backend as whoever asks, so
/// it is not older.
pub(crate) fn worker() -> PathBuf {
    if let Some(named) = env::var_os(WORKER) {
        return named.into();
    }
    // This is target/debug/deps/docker-0123456789abcdef.
    let own = env::current_exe().unwrap();
    let debug = own.parent().and_then(Path::parent).unwrap();
    let kept = debug.with_file_name("static").join("toolgate-worker");
    let age = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    if age(&kept) < age(&own) {
        let cargo = Command::new(env!("CARGO"))
            .args(["rustc", "-q", "-p", "toolgate-worker", "--bin", "toolgate-worker"])
            .args(["--", "-C", "target-feature=+crt-static"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(cargo.unwrap().success(), "the worker is not built");
        // Every other build puts an ordinary one where this one is now. Whoever runs the one before keeps it.
        let beside = kept.with_extension(std::process::id().to_string());
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        fs::copy(debug.join("toolgate-worker"), &beside).unwrap();
        fs::rename(beside, &kept).unwrap();
    }
    kept
}
