//! A Docker daemon for the tests: the machine's own, or one that lives as long as this run.

use std::{
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use crate::{
    peers,
    suite::{cargo, run, target},
};

/// Where the machine's own daemon listens.
const SYSTEM: &str = "/var/run/docker.sock";

/// A daemon that answers.
pub(crate) struct Daemon {
    pub(crate) socket: PathBuf,
    /// Ours, which ends with us; none for the machine's own.
    _own: Option<Own>,
}

struct Own {
    process: Child,
    dir: PathBuf,
}

/// Finds a daemon, or starts one as root.
pub(crate) fn daemon() -> Result<Daemon, String> {
    // The image most tests use is made from it.
    peers::have("busybox", &["busybox-static"])?;
    if answers(Path::new(SYSTEM)) {
        return Ok(Daemon { socket: SYSTEM.into(), _own: None });
    }
    peers::have("dockerd", &["docker.io"])?;
    let dir = std::env::temp_dir().join(format!("toolgate-docker-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let own = Own { process: start(&dir)?, dir: dir.clone() };
    let socket = dir.join("docker.sock");
    for _ in 0..300 {
        if answers(&socket) {
            return Ok(Daemon { socket, _own: Some(own) });
        }
        thread::sleep(Duration::from_millis(100));
    }
    let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
    let last = log.lines().last().unwrap_or("it says nothing").to_owned();
    Err(format!("no Docker daemon: {SYSTEM} does not answer this user, and a daemon of our own did not start: {last}"))
}

/// A daemon that changes nothing on this machine but the bridges tests ask for, and that ends when we do, however we do.
fn start(dir: &Path) -> Result<Child, String> {
    let log = std::fs::File::create(dir.join("log")).map_err(|error| error.to_string())?;
    let mut daemon = Command::new("setpriv");
    daemon.args(["--pdeathsig", "TERM", "dockerd", "--bridge=none", "--iptables=false", "--ip-forward=false"]);
    for (flag, name) in [("--data-root", "data"), ("--exec-root", "run"), ("--pidfile", "pid")] {
        daemon.arg(flag).arg(dir.join(name));
    }
    daemon.arg("--host").arg(format!("unix://{}", dir.join("docker.sock").display()));
    daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    daemon.spawn().map_err(|error| format!("dockerd did not start: {error}"))
}

fn answers(socket: &Path) -> bool {
    use std::io::{Read as _, Write as _};
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let mut answer = [0; 15];
    let asked = stream.write_all(b"GET /_ping HTTP/1.0\r\n\r\n").and_then(|()| stream.read_exact(&mut answer));
    asked.is_ok() && answer.ends_with(b"200 OK")
}

impl Drop for Own {
    fn drop(&mut self) {
        // It takes its containers down, so it is asked and not killed.
        let id = self.process.id().to_string();
        if run(Command::new("kill").arg(&id)).is_ok() {
            let _ = self.process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The worker as containers get it: it needs nothing of the image it is put into.
pub(crate) fn worker(release: bool) -> Result<PathBuf, String> {
    let profile = if release { "release" } else { "debug" };
    let mut build = cargo(&["rustc", "--quiet", "--package", "toolgate-worker", "--bin", "toolgate-worker"]);
    if release {
        build.arg("--release");
    }
    run(build.args(["--", "-C", "target-feature=+crt-static"]))?;
    // Every other build puts an ordinary one where this one is now.
    let (built, place) = (target().join(profile).join("toolgate-worker"), target().join("static").join(profile));
    let kept = place.join("toolgate-worker");
    std::fs::create_dir_all(&place)
        .and_then(|()| std::fs::copy(&built, &kept))
        .map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(kept)
}
