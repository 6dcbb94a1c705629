//! A Docker daemon for the tests: the machine's own, or one that lives as long as this run. And Podman's service, always our
//! own.

use std::{
    os::unix::{fs::MetadataExt as _, net::UnixStream},
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
    /// What is run once it has ended, and before its directory goes.
    then: Option<Command>,
}

/// What both kinds of containers are made with.
pub(crate) fn programs() -> Result<(), String> {
    // The image most tests use is made from it.
    peers::have("busybox", &["busybox-static"])?;
    if !answers(Path::new(SYSTEM)) {
        peers::have("dockerd", &["docker.io"])?;
    }
    peers::have("podman", &["podman", "catatonit"])?;
    peers::have("catatonit", &["catatonit"])
}

/// Finds a daemon, or starts one as root.
pub(crate) fn daemon() -> Result<Daemon, String> {
    peers::have("busybox", &["busybox-static"])?;
    if answers(Path::new(SYSTEM)) {
        return Ok(Daemon { socket: SYSTEM.into(), _own: None });
    }
    peers::have("dockerd", &["docker.io"])?;
    let dir = own_dir("docker")?;
    let own = Own { process: start(&dir)?, dir, then: None };
    let none = |last| {
        format!("no Docker daemon: {SYSTEM} does not answer this user, and a daemon of our own did not start: {last}")
    };
    own.answering("docker.sock").map_err(none)
}

/// Starts Podman's service as root, with images and containers of its own: the machine's are not touched.
pub(crate) fn podman() -> Result<Daemon, String> {
    peers::have("busybox", &["busybox-static"])?;
    peers::have("podman", &["podman", "catatonit"])?;
    peers::have("catatonit", &["catatonit"])?;
    if !std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        return Err("no Podman: its service is started as root, for containers whose memory can be limited".into());
    }
    let dir = own_dir("podman")?;
    let podman = |last: &[&str]| {
        let mut podman = Command::new("setpriv");
        podman.args(["--pdeathsig", "TERM", "podman", "--cgroup-manager", "cgroupfs"]).current_dir(&dir);
        podman.arg("--root").arg(dir.join("data")).arg("--runroot").arg(dir.join("run")).args(last);
        podman.stdin(Stdio::null()).stdout(Stdio::null());
        podman
    };
    let log = std::fs::File::create(dir.join("log")).map_err(|error| error.to_string())?;
    let address = format!("unix://{}", dir.join("podman.sock").display());
    let mut service = podman(&["system", "service", "--time=0", &address]);
    let process = service.stderr(log).spawn().map_err(|error| format!("podman did not start: {error}"))?;
    // Its containers do not end with it.
    let then = Some(podman(&["rm", "--all", "--force"]));
    let own = Own { process, dir, then };
    own.answering("podman.sock").map_err(|last| format!("no Podman: its service did not start: {last}"))
}

/// A directory for a daemon of ours.
fn own_dir(name: &str) -> Result<PathBuf, String> {
    let dir = std::env::temp_dir().join(format!("toolgate-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(dir)
}

impl Own {
    /// The daemon once it answers, or the last it says.
    fn answering(self, socket: &str) -> Result<Daemon, String> {
        let socket = self.dir.join(socket);
        for _ in 0..300 {
            if answers(&socket) {
                return Ok(Daemon { socket, _own: Some(self) });
            }
            thread::sleep(Duration::from_millis(100));
        }
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        Err(log.lines().last().unwrap_or("it says nothing").to_owned())
    }
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
        if let Some(Err(why)) = self.then.as_mut().map(run) {
            eprintln!("{why}");
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
